/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box of which some phase has the host's network (docs/adr/0024). Its init is where the launcher is, since nobody in
 * a user namespace of its own may enter the host's network from elsewhere; the other way is open. So the box has a
 * network namespace of its own beside it, loopback alone, made before anybody is in the box: every exec that is not
 * told to have the host's network enters that one before anything else, and what listens for brokers listens there.
 *
 * It belongs to the box's user namespace, over which nobody in the box has a capability: agents have none, and init
 * keeps none for networks.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "workers/init/init.h"
#include "workers/init/mounts.h"

/* --- in the other one, for a moment --- */

struct errand {
    int net, port;
    int fd; /* what it brings: in our table */
    struct bh_fail fail;
};

/* A child goes, with our memory and our descriptors, and we stand still: we could not come back. */
static int send_out(int (*go)(void *arg), struct errand *e)
{
    static char stack[64 << 10] __attribute__((aligned(16)));
    e->fd = -1;
    pid_t pid = clone(go, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, e);
    if (pid < 0)
        return bh_fail(&e->fail, errno, "clone");
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return e->fd;
}

static int make(void *arg)
{
    struct errand *e = arg;
    if (unshare(CLONE_NEWNET) < 0)
        return bh_fail(&e->fail, errno, "make a network namespace");
    if (bh_loopback_up(&e->fail) < 0)
        return -1;
    e->fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return e->fd < 0 ? bh_fail(&e->fail, errno, "open the own network namespace") : 0;
}

int bh_own_net_make(struct bh_fail *fail)
{
    struct errand e = {.net = -1};
    int fd = send_out(make, &e);
    if (fd < 0)
        *fail = e.fail;
    return fd;
}

static int listen_there(void *arg)
{
    struct errand *e = arg;
    if (setns(e->net, CLONE_NEWNET) < 0)
        return bh_fail(&e->fail, errno, "enter the box's own network");
    e->fd = bh_listen_open(e->port);
    return e->fd < 0 ? bh_fail(&e->fail, errno, "listen") : 0;
}

int bh_own_net_listen(const struct bh_init *in, int port)
{
    struct errand e = {.net = in->own_net, .port = port};
    int fd = send_out(listen_there, &e);
    errno = fd < 0 ? e.fail.error : 0;
    return fd;
}

/* --- an exec --- */

int bh_own_net_enter(const struct bh_init *in, const struct bh_exec_plan *plan, struct bh_fail *fail)
{
    const bool host = plan->flags & BH_EXEC_HOST_NETWORK;
    if (!in->setup->host_network)
        return host ? bh_fail(fail, EPERM, "have the host's network in this box") : 0;
    if (host)
        return 0;
    return setns(in->own_net, CLONE_NEWNET) < 0 ? bh_fail(fail, errno, "enter the box's own network") : 0;
}

/*
 * A link would be followed outside of what is shown, or nowhere: the name is a file afterwards. 0: it is a directory,
 * made by who was root of the box, which then has no resolver.
 */
static int make_place(int etc)
{
    struct stat st;
    if (fstatat(etc, "resolv.conf", &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
            return S_ISREG(st.st_mode);
        if (unlinkat(etc, "resolv.conf", 0) < 0 && errno != ENOENT)
            return -1;
    }
    BH_CLEANUP_FD int fd = openat(etc, "resolv.conf", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd < 0 && errno != EEXIST ? -1 : 1; /* of two in a shared box the other one was first */
}

static int write_text(int dir, const char *text)
{
    BH_CLEANUP_FD int fd = openat(dir, "resolv.conf", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    return fd >= 0 ? bh_write_all(fd, text, strlen(text)) : -1;
}

/* A mount of the file, detached. It is made where mounts stand until they are moved. */
static int make_file(const char *text, struct bh_fail *fail)
{
    static const char *const options[] = {"mode=0755", "size=1m", NULL};
    const uint64_t attrs = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    BH_CLEANUP_FD int fd = bh_mount_new("tmpfs", options, attrs, fail);
    if (fd < 0)
        return -1;
    if (write_text(fd, text) < 0 || bh_mount_restrict(fd, MOUNT_ATTR_RDONLY, false) < 0 ||
        move_mount(fd, "", AT_FDCWD, BH_AT_MAKE, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return bh_fail(fail, errno, "make resolv.conf");
    int file = bh_mount_clone(AT_FDCWD, BH_AT_MAKE "/resolv.conf", false);
    int why = errno;
    (void)umount2(BH_AT_MAKE, MNT_DETACH);
    return file < 0 ? bh_fail(fail, why, "copy resolv.conf") : file;
}

int bh_own_net_resolver(int box, const char *text, struct bh_fail *fail)
{
    BH_CLEANUP_FD int etc = bh_open_beneath(box, "etc", O_RDONLY | O_DIRECTORY, 0);
    if (etc < 0)
        return 0; /* a base without it has nobody who would read it */
    int place = make_place(etc);
    if (place <= 0)
        return place < 0 ? bh_fail(fail, errno, "make a place for /etc/resolv.conf") : 0;
    BH_CLEANUP_FD int file = make_file(text, fail);
    if (file < 0)
        return -1;
    return bh_mount_attach(file, etc, "resolv.conf") < 0 ? bh_fail(fail, errno, "attach /etc/resolv.conf") : 0;
}
