/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/artifact-bus/bus_pair.h"

#include <dirent.h>
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/val.h"

char *bus_url(enum bus_kind kind, const char *dir)
{
    static atomic_uint counter;
    unsigned n = atomic_fetch_add(&counter, 1);
    return kind == BUS_IPC ? bh_asprintf("ipc://%s/bus-%u", dir, n) : bh_asprintf("inproc://bus-%d-%u", getpid(), n);
}

void bus_pair_open(struct bus_pair *p, enum bus_kind kind)
{
    *p = (struct bus_pair){.dir = t_tmpdir()};
    p->url = bus_url(kind, p->dir);
    T_OK(bh_bus_server_new(p->url, &p->server, &err));
    T_OK(bh_bus_client_new(p->url, &p->client, &err));
}

void bus_pair_close(struct bus_pair *p)
{
    bh_bus_client_free(p->client);
    bh_bus_server_free(p->server);
    bus_pair_forget(p);
    bh_free(p->url);
    t_tmpdir_free(p->dir);
    *p = (struct bus_pair){0};
}

static void wait_readable(int fd, const char *what)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    if (poll(&pfd, 1, PAIR_PATIENCE_MS) != 1)
        fail_msg("no %s came", what);
}

bool bus_readable(int fd)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    return poll(&pfd, 1, 0) == 1;
}

struct bh_bus_request *bus_next_request(struct bh_bus_server *s)
{
    for (;;) {
        struct bh_bus_request *r = bh_bus_server_next(s);
        if (r)
            return r;
        wait_readable(bh_bus_server_fd(s), "request");
    }
}

static void drive(struct bus_pair *p)
{
    struct bh_bus_answer a;
    for (struct bh_bus_request *r; p->server && (r = bh_bus_server_next(p->server)) != NULL;)
        *BH_PUSH(p->requests, p->n_requests, p->requests_cap) = r;
    while (p->client && bh_bus_client_next(p->client, &a))
        *BH_PUSH(p->answers, p->n_answers, p->answers_cap) = a;
}

static void wait_for_either(const struct bus_pair *p, const char *what)
{
    struct pollfd pfds[2] = {{.fd = p->server ? bh_bus_server_fd(p->server) : -1, .events = POLLIN},
                             {.fd = p->client ? bh_bus_client_fd(p->client) : -1, .events = POLLIN}};
    if (poll(pfds, 2, PAIR_PATIENCE_MS) < 1)
        fail_msg("no %s came", what);
}

struct bh_bus_request *bus_pair_request(struct bus_pair *p)
{
    for (drive(p); p->n_requests == 0; drive(p))
        wait_for_either(p, "request");
    struct bh_bus_request *r = p->requests[0];
    memmove(p->requests, p->requests + 1, --p->n_requests * sizeof(struct bh_bus_request *));
    return r;
}

struct bh_bus_answer bus_pair_answer(struct bus_pair *p)
{
    for (drive(p); p->n_answers == 0; drive(p))
        wait_for_either(p, "answer");
    struct bh_bus_answer a = p->answers[0];
    memmove(p->answers, p->answers + 1, --p->n_answers * sizeof(a));
    return a;
}

void bus_pair_insist(struct bus_pair *p)
{
    for (int tries = 0; tries < 20; tries++) {
        bus_call_n(p->client, 1, PAIR_LONG_NS);
        for (drive(p); p->n_answers == 0; drive(p)) {
            while (p->n_requests > 0)
                bh_bus_reply(p->requests[--p->n_requests], bus_n(2));
            wait_for_either(p, "answer");
        }
        struct bh_bus_answer a = bus_pair_answer(p);
        bh_val_free(a.body);
        if (a.code == 0)
            return;
    }
    fail_msg("20 calls were not answered");
}

void bus_pair_forget(struct bus_pair *p)
{
    for (size_t i = 0; i < p->n_answers; i++)
        bh_val_free(p->answers[i].body);
    bh_free(p->answers);
    bh_free(p->requests); /* they went with their server */
    p->answers = NULL;
    p->requests = NULL;
    p->n_answers = p->answers_cap = p->n_requests = p->requests_cap = 0;
}

struct bh_bus_answer bus_next_answer(struct bh_bus_client *c)
{
    struct bh_bus_answer a;
    while (!bh_bus_client_next(c, &a))
        wait_readable(bh_bus_client_fd(c), "answer");
    return a;
}

struct bh_val *bus_n(int64_t n)
{
    struct bh_val *map = bh_val_map();
    bh_val_set_int(map, "n", n);
    return map;
}

int64_t bus_n_of(const struct bh_val *body)
{
    T_INT(bh_val_type(bh_val_get(body, "n")), BH_VAL_INT);
    return bh_val_int_of(body, "n");
}

void bus_call_n(struct bh_bus_client *c, uint64_t id, int64_t timeout_ns)
{
    T_OK(bh_bus_call(c, id, bus_n((int64_t)id), timeout_ns, &err));
}

int bus_count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}
