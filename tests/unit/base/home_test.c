/* SPDX-License-Identifier: Apache-2.0 */
#include "base/home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "tests/unit/base/mount_ns.h"

#define RUN "01jdxyq9z3abcdefghjkmnpqrs"

static char *top;

static int open_top(void **state)
{
    (void)state;
    top = t_tmpdir();
    (void)unsetenv("BULKHEAD_HOME");
    (void)unsetenv("XDG_STATE_HOME");
    (void)unsetenv("HOME");
    return 0;
}

static int close_top(void **state)
{
    (void)state;
    t_tmpdir_free(top);
    return 0;
}

static char *below_top(const char *rel)
{
    return bh_path_join(top, rel);
}

static void put(const char *path, const char *text)
{
    T_OK(bh_write_file_atomic(path, text, strlen(text), 0600, &err));
}

static void test_makes_private_folders(void **state)
{
    (void)state;
    static const char *const folders[] = {"store", "cas", "bases", "runs"};
    struct bh_home home;
    BH_CLEANUP_FREE char *path = below_top("a/b/home");
    mode_t mask = umask(022);
    T_OK(bh_home_open(path, true, &home, &err));
    (void)umask(mask);
    T_STR(home.path, path);
    T_TRUE(fcntl(home.dirfd, F_GETFD) & FD_CLOEXEC);
    for (size_t i = 0; i < BH_ARRAY_LEN(folders); i++) {
        struct stat st;
        T_INT(fstatat(home.dirfd, folders[i], &st, AT_SYMLINK_NOFOLLOW), 0);
        T_INT(st.st_mode, S_IFDIR | 0700);
    }
    BH_CLEANUP_FREE char *version = bh_home_path(&home, "version");
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    T_OK(bh_read_file(version, 10, &text, &err));
    T_STR(text.data, "1\n");
    bh_home_close(&home);
    T_INT(home.dirfd, -1);
    T_OK(bh_home_open(path, true, &home, &err));
    bh_home_close(&home);
    T_OK(bh_home_open(path, false, &home, &err));
    bh_home_close(&home);
}

/* Several engines share a home: whoever comes first makes it, and nobody minds. */
static void test_made_by_many_at_once(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *path = below_top("a/b/shared");
    pid_t pids[8];
    for (size_t i = 0; i < BH_ARRAY_LEN(pids); i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct bh_home home;
            _exit(bh_home_open(path, true, &home, NULL) == 0 ? 0 : 1);
        }
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(pids); i++) {
        int status;
        T_INT(waitpid(pids[i], &status, 0), pids[i]);
        T_INT(status, 0);
    }
    struct dirent **list;
    int got = scandir(path, &list, NULL, alphasort);
    T_INT(got, 7); /* . .. bases cas runs store version: no temporary file */
    T_STR(list[6]->d_name, "version");
    for (int i = 0; i < got; i++)
        free(list[i]);
    free(list);
}

static void opens_at(const char *path, const char *want)
{
    struct bh_home home;
    T_OK(bh_home_open(path, true, &home, &err));
    T_STR(home.path, want);
    bh_home_close(&home);
}

static void test_where_it_is(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *given = below_top("given"), *env = below_top("env"), *xdg = below_top("xdg"),
                         *xdg_home = below_top("xdg/bulkhead"), *user = below_top("user"),
                         *user_home = below_top("user/.local/state/bulkhead"), *relative = below_top("rel/home");
    char *cwd = getcwd(NULL, 0);
    struct bh_home home;
    T_ERR(bh_home_open(NULL, true, &home, &err), BH_E_NOT_FOUND, "none of '--home', 'BULKHEAD_HOME' and 'HOME' is set");
    T_INT(setenv("HOME", user, 1), 0);
    opens_at(NULL, user_home);
    T_INT(setenv("XDG_STATE_HOME", "relative/is/ignored", 1), 0);
    opens_at(NULL, user_home);
    T_INT(setenv("XDG_STATE_HOME", xdg, 1), 0);
    opens_at(NULL, xdg_home);
    T_INT(setenv("BULKHEAD_HOME", "", 1), 0);
    opens_at("", xdg_home);
    T_INT(setenv("BULKHEAD_HOME", env, 1), 0);
    opens_at(NULL, env);
    opens_at(given, given);
    T_INT(chdir(top), 0);
    opens_at("rel/home", relative);
    T_INT(chdir(cwd), 0);
    free(cwd);
}

