/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lease's life.
 *
 *   [GATES --bh_x_begin-->] [FINDING --on_start_known-->] BOOTING --bh_x_in_box--> [TURN --on_turn-->] [SETUP
 * --on_setup_done-->] [LOOKING --on_leftovers-->] [SECRETS --on_found-->] RUNNING --on_run_done--> [CLOSING
 * --on_closed-->] [COLLECTING --on_collected-->] [bh_x_judge: SCORING or LEAVING, JUDGING] ENDED --conclude--> (result)
 *
 * and of one that makes a snapshot: FINDING, BOOTING, SETUP, LEAVING, FREEZING, ENDED.
 *
 * TURN is the wait for the setups of others in a shared box, SETUP where there is one, LOOKING where an earlier try may
 * have left matches of a glob, CLOSING and COLLECTING where something is declared or judged. From every state there is
 * bh_x_end() to ENDED: a failure, a cancel, a lost box. In ENDED nothing of it runs any more and no callback of its box
 * finds it; the result is given from the loop, so that whoever takes it may free the execution.
 */
#include "workers/execution.h"

#include <event2/event.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "workers/command.h"
#include "workers/exec_env.h"
#include "workers/execution_priv.h"
#include "workers/lease_limits.h"
#include "workers/witness.h"

#define MAGIC 0x65786563u

struct bh_execution *bh_x_check(void *arg)
{
    struct bh_execution *e = arg;
    BH_ASSERT(e->magic == MAGIC);
    return e;
}

void bh_x_enter(struct bh_execution *e, enum bh_execution_state state, const char *told)
{
    BH_ASSERT(state > e->state || (state == BH_X_FINDING && e->state == BH_X_FINDING));
    e->state = state;
    if (told)
        e->host->state(e->host->arg, &e->lease, told);
}

/* --- the end --- */

/* Takes the verdict. */
void bh_x_end(struct bh_execution *e, struct bh_verdict *verdict)
{
    e->verdict = *verdict;
    *verdict = (struct bh_verdict){0};
    if (e->state == BH_X_CLOSING || e->state == BH_X_COLLECTING || e->state == BH_X_PROVING)
        e->verdict.exit_code = 0; /* of run */
    e->state = BH_X_ENDED;
    bh_command_free(BH_TAKE(e->command));
    bh_leftovers_free(BH_TAKE(e->leftovers));
    bh_box_call_forget(BH_TAKE(e->closing));
    bh_snapshot_job_forget(BH_TAKE(e->job));
    bh_validation_free(BH_TAKE(e->validation));
    bh_x_forget_secrets(e);
    bh_x_drop_check(e);
    bh_x_stop_ways(e);
    bh_x_conclude_soon(e);
}

void bh_x_conclude_soon(struct bh_execution *e)
{
    event_active(e->later, EV_TIMEOUT, 0);
}

void bh_x_end_for_host(struct bh_execution *e, const char *while_what, int code, const struct bh_err *err)
{
    struct bh_verdict verdict;
    bh_verdict_host(&verdict, while_what, code, err);
    bh_x_end(e, &verdict);
}

static char *note_of(const struct bh_execution *e)
{
    BH_CLEANUP_FREE char *log = bh_capture_problem(e->capture), *ways = e->ways ? bh_ways_text(e->ways) : NULL;
    BH_CLEANUP_FREE char *gate_log = e->gate_log ? bh_capture_problem(e->gate_log) : NULL;
    const char *const parts[] = {e->note, ways, log, gate_log};
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0; i < BH_ARRAY_LEN(parts); i++) {
        if (parts[i])
            bh_buf_addf(&out, "%s%s", out.len > 0 ? "; " : "", parts[i]);
    }
    return out.len > 0 ? bh_buf_take(&out) : NULL;
}

static bool gives_outputs(const struct bh_execution *e)
{
    enum bh_outcome outcome = e->verdict.outcome;
    return outcome == BH_OUTCOME_SUCCEEDED || outcome == BH_OUTCOME_FAILED;
}

