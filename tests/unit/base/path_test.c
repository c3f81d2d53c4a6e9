/* SPDX-License-Identifier: Apache-2.0 */
/* Each question about names is put to openat2 and to the walk; both must give the same answer, errno included. */
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "tests/support/t.h"

static char *top;     /* holds root/ and secret */
static int root = -1; /* the descriptor of root/ */

static void put(int dirfd, const char *name, const char *text)
{
    BH_CLEANUP_FD int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    T_INT(bh_write_all(fd, text, strlen(text)), 0);
}

static int make_tree(void **state)
{
    (void)state;
    top = t_tmpdir();
    BH_CLEANUP_FD int dir = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
    T_INT(mkdirat(dir, "root", 0755), 0);
    T_INT(mkdirat(dir, "outside", 0755), 0);
    put(dir, "secret", "secret");
    put(dir, "outside/f", "secret");
    root = openat(dir, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_INT(mkdirat(root, "d", 0755), 0);
    T_INT(mkdirat(root, "d/e", 0755), 0);
    put(root, "f", "f");
    put(root, "d/g", "g");
    put(root, "d/e/h", "h");
    T_INT(mkfifoat(root, "fifo", 0600), 0);
    T_INT(symlinkat("f", root, "to_file"), 0);
    T_INT(symlinkat("d", root, "to_dir"), 0);
    T_INT(symlinkat("../secret", root, "to_secret"), 0);
    T_INT(symlinkat("../outside", root, "to_outside"), 0);
    T_INT(symlinkat("/etc", root, "to_etc"), 0);
    T_INT(symlinkat("loop", root, "loop"), 0);
    T_INT(symlinkat("gone", root, "dangling"), 0);
    T_INT(symlinkat("../../secret", root, "d/up"), 0);
    return 0;
}

static int remove_tree(void **state)
{
    (void)state;
    bh_close(root);
    t_tmpdir_free(top);
    return 0;
}

static void test_the_filter_is_in_force(void **state)
{
    (void)state;
    const char *denied = getenv("BH_DENIED");
    if (!denied)
        return; /* the run without a filter */
    if (strcmp(denied, "O_TMPFILE") == 0) {
        T_INT(open(top, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600), -1);
        T_INT(errno, EOPNOTSUPP);
        return;
    }
    struct open_how how = {.flags = O_PATH | O_CLOEXEC};
    T_INT(syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how)), -1);
    T_INT(errno, strstr(denied, "EPERM") ? EPERM : ENOSYS);
}

struct answer {
    int why; /* 0: opened */
    dev_t dev;
    ino_t ino;
};

static struct answer ask(int dirfd, const char *name, int flags, bool walk)
{
    struct stat st;
    bh_path_force_fallback(walk);
    BH_CLEANUP_FD int fd = bh_open_beneath(dirfd, name, flags, 0644);
    bh_path_force_fallback(false);
    if (fd < 0)
        return (struct answer){.why = errno};
    T_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    T_INT(fstat(fd, &st), 0);
    return (struct answer){.dev = st.st_dev, .ino = st.st_ino};
}

static const int all_flags[] = {
    O_RDONLY,
    O_RDONLY | O_NONBLOCK,
    O_RDWR | O_NONBLOCK,
    O_RDONLY | O_DIRECTORY,
    O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
    O_PATH,
    O_PATH | O_NOFOLLOW,
    O_PATH | O_DIRECTORY,
    O_PATH | O_DIRECTORY | O_NOFOLLOW,
};

static const char *const all_names[] = {
    "f",
    "d",
    "d/g",
    "d/e/h",
    ".",
    "./f",
    "./d/./e/./h",
    "d//g",
    "d/",
    "d/.",
    "f/",
    "f/.",
    "gone",
    "gone/f",
    "d/gone",
    "f/g",
    "to_file",
    "to_dir",
    "to_dir/g",
    "to_dir/",
    "to_dir/.",
    "to_secret",
    "to_outside",
    "to_outside/f",
    "to_etc",
    "to_etc/passwd",
    "loop",
    "loop/f",
    "dangling",
    "dangling/f",
    "d/up",
    "d/up/x",
    "..",
    "../secret",
    "d/..",
    "d/../f",
    "d/../../secret",
    "/",
    "/etc/passwd",
    "/etc",
    "",
    "...",
    ".../f",
    "..f",
    "//f",
    "d/e/../../f",
    "./..",
    "./",
};