static void test_existing_directory_is_taken(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *path = below_top("open"), *other = below_top("open/note");
    struct bh_home home;
    struct stat st;
    T_INT(mkdir(path, 0777), 0);
    T_INT(chmod(path, 0777), 0);
    if (chown(path, 12345, 12345) != 0)
        print_message("only root can give a folder away: tested with our own\n");
    put(other, "mine");
    T_OK(bh_home_open(path, true, &home, &err));
    T_INT(stat(path, &st), 0);
    T_INT(st.st_mode & 0777, 0777); /* not ours to change */
    T_INT(fstatat(home.dirfd, "store", &st, 0), 0);
    T_INT(st.st_mode & 0777, 0700);
    T_INT(fstatat(home.dirfd, "note", &st, 0), 0);
    bh_home_close(&home);
}

static void test_open_folders_are_closed(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *path = below_top("h"), *cas = below_top("h/cas");
    struct bh_home home;
    struct stat st;
    T_OK(bh_mkdir_p(cas, 0755, &err));
    T_INT(chmod(cas, 0777), 0);
    T_OK(bh_home_open(path, true, &home, &err));
    T_INT(stat(cas, &st), 0);
    T_INT(st.st_mode & 0777, 0700);
    bh_home_close(&home);
}

static void test_missing(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *path = below_top("none"), *empty = below_top("empty");
    struct bh_home home;
    struct stat st;
    T_ERR(bh_home_open(path, false, &home, &err), BH_E_NOT_FOUND, "no state directory at '");
    T_INT(stat(path, &st), -1);
    T_INT(mkdir(empty, 0700), 0);
    T_ERR(bh_home_open(empty, false, &home, &err), BH_E_NOT_FOUND, "empty'");
    T_INT(rmdir(empty), 0); /* nothing was made in it */
}

/* The code, a part of the message, and that a hint of its own names the way out. */
static bool is_refused(const char *path, enum bh_code code, const char *part, const char *hint)
{
    struct bh_home home;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    int r = bh_home_open(path, true, &home, &err);
    const char *said = bh_err_get_hint(err);
    if (r == -(int)code && strstr(bh_err_message(err), part) && said && strstr(said, hint))
        return true;
    print_error("'%s': %d '%s' hint '%s'\n", path, r, bh_err_message(err), said ? said : "");
    return false;
}

static void refused(const char *path, enum bh_code code, const char *part, const char *hint)
{
    T_TRUE(is_refused(path, code, part, hint));
}

static void test_no_directory(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *file = below_top("file"), *below = below_top("file/home"), *blocked = below_top("h"),
                         *store = below_top("h/store");
    put(file, "x");
    refused(file, BH_E_IO, "cannot use the state directory", "--home DIR");
    refused(below, BH_E_IO, "file/home': Not a directory", "--home DIR");
    refused("/proc/none/home", BH_E_IO, "cannot use the state directory '/proc/none/home': No such file", "--home DIR");
    T_INT(mkdir(blocked, 0700), 0);
    put(store, "x");
    refused(blocked, BH_E_IO, "opening 'store': cannot use the state directory", "--home DIR");
    T_INT(unlink(store), 0);
    T_INT(symlink("/", store), 0);
    refused(blocked, BH_E_IO, "opening 'store': cannot use the state directory", "--home DIR");
}

