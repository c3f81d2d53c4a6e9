/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces of the kernel that no box has business with. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/reboot.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/escape/escape.h"

static bool bpf(void)
{
    struct {
        uint32_t type, key, value, max, flags;
    } map = {.type = 2, .key = 4, .value = 4, .max = 1};
    return TRIED(syscall(SYS_bpf, 0 /* BPF_MAP_CREATE */, &map, sizeof(map)));
}

static bool perf(void)
{
    struct perf_event_attr attr = {.size = sizeof(attr), .type = PERF_TYPE_SOFTWARE};
    attr.exclude_kernel = 1;
    return TRIED(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

static bool user_fault_fd(void)
{
    return TRIED(syscall(SYS_userfaultfd, O_CLOEXEC));
}

static bool io_uring(void)
{
    struct io_uring_params params = {0};
    return TRIED(syscall(SYS_io_uring_setup, 4, &params));
}

static bool key_by_id(void)
{
    char text[256];
    return TRIED(syscall(SYS_keyctl, KEYCTL_READ, target_number("key"), text, sizeof(text)));
}

static bool key_by_name(void)
{
    return TRIED(syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", "bh-escape", 0));
}

static bool key_add(void)
{
    return TRIED(syscall(SYS_add_key, "user", "bh-escape-added", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}

static bool key_request(void)
{
    return TRIED(syscall(SYS_request_key, "user", "bh-escape", NULL, 0));
}

static bool key_list(void)
{
    static char text[65536];
    int fd = open("/proc/keys", O_RDONLY | O_CLOEXEC);
    if (!tried(fd, "open /proc/keys"))
        return false;
    size_t n = slurp(fd, text, sizeof(text));
    close(fd);
    note("/proc/keys has %zu bytes", n);
    return n > 0;
}

static bool module(void)
{
    return syscall(SYS_init_module, "", 0, "") < 0 && errno == ENOEXEC ? (note("init_module looked at it"), true)
                                                                       : tried(-1, "init_module");
}

static bool module_file(void)
{
    int fd = memfd_create("module", MFD_CLOEXEC);
    return syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EPERM && errno != ENOSYS
               ? (note("finit_module looked at it: %s", strerror(errno)), true)
               : tried(-1, "finit_module");
}

static bool unload_module(void)
{
    return syscall(SYS_delete_module, "bh-no-such-module", O_NONBLOCK) < 0 && errno == ENOENT
               ? (note("delete_module looked for it"), true)
               : tried(-1, "delete_module");
}

static bool kexec(void)
{
    return TRIED(syscall(SYS_kexec_load, 0, 0, NULL, 0));
}

static bool reboots(void)
{
    return TRIED(syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_CAD_ON, NULL));
}

static bool sets_clock(void)
{
    struct timeval now;
    (void)gettimeofday(&now, NULL);
    return TRIED(settimeofday(&now, NULL));
}

static bool adjusts_clock(void)
{
    const struct timeval none = {0};
    return TRIED(adjtime(&none, NULL));
}

static bool host_name(void)
{
    return TRIED(sethostname("escaped", 7));
}

static bool swap_on(void)
{
    int fd = open("swap", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    (void)!ftruncate(fd, 65536);
    close(fd);
    /* A file that is none is refused only after the right to ask. */
    return swapon("swap", 0) < 0 && errno == EINVAL ? (note("swapon looked at the file"), true) : tried(-1, "swapon");
}

static bool quota(void)
{
    int format;
    return quotactl(QCMD(Q_SYNC, USRQUOTA), NULL, 0, (void *)&format) < 0 ? tried(-1, "quotactl")
                                                                          : (note("quotactl"), true);
}

static bool accounting(void)
{
    return TRIED(acct(NULL));
}

static bool kernel_log(void)
{
    char text[256];
    return TRIED(klogctl(3 /* read all */, text, sizeof(text)));
}

static bool kernel_log_device(void)
{
    return opens("/dev/kmsg", O_RDWR);
}

static bool handle_open(void)
{
    union {
        struct file_handle head;
        char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } h = {.head = {.handle_bytes = MAX_HANDLE_SZ}};
    int mount_id, at = open("/workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        at = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (name_to_handle_at(at, "", &h.head, &mount_id, AT_EMPTY_PATH) < 0) {
        /* The famous one: inode 2, the root of an ext4. */
        h.head.handle_bytes = 8;
        h.head.handle_type = 1;
        memcpy(h.bytes + sizeof(h.head), (const uint32_t[]){2, 0}, 8);
    }
    return TRIED(open_by_handle_at(at, &h.head, O_RDONLY | O_CLOEXEC));
}

static bool fan_notify(void)
{
    int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC, O_RDONLY);
    return tried(fd, "fanotify_init") &&
           TRIED(fanotify_mark(fd, FAN_MARK_ADD | FAN_MARK_MOUNT, FAN_OPEN, AT_FDCWD, "/"));
}

static bool ports(void)
{
#ifdef __x86_64__
    return TRIED(syscall(SYS_iopl, 3));
#else
    errno = ENOSYS;
    return tried(-1, "iopl");
#endif
}

static bool local_descriptors(void)
{
#ifdef __x86_64__
    char table[64];
    return TRIED(syscall(SYS_modify_ldt, 0, table, sizeof(table)));
#else
    errno = ENOSYS;
    return tried(-1, "modify_ldt");
#endif
}

static bool no_randomisation(void)
{
    return TRIED(personality(ADDR_NO_RANDOMIZE));
}

static bool secret_memory(void)
{
    return TRIED(syscall(SYS_memfd_secret, 0));
}

/* The other door to the kernel: its filter would have to know other numbers. */
static bool calls_of_i386(void)
{
#ifdef __x86_64__
    long rc;
    __asm__ volatile("int $0x80" : "=a"(rc) : "a"(20L /* getpid */) : "memory");
    errno = rc < 0 ? (int)-rc : 0;
    return tried(rc, "getpid by int 0x80");
#else
    errno = ENOSYS;
    return tried(-1, "int 0x80");
#endif
}

static bool calls_of_x32(void)
{
    return TRIED(syscall(0x40000000 | SYS_getpid));
}

static bool types_into_terminal(void)
{
    int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (!tried(fd, "posix_openpt") || !tried(grantpt(fd) < 0 || unlockpt(fd) < 0 ? -1 : 0, "unlockpt"))
        return false;
    (void)setsid();
    int end = open(ptsname(fd), O_RDWR | O_CLOEXEC);
    return tried(end, "open the terminal") && TRIED(ioctl(end, TIOCSTI, "x"));
}

static bool device_node(dev_t device)
{
    (void)unlink("node");
    bool made = tried(mknod("node", S_IFBLK | 0666, device), "mknod of a block device");
    (void)unlink("node");
    return made;
}

static bool disk_node(void)
{
    return device_node(makedev(8, 0));
}

static bool memory_node(void)
{
    (void)unlink("node");
    bool made = tried(mknod("node", S_IFCHR | 0666, makedev(1, 1)), "mknod of /dev/mem");
    (void)unlink("node");
    return made;
}

static bool memory_device(void)
{
    return opens("/dev/mem", O_RDWR);
}

static bool sets_core_pattern(void)
{
    return opens("/proc/sys/kernel/core_pattern", O_WRONLY);
}

static bool sets_modprobe(void)
{
    return opens("/proc/sys/kernel/modprobe", O_WRONLY);
}

static bool sets_binfmt(void)
{
    return opens("/proc/sys/fs/binfmt_misc/register", O_WRONLY);
}

static bool sets_uevent_helper(void)
{
    return opens("/sys/kernel/uevent_helper", O_WRONLY) ||
           opens("/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY);
}

static bool sysrq(void)
{
    return opens("/proc/sysrq-trigger", O_WRONLY);
}

static bool network_settings(void)
{
    return opens("/proc/sys/net/ipv4/ip_unprivileged_port_start", O_WRONLY);
}

static bool namespace_limits(void)
{
    return opens("/proc/sys/user/max_user_namespaces", O_WRONLY);
}

static bool kernel_memory(void)
{
    return opens("/proc/kcore", O_RDONLY);
}

static bool kernel_symbols(void)
{
    return file_holds("/proc/kallsyms", " T ");
}

static bool interrupt_counts(void)
{
    return file_holds("/proc/interrupts", "CPU0");
}

static bool core_limit(void)
{
    const struct {
        uint64_t soft, hard;
    } none = {0};
    uint64_t now[2];
    (void)syscall(SYS_prlimit64, 0, 4 /* core */, &none, NULL);
    if (!TRIED(syscall(SYS_prlimit64, 0, 4, NULL, now)))
        return false;
    note("the limit of core dumps is %llu", (unsigned long long)now[0]);
    return now[0] != 1;
}

const struct attempt attempts_kernel[] = {
    {"bpf", "make a BPF map", bpf},
    {"perf", "open a counter of perf_event_open", perf, .may_lack = "CONFIG_PERF_EVENTS"},
    {"userfaultfd", "stop the kernel at a page of ours", user_fault_fd, .may_lack = "CONFIG_USERFAULTFD"},
    {"io-uring", "make a ring: calls that no filter sees", io_uring, .may_lack = "CONFIG_IO_URING"},
    {"key-by-id", "read a key of the host by its number", key_by_id, .may_lack = "CONFIG_KEYS"},
    {"key-by-name", "find a key of the host in the user's keyring", key_by_name, .may_lack = "CONFIG_KEYS"},
    {"key-add", "make a key", key_add, .may_lack = "CONFIG_KEYS"},
    {"key-request", "have the kernel look for a key", key_request, .may_lack = "CONFIG_KEYS"},
    {"key-list", "read the list of keys", key_list, .may_lack = "CONFIG_KEYS"},
    {"module-load", "load a module", module, .may_lack = "CONFIG_MODULES"},
    {"module-file", "load a module from a file", module_file, .may_lack = "CONFIG_MODULES"},
    {"module-unload", "unload a module", unload_module, .may_lack = "CONFIG_MODULES"},
    {"kexec", "load another kernel", kexec, .may_lack = "CONFIG_KEXEC"},
    {"reboot", "arm the key combination that reboots", reboots, .not_outside = "it would be armed"},
    {"clock-set", "set the clock", sets_clock, .not_outside = "it would be set"},
    {"clock-adjust", "slew the clock", adjusts_clock},
    {"hostname", "rename the machine", host_name, .apart = CLONE_NEWUTS},
    {"swapon", "swap to a file of ours", swap_on},
    {"quotactl", "command quotas", quota, .may_lack = "CONFIG_QUOTACTL"},
    {"acct", "stop process accounting", accounting, .may_lack = "CONFIG_BSD_PROCESS_ACCT"},
    {"kernel-log", "read the kernel's log", kernel_log},
    {"kernel-log-device", "open /dev/kmsg", kernel_log_device, .may_lack = "/dev/kmsg"},
    {"handle-open", "open a file by its handle, past all paths", handle_open,
     .may_lack = "handles on this file system"},
    {"fanotify", "watch a whole mount", fan_notify, .may_lack = "CONFIG_FANOTIFY"},
    {"io-ports", "command devices", ports, .may_lack = "CONFIG_X86_IOPL_IOPERM"},
    {"ldt", "read descriptors of segments", local_descriptors, .may_lack = "this architecture has none"},
    {"no-aslr", "have addresses that can be guessed", no_randomisation},
    {"secret-memory", "hide memory from the kernel", secret_memory, .may_lack = "secretmem.enable"},
    {"calls-i386", "make system calls as i386", calls_of_i386, .may_lack = "CONFIG_IA32_EMULATION"},
    {"calls-x32", "make system calls as x32", calls_of_x32, .may_lack = "CONFIG_X86_X32"},
    {"tiocsti", "type into a terminal", types_into_terminal, .may_lack = "dev.tty.legacy_tiocsti"},
    {"node-disk", "make a node of a disk", disk_node},
    {"node-memory", "make a node of all memory", memory_node},
    {"dev-mem", "open /dev/mem", memory_device, .may_lack = "/dev/mem"},
    {"core-pattern", "have the host run a program of ours for a crash", sets_core_pattern},
    {"modprobe-path", "have the host run a program of ours for a module", sets_modprobe, .may_lack = "CONFIG_MODULES"},
    {"binfmt", "have the host run a program of ours for a format", sets_binfmt, .may_lack = "binfmt_misc"},
    {"uevent-helper", "have the host run a program of ours for a device", sets_uevent_helper, .may_lack = "/sys"},
    {"sysrq", "open the kernel's emergency keys", sysrq, .may_lack = "CONFIG_MAGIC_SYSRQ"},
    {"sysctl-net", "change a setting of the network", network_settings},
    {"sysctl-user", "change a limit of namespaces", namespace_limits, .may_lack = "CAP_SYS_RESOURCE"},
    {"kcore", "read the kernel's memory", kernel_memory, .may_lack = "CONFIG_PROC_KCORE"},
    {"kallsyms", "read the kernel's symbols", kernel_symbols, .may_lack = "CONFIG_KALLSYMS"},
    {"interrupts", "see by interrupts what others do", interrupt_counts, .may_lack = "/proc/interrupts"},
    {"core-limit", "let a crash run the host's handler of core dumps", core_limit},
    {NULL},
};