static void test_both_ways_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(all_names); i++) {
        for (size_t k = 0; k < BH_ARRAY_LEN(all_flags); k++) {
            struct answer a = ask(root, all_names[i], all_flags[k], false);
            struct answer b = ask(root, all_names[i], all_flags[k], true);
            if (a.why != b.why || a.dev != b.dev || a.ino != b.ino)
                fail_msg("'%s' with flags %#x: openat2 %s, walk %s", all_names[i], (unsigned)all_flags[k],
                         a.why ? strerrorname_np(a.why) : "opened", b.why ? strerrorname_np(b.why) : "opened");
        }
    }
}

static void test_exact_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int why;
    } samples[] = {
        {"", EINVAL},          {"/", EINVAL},        {"/etc/passwd", EINVAL}, {"..", EINVAL},
        {"../secret", EINVAL}, {"d/../f", EINVAL},   {"d/..", EINVAL},        {"to_file", ELOOP},
        {"to_dir/g", ELOOP},   {"to_secret", ELOOP}, {"to_outside/f", ELOOP}, {"to_etc/passwd", ELOOP},
        {"loop", ELOOP},       {"dangling", ELOOP},  {"d/up", ELOOP},         {"gone", ENOENT},
        {"f/g", ENOTDIR},      {"f/", ENOTDIR},      {"to_dir/", ELOOP},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(samples); i++) {
        for (int walk = 0; walk < 2; walk++)
            T_INT(ask(root, samples[i].name, O_RDONLY, walk).why, samples[i].why);
    }
}

static void test_opened_is_what_was_named(void **state)
{
    (void)state;
    struct stat st;
    T_INT(fstatat(root, "d/e/h", &st, 0), 0);
    for (int walk = 0; walk < 2; walk++) {
        struct answer a = ask(root, "d/e/h", O_RDONLY, walk);
        T_INT(a.why, 0);
        T_INT(a.ino, st.st_ino);
    }
    T_INT(ask(root, "fifo", O_RDONLY | O_NONBLOCK, true).why, 0);
    T_INT(ask(root, "fifo", O_RDONLY | O_NONBLOCK, false).why, 0);
}

static void test_magic_links(void **state)
{
    (void)state;
    BH_CLEANUP_FD int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char own[32];
    T_TRUE(proc >= 0);
    (void)snprintf(own, sizeof(own), "fd/%d", proc);
    const char *const names[] = {"exe", "cwd", "root", "root/etc/passwd", "cwd/.", own, "fd/0"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        for (int walk = 0; walk < 2; walk++)
            T_INT(ask(proc, names[i], O_RDONLY, walk).why, ELOOP);
    }
    T_INT(ask(proc, "status", O_RDONLY, true).why, 0);
}

static void test_long_names(void **state)
{
    (void)state;
    char segment[NAME_MAX + 2], path[2 * PATH_MAX];
    memset(segment, 'x', sizeof(segment));
    segment[NAME_MAX + 1] = '\0';
    for (size_t i = 0; i + 2 < sizeof(path); i += 2)
        memcpy(path + i, "./", 2);
    path[sizeof(path) - 2] = 'f';
    path[sizeof(path) - 1] = '\0';
    for (int walk = 0; walk < 2; walk++) {
        T_INT(ask(root, segment, O_RDONLY, walk).why, ENAMETOOLONG);
        T_INT(ask(root, path, O_RDONLY, walk).why, ENAMETOOLONG);
        T_INT(ask(root, path + sizeof(path) - PATH_MAX, O_RDONLY, walk).why, 0);
        T_INT(ask(root, path + sizeof(path) - PATH_MAX - 2, O_RDONLY, walk).why, ENAMETOOLONG);
    }
}

