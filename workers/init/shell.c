/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shell: all the namespaces of a box, and in them everything that no box differs in, made before a box is asked for.
 * It is used once. What it may assume: the launcher's small tree as root, a channel to the launcher, no other file.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "workers/init/init.h"
#include "workers/init/mounts.h"

#define CHANNEL 3

/* The maps are written: from here on we are root of our own user namespace, and only that. */
static int become_box_root(const struct bh_init_setup *setup, struct bh_fail *fail)
{
    if (setup->mode == BH_IDS_RANGE && setgroups(0, NULL) < 0)
        return bh_fail(fail, errno, "drop groups");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return bh_fail(fail, errno, "become root of the box");
    return 0;
}

/* After the last change of credentials, which clears both. That the launcher was there then is seen by its message. */
static void be_quiet_and_mortal(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)prctl(PR_SET_NAME, "bulkhead-init");
}

static int prepare(struct bh_init *in, struct bh_fail *fail)
{
    int rc = become_box_root(in->setup, fail);
    be_quiet_and_mortal();
    if (rc < 0)
        return -1;
    /* With one id each agent has a user namespace of its own, and with it a bounding set to be dropped there. */
    if (in->setup->mode == BH_IDS_RANGE && bh_caps_unbound() < 0)
        return bh_fail(fail, errno, "drop the bounding set");
    if (unshare(CLONE_NEWCGROUP) < 0)
        return bh_fail(fail, errno, "make a namespace of control groups");
    if (sethostname("bulkhead", 8) < 0)
        return bh_fail(fail, errno, "set the host name");
    if (bh_shell_prepare(in->setup, fail) < 0)
        return -1;
    in->narrow = bh_narrow_make(fail);
    if (in->narrow < 0 || !in->setup->host_network)
        return in->narrow < 0 ? -1 : 0;
    in->own_net = bh_own_net_make(fail);
    return in->own_net < 0 ? -1 : 0;
}

static int become_box(struct bh_init *in, const void *msg, size_t len, const int *fds, size_t nfds,
                      struct bh_fail *fail)
{
    if (bh_box_assemble(in, msg, len, fds, nfds, fail) < 0)
        return -1;
    if (in->setup->host_network != !!(in->flags & BH_CREATE_HOST_NETWORK))
        return bh_fail(fail, EPROTO, "be a box of another network");
    if (in->shared || in->setup->host_network)
        bh_close(BH_TAKE_FD(in->narrow));
    return bh_caps_of_init(in->flags & BH_CREATE_WARM) < 0 ? bh_fail(fail, errno, "limit capabilities") : 0;
}

static void report(const struct bh_init *in, const struct bh_fail *fail)
{
    struct bh_msg_report msg = {.kind = fail->error ? BH_MSG_FAILED : BH_MSG_READY, .status = fail->error};
    bh_step_set(msg.step, fail->step);
    int fd = in->memory >= 0 ? in->memory : in->lent; /* how much it holds is for the worker to see */
    if (bh_msg_send(in->control, &msg, sizeof(msg), &fd, !fail->error && fd >= 0 ? 1 : 0) < 0 || fail->error)
        _exit(1);
}

static void wait_for_maps(void)
{
    char go;
    int fds[BH_MSG_MAX_FDS];
    size_t nfds;
    if (bh_msg_recv(CHANNEL, &go, 1, fds, &nfds) != 1)
        _exit(1);
}

BH_NORETURN void bh_shell_main(int channel, const struct bh_init_setup *setup, const struct bh_join *join)
{
    static char msg[BH_PROTO_MAX] __attribute__((aligned(8)));
    struct bh_fail fail = {0};
    int fds[BH_MSG_MAX_FDS];
    size_t nfds;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup3(channel, CHANNEL, O_CLOEXEC) < 0) /* over the socket of the process that we were cloned from */
        _exit(1);
    int rc = bh_join_groups(join, &fail);
    (void)close_range(CHANNEL + 1, ~0U, 0);
    wait_for_maps();
    struct bh_init in = {.setup = setup, .box = -1, .memory = -1, .lent = -1, .narrow = -1, .known_narrow = -1};
    in.own_net = -1;
    bh_list_init(&in.execs);
    if (rc == 0)
        rc = prepare(&in, &fail);
    ssize_t n = bh_msg_recv(CHANNEL, msg, sizeof(msg), fds, &nfds);
    if (n <= 0 || nfds < 1)
        _exit(0); /* not needed any more */
    in.control = fds[0];
    if (rc == 0)
        (void)become_box(&in, msg, (size_t)n, fds + 1, nfds - 1, &fail);
    for (size_t i = 1; i < nfds; i++)
        bh_close(fds[i]);
    bh_close(CHANNEL);
    report(&in, &fail);
    bh_close(BH_TAKE_FD(in.memory));
    bh_close(BH_TAKE_FD(in.lent));
    bh_box_serve(&in);
}
