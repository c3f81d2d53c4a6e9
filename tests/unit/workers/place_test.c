/* SPDX-License-Identifier: Apache-2.0 */
/* Files into a workspace and outputs out of it, with somebody hostile in between. In an ordinary folder, as anybody. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "workers/init/init.h"

struct rig {
    char *dir;
    int box;
    struct bh_place p;
};

static char *path_of(const struct rig *r, const char *name)
{
    return bh_path_join(r->dir, name);
}

static void write_text(const struct rig *r, const char *name, const char *text)
{
    BH_CLEANUP_FREE char *path = path_of(r, name);
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    T_TRUE(fd >= 0 && bh_write_all(fd, text, strlen(text)) == 0);
}

static void check_text(const struct rig *r, const char *name, const char *text)
{
    BH_CLEANUP_BUF struct bh_buf buf = BH_BUF_INIT;
    BH_CLEANUP_FREE char *path = path_of(r, name);
    T_OK(bh_read_file(path, 1000, &buf, &err));
    T_STR(buf.data, text);
}

static mode_t mode_of(const struct rig *r, const char *name)
{
    struct stat st;
    BH_CLEANUP_FREE char *path = path_of(r, name);
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode;
}

static void link_to(const struct rig *r, const char *target, const char *name)
{
    BH_CLEANUP_FREE char *path = path_of(r, name);
    T_INT(symlink(target, path), 0);
}

static void make_dir(const struct rig *r, const char *name)
{
    BH_CLEANUP_FREE char *path = path_of(r, name);
    T_INT(mkdir(path, 0755), 0);
}

static int set_up(void **state)
{
    static struct rig r;
    r = (struct rig){.dir = t_tmpdir()};
    make_dir(&r, "deliver");
    make_dir(&r, "workspace");
    make_dir(&r, "workspace/out");
    make_dir(&r, "outside");
    write_text(&r, "outside/secret", "secret");
    write_text(&r, "deliver/tool", "#!/bin/sh\n");
    r.box = open(r.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    r.p.workspace = openat(r.box, "workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r.p.deliver = openat(r.box, "deliver", O_PATH | O_DIRECTORY | O_CLOEXEC);
    r.p.owner = (struct bh_owner){getuid(), getgid()};
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    bh_close(r->box);
    bh_close(r->p.workspace);
    bh_close(r->p.deliver);
    t_tmpdir_free(r->dir);
    return 0;
}

static void check_fail(struct bh_fail *fail, int rc, int error, const char *part)
{
    T_INT(rc, -1);
    T_INT(fail->error, error);
    T_TRUE(strstr(fail->step, part));
}

static void copies_with_parents_and_bits(void **state)
{
    struct rig *r = *state;
    struct bh_fail fail = {0};
    T_INT(bh_place_copy(&r->p, "tool", "a/b/tool", true, &fail), 0);
    check_text(r, "workspace/a/b/tool", "#!/bin/sh\n");
    T_INT(mode_of(r, "workspace/a/b/tool") & 07777, 0755);
    T_INT(mode_of(r, "workspace/a/b") & 07777, 0755);
    T_INT(bh_place_copy(&r->p, "tool", "plain", false, &fail), 0);
    T_INT(mode_of(r, "workspace/plain") & 07777, 0644);
    T_INT(bh_place_copy(&r->p, "tool", "plain", true, &fail), 0); /* again, over it */
    T_INT(mode_of(r, "workspace/plain") & 07777, 0755);
}

static void replaces_symlinks(void **state)
{
    struct rig *r = *state;
    struct bh_fail fail = {0};
    link_to(r, "../outside", "workspace/dir");
    link_to(r, "../outside/secret", "workspace/file");
    link_to(r, "nowhere", "workspace/dangling");
    T_INT(bh_place_copy(&r->p, "tool", "dir/secret", false, &fail), 0);
    T_INT(bh_place_copy(&r->p, "tool", "file", false, &fail), 0);
    T_INT(bh_place_copy(&r->p, "tool", "dangling", false, &fail), 0);
    check_text(r, "outside/secret", "secret");
    T_TRUE(S_ISDIR(mode_of(r, "workspace/dir")));
    T_TRUE(S_ISREG(mode_of(r, "workspace/file")));
    T_TRUE(S_ISREG(mode_of(r, "workspace/dangling")));
}

