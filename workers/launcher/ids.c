/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ids boxes get. Root of the host maps a range; everybody else has one id, in a user namespace of our own where
 * we do not have the right to mount without one. What works is found by doing it, never by looking at names.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "workers/launcher/launcher.h"

static int write_proc(pid_t pid, const char *name, const char *text)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 ? bh_write_all(fd, text, strlen(text)) : -1;
}

static int write_maps(pid_t pid, uint32_t inside, uint32_t outside, uint32_t count, bool deny_setgroups)
{
    char map[64];
    (void)snprintf(map, sizeof(map), "%u %u %u\n", inside, outside, count);
    if (deny_setgroups && write_proc(pid, "setgroups", "deny") < 0)
        return -1;
    return write_proc(pid, "uid_map", map) < 0 || write_proc(pid, "gid_map", map) < 0 ? -1 : 0;
}

static pid_t clone_into(uint64_t flags)
{
    struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static void end_child(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* A user namespace with one map, held by a descriptor. -1 with errno where the map is not allowed. */
static int userns_with(uint32_t inside, uint32_t outside, uint32_t count)
{
    char path[64];
    pid_t us = getpid(), pid = clone_into(CLONE_NEWUSER);
    if (pid == 0) {
        bh_process_die_with(us);
        for (;;)
            (void)pause();
    }
    if (pid < 0)
        return -1;
    int fd = -1;
    if (write_maps(pid, inside, outside, count, false) == 0) {
        (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    int why = errno;
    end_child(pid);
    errno = why;
    return fd;
}

/* Whether our ids are those of the host itself. */
static bool in_first_user_namespace(void)
{
    char text[64] = "";
    unsigned inside = 1, outside = 1, count = 0;
    BH_CLEANUP_FD int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        return false;
    return sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
           count == UINT32_MAX;
}

/* Whether the ids 1 to BH_RANGE_COUNT of our user namespace are subordinate ones, which no account of the host has. */
static bool has_subordinate(const char *map)
{
    unsigned inside, outside, count;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FD int fd = open(map, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || bh_read_all(fd, 65536, &text, NULL) != 0)
        return false;
    for (const char *line = text.data; line && *line;) {
        if (sscanf(line, "%u %u %u", &inside, &outside, &count) == 3 && inside == BH_SUBORDINATE_FIRST &&
            count >= BH_RANGE_COUNT && outside >= BH_RANGE_COUNT)
            return true;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return false;
}

/* In a user namespace with subordinate ids (box/subids.c); mounts of the host cannot be mapped there. */
static int enter_subordinate(struct bh_launcher *l)
{
    if (!has_subordinate("/proc/self/uid_map") || !has_subordinate("/proc/self/gid_map"))
        return -1;
    BH_CLEANUP_FD int range = userns_with(0, BH_SUBORDINATE_FIRST, BH_RANGE_COUNT);
    if (range < 0)
        return -1;
    l->mode = BH_IDS_RANGE;
    l->first_id = BH_SUBORDINATE_FIRST;
    return 0;
}

static int enter_range(struct bh_launcher *l)
{
    l->range_ns = userns_with(0, BH_RANGE_FIRST, BH_RANGE_COUNT);
    if (l->range_ns < 0)
        return in_first_user_namespace() ? -1 : enter_subordinate(l);
    l->agent_ns = userns_with(0, BH_RANGE_FIRST + BH_AGENT_UID, 1);
    l->mode = BH_IDS_RANGE;
    l->first_id = BH_RANGE_FIRST;
    return 0;
}

/* The usual agent has one for good; of others the last few are kept. */
int bh_ids_agent_ns(struct bh_launcher *l, uint32_t uid)
{
    if (uid == BH_AGENT_UID || l->range_ns < 0)
        return l->agent_ns;
    for (size_t i = 0; i < BH_AGENT_NS_MAX; i++) {
        if (l->agents[i].uid == uid)
            return l->agents[i].ns;
    }
    int ns = userns_with(0, l->first_id + uid, 1);
    if (ns < 0)
        return -1;
    struct bh_agent_ns *kept = &l->agents[l->next_agent++ % BH_AGENT_NS_MAX];
    if (kept->uid)
        bh_close(kept->ns);
    *kept = (struct bh_agent_ns){.uid = uid, .ns = ns};
    return ns;
}

static int enter_own_user_namespace(uid_t uid, gid_t gid, struct bh_fail *fail)
{
    char map[64];
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return bh_fail(fail, errno, "make a user namespace");
    (void)snprintf(map, sizeof(map), "0 %u 1\n", (unsigned)uid);
    if (write_proc(getpid(), "setgroups", "deny") < 0 || write_proc(getpid(), "uid_map", map) < 0)
        return bh_fail(fail, errno, "map the own user id");
    (void)snprintf(map, sizeof(map), "0 %u 1\n", (unsigned)gid);
    if (write_proc(getpid(), "gid_map", map) < 0)
        return bh_fail(fail, errno, "map the own group id");
    return 0;
}

int bh_ids_enter(struct bh_launcher *l)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    bool host_root = uid == 0 && in_first_user_namespace();
    l->mode = BH_IDS_NONE;
    l->range_ns = l->agent_ns = -1;
    bool own_mounts = uid == 0 && unshare(CLONE_NEWNS) == 0;
    if (own_mounts && enter_range(l) == 0)
        return 0;
    /* With one id, root of a box would be root of the host, who owns half of /proc and needs no capability for it. */
    if (host_root)
        return bh_fail(&l->fail, EPERM, "map a range of ids as root");
    if ((!own_mounts || gid != 0) && enter_own_user_namespace(uid, gid, &l->fail) < 0) {
        l->stranded = strcmp(l->fail.step, "make a user namespace") != 0;
        return -1;
    }
    l->mode = BH_IDS_SINGLE;
    l->first_id = uid;
    l->mask_proc = uid == 0; /* `unshare -r` of the host's root looks like this too */
    return 0;
}

static int run_try(const struct bh_launcher *l, int go, int (*fn)(const struct bh_launcher *l))
{
    char c;
    if (read(go, &c, 1) != 1)
        return ECANCELED; /* also: who started it is dead */
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return errno;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of ids, which clears it */
    return fn(l) < 0 ? errno : 0;
}

static int map_try(const struct bh_launcher *l, pid_t pid)
{
    if (l->mode == BH_IDS_RANGE)
        return write_maps(pid, 0, l->first_id, BH_RANGE_COUNT, false);
    if (l->mode == BH_IDS_SINGLE)
        return write_maps(pid, 0, 0, 1, true);
    /* Nothing works yet: what would be allowed to anybody. */
    char map[64];
    (void)snprintf(map, sizeof(map), "0 %u 1\n", (unsigned)geteuid());
    if (write_proc(pid, "setgroups", "deny") < 0 || write_proc(pid, "uid_map", map) < 0)
        return -1;
    (void)snprintf(map, sizeof(map), "0 %u 1\n", (unsigned)getegid());
    return write_proc(pid, "gid_map", map);
}

int bh_ids_try(const struct bh_launcher *l, uint64_t namespaces, int (*fn)(const struct bh_launcher *l),
               const char **ret_call)
{
    int go[2], status = 0;
    const char *call = "clone3";
    if (pipe2(go, O_CLOEXEC) < 0)
        return errno;
    pid_t pid = clone_into(CLONE_NEWUSER | namespaces);
    if (pid == 0) {
        bh_close(go[1]);
        _exit(run_try(l, go[0], fn));
    }
    int why = pid < 0 ? errno : 0;
    if (pid > 0) {
        call = "mapping ids";
        why = map_try(l, pid) < 0 ? errno : 0;
    }
    bh_close(go[0]);
    if (pid > 0 && !why && write(go[1], "", 1) != 1)
        why = errno;
    bh_close(go[1]);
    if (pid > 0 && waitpid(pid, &status, 0) == pid && !why)
        why = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    if (ret_call)
        *ret_call = call;
    return why;
}

int bh_ids_start(const struct bh_launcher *l, uint64_t namespaces, int (*fn)(void *arg), void *arg)
{
    int pair[2];
    char c;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    pid_t pid = clone_into(CLONE_NEWUSER | namespaces);
    if (pid == 0) {
        bh_close(pair[0]);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_DUMPABLE, 1); /* as we are not any more: its maps could not be written */
        _exit(write(pair[1], "", 1) == 1 && read(pair[1], &c, 1) == 1 ? fn(arg) : ECANCELED);
    }
    bh_close(pair[1]);
    int rc = pid > 0 && read(pair[0], &c, 1) == 1 && map_try(l, pid) == 0 && write(pair[0], "", 1) == 1 ? 0 : -1;
    int why = errno;
    bh_close(pair[0]); /* a child without maps ends here */
    errno = why;
    return rc;
}
