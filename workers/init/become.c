/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a child of init to the agent's command: a session of its own, its ids, no capability in any set, no new
 * privileges, Landlock, the seccomp filter, no descriptor but the three. The order is part of the wall: the ids while
 * there are still capabilities to change them, then the sets, then the filter, then nothing but looking for the
 * program.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "workers/init/init.h"

#define SECUREBITS                                                                                   \
    (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | \
     SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

/*
 * The null device of the host is a file of the host: by the descriptor alone its mode could be changed where an agent
 * is its owner outside. Agents get the one in their own /dev, which is on a read-only mount.
 */
static bool is_null_device(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

int bh_become_null(int fd, int to)
{
    errno = 0;
    return is_null_device(fd) ? open("/dev/null", (to == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC) : -1;
}

static int take_stream(int from, int to)
{
    BH_CLEANUP_FD int null = bh_become_null(from, to);
    if (null < 0 && errno != 0)
        return -1;
    if (null >= 0)
        from = null;
    if (from != to)
        return dup2(from, to) < 0 ? -1 : 0;
    null = -1;
    return bh_fd_set_cloexec(to, false);
}

static int own_session(const struct bh_exec_plan *plan, struct bh_fail *fail)
{
    if (setsid() < 0 && errno != EPERM) /* EPERM: already the leader of one */
        return bh_fail(fail, errno, "start a session");
    for (int i = 0; i < 3; i++) {
        if (take_stream(plan->stdio[i], i) < 0)
            return bh_fail(fail, errno, "set up the standard streams");
    }
    if (plan->flags & BH_EXEC_TERMINAL && ioctl(0, TIOCSCTTY, 0) < 0)
        return bh_fail(fail, errno, "take the terminal");
    return 0;
}

static int limit(int resource, rlim_t n)
{
    struct rlimit now;
    if (getrlimit(resource, &now) < 0)
        return -1;
    if (now.rlim_max < n)
        n = now.rlim_max;
    return setrlimit(resource, &(struct rlimit){n, n});
}

static int write_file(const char *path, const char *text)
{
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 ? bh_write_all(fd, text, strlen(text)) : -1;
}

/* One id: a deeper user namespace, in which the same id has the number that the agent should see. */
static int deeper_namespace(unsigned uid, unsigned gid, struct bh_fail *fail)
{
    char map[32], group_map[32];
    (void)snprintf(map, sizeof(map), "%u 0 1\n", uid);
    (void)snprintf(group_map, sizeof(group_map), "%u 0 1\n", gid);
    if (unshare(CLONE_NEWUSER) < 0)
        return bh_fail(fail, errno, "make the agent's user namespace");
    /* We are not dumpable and the files belong to root of the namespace that we came from: the same id. */
    if (write_file("/proc/self/setgroups", "deny") < 0 || write_file("/proc/self/uid_map", map) < 0 ||
        write_file("/proc/self/gid_map", group_map) < 0)
        return bh_fail(fail, errno, "map the agent's id");
    return 0;
}

int bh_become_deeper(const struct bh_init *in, const struct bh_exec_plan *plan, struct bh_fail *fail)
{
    bool root = plan->flags & BH_EXEC_ROOT;
    return deeper_namespace(root ? 0 : in->agent_uid, root ? 0 : in->agent_gid, fail);
}

/*
 * None but its own; who is root in a box of several ids has no capability to write what is the agent's, and can by the
 * agent's group.
 */
static int take_groups(const struct bh_init *in, bool root)
{
    const gid_t group = in->agent_gid;
    return in->setup->mode == BH_IDS_RANGE ? setgroups(root && group != 0 ? 1 : 0, &group) : 0;
}

static int take_ids(const struct bh_init *in, const struct bh_exec_plan *plan, struct bh_fail *fail)
{
    bool root = plan->flags & BH_EXEC_ROOT;
    unsigned uid = root ? 0 : in->agent_uid, gid = root ? 0 : in->agent_gid;
    if (in->setup->mode == BH_IDS_SINGLE && bh_become_deeper(in, plan, fail) < 0)
        return -1;
    if (prctl(PR_SET_SECUREBITS, SECUREBITS) < 0)
        return bh_fail(fail, errno, "set secure bits");
    if (take_groups(in, root) < 0)
        return bh_fail(fail, errno, "drop groups");
    if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return bh_fail(fail, errno, "become the agent");
    return 0;
}

/* The bounding set of a range's init is empty already (shell.c): a set that is inherited. */
static int drop_capabilities(const struct bh_init *in, struct bh_fail *fail)
{
    if (in->setup->mode != BH_IDS_RANGE && bh_caps_unbound() < 0)
        return bh_fail(fail, errno, "drop the bounding set");
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 || bh_caps_none() < 0)
        return bh_fail(fail, errno, "drop capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return bh_fail(fail, errno, "forbid new privileges");
    return 0;
}

/* Dispositions are the default ones since main.c; what init blocks must not stay blocked. */
static int unblock_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL);
}

/* What a fork server is told by, above the streams. */
static int keep_server(const struct bh_exec_plan *plan)
{
    if (!(plan->flags & BH_EXEC_WARM_SERVER))
        return 0;
    return plan->server != BH_WARM_FD ? dup2(plan->server, BH_WARM_FD) : bh_fd_set_cloexec(BH_WARM_FD, false);
}

/* As execvp, but in the PATH of the environment that the command gets, and without its shell fallback. */
static int run(const struct bh_exec_plan *plan)
{
    const char *path = "/usr/local/bin:/usr/bin:/bin", *name = plan->argv[0];
    int why = ENOENT;
    if (strchr(name, '/') || !name[0])
        return execve(name, plan->argv, plan->envp);
    for (char **e = plan->envp; *e; e++) {
        if (bh_starts_with(*e, "PATH="))
            path = *e + 5;
    }
    for (const char *next; path; path = next) {
        char file[4096];
        const char *end = strchr(path, ':');
        int len = end ? (int)(end - path) : (int)strlen(path);
        next = end ? end + 1 : NULL;
        int n = snprintf(file, sizeof(file), "%.*s%s%s", len, path, len ? "/" : "./", name);
        if (n < 0 || (size_t)n >= sizeof(file))
            continue;
        execve(file, plan->argv, plan->envp);
        if (errno == EACCES)
            why = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR)
            return -1;
    }
    errno = why;
    return -1;
}