static void says_what_cannot_be_copied(void **state)
{
    struct rig *r = *state;
    struct bh_fail fail = {0};
    make_dir(r, "workspace/taken");
    make_dir(r, "workspace/taken/by");
    write_text(r, "workspace/flat", "");
    link_to(r, "../outside/secret", "deliver/link");
    make_dir(r, "deliver/folder");
    static const char *const own[] = {"in", "in/x", "prompt.md", "params.json", "needs.json"};
    for (size_t i = 0; i < BH_ARRAY_LEN(own); i++) {
        check_fail(&fail, bh_place_file(&r->p, "tool", own[i], false, &fail), EPERM, own[i]);
        check_fail(&fail, bh_place_empty(&r->p, own[i], &fail), EINVAL, own[i]);
    }
    T_INT(bh_place_file(&r->p, "tool", "inside/prompt.md", false, &fail), 0);
    check_fail(&fail, bh_place_copy(&r->p, "tool", "../x", false, &fail), EINVAL, "../x");
    check_fail(&fail, bh_place_copy(&r->p, "tool", "/etc/x", false, &fail), EINVAL, "/etc/x");
    check_fail(&fail, bh_place_copy(&r->p, "none", "x", false, &fail), ENOENT, "copy x");
    check_fail(&fail, bh_place_copy(&r->p, "link", "x", false, &fail), ELOOP, "copy x");
    check_fail(&fail, bh_place_copy(&r->p, "folder", "x", false, &fail), EINVAL, "copy x");
    check_fail(&fail, bh_place_copy(&r->p, "../outside/secret", "x", false, &fail), EINVAL, "copy x");
    check_fail(&fail, bh_place_copy(&r->p, "tool", "flat/x", false, &fail), ENOTDIR, "flat/x");
    check_fail(&fail, bh_place_copy(&r->p, "tool", "taken", false, &fail), EISDIR, "taken");
    BH_CLEANUP_FREE char *left = path_of(r, "workspace/" BH_TEMPORARY_PREFIX "5");
    T_TRUE(access(left, F_OK) < 0);
}

static void empties_beneath(void **state)
{
    struct rig *r = *state;
    struct bh_fail fail = {0};
    make_dir(r, "workspace/out/deep");
    write_text(r, "workspace/out/deep/f", "");
    link_to(r, "../../outside", "workspace/out/link");
    T_INT(bh_place_empty(&r->p, "out/deep", &fail), 0);
    T_INT(bh_place_empty(&r->p, "out/nothing", &fail), 0);
    T_INT(bh_place_empty(&r->p, "no/such/folder", &fail), 0);
    T_INT(bh_place_empty(&r->p, "out/link/secret", &fail), 0); /* a symlink in the way leads nowhere */
    T_INT(bh_place_empty(&r->p, "out/link", &fail), 0);
    check_text(r, "outside/secret", "secret");
    BH_CLEANUP_FREE char *deep = path_of(r, "workspace/out/deep");
    T_TRUE(access(deep, F_OK) < 0);
    check_fail(&fail, bh_place_empty(&r->p, "out/../../outside", &fail), EINVAL, "outside");
}

static void makes_targets(void **state)
{
    struct rig *r = *state;
    struct bh_fail fail = {0};
    link_to(r, "../outside", "workspace/in");
    T_INT(bh_place_target(r->p.workspace, "in", true, &fail), 0);
    T_TRUE(S_ISDIR(mode_of(r, "workspace/in")));
    T_INT(bh_place_target(r->p.workspace, "prompt.md", false, &fail), 0);
    T_INT(bh_place_target(r->p.workspace, "prompt.md", false, &fail), 0);
    T_TRUE(S_ISREG(mode_of(r, "workspace/prompt.md")));
    check_fail(&fail, bh_place_target(r->p.workspace, "prompt.md", true, &fail), ENOTDIR, "prompt.md");
    check_fail(&fail, bh_place_target(r->p.workspace, "in", false, &fail), EISDIR, "in");
}

/* --- outputs --- */

