/* SPDX-License-Identifier: Apache-2.0 */
/* What a kept box stands on: written, read back, and refused where it is not what was written. */
#include "workers/box/stand.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/support/t.h"

struct rig {
    char *dir;
    int fd;
};

static int set_up(void **state)
{
    static struct rig r;
    r.dir = t_tmpdir();
    r.fd = open(r.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    bh_close(r->fd);
    t_tmpdir_free(r->dir);
    return 0;
}

static void write_text(const struct rig *r, const char *text)
{
    BH_CLEANUP_FD int fd = openat(r->fd, BH_BOX_STAND, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    T_TRUE(fd >= 0 && bh_write_all(fd, text, strlen(text)) == 0);
}

static void all_of_it_comes_back(void **state)
{
    const struct rig *r = *state;
    char base[] = "host-range-1", dirs[] = "usr-1", two[] = "crew-2", one[] = "crew-1", key[] = "ab12";
    char *layers[] = {two, one}, *snapshots[] = {key};
    const struct bh_box_stand stand = {.base = base,
                                       .usr_dirs = dirs,
                                       .layers = layers,
                                       .n_layers = 2,
                                       .snapshots = snapshots,
                                       .n_snapshots = 1,
                                       .writable_usr = true,
                                       .agent_uid = 7,
                                       .agent_gid = 8,
                                       .owner = {.mode = BH_IDS_RANGE, .first_id = 200000}};
    struct bh_box_stand got;
    T_INT(bh_box_stand_write(r->fd, &stand), 0);
    T_INT(bh_box_stand_write(r->fd, &stand), 0); /* in the place of an older one */
    T_OK(bh_box_stand_read(r->fd, &got, &err));
    T_STR(got.base, "host-range-1");
    T_STR(got.usr_dirs, "usr-1");
    T_INT(got.n_base_layers, 0);
    T_INT(got.n_layers, 2);
    T_STR(got.layers[1], "crew-1");
    T_INT(got.n_snapshots, 1);
    T_STR(got.snapshots[0], "ab12");
    T_TRUE(got.writable_usr && !got.shared);
    T_INT(got.agent_uid, 7);
    T_INT(got.agent_gid, 8);
    T_INT(got.owner.mode, BH_IDS_RANGE);
    T_INT(got.owner.first_id, 200000);
    bh_box_stand_fini(&got);
}

static void what_was_not_written_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "no json",
        "{}",
        "{\"version\":2,\"base\":\"b\"}",
        "{\"version\":1}",
        "{\"version\":1,\"base\":\"../up\"}",
        "{\"version\":1,\"base\":\"b\",\"layers\":[\"a/b\"]}",
        "{\"version\":1,\"base\":\"b\",\"snapshots\":[\"..\"]}",
        "{\"version\":1,\"base\":\"b\",\"layers\":[\"ok\",3]}",
    };
    const struct rig *r = *state;
    struct bh_box_stand got;
    T_ERR(bh_box_stand_read(r->fd, &got, &err), BH_E_NOT_FOUND, BH_BOX_STAND);
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        write_text(r, bad[i]);
        T_ERR(bh_box_stand_read(r->fd, &got, &err), BH_E_STORE_CORRUPT, "does not say what the box stands on");
    }
}

static void a_link_is_no_record(void **state)
{
    const struct rig *r = *state;
    struct bh_box_stand got;
    T_INT(symlinkat("/etc/passwd", r->fd, BH_BOX_STAND), 0);
    T_ERR(bh_box_stand_read(r->fd, &got, &err), BH_E_IO, BH_BOX_STAND);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_of_it_comes_back),
        TEST(what_was_not_written_is_refused),
        TEST(a_link_is_no_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