static void test_creation(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int flags, why;
    } samples[] = {
        {"new", O_WRONLY | O_CREAT | O_EXCL, 0},
        {"new", O_WRONLY | O_CREAT | O_EXCL, EEXIST},
        {"new", O_WRONLY | O_CREAT | O_TRUNC, 0},
        {"d/new", O_WRONLY | O_CREAT, 0},
        {"dangling", O_WRONLY | O_CREAT, ELOOP},
        {"dangling", O_WRONLY | O_CREAT | O_EXCL, EEXIST},
        {"to_secret", O_WRONLY | O_CREAT | O_TRUNC, ELOOP},
        {"to_dir/new", O_WRONLY | O_CREAT, ELOOP},
        {"gone/new", O_WRONLY | O_CREAT, ENOENT},
        {"d", O_WRONLY | O_CREAT, EISDIR},
        {"fresh/", O_WRONLY | O_CREAT, EISDIR},
        {"../new", O_WRONLY | O_CREAT, EINVAL},
    };
    for (int walk = 0; walk < 2; walk++) {
        (void)unlinkat(root, "new", 0);
        (void)unlinkat(root, "d/new", 0);
        for (size_t i = 0; i < BH_ARRAY_LEN(samples); i++)
            T_INT(ask(root, samples[i].name, samples[i].flags, walk).why, samples[i].why);
        T_INT(faccessat(root, "gone", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    }
    struct stat st;
    T_INT(fstatat(root, "../secret", &st, 0), 0);
    T_INT(st.st_size, 6);
    (void)unlinkat(root, "new", 0);
    (void)unlinkat(root, "d/new", 0);
}

/* A directory and a link that leads out change places as fast as they can. Whatever is opened is never the outside. */
static void *swap(void *arg)
{
    bool *stop = arg;
    while (!__atomic_load_n(stop, __ATOMIC_RELAXED))
        (void)syscall(SYS_renameat2, root, "flip", root, "flop", RENAME_EXCHANGE);
    return NULL;
}

static void test_links_that_are_swapped_in(void **state)
{
    (void)state;
    bool stop = false;
    pthread_t thread;
    struct stat secret, mine, st;
    T_INT(mkdirat(root, "flip", 0755), 0);
    put(root, "flip/f", "mine");
    T_INT(symlinkat("../outside", root, "flop"), 0);
    T_INT(fstatat(root, "flip/f", &mine, 0), 0);
    T_INT(fstatat(root, "../outside/f", &secret, 0), 0);
    T_INT(pthread_create(&thread, NULL, swap, &stop), 0);
    bh_path_force_fallback(true);
    for (int i = 0; i < 5000; i++) {
        BH_CLEANUP_FD int fd = bh_open_beneath(root, "flip/f", O_RDONLY, 0);
        if (fd < 0)
            continue;
        T_INT(fstat(fd, &st), 0);
        T_INT(st.st_ino, mine.st_ino);
        assert_int_not_equal(st.st_ino, secret.st_ino);
        T_INT(bh_mkdirat_p(root, "flip/f", 0755), -1);
    }
    for (int i = 0; i < 500; i++)
        (void)bh_mkdirat_p(root, "flip/made/here", 0755);
    bh_path_force_fallback(false);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    T_INT(pthread_join(thread, NULL), 0);
    T_INT(fstatat(root, "../outside/made", &st, 0), -1);
    T_INT(bh_rmtree_at(root, "flip"), 0);
    T_INT(bh_rmtree_at(root, "flop"), 0);
    T_INT(fstatat(root, "../outside/f", &st, 0), 0);
}

static void test_mkdirat_p(void **state)
{
    (void)state;
    struct stat st;
    static const struct {
        const char *name;
        int why;
    } bad[] = {{"", EINVAL},          {"/x", EINVAL},      {"../x", EINVAL}, {"to_dir/x", ELOOP},
               {"to_outside", ELOOP}, {"dangling", ELOOP}, {"f", ENOTDIR},   {"f/x", ENOTDIR}};
    T_INT(bh_mkdirat_p(root, "m/a/./b//c/", 0700), 0);
    T_INT(bh_mkdirat_p(root, "m/a/b/c", 0700), 0);
    T_INT(bh_mkdirat_p(root, ".", 0700), 0);
    T_INT(fstatat(root, "m/a/b/c", &st, 0), 0);
    T_INT(st.st_mode & 0777, 0700);
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        T_INT(bh_mkdirat_p(root, bad[i].name, 0700), -1);
        T_INT(errno, bad[i].why);
    }
    T_INT(fstatat(root, "gone", &st, AT_SYMLINK_NOFOLLOW), -1);
}

