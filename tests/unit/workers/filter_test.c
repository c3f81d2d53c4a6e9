/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp programs of x86_64 and aarch64 against libseccomp's own of the same rules: both are run by a small
 * interpreter over every number that either knows and arguments that attackers like, whatever machine this is. And what
 * must never be allowed is named once more here, by name.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/support/t.h"
#include "workers/launcher/launcher.h"

static const struct machine {
    const char *name;
    uint32_t audit, scmp, foreign[3];
} machines[] = {
    {"x86_64", AUDIT_ARCH_X86_64, SCMP_ARCH_X86_64, {AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, 0}},
    {"aarch64", AUDIT_ARCH_AARCH64, SCMP_ARCH_AARCH64, {AUDIT_ARCH_ARM, AUDIT_ARCH_X86_64, 0}},
};
static const struct machine *machine; /* the one that a test is about */
static struct bh_filter ours, reference;

static void load(struct bh_filter *p, int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    p->len = (unsigned)((size_t)st.st_size / sizeof(struct sock_filter));
    T_TRUE(p->len > 10 && p->len <= BPF_MAXINSNS);
    assert_int_equal(pread(fd, p->code, (size_t)st.st_size, 0), st.st_size);
}

/* Only what the two programs use. */
static uint32_t run(const struct bh_filter *p, const struct seccomp_data *data)
{
    uint32_t a = 0;
    for (size_t pc = 0; pc < p->len; pc++) {
        const struct sock_filter *i = &p->code[pc];
        bool yes;
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            T_TRUE(i->k + 4 <= sizeof(*data));
            memcpy(&a, (const char *)data + i->k, 4);
            continue;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= i->k;
            continue;
        case BPF_RET | BPF_K:
            return i->k;
        case BPF_JMP | BPF_JA:
            pc += i->k;
            continue;
        case BPF_JMP | BPF_JEQ | BPF_K:
            yes = a == i->k;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            yes = a >= i->k;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            yes = a > i->k;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            yes = (a & i->k) != 0;
            break;
        default:
            fail_msg("an instruction that the test does not know: %#x", i->code);
            return 0;
        }
        pc += yes ? i->jt : i->jf;
    }
    fail_msg("ran off the end");
    return 0;
}

static int number(const char *name)
{
    return seccomp_syscall_resolve_name_arch(machine->scmp, name);
}

static uint32_t ask_as(const struct bh_filter *p, uint32_t arch, int nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
    struct seccomp_data data = {.nr = nr, .arch = arch, .args = {a0, a1, a2}};
    return run(p, &data);
}

static uint32_t ask(const char *name, uint64_t a0, uint64_t a1, uint64_t a2)
{
    int nr = number(name);
    if (nr < 0)
        fail_msg("%s has no %s", machine->name, name);
    return ask_as(&ours, machine->audit, nr, a0, a1, a2);
}

static uint32_t ask_prlimit(uint64_t pid, uint64_t resource, uint64_t new, uint64_t old)
{
    struct seccomp_data data = {.nr = number("prlimit64"), .arch = machine->audit, .args = {pid, resource, new, old}};
    return run(&ours, &data);
}

#define DENIED (SECCOMP_RET_ERRNO | EPERM)
#define ABSENT (SECCOMP_RET_ERRNO | ENOSYS)
#define ALLOWED SECCOMP_RET_ALLOW
#define PRETENDED (SECCOMP_RET_ERRNO | 0)

static const char *const allowed[] = {
#define BH_X(name) #name,
#include "workers/launcher/syscalls.def"
#undef BH_X
};

static void add(scmp_filter_ctx ctx, int nr, unsigned n, const struct scmp_arg_cmp *cmp)
{
    int rc = seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, nr, n, cmp);
    if (rc != 0)
        fail_msg("libseccomp refuses a rule for %d: %d", nr, rc);
}

static void add_when(scmp_filter_ctx ctx, int nr, unsigned arg, uint64_t mask, uint64_t value)
{
    add(ctx, nr, 1, &SCMP_CMP64(arg, SCMP_CMP_MASKED_EQ, mask, value));
}

#define LOW UINT64_C(0xffffffff)
#define NEW_NAMESPACES UINT64_C(0x7e020000)

