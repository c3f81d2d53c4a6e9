/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/launcher/tries.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "workers/init/mounts.h"

/* Where a mount can be attached for a try: there on the host and in our tree, and in a mount namespace of a child. */
#define PLACE "/proc"

static struct fixture {
    char dir[32];     /* below the state directory; "": none */
    int mount, error; /* a detached copy of the mount at `dir`, as boxes get theirs, or why there is none */
    int held[4]; /* what removing the folder will need: no try takes the last descriptors, so nothing is left behind */
} fixture = {.mount = -1};

static int do_nothing(const struct bh_launcher *l, struct bh_fail *fail)
{
    (void)l;
    (void)fail;
    return 0;
}

static int do_network(const struct bh_launcher *l, struct bh_fail *fail)
{
    struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    (void)l;
    BH_CLEANUP_FD int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return bh_fail(fail, errno, "socket");
    return ioctl(sock, SIOCSIFFLAGS, &req) < 0 ? bh_fail(fail, errno, "bringing up 'lo'") : 0;
}

static int new_tmpfs(struct bh_fail *fail)
{
    int fd = bh_mount_new("tmpfs", (const char *const[]){NULL}, MOUNT_ATTR_NOSUID, fail);
    if (fd < 0)
        bh_step_set(fail->step, "fsopen, fsconfig or fsmount");
    return fd;
}

