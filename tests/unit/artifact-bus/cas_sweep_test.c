/* SPDX-License-Identifier: Apache-2.0 */
/* What nobody wants leaves the store; what is wanted, or no object, stays; who has it open is waited for. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "artifact-bus/cas.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"

struct rig {
    char *dir, *cas, *tmp;
    char wanted[65];
    size_t n;
    int64_t bytes;
};

static int set_up(void **state)
{
    static struct rig r;
    r = (struct rig){.dir = t_tmpdir()};
    r.cas = bh_path_join(r.dir, "cas");
    r.tmp = bh_path_join(r.dir, "tmp");
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    t_tmpdir_free(r->dir);
    bh_free(r->cas);
    bh_free(r->tmp);
    return 0;
}

static struct bh_cas *open_cas(const struct rig *r)
{
    struct bh_cas *cas = NULL;
    T_OK(bh_cas_open(r->cas, r->tmp, &cas, &err));
    return cas;
}

static struct bh_digest put(const struct rig *r, const char *text)
{
    struct bh_object object;
    struct bh_cas *cas = open_cas(r);
    T_OK(bh_cas_put_bytes(cas, text, strlen(text), &object, &err));
    T_OK(bh_cas_sync(cas, &err));
    bh_cas_close(cas);
    return object.digest;
}

static void want(struct rig *r, const struct bh_digest *digest)
{
    char text[BH_DIGEST_TEXT];
    (void)snprintf(r->wanted, sizeof(r->wanted), "%s", bh_digest_format(digest, text) + strlen("sha256:"));
}

static bool is_wanted(void *arg, const char *hex)
{
    const struct rig *r = arg;
    return strcmp(hex, r->wanted) == 0;
}

static void found(void *arg, const char *path, int64_t bytes, int error)
{
    struct rig *r = arg;
    T_TRUE(strncmp(path, "sha256/", 7) == 0);
    T_INT(error, 0);
    r->n++;
    r->bytes += bytes;
}

static void sweep(struct rig *r, bool dry_run)
{
    const struct bh_cas_sweep how = {dry_run, is_wanted, found, r};
    BH_CLEANUP_FD int held = bh_cas_hold(r->cas);
    T_TRUE(held >= 0);
    T_OK(bh_cas_sweep(r->cas, &how, &err));
}

static bool has(const struct rig *r, const struct bh_digest *digest)
{
    struct bh_cas *cas = open_cas(r);
    bool there = bh_cas_has(cas, digest);
    bh_cas_close(cas);
    return there;
}

static void the_unwanted_goes(void **state)
{
    struct rig *r = *state;
    struct bh_digest keep = put(r, "keep"), go = put(r, "go");
    want(r, &keep);
    sweep(r, true);
    T_INT(r->n, 1);
    T_TRUE(r->bytes > 0 && has(r, &go)); /* only said */
    sweep(r, false);
    T_INT(r->n, 2);
    T_TRUE(has(r, &keep) && !has(r, &go));
    sweep(r, false);
    T_INT(r->n, 2);
}

static void what_is_no_object_stays(void **state)
{
    struct rig *r = *state;
    (void)put(r, "x");
    static const char *const names[] = {"sha256/ab/short", "sha256/zz", "sha256/notes"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        BH_CLEANUP_FREE char *path = bh_path_join(r->cas, names[i]);
        BH_CLEANUP_FREE char *parent = bh_path_dirname(path);
        T_OK(bh_mkdir_p(parent, 0700, &err));
        T_OK(bh_write_file_atomic(path, "x", 1, 0600, &err));
    }
    sweep(r, false);
    T_INT(r->n, 1);
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        BH_CLEANUP_FREE char *path = bh_path_join(r->cas, names[i]);
        T_INT(access(path, F_OK), 0);
    }
}

static void whoever_has_it_open_keeps_it(void **state)
{
    struct rig *r = *state;
    struct bh_cas *one = open_cas(r), *other = open_cas(r);
    T_INT(bh_cas_hold(r->cas), -1);
    T_INT(errno, EWOULDBLOCK);
    bh_cas_close(one);
    T_INT(bh_cas_hold(r->cas), -1);
    bh_cas_close(other);
    BH_CLEANUP_FD int held = bh_cas_hold(r->cas);
    T_TRUE(held >= 0);
}

static void a_missing_store_is_empty(void **state)
{
    struct rig *r = *state;
    const struct bh_cas_sweep how = {false, is_wanted, found, r};
    T_INT(bh_cas_hold(r->cas), -1);
    T_INT(errno, ENOENT);
    T_OK(bh_cas_sweep(r->cas, &how, &err));
    T_INT(r->n, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_unwanted_goes),
        TEST(what_is_no_object_stays),
        TEST(whoever_has_it_open_keeps_it),
        TEST(a_missing_store_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
