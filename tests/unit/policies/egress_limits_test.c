/* SPDX-License-Identifier: Apache-2.0 */
/* What the egress broker bears: too much, too slow, nothing at all; of clients, of hosts and of its worker. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "tests/support/t.h"
#include "tests/unit/policies/egress_rig.h"

enum { MIB = 1 << 20 };

static int start(void **state)
{
    *state = t_rig_start();
    return 0;
}

static int stop(void **state)
{
    t_rig_stop(*state);
    return 0;
}

/* In KiB. */
static long memory_of(pid_t pid)
{
    char path[64], line[256];
    long kib = -1;
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    T_TRUE(file != NULL);
    while (fgets(line, sizeof(line), file))
        (void)sscanf(line, "VmRSS: %ld kB", &kib);
    (void)fclose(file);
    return kib;
}

static void assert_small(const struct t_rig *rig, long mib)
{
    const char *sanitize = getenv("BH_SANITIZE"); /* which has memory of its own */
    if (!sanitize || !*sanitize)
        assert_in_range(memory_of(rig->broker), 1, mib * 1024);
}

static rlim_t raise_files(void)
{
    struct rlimit files;
    T_TRUE(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_cur;
}

static void need_files(void)
{
    if (raise_files() < 4096)
        t_skip("nofile", "fewer than 4096 files may be open here");
}

/* The broker has what we have: it is our child. */
static int start_big(void **state)
{
    (void)raise_files();
    return start(state);
}

/* Writes until nothing is taken any more for a while, or more than `most` was. */
static size_t stuff(int fd, size_t most)
{
    static char bytes[64 * 1024];
    const struct timeval soon = {.tv_usec = 300000};
    size_t sum = 0;
    T_TRUE(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)) == 0);
    while (sum <= most) {
        ssize_t n = send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
        if (n <= 0)
            break;
        sum += (size_t)n;
    }
    return sum;
}

/* --- time --- */

static void a_head_that_never_comes(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", "{\"head_ms\":500}");
    BH_CLEANUP_BUF struct bh_buf answer = BH_BUF_INIT, nothing = BH_BUF_INIT;
    BH_CLEANUP_FD int client = t_rig_client(port), silent = t_rig_client(port);
    t_says(client, "CONNECT up.exam");
    t_hear_all(client, &answer);
    t_hear_all(silent, &nothing); /* one that never said a word is no decision */
    T_INT(nothing.len, 0);
    assert_non_null(strstr(answer.data, "HTTP/1.1 408 Request Timeout by bulkhead (head-timeout)"));
    t_rig_decision(rig, "", "deny", "head-timeout", NULL, NULL);
}

static void silence_ends_a_connection(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", "{\"idle_ms\":1000}");
    BH_CLEANUP_BUF struct bh_buf left = BH_BUF_INIT;
    int client, upstream;
    t_rig_tunnel(rig, port, "up.example", &client, &upstream);
    t_says(client, "x");
    t_hears(upstream, "x");
    t_hear_all(client, &left);
    t_rig_decision(rig, "up.example", "allow", "idle-timeout", NULL, NULL);
    bh_close(client);
    bh_close(upstream);
}

/* An answer that never ends, and is never silent. */
static void everything_has_an_end(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", "{\"idle_ms\":10000,\"total_ms\":1500}");
    int client, upstream;
    char byte;
    t_rig_tunnel(rig, port, "up.example", &client, &upstream);
    do
        (void)!send(upstream, ".", 1, MSG_NOSIGNAL);
    while (recv(client, &byte, 1, 0) == 1);
    t_rig_decision(rig, "up.example", "allow", "total-timeout", NULL, NULL);
    bh_close(client);
    bh_close(upstream);
}

/* --- size --- */

static void a_head_of_100_mb(void **state)
{
    static char line[64 * 1024];
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    char answer[64] = {0};
    BH_CLEANUP_FD int client = t_rig_client(port);
    memset(line, 'a', sizeof(line));
    t_says(client, "GET http://up.example/ HTTP/1.1\r\nHost: x\r\nA: ");
    const struct timeval soon = {.tv_sec = 5};
    T_TRUE(setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)) == 0);
    for (size_t sent = 0; sent < 100 * MIB;) {
        ssize_t n = send(client, line, sizeof(line), MSG_NOSIGNAL);
        if (n <= 0)
            break;
        sent += (size_t)n;
        if (recv(client, answer, sizeof(answer) - 1, MSG_PEEK | MSG_DONTWAIT) > 0)
            break;
    }
    assert_non_null(strstr(answer, "HTTP/1.1 431 "));
    t_rig_decision(rig, "", "deny", "head-too-large", NULL, NULL);
    assert_small(rig, 64);
}

