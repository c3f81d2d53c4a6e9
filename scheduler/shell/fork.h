/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command in a fork of a finished box: a new box whose root lies over what the other one has left, with the same
 * walls, inputs and environment, and gone when the command is. The finished box is not written to. Blocks until then.
 *
 * It lives below HOME/shells, locked as long as we and our launcher live; what dead ones left there is swept away by
 * the next, and by gc. While it lives it holds a shared lock on the folder of the run, so that gc leaves that alone.
 */
#pragma once

#include "base/home.h"
#include "scheduler/store/store.h"
#include "workers/box/reclaim.h"
#include "workers/box/stand.h"

#define BH_SHELLS "shells" /* below home */

struct bh_shell_fork {
    const struct bh_home *home;
    struct bh_store *store;
    const char *run, *agent; /* the run's id */
    const struct bh_attempt_row *attempt;
    const struct bh_box_stand *stand;
    const char *kept;        /* key of the kept box; NULL: what it stands on is all there is */
    const char *layer;       /* or the frozen layer to begin with, above those of `stand` */
    const char *const *argv; /* NULL: a shell */
    bool raw;
};

struct bh_shell_end {
    int status;    /* as a shell would have it: the exit code, 128 and the signal, 126 or 127 where it did not start */
    char why[240]; /* of what did not start; else "" */
};

int bh_shell_fork(const struct bh_shell_fork *what, struct bh_shell_end *ret, struct bh_err **err) BH_MUST_CHECK;

/* What dead shells have left. */
void bh_shells_sweep(const struct bh_home *home, const struct bh_reclaim *how);

/* How an exec ended, in these terms. */
struct bh_exec_result;
void bh_shell_end_of(const struct bh_exec_result *result, const char *program, struct bh_shell_end *ret);
/* The command that is meant by none: bash where there is one. */
extern const char *const bh_shell_argv[];