/* What a fork server may, its forks need: see launcher/filter.c. */
static int load_filter(const struct bh_init *in, const struct bh_exec_plan *plan)
{
    bool server = plan->flags & BH_EXEC_WARM_SERVER;
    const struct sock_fprog *filter = server ? &in->setup->server_filter : &in->setup->filter;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter);
}

int bh_become(const struct bh_init *in, const struct bh_exec_plan *plan, int note_fd, struct bh_fail *fail)
{
    if (own_session(plan, fail) < 0)
        return -1;
    if (bh_limits_before_ids(in, plan, fail) < 0)
        return -1;
    if (plan->limits.disk > 0 && limit(RLIMIT_FSIZE, (rlim_t)plan->limits.disk) < 0)
        return bh_fail(fail, errno, "limit the size of files");
    if (take_ids(in, plan, fail) < 0 || bh_limits_after_ids(in, plan, fail) < 0 || drop_capabilities(in, fail) < 0)
        return -1;
    /* Forks of a server live beneath other roots: each enters this wall there. */
    const bool talks = in->shared && !(plan->flags & BH_EXEC_HOST_NETWORK);
    if (!(plan->flags & BH_EXEC_WARM_SERVER) && bh_landlock_enter(talks, fail) < 0)
        return -1;
    if (bh_limits_of_files(in, plan, fail) < 0)
        return -1;
    umask(022);
    if (chdir(plan->cwd) < 0)
        return bh_fail(fail, errno, "enter the working directory '%s'", plan->cwd);
    /* The note's pipe stays until the exec succeeds; everything else is marked to go then too. */
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0 || bh_fd_set_cloexec(note_fd, true) < 0 || keep_server(plan) < 0)
        return bh_fail(fail, errno, "close descriptors");
    if (bh_limits_be_idle(in, fail) < 0)
        return -1;
    if (unblock_signals() < 0)
        return bh_fail(fail, errno, "unblock signals");
    /* A change of ids may have made our memory readable, which may be lent by init (serve.c); an exec starts anew. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return bh_fail(fail, errno, "be closed to others");
    if (load_filter(in, plan) < 0)
        return bh_fail(fail, errno, "load the system call filter");
    (void)run(plan);
    return bh_fail(fail, errno, "exec");
}