static void an_answer_with_an_endless_head(void **state)
{
    static char line[64 * 1024];
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    BH_CLEANUP_BUF struct bh_buf answer = BH_BUF_INIT;
    BH_CLEANUP_FD int client = t_rig_client(port);
    BH_CLEANUP_FREE char *request =
        bh_asprintf("GET http://up.example:%u/ HTTP/1.1\r\nHost: x\r\n\r\n", rig->upstream_port);
    t_says(client, request);
    BH_CLEANUP_FD int upstream = t_rig_accept(rig);
    t_says(upstream, "HTTP/1.1 200 OK\r\nA: ");
    memset(line, 'a', sizeof(line));
    t_say(upstream, line, sizeof(line));
    t_hear_all(client, &answer);
    assert_non_null(strstr(answer.data, "HTTP/1.1 502 Bad Gateway by bulkhead (bad-answer)"));
    t_rig_decision(rig, "up.example", "allow", "bad-answer", NULL, NULL);
}

/* --- who does not read --- */

/* A box that is frozen: the host is slowed down, nothing is piled up, and others go on. */
static void a_frozen_client_piles_nothing_up(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL), other = t_rig_open(rig, 2, "up.example", NULL);
    int frozen, source, client, upstream;
    t_rig_tunnel(rig, port, "up.example", &frozen, &source);
    size_t taken = stuff(source, 256 * MIB);
    assert_in_range(taken, 1, 64 * MIB); /* what the kernel holds */
    assert_small(rig, 64);
    t_rig_tunnel(rig, other, "up.example", &client, &upstream);
    t_says(upstream, "still here");
    t_hears(client, "still here");
    bh_close(client);
    bh_close(upstream);
    t_rig_decision(rig, "up.example", "allow", "listed", NULL, NULL);
    bh_close(frozen);
    bh_close(source);
    t_rig_decision(rig, "up.example", "allow", "reset", NULL, NULL);
}

static void a_frozen_host_is_cut_in_the_end(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", "{\"idle_ms\":1500}");
    int client, frozen;
    t_rig_tunnel(rig, port, "up.example", &client, &frozen);
    assert_in_range(stuff(client, 256 * MIB), 1, 64 * MIB);
    t_rig_decision(rig, "up.example", "allow", "idle-timeout", NULL, NULL);
    bh_close(client);
    bh_close(frozen);
}

/* --- many --- */

static void a_box_has_so_many_connections(void **state)
{
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", "{\"connections\":2}"),
             other = t_rig_open(rig, 2, "up.example", NULL);
    BH_CLEANUP_BUF struct bh_buf answer = BH_BUF_INIT;
    int client[3], upstream[3];
    t_rig_tunnel(rig, port, "up.example", &client[0], &upstream[0]);
    t_rig_tunnel(rig, port, "up.example", &client[1], &upstream[1]);
    BH_CLEANUP_FREE char *request =
        bh_asprintf("CONNECT up.example:%u HTTP/1.1\r\nHost: x\r\n\r\n", rig->upstream_port);
    client[2] = t_rig_client(port);
    t_says(client[2], request);
    t_hear_all(client[2], &answer);
    bh_close(client[2]);
    assert_non_null(strstr(answer.data, "HTTP/1.1 503 Service Unavailable by bulkhead (connections)"));
    t_rig_decision(rig, "up.example", "deny", "connections", NULL, NULL);
    t_rig_tunnel(rig, other, "up.example", &client[2], &upstream[2]); /* another box has its own */
    for (int i = 0; i < 3; i++) {
        bh_close(client[i]);
        bh_close(upstream[i]);
        t_rig_decision(rig, "up.example", "allow", "listed", NULL, NULL);
    }
    t_rig_tunnel(rig, port, "up.example", &client[0], &upstream[0]); /* there is room again */
    bh_close(client[0]);
    bh_close(upstream[0]);
    t_rig_decision(rig, "up.example", "allow", "listed", NULL, NULL);
}

