/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An execution, as the files that carry it out share it (execution.c has the life of it and says who calls whom):
 *
 *   execution.c           delivery, setup, run, the end
 *   execution_box.c       a box of its own or its stay in a shared one: into it, out of it
 *   execution_command.c   commands in the box, and what their ends mean
 *   execution_outputs.c   what comes between `run` and the gates of what it has made
 *   execution_snapshot.c  what it starts from; making a snapshot instead of a run
 *   execution_warm.c      preparations that become fork servers, attempts that are forks
 *   execution_secrets.c   what `run` alone is given, and its mask
 *   execution_gates.c     what inputs and outputs must be
 *   execution_check.c     what comes between the outputs and the end: check, score
 *   execution_ways.c      what its box may reach
 */
#pragma once

#include "workers/box_call.h"
#include "workers/collect.h"
#include "workers/deliver.h"
#include "workers/execution.h"
#include "workers/judge.h"
#include "workers/leftovers.h"
#include "workers/score.h"
#include "workers/validation.h"
#include "workers/verdict.h"
#include "workers/warm_servers.h"

enum bh_execution_state {
    BH_X_GATES,   /* whether its inputs may be delivered */
    BH_X_FINDING, /* what it starts from, or what has been made already */
    BH_X_BOOTING,
    BH_X_TURN,
    BH_X_SETUP, /* or the preparation */
    BH_X_LOOKING,
    BH_X_SECRETS,
    BH_X_RUNNING,
    BH_X_CLOSING,
    BH_X_COLLECTING,
    BH_X_PROVING, /* whether its outputs are what they must be */
    BH_X_SCORING,
    BH_X_LEAVING, /* its box ends, and its folder stays */
    BH_X_FREEZING,
    BH_X_JUDGING,
    BH_X_ENDED
};

struct bh_departure {               /* a box of its own that is being ended, with its folder kept */
    struct bh_execution *execution; /* NULL: it has ended meanwhile */
    bh_box_done_fn fn;
    char *run_dir, *key;
};

struct bh_execution {
    unsigned magic;
    enum bh_execution_state state;
    const struct bh_execution_host *host;
    struct bh_run_files *run;
    struct bh_lease lease;
    struct bh_arena *arena; /* what exec specs point to */
    struct bh_capture *capture;
    struct bh_capture *gate_log;  /* what commands of gates print, who have read what is tainted; NULL: no gates */
    struct bh_box_handle *own;    /* a box of its own, or */
    struct bh_shared_use *use;    /* its stay in a shared one */
    struct bh_box *box;           /* of either, once it is there */
    struct bh_departure *leaving; /* its own, that is being ended */
    bool left;                    /* its own has ended, and its folder is there */
    struct bh_delivery delivery;
    int stdin_fd;
    struct bh_command *command;
    struct bh_leftovers *leftovers;
    struct bh_box_call *closing;
    struct bh_collect *collect;
    struct bh_validation *validation; /* of its inputs, or of what was collected */
    struct bh_result_output *outputs; /* what was collected */
    size_t n_outputs;
    struct bh_score_read *scoring;
    struct bh_score score;
    struct bh_witness *witness; /* in a shared box, once it is there */
    struct bh_judge *judge;
    struct bh_snapshot_job *job;
    bool is_warm, server_ended;    /* of a preparation: its command has become a fork server, which has ended */
    struct bh_warm_server *server; /* of an attempt: whose fork it is; NULL: it starts from the disk */
    bool cold;                     /* that one has been tried */
    struct bh_snapshot_wait *wait; /* for the digest of what it started from */
    bool waited;
    struct bh_ways *ways; /* out of its box; NULL: there is none */
    bool ways_closing, ways_gone;
    void (*next)(struct bh_execution *e); /* once they are open */
    bool is_cut;                          /* it was stopped, and why: */
    struct bh_verdict cut;
    int *uses; /* descriptors: snapshots that may not go yet */
    size_t n_uses;
    struct bh_secrets_call *finding;
    struct bh_secrets *secrets; /* until `run` has them */
    struct bh_mask *mask;       /* of what was found */
    const char *const *empty_first;
    char *note; /* for people, beside whatever its end says */
    struct bh_verdict verdict;
    struct bh_result result;
    struct bh_mono in_box_since; /* ns 0: not yet */
    struct bh_limits limits;     /* in force for it: its own, else its box's */
    struct bh_limits of_box;     /* in force for its box */
    struct bh_enforced held;     /* by what, once it is in the box */
    size_t args_bytes;           /* of the command that was started last */
    struct event *later;
};

struct bh_execution *bh_x_check(void *arg);
void bh_x_enter(struct bh_execution *e, enum bh_execution_state state, const char *told);

/* Takes the verdict. */
void bh_x_end(struct bh_execution *e, struct bh_verdict *verdict);
void bh_x_end_for_host(struct bh_execution *e, const char *while_what, int code, const struct bh_err *err);
/* The result is given from the loop, as soon as nothing is waited for any more. */
void bh_x_conclude_soon(struct bh_execution *e);