static void add_sockets(scmp_filter_ctx ctx)
{
    static const uint64_t families[] = {AF_INET, AF_INET6}, types[] = {SOCK_STREAM, SOCK_DGRAM},
                          protocols[] = {0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6};
    add_when(ctx, SCMP_SYS(socket), 0, LOW, AF_UNIX);
    add(ctx, SCMP_SYS(socket), 2,
        (struct scmp_arg_cmp[]){SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, LOW, AF_NETLINK),
                                SCMP_CMP64(2, SCMP_CMP_MASKED_EQ, LOW, 0)});
    for (size_t i = 0; i < 2 * 2 * BH_ARRAY_LEN(protocols); i++)
        add(ctx, SCMP_SYS(socket), 3,
            (struct scmp_arg_cmp[]){SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, LOW, families[i & 1]),
                                    SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, 0xf, types[i >> 1 & 1]),
                                    SCMP_CMP64(2, SCMP_CMP_MASKED_EQ, LOW, protocols[i >> 2])});
}

static void build_reference(void)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (seccomp_arch_exist(ctx, machine->scmp) != 0)
        assert_int_equal(seccomp_arch_add(ctx, machine->scmp), 0);
    if (machine->scmp != seccomp_arch_native())
        assert_int_equal(seccomp_arch_remove(ctx, seccomp_arch_native()), 0);
    assert_int_equal(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)), 0);
    for (size_t i = 0; i < BH_ARRAY_LEN(allowed); i++) {
        int nr = seccomp_syscall_resolve_name(allowed[i]);
        if (nr != __NR_SCMP_ERROR && number(allowed[i]) >= 0)
            add(ctx, nr, 0, NULL);
    }
    add_when(ctx, SCMP_SYS(clone), 0, NEW_NAMESPACES, 0);
    add_sockets(ctx);
    add_when(ctx, SCMP_SYS(socketpair), 0, LOW, AF_UNIX);
    add_when(ctx, SCMP_SYS(personality), 0, LOW, 0);
    add_when(ctx, SCMP_SYS(personality), 0, LOW, 0x20000);
    add_when(ctx, SCMP_SYS(personality), 0, LOW, LOW);
    assert_int_equal(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0), 0);
    BH_CLEANUP_FD int fd = memfd_create("reference", MFD_CLOEXEC);
    assert_int_equal(seccomp_export_bpf(ctx, fd), 0);
    load(&reference, fd);
    seccomp_release(ctx);
}

static int set_up(void **state)
{
    machine = *state;
    if (bh_filter_build(machine->audit, &ours) < 0)
        fail_msg("no program for %s", machine->name);
    build_reference();
    return 0;
}

static const uint64_t values[] = {
    0,
    1,
    2,
    3,
    5,
    6,
    10,
    16,
    17,
    38,
    40,
    58,
    132,
    262,
    0x80801,
    0x5412,
    0x541c,
    0x5413,
    0x20000,
    0x40000,
    0xffffffff,
    0x10000000,
    0x02000000,
    0x01200011,
    0x3d0f00,
    0x100000001,
    0x10000000000000,
    0x100005412,
    0x1000000010000000,
    UINT64_C(0xffffffff00000001),
};

/* Calls whose rules libseccomp cannot say have tests of their own. */
static bool is_own_rule(int nr)
{
    return nr == number("ioctl") || nr == number("setrlimit") || nr == number("prlimit64");
}

static void agrees_with_libseccomp(void **state)
{
    (void)state;
    const size_t n = BH_ARRAY_LEN(values);
    for (int nr = 0; nr <= 450; nr++) {
        if (is_own_rule(nr))
            continue;
        bool many = nr == number("socket");
        for (size_t i = 0; i < n * 6 * (many ? n : 6); i++) {
            uint64_t a0 = values[i % n], a1 = values[i / n % (many ? n : 6)], a2 = values[i / n / (many ? n : 6) % n];
            uint32_t a = ask_as(&ours, machine->audit, nr, a0, a1, a2);
            uint32_t b = ask_as(&reference, machine->audit, nr, a0, a1, a2);
            if (a != b)
                fail_msg("%s: call %d(%#llx, %#llx, %#llx): %#x, libseccomp says %#x", machine->name, nr,
                         (unsigned long long)a0, (unsigned long long)a1, (unsigned long long)a2, a, b);
        }
    }
}

