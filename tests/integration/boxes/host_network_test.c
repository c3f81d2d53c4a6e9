/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes that have the host's network, which is here the one that this program is in: by exec, and nothing beside it.
 * What an agent could do with it that is no use of a network is tried as the agent and as root of the box.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/landlock.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"

#define NUMBER "readlink /proc/self/ns/net"
#define INTERFACES "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' \\n'"

static void create(struct kit_box *b, const struct kit_how *how)
{
    if (kit_create(&kit, b, how) != 0)
        fail_msg("create: %s", b->message);
}

/* What it printed, without the end of the line; the caller owns it. */
static char *run(struct kit_box *b, bool host, bool root, const char *text)
{
    struct kit_exec e = {.spec = {.host_network = host, .root = root}};
    kit_sh_with(b, &e, text);
    if (e.result.end != BH_EXEC_EXITED || e.result.status != 0)
        fail_msg("'%s': end %d status %d %s: %s", text, (int)e.result.end, e.result.status, e.step, e.err.data);
    char *out = bh_strdup(e.out.data);
    out[strcspn(out, "\n")] = '\0';
    kit_exec_fini(&e);
    return out;
}

static void must_print(struct kit_box *b, bool host, const char *text, const char *want)
{
    BH_CLEANUP_FREE char *out = run(b, host, false, text);
    if (strcmp(out, want) != 0)
        fail_msg("'%s' %s printed '%s', not '%s'", text, host ? "on the host's network" : "on its own", out, want);
}

/* As the agent and as root of the box, on the host's network. */
static void must_fail(struct kit_box *b, const char *text)
{
    for (int root = 0; root < 2; root++) {
        struct kit_exec e = {.spec = {.host_network = true, .root = root}};
        kit_sh_with(b, &e, text);
        if (e.result.end != BH_EXEC_EXITED || e.result.status == 0)
            fail_msg("'%s' as %s: end %d status %d: %s", text, root ? "root" : "agent", (int)e.result.end,
                     e.result.status, e.out.data);
        kit_exec_fini(&e);
    }
}

static char *our_number(void)
{
    char text[64];
    ssize_t n = readlink("/proc/self/ns/net", text, sizeof(text) - 1);
    T_TRUE(n > 0);
    text[n] = '\0';
    return bh_strdup(text);
}

