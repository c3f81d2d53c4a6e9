/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command in a live box: beside the agent, with its user, environment, inputs and walls, in a process tree of its
 * own. The process that owns the run owns the box; it listens on a socket in the run's folder, which only its user can
 * reach, and who asks must be that user. What was asked is written to runs/RUN/shells.jsonl before it starts.
 */
#pragma once

#include "base/home.h"
#include "scheduler/shell/fork.h"

struct bh_shell_live {
    const struct bh_home *home;
    const char *run, *agent;
    int64_t attempt;         /* 0: any */
    const char *const *argv; /* NULL: a shell */
    bool raw;
    void (*entered)(void *arg, int64_t attempt, const char *box); /* in whose box it is; or NULL */
    void *arg;
};
/*
 * Blocks until it has ended. Errors: UNREACHABLE where nobody listens, NOT_FOUND where the agent is in no box at this
 * moment, BUSY where its setup or preparation is (what that leaves is what others start from), what kept it from
 * starting.
 */
int bh_shell_live(const struct bh_shell_live *what, struct bh_shell_end *ret, struct bh_err **err) BH_MUST_CHECK;

/* --- the owner of the run --- */

struct event_base;
struct bh_worker;
struct bh_shell_server;
/* Listens; borrows all. The socket goes with bh_shell_server_free, which ends what was started. */
int bh_shell_server_new(struct event_base *loop, const struct bh_home *home, const char *run, struct bh_worker *worker,
                        struct bh_shell_server **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_shell_server_free(struct bh_shell_server *s); /* NULL is fine */