static void types_into_no_terminal(void **state)
{
    (void)state;
    T_INT(ask("ioctl", 0, TIOCSTI, 0), DENIED);
    T_INT(ask("ioctl", 0, TIOCSTI | (UINT64_C(1) << 32), 0), DENIED); /* the kernel cuts it too */
    T_INT(ask("ioctl", 0, 0x541c, 0), DENIED);
    T_INT(ask("ioctl", 0, TIOCGWINSZ, 0), (int)ALLOWED);
    T_INT(ask("ioctl", TIOCSTI, FIONREAD, 0), (int)ALLOWED);
}

static void leaves_other_processes_limits_alone(void **state)
{
    (void)state;
    const uint64_t p = 0x7ffc00001000, high = UINT64_C(0x100000000);
    T_INT(ask_prlimit(0, RLIMIT_NOFILE, p, p), (int)ALLOWED);
    T_INT(ask_prlimit(high, RLIMIT_NOFILE, p, 0), (int)ALLOWED); /* a pid has 32 bits */
    T_INT(ask_prlimit(1, RLIMIT_NOFILE, 0, p), (int)ALLOWED);
    T_INT(ask_prlimit(1, RLIMIT_NOFILE, p, 0), DENIED);
    T_INT(ask_prlimit(1, RLIMIT_NOFILE, high, 0), DENIED); /* a pointer has 64 */
    T_INT(ask_prlimit(0xffffffff, RLIMIT_CORE, p, 0), DENIED);
}

/* With a limit of 0 a core_pattern that is a pipe would still run its program: nobody gets from 1 to 0. */
static void core_limit_stays(void **state)
{
    (void)state;
    const uint64_t p = 0x7ffc00001000, high = UINT64_C(0x100000000);
    T_INT(ask_prlimit(0, RLIMIT_CORE, 0, p), (int)ALLOWED);
    T_INT(ask_prlimit(0, RLIMIT_CORE, p, 0), PRETENDED);
    T_INT(ask_prlimit(0, RLIMIT_CORE, high, 0), PRETENDED);
    T_INT(ask_prlimit(0, RLIMIT_CORE | high, p, 0), PRETENDED);
    T_INT(ask_prlimit(0, RLIMIT_CORE, p, p), DENIED); /* would have to fill in the old one */
    T_INT(ask_prlimit(0, RLIMIT_CORE, p, high), DENIED);
    T_INT(ask("setrlimit", RLIMIT_CORE, p, 0), PRETENDED);
    T_INT(ask("setrlimit", RLIMIT_CORE | high, p, 0), PRETENDED);
    T_INT(ask("setrlimit", RLIMIT_STACK, p, 0), (int)ALLOWED);
}

static void new_and_foreign_calls_are_absent(void **state)
{
    (void)state;
    const int newer[] = {451, 452, 454, 455, 456, 462, 463, 466};
    for (size_t i = 0; i < BH_ARRAY_LEN(newer); i++)
        T_INT(ask_as(&ours, machine->audit, newer[i], 0, 0, 0), (int)ALLOWED);
    const int absent[] = {453, 457, 458, 461, 467, 468, 500, 511, 512, 1000, 0x40000000, 0x40000001, -1};
    for (size_t i = 0; i < BH_ARRAY_LEN(absent); i++)
        T_INT(ask_as(&ours, machine->audit, absent[i], 0, 0, 0), (int)ABSENT);
    for (int nr = 0x40000000; nr < 0x40000000 + 600; nr++) /* x32 */
        T_INT(ask_as(&ours, machine->audit, nr, 0, 0, 0), (int)ABSENT);
    T_INT(ask("clone3", 0, 0, 0), (int)ABSENT);
    for (size_t i = 0; i < BH_ARRAY_LEN(machine->foreign); i++) {
        for (int nr = 0; nr < 600; nr++)
            T_INT(ask_as(&ours, machine->foreign[i], nr, 0, 0, 0), (int)ABSENT);
    }
}

