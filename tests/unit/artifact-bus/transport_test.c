/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact-bus/transport.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "artifact-bus/wire.h"
#include "base/mem.h"
#include "base/val.h"
#include "tests/unit/artifact-bus/bus_pair.h"

enum { MANY = 1000 };

static int setup_inproc(void **state)
{
    struct bus_pair *p = bh_alloc(sizeof(*p));
    bus_pair_open(p, BUS_INPROC);
    *state = p;
    return 0;
}

static int setup_ipc(void **state)
{
    struct bus_pair *p = bh_alloc(sizeof(*p));
    bus_pair_open(p, BUS_IPC);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    bus_pair_close(*state);
    bh_free(*state);
    return 0;
}

/* One request, answered with n + 1. */
static void echo_once(struct bus_pair *p, uint64_t id)
{
    bus_call_n(p->client, id, PAIR_LONG_NS);
    struct bh_bus_request *r = bus_pair_request(p);
    T_INT(bus_n_of(bh_bus_request_body(r)), id);
    bh_bus_reply(r, bus_n((int64_t)id + 1));
    struct bh_bus_answer a = bus_pair_answer(p);
    T_INT(a.code, 0);
    T_INT(a.id, id);
    T_INT(bus_n_of(a.body), id + 1);
    bh_val_free(a.body);
}

/* --- many at once --- */

static void collect(struct bus_pair *p, struct bh_bus_request **open)
{
    for (int i = 0; i < MANY; i++) {
        struct bh_bus_request *r = bus_pair_request(p);
        int64_t n = bus_n_of(bh_bus_request_body(r));
        assert_in_range(n, 0, MANY - 1);
        assert_null(open[n]); /* none comes twice */
        open[n] = r;
    }
    assert_null(bh_bus_server_next(p->server));
}

static void test_all_answered_out_of_order(void **state)
{
    struct bus_pair *p = *state;
    struct bh_bus_request *open[MANY] = {0};
    bool answered[MANY] = {0};
    for (uint64_t id = 0; id < MANY; id++)
        bus_call_n(p->client, id, PAIR_LONG_NS);
    collect(p, open);
    for (int i = MANY - 1; i >= 0; i -= 2)
        bh_bus_reply(open[i], bus_n(i + MANY));
    for (int i = 0; i < MANY; i += 2)
        bh_bus_reply(open[i], bus_n(i + MANY));
    for (int i = 0; i < MANY; i++) {
        struct bh_bus_answer a = bus_pair_answer(p);
        T_INT(a.code, 0);
        T_INT(bus_n_of(a.body), a.id + MANY);
        assert_false(answered[a.id]);
        answered[a.id] = true;
        bh_val_free(a.body);
    }
    struct bh_bus_answer none;
    assert_false(bh_bus_client_next(p->client, &none));
}

static void test_parked_requests_stop_nobody(void **state)
{
    struct bus_pair *p = *state;
    struct bh_bus_request *parked[300];
    for (uint64_t id = 0; id < 300; id++)
        bus_call_n(p->client, id, PAIR_LONG_NS);
    for (int i = 0; i < 300; i++)
        parked[i] = bus_pair_request(p);
    for (uint64_t id = 1000; id < 1050; id++) /* heartbeats go on beside them */
        echo_once(p, id);
    for (int i = 0; i < 300; i++)
        bh_bus_reply(parked[i], bus_n(i));
    for (int i = 0; i < 300; i++) {
        struct bh_bus_answer a = bus_pair_answer(p);
        T_INT(a.code, 0);
        bh_val_free(a.body);
    }
}

/* Who takes one item a turn is woken for the next one. */
static void test_readable_until_the_last_is_taken(void **state)
{
    struct bus_pair *p = *state;
    struct pollfd pfd = {.fd = bh_bus_server_fd(p->server), .events = POLLIN};
    struct bh_bus_answer a;
    int answered = 0;
    echo_once(p, 99); /* there is a connection now */
    for (uint64_t id = 0; id < 8; id++)
        bus_call_n(p->client, id, PAIR_LONG_NS);
    for (int taken = 0; taken < 8;) {
        T_INT(poll(&pfd, 1, PAIR_PATIENCE_MS), 1);
        struct bh_bus_request *r = bh_bus_server_next(p->server);
        if (r)
            bh_bus_reply(r, bus_n(taken++));
        while (bh_bus_client_next(p->client, &a))
            answered += a.code == 0 && (bh_val_free(a.body), true);
    }
    for (; answered < 8; answered++) {
        a = bus_pair_answer(p);
        bh_val_free(a.body);
    }
    assert_false(bh_bus_client_next(p->client, &a));
}

