/* SPDX-License-Identifier: Apache-2.0 */
/* A server and a client in one process, driven by poll on their two descriptors as a loop would drive them. */
#pragma once

#include "artifact-bus/transport.h"
#include "tests/support/t.h"

#define PAIR_PATIENCE_MS 20000 /* how long an event is waited for before the test fails */
#define PAIR_LONG_NS (60 * BH_NS_PER_S)

struct bus_pair {
    char *dir; /* of the socket */
    char *url;
    struct bh_bus_server *server;
    struct bh_bus_client *client;
    /* what came while the other was waited for, oldest first */
    struct bh_bus_request **requests;
    size_t n_requests, requests_cap;
    struct bh_bus_answer *answers;
    size_t n_answers, answers_cap;
};

enum bus_kind { BUS_INPROC, BUS_IPC };

void bus_pair_open(struct bus_pair *p, enum bus_kind kind);
void bus_pair_close(struct bus_pair *p);  /* frees what is still there */
void bus_pair_forget(struct bus_pair *p); /* what came: after an end was freed */
char *bus_url(enum bus_kind kind, const char *dir);

/* Wait for the next one while both ends are driven; fail the test when none comes. */
struct bh_bus_request *bus_pair_request(struct bus_pair *p);
struct bh_bus_answer bus_pair_answer(struct bus_pair *p);
/* The same with one end alone: the other is driven by another thread, or needs it no more. */
struct bh_bus_request *bus_next_request(struct bh_bus_server *s);
struct bh_bus_answer bus_next_answer(struct bh_bus_client *c);
/* Calls until it is answered, as a worker does that does not know whether its connection still holds. */
void bus_pair_insist(struct bus_pair *p);
bool bus_readable(int fd); /* at this moment */

/* A call with the body {"n": id}. */
void bus_call_n(struct bh_bus_client *c, uint64_t id, int64_t timeout_ns);
int64_t bus_n_of(const struct bh_val *body);
struct bh_val *bus_n(int64_t n);
int bus_count_fds(void);