static void never_allows(void **state)
{
    (void)state;
    static const char *const never[] = {
        "mount",
        "umount2",
        "pivot_root",
        "open_tree",
        "move_mount",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "mount_setattr",
        "setns",
        "unshare",
        "chroot",
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "keyctl",
        "add_key",
        "request_key",
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "kcmp",
        "pidfd_getfd",
        "open_by_handle_at",
        "fanotify_init",
        "init_module",
        "finit_module",
        "delete_module",
        "kexec_load",
        "kexec_file_load",
        "reboot",
        "swapon",
        "swapoff",
        "acct",
        "quotactl",
        "syslog",
        "settimeofday",
        "clock_settime",
        "clock_adjtime",
        "sethostname",
        "setdomainname",
        "vhangup",
        "nfsservctl",
        "lookup_dcookie",
        "iopl",
        "ioperm",
        "modify_ldt",
        "process_madvise",
        "move_pages",
        "migrate_pages",
        "mbind",
        "set_mempolicy",
        "memfd_secret",
        "quotactl_fd",
        "uselib",
        "vm86",
        "fanotify_mark",
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(never); i++) {
        int nr = number(never[i]);
        if (nr == __NR_SCMP_ERROR)
            fail_msg("nobody knows %s", never[i]);
        if (nr >= 0 && ask_as(&ours, machine->audit, nr, 0, 0, 0) != (uint32_t)DENIED)
            fail_msg("%s is not denied", never[i]);
    }
    T_INT(ask("clone", CLONE_NEWUSER | 17, 0, 0), DENIED);
    T_INT(ask("clone", CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, 0, 0), (int)ALLOWED);
}

static void opens_few_kinds_of_sockets(void **state)
{
    (void)state;
    static const int families[] = {AF_VSOCK, AF_ALG, AF_PACKET, AF_KEY, AF_BLUETOOTH, AF_CAN, AF_TIPC,   AF_RDS,
                                   AF_XDP,   AF_NFC, AF_RXRPC,  AF_X25, AF_SMC,       AF_KCM, AF_QIPCRTR};
    for (size_t i = 0; i < BH_ARRAY_LEN(families); i++)
        T_INT(ask("socket", (uint64_t)families[i], SOCK_STREAM, 0), DENIED);
    for (uint64_t protocol = 1; protocol < 25; protocol++)
        T_INT(ask("socket", AF_NETLINK, SOCK_RAW, protocol), DENIED); /* audit, netfilter, uevents, generic, crypto … */
    T_INT(ask("socket", AF_NETLINK, SOCK_RAW, 0), (int)ALLOWED);
    const uint64_t flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
    for (int six = 0; six < 2; six++) {
        const uint64_t family = six ? AF_INET6 : AF_INET;
        T_INT(ask("socket", family, SOCK_STREAM | flags, 0), (int)ALLOWED);
        T_INT(ask("socket", family, SOCK_DGRAM | flags, IPPROTO_UDP), (int)ALLOWED);
        T_INT(ask("socket", family, SOCK_DGRAM, six ? IPPROTO_ICMPV6 : IPPROTO_ICMP), (int)ALLOWED);
        T_INT(ask("socket", family, SOCK_RAW | flags, IPPROTO_ICMP), DENIED);
        T_INT(ask("socket", family, SOCK_PACKET, 0), DENIED);
        T_INT(ask("socket", family, SOCK_SEQPACKET, 0), DENIED);
        T_INT(ask("socket", family, SOCK_DCCP, 0), DENIED);
        T_INT(ask("socket", family, SOCK_STREAM, IPPROTO_SCTP), DENIED);
        T_INT(ask("socket", family, SOCK_STREAM, IPPROTO_MPTCP), DENIED);
        T_INT(ask("socket", family, SOCK_DGRAM, IPPROTO_UDPLITE), DENIED);
    }
}

static void is_small(void **state)
{
    (void)state;
    T_TRUE(ours.len < 200); /* what is loaded for every exec */
    T_TRUE(ours.len < reference.len);
}

