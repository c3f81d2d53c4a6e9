/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp program of agents. Names and numbers are libseccomp's; the program is ours: it is loaded for every exec,
 * and checking and compiling one of libseccomp's (421 instructions for this list) takes 0.12 ms, this one a third. The
 * unit test builds the same rules with libseccomp and holds the two together over every number and many arguments.
 *
 * - What is in syscalls.def is allowed, what is in `special` under conditions, everything else answers EPERM.
 * - System calls newer than libseccomp's tables answer ENOSYS: programs then fall back to older ones. So does clone3,
 *   whose flags lie in memory, out of a filter's sight.
 * - Another architecture's calls answer ENOSYS; x32 calls are above all numbers and do too.
 * - Arguments that the kernel cuts to 32 bits are compared cut to 32 bits.
 *
 * The program is built for an architecture that is named, so that the test reads those of all of them on any machine.
 *
 * A fork server's differs: what it forks enters the namespaces of another box and is for a moment root of them. So it
 * may call setns, which without that other box is refused by the kernel; and of what root of a network namespace can
 * reach in the kernel it is denied the larger part.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "workers/launcher/launcher.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#error "the system call filter knows x86_64 and aarch64"
#endif
/* What the kernel calls them, and libseccomp. */
static const struct arch {
    uint32_t audit, scmp;
} archs[] = {{AUDIT_ARCH_X86_64, SCMP_ARCH_X86_64}, {AUDIT_ARCH_AARCH64, SCMP_ARCH_AARCH64}};
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "offsets of argument halves");

#define NUMBERS 512    /* calls above are unknown to everybody; x32 calls too */
#define LAST_KNOWN 450 /* in libseccomp 2.5.4; numbers are the same on every architecture since 424 */
#define TIOCLINUX_CMD 0x541c

enum verdict { DENY, ALLOW, UNKNOWN, SPECIAL /* + index into special */ };

/* Newer than the library's tables, and harmless: cachestat, fchmodat2, futex_wake, futex_wait, futex_requeue, mseal,
 * and the calls for extended attributes with a directory descriptor. */
static const int newer[] = {451, 452, 454, 455, 456, 462, 463, 464, 465, 466};

static const char *const allowed[] = {
#define BH_X(name) #name,
#include "workers/launcher/syscalls.def"
#undef BH_X
};

#define ARG(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]))
#define ARG_HIGH(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]) + 4)
#define CUT(bits) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, (bits))
#define IF_EQ(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), (yes), (no))
#define IF_ANY(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (yes), (no))
#define YES BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define NO BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define NOT_THERE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)
#define AS_IF_DONE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0) /* answers 0, does nothing */

#define NEW_NAMESPACES \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* Each ends every way through it with an answer. */
struct special {
    const char *name;
    unsigned len;
    struct sock_filter code[19];
};
static const struct special special[] = {
    {"clone", 4, {ARG(0), IF_ANY(NEW_NAMESPACES, 0, 1), NO, YES}},
    {"clone3", 1, {NOT_THERE}},
    /*
     * Interfaces can be listed (netlink route); every other family asks more of the kernel than it is worth. Of the
     * internet's, streams and datagrams of the protocols that everybody has: others load modules that nobody looks at,
     * and raw ones are for root of a network.
     */
    {"socket",
     19,
     {ARG(0), IF_EQ(AF_UNIX, 15, 0), IF_EQ(AF_INET, 4, 0), IF_EQ(AF_INET6, 3, 0), IF_EQ(AF_NETLINK, 0, 13), ARG(2),
      IF_EQ(0 /* NETLINK_ROUTE */, 10, 11), ARG(1), CUT(0xf), IF_EQ(SOCK_STREAM, 1, 0), IF_EQ(SOCK_DGRAM, 0, 7), ARG(2),
      IF_EQ(0, 4, 0), IF_EQ(IPPROTO_TCP, 3, 0), IF_EQ(IPPROTO_UDP, 2, 0), IF_EQ(IPPROTO_ICMP, 1, 0),
      IF_EQ(IPPROTO_ICMPV6, 0, 1), YES, NO}},
    {"socketpair", 4, {ARG(0), IF_EQ(AF_UNIX, 0, 1), YES, NO}},
    {"personality", 6, {ARG(0), IF_EQ(0, 2, 0), IF_EQ(0x00020000, 1, 0), IF_EQ(0xffffffff, 0, 1), YES, NO}},
    /*
     * Limits of oneself are set, those of another process (init has our id where there is one) only asked for. That of
     * core dumps stays what it is (become.c), whoever says 0 means the same: with 0 the kernel would still hand the
     * dump to a program of the host where core_pattern is a pipe, with 1 it does not.
     */
    {"setrlimit", 4, {ARG(0), IF_EQ(RLIMIT_CORE, 0, 1), AS_IF_DONE, YES}},
    {"prlimit64",
     19,
     {ARG(0), IF_EQ(0, 4, 0), ARG(2), IF_EQ(0, 0, 14), ARG_HIGH(2), IF_EQ(0, 11, 12), ARG(1), IF_EQ(RLIMIT_CORE, 0, 9),
      ARG(2), IF_EQ(0, 0, 2), ARG_HIGH(2), IF_EQ(0, 5, 0), ARG(3), IF_EQ(0, 0, 4), ARG_HIGH(3), IF_EQ(0, 0, 2),
      AS_IF_DONE, YES, NO}},
    /* Typing into a terminal. */
    {"ioctl", 5, {ARG(1), IF_EQ(TIOCSTI, 1, 0), IF_EQ(TIOCLINUX_CMD, 0, 1), NO, YES}},
};