static char *below_top(const char *rel)
{
    return bh_path_join(top, rel);
}

static void test_mkdir_p(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *deep = below_top("p/q//r/"), *file = below_top("secret/x/y"), *is_file = below_top("secret");
    struct stat st;
    T_OK(bh_mkdir_p(deep, 0711, &err));
    T_OK(bh_mkdir_p(deep, 0700, &err));
    T_INT(stat(deep, &st), 0);
    T_INT(st.st_mode & 0777, 0711);
    T_OK(bh_mkdir_p("/", 0700, &err));
    T_OK(bh_mkdir_p(".", 0700, &err));
    T_ERR(bh_mkdir_p(file, 0700, &err), BH_E_IO, "secret': Not a directory");
    T_ERR(bh_mkdir_p(is_file, 0700, &err), BH_E_IO, "secret': Not a directory");
    T_ERR(bh_mkdir_p("", 0700, &err), BH_E_IO, "cannot make the folder ''");
    T_ERR(bh_mkdir_p("/proc/bulkhead/x", 0700, &err), BH_E_IO, "cannot make the folder '/proc/bulkhead'");
}

static size_t entries(const char *dir)
{
    struct dirent **list;
    int got = scandir(dir, &list, NULL, NULL);
    assert_true(got >= 2);
    for (int i = 0; i < got; i++)
        free(list[i]);
    free(list);
    return (size_t)got - 2;
}

static void test_write_file_atomic(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *dir = below_top("w"), *file = below_top("w/file"), *lost = below_top("nowhere/file");
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    struct stat st;
    mode_t mask = umask(077);
    T_OK(bh_mkdir_p(dir, 0700, &err));
    T_OK(bh_write_file_atomic(file, "one", 3, 0644, &err));
    T_OK(bh_write_file_atomic(file, "second", 6, 0640, &err));
    (void)umask(mask);
    T_INT(stat(file, &st), 0);
    T_INT(st.st_mode & 07777, 0640); /* whatever the umask says */
    T_OK(bh_read_file(file, 100, &out, &err));
    T_STR(out.data, "second");
    T_INT(entries(dir), 1);
    T_ERR(bh_write_file_atomic(lost, "x", 1, 0644, &err), BH_E_IO, "nowhere/file': No such file or directory");
    T_ERR(bh_write_file_atomic(dir, "x", 1, 0644, &err), BH_E_IO, "/w': Is a directory");
    T_INT(entries(dir), 1);
    BH_CLEANUP_FREE char *link = below_top("w/link");
    T_INT(symlink("file", link), 0);
    T_OK(bh_write_file_atomic(link, "third", 5, 0600, &err));
    T_INT(lstat(link, &st), 0);
    T_TRUE(S_ISREG(st.st_mode)); /* replaced, not followed */
}