/* Above the usual limit of 1,000 the next is refused, and what is open stays open. */
static void a_thousand_and_one(void **state)
{
    enum { MANY = 1000 };
    static int client[MANY], upstream[MANY];
    struct t_rig *rig = *state;
    need_files();
    uint16_t port = t_rig_open(rig, 1, "up.example", NULL);
    BH_CLEANUP_BUF struct bh_buf answer = BH_BUF_INIT;
    for (int i = 0; i < MANY; i++)
        t_rig_tunnel(rig, port, "up.example", &client[i], &upstream[i]);
    BH_CLEANUP_FD int over = t_rig_client(port);
    t_says(over, "CONNECT up.example:443 HTTP/1.1\r\nHost: x\r\n\r\n");
    t_hear_all(over, &answer);
    assert_non_null(strstr(answer.data, "(connections)"));
    t_rig_decision(rig, "up.example", "deny", "connections", NULL, NULL);
    assert_small(rig, 32);
    for (int i = 0; i < MANY; i++) {
        t_says(upstream[i], "x");
        t_hears(client[i], "x");
        bh_close(client[i]);
        bh_close(upstream[i]);
        t_rig_decision(rig, "up.example", "allow", "listed", NULL, NULL);
    }
}

/* Twice the rate at a stroke, the rest one after the other; another box does not wait. */
static void a_box_that_only_connects(void **state)
{
    enum { RATE = 10, MANY = 28 };
    struct t_rig *rig = *state;
    uint16_t port = t_rig_open(rig, 1, "up.example", "{\"rate\":10}"), other = t_rig_open(rig, 2, "up.example", NULL);
    int client[MANY], one, upstream;
    struct bh_mono began = bh_mono_now();
    for (int i = 0; i < MANY; i++) {
        client[i] = t_rig_client(port);
        t_says(client[i], "CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    for (int i = 0; i < 2 * RATE; i++)
        t_rig_decision(rig, "other.example", "deny", "not-listed", NULL, NULL);
    t_rig_tunnel(rig, other, "up.example", &one, &upstream);
    for (int i = 2 * RATE; i < MANY; i++)
        t_rig_decision(rig, "other.example", "deny", "not-listed", NULL, NULL);
    T_TRUE(bh_mono_now().ns - began.ns >= (MANY - 2 * RATE - 1) * BH_NS_PER_S / RATE);
    for (int i = 0; i < MANY; i++)
        bh_close(client[i]);
    bh_close(one);
    bh_close(upstream);
}

/* The worker sets the pace: while it does not listen, decisions wait, and none is lost. */
static void a_worker_that_does_not_listen(void **state)
{
    enum { MANY = 2500 };
    static int clients[MANY];
    struct t_rig *rig = *state;
    need_files();
    uint16_t port = t_rig_open(rig, 1, "up.example", "{\"rate\":100000}");
    for (int i = 0; i < MANY; i++) {
        clients[i] = t_rig_client(port);
        t_says(clients[i], "CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\n\r\n");
        (void)shutdown(clients[i], SHUT_WR);
    }
    for (int i = 0; i < MANY; i++)
        t_rig_decision(rig, "other.example", "deny", "not-listed", NULL, NULL);
    for (int i = 0; i < MANY; i++)
        bh_close(clients[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_head_that_never_comes, start, stop),
        cmocka_unit_test_setup_teardown(silence_ends_a_connection, start, stop),
        cmocka_unit_test_setup_teardown(everything_has_an_end, start, stop),
        cmocka_unit_test_setup_teardown(a_head_of_100_mb, start, stop),
        cmocka_unit_test_setup_teardown(an_answer_with_an_endless_head, start, stop),
        cmocka_unit_test_setup_teardown(a_frozen_client_piles_nothing_up, start, stop),
        cmocka_unit_test_setup_teardown(a_frozen_host_is_cut_in_the_end, start, stop),
        cmocka_unit_test_setup_teardown(a_box_has_so_many_connections, start, stop),
        cmocka_unit_test_setup_teardown(a_box_that_only_connects, start, stop),
        cmocka_unit_test_setup_teardown(a_thousand_and_one, start_big, stop),
        cmocka_unit_test_setup_teardown(a_worker_that_does_not_listen, start_big, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
