/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp program against libseccomp's own of the same rules: both are run by a small interpreter over every number
 * that either knows and arguments that attackers like. And what must never be allowed is named once more here.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/support/t.h"
#include "workers/launcher/launcher.h"

struct program {
    struct sock_filter code[BPF_MAXINSNS];
    size_t len;
};

static struct program ours, reference;

static void load(struct program *p, int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    p->len = (size_t)st.st_size / sizeof(struct sock_filter);
    T_TRUE(p->len > 10 && p->len <= BPF_MAXINSNS);
    assert_int_equal(pread(fd, p->code, (size_t)st.st_size, 0), st.st_size);
}

/* Only what the two programs use. */
static uint32_t run(const struct program *p, const struct seccomp_data *data)
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

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#define OTHER AUDIT_ARCH_I386
#else
#define NATIVE AUDIT_ARCH_AARCH64
#define OTHER AUDIT_ARCH_ARM
#endif

static uint32_t ask(const struct program *p, uint32_t arch, int nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
    struct seccomp_data data = {.nr = nr, .arch = arch, .args = {a0, a1, a2}};
    return run(p, &data);
}

#define DENIED (SECCOMP_RET_ERRNO | EPERM)
#define ABSENT (SECCOMP_RET_ERRNO | ENOSYS)

static const char *const allowed[] = {
#define BH_X(name) #name,
#include "workers/launcher/syscalls.def"
#undef BH_X
};

static void add(scmp_filter_ctx ctx, int nr, unsigned n, const struct scmp_arg_cmp *cmp)
{
    assert_int_equal(seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, nr, n, cmp), 0);
}

static void add_when(scmp_filter_ctx ctx, int nr, unsigned arg, uint64_t mask, uint64_t value)
{
    add(ctx, nr, 1, &SCMP_CMP64(arg, SCMP_CMP_MASKED_EQ, mask, value));
}

#define LOW UINT64_C(0xffffffff)
#define NEW_NAMESPACES UINT64_C(0x7e020000)

static void build_reference(void)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    assert_int_equal(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)), 0);
    for (size_t i = 0; i < BH_ARRAY_LEN(allowed); i++) {
        int nr = seccomp_syscall_resolve_name(allowed[i]);
        if (nr >= 0)
            add(ctx, nr, 0, NULL);
    }
    add_when(ctx, SCMP_SYS(clone), 0, NEW_NAMESPACES, 0);
    add_when(ctx, SCMP_SYS(socket), 0, LOW, AF_UNIX);
    add_when(ctx, SCMP_SYS(socket), 0, LOW, AF_INET);
    add_when(ctx, SCMP_SYS(socket), 0, LOW, AF_INET6);
    add(ctx, SCMP_SYS(socket), 2,
        (struct scmp_arg_cmp[]){SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, LOW, AF_NETLINK),
                                SCMP_CMP64(2, SCMP_CMP_MASKED_EQ, LOW, 0)});
    add_when(ctx, SCMP_SYS(socketpair), 0, LOW, AF_UNIX);
    add_when(ctx, SCMP_SYS(prlimit64), 0, LOW, 0);
    add(ctx, SCMP_SYS(prlimit64), 1, (struct scmp_arg_cmp[]){SCMP_CMP64(2, SCMP_CMP_EQ, 0)});
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
    struct bh_fail fail = {0};
    (void)state;
    BH_CLEANUP_FD int fd = bh_filter_make(&fail);
    if (fd < 0)
        fail_msg("%s", fail.step);
    load(&ours, fd);
    build_reference();
    return 0;
}