/* Beside the above, of a fork server: the first is a line of `special` that is replaced. */
#define IPT_FIRST 64 /* options of packet filters, of whatever table */
#define IPT_LAST 129
static const struct special special_of_server[] = {
    {"socket",
     17,
     {ARG(0), IF_EQ(AF_UNIX, 13, 0), IF_EQ(AF_INET, 1, 0), IF_EQ(AF_INET6, 0, 12), ARG(1), CUT(0xf),
      IF_EQ(SOCK_STREAM, 1, 0), IF_EQ(SOCK_DGRAM, 0, 8), ARG(2), IF_EQ(0, 5, 0), IF_EQ(IPPROTO_TCP, 4, 0),
      IF_EQ(IPPROTO_UDP, 3, 0), IF_EQ(IPPROTO_ICMP, 2, 0), IF_EQ(IPPROTO_ICMPV6, 1, 0), NO, YES, NO}},
    {"setsockopt",
     8,
     {ARG(1), IF_EQ(IPPROTO_IP, 1, 0), IF_EQ(IPPROTO_IPV6, 0, 4), ARG(2),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, IPT_LAST, 2, 0), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, IPT_FIRST, 0, 1), NO,
      YES}},
    /* Nobody shares memory, descriptors or places with another process, unless that one stands still meanwhile (vfork,
     * posix_spawn): a fork would take them along. init/warm_kin.c is the wall. */
    {"clone",
     8,
     {ARG(0), IF_ANY(NEW_NAMESPACES, 4, 0), IF_ANY(CLONE_THREAD, 4, 0), IF_ANY(CLONE_FILES | CLONE_FS, 2, 0),
      IF_ANY(CLONE_VM, 0, 2), IF_ANY(CLONE_VFORK, 1, 0), NO, YES}},
    {"setns", 1, {YES}},
};
#define SERVER_SPECIAL (SPECIAL + BH_ARRAY_LEN(special))

static void fill_server(uint32_t scmp, unsigned char verdicts[static NUMBERS])
{
    for (size_t i = 0; i < BH_ARRAY_LEN(special_of_server); i++) {
        int nr = seccomp_syscall_resolve_name_arch(scmp, special_of_server[i].name);
        if (nr >= 0 && nr < NUMBERS)
            verdicts[nr] = (unsigned char)(SERVER_SPECIAL + i);
    }
}

static void fill_verdicts(uint32_t scmp, unsigned char verdicts[static NUMBERS])
{
    memset(verdicts, UNKNOWN, NUMBERS);
    memset(verdicts, DENY, LAST_KNOWN + 1);
    /* A name that this architecture never had, or that the library does not know, has no number. */
    for (size_t i = 0; i < BH_ARRAY_LEN(allowed); i++) {
        int nr = seccomp_syscall_resolve_name_arch(scmp, allowed[i]);
        if (nr >= 0 && nr < NUMBERS)
            verdicts[nr] = ALLOW;
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(newer); i++)
        verdicts[newer[i]] = ALLOW;
    for (size_t i = 0; i < BH_ARRAY_LEN(special); i++) {
        int nr = seccomp_syscall_resolve_name_arch(scmp, special[i].name);
        if (nr >= 0 && nr < NUMBERS)
            verdicts[nr] = (unsigned char)(SPECIAL + i);
    }
}

/* --- the program: a search over ranges of numbers with one verdict each --- */

struct range {
    unsigned first;
    unsigned char verdict;
};