/* A server of the host, on its loopback, at a port of its own choice. */
static int serve(int *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    T_TRUE(fd >= 0);
    T_INT(bind(fd, (const struct sockaddr *)(const void *)&at, sizeof(at)), 0);
    T_INT(listen(fd, 8), 0);
    T_INT(getsockname(fd, (struct sockaddr *)(void *)&at, &len), 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static char *connecting_to(int port)
{
    return bh_asprintf("bash -c 'exec 3<> /dev/tcp/127.0.0.1/%d' 2> /dev/null && echo reached || echo refused", port);
}

/* --- who is where --- */

static void an_exec_is_where_it_is_told(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *ours = our_number();
    for (int shared = 0; shared < 2; shared++) {
        struct kit_box b;
        int port;
        BH_CLEANUP_FD int server = serve(&port);
        BH_CLEANUP_FREE char *connecting = connecting_to(port);
        create(&b, &(struct kit_how){.host_network = true, .shared = shared});
        for (int i = 0; i < 2; i++) {
            BH_CLEANUP_FREE char *own = run(&b, false, false, NUMBER), *again = run(&b, false, true, NUMBER);
            T_STR(own, again);
            assert_string_not_equal(own, ours);
            must_print(&b, false, INTERFACES, "lo");
            must_print(&b, false, connecting, "refused");
            must_print(&b, true, NUMBER, ours);
            must_print(&b, true, connecting, "reached");
        }
        T_INT(kit_destroy(&b, false), 0);
    }
}

static void two_at_once_in_a_shared_box(void **state)
{
    (void)state;
    struct kit_box b;
    struct kit_exec host = {.spec = {.host_network = true}}, own = {.spec = {.host_network = false}};
    static const char *const argv[] = {"sh", "-c", "readlink /proc/self/ns/net; read -r x < /proc/self/stat", NULL};
    BH_CLEANUP_FREE char *ours = our_number();
    create(&b, &(struct kit_how){.host_network = true, .shared = true});
    host.spec.argv = own.spec.argv = argv;
    kit_start(&b, &host);
    kit_start(&b, &own);
    kit_finish(&b, &own);
    kit_finish(&b, &host);
    T_INT(strncmp(host.out.data, ours, strlen(ours)), 0);
    T_TRUE(strncmp(own.out.data, ours, strlen(ours)) != 0);
    kit_exec_fini(&host);
    kit_exec_fini(&own);
    T_INT(kit_destroy(&b, false), 0);
}

/* What was made ahead, or is left, is of boxes that have loopback alone. */
static void nothing_of_it_meets_ordinary_boxes(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *ours = our_number();
    struct kit_box boxes[6];
    char *numbers[BH_ARRAY_LEN(boxes)];
    for (size_t i = 0; i < BH_ARRAY_LEN(boxes); i++) {
        create(&boxes[i], &(struct kit_how){.host_network = i % 2 == 0});
        numbers[i] = run(&boxes[i], false, false, NUMBER);
        must_print(&boxes[i], false, INTERFACES, "lo");
        assert_string_not_equal(numbers[i], ours);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(numbers[i], numbers[k]);
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(boxes); i++)
        T_INT(kit_destroy(&boxes[i], false), 0);
    for (int i = 0; i < 8; i++) { /* more than there are shells ahead */
        struct kit_box b;
        create(&b, NULL);
        BH_CLEANUP_FREE char *number = run(&b, false, false, NUMBER);
        must_print(&b, false, INTERFACES, "lo");
        for (size_t k = 0; k < BH_ARRAY_LEN(boxes); k += 2)
            assert_string_not_equal(number, numbers[k]);
        T_INT(kit_destroy(&b, false), 0);
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(boxes); i++)
        bh_free(numbers[i]);
}

static void an_ordinary_box_has_none(void **state)
{
    (void)state;
    struct kit_box b;
    struct kit_exec e = {.spec.host_network = true};
    create(&b, NULL);
    kit_sh_with(&b, &e, "true");
    T_INT(e.result.end, BH_EXEC_NOT_STARTED);
    T_INT(e.result.status, EPERM);
    T_STR(e.step, "have the host's network in this box");
    kit_exec_fini(&e);
    must_print(&b, false, INTERFACES, "lo");
    T_INT(kit_destroy(&b, false), 0);
}

/* What listens for a broker is the box's own, never a port of the host. */
static void listeners_are_on_its_own(void **state)
{
    (void)state;
    struct kit_box b;
    int error = 0;
    create(&b, &(struct kit_how){.host_network = true});
    BH_CLEANUP_FD int listener = kit_listen(&b, 3128, &error);
    T_TRUE(listener >= 0);
    struct sockaddr_in at;
    socklen_t len = sizeof(at);
    T_INT(getsockname(listener, (struct sockaddr *)(void *)&at, &len), 0);
    BH_CLEANUP_FREE char *connecting = connecting_to(ntohs(at.sin_port));
    must_print(&b, true, connecting, "refused");
    BH_CLEANUP_FD int from_here = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    T_TRUE(connect(from_here, (const struct sockaddr *)(const void *)&at, sizeof(at)) < 0);
    struct pollfd polled = {.fd = listener, .events = POLLIN};
    T_INT(poll(&polled, 1, 0), 0);
    must_print(&b, false, connecting, "reached");
    T_INT(poll(&polled, 1, 10000), 1);
    T_INT(kit_destroy(&b, false), 0);
}

/* --- what it is not --- */

static void nobody_has_a_right_over_it(void **state)
{
    (void)state;
    static const char *const tries[] = {
        "ip link set lo down",
        "ip addr add 192.0.2.7/32 dev lo",
        "ip route add blackhole 192.0.2.9/32",
        "ip link add bhtest0 type dummy",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
        "unshare -n true",
        "unshare -U true",
        "nsenter --net=/proc/1/ns/net true",
        "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'",
        "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)'",
        "python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)'",
        "python3 -c 'import socket; s = socket.socket(); s.setsockopt(1, 36, 7)'", /* SO_MARK */
        "mount -t sysfs none /mnt",
        "grep -v 0000000000000000 /proc/self/status | grep ^Cap",
    };
    struct kit_box b;
    create(&b, &(struct kit_how){.host_network = true});
    for (size_t i = 0; i < BH_ARRAY_LEN(tries); i++)
        must_fail(&b, tries[i]);
    must_print(&b, true, "ls -A /sys | head -n 1", "");
    BH_CLEANUP_FREE char *first = bh_strdup("cat /proc/sys/net/ipv4/ip_unprivileged_port_start");
    BH_CLEANUP_FREE char *free_from = run(&b, true, false, first);
    if (atoi(free_from) > 80)
        must_fail(&b, "python3 -c 'import socket; socket.socket().bind((\"127.0.0.1\", 80))'");
    must_print(&b, true, "cat /proc/net/if_inet6 /proc/net/dev | grep -c '^ *lo:'", "1");
    T_INT(kit_destroy(&b, false), 0);
}

static bool kernel_scopes(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 6;
}

/* The names of abstract sockets go with a network: behind those of a host are its desktop and its daemons. */
static void abstract_sockets_are_out_of_reach(void **state)
{
    (void)state;
    char name[48]; /* others run this test in the same network */
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (!kernel_scopes())
        t_skip("landlock-scopes", "this kernel keeps nobody from abstract sockets");
    size_t len = (size_t)snprintf(name, sizeof(name), "bulkhead-test-%d", (int)getpid());
    memcpy(at.sun_path + 1, name, len);
    BH_CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    T_INT(bind(fd, (const struct sockaddr *)(const void *)&at,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)),
          0);
    T_INT(listen(fd, 1), 0);
    BH_CLEANUP_FREE char *connecting =
        bh_asprintf("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0%s\")'", name);
    for (int shared = 0; shared < 2; shared++) {
        struct kit_box b;
        create(&b, &(struct kit_how){.host_network = true, .shared = shared});
        must_fail(&b, connecting);
        T_INT(kit_destroy(&b, false), 0);
    }
    T_INT(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 0);
}

/* The resolver is the host's where the network is, and there alone. */
static void names_are_asked_for_where_the_host_does(void **state)
{
    (void)state;
    struct bh_buf text = BH_BUF_INIT;
    T_OK(bh_read_file("/etc/resolv.conf", 65536, &text, &err));
    BH_CLEANUP_FREE char *ours = bh_buf_take(&text);
    for (int shared = 0; shared < 2 && *ours; shared++) {
        struct kit_box b;
        create(&b, &(struct kit_how){.host_network = true, .shared = shared});
        BH_CLEANUP_FREE char *before = run(&b, false, false, "cat /etc/resolv.conf");
        struct kit_exec e = {.spec.host_network = true};
        kit_sh_with(&b, &e, "cat /etc/resolv.conf && ! echo x > /etc/resolv.conf");
        T_STR(e.out.data, ours);
        kit_exec_fini(&e);
        must_print(&b, false, "cat /etc/resolv.conf", before);
        T_INT(kit_destroy(&b, false), 0);
    }
}

/* Not in the mounts that later execs begin with either, where it was the first of its box. */
static void a_first_exec_leaves_no_resolver_behind(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct kit_box b;
        create(&b, &(struct kit_how){.host_network = true, .shared = shared});
        must_print(&b, true, "grep -c ' /etc/resolv.conf ' /proc/self/mountinfo", "1");
        must_print(&b, false, "grep -c ' /etc/resolv.conf ' /proc/self/mountinfo || true", "0");
        must_print(&b, true, "grep -c ' /etc/resolv.conf ' /proc/self/mountinfo", "1");
        T_INT(kit_destroy(&b, false), 0);
    }
}

