/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts bulkhead-unpack where a hostile archive can hurt nobody: in a user namespace mapped as those of boxes are (so
 * that it can give files to every id of a box and to no other), with no network, no processes but itself, and four
 * capabilities that count in that namespace alone. It answers the worker itself; we only reap it.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "workers/init/mounts.h"
#include "workers/launcher/launcher.h"
#include "workers/unpack/fds.h"

#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)
#define ABOVE 32 /* descriptors wait here while their places are taken */
#define MEMORY_MAX (UINT64_C(1) << 30)

struct start {
    const struct bh_launcher *l;
    const struct bh_msg_unpack *msg;
    const int *fds; /* answer, program, stream */
    int folder, empty;
};

static int put_descriptors(const struct start *s)
{
    const int sources[] = {s->fds[0], s->fds[2], s->folder, s->empty, s->l->filter, s->fds[1]};
    int high[BH_ARRAY_LEN(sources)];
    for (size_t i = 0; i < BH_ARRAY_LEN(sources); i++) {
        high[i] = fcntl(sources[i], F_DUPFD_CLOEXEC, ABOVE);
        if (high[i] < 0)
            return -1;
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(sources); i++) {
        if (dup2(high[i], BH_UNPACK_FD_ANSWER + (int)i) < 0)
            return -1;
    }
    if (bh_fd_set_cloexec(BH_UNPACK_FD_PROGRAM, true) < 0)
        return -1;
    return close_range(BH_UNPACK_FD_END, ~0U, 0);
}

static int limit(int resource, rlim_t n)
{
    return setrlimit(resource, &(struct rlimit){n, n});
}

static int set_limits(void)
{
#ifndef __SANITIZE_ADDRESS__ /* which maps terabytes */
    if (limit(RLIMIT_AS, MEMORY_MAX) < 0)
        return -1;
#endif
    return limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_NOFILE, 256) < 0 ? -1 : 0;
}

/* Root of a namespace gets its bounding set at an exec, and no more than that. */
static int limit_capabilities(void)
{
    const uint64_t kept = UINT64_C(1) << CAP_CHOWN | UINT64_C(1) << CAP_DAC_OVERRIDE | UINT64_C(1) << CAP_FOWNER |
                          UINT64_C(1) << CAP_FSETID | UINT64_C(1) << CAP_SYS_CHROOT;
    for (int cap = 0; cap <= 63; cap++) {
        if (kept >> cap & 1)
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return errno == EINVAL && cap > 0 ? 0 : -1; /* past the last one */
    }
    return 0;
}

static int become_root_inside(const struct bh_launcher *l)
{
    if (l->mode == BH_IDS_RANGE && setgroups(0, NULL) < 0)
        return -1;
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the last change of credentials, which clears it */
}

static void run(const struct start *s)
{
    char what[24], ids[24], entries[24], bytes[24];
    char *argv[] = {(char[]){"bulkhead-unpack"}, what, ids, entries, bytes, NULL}, *envp[] = {NULL};
    sigset_t none;
    sigemptyset(&none);
    (void)snprintf(what, sizeof(what), "%u", s->msg->what);
    (void)snprintf(ids, sizeof(ids), "%d", s->l->mode == BH_IDS_RANGE);
    (void)snprintf(entries, sizeof(entries), "%lld", (long long)s->msg->max_entries);
    (void)snprintf(bytes, sizeof(bytes), "%lld", (long long)s->msg->max_bytes);
    if (put_descriptors(s) == 0 && set_limits() == 0 && limit_capabilities() == 0) {
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)fexecve(BH_UNPACK_FD_PROGRAM, argv, envp);
    }
}

static int in_child(void *arg)
{
    const struct start *s = arg;
    if (become_root_inside(s->l) == 0)
        run(s);
    return errno ? errno : EIO;
}

static void refuse(int answer, const struct bh_fail *fail)
{
    struct bh_msg_unpacked msg = {.kind = BH_MSG_UNPACKED, .blame = BH_UNPACK_HOST, .error = fail->error};
    bh_step_set(msg.why, fail->step);
    if (bh_msg_send(answer, &msg, sizeof(msg), NULL, 0) < 0)
        return; /* whoever asked is gone */
}

/*
 * A folder as the root of a mount that is attached nowhere: from its descriptor no path leads upwards, whatever the
 * program does, and nothing on it is a device or gains rights. The mount ends with the first descriptor, `mount`.
 */
static int alone(int dirfd, const char *path, int *ret_mount)
{
    *ret_mount = bh_mount_clone(dirfd, path, false);
    if (*ret_mount < 0 || bh_mount_restrict(*ret_mount, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, false) < 0)
        return -1;
    return openat(*ret_mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static const char *folder_of(const void *data, size_t len)
{
    const char *text = data;
    struct bh_unpack u = {text + sizeof(struct bh_msg_unpack), text + len};
    const char *folder = bh_unpack_str(&u);
    return bh_unpack_done(&u) && bh_path_is_clean(folder) ? folder : NULL;
}

void bh_unpack_start(struct bh_launcher *l, const void *data, size_t len, const int *fds, size_t nfds)
{
    struct bh_fail fail = {0};
    if (nfds != 3 || len <= sizeof(struct bh_msg_unpack))
        return;
    const char *path = folder_of(data, len);
    BH_CLEANUP_FD int folder_mount = -1, empty_mount = -1;
    BH_CLEANUP_FD int folder = path ? alone(l->home, path, &folder_mount) : -1;
    int why = path ? errno : EPROTO;
    BH_CLEANUP_FD int empty = alone(AT_FDCWD, "/stage/empty", &empty_mount);
    struct start s = {.l = l, .msg = data, .fds = fds, .folder = folder, .empty = empty};
    if (l->mode == BH_IDS_NONE)
        fail = l->fail;
    else if (folder < 0)
        (void)bh_fail(&fail, why, "open the folder to fill");
    else if (empty < 0)
        (void)bh_fail(&fail, errno, "open an empty directory");
    else if (bh_ids_start(l, NAMESPACES, in_child, &s) < 0)
        (void)bh_fail(&fail, errno, "start bulkhead-unpack");
    if (fail.error)
        refuse(fds[0], &fail);
}
