/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fork servers of a worker (docs/warm.md): each is the command of a preparation that has not ended, in the box of
 * it. Attempts of the same run find it by the key of the snapshot that it stands on, and hold it as long as they have
 * boxes beneath its own. One that nobody has held for a minute is ended, and so is one that was caught at a fork that
 * was none: attempts then start from the disk. Loop only.
 */
#pragma once

#include "workers/box_call.h"
#include "workers/command.h"

struct event_base;
struct bh_warm_servers;
struct bh_warm_server;

struct bh_warm_servers *bh_warm_servers_new(struct event_base *loop);
/* Ends all. Nobody holds one any more, and boxes beneath them die with theirs. */
void bh_warm_servers_free(struct bh_warm_servers *s);

/* Takes the box and the command, which is warm. `run`, `key`, `root` (whether it is root in its box): by what it is
 * found. */
void bh_warm_servers_add(struct bh_warm_servers *s, const char *run, const char *key, bool root,
                         struct bh_box_handle *box, struct bh_command *command);
/* Held by the caller from now on; NULL: there is none. */
struct bh_warm_server *bh_warm_servers_hold(struct bh_warm_servers *s, const char *run, const char *key, bool root);
struct bh_exec *bh_warm_server_exec(const struct bh_warm_server *w); /* NULL: it has ended */
/* bad: it did not fork as it must, and is not asked again. */
void bh_warm_server_leave(struct bh_warm_server *w, bool bad);
