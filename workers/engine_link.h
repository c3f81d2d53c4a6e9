/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line to the engine: says hello, and again whenever the line was lost, and matches answers to calls. A call is
 * sent at most once; what must arrive is sent again by its owner when the line is up again.
 */
#pragma once

#include "base/err.h"

struct event_base;
struct bh_val;
struct bh_engine_link;

struct bh_engine_link_options {
    const char *url, *token;
    int slots;
    void (*up)(void *arg); /* the engine has welcomed us (again) */
    void *arg;
};

/* `answer` is borrowed, NULL where none came; the line is down then, and `up` follows once it is back. */
typedef void (*bh_answer_fn)(void *arg, const struct bh_val *answer);

int bh_engine_link_new(struct event_base *loop, const struct bh_engine_link_options *options,
                       struct bh_engine_link **ret, struct bh_err **err) BH_MUST_CHECK;
/* Takes body. False where the line is down: nothing was sent and fn is not called. Never calls fn from inside. */
bool bh_engine_link_call(struct bh_engine_link *link, struct bh_val *body, int64_t timeout_ns, bh_answer_fn fn,
                         void *arg);
bool bh_engine_link_is_up(const struct bh_engine_link *link);
void bh_engine_link_free(struct bh_engine_link *link); /* calls end without an answer; NULL is fine */
