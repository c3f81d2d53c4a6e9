/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network namespaces, of which making and ending one costs a millisecond of processor time, more than all else of a
 * small box. They belong to the process that shells are cloned from, not to a box: nobody in a box has a right over the
 * one that it is in. One that nobody has used is given to the next box: what the kernel counts and holds there must
 * read as it did when it was new (docs/adr/0011). A box whose agents have sent as much as one packet to themselves was
 * the last one in its namespace.
 *
 * The caller lives in a namespace of its own, in which nothing ever happens, and is in that of a box for a clone alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "workers/init/init.h"

#define KEPT_MAX 64 /* more boxes at once than this have namespaces that end with them */
#define TEXT_MAX 16384

struct slot {
    int fd;   /* -1: none */
    int init; /* pidfd of the box's pid 1, which is readable when the last process of the box has ended; -1: nobody's */
};

static struct slot slots[KEPT_MAX];
static int quiet = -1; /* the caller's own */

/* --- what is in it --- */

struct text {
    char data[TEXT_MAX];
    size_t len;
};

static struct text as_new; /* len 0: not known yet */

static int append_file(struct text *t, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/net/%s", name);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1; /* a kernel without IPv6 */
    for (;;) {
        ssize_t n = t->len < sizeof(t->data) ? read(fd, t->data + t->len, sizeof(t->data) - t->len) : -1;
        if (n <= 0)
            return (int)n;
        t->len += (size_t)n;
    }
}

/* "TCP: inuse 0 orphan 1 tw 0 alloc 7 mem 3": of these the kernel has one number for all namespaces. */
static void blank_shared_numbers(struct text *t)
{
    static const char *const shared[] = {" orphan ", " alloc ", " mem "};
    char *end = t->data + t->len;
    for (size_t i = 0; i < BH_ARRAY_LEN(shared); i++) {
        size_t len = strlen(shared[i]);
        for (char *at = t->data; (at = memmem(at, (size_t)(end - at), shared[i], len));) {
            at += len;
            size_t digits = 0;
            while (at + digits < end && at[digits] >= '0' && at[digits] <= '9')
                digits++;
            memmove(at, at + digits, (size_t)(end - at) - digits);
            end -= digits;
        }
    }
    t->len = (size_t)(end - t->data);
}

/* Of the namespace that we are in: what its devices have carried, which sockets are left, what was counted of packets,
 * of those that could not be sent too, and the one thing that anybody can leave behind without a packet. */
static int read_state(struct text *t)
{
    t->len = 0;
    if (append_file(t, "sockstat") < 0)
        return -1;
    blank_shared_numbers(t);
    static const char *const files[] = {"dev", "snmp", "snmp6", "ip6_flowlabel"};
    for (size_t i = 0; i < BH_ARRAY_LEN(files); i++) {
        if (append_file(t, files[i]) < 0)
            return -1;
    }
    return 0;
}

static bool is_as_new(void)
{
    static struct text now;
    return as_new.len > 0 && read_state(&now) == 0 && now.len == as_new.len &&
           memcmp(now.data, as_new.data, now.len) == 0;
}

/* --- making one --- */

int bh_loopback_up(struct bh_fail *fail)
{
    struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    BH_CLEANUP_FD int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &req) < 0)
        return bh_fail(fail, errno, "bring up the loopback device");
    return 0;
}

static int open_own(void)
{
    return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

int bh_nets_start(struct bh_fail *fail)
{
    for (size_t i = 0; i < KEPT_MAX; i++)
        slots[i] = (struct slot){-1, -1};
    if (unshare(CLONE_NEWNET) < 0)
        return bh_fail(fail, errno, "clone into new namespaces");
    quiet = open_own();
    return quiet < 0 ? bh_fail(fail, errno, "open the own network namespace") : 0;
}

static int make_new(struct bh_fail *fail)
{
    if (unshare(CLONE_NEWNET) < 0)
        return bh_fail(fail, errno, "clone into new namespaces");
    if (bh_loopback_up(fail) < 0)
        return -1;
    if (as_new.len == 0 && read_state(&as_new) < 0)
        as_new.len = 0; /* then none is used twice */
    return 0;
}

/* --- taking one --- */

static struct slot *find_empty(void)
{
    for (size_t i = 0; i < KEPT_MAX; i++) {
        if (slots[i].fd < 0)
            return &slots[i];
    }
    return NULL;
}

/* By the process itself, never by its number, which may be another's by now. */
static void see_who_has_ended(void)
{
    struct pollfd polled[KEPT_MAX];
    for (size_t i = 0; i < KEPT_MAX; i++)
        polled[i] = (struct pollfd){.fd = slots[i].init, .events = POLLIN};
    if (poll(polled, KEPT_MAX, 0) <= 0)
        return;
    for (size_t i = 0; i < KEPT_MAX; i++) {
        if (polled[i].revents & POLLIN)
            bh_close(BH_TAKE_FD(slots[i].init));
    }
}

/* One that was used is let go: with the last descriptor it ends. */
static struct slot *enter_used(void)
{
    see_who_has_ended();
    for (size_t i = 0; i < KEPT_MAX; i++) {
        struct slot *s = &slots[i];
        if (s->fd < 0 || s->init >= 0)
            continue;
        if (setns(s->fd, CLONE_NEWNET) == 0 && is_as_new())
            return s;
        bh_close(BH_TAKE_FD(s->fd));
    }
    return NULL;
}

int bh_nets_enter(struct bh_net **ret, struct bh_fail *fail)
{
    struct slot *s = enter_used();
    if (!s && make_new(fail) < 0)
        return -1;
    if (!s && as_new.len > 0 && (s = find_empty()))
        s->fd = open_own();
    *ret = (struct bh_net *)(void *)s;
    return 0;
}

void bh_nets_leave(struct bh_net *net, int pidfd)
{
    struct slot *s = (struct slot *)(void *)net;
    if (setns(quiet, CLONE_NEWNET) < 0)
        _exit(1); /* whoever is cloned next would be with that box */
    if (!s || s->fd < 0)
        return;
    s->init = pidfd >= 0 ? fcntl(pidfd, F_DUPFD_CLOEXEC, 3) : -1;
    if (pidfd >= 0 && s->init < 0) /* nobody could tell when it is free */
        bh_close(BH_TAKE_FD(s->fd));
}
