/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "tests/unit/base/mount_ns.h"

static char *top;
static int dir = -1;

static int open_top(void **state)
{
    (void)state;
    top = t_tmpdir();
    dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir < 0;
}

/* ext4 needs seconds to make a tree that deep; a tmpfs does not. */
static int open_top_in_memory(void **state)
{
    BH_CLEANUP_FREE char *kept = bh_strdup(getenv("TMPDIR"));
    if (access("/dev/shm", W_OK | X_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 1);
    int r = open_top(state);
    if (kept)
        (void)setenv("TMPDIR", kept, 1);
    else
        (void)unsetenv("TMPDIR");
    return r;
}

static int close_top(void **state)
{
    (void)state;
    bh_close(dir);
    t_tmpdir_free(top);
    return 0;
}

static void put(int at, const char *name)
{
    BH_CLEANUP_FD int fd = openat(at, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    T_TRUE(fd >= 0);
}

static bool exists(const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void test_simple_things(void **state)
{
    (void)state;
    T_INT(bh_rmtree_at(dir, "missing"), 0);
    T_INT(bh_rmtree_at(dir, "missing/deeper"), 0);
    put(dir, "file");
    T_INT(bh_rmtree_at(dir, "file"), 0);
    assert_false(exists("file"));
    T_INT(mkdirat(dir, "empty", 0755), 0);
    T_INT(bh_rmtree_at(dir, "empty"), 0);
    assert_false(exists("empty"));
    put(dir, "file");
    T_INT(bh_rmtree_at(dir, "file/x"), -1);
    T_INT(errno, ENOTDIR);
    T_TRUE(exists("file"));
}

static void test_is_found_whole_or_not_at_all(void **state)
{
    (void)state;
    T_INT(bh_rmtree_whole_at(dir, "missing"), 0);
    T_INT(mkdirat(dir, "tree", 0755), 0);
    put(dir, "tree/f");
    T_INT(mkdirat(dir, BH_TEMPORARY_PREFIX "tree", 0755), 0); /* of one that was killed on the way */
    put(dir, BH_TEMPORARY_PREFIX "tree/f");
    T_INT(bh_rmtree_whole_at(dir, "tree"), 0);
    assert_false(exists("tree") || exists(BH_TEMPORARY_PREFIX "tree"));
    T_INT(mkdirat(dir, BH_TEMPORARY_PREFIX "x", 0755), 0);
    T_INT(bh_rmtree_whole_at(dir, BH_TEMPORARY_PREFIX "x"), 0);
    assert_false(exists(BH_TEMPORARY_PREFIX "x"));
    char longest[NAME_MAX + 1];
    memset(longest, 'n', NAME_MAX);
    longest[NAME_MAX] = '\0';
    T_INT(mkdirat(dir, longest, 0755), 0);
    T_INT(bh_rmtree_whole_at(dir, longest), -1);
    T_INT(errno, ENAMETOOLONG);
    T_TRUE(exists(longest));
    T_INT(bh_rmtree_at(dir, longest), 0);
}

static void test_links_are_removed_not_followed(void **state)
{
    (void)state;
    T_INT(mkdirat(dir, "kept", 0755), 0);
    put(dir, "kept/f");
    T_INT(symlinkat("kept", dir, "link"), 0);
    T_INT(bh_rmtree_at(dir, "link"), 0);
    assert_false(exists("link"));
    T_INT(mkdirat(dir, "tree", 0755), 0);
    T_INT(mkdirat(dir, "tree/sub", 0755), 0);
    T_INT(symlinkat("../../kept", dir, "tree/sub/link"), 0);
    T_INT(symlinkat("/", dir, "tree/root"), 0);
    T_INT(symlinkat("loop", dir, "tree/loop"), 0);
    T_INT(mkfifoat(dir, "tree/fifo", 0600), 0);
    T_INT(bh_rmtree_at(dir, "tree"), 0);
    assert_false(exists("tree"));
    T_TRUE(exists("kept/f"));
}

static void test_absolute_path(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *path = bh_path_join(top, "abs");
    T_OK(bh_mkdir_p(path, 0755, &err));
    put(dir, "abs/f");
    T_INT(bh_rmtree_at(AT_FDCWD, path), 0);
    assert_false(exists("abs"));
}

static void test_wide_tree(void **state)
{
    (void)state;
    char name[64];
    T_INT(mkdirat(dir, "wide", 0755), 0);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "wide/d%d", i);
        T_INT(mkdirat(dir, name, 0755), 0);
        for (int k = 0; k < 20; k++) {
            (void)snprintf(name, sizeof(name), "wide/d%d/%d", i, k);
            if (k % 2)
                put(dir, name);
            else
                T_INT(mkdirat(dir, name, 0755), 0);
        }
    }
    T_INT(bh_rmtree_at(dir, "wide"), 0);
    assert_false(exists("wide"));
}

#define LEVELS 10000

/* No path can name the bottom, no stack could hold the levels, and only 16 descriptors are allowed. */
static void test_ten_thousand_levels(void **state)
{
    (void)state;
    int at = dup(dir);
    for (int i = 0; i < LEVELS; i++) {
        T_INT(mkdirat(at, "a-level", 0755), 0);
        if (i % 1000 == 0)
            put(at, "file");
        int next = openat(at, "a-level", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        T_TRUE(next >= 0);
        close(at);
        at = next;
    }
    close(at);
    struct rlimit old, few;
    T_INT(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = 16;
    T_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    int r = bh_rmtree_at(dir, "a-level");
    T_INT(setrlimit(RLIMIT_NOFILE, &old), 0);
    T_INT(r, 0);
    assert_false(exists("a-level"));
    (void)unlinkat(dir, "file", 0);
}

static size_t open_fds(void)
{
    DIR *fds = opendir("/proc/self/fd");
    size_t n = 0;
    assert_non_null(fds);
    while (readdir(fds))
        n++;
    closedir(fds);
    return n;
}

static void test_descriptors_come_back(void **state)
{
    (void)state;
    size_t before = open_fds();
    T_INT(mkdirat(dir, "t", 0755), 0);
    T_INT(mkdirat(dir, "t/u", 0755), 0);
    put(dir, "t/u/f");
    T_INT(bh_rmtree_at(dir, "t"), 0);
    T_INT(open_fds(), before);
}

/* In the child: gives up root if it has it, so that permission bits mean something. */
static int drop_root(void)
{
    if (geteuid() != 0)
        return 0;
    if (fchown(dir, 65534, 65534) != 0 || setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)
        return -1;
    return 0;
}

/* Exit status of `act` in a child. */
static int in_child(int (*act)(void))
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(act());
    int status;
    T_INT(waitpid(pid, &status, 0), pid);
    T_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int closed_directories(void)
{
    static const char *const names[] = {"c", "c/000", "c/000/sub", "c/000/sub/x", "c/444", "c/555"};
    static const struct {
        const char *name;
        mode_t mode;
    } modes[] = {{"c/000/sub", 0}, {"c/000", 0}, {"c/444", 0444}, {"c/555", 0555}, {"c", 0}};
    if (drop_root() != 0)
        return 77;
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        if (mkdirat(dir, names[i], 0755) != 0)
            return 2;
    }
    put(dir, "c/444/f");
    put(dir, "c/555/f");
    put(dir, "c/000/sub/f");
    for (size_t i = 0; i < BH_ARRAY_LEN(modes); i++) {
        if (fchmodat(dir, modes[i].name, modes[i].mode, 0) != 0)
            return 3;
    }
    struct stat st;
    if (bh_rmtree_at(dir, "c") != 0)
        return 4;
    return fstatat(dir, "c", &st, 0) == 0 ? 5 : 0;
}

static void test_directories_without_permissions(void **state)
{
    (void)state;
    int r = in_child(closed_directories);
    if (r == 77)
        t_skip("root", "cannot become an ordinary user here");
    T_INT(r, 0);
}

/* What belongs to somebody else stays; everything around it goes; the first errno is told. */
static int foreign_directory(void)
{
    struct stat st;
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)
        return 77;
    if (bh_rmtree_at(dir, "own") != -1 || errno != EACCES)
        return 2;
    if (fstatat(dir, "own/foreign/f", &st, 0) != 0 || fstatat(dir, "own/a", &st, 0) == 0 ||
        fstatat(dir, "own/z", &st, 0) == 0)
        return 3;
    return 0;
}

static void test_goes_on_past_a_failure(void **state)
{
    (void)state;
    if (geteuid() != 0 || fchown(dir, 65534, 65534) != 0)
        t_skip("root", "needs two users");
    static const char *const names[] = {"own", "own/a", "own/z", "own/foreign"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        T_INT(mkdirat(dir, names[i], 0755), 0);
        T_INT(fchownat(dir, names[i], i < 3 ? 65534 : 0, 0, 0), 0);
    }
    put(dir, "own/a/f");
    put(dir, "own/z/f");
    put(dir, "own/foreign/f");
    int r = in_child(foreign_directory);
    if (r == 77)
        t_skip("root", "cannot become an ordinary user here");
    T_INT(r, 0);
    T_INT(bh_rmtree_at(dir, "own"), 0);
}

static int bind(const char *from, const char *to)
{
    BH_CLEANUP_FREE char *source = bh_path_join(top, from), *target = bh_path_join(top, to);
    return mount(source, target, NULL, MS_BIND, NULL);
}

static int mounts_in_the_tree(void)
{
    static const char *const names[] = {"precious",        "m",       "m/bind",     "m/tmp",
                                        "m/bind_file_dir", "m/other", "m/other/sub"};
    BH_CLEANUP_FREE char *tmp = bh_path_join(top, "m/tmp");
    struct stat st;
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        if (mkdirat(dir, names[i], 0755) != 0)
            return 2;
    }
    put(dir, "precious/f");
    put(dir, "m/other/sub/f");
    if (enter_mount_namespace() != 0 || bind("precious", "m/bind") != 0)
        return 77;
    if (mount("none", tmp, "tmpfs", 0, NULL) != 0)
        return 77;
    BH_CLEANUP_FREE char *kept = bh_path_join(tmp, "kept");
    put(AT_FDCWD, kept);
    if (bh_rmtree_at(dir, "m") != -1 || errno != EBUSY)
        return 3;
    if (fstatat(dir, "precious/f", &st, 0) != 0 || stat(kept, &st) != 0)
        return 4;
    if (fstatat(dir, "m/other", &st, 0) == 0)
        return 5;
    /* A mount point given as the tree itself is left alone, too. */
    if (bh_rmtree_at(dir, "m/bind") != -1 || errno != EBUSY)
        return 6;
    return fstatat(dir, "precious/f", &st, 0) == 0 ? 0 : 7;
}

static void test_never_enters_a_mount(void **state)
{
    (void)state;
    int r = in_child(mounts_in_the_tree);
    if (r == 77)
        t_skip("userns", "cannot mount in a user namespace here");
    T_INT(r, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_simple_things, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_is_found_whole_or_not_at_all, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_links_are_removed_not_followed, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_absolute_path, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_wide_tree, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_ten_thousand_levels, open_top_in_memory, close_top),
        cmocka_unit_test_setup_teardown(test_descriptors_come_back, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_directories_without_permissions, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_goes_on_past_a_failure, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_never_enters_a_mount, open_top, close_top),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