bool bh_x_is_root(const struct bh_execution *e);
void bh_x_in_box(struct bh_execution *e, struct bh_box *box); /* it is there: goes on to what is to be done in it */
/* `empty`: declared paths that an earlier try may have left, or NULL. */
void bh_x_start_run(struct bh_execution *e, const char *const *empty);

/* execution_box.c; goes on to bh_x_in_box, or to the end */
void bh_x_enter_own_box(struct bh_execution *e);
void bh_x_enter_shared_box(struct bh_execution *e);
/* Its own box: ended, with its folder kept; then fn (unless it was ended before). */
void bh_x_leave_own(struct bh_execution *e, bh_box_done_fn fn);
bool bh_x_is_kept(const struct bh_execution *e); /* after the end: the folder of its own box stays */
void bh_x_leave_box(struct bh_execution *e);     /* whichever it is in, if any; nothing of it runs any more */

/* execution_command.c */
char *bh_x_log_path(const struct bh_execution *e); /* the caller owns it */
int bh_x_command(struct bh_execution *e, const struct bh_exec_spec *exec, int64_t timeout_ns, bh_command_done_fn fn,
                 struct bh_err **err);
/* What the command's end means; true where it was good, and the verdict is then one of success. */
bool bh_x_command_verdict(struct bh_execution *e, enum bh_phase phase, char *const *argv, int64_t timeout_ns,
                          const struct bh_command_end *end, struct bh_verdict *ret);

/* execution_outputs.c */
void bh_x_close(struct bh_execution *e);     /* `run` has ended well: goes on to bh_x_prove_outputs, or to the end */
void bh_x_collected(struct bh_execution *e); /* they have passed their gates */

/* execution_secrets.c */
/* True: bh_x_start_run comes again when they are there, or the end does. */
bool bh_x_find_secrets(struct bh_execution *e, const char *const *empty);
const char *const *bh_x_secrets_env(const struct bh_execution *e, const char *const *env);
void bh_x_forget_secrets(struct bh_execution *e); /* `run` has them, or never will */
void bh_x_mask_result(const struct bh_execution *e, struct bh_result *r);
void bh_x_drop_secrets(struct bh_execution *e);

/* execution_warm.c */
bool bh_x_may_be_warm(const struct bh_execution *e); /* a preparation that may end as a fork server */
/* What its command gets for that. */
int bh_x_warm_command(struct bh_execution *e, struct bh_exec_spec *exec, struct bh_err **err);
void bh_x_keep_server(struct bh_execution *e); /* the prepared state is in the store; box and command are let go of */
void bh_x_find_server(struct bh_execution *e); /* of an attempt */
/* Its box could not be made beneath its server: from the disk then. */
bool bh_x_lost_server(struct bh_execution *e, int code);
/* It was not forked as it must be: another box is made, and it starts from the disk. */
bool bh_x_start_cold(struct bh_execution *e, const struct bh_command_end *end);
void bh_x_leave_server(struct bh_execution *e); /* its box is gone */

/* execution_snapshot.c */
void bh_x_freeze(struct bh_execution *e);     /* its box has ended, or writes no more */
void bh_x_find_start(struct bh_execution *e); /* goes on to the box, or to the end */
void bh_x_make(struct bh_execution *e);       /* in the box: SETUP, PREPARE */
/* Whether the digest of what it started from is known, or will not be: else conclude comes again. */
bool bh_x_start_is_known(struct bh_execution *e);
void bh_x_fill_start(const struct bh_execution *e, struct bh_result *r);
void bh_x_drop_start(struct bh_execution *e);

/* execution_ways.c */
unsigned bh_x_phases(const struct bh_lease *lease); /* as bits: those that are to come in its own box */
/* The phase begins: `next` is called when its box reaches what it may reach in it, maybe from inside. */
void bh_x_with_ways(struct bh_execution *e, enum bh_net_phase phase, void (*next)(struct bh_execution *e));
const char *const *bh_x_env(struct bh_execution *e, struct bh_arena *arena, bool root); /* of the phase */
/* It was stopped for what its box did: that is the verdict then. */
bool bh_x_was_cut(struct bh_execution *e, const struct bh_command_end *end, struct bh_verdict *verdict);
void bh_x_stop_ways(struct bh_execution *e); /* nothing runs any more */
/* Whether all that was decided is known: else conclude comes again. */
bool bh_x_ways_are_gone(struct bh_execution *e);
void bh_x_fill_ways(const struct bh_execution *e, struct bh_result *r);
void bh_x_drop_ways(struct bh_execution *e); /* at once, with the box that they are of */

/* execution.c: after its gates */
void bh_x_begin(struct bh_execution *e);

/* execution_gates.c */
void bh_x_pass_gates(struct bh_execution *e);    /* goes on to bh_x_begin, or to the end */
void bh_x_prove_outputs(struct bh_execution *e); /* goes on to bh_x_collected, or to the end */

/* execution_check.c */
bool bh_x_is_judged(const struct bh_execution *e); /* there is something to come after the outputs */
void bh_x_judge(struct bh_execution *e);           /* the outputs are in; the box is quiet */
void bh_x_drop_check(struct bh_execution *e);