static void test_versions(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *path = below_top("h"), *version = below_top("h/version");
    struct bh_home home;
    T_INT(mkdir(path, 0700), 0);
    put(version, "2\n");
    T_ERR(bh_home_open(path, true, &home, &err), BH_E_STORE_VERSION, "has version 2, and this one knows 1");
    T_ERR(bh_home_open(path, false, &home, &err), BH_E_STORE_VERSION, "made by a newer bulkhead");
    refused(path, BH_E_STORE_VERSION, "newer bulkhead", "use the newer bulkhead");
    static const char *const broken[] = {"", "\n", "x\n", "-1\n", "0\n", "1x\n", "1\n2\n", "999999999999999999999\n"};
    for (size_t i = 0; i < BH_ARRAY_LEN(broken); i++) {
        put(version, broken[i]);
        T_ERR(bh_home_open(path, true, &home, &err), BH_E_STORE_CORRUPT, "holds no version number");
    }
    char large[200];
    memset(large, '1', sizeof(large));
    T_OK(bh_write_file_atomic(version, large, sizeof(large), 0600, &err));
    T_ERR(bh_home_open(path, true, &home, &err), BH_E_STORE_CORRUPT, "holds no version number");
    put(version, "1");
    T_OK(bh_home_open(path, true, &home, &err));
    bh_home_close(&home);
}

/* Runs `act` in a child; 77 is a skip. */
static void in_child(int (*act)(void), const char *capability)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(act());
    int status;
    T_INT(waitpid(pid, &status, 0), pid);
    T_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        t_skip(capability, "cannot be had here");
    T_INT(WEXITSTATUS(status), 0);
}

static int become_nobody(void)
{
    return setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0 ? -1 : 0;
}

static int unwritable(void)
{
    BH_CLEANUP_FREE char *path = below_top("locked"), *deeper = below_top("locked/home");
    if (mkdir(path, 0555) != 0 || chmod(top, 0755) != 0 || (geteuid() == 0 && become_nobody() != 0))
        return 77;
    if (!is_refused(path, BH_E_PERMISSION, "locked': Permission denied", "make it writable"))
        return 2;
    return is_refused(deeper, BH_E_PERMISSION, "locked/home': Permission denied", "make it writable") ? 0 : 3;
}

static void test_unwritable(void **state)
{
    (void)state;
    in_child(unwritable, "root");
}

static int foreign_folder(void)
{
    BH_CLEANUP_FREE char *path = below_top("shared"), *store = below_top("shared/store");
    if (geteuid() != 0 || mkdir(path, 0777) != 0 || chmod(path, 0777) != 0 || mkdir(store, 0777) != 0 ||
        chmod(store, 0777) != 0 || chmod(top, 0755) != 0 || become_nobody() != 0)
        return 77;
    return is_refused(path, BH_E_PERMISSION, "shared/store' belongs to user 0, not to you", "of your own") ? 0 : 2;
}

static void test_folders_of_somebody_else(void **state)
{
    (void)state;
    in_child(foreign_folder, "root");
}

static int full_disk(void)
{
    BH_CLEANUP_FREE char *path = below_top("full"), *home = below_top("full/home"), *filler = below_top("full/filler");
    BH_CLEANUP_BUF struct bh_buf zeros = BH_BUF_INIT;
    if (mkdir(path, 0700) != 0 || enter_mount_namespace() != 0 || mount("none", path, "tmpfs", 0, "size=64k") != 0)
        return 77;
    BH_CLEANUP_FD int fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bh_buf_reserve(&zeros, 65537);
    if (bh_write_all(fd, zeros.data, 65537) == 0 || errno != ENOSPC)
        return 2;
    return is_refused(home, BH_E_DISK_FULL, "full/home': No space left on device", "free space") ? 0 : 3;
}

static void test_full_disk(void **state)
{
    (void)state;
    in_child(full_disk, "userns");
}

static struct bh_home open_home(void)
{
    BH_CLEANUP_FREE char *path = below_top("home");
    struct bh_home home = {.dirfd = -1};
    T_OK(bh_home_open(path, true, &home, &err));
    return home;
}