/*
 * Written from its end to its beginning: where a jump leads is known then, and the three answers are shared by all who
 * give them. What is loaded for every exec is half as long for it. Positions count from the end, the last one is 1.
 */
struct writer {
    struct bh_filter *p;
    unsigned answers[SPECIAL]; /* where the latest of each is, 0: nowhere yet */
};

static unsigned put(struct writer *w, struct sock_filter code)
{
    struct bh_filter *p = w->p;
    if (p->len < BH_ARRAY_LEN(p->code))
        p->code[BH_ARRAY_LEN(p->code) - ++p->len] = code;
    else
        p->too_far = true;
    return p->len;
}

/* A conditional jump reaches 255 further, another one reaches anywhere. */
static unsigned within_reach(struct writer *w, unsigned target)
{
    const unsigned far = 250;
    unsigned distance = w->p->len - target;
    return distance <= far ? target : put(w, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, distance));
}

static unsigned put_verdict(struct writer *w, unsigned char verdict)
{
    static const struct sock_filter answers[] = {[DENY] = NO, [ALLOW] = YES, [UNKNOWN] = NOT_THERE};
    if (verdict < SPECIAL) {
        if (!w->answers[verdict])
            w->answers[verdict] = put(w, answers[verdict]);
        return w->answers[verdict];
    }
    const struct special *s =
        verdict < SERVER_SPECIAL ? &special[verdict - SPECIAL] : &special_of_server[verdict - SERVER_SPECIAL];
    for (unsigned i = s->len; i > 0; i--)
        (void)put(w, s->code[i - 1]);
    return w->p->len;
}

/* The number is in the accumulator. Returns where it begins. */
static unsigned put_search(struct writer *w, const struct range *ranges, size_t n)
{
    if (n == 1)
        return put_verdict(w, ranges[0].verdict);
    size_t half = n / 2;
    unsigned high = put_search(w, ranges + half, n - half);
    unsigned low = put_search(w, ranges, half);
    high = within_reach(w, high);
    low = within_reach(w, low);
    unsigned char to_high = (unsigned char)(w->p->len - high), to_low = (unsigned char)(w->p->len - low);
    return put(w, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ranges[half].first, to_high, to_low));
}

static size_t find_ranges(const unsigned char *verdicts, struct range *ranges)
{
    size_t n = 0;
    for (unsigned nr = 0; nr < NUMBERS; nr++) {
        if (n == 0 || verdicts[nr] != ranges[n - 1].verdict)
            ranges[n++] = (struct range){nr, verdicts[nr]};
    }
    return n; /* the last one is UNKNOWN and reaches to the end of all numbers */
}

static int build(uint32_t audit_arch, bool server, struct bh_filter *ret)
{
    unsigned char verdicts[NUMBERS];
    struct range ranges[NUMBERS];
    const struct arch *arch = NULL;
    for (size_t i = 0; i < BH_ARRAY_LEN(archs); i++) {
        if (archs[i].audit == audit_arch)
            arch = &archs[i];
    }
    ret->len = 0;
    ret->too_far = false;
    if (!arch)
        return -1;
    fill_verdicts(arch->scmp, verdicts);
    if (server)
        fill_server(arch->scmp, verdicts);
    struct writer w = {.p = ret};
    unsigned search = put_search(&w, ranges, find_ranges(verdicts, ranges));
    if (search != ret->len) /* it is a single answer: never so */
        return -1;
    (void)put(&w, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    (void)put(&w, (struct sock_filter)NOT_THERE);
    (void)put(&w, (struct sock_filter)IF_EQ(arch->audit, 1, 0));
    (void)put(&w, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    memmove(ret->code, ret->code + BH_ARRAY_LEN(ret->code) - ret->len, ret->len * sizeof(*ret->code));
    return ret->too_far ? -1 : 0;
}

int bh_filter_build(uint32_t audit_arch, struct bh_filter *ret)
{
    return build(audit_arch, false, ret);
}

int bh_filter_build_server(uint32_t audit_arch, struct bh_filter *ret)
{
    return build(audit_arch, true, ret);
}

int bh_filter_make(bool server, struct bh_fail *fail)
{
    static struct bh_filter p;
    BH_CLEANUP_FD int out = memfd_create("filter", MFD_CLOEXEC);
    if (out < 0)
        return bh_fail(fail, errno, "store the system call filter");
    if (build(NATIVE, server, &p) < 0)
        return bh_fail(fail, E2BIG, "build the system call filter");
    if (bh_write_all(out, p.code, p.len * sizeof(struct sock_filter)) < 0)
        return bh_fail(fail, errno, "store the system call filter");
    return BH_TAKE_FD(out);
}
