/* SPDX-License-Identifier: Apache-2.0 */
/* A skeleton from a small host of our own: what gets in, what must not, and when its name changes. */
#include "workers/rootfs/skeleton.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "workers/rootfs/skeleton_priv.h"

struct rig {
    char *dir, *host, *home, *base;
};
static const struct bh_box_owner single = {.mode = BH_IDS_SINGLE};

static void put(const char *root, const char *name, const char *text)
{
    BH_CLEANUP_FREE char *path = bh_path_join(root, name);
    BH_CLEANUP_FREE char *dir = bh_path_dirname(path);
    T_OK(bh_mkdir_p(dir, 0755, &err));
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    T_TRUE(fd >= 0 && bh_write_all(fd, text, strlen(text)) == 0);
}

static void put_link(const char *root, const char *name, const char *target)
{
    BH_CLEANUP_FREE char *path = bh_path_join(root, name);
    T_INT(symlink(target, path), 0);
}

static int set_up(void **state)
{
    static struct rig r;
    r = (struct rig){.dir = t_tmpdir()};
    r.host = bh_path_join(r.dir, "host");
    r.home = bh_path_join(r.dir, "home");
    put(r.host, "etc/ld.so.cache", "cache");
    put(r.host, "etc/ssl/certs/ca.pem", "certificate");
    put(r.host, "etc/ssl/private/key.pem", "PRIVATE");
    put(r.host, "etc/npmrc", "//registry/:_authToken=SECRET");
    put(r.host, "etc/passwd", "alice:x:1001:1001::/home/alice:/bin/sh");
    put(r.host, "etc/shadow", "SECRET");
    put(r.host, "etc/python3/site.py", "x");
    put(r.host, "usr/bin/true", "");
    put(r.host, "lib/ld.so", "");
    put_link(r.host, "bin", "usr/bin");
    put_link(r.host, "etc/localtime", "/usr/share/zoneinfo/UTC");
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    bh_free(r->host);
    bh_free(r->home);
    bh_free(r->base);
    t_tmpdir_free(r->dir);
    return 0;
}

static char *ensure(struct rig *r)
{
    char *name = NULL;
    T_OK(bh_skeleton_ensure_from(r->host, r->home, &single, &name, &err));
    bh_free(r->base);
    r->base = bh_asprintf("%s/bases/%s", r->home, name);
    return name;
}

static char *in_base(const struct rig *r, const char *name)
{
    return bh_path_join(r->base, name);
}

static bool there(const struct rig *r, const char *name)
{
    struct stat st;
    BH_CLEANUP_FREE char *path = in_base(r, name);
    return lstat(path, &st) == 0;
}

static mode_t mode_of(const struct rig *r, const char *name)
{
    struct stat st;
    BH_CLEANUP_FREE char *path = in_base(r, name);
    return lstat(path, &st) == 0 ? st.st_mode : 0;
}

static void check_text(const struct rig *r, const char *name, const char *part)
{
    BH_CLEANUP_BUF struct bh_buf buf = BH_BUF_INIT;
    BH_CLEANUP_FREE char *path = in_base(r, name);
    T_OK(bh_read_file(path, 10000, &buf, &err));
    if (!strstr(buf.data, part))
        fail_msg("'%s' is not in %s", part, name);
}

static void has_what_programs_need(void **state)
{
    struct rig *r = *state;
    mode_t before = umask(077); /* whatever the caller's is */
    bh_free(ensure(r));
    umask(before);
    check_text(r, "etc/ld.so.cache", "cache");
    check_text(r, "etc/ssl/certs/ca.pem", "certificate");
    check_text(r, "etc/python3/site.py", "x");
    check_text(r, "etc/passwd", "agent:x:1000:1000");
    check_text(r, "etc/group", "agent:x:1000:");
    check_text(r, "etc/hosts", "localhost");
    T_TRUE(S_ISLNK(mode_of(r, "etc/localtime")));
    T_TRUE(S_ISLNK(mode_of(r, "bin")));
    T_TRUE(S_ISDIR(mode_of(r, "lib"))); /* a directory on this host: a place to mount on */
    T_TRUE(!there(r, "lib/ld.so"));
    T_TRUE(!there(r, "lib64"));
    T_INT(mode_of(r, "") & 07777, 0755);
    T_INT(mode_of(r, "etc/ssl/certs") & 07777, 0755);
    T_INT(mode_of(r, "etc/passwd") & 07777, 0644);
    T_INT(mode_of(r, "tmp") & 07777, 01777);
    T_INT(mode_of(r, "root") & 07777, 0700);
    T_INT(mode_of(r, "workspace/out") & 07777, 0775); /* a setup writes there by the group of the agent */
}

