/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network namespace of a box: which box has had it before. What a box of before could have left in it is tried one
 * by one; a box that did nothing is the proof that namespaces are given again at all.
 */
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"

#define AFTERWARDS 8 /* boxes that are looked at: more than there are shells ahead */

static void run(struct kit_box *b, const char *text, char *ret, size_t size)
{
    struct kit_exec e;
    kit_sh(b, &e, text);
    if (e.result.end != BH_EXEC_EXITED || e.result.status != 0)
        fail_msg("'%s': end %d status %d: %s", text, (int)e.result.end, e.result.status, e.err.data);
    (void)snprintf(ret, size, "%s", e.out.data);
    kit_exec_fini(&e);
}

static void create(struct kit_box *b)
{
    if (kit_create(&kit, b, NULL) != 0)
        fail_msg("create: %s", b->message);
}

/* A box that does this; the number of its namespace. */
static void one_box(const char *text, char number[static 64])
{
    struct kit_box b;
    char out[256];
    create(&b);
    run(&b, "readlink /proc/self/ns/net", number, 64);
    run(&b, text, out, sizeof(out));
    T_INT(kit_destroy(&b, false), 0);
}

static bool is_met_again(const char *number)
{
    bool met = false;
    for (int i = 0; i < AFTERWARDS; i++) {
        char theirs[64];
        one_box("true", theirs);
        met |= strcmp(theirs, number) == 0;
    }
    return met;
}

/* Which one is given next is nobody's business: that some are. */
static bool some_are_given_again(void)
{
    char numbers[3 * AFTERWARDS][64];
    for (size_t i = 0; i < BH_ARRAY_LEN(numbers); i++) {
        one_box("true", numbers[i]);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(numbers[i], numbers[k]) == 0)
                return true;
        }
    }
    return false;
}

static void untouched_one_is_given_again(void **state)
{
    (void)state;
    T_TRUE(some_are_given_again());
}

static void used_one_is_never_given_again(void **state)
{
    static const char *const uses[] = {
        /* A flow label, which stays for up to a minute: nothing is sent. */
        "python3 -c 'import socket, struct\n"
        "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
        "a = socket.inet_pton(socket.AF_INET6, \"fd00::1\")\n"
        "s.setsockopt(41, 32, a + struct.pack(\"!I\", 0x12345) + struct.pack(\"=BBHHHI\", 0, 255, 1, 60, 60, 0))'",
        "bash -c 'echo x > /dev/udp/127.0.0.1/9' 2> /dev/null || true", /* a packet, and the answer to it */
        "bash -c 'echo x > /dev/udp/::1/9' 2> /dev/null || true",       /* the same of the other protocol */
        "bash -c 'echo x > /dev/tcp/127.0.0.1/9' 2> /dev/null || true", /* a connection that is refused */
        "bash -c 'echo x > /dev/udp/192.0.2.1/9' 2> /dev/null || true", /* no way there: counted all the same */
        "bash -c 'echo x > /dev/tcp/192.0.2.1/9' 2> /dev/null || true",
        "bash -c 'echo x > /dev/tcp/2001:db8::1/9' 2> /dev/null || true",
    };
    (void)state;
    if (access("/usr/bin/python3", X_OK) != 0)
        t_skip("python3", "boxes find no python3");
    for (size_t i = 0; i < BH_ARRAY_LEN(uses); i++) {
        char number[64];
        one_box(uses[i], number);
        if (is_met_again(number))
            fail_msg("after '%s' it was given again", uses[i]);
    }
}

/* --- sockets that somebody outside accepts from --- */

static int port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t len = sizeof(at);
    T_INT(getsockname(fd, (struct sockaddr *)(void *)&at, &len), 0);
    return ntohs(at.sin_port);
}

static int listen_in(struct kit_box *b, int port)
{
    int error = 0, fd = kit_listen(b, port, &error);
    if (fd < 0)
        fail_msg("listen: %s", strerror(error));
    return fd;
}

static int accept_one(int listener)
{
    struct pollfd polled = {.fd = listener, .events = POLLIN};
    T_INT(poll(&polled, 1, 10000), 1);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    T_TRUE(fd >= 0);
    return fd;
}