static const uint64_t values[] = {
    0,
    1,
    2,
    3,
    10,
    16,
    17,
    38,
    40,
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

/* ioctl is the one call that libseccomp cannot say our rule for; newer calls are those it does not know. */
static void agrees_with_libseccomp(void **state)
{
    (void)state;
    for (int nr = 0; nr <= 450; nr++) {
        if (nr == SYS_ioctl)
            continue;
        for (size_t i = 0; i < BH_ARRAY_LEN(values); i++) {
            for (size_t k = 0; k < 6; k++) {
                uint32_t a = ask(&ours, NATIVE, nr, values[i], values[k], values[k]);
                uint32_t b = ask(&reference, NATIVE, nr, values[i], values[k], values[k]);
                if (a != b)
                    fail_msg("call %d(%#llx, …, %#llx): %#x, libseccomp says %#x", nr, (unsigned long long)values[i],
                             (unsigned long long)values[k], a, b);
            }
        }
    }
}

static void types_into_no_terminal(void **state)
{
    (void)state;
    T_INT(ask(&ours, NATIVE, SYS_ioctl, 0, TIOCSTI, 0), DENIED);
    T_INT(ask(&ours, NATIVE, SYS_ioctl, 0, TIOCSTI | (UINT64_C(1) << 32), 0), DENIED); /* the kernel cuts it too */
    T_INT(ask(&ours, NATIVE, SYS_ioctl, 0, 0x541c, 0), DENIED);
    T_INT(ask(&ours, NATIVE, SYS_ioctl, 0, TIOCGWINSZ, 0), (int)SECCOMP_RET_ALLOW);
    T_INT(ask(&ours, NATIVE, SYS_ioctl, TIOCSTI, FIONREAD, 0), (int)SECCOMP_RET_ALLOW);
}

static void new_and_foreign_calls_are_absent(void **state)
{
    (void)state;
    const int newer[] = {451, 452, 454, 455, 456, 462, 463, 466};
    for (size_t i = 0; i < BH_ARRAY_LEN(newer); i++)
        T_INT(ask(&ours, NATIVE, newer[i], 0, 0, 0), (int)SECCOMP_RET_ALLOW);
    const int absent[] = {453, 457, 458, 461, 467, 468, 500, 511, 512, 1000, 0x40000000, 0x40000001, -1, SYS_clone3};
    for (size_t i = 0; i < BH_ARRAY_LEN(absent); i++)
        T_INT(ask(&ours, NATIVE, absent[i], 0, 0, 0), (int)ABSENT);
    for (int nr = 0; nr < 600; nr++)
        T_INT(ask(&ours, OTHER, nr, 0, 0, 0), (int)ABSENT);
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
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(never); i++) {
        int nr = seccomp_syscall_resolve_name(never[i]);
        if (nr >= 0 && ask(&ours, NATIVE, nr, 0, 0, 0) != (uint32_t)DENIED)
            fail_msg("%s is not denied", never[i]);
    }
    T_INT(ask(&ours, NATIVE, SYS_clone, CLONE_NEWUSER | 17, 0, 0), DENIED);
    T_INT(ask(&ours, NATIVE, SYS_clone, CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, 0, 0), (int)SECCOMP_RET_ALLOW);
    T_INT(ask(&ours, NATIVE, SYS_socket, 40 /* AF_VSOCK */, 1, 0), DENIED);
    T_INT(ask(&ours, NATIVE, SYS_socket, 38 /* AF_ALG */, 1, 0), DENIED);
    T_INT(ask(&ours, NATIVE, SYS_socket, AF_PACKET, 3, 0), DENIED);
    T_INT(ask(&ours, NATIVE, SYS_socket, AF_NETLINK, 3, 15 /* uevents */), DENIED);
    T_INT(ask(&ours, NATIVE, SYS_socket, AF_NETLINK, 3, 0), (int)SECCOMP_RET_ALLOW);
}

static void is_small(void **state)
{
    (void)state;
    T_TRUE(ours.len < 256); /* what is loaded for every exec */
    T_TRUE(ours.len < reference.len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_libseccomp),
        cmocka_unit_test(types_into_no_terminal),
        cmocka_unit_test(new_and_foreign_calls_are_absent),
        cmocka_unit_test(never_allows),
        cmocka_unit_test(is_small),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