static void test_large_bodies(void **state)
{
    struct bus_pair *p = *state;
    size_t len = 1024 * 1024;
    BH_CLEANUP_FREE char *text = bh_alloc(len + 1);
    memset(text, 'x', len);
    for (uint64_t id = 0; id < 4; id++)
        T_OK(bh_bus_call(p->client, id, bh_val_strn(text, len), PAIR_LONG_NS, &err));
    for (int i = 0; i < 4; i++) {
        struct bh_bus_request *r = bus_pair_request(p);
        T_INT(bh_val_str_len(bh_bus_request_body(r)), len);
        bh_bus_reply(r, bh_val_copy(bh_bus_request_body(r)));
    }
    for (int i = 0; i < 4; i++) {
        struct bh_bus_answer a = bus_pair_answer(p);
        T_INT(a.code, 0);
        T_INT(bh_val_str_len(a.body), len);
        bh_val_free(a.body);
    }
}

/* --- deadlines and ends --- */

static void test_deadline(void **state)
{
    struct bus_pair *p = *state;
    bus_call_n(p->client, 1, PAIR_LONG_NS);
    bus_call_n(p->client, 2, 30 * BH_NS_PER_MS);
    struct bh_bus_request *first = bus_pair_request(p), *second = bus_pair_request(p);
    struct bh_bus_answer a = bus_pair_answer(p); /* each has its own */
    T_INT(a.id, 2);
    T_INT(a.code, -BH_E_UNREACHABLE);
    assert_null(a.body);
    /* a late reply reaches nobody, least of all the next user of the slot */
    bus_call_n(p->client, 3, PAIR_LONG_NS);
    struct bh_bus_request *third = bus_pair_request(p);
    bh_bus_reply(bus_n_of(bh_bus_request_body(first)) == 2 ? first : second, bus_n(2));
    bh_bus_reply(third, bus_n(33));
    a = bus_pair_answer(p);
    T_INT(a.id, 3);
    T_INT(bus_n_of(a.body), 33);
    bh_val_free(a.body);
}

static void test_dropped_request(void **state)
{
    struct bus_pair *p = *state;
    bus_call_n(p->client, 1, 30 * BH_NS_PER_MS);
    bh_bus_request_drop(bus_pair_request(p));
    struct bh_bus_answer a = bus_pair_answer(p);
    T_INT(a.code, -BH_E_UNREACHABLE);
    echo_once(p, 7);
}

static void test_no_server(void **state)
{
    struct bus_pair *p = *state;
    struct bh_bus_client *c;
    BH_CLEANUP_FREE char *url = bus_url(strncmp(p->url, "ipc", 3) == 0 ? BUS_IPC : BUS_INPROC, p->dir);
    T_OK(bh_bus_client_new(url, &c, &err));
    for (uint64_t id = 0; id < 20; id++)
        bus_call_n(c, id, 30 * BH_NS_PER_MS);
    for (int i = 0; i < 20; i++) {
        struct bh_bus_answer a = bus_next_answer(c);
        T_INT(a.code, -BH_E_UNREACHABLE);
    }
    bh_bus_client_free(c);
}

/* A server that comes after the call was made still gets it: only what was sent is lost with a connection. */
static void test_server_comes_late(void **state)
{
    struct bus_pair *p = *state;
    struct bus_pair late = {.url = bus_url(strncmp(p->url, "ipc", 3) == 0 ? BUS_IPC : BUS_INPROC, p->dir)};
    T_OK(bh_bus_client_new(late.url, &late.client, &err));
    bus_call_n(late.client, 1, PAIR_LONG_NS);
    T_OK(bh_bus_server_new(late.url, &late.server, &err));
    bh_bus_reply(bus_pair_request(&late), bus_n(5));
    struct bh_bus_answer a = bus_pair_answer(&late);
    T_INT(a.code, 0);
    bh_val_free(a.body);
    bh_bus_client_free(late.client);
    bh_bus_server_free(late.server);
    bus_pair_forget(&late);
    bh_free(late.url);
}