static int open_output(struct rig *r, const char *root, const char *path, int want_errno)
{
    int fd = bh_output_open(r->box, root, path);
    if (want_errno)
        T_TRUE(fd < 0 && errno == want_errno);
    else
        T_TRUE(fd >= 0);
    return fd;
}

static void opens_outputs(void **state)
{
    struct rig *r = *state;
    struct stat st;
    write_text(r, "workspace/out/a.txt", "content");
    make_dir(r, "workspace/out/tree");
    char bytes[16] = "";
    BH_CLEANUP_FD int file = open_output(r, "out", "a.txt", 0);
    T_INT(read(file, bytes, sizeof(bytes) - 1), 7);
    T_STR(bytes, "content");
    T_INT(fcntl(file, F_GETFL) & O_ACCMODE, O_RDONLY);
    BH_CLEANUP_FD int same = open_output(r, ".", "out/a.txt", 0);
    T_TRUE(fstat(same, &st) == 0 && st.st_size == 7);
    BH_CLEANUP_FD int tree = open_output(r, "out", "tree", 0);
    T_TRUE(fcntl(tree, F_GETFL) & O_PATH);
}

static void opens_nothing_outside(void **state)
{
    struct rig *r = *state;
    link_to(r, "../../outside/secret", "workspace/out/link");
    link_to(r, "../../outside", "workspace/out/dir");
    link_to(r, "/etc/passwd", "workspace/out/absolute");
    open_output(r, "out", "link", ELOOP);
    open_output(r, "out", "dir/secret", ELOOP);
    open_output(r, "out", "absolute", ELOOP);
    open_output(r, "out", "../../outside/secret", EINVAL);
    open_output(r, "out/../..", "outside/secret", EINVAL);
    open_output(r, "out", "/etc/passwd", EINVAL);
    open_output(r, "out", "", EINVAL);
    open_output(r, "out", "none", ENOENT);
    link_to(r, "../outside", "workspace/root");
    open_output(r, "root", "secret", ELOOP);
}

static void opens_odd_things_without_blocking(void **state)
{
    struct rig *r = *state;
    struct stat st;
    BH_CLEANUP_FREE char *fifo = path_of(r, "workspace/out/fifo");
    T_INT(mkfifo(fifo, 0644), 0);
    BH_CLEANUP_FD int fd = open_output(r, "out", "fifo", 0);
    T_TRUE(fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode));
    BH_CLEANUP_FREE char *sock = path_of(r, "workspace/out/sock");
    T_INT(mknod(sock, S_IFSOCK | 0644, 0), 0);
    BH_CLEANUP_FD int s = open_output(r, "out", "sock", 0);
    T_TRUE(fstat(s, &st) == 0 && S_ISSOCK(st.st_mode));
}

static void gives_without_following(void **state)
{
    struct rig *r = *state;
    struct bh_fail fail = {0};
    make_dir(r, "home");
    make_dir(r, "home/agent");
    link_to(r, "../outside", "workspace/link");
    write_text(r, "workspace/out/f", "");
    T_INT(bh_give_to_agent(r->box, (struct bh_owner){getuid(), getgid()}, &fail),
          0); /* already ours: nothing to do, and nothing followed */
    if (getuid() != 0)
        return;
    T_INT(bh_give_to_agent(r->box, (struct bh_owner){1000, 1001}, &fail), 0);
    struct stat st;
    BH_CLEANUP_FREE char *secret = path_of(r, "outside/secret");
    BH_CLEANUP_FREE char *given = path_of(r, "workspace/out/f");
    BH_CLEANUP_FREE char *link = path_of(r, "workspace/link");
    T_TRUE(lstat(secret, &st) == 0 && st.st_uid == 0);
    T_TRUE(lstat(given, &st) == 0 && st.st_uid == 1000 && st.st_gid == 1001);
    T_TRUE(lstat(link, &st) == 0 && st.st_uid == 1000);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(copies_with_parents_and_bits),
        TEST(replaces_symlinks),
        TEST(says_what_cannot_be_copied),
        TEST(empties_beneath),
        TEST(makes_targets),
        TEST(opens_outputs),
        TEST(opens_nothing_outside),
        TEST(opens_odd_things_without_blocking),
        TEST(gives_without_following),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