static void test_a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *dir = below_top("full"), *file = below_top("full/file");
    T_OK(bh_mkdir_p(dir, 0700, &err));
    T_OK(bh_write_file_atomic(file, "kept", 4, 0600, &err));
    struct rlimit old, tiny = {.rlim_cur = 2, .rlim_max = RLIM_INFINITY};
    T_INT(getrlimit(RLIMIT_FSIZE, &old), 0);
    tiny.rlim_max = old.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    T_INT(setrlimit(RLIMIT_FSIZE, &tiny), 0);
    struct bh_err *got = NULL;
    int r = bh_write_file_atomic(file, "longer", 6, 0600, &got);
    T_INT(setrlimit(RLIMIT_FSIZE, &old), 0);
    T_INT(r, -BH_E_IO);
    T_INT(bh_err_errno(got), EFBIG);
    bh_err_free(got);
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    T_OK(bh_read_file(file, 100, &out, &err));
    T_STR(out.data, "kept");
    T_INT(entries(dir), 1);
}

static void test_read_file(void **state)
{
    (void)state;
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    BH_CLEANUP_FREE char *secret = below_top("secret"), *gone = below_top("gone");
    T_OK(bh_read_file(secret, 6, &out, &err));
    T_STR(out.data, "secret");
    T_ERR(bh_read_file(secret, 5, &out, &err), BH_E_TOO_LARGE, "secret': more than 5 bytes");
    T_ERR(bh_read_file(gone, 5, &out, &err), BH_E_NOT_FOUND, "gone': No such file or directory");
    T_ERR(bh_read_file(top, 5, &out, &err), BH_E_IO, "Is a directory");
    T_OK(bh_read_file("/proc/self/stat", 100000, &out, &err));
}

static void test_join_and_dirname(void **state)
{
    (void)state;
    static const char *const joins[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"a", "/b", "/b"}, {"", "b", "b"}, {"a", "", "a"},
    };
    static const char *const names[][2] = {
        {"x", "."},    {"/x", "/"},  {"a/b", "a"}, {"a/b/", "a"}, {"/", "/"},
        {"a//b", "a"}, {"//x", "/"}, {"", "."},    {"a/", "."},   {"/a/b/c", "/a/b"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(joins); i++) {
        BH_CLEANUP_FREE char *got = bh_path_join(joins[i][0], joins[i][1]);
        T_STR(got, joins[i][2]);
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        BH_CLEANUP_FREE char *got = bh_path_dirname(names[i][0]);
        T_STR(got, names[i][1]);
    }
}

static void test_escapes(void **state)
{
    static const char *const stay[] = {"", ".", "a", "a/..", "a/../b", "./a//../b", "..a/...", "a/b/../.."};
    static const char *const leave[] = {"..", "../a", "a/../..", "./../a", "a//../../b", "a/../../a"};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(stay); i++)
        assert_false(bh_path_escapes(stay[i], strlen(stay[i])));
    for (size_t i = 0; i < BH_ARRAY_LEN(leave); i++)
        T_TRUE(bh_path_escapes(leave[i], strlen(leave[i])));
    assert_false(bh_path_escapes("a:../..", 1));
    assert_false(bh_path_escapes("a/..:..", 4));
}

static void test_is_clean(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "a/b", "...", "a/..b", ".a", "a.", "-rf", "a b"};
    static const char *const bad[] = {"", "/", "/a", "a/", "a//b", ".", "..", "a/.", "./a", "a/../b", "../a", "a/.."};
    for (size_t i = 0; i < BH_ARRAY_LEN(good); i++)
        T_TRUE(bh_path_is_clean(good[i]));
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++)
        assert_false(bh_path_is_clean(bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_filter_is_in_force),
        cmocka_unit_test(test_both_ways_agree),
        cmocka_unit_test(test_exact_refusals),
        cmocka_unit_test(test_opened_is_what_was_named),
        cmocka_unit_test(test_magic_links),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_creation),
        cmocka_unit_test(test_links_that_are_swapped_in),
        cmocka_unit_test(test_mkdirat_p),
        cmocka_unit_test(test_mkdir_p),
        cmocka_unit_test(test_write_file_atomic),
        cmocka_unit_test(test_a_full_disk_leaves_nothing),
        cmocka_unit_test(test_read_file),
        cmocka_unit_test(test_join_and_dirname),
        cmocka_unit_test(test_is_clean),
        cmocka_unit_test(test_escapes),
    };
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