static void test_server_goes_and_comes_back(void **state)
{
    struct bus_pair *p = *state;
    for (int round = 0; round < 3; round++) {
        echo_once(p, 1);
        for (uint64_t id = 10; id < 20; id++)
            bus_call_n(p->client, id, PAIR_LONG_NS);
        for (int i = 0; i < 10; i++)
            assert_non_null(bus_pair_request(p));
        bh_bus_server_free(BH_TAKE(p->server));
        for (int i = 0; i < 10; i++) { /* at once, long before the deadline */
            struct bh_bus_answer a = bus_pair_answer(p);
            T_INT(a.code, -BH_E_UNREACHABLE);
        }
        T_OK(bh_bus_server_new(p->url, &p->server, &err));
    }
    echo_once(p, 2);
}

static void test_client_goes(void **state)
{
    struct bus_pair *p = *state;
    struct bh_bus_request *open[50];
    for (uint64_t id = 0; id < 50; id++)
        bus_call_n(p->client, id, PAIR_LONG_NS);
    for (int i = 0; i < 50; i++)
        open[i] = bus_pair_request(p);
    bh_bus_client_free(p->client);
    for (int i = 0; i < 50; i++)
        bh_bus_reply(open[i], bus_n(i)); /* into the void */
    T_OK(bh_bus_client_new(p->url, &p->client, &err));
    echo_once(p, 3);
}

static void test_two_clients_are_two_peers(void **state)
{
    struct bus_pair *p = *state;
    struct bus_pair other = {.server = p->server};
    struct bus_pair *who[4] = {p, &other, p, &other};
    uint32_t peers[4];
    T_OK(bh_bus_client_new(p->url, &other.client, &err));
    for (int i = 0; i < 4; i++) {
        bus_call_n(who[i]->client, (uint64_t)i, PAIR_LONG_NS);
        struct bh_bus_request *r = bus_pair_request(who[i]);
        peers[i] = bh_bus_request_peer(r);
        bh_bus_reply(r, bus_n(0));
        struct bh_bus_answer a = bus_pair_answer(who[i]);
        bh_val_free(a.body);
    }
    T_INT(peers[0], peers[2]);
    T_INT(peers[1], peers[3]);
    assert_true(peers[0] != peers[1]);
    bh_bus_client_free(other.client);
    bus_pair_forget(&other);
}

/* --- bodies that do not fit --- */

static void test_oversize(void **state)
{
    struct bus_pair *p = *state;
    BH_CLEANUP_FREE char *text = bh_alloc(BH_WIRE_MAX_CONTROL + 1);
    memset(text, 'x', BH_WIRE_MAX_CONTROL);
    T_ERR(bh_bus_call(p->client, 1, bh_val_str(text), PAIR_LONG_NS, &err), BH_E_TOO_LARGE, "longer than");
    bus_call_n(p->client, 2, PAIR_LONG_NS);
    bh_bus_reply(bus_pair_request(p), bh_val_str(text));
    struct bh_bus_answer a = bus_pair_answer(p);
    T_INT(a.id, 2);
    T_INT(a.code, -BH_E_PROTOCOL);
    assert_null(a.body);
    echo_once(p, 3);
}

/* --- taking it down --- */

static void test_shutdown_with_parked_requests(void **state)
{
    (void)state;
    for (int round = 0; round < 12; round++) {
        struct bus_pair p;
        bus_pair_open(&p, round % 2 ? BUS_IPC : BUS_INPROC);
        for (uint64_t id = 0; id < 100; id++)
            bus_call_n(p.client, id, PAIR_LONG_NS);
        int taken = round * 9; /* from none, with all still on their way, to nearly all */
        for (int i = 0; i < taken; i++) {
            struct bh_bus_request *r = bus_pair_request(&p);
            if (i % 3 == 0)
                bh_bus_reply(r, bus_n(i));
        }
        if (round % 4 < 2)
            bh_bus_server_free(BH_TAKE(p.server));
        bus_pair_close(&p);
    }
}

static void test_free_of_nothing(void **state)
{
    (void)state;
    bh_bus_server_free(NULL);
    bh_bus_client_free(NULL);
    struct bus_pair p;
    bus_pair_open(&p, BUS_IPC);
    bus_pair_close(&p); /* never used */
}

static void one_life(enum bus_kind kind)
{
    struct bus_pair p;
    bus_pair_open(&p, kind);
    for (uint64_t id = 0; id < 5; id++)
        echo_once(&p, id);
    bus_call_n(p.client, 9, PAIR_LONG_NS);
    bus_pair_close(&p);
}

