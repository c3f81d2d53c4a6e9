/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to addresses, as the host does it (its resolv.conf, hosts file and name services), but for search domains: a
 * name is looked up as it stands. The C library's resolver blocks, so it runs in helper processes that hold nothing but
 * a socket; what a name server answers is parsed there and nowhere else. They are started when they are needed, and one
 * that takes too long is killed.
 *
 * Everything happens on the loop's thread. A callback comes once, from the loop, never from bh_lookup_ask.
 */
#pragma once

#include "base/compiler.h"
#include "policies/address.h"

#define BH_LOOKUP_MAX 16 /* addresses of one name */

struct event_base;
struct bh_lookups;
struct bh_lookup;

/* Blocks. How many addresses, -1 where nobody could be asked. */
typedef int bh_lookup_fn(const char *name, unsigned char ret[BH_LOOKUP_MAX][BH_ADDRESS_LEN]);
int bh_lookup_host(const char *name, unsigned char ret[BH_LOOKUP_MAX][BH_ADDRESS_LEN]);

/* n is -1 where nobody could be asked, or it took too long. */
typedef void bh_lookup_done_fn(void *arg, const unsigned char addresses[][BH_ADDRESS_LEN], int n);

#define BH_LOOKUP_PATIENCE_MS 12000
/* `patience_ms`: what one lookup may take. */
struct bh_lookups *bh_lookups_new(struct event_base *loop, bh_lookup_fn *look_up, int64_t patience_ms);
void bh_lookups_free(struct bh_lookups *all); /* NULL is fine; kills the helpers, no callback comes any more */

/* `who` shares the helpers with others, by turns: one who asks for much waits alone. The handle is good until the
 * callback. */
struct bh_lookup *bh_lookup_ask(struct bh_lookups *all, const void *who, const char *name, bh_lookup_done_fn *done,
                                void *arg);
void bh_lookup_cancel(struct bh_lookup *lookup); /* NULL is fine; its callback comes no more */