static void fill_result(struct bh_execution *e)
{
    struct bh_result *r = &e->result;
    BH_CLEANUP_FREE char *note = note_of(e);
    r->instance = e->lease.instance;
    r->epoch = e->lease.epoch;
    bh_verdict_to_result(&e->verdict, note, r);
    r->ended = bh_wall_now();
    r->output_dropped = (int64_t)bh_capture_dropped(e->capture);
    if (e->verdict.outcome != BH_OUTCOME_SUCCEEDED)
        r->evidence = bh_witness_take(e->witness);
    bh_x_mask_result(e, r);
    if (gives_outputs(e)) {
        r->outputs = BH_TAKE(e->outputs);
        r->n_outputs = e->n_outputs;
    }
    r->passed = e->lease.kind == BH_LEASE_RUN && e->verdict.outcome == BH_OUTCOME_SUCCEEDED;
    r->has_score = r->passed && e->score.known;
    r->score = r->has_score ? e->score.value : 0;
    bh_x_fill_start(e, r);
    bh_x_fill_ways(e, r);
    if (bh_x_is_kept(e))
        r->kept_box = bh_asprintf("runs/%s/boxes/%s", e->lease.run.s, e->lease.box.key);
    if (e->in_box_since.ns != 0)
        r->limits = bh_verdict_limits_text(&e->held, e->lease.box.best_effort);
    if (e->in_box_since.ns != 0)
        r->box_ms = (bh_mono_now().ns - e->in_box_since.ns) / BH_NS_PER_MS;
}

/* The log is whole and the box left before anybody hears of the end. */
static void conclude(evutil_socket_t fd, short what, void *arg)
{
    struct bh_execution *e = bh_x_check(arg);
    (void)fd;
    (void)what;
    if (!bh_x_ways_are_gone(e) || !bh_x_start_is_known(e))
        return; /* called again when they are */
    fill_result(e);
    bh_collect_free(BH_TAKE(e->collect));
    bh_x_leave_box(e);
    bh_x_drop_start(e);
    bh_capture_unref(BH_TAKE(e->capture));
    bh_capture_unref(BH_TAKE(e->gate_log));
    struct bh_result result = e->result;
    e->result = (struct bh_result){0};
    e->host->ended(e->host->arg, e, &result);
}

/* --- setup and run --- */

bool bh_x_is_root(const struct bh_execution *e)
{
    return bh_streq(e->lease.user, "root");
}

static void on_run_done(void *arg, const struct bh_command_end *end)
{
    struct bh_execution *e = bh_x_check(arg);
    struct bh_verdict verdict;
    if (bh_x_start_cold(e, end))
        return;
    bool good = bh_x_command_verdict(e, BH_PHASE_RUN, e->lease.run_argv, e->lease.run_ns, end, &verdict);
    bh_x_stop_ways(e);
    if (!good || (e->lease.n_outputs == 0 && !bh_x_is_judged(e))) {
        bh_x_end(e, &verdict);
        return;
    }
    bh_verdict_fini(&verdict);
    bh_x_close(e);
}

static int open_stdin(struct bh_execution *e, struct bh_err **err)
{
    return e->lease.prompt ? bh_prompt_fd(e->lease.prompt, &e->stdin_fd, err) : 0;
}

void bh_x_start_run(struct bh_execution *e, const char *const *empty)
{
    if (bh_x_find_secrets(e, empty))
        return;
    bool copied = e->lease.n_setup > 0 || e->lease.box.n_snapshots > 0; /* the files came with the setup */
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    bh_x_enter(e, BH_X_RUNNING, "running");
    int rc = open_stdin(e, &err);
    const struct bh_exec_spec exec = {
        .argv = bh_exec_texts(e->arena, e->lease.run_argv, e->lease.n_run),
        .env = bh_x_secrets_env(e, bh_x_env(e, e->arena, bh_x_is_root(e))),
        .cwd = e->lease.workdir,
        .root = bh_x_is_root(e),
        .host_network = bh_ways_on_host(&e->lease, BH_WAYS(BH_NET_RUN)),
        .stdin_fd = e->stdin_fd >= 0 ? e->stdin_fd : e->host->null_fd,
        .copies = copied ? NULL : e->delivery.copies,
        .n_copies = copied ? 0 : e->delivery.n_copies,
        .inputs = e->delivery.inputs,
        .prompt = e->delivery.prompt,
        .params = e->delivery.params,
        .needs = e->delivery.needs,
        .empty_first = empty,
        .fork = e->server != NULL,
    };
    if (rc == 0)
        rc = bh_x_command(e, &exec, e->lease.run_ns, on_run_done, &err);
    bh_x_forget_secrets(e);
    if (rc != 0)
        bh_x_end_for_host(e, "starting run", rc, err);
}