static void test_no_descriptor_is_left(void **state)
{
    (void)state;
    one_life(BUS_INPROC); /* the library opens some of its own on first use */
    one_life(BUS_IPC);
    int before = bus_count_fds();
    for (int i = 0; i < 10; i++) {
        one_life(BUS_INPROC);
        one_life(BUS_IPC);
    }
    /* the library closes connections on a thread of its own */
    for (int64_t end = bh_mono_now().ns + 10 * BH_NS_PER_S; bus_count_fds() > before && bh_mono_now().ns < end;)
        sched_yield();
    assert_true(bus_count_fds() <= before);
}

/* --- addresses --- */

static void test_socket_is_ours_alone(void **state)
{
    struct bus_pair *p = *state;
    struct stat st;
    T_INT(stat(p->url + strlen("ipc://"), &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    T_INT(st.st_mode & 07777, 0600);
}

/* What a killed server leaves behind stops nobody, and a server that ends leaves nothing. */
static void test_leftovers(void **state)
{
    struct bus_pair *p = *state;
    const char *path = p->url + strlen("ipc://");
    BH_CLEANUP_FREE char *lock = bh_asprintf("%s.lock", path);
    struct stat st;
    T_INT(stat(lock, &st), 0);
    bh_bus_server_free(BH_TAKE(p->server));
    T_INT(stat(path, &st), -1);
    T_INT(stat(lock, &st), -1);
    T_INT(mknod(path, S_IFSOCK | 0755, 0), 0);
    T_INT(mknod(lock, S_IFREG | 0600, 0), 0);
    T_OK(bh_bus_server_new(p->url, &p->server, &err));
    T_INT(stat(path, &st), 0);
    T_INT(st.st_mode & 07777, 0600);
    bus_pair_insist(p);
}

static void test_folder_open_to_others(void **state)
{
    struct bus_pair *p = *state;
    struct bh_bus_server *s = NULL;
    BH_CLEANUP_FREE char *open_dir = bh_asprintf("%s/open", p->dir);
    BH_CLEANUP_FREE char *url = bh_asprintf("ipc://%s/bus", open_dir);
    T_ERR(bh_bus_server_new(url, &s, &err), BH_E_IO, "cannot look at the folder");
    T_INT(mkdir(open_dir, 0700), 0);
    T_INT(chmod(open_dir, 0710), 0);
    T_ERR(bh_bus_server_new(url, &s, &err), BH_E_PERMISSION, "is open to other users (mode 710)");
    assert_null(s);
}

static void test_second_server(void **state)
{
    struct bus_pair *p = *state;
    struct bh_bus_server *s = NULL;
    bool ipc = strncmp(p->url, "ipc", 3) == 0;
    T_ERR(bh_bus_server_new(p->url, &s, &err), BH_E_BUSY, ipc ? "another process listens at '" : "cannot listen at '");
    assert_null(s);
    echo_once(p, 1); /* the first one does not mind */
}

static void test_bad_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        enum bh_code code;
        const char *part;
    } bad[] = {
        {"tcp://127.0.0.1:1", BH_E_NOT_SUPPORTED, "neither inproc:// nor ipc://"},
        {"", BH_E_NOT_SUPPORTED, "neither inproc:// nor ipc://"},
        {"/run/bus", BH_E_NOT_SUPPORTED, "neither inproc:// nor ipc://"},
        {"ipc://bus", BH_E_BAD_VALUE, "is not absolute"},
        {"ipc://", BH_E_BAD_VALUE, "is not absolute"},
        {"inproc://", BH_E_BAD_VALUE, "is no name of up to 64"},
        {"inproc://a b", BH_E_BAD_VALUE, "is no name of up to 64"},
        {"inproc://a%00", BH_E_BAD_VALUE, "is no name of up to 64"},
    };
    struct bh_bus_server *s = NULL;
    struct bh_bus_client *c = NULL;
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        T_ERR(bh_bus_server_new(bad[i].url, &s, &err), bad[i].code, bad[i].part);
        T_ERR(bh_bus_client_new(bad[i].url, &c, &err), bad[i].code, bad[i].part);
    }
    char url[400];
    memset(url, 'x', sizeof(url));
    memcpy(url, "ipc:///", 7);
    url[6 + 108] = '\0'; /* a path of 108 bytes */
    T_ERR(bh_bus_server_new(url, &s, &err), BH_E_BAD_VALUE, "longer than the 107 bytes");
    T_ERR(bh_bus_client_new(url, &c, &err), BH_E_BAD_VALUE, "longer than the 107 bytes");
    memcpy(url, "inproc://xxx", 12);
    url[9 + 65] = '\0';
    T_ERR(bh_bus_server_new(url, &s, &err), BH_E_BAD_VALUE, "is no name of up to 64");
    url[9 + 64] = '\0';
    T_OK(bh_bus_server_new(url, &s, &err));
    bh_bus_server_free(s);
    assert_null(c);
}