/* Two boxes, the same port: which box speaks is known by the socket. */
static void a_box_is_heard_from_outside(void **state)
{
    struct kit_box boxes[2];
    int listeners[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        create(&boxes[i]);
        listeners[i] = listen_in(&boxes[i], 3128);
        T_INT(port_of(listeners[i]), 3128);
    }
    for (int i = 1; i >= 0; i--) {
        char out[64] = "", said[16] = "";
        run(&boxes[i], "bash -c 'echo hello > /dev/tcp/127.0.0.1/3128'", out, sizeof(out));
        BH_CLEANUP_FD int fd = accept_one(listeners[i]);
        T_INT(read(fd, said, sizeof(said) - 1), 6);
        T_STR(said, "hello\n");
        bh_close(listeners[i]);
        T_INT(kit_destroy(&boxes[i], false), 0);
    }
}

static void a_taken_port_is_passed_by(void **state)
{
    struct kit_box b;
    int error = 0;
    (void)state;
    create(&b);
    BH_CLEANUP_FD int first = listen_in(&b, 3128);
    BH_CLEANUP_FD int second = listen_in(&b, 3128);
    T_INT(port_of(second), 3129);
    T_INT(kit_listen(&b, 0, &error), -1);
    T_INT(error, EINVAL);
    T_INT(kit_destroy(&b, false), 0);
}

/* What still listens, or has been spoken to, is in no other box's namespace. */
static void one_with_a_listener_is_not_given_again(void **state)
{
    struct kit_box b;
    char number[64];
    (void)state;
    create(&b);
    BH_CLEANUP_FD int held = listen_in(&b, 3128);
    run(&b, "readlink /proc/self/ns/net", number, sizeof(number));
    T_INT(kit_destroy(&b, false), 0);
    T_TRUE(!is_met_again(number));
    create(&b);
    int spoken_to = listen_in(&b, 3128);
    run(&b, "readlink /proc/self/ns/net; bash -c 'exec 3<> /dev/tcp/127.0.0.1/3128'", number, sizeof(number));
    number[strcspn(number, "\n") + 1] = '\0';
    bh_close(spoken_to);
    T_INT(kit_destroy(&b, false), 0);
    T_TRUE(!is_met_again(number));
}

static void next_box_finds_nothing_counted(void **state)
{
    char number[64], out[256];
    struct kit_box b;
    (void)state;
    for (int i = 0; i < AFTERWARDS; i++) {
        one_box(i % 2 ? "true" : "bash -c 'echo x > /dev/udp/127.0.0.1/9'", number);
        create(&b);
        run(&b,
            "tr -s ' ' < /proc/net/dev | sed -n '/lo:/s/^ //p'; grep -c 'sockets: used 0' /proc/net/sockstat; wc -l < "
            "/proc/net/unix",
            out, sizeof(out));
        T_STR(out, "lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n1\n1\n");
        T_INT(kit_destroy(&b, false), 0);
    }
}

static void two_that_live_are_never_in_one(void **state)
{
    struct kit_box boxes[6];
    char numbers[BH_ARRAY_LEN(boxes)][64];
    (void)state;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < BH_ARRAY_LEN(boxes); i++) {
            create(&boxes[i]);
            run(&boxes[i], "readlink /proc/self/ns/net", numbers[i], sizeof(numbers[i]));
            for (size_t k = 0; k < i; k++)
                assert_string_not_equal(numbers[i], numbers[k]);
        }
        for (size_t i = 0; i < BH_ARRAY_LEN(boxes); i++)
            T_INT(kit_destroy(&boxes[i], false), 0);
    }
}

/* More than there is room to keep: the others work as well, and end. */
static void many_at_once(void **state)
{
    struct kit_box boxes[70];
    char number[64];
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(boxes); i++)
        create(&boxes[i]);
    run(&boxes[69], "grep -c '127.0.0.1' /proc/net/fib_trie | grep -qv '^0$' && echo up", number, sizeof(number));
    T_STR(number, "up\n");
    for (size_t i = 0; i < BH_ARRAY_LEN(boxes); i++)
        T_INT(kit_destroy(&boxes[i], false), 0);
    T_TRUE(some_are_given_again());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(untouched_one_is_given_again),
        cmocka_unit_test(used_one_is_never_given_again),
        cmocka_unit_test(a_box_is_heard_from_outside),
        cmocka_unit_test(a_taken_port_is_passed_by),
        cmocka_unit_test(one_with_a_listener_is_not_given_again),
        cmocka_unit_test(next_box_finds_nothing_counted),
        cmocka_unit_test(two_that_live_are_never_in_one),
        cmocka_unit_test(many_at_once),
    };
    KIT_MAIN(tests);
}
