/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server whose clients are killed while they flood it, again and again: it goes on taking connections, keeps nothing
 * of the dead, and can be taken down. `bus_kill FLOOD URL` is such a client.
 */
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/val.h"
#include "tests/unit/artifact-bus/bus_pair.h"

extern char **environ;

enum { ROUNDS = 40, CLIENTS = 3, UNDER_WAY = 64, BODY_BYTES = 20000 };

static int flood(const char *url)
{
    struct bh_bus_client *c;
    BH_CLEANUP_FREE char *text = bh_alloc(BODY_BYTES + 1);
    memset(text, 'x', BODY_BYTES);
    if (bh_bus_client_new(url, &c, NULL) != 0)
        return 1;
    struct pollfd pfd = {.fd = bh_bus_client_fd(c), .events = POLLIN};
    int under_way = 0;
    for (uint64_t id = 0;;) { /* until it is killed */
        struct bh_bus_answer a;
        for (; under_way < UNDER_WAY; under_way++) {
            if (bh_bus_call(c, id++, bh_val_str(text), PAIR_LONG_NS, NULL) != 0)
                return 2;
        }
        (void)poll(&pfd, 1, PAIR_PATIENCE_MS);
        for (; bh_bus_client_next(c, &a); under_way--)
            bh_val_free(a.body);
    }
}

static pid_t spawn_client(const char *url)
{
    char *argv[] = {(char *)"bus_kill", (char *)"FLOOD", (char *)url, NULL};
    pid_t pid;
    T_INT(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    return pid;
}

/* Answers so many requests, or all that come in a while. */
static void serve(struct bh_bus_server *s, int requests, int64_t patience_ns)
{
    struct pollfd pfd = {.fd = bh_bus_server_fd(s), .events = POLLIN};
    for (int64_t end = bh_mono_now().ns + patience_ns; requests > 0 && bh_mono_now().ns < end;) {
        struct bh_bus_request *r = bh_bus_server_next(s);
        if (!r) {
            (void)poll(&pfd, 1, 10);
            continue;
        }
        bh_bus_reply(r, bh_val_copy(bh_bus_request_body(r)));
        requests--;
    }
}

static void test_clients_are_killed(void **state)
{
    (void)state;
    struct bus_pair p;
    bus_pair_open(&p, BUS_IPC);
    bus_pair_insist(&p);
    int before = bus_count_fds();
    for (int round = 0; round < ROUNDS; round++) {
        pid_t pids[CLIENTS];
        for (int i = 0; i < CLIENTS; i++)
            pids[i] = spawn_client(p.url);
        serve(p.server, round * 7 % 50, PAIR_LONG_NS); /* sometimes none: they die while they connect */
        for (int i = 0; i < CLIENTS; i++) {
            T_INT(kill(pids[i], SIGKILL), 0);
            T_INT(waitpid(pids[i], NULL, 0), pids[i]);
        }
    }
    for (int64_t end = bh_mono_now().ns + 10 * BH_NS_PER_S; bus_count_fds() > before && bh_mono_now().ns < end;)
        serve(p.server, 1000000, 20 * BH_NS_PER_MS);
    assert_true(bus_count_fds() <= before);
    bus_pair_insist(&p);
    bus_pair_close(&p);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return flood(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients_are_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