static void on_leftovers(void *arg, const char *const *paths)
{
    struct bh_execution *e = bh_x_check(arg);
    bh_x_start_run(e, paths);
    bh_leftovers_free(BH_TAKE(e->leftovers));
}

static const char *const *declared_paths(struct bh_execution *e)
{
    const char **paths = bh_arena_alloc(e->arena, (e->lease.n_outputs + 1) * sizeof(*paths));
    for (size_t i = 0; i < e->lease.n_outputs; i++)
        paths[i] = e->lease.outputs[i].path;
    return paths;
}

static bool has_glob(const struct bh_lease *lease)
{
    for (size_t i = 0; i < lease->n_outputs; i++) {
        if (lease->outputs[i].glob)
            return true;
    }
    return false;
}

/* A try that is repeated finds a shared box as it is, but nothing where its outputs will be. */
static void begin_run(struct bh_execution *e)
{
    bool again = e->lease.try_ > 1 && e->lease.box.shared && e->lease.n_outputs > 0;
    if (again && has_glob(&e->lease)) {
        bh_x_enter(e, BH_X_LOOKING, NULL);
        e->leftovers = bh_leftovers_find(e->box, e->host->helper, &e->lease, on_leftovers, e);
        return;
    }
    bh_x_start_run(e, again ? declared_paths(e) : NULL);
}

static void on_setup_done(void *arg, const struct bh_command_end *end)
{
    struct bh_execution *e = bh_x_check(arg);
    struct bh_verdict verdict;
    if (bh_x_command_verdict(e, BH_PHASE_SETUP, e->lease.setup, e->lease.setup_ns, end, &verdict))
        bh_x_with_ways(e, BH_NET_RUN, begin_run);
    else
        bh_x_end(e, &verdict);
    if (e->use)
        bh_shared_setup_end(e->use);
}

/* Setup comes before the inputs, and what it may depend on is the document alone: no prompt, no needs. */
static void begin_setup(struct bh_execution *e)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    bh_x_enter(e, BH_X_SETUP, "setup");
    const struct bh_exec_spec exec = {
        .argv = bh_exec_texts(e->arena, e->lease.setup, e->lease.n_setup),
        .env = bh_x_env(e, e->arena, true),
        .cwd = e->lease.workdir,
        .root = true,
        .host_network = bh_ways_on_host(&e->lease, BH_WAYS(BH_NET_SETUP)),
        .stdin_fd = e->host->null_fd,
        .copies = e->delivery.copies,
        .n_copies = e->delivery.n_copies,
        .params = e->delivery.params,
        .give_to_agent = !bh_x_is_root(e),
    };
    int rc = bh_x_command(e, &exec, e->lease.setup_ns, on_setup_done, &err);
    if (rc != 0)
        bh_x_end_for_host(e, "starting setup", rc, err);
}

static void on_turn(void *arg)
{
    struct bh_execution *e = bh_x_check(arg);
    if (e->state == BH_X_TURN)
        bh_x_with_ways(e, BH_NET_SETUP, begin_setup);
}

/* --- the box --- */

void bh_x_in_box(struct bh_execution *e, struct bh_box *box)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    e->box = box;
    if (e->use)
        e->witness = bh_witness_new(bh_shared_ledger(e->use), e->box, &e->lease);
    e->in_box_since = bh_mono_now();
    const struct bh_limits own = bh_exec_limits(&e->lease);
    e->held = e->host->boxes->ops->enforced(box, &own);
    int rc = bh_deliver_lease(e->run, &e->lease, e->arena, &e->delivery, &err);
    if (rc != 0) {
        bh_x_end_for_host(e, "delivering into the box", rc, err);
    } else if (e->lease.kind != BH_LEASE_RUN) {
        bh_x_with_ways(e, e->lease.kind == BH_LEASE_SETUP ? BH_NET_SETUP : BH_NET_PREPARE, bh_x_make);
    } else if (e->lease.n_setup == 0) {
        bh_x_with_ways(e, BH_NET_RUN, begin_run);
    } else if (e->use) {
        bh_x_enter(e, BH_X_TURN, NULL);
        bh_shared_setup_begin(e->use, on_turn);
    } else {
        bh_x_with_ways(e, BH_NET_SETUP, begin_setup);
    }
}

