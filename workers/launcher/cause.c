/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/launcher/cause.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "base/units.h"

/* --- what this kernel says of itself --- */

static void read_text(const char *path, size_t max, struct bh_buf *out)
{
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || bh_read_all(fd, max, out, NULL) != 0)
        bh_buf_clear(out);
}

/* -1: there is no such switch. */
static int64_t number_in(const char *path)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    int64_t n = -1;
    read_text(path, 64, &text);
    if (text.len > 0)
        text.data[strcspn(text.data, "\n")] = '\0';
    return text.len > 0 && bh_parse_int(text.data, &n) == 0 ? n : -1;
}

/* Somebody put a filter on us before we put one on anybody. */
static bool filtered(void)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    read_text("/proc/self/status", 1 << 16, &text);
    return text.len > 0 && strstr(text.data, "\nSeccomp:\t2") != NULL;
}

void bh_cause_filesystem(int fd, struct bh_buf *out)
{
    static const struct {
        long magic;
        const char *name;
    } known[] = {
        {EXT4_SUPER_MAGIC, "ext4"},
        {XFS_SUPER_MAGIC, "xfs"},
        {BTRFS_SUPER_MAGIC, "btrfs"},
        {TMPFS_MAGIC, "tmpfs"},
        {OVERLAYFS_SUPER_MAGIC, "overlay"},
        {NFS_SUPER_MAGIC, "NFS"},
        {FUSE_SUPER_MAGIC, "FUSE"},
        {MSDOS_SUPER_MAGIC, "FAT"},
        {V9FS_MAGIC, "9p (a drive of Windows under WSL?)"},
        {SMB2_SUPER_MAGIC, "SMB"},
        {CIFS_SUPER_MAGIC, "CIFS"},
        {0x2fc12fc1, "ZFS"},
        {0x0bd00bd0, "Lustre"},
        {0x2011bab0, "exFAT"},
        {0x5346544e, "NTFS"},
        {RAMFS_MAGIC, "ramfs"},
        {F2FS_SUPER_MAGIC, "f2fs"},
        {0xca451a4e, "bcachefs"},
    };
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0) {
        bh_buf_addf(out, "an unknown file system");
        return;
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(known); i++) {
        if ((unsigned long)fs.f_type == (unsigned long)known[i].magic) {
            bh_buf_addf(out, "%s", known[i].name);
            return;
        }
    }
    bh_buf_addf(out, "a file system of type 0x%lx", (unsigned long)fs.f_type);
}

/* --- remedies that several causes share --- */

static void say_filter(struct bh_buf *out)
{
    bh_buf_addf(out, "a seccomp filter on this process forbids it, as those of container runtimes do: with Docker or "
                     "Podman add --security-opt seccomp=unconfined (or a profile that allows clone3, unshare, setns, "
                     "mount, umount2, pivot_root and the mount calls), in Kubernetes set securityContext."
                     "seccompProfile.type: Unconfined");
}

static void say_old_kernel(struct bh_buf *out, const char *version)
{
    struct utsname name;
    bool known = uname(&name) == 0;
    bh_buf_addf(out, "use Linux %s or later (this is %s", version, known ? name.release : "unknown");
    bool wsl = known && (strstr(name.release, "Microsoft") || strstr(name.release, "microsoft"));
    bh_buf_addf(out, "%s)", wsl ? "; under WSL 1, which has no kernel of its own: wsl --set-version DISTRO 2" : "");
}

static void say_apparmor(const struct bh_launcher *l, struct bh_buf *out)
{
    bh_buf_addf(
        out,
        "AppArmor keeps programs without a profile of their own from using user namespaces "
        "(kernel.apparmor_restrict_unprivileged_userns is 1). As root write /etc/apparmor.d/bulkhead-launcher:\n"
        "    abi <abi/4.0>,\n"
        "    include <tunables/global>\n"
        "    profile bulkhead-launcher %s flags=(unconfined) {\n"
        "      userns,\n"
        "      include if exists <local/bulkhead-launcher>\n"
        "    }\n"
        "and load it: apparmor_parser -r /etc/apparmor.d/bulkhead-launcher. Or, for every program of this "
        "host: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        l->program);
}

static void say_limit(const char *kind, struct bh_buf *out)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces", kind);
    int64_t now = number_in(path);
    bh_buf_addf(out, "raise the limit: sysctl -w user.max_%s_namespaces=15000", kind);
    if (now >= 0)
        bh_buf_addf(out, " (it is %lld here", (long long)now);
    if (now > 0)
        bh_buf_addf(out, "; one of a user namespace around us may be lower, or they are nested too deep");
    bh_buf_addf(out, "%s", now >= 0 ? ")" : "");
}

