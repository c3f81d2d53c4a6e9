/* SPDX-License-Identifier: Apache-2.0 */
/* The second wall alone, without the first: what a process may still do that has entered it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/support/t.h"
#include "workers/init/init.h"

static long version(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
}

struct in_it {
    bool shared;
    int outside; /* a descriptor that was opened before */
};

/* errno of what fn does behind the wall. */
static int behind(struct in_it *in, int (*fn)(struct in_it *))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct bh_fail fail = {0};
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (bh_landlock_enter(in->shared, &fail) < 0)
            _exit(250);
        errno = 0;
        _exit(fn(in) < 0 ? errno : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    T_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int makes_device(struct in_it *in)
{
    char path[64];
    (void)in;
    (void)snprintf(path, sizeof(path), "/tmp/bh-landlock-%d", (int)getpid());
    int rc = mknod(path, S_IFCHR | 0600, 0);
    int why = errno;
    (void)unlink(path);
    errno = why;
    return rc;
}

static int mounts(struct in_it *in)
{
    (void)in;
    return mount("none", "/mnt", "tmpfs", 0, NULL);
}

static int traces(struct in_it *in)
{
    (void)in;
    return (int)ptrace(PTRACE_SEIZE, getppid(), 0, 0);
}

static int signals(struct in_it *in)
{
    (void)in;
    return kill(getppid(), 0);
}

static int signals_own(struct in_it *in)
{
    (void)in;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        for (;;)
            (void)pause();
    }
    return kill(pid, SIGKILL) < 0 || waitpid(pid, &status, 0) < 0 ? -1 : 0;
}

/* Files come, go, move from folder to folder, are linked and cut, as ever. */
static int works(struct in_it *in)
{
    char dir[] = "/tmp/bh-landlock-XXXXXX";
    (void)in;
    if (!mkdtemp(dir) || chdir(dir) < 0 || mkdir("a", 0755) < 0 || mkdir("b", 0755) < 0)
        return -1;
    int fd = open("a/x", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || rename("a/x", "b/x") < 0 || link("b/x", "a/y") < 0 || truncate("b/x", 10) < 0 ||
        symlink("b", "c") < 0 || mkfifo("f", 0600) < 0 || rename("b", "a/b") < 0)
        return -1;
    if (unlink("a/b/x") < 0 || rmdir("a/b") < 0 || unlink("a/y") < 0 || unlink("c") < 0 || unlink("f") < 0)
        return -1;
    return rmdir("a") < 0 || chdir("/") < 0 ? -1 : rmdir(dir);
}

static int connects(struct in_it *in)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(address);
    if (getsockname(in->outside, (void *)&address, &len) < 0)
        return -1;
    return connect(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), (void *)&address, len);
}

static void device_nodes_cannot_be_made(void **state)
{
    (void)state;
    T_INT(behind(&(struct in_it){0}, makes_device), EACCES); /* without it a whiteout, which everybody may make */
}

static void mounts_cannot_be_changed(void **state)
{
    (void)state;
    T_INT(behind(&(struct in_it){0}, mounts), EPERM);
}

static void nobody_outside_is_traced_or_signalled(void **state)
{
    (void)state;
    T_INT(behind(&(struct in_it){0}, traces), EPERM);
    T_INT(behind(&(struct in_it){0}, signals_own), 0);
    if (version() < 6)
        return;
    T_INT(behind(&(struct in_it){0}, signals), EPERM);
    T_INT(behind(&(struct in_it){.shared = true}, signals), EPERM);
}

static void abstract_sockets_are_for_who_shares_the_box(void **state)
{
    (void)state;
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    BH_CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    T_INT(bind(fd, (void *)&any, sizeof(sa_family_t)), 0); /* the kernel finds an abstract name */
    T_INT(listen(fd, 8), 0);
    T_INT(behind(&(struct in_it){.shared = true, .outside = fd}, connects), 0);
    T_INT(behind(&(struct in_it){.outside = fd}, connects), version() >= 6 ? EPERM : 0);
}

static void work_goes_on(void **state)
{
    (void)state;
    T_INT(behind(&(struct in_it){0}, works), 0);
}

/* The wall is around the root: what lies beside it is out of reach, even by a descriptor that leads there. */
static int reaches_outside_root(struct in_it *in)
{
    return openat(in->outside, "hosts", O_RDONLY | O_CLOEXEC);
}

static void what_is_not_beneath_the_root_is_closed(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct in_it in = {.outside = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC)};
        if (chroot("/usr") < 0 || chdir("/") < 0)
            _exit(77);
        struct bh_fail fail = {0};
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (openat(in.outside, "hosts", O_RDONLY | O_CLOEXEC) < 0 || bh_landlock_enter(false, &fail) < 0)
            _exit(1);
        _exit(reaches_outside_root(&in) < 0 && errno == EACCES && open("/bin/env", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    T_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip(); /* not root */
    T_INT(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_nodes_cannot_be_made),
        cmocka_unit_test(mounts_cannot_be_changed),
        cmocka_unit_test(nobody_outside_is_traced_or_signalled),
        cmocka_unit_test(abstract_sockets_are_for_who_shares_the_box),
        cmocka_unit_test(work_goes_on),
        cmocka_unit_test(what_is_not_beneath_the_root_is_closed),
    };
    if (version() < 2) {
        printf("SKIP landlock: this kernel has none\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