/* Who is root of a box makes of the name what it likes: a command begins all the same, and nothing outside is met. */
static void any_resolver_of_a_box_does(void **state)
{
    (void)state;
    static const char *const makes[] = {
        "mkdir /etc/resolv.conf && echo x > /etc/resolv.conf/x",
        "ln -s /proc/1/environ /etc/resolv.conf",
        "ln -s nowhere/at/all /etc/resolv.conf",
        "mkfifo /etc/resolv.conf",
        "mv /etc /gone && ln -s /proc /etc",
        "mv /etc /gone && ln -s gone /etc",
        "mv /etc /gone && echo > /etc",
        "rm -r /etc",
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(makes); i++) {
        struct kit_box b;
        create(&b, &(struct kit_how){.host_network = true});
        BH_CLEANUP_FREE char *making = bh_asprintf("rm -f /etc/resolv.conf; %s", makes[i]);
        BH_CLEANUP_FREE char *made = run(&b, false, true, making);
        must_print(&b, true, "echo began", "began");
        T_INT(kit_destroy(&b, false), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exec_is_where_it_is_told),
        cmocka_unit_test(two_at_once_in_a_shared_box),
        cmocka_unit_test(nothing_of_it_meets_ordinary_boxes),
        cmocka_unit_test(an_ordinary_box_has_none),
        cmocka_unit_test(listeners_are_on_its_own),
        cmocka_unit_test(nobody_has_a_right_over_it),
        cmocka_unit_test(abstract_sockets_are_out_of_reach),
        cmocka_unit_test(names_are_asked_for_where_the_host_does),
        cmocka_unit_test(a_first_exec_leaves_no_resolver_behind),
        cmocka_unit_test(any_resolver_of_a_box_does),
    };
    KIT_MAIN(tests);
}
