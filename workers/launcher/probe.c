/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this host can do, found out by doing it: each probe is a child in the namespaces that it needs. The answers are
 * for people: what was found, what follows where it is missing, what to do about it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"
#include "workers/init/mounts.h"
#include "workers/launcher/launcher.h"

#define PROBE_DIR "probe"

struct probe {
    const char *name, *call;
    bool required;
    uint64_t namespaces; /* with a user namespace, always */
    int (*fn)(const struct bh_launcher *l);
    const char *effect, *remedy;
};

static int do_nothing(const struct bh_launcher *l)
{
    (void)l;
    return 0;
}

static int do_network(const struct bh_launcher *l)
{
    struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    BH_CLEANUP_FD int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)l;
    return sock < 0 ? -1 : ioctl(sock, SIOCSIFFLAGS, &req);
}

static int do_mount_calls(const struct bh_launcher *l)
{
    struct bh_fail fail;
    (void)l;
    BH_CLEANUP_FD int fd = bh_mount_new("tmpfs", (const char *const[]){NULL}, MOUNT_ATTR_NOSUID, &fail);
    if (fd < 0) {
        errno = fail.error;
        return -1;
    }
    return bh_mount_restrict(fd, MOUNT_ATTR_RDONLY, false);
}

static int probe_dir = -1; /* a detached copy of the mount at PROBE_DIR, as boxes get theirs */

static int do_overlay(const struct bh_launcher *l)
{
    (void)l;
    if (move_mount(probe_dir, "", AT_FDCWD, "/home", MOVE_MOUNT_F_EMPTY_PATH) < 0 || chdir("/home") < 0)
        return -1;
    return mount("overlay", "at", "overlay", 0, "lowerdir=lower,upperdir=upper,workdir=work,userxattr,volatile");
}

static int do_proc(const struct bh_launcher *l)
{
    struct bh_fail fail;
    (void)l;
    BH_CLEANUP_FD int fd = bh_mount_new("proc", (const char *const[]){NULL}, MOUNT_ATTR_NOSUID, &fail);
    errno = fail.error;
    return fd < 0 ? -1 : 0;
}

static int do_seccomp(const struct bh_launcher *l)
{
    struct stat st;
    if (l->filter < 0 || fstat(l->filter, &st) < 0)
        return -1;
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, l->filter, 0);
    if (p == MAP_FAILED || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    struct sock_fprog prog = {.len = (unsigned short)((size_t)st.st_size / sizeof(struct sock_filter)), .filter = p};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

static int do_landlock(const struct bh_launcher *l)
{
    (void)l;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* ask for the version */);
    if (abi == 1)
        errno = EOPNOTSUPP; /* under the first one no file could be moved to another folder */
    return abi < 2 ? -1 : 0;
}

static const struct probe probes[] = {
    {"user namespace", "clone3", true, 0, do_nothing, "no box can be made",
     "allow them: sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces, or on Ubuntu "
     "kernel.apparmor_restrict_unprivileged_userns=0; in a container, a seccomp profile that lets clone through"},
    {"mount namespace", "clone3", true, CLONE_NEWNS, do_nothing, "no box can be made",
     "run as root or on another host"},
    {"pid namespace", "clone3", true, CLONE_NEWPID, do_nothing, "no box can be made", "run as root or on another host"},
    {"network namespace", "clone3", true, CLONE_NEWNET, do_network, "a box could not be cut off from the network",
     "run as root, or raise user.max_net_namespaces"},
    {"ipc, uts and cgroup namespaces", "clone3", true, CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP, do_nothing,
     "no box can be made", "run as root or on another host"},
    {"detached mounts", "fsmount", true, CLONE_NEWNS, do_mount_calls, "no box can be made", "use Linux 5.12 or later"},
    {"overlay in a user namespace", "mount", true, CLONE_NEWNS, do_overlay,
     "a box has no root file system that it can write to",
     "use Linux 5.11 or later and a state directory on a file system with user xattrs (ext4, xfs, btrfs), not on an "
     "overlay"},
    {"fresh /proc", "mount", true, CLONE_NEWNS | CLONE_NEWPID, do_proc, "a box would see the host's processes",
     "in a container, run it with an unmasked /proc"},
    {"seccomp filter", "seccomp", true, 0, do_seccomp, "agents could make any system call",
     "use a kernel with CONFIG_SECCOMP_FILTER"},
    {"Landlock", "landlock_create_ruleset", false, 0, do_landlock,
     "one wall less: agents are held by namespaces, ids and the seccomp filter alone",
     "use Linux 5.19 or later with landlock among its security modules (lsm= on its command line)"},
};