static void test_paths(void **state)
{
    (void)state;
    struct bh_home home = {.path = (char *)(uintptr_t) "/h"};
    BH_CLEANUP_FREE char *a = bh_home_path(&home, "store/bulkhead.db"), *b = bh_home_run_path(&home, RUN, "logs/x"),
                         *c = bh_home_run_path(&home, RUN, NULL);
    T_STR(a, "/h/store/bulkhead.db");
    T_STR(b, "/h/runs/" RUN "/logs/x");
    T_STR(c, "/h/runs/" RUN);
}

static void test_owning_a_run(void **state)
{
    (void)state;
    struct bh_home home = open_home();
    BH_CLEANUP_FREE char *owner = bh_home_run_path(&home, RUN, "owner");
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    char want[32], name[64];
    int fd = -1, second = -1;
    assert_false(bh_home_run_is_owned(&home, RUN));
    T_OK(bh_home_own_run(&home, RUN, 0, &fd, &err));
    T_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    T_TRUE(bh_home_run_is_owned(&home, RUN));
    T_OK(bh_read_file(owner, 100, &text, &err));
    (void)snprintf(want, sizeof(want), "%d ", (int)getpid());
    T_INT(strncmp(text.data, want, strlen(want)), 0);
    assert_true(strtoull(text.data + strlen(want), NULL, 10) > 0);
    T_INT(text.data[text.len - 1], '\n');
    (void)snprintf(name, sizeof(name), "another process, %d, owns the run '" RUN "'", (int)getpid());
    T_ERR(bh_home_own_run(&home, RUN, 0, &second, &err), BH_E_BUSY, name);
    T_INT(second, -1);
    int copy = dup(fd); /* as the launcher holds it */
    close(fd);
    T_TRUE(bh_home_run_is_owned(&home, RUN));
    close(copy);
    assert_false(bh_home_run_is_owned(&home, RUN));
    T_OK(bh_home_own_run(&home, RUN, 0, &fd, &err));
    close(fd);
    bh_home_close(&home);
}

static void test_holding_a_run_that_nobody_owns(void **state)
{
    (void)state;
    struct bh_home home = open_home();
    BH_CLEANUP_FREE char *owner = bh_home_run_path(&home, RUN, "owner");
    int fd = -1, held = -1, second = -1;
    T_INT(bh_home_hold_run(&home, RUN, &held), 0); /* there is none, and none is made */
    T_INT(access(owner, F_OK), -1);
    T_OK(bh_home_own_run(&home, RUN, 0, &fd, &err));
    T_INT(bh_home_hold_run(&home, RUN, &held), 0);
    T_INT(held, -1);
    close(fd);
    T_INT(bh_home_hold_run(&home, RUN, &held), 1);
    T_TRUE(fcntl(held, F_GETFD) & FD_CLOEXEC);
    T_INT(bh_home_hold_run(&home, RUN, &second), 0);
    T_TRUE(bh_home_run_is_owned(&home, RUN));
    close(held);
    T_OK(bh_home_own_run(&home, RUN, 0, &fd, &err));
    close(fd);
    T_INT(bh_home_hold_run(&home, "..", &held), 0);
    bh_home_close(&home);
}

static void test_own_start_time_is_that_of_proc(void **state)
{
    (void)state;
    struct bh_home home = open_home();
    BH_CLEANUP_FREE char *owner = bh_home_run_path(&home, RUN, "owner");
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT, stat = BH_BUF_INIT;
    int fd = -1;
    char pattern[64];
    unsigned long long start;
    T_OK(bh_home_own_run(&home, RUN, 0, &fd, &err));
    T_OK(bh_read_file(owner, 100, &text, &err));
    T_OK(bh_read_file("/proc/self/stat", 4096, &stat, &err));
    T_INT(sscanf(text.data, "%*d %llu", &start), 1);
    const char *p = strrchr(stat.data, ')');
    for (int i = 0; i < 20; i++)
        p = strchr(p + 1, ' ');
    (void)snprintf(pattern, sizeof(pattern), " %llu ", start);
    T_INT(strncmp(p, pattern, strlen(pattern)), 0);
    close(fd);
    bh_home_close(&home);
}