static bool no_right(int error)
{
    return error == EPERM || error == EACCES;
}

static void say_no_right(const struct bh_launcher *l, const struct bh_fail *fail, struct bh_buf *out)
{
    if (number_in("/proc/sys/kernel/unprivileged_userns_clone") == 0)
        bh_buf_addf(out, "allow user namespaces to ordinary users: sysctl -w kernel.unprivileged_userns_clone=1");
    else if (number_in("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
        say_apparmor(l, out);
    else if (filtered())
        say_filter(out);
    else if (fail->error == EPERM && bh_streq(fail->step, "clone3")) /* of the rest only this comes so early */
        bh_buf_addf(
            out,
            "this seems to be a chroot, in which Linux makes no user namespaces: enter the directory by a container "
            "or with pivot_root");
    else if (geteuid() == 0)
        bh_buf_addf(out, "root lacks capabilities here: give it CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID and CAP_SETFCAP "
                         "(Docker: --cap-add SYS_ADMIN), or run bulkhead as an ordinary user");
    else
        bh_buf_addf(out, "a security module (such as SELinux) or the container around us forbids it: allow it there");
}

/* --- one by one --- */

static void of_namespace(const struct bh_launcher *l, const char *kind, const struct bh_fail *fail, struct bh_buf *out)
{
    int error = fail->error;
    if (error == ENOSPC || error == EUSERS)
        say_limit(kind, out);
    else if (no_right(error))
        say_no_right(l, fail, out);
    else if (error == ENOSYS && filtered())
        say_filter(out);
    else if (error == ENOSYS)
        say_old_kernel(out, "5.12");
    else if (error == EMFILE || error == ENFILE)
        bh_buf_addf(out, "raise the limit of open files: ulimit -n 1024");
    else if (error == EROFS)
        bh_buf_addf(out, "/proc is read-only here, so that no ids can be mapped: mount it writable (bubblewrap: "
                         "--bind /proc /proc)");
    else if (error == EINVAL)
        bh_buf_addf(out,
                    "use a kernel that was built with namespaces (CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS …)");
    else if (error == EAGAIN || error == ENOMEM)
        bh_buf_addf(out, "raise the limit of processes (ulimit -u, pids.max of the control group) or free memory");
    else
        bh_buf_addf(out, "run bulkhead on another host");
}

static void of_call(const struct bh_launcher *l, const struct bh_fail *fail, const char *version, struct bh_buf *out)
{
    int error = fail->error;
    bool missing = error == ENOSYS || error == EINVAL;
    if ((missing || no_right(error)) && filtered())
        say_filter(out);
    else if (missing)
        say_old_kernel(out, version);
    else if (no_right(error))
        say_no_right(l, fail, out);
    else if (error == EMFILE || error == ENFILE)
        bh_buf_addf(out, "raise the limit of open files: ulimit -n 1024");
    else
        bh_buf_addf(out, "use Linux %s or later", version);
}

static void of_overlay(const struct bh_launcher *l, const struct bh_fail *fail, struct bh_buf *out)
{
    int error = fail->error;
    BH_CLEANUP_BUF struct bh_buf type = BH_BUF_INIT;
    if (error == ENODEV) {
        bh_buf_addf(out, "load the module: modprobe overlay");
        return;
    }
    if (error == EROFS || error == ENOSPC || error == EDQUOT) {
        bh_buf_addf(out, "choose a state directory that can be written and has room: --home DIR");
        return;
    }
    bh_cause_filesystem(l->home, &type);
    bool fits = bh_streq(type.data, "ext4") || bh_streq(type.data, "xfs") || bh_streq(type.data, "btrfs");
    if (fits || bh_streq(type.data, "tmpfs"))
        of_call(l, fail, "5.11", out);
    else
        bh_buf_addf(out,
                    "choose a state directory on ext4, xfs or btrfs with --home DIR: this one is on %s, which cannot "
                    "be the upper layer of an overlay",
                    type.data);
}

/* Mount points below /proc, at most three: what the kernel would have to uncover for us. */
static size_t covers_of_proc(struct bh_buf *out)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    size_t n = 0;
    char *next = NULL;
    read_text("/proc/self/mountinfo", 16 << 20, &text);
    if (text.len == 0)
        return 0;
    for (char *line = strtok_r(text.data, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        char *at = strstr(line, " /proc/"), *end = at ? strchr(at + 1, ' ') : NULL;
        if (!end || bh_starts_with(at, " /proc/sys/fs/binfmt_misc"))
            continue;
        *end = '\0';
        if (n++ < 3)
            bh_buf_addf(out, "%s%s", n > 1 ? ", " : "", at + 1);
    }
    bh_buf_addf(out, "%s", n > 3 ? " …" : "");
    return n;
}

static void of_proc(const struct bh_launcher *l, const struct bh_fail *fail, struct bh_buf *out)
{
    BH_CLEANUP_BUF struct bh_buf covers = BH_BUF_INIT;
    if (!no_right(fail->error)) {
        of_call(l, fail, "5.12", out);
        return;
    }
    if (covers_of_proc(&covers) > 0)
        bh_buf_addf(out, "parts of /proc are covered here (%s), and the kernel makes no new one that would show them: ",
                    covers.data);
    else
        bh_buf_addf(out, "no whole /proc is mounted here, and the kernel makes no new one that would show more: ");
    bh_buf_addf(out,
                "Docker --security-opt systempaths=unconfined, Podman --security-opt unmask=ALL, Kubernetes "
                "securityContext.procMount: Unmasked (with hostUsers: false); in bubblewrap bind the host's /proc");
}

void bh_cause_of(const struct bh_launcher *l, enum bh_try what, const struct bh_fail *fail, struct bh_buf *out)
{
    static const char *const kinds[] = {
        [BH_TRY_USER] = "user", [BH_TRY_MOUNT] = "mnt", [BH_TRY_PID] = "pid",      [BH_TRY_NET] = "net",
        [BH_TRY_IPC] = "ipc",   [BH_TRY_UTS] = "uts",   [BH_TRY_CGROUP] = "cgroup"};
    if (what <= BH_TRY_CGROUP)
        of_namespace(l, kinds[what], fail, out);
    else if (what == BH_TRY_OVERLAY)
        of_overlay(l, fail, out);
    else if (what == BH_TRY_PROC)
        of_proc(l, fail, out);
    else if (what == BH_TRY_LANDLOCK)
        bh_buf_addf(out, "use Linux 5.19 or later with landlock among its security modules (lsm= on its command line)");
    else if (what == BH_TRY_SECCOMP && fail->error == EINVAL)
        bh_buf_addf(out, "use a kernel with CONFIG_SECCOMP_FILTER");
    else
        of_call(l, fail, "5.12", out);
}

void bh_cause_of_setup(const struct bh_launcher *l, struct bh_buf *out)
{
    const struct bh_fail *fail = &l->fail;
    int error = fail->error;
    if (error == EMFILE || error == ENFILE)
        bh_buf_addf(out, "raise the limit of open files: ulimit -n 1024");
    else if (error == EAGAIN || error == ENOMEM)
        bh_buf_addf(out, "raise the limit of processes (ulimit -u, pids.max of the control group) or free memory");
    else if (strstr(l->fail.step, "/dev/"))
        bh_buf_addf(out, "boxes get /dev/null, zero, full, random, urandom and tty of this host: put the missing one "
                         "there, or run bulkhead where a whole /dev is");
    else if (no_right(error))
        say_no_right(l, fail, out);
    else if (error == ENOSYS)
        of_call(l, fail, "5.12", out);
    else
        bh_buf_addf(out, "see what is missing above");
}