/* What is loaded is the program of this machine. */
static void makes_the_native_one(void **state)
{
    struct bh_fail fail = {0};
    (void)state;
    BH_CLEANUP_FD int fd = bh_filter_make(false, &fail);
    if (fd < 0)
        fail_msg("%s", fail.step);
    load(&reference, fd);
    T_INT(bh_filter_build(seccomp_arch_native() == SCMP_ARCH_X86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64, &ours),
          0);
    T_INT(reference.len, (int)ours.len);
    assert_memory_equal(reference.code, ours.code, ours.len * sizeof(ours.code[0]));
    T_INT(bh_filter_build(AUDIT_ARCH_I386, &ours), -1);
}

/* Its forks need setns; root of another box's network, which they are for a moment, has less of the kernel in reach. */
static void of_a_fork_server_differs_where_it_must(void **state)
{
    static const char *const same[] = {"mount", "unshare", "bpf",     "ptrace",     "keyctl",         "clone",
                                       "read",  "execve",  "umount2", "pivot_root", "io_uring_setup", "open_tree"};
    uint32_t agents[BH_ARRAY_LEN(same)];
    (void)state;
    T_INT(ask("setns", 3, 0, 0), DENIED);
    for (size_t i = 0; i < BH_ARRAY_LEN(same); i++)
        agents[i] = ask(same[i], CLONE_NEWUSER, 0, 0);
    T_INT(bh_filter_build_server(machine->audit, &ours), 0);
    T_INT(ask("setns", 3, 0, 0), SECCOMP_RET_ALLOW);
    T_INT(ask("clone", SIGCHLD, 0, 0), SECCOMP_RET_ALLOW);
    T_INT(ask("clone", CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0), SECCOMP_RET_ALLOW);
    T_INT(ask("clone", CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, 0, 0), SECCOMP_RET_ALLOW);
    T_INT(ask("clone", CLONE_VM | CLONE_THREAD | CLONE_NEWUSER, 0, 0), DENIED);
    T_INT(ask("clone", CLONE_VM | SIGCHLD, 0, 0), DENIED);
    T_INT(ask("clone", CLONE_FILES | SIGCHLD, 0, 0), DENIED);
    T_INT(ask("clone", CLONE_VM | CLONE_VFORK | CLONE_FS | SIGCHLD, 0, 0), DENIED);
    for (size_t i = 0; i < BH_ARRAY_LEN(same); i++)
        T_INT(ask(same[i], CLONE_NEWUSER, 0, 0), agents[i]);
    T_INT(ask("socket", AF_NETLINK, SOCK_RAW, 0), DENIED);
    T_INT(ask("socket", AF_INET, SOCK_RAW, 0), DENIED);
    T_INT(ask("socket", AF_INET, SOCK_STREAM, 0), SECCOMP_RET_ALLOW);
    T_INT(ask("socket", AF_INET6, SOCK_DGRAM, IPPROTO_UDP), SECCOMP_RET_ALLOW);
    T_INT(ask("socket", AF_UNIX, SOCK_SEQPACKET, 0), SECCOMP_RET_ALLOW);
    T_INT(ask("socket", AF_PACKET, SOCK_DGRAM, 0), DENIED);
    T_INT(ask("setsockopt", 3, IPPROTO_IP, 64), DENIED); /* IPT_SO_SET_REPLACE */
    T_INT(ask("setsockopt", 3, IPPROTO_IP, 129), DENIED);
    T_INT(ask("setsockopt", 3, IPPROTO_IPV6, 64), DENIED);
    T_INT(ask("setsockopt", 3, IPPROTO_IP, 1), SECCOMP_RET_ALLOW);
    T_INT(ask("setsockopt", 3, SOL_SOCKET, 64), SECCOMP_RET_ALLOW);
}

#define FOR(fn, i)                                         \
    {                                                      \
#fn "/" #i, fn, set_up, NULL, (void *)&machines[i] \
    }
#define BOTH(fn) FOR(fn, 0), FOR(fn, 1)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(agrees_with_libseccomp),
        BOTH(types_into_no_terminal),
        BOTH(leaves_other_processes_limits_alone),
        BOTH(core_limit_stays),
        BOTH(new_and_foreign_calls_are_absent),
        BOTH(of_a_fork_server_differs_where_it_must),
        BOTH(never_allows),
        BOTH(opens_few_kinds_of_sockets),
        BOTH(is_small),
        cmocka_unit_test(makes_the_native_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