static void has_no_secret(void **state)
{
    struct rig *r = *state;
    bh_free(ensure(r));
    T_TRUE(!there(r, "etc/ssl/private"));
    T_TRUE(!there(r, "etc/npmrc"));
    T_TRUE(!there(r, "etc/shadow"));
    BH_CLEANUP_BUF struct bh_buf buf = BH_BUF_INIT;
    BH_CLEANUP_FREE char *passwd = in_base(r, "etc/passwd");
    T_OK(bh_read_file(passwd, 10000, &buf, &err));
    T_TRUE(!strstr(buf.data, "alice"));
}

static void its_name_follows_its_inputs(void **state)
{
    struct rig *r = *state;
    BH_CLEANUP_FREE char *first = ensure(r);
    BH_CLEANUP_FREE char *again = ensure(r);
    T_STR(again, first);
    put(r->host, "etc/ssl/certs/new.pem", "another");
    BH_CLEANUP_FREE char *changed = ensure(r);
    assert_string_not_equal(changed, first);
    check_text(r, "etc/ssl/certs/new.pem", "another");
    put(r->host, "etc/npmrc", "changed"); /* no part of it */
    BH_CLEANUP_FREE char *same = ensure(r);
    T_STR(same, changed);
    char *other = NULL;
    const struct bh_box_owner mine = {.mode = BH_IDS_SINGLE, .first_id = 7};
    T_OK(bh_skeleton_ensure_from(r->host, r->home, &mine, &other, &err));
    assert_string_not_equal(other, changed);
    bh_free(other);
}

static void leaves_out_what_is_odd(void **state)
{
    struct rig *r = *state;
    BH_CLEANUP_FREE char *fifo = bh_path_join(r->host, "etc/python3/fifo");
    T_INT(mkfifo(fifo, 0644), 0);
    BH_CLEANUP_FREE char *big = bh_path_join(r->host, "etc/python3/big");
    put(r->host, "etc/python3/big", "");
    T_INT(truncate(big, BH_COPY_FILE_MAX + 1), 0);
    BH_CLEANUP_FREE char *setuid = bh_path_join(r->host, "etc/python3/setuid");
    put(r->host, "etc/python3/setuid", "x");
    T_INT(chmod(setuid, 04755), 0);
    put_link(r->host, "etc/python3/loop", "loop");
    bh_free(ensure(r));
    T_TRUE(!there(r, "etc/python3/fifo"));
    T_TRUE(!there(r, "etc/python3/big"));
    T_INT(mode_of(r, "etc/python3/setuid") & 07777, 0755);
    T_TRUE(S_ISLNK(mode_of(r, "etc/python3/loop")));
}

static void is_not_kept_by_a_dead_attempt(void **state)
{
    struct rig *r = *state;
    BH_CLEANUP_FREE char *name = ensure(r);
    BH_CLEANUP_FREE char *half = bh_asprintf("%s/bases/" BH_TEMPORARY_PREFIX "%s-%d-0/x", r->home, name, (int)getpid());
    t_tmpdir_free(BH_TAKE(r->base)); /* and make it again */
    T_OK(bh_mkdir_p(half, 0755, &err));
    BH_CLEANUP_FREE char *again = ensure(r);
    T_STR(again, name);
    T_TRUE(access(half, F_OK) == 0); /* the sweep of a run or gc removes it */
    check_text(r, "etc/hostname", "bulkhead");
}

static void says_what_it_cannot_write(void **state)
{
    struct rig *r = *state;
    char *name = NULL;
    put(r->dir, "file", "");
    BH_CLEANUP_FREE char *file = bh_path_join(r->dir, "file");
    T_ERR(bh_skeleton_ensure_from(r->host, file, &single, &name, &err), BH_E_IO, "file");
    T_ERR(bh_skeleton_ensure_from(file, r->home, &single, &name, &err), BH_E_IO, "/etc");
    T_TRUE(!name);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(has_what_programs_need),        TEST(has_no_secret),
        TEST(its_name_follows_its_inputs),   TEST(leaves_out_what_is_odd),
        TEST(is_not_kept_by_a_dead_attempt), TEST(says_what_it_cannot_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