static int do_mount_calls(const struct bh_launcher *l, struct bh_fail *fail)
{
    (void)l;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return bh_fail(fail, errno, "mount");
    BH_CLEANUP_FD int fd = new_tmpfs(fail);
    if (fd < 0)
        return -1;
    BH_CLEANUP_FD int copy = bh_mount_clone(AT_FDCWD, PLACE, true);
    if (copy < 0)
        return bh_fail(fail, errno, "open_tree");
    if (bh_mount_restrict(fd, MOUNT_ATTR_RDONLY, false) < 0)
        return bh_fail(fail, errno, "mount_setattr");
    return move_mount(fd, "", AT_FDCWD, PLACE, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? bh_fail(fail, errno, "move_mount") : 0;
}

/* Without a tree of our own nothing can be copied for an ordinary user; the child has the host's mounts then. */
static int enter_folder(const struct bh_launcher *l)
{
    if (!l->in_tree)
        return chdir(l->home_path) < 0 ? -1 : chdir(fixture.dir);
    if (move_mount(fixture.mount, "", AT_FDCWD, PLACE, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -1;
    return chdir(PLACE);
}

static int do_overlay(const struct bh_launcher *l, struct bh_fail *fail)
{
    (void)l;
    if (fixture.error)
        return bh_fail(fail, fixture.error, "open_tree or mkdir");
    if (enter_folder(l) < 0) /* a tree half made may cover the folder */
        return bh_fail(fail, l->in_tree ? errno : ECANCELED, "move_mount or chdir");
    if (mount("overlay", "at", "overlay", 0, "lowerdir=lower,upperdir=upper,workdir=work,userxattr,volatile") < 0)
        return bh_fail(fail, errno, "mount");
    /* Some file systems take the mount and no file. */
    BH_CLEANUP_FD int fd = open("at/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    if (fd < 0)
        return bh_fail(fail, errno, "open");
    return 0;
}

static int do_root(const struct bh_launcher *l, struct bh_fail *fail)
{
    (void)l;
    BH_CLEANUP_FD int fd = new_tmpfs(fail);
    if (fd < 0)
        return -1;
    if (move_mount(fd, "", AT_FDCWD, PLACE, MOVE_MOUNT_F_EMPTY_PATH) < 0 || fchdir(fd) < 0)
        return bh_fail(fail, errno, "move_mount");
    return bh_mount_enter() < 0 ? bh_fail(fail, errno, "pivot_root or umount2") : 0;
}

static int do_proc(const struct bh_launcher *l, struct bh_fail *fail)
{
    (void)l;
    BH_CLEANUP_FD int fd = bh_mount_new("proc", (const char *const[]){NULL}, MOUNT_ATTR_NOSUID, fail);
    if (fd < 0)
        bh_step_set(fail->step, "mount");
    return fd < 0 ? -1 : 0;
}

/* Calls that boxes make and that old kernels and some filters do not have. */
static int do_calls(const struct bh_launcher *l, struct bh_fail *fail)
{
    sigset_t set;
    (void)l;
    sigemptyset(&set);
    if (close_range(~0U, ~0U, 0) < 0)
        return bh_fail(fail, errno, "close_range");
    if (unshare(CLONE_FILES) < 0)
        return bh_fail(fail, errno, "unshare");
    if (setns(-1, 0) < 0 && errno != EBADF)
        return bh_fail(fail, errno, "setns");
    BH_CLEANUP_FD int signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (signals < 0)
        return bh_fail(fail, errno, "signalfd4");
    return 0;
}

static int do_caps(const struct bh_launcher *l, struct bh_fail *fail)
{
    (void)l;
    if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE) < 0)
        return bh_fail(fail, errno, "prctl(PR_SET_SECUREBITS)");
    return prctl(PR_CAPBSET_DROP, 0, 0, 0, 0) < 0 ? bh_fail(fail, errno, "prctl(PR_CAPBSET_DROP)") : 0;
}

static int do_seccomp(const struct bh_launcher *l, struct bh_fail *fail)
{
    struct stat st;
    if (l->filter < 0 || fstat(l->filter, &st) < 0)
        return bh_fail(fail, l->filter < 0 ? l->fail.error : errno, "memfd_create");
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, l->filter, 0);
    if (p == MAP_FAILED || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return bh_fail(fail, errno, "prctl(PR_SET_NO_NEW_PRIVS)");
    struct sock_fprog prog = {.len = (unsigned short)((size_t)st.st_size / sizeof(struct sock_filter)), .filter = p};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
        return bh_fail(fail, errno, "seccomp");
    return 0;
}

static int do_landlock(const struct bh_launcher *l, struct bh_fail *fail)
{
    (void)l;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* ask for the version */);
    /* Under the first one no file could be moved to another folder. */
    return abi < 2 ? bh_fail(fail, abi == 1 ? EOPNOTSUPP : errno, "landlock_create_ruleset") : 0;
}

static const struct trial {
    uint64_t namespaces;
    int (*fn)(const struct bh_launcher *l, struct bh_fail *fail);
} trials[BH_TRIES] = {
    [BH_TRY_USER] = {0, do_nothing},
    [BH_TRY_MOUNT] = {CLONE_NEWNS, do_nothing},
    [BH_TRY_PID] = {CLONE_NEWPID, do_nothing},
    [BH_TRY_NET] = {CLONE_NEWNET, do_network},
    [BH_TRY_IPC] = {CLONE_NEWIPC, do_nothing},
    [BH_TRY_UTS] = {CLONE_NEWUTS, do_nothing},
    [BH_TRY_CGROUP] = {CLONE_NEWCGROUP, do_nothing},
    [BH_TRY_MOUNT_CALLS] = {CLONE_NEWNS, do_mount_calls},
    [BH_TRY_OVERLAY] = {CLONE_NEWNS, do_overlay},
    [BH_TRY_ROOT] = {CLONE_NEWNS, do_root},
    [BH_TRY_PROC] = {CLONE_NEWNS | CLONE_NEWPID, do_proc},
    [BH_TRY_CALLS] = {0, do_calls},
    [BH_TRY_CAPS] = {0, do_caps},
    [BH_TRY_SECCOMP] = {0, do_seccomp},
    [BH_TRY_LANDLOCK] = {0, do_landlock},
};

/* --- running them --- */

/* What a child says that fails: its exit status holds no more than a number. */
static struct said {
    struct bh_fail fail;
    enum bh_try which, first, last;
    bool with_overlay;
} * said;

static int run_some(const struct bh_launcher *l)
{
    for (int i = (int)said->first; i <= (int)said->last; i++) {
        said->which = (enum bh_try)i;
        if (i == BH_TRY_OVERLAY && !said->with_overlay)
            continue;
        if (trials[i].fn(l, &said->fail) < 0) {
            errno = said->fail.error;
            return -1;
        }
        /* Most leave PLACE covered, and one leaves another root; the rest is tried in what is left, as boxes are. */
        if (said->first != said->last && (i == BH_TRY_MOUNT_CALLS || i == BH_TRY_OVERLAY) &&
            (chdir("/") < 0 || umount2(PLACE, MNT_DETACH) < 0)) {
            (void)bh_fail(&said->fail, errno, "umount2");
            return -1;
        }
    }
    return 0;
}

static int start(const struct bh_launcher *l, enum bh_try first, enum bh_try last, bool with_overlay, uint64_t flags,
                 struct bh_fail *ret)
{
    if (!said) {
        void *p = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return bh_fail(ret, errno, "mmap");
        said = p;
    }
    *said = (struct said){.first = first, .last = last, .which = first, .with_overlay = with_overlay};
    const char *call;
    int why = bh_ids_try(l, flags, run_some, &call);
    if (why == 0)
        return 0;
    if (said->fail.error) {
        *ret = said->fail;
        return -1;
    }
    return bh_fail(ret, why, "%s", call);
}

int bh_try(const struct bh_launcher *l, enum bh_try what, struct bh_fail *ret)
{
    return start(l, what, what, true, trials[what].namespaces, ret);
}

int bh_try_all(const struct bh_launcher *l, bool with_overlay, enum bh_try *ret_which, struct bh_fail *ret)
{
    uint64_t all = 0;
    for (int i = 0; i < BH_TRIES_REQUIRED; i++)
        all |= trials[i].namespaces;
    if (start(l, 0, BH_TRIES_REQUIRED - 1, with_overlay, all, ret) == 0)
        return 0;
    *ret_which = said ? said->which : BH_TRY_USER;
    if (!said || said->fail.error)
        return -1;
    /* The clone itself: which of the namespaces is it? */
    for (int i = 0; i <= BH_TRY_CGROUP; i++) {
        *ret_which = (enum bh_try)i;
        if (bh_try(l, *ret_which, ret) < 0)
            return -1;
    }
    *ret_which = BH_TRY_USER;
    return bh_fail(ret, EIO, "clone3 of all namespaces at once");
}

/* --- the folder --- */

static int make_folder(const struct bh_launcher *l)
{
    static const char *const dirs[] = {"", "/lower", "/upper", "/work", "/at"};
    unsigned id = 0;
    (void)!getrandom(&id, sizeof(id), GRND_NONBLOCK);
    (void)snprintf(fixture.dir, sizeof(fixture.dir), "probe-%d-%08x", (int)getpid(), id);
    for (size_t i = 0; i < BH_ARRAY_LEN(dirs); i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "%s%s", fixture.dir, dirs[i]);
        if (mkdirat(l->home, path, 0755) < 0)
            return -1;
        if (l->mode == BH_IDS_RANGE && fchownat(l->home, path, l->first_id, l->first_id, AT_SYMLINK_NOFOLLOW) < 0)
            return -1;
    }
    fixture.mount = l->in_tree ? bh_mount_clone(l->home, fixture.dir, false) : -1;
    return l->in_tree && fixture.mount < 0 ? -1 : 0;
}

static int hold(void)
{
    int rc = 0;
    for (size_t i = 0; i < BH_ARRAY_LEN(fixture.held); i++) {
        fixture.held[i] = open("/dev/null", O_PATH | O_CLOEXEC);
        rc = fixture.held[i] < 0 ? -1 : rc;
    }
    return rc;
}

void bh_tries_begin(const struct bh_launcher *l, bool with_overlay)
{
    fixture = (struct fixture){.mount = -1, .held = {-1, -1, -1, -1}};
    if (!with_overlay)
        return;
    if (hold() < 0 || make_folder(l) < 0)
        fixture.error = errno ? errno : EIO;
}

void bh_tries_end(const struct bh_launcher *l)
{
    bh_close(BH_TAKE_FD(fixture.mount));
    for (size_t i = 0; i < BH_ARRAY_LEN(fixture.held); i++)
        bh_close(BH_TAKE_FD(fixture.held[i]));
    if (fixture.dir[0])
        (void)bh_rmtree_at(l->home, fixture.dir);
}