/* Another process cannot speak to an inproc server, though its socket can be found. */
static void test_inproc_is_for_this_process(void **state)
{
    struct bus_pair *p = *state;
    char name[108] = {0};
    int n = snprintf(name + 1, sizeof(name) - 1, "bulkhead-%d-%s", (int)getpid(), p->url + strlen("inproc://"));
    pid_t pid = fork(); /* does nothing with the library */
    if (pid == 0) {
        struct sockaddr_un addr = {.sun_family = AF_UNIX};
        char byte;
        memcpy(addr.sun_path, name, (size_t)n + 1);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&addr, (socklen_t)(sizeof(sa_family_t) + 1 + (size_t)n)) != 0)
            _exit(1);
        _exit(read(fd, &byte, 1) <= 0 ? 42 : 2); /* hung up on */
    }
    int status;
    echo_once(p, 1);
    struct pollfd pfd = {.fd = bh_bus_server_fd(p->server), .events = POLLIN};
    while (waitpid(pid, &status, WNOHANG) == 0) {
        (void)poll(&pfd, 1, 20);
        assert_null(bh_bus_server_next(p->server));
    }
    assert_true(WIFEXITED(status));
    T_INT(WEXITSTATUS(status), 42);
    echo_once(p, 2);
}

/* --- two threads: what the race detector watches --- */

struct served {
    struct bh_bus_server *server;
    atomic_bool stop;
};

static void *serve(void *arg)
{
    struct served *s = arg;
    struct pollfd pfd = {.fd = bh_bus_server_fd(s->server), .events = POLLIN};
    while (!atomic_load(&s->stop)) {
        struct bh_bus_request *r = bh_bus_server_next(s->server);
        if (r)
            bh_bus_reply(r, bus_n(bus_n_of(bh_bus_request_body(r))));
        else
            (void)poll(&pfd, 1, 20);
    }
    return NULL;
}

static void test_two_threads(void **state)
{
    struct bus_pair *p = *state;
    struct served served = {.server = p->server};
    pthread_t thread;
    uint64_t sent = 0, got = 0;
    T_INT(pthread_create(&thread, NULL, serve, &served), 0);
    while (got < MANY) {
        for (; sent < MANY && sent - got < 64; sent++)
            bus_call_n(p->client, sent, PAIR_LONG_NS);
        struct bh_bus_answer a = bus_next_answer(p->client);
        T_INT(a.code, 0);
        T_INT(bus_n_of(a.body), a.id);
        bh_val_free(a.body);
        got++;
    }
    atomic_store(&served.stop, true);
    T_INT(pthread_join(thread, NULL), 0);
}

int main(void)
{
#define BOTH(name)                                          \
    {#name "(inproc)", name, setup_inproc, teardown, NULL}, \
    {                                                       \
#name "(ipc)", name, setup_ipc, teardown, NULL      \
    }
    const struct CMUnitTest tests[] = {
        BOTH(test_all_answered_out_of_order),
        BOTH(test_parked_requests_stop_nobody),
        BOTH(test_readable_until_the_last_is_taken),
        BOTH(test_large_bodies),
        BOTH(test_deadline),
        BOTH(test_dropped_request),
        BOTH(test_no_server),
        BOTH(test_server_comes_late),
        BOTH(test_server_goes_and_comes_back),
        BOTH(test_client_goes),
        BOTH(test_two_clients_are_two_peers),
        BOTH(test_oversize),
        BOTH(test_second_server),
        BOTH(test_two_threads),
        cmocka_unit_test(test_shutdown_with_parked_requests),
        cmocka_unit_test(test_free_of_nothing),
        cmocka_unit_test(test_no_descriptor_is_left),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test_setup_teardown(test_socket_is_ours_alone, setup_ipc, teardown),
        cmocka_unit_test_setup_teardown(test_inproc_is_for_this_process, setup_inproc, teardown),
        cmocka_unit_test_setup_teardown(test_leftovers, setup_ipc, teardown),
        cmocka_unit_test_setup_teardown(test_folder_open_to_others, setup_ipc, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