static void test_bad_run_ids(void **state)
{
    (void)state;
    static const char *const bad[] = {"", ".", "..", "../x", "a/b", "/etc"};
    struct bh_home home = open_home();
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        int fd = -1;
        T_ERR(bh_home_own_run(&home, bad[i], 0, &fd, &err), BH_E_USAGE, "is no run id");
        assert_false(bh_home_run_is_owned(&home, bad[i]));
    }
    bh_home_close(&home);
}

/* Takes the run and has a child (a launcher) that keeps it taken; the child's pid comes back too. */
static pid_t start_holder(const struct bh_home *home, pid_t *ret_child)
{
    int ready[2];
    T_INT(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int held = -1;
        if (bh_home_own_run(home, RUN, 0, &held, NULL) != 0)
            _exit(1);
        pid_t child = fork();
        if (child > 0 && write(ready[1], &child, sizeof(child)) != (ssize_t)sizeof(child))
            _exit(1);
        for (;;)
            (void)pause();
    }
    T_INT(read(ready[0], ret_child, sizeof(*ret_child)), sizeof(*ret_child));
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static pid_t start_waiter(const struct bh_home *home)
{
    int ready[2];
    char byte;
    T_INT(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = -1;
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        _exit(bh_home_own_run(home, RUN, 30 * BH_NS_PER_S, &fd, NULL) == 0 ? 0 : 2);
    }
    T_INT(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static bool is_waiting(pid_t pid)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    T_OK(bh_read_file(path, 4096, &text, &err));
    return strstr(text.data, ") S ") != NULL;
}

/* While the owner lives nobody waits; when it is dead, what it left behind is waited for. */
static void test_waits_for_what_a_dead_owner_left(void **state)
{
    (void)state;
    struct bh_home home = open_home();
    int status, fd = -1;
    pid_t child, holder = start_holder(&home, &child);
    struct bh_mono before = bh_mono_now();
    T_ERR(bh_home_own_run(&home, RUN, 30 * BH_NS_PER_S, &fd, &err), BH_E_BUSY, "owns the run");
    assert_true(bh_mono_now().ns - before.ns < 10 * BH_NS_PER_S);
    T_INT(kill(holder, SIGKILL), 0);
    T_INT(waitpid(holder, &status, 0), holder);
    pid_t waiter = start_waiter(&home);
    while (!is_waiting(waiter))
        (void)sched_yield();
    T_INT(waitpid(waiter, &status, WNOHANG), 0);
    T_INT(kill(child, SIGKILL), 0);
    T_INT(waitpid(waiter, &status, 0), waiter);
    T_INT(status, 0);
    bh_home_close(&home);
}

/* Someone who only looks (a shared lock) for a moment is no owner. */
static void test_lookers_do_not_make_it_busy(void **state)
{
    (void)state;
    struct bh_home home = open_home();
    int stop[2], fd = -1;
    T_OK(bh_home_own_run(&home, RUN, 0, &fd, &err));
    close(fd);
    T_INT(pipe2(stop, O_CLOEXEC | O_NONBLOCK), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(stop[1]);
        while (read(stop[0], &byte, 1) < 0)
            (void)bh_home_run_is_owned(&home, RUN);
        _exit(0);
    }
    close(stop[0]);
    for (int i = 0; i < 200; i++) {
        T_OK(bh_home_own_run(&home, RUN, BH_NS_PER_S, &fd, &err));
        close(fd);
    }
    close(stop[1]);
    int status;
    T_INT(waitpid(pid, &status, 0), pid);
    T_INT(status, 0);
    bh_home_close(&home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_makes_private_folders, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_made_by_many_at_once, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_where_it_is, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_existing_directory_is_taken, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_open_folders_are_closed, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_missing, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_no_directory, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_versions, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_unwritable, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_folders_of_somebody_else, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_full_disk, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_paths, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_owning_a_run, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_holding_a_run_that_nobody_owns, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_own_start_time_is_that_of_proc, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_bad_run_ids, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_waits_for_what_a_dead_owner_left, open_top, close_top),
        cmocka_unit_test_setup_teardown(test_lookers_do_not_make_it_busy, open_top, close_top),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