/* --- life --- */

static struct bh_capture *open_log(const struct bh_execution *e, const char *path, bool tainted)
{
    const struct bh_log_tags tags = {
        .run = e->lease.run.s,
        .stage = e->lease.stage,
        .agent = e->lease.agent,
        .instance = e->lease.instance.s,
        .box = e->lease.box.id,
        .attempt = e->lease.attempt,
        .try_ = e->lease.try_,
        .tainted = tainted,
    };
    return bh_capture_new(path, &tags, e->lease.limits.of[BH_LIMIT_OUTPUT]);
}

/* A gate's command is no agent: what it prints of a tainted artifact is not the text of a trusted one. */
static void open_logs(struct bh_execution *e)
{
    BH_CLEANUP_FREE char *path = bh_x_log_path(e);
    BH_CLEANUP_FREE char *of_gate = bh_asprintf("%s/logs/%s.gate.log", e->run->dir, e->lease.instance.s);
    e->capture = open_log(e, path, e->lease.tainted);
    e->gate_log = e->lease.n_gates > 0 ? open_log(e, of_gate, true) : NULL;
}

void bh_x_begin(struct bh_execution *e)
{
    if (e->lease.box.shared) {
        bh_x_enter(e, BH_X_BOOTING, "booting");
        bh_x_enter_shared_box(e);
    } else {
        bh_x_find_start(e);
    }
}

struct bh_execution *bh_execution_start(const struct bh_execution_host *host, struct bh_run_files *run,
                                        struct bh_lease *lease)
{
    struct bh_execution *e = bh_alloc(sizeof(*e));
    e->magic = MAGIC;
    e->host = host;
    e->run = bh_run_files_ref(run);
    e->lease = *lease;
    *lease = (struct bh_lease){0};
    e->arena = bh_arena_new();
    e->limits = bh_limits_in_force(&e->lease);
    e->of_box = bh_box_limits(&e->lease.box);
    e->result.disk_bytes = -1;
    e->stdin_fd = -1;
    e->later = evtimer_new(host->loop, conclude, e);
    BH_ASSERT(e->later);
    open_logs(e);
    bh_x_pass_gates(e);
    return e;
}

const struct bh_lease *bh_execution_lease(const struct bh_execution *e)
{
    return &e->lease;
}

void bh_execution_cancel(struct bh_execution *e)
{
    struct bh_verdict verdict;
    if (e->state == BH_X_ENDED)
        return;
    if (e->command) { /* its end comes as always */
        bh_command_stop(e->command);
        return;
    }
    if (e->validation) {
        bh_validation_stop(e->validation);
        return;
    }
    if (e->judge) {
        bh_judge_stop(e->judge);
        return;
    }
    bh_collect_free(BH_TAKE(e->collect));
    bh_verdict_cancelled(&verdict);
    bh_x_end(e, &verdict);
}

void bh_execution_free(struct bh_execution *e)
{
    if (!e)
        return;
    BH_ASSERT(e->magic == MAGIC);
    bh_command_free(e->command);
    bh_leftovers_free(e->leftovers);
    bh_box_call_forget(e->closing);
    bh_collect_free(e->collect);
    bh_snapshot_job_forget(e->job);
    bh_validation_free(e->validation);
    bh_x_drop_secrets(e);
    bh_x_drop_check(e);
    bh_x_drop_ways(e);
    bh_x_leave_box(e);
    bh_x_leave_server(e);
    bh_x_drop_start(e);
    bh_capture_unref(e->capture);
    bh_capture_unref(e->gate_log);
    event_free(e->later);
    bh_close(e->stdin_fd);
    for (size_t i = 0; e->outputs && i < e->n_outputs; i++)
        bh_free(e->outputs[i].name);
    bh_free(e->outputs);
    bh_score_fini(&e->score);
    bh_free(e->note);
    bh_verdict_fini(&e->verdict);
    bh_result_fini(&e->result);
    bh_arena_free(e->arena);
    bh_lease_fini(&e->lease);
    bh_run_files_unref(e->run);
    e->magic = 0;
    bh_free(e);
}