static void make_probe_dir(const struct bh_launcher *l)
{
    static const char *const dirs[] = {PROBE_DIR, PROBE_DIR "/lower", PROBE_DIR "/upper", PROBE_DIR "/work",
                                       PROBE_DIR "/at"};
    (void)bh_rmtree_at(l->home, PROBE_DIR);
    for (size_t i = 0; i < BH_ARRAY_LEN(dirs); i++) {
        if (mkdirat(l->home, dirs[i], 0755) < 0 || l->mode != BH_IDS_RANGE)
            continue;
        if (fchownat(l->home, dirs[i], l->first_id, l->first_id, AT_SYMLINK_NOFOLLOW) < 0)
            return; /* the probe then says that it does not work */
    }
    probe_dir = bh_mount_clone(l->home, PROBE_DIR, false);
}

struct answer {
    struct bh_msg_probe head;
    struct bh_buf strings;
};

static void add(struct answer *a, const char *name, bool ok, bool required, const char *found, const char *effect,
                const char *remedy)
{
    uint64_t bit = UINT64_C(1) << a->head.n++;
    a->head.ok |= ok ? bit : 0;
    a->head.required |= required ? bit : 0;
    bh_pack_str(&a->strings, name);
    bh_pack_str(&a->strings, found);
    bh_pack_str(&a->strings, ok ? "" : effect);
    bh_pack_str(&a->strings, ok ? "" : remedy);
}

static void run_probe(const struct bh_launcher *l, const struct probe *p, struct answer *a)
{
    char found[128] = "works";
    int why = bh_ids_try(l, p->namespaces, p->fn);
    if (why)
        (void)snprintf(found, sizeof(found), "%s from %s", strerrorname_np(why), p->call);
    add(a, p->name, why == 0, p->required, found, p->effect, p->remedy);
}

static void add_own_state(const struct bh_launcher *l, struct answer *a)
{
    char found[BH_STEP_MAX + 64] = "works";
    if (l->fail.error)
        (void)snprintf(found, sizeof(found), "%s: %s", l->fail.step, strerror(l->fail.error));
    add(a, "set-up of boxes", !l->fail.error, true, found, "no box can be made",
        "see the first thing that is missing above");
    bool range = l->mode == BH_IDS_RANGE;
    add(a, "range of ids", range, false, range ? "200000-265535" : "one id",
        "root and the agent of a box are the same user outside; files of the host in a writable /usr cannot be changed",
        "run as root");
    add(a, "ids of inputs", !range || (!l->no_idmap && l->agent_ns >= 0), false,
        !range        ? "not needed"
        : l->no_idmap ? "the file system cannot do it"
                      : "works",
        range ? "inputs have no owner in a box (they can be read)" : "", "");
}

void bh_probe(struct bh_launcher *l)
{
    struct answer a = {.head = {.kind = BH_MSG_PROBE}, .strings = BH_BUF_INIT};
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    make_probe_dir(l);
    (void)prctl(PR_SET_DUMPABLE, 1); /* the maps of a child that is not dumpable belong to root; no box is there yet */
    for (size_t i = 0; i < BH_ARRAY_LEN(probes); i++)
        run_probe(l, &probes[i], &a);
    (void)prctl(PR_SET_DUMPABLE, 0);
    bh_close(BH_TAKE_FD(probe_dir));
    (void)bh_rmtree_at(l->home, PROBE_DIR);
    add_own_state(l, &a);
    bh_buf_add(&out, &a.head, sizeof(a.head));
    bh_buf_add(&out, a.strings.data, a.strings.len);
    bh_buf_fini(&a.strings);
    if (bh_msg_send(l->worker, out.data, out.len, NULL, 0) < 0)
        _exit(1);
}
