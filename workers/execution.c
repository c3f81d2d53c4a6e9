/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lease's life.
 *
 *   [GATES --bh_x_begin-->] [FINDING --on_start_known-->] BOOTING --on_box--> [TURN --on_turn-->] [SETUP
 * --on_setup_done-->] [LOOKING --on_leftovers-->] [SECRETS --on_found-->] RUNNING --on_run_done--> [CLOSING
 * --on_closed-->] [COLLECTING --on_collected-->] [bh_x_judge: SCORING or LEAVING, JUDGING] ENDED --conclude--> (result)
 *
 * and of one that makes a snapshot: FINDING, BOOTING, SETUP, LEAVING, FREEZING, ENDED.
 *
 * TURN is the wait for the setups of others in a shared box, SETUP where there is one, LOOKING where an earlier try may
 * have left matches of a glob, CLOSING and COLLECTING where something is declared or judged. From every state there is
 * bh_x_end() to ENDED: a failure, a cancel, a lost box. In ENDED nothing of it runs any more and no callback of its box
 * finds it; the result is given from the loop, so that whoever takes it may free the execution.
 *
 * A box of its own is let go with its folder kept as the lease says; a shared box is left.
 */
#include "workers/execution.h"

#include <event2/event.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "workers/box/folder.h"
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

static bool is_kept(const struct bh_execution *e)
{
    bool there = e->left || (e->own && e->box && !bh_box_handle_lost(e->own));
    if (e->state != BH_X_ENDED || !there)
        return false;
    return e->lease.keep == BH_LEASE_KEEP_ALWAYS ||
           (e->lease.keep == BH_LEASE_KEEP_ON_FAILURE && e->verdict.outcome == BH_OUTCOME_FAILED);
}

struct removal {
    char *run_dir, *key;
};

static void remove_folder(void *data)
{
    const struct removal *r = data;
    (void)!bh_box_folder_remove(r->run_dir, r->key, false, NULL);
}

static void free_removal(void *data)
{
    struct removal *r = data;
    bh_free(r->run_dir);
    bh_free(r->key);
    bh_free(r);
}

/* Of a box that ended before its lease did, and is not to be kept. */
static void remove_left(struct bh_execution *e)
{
    static const struct bh_job_ops ops = {remove_folder, NULL, free_removal};
    struct removal *r = bh_alloc(sizeof(*r));
    *r = (struct removal){bh_strdup(e->run->dir), bh_strdup(e->lease.box.key)};
    bh_job_forget(bh_helper_submit(e->host->helper, &ops, NULL, r));
    e->left = false;
}

static void leave_box(struct bh_execution *e)
{
    if (e->leaving)
        BH_TAKE(e->leaving)->execution = NULL;
    if (e->left && is_kept(e))
        (void)bh_box_folder_undecided(e->run->dir, e->lease.box.key, false);
    else if (e->left)
        remove_left(e);
    if (e->own)
        (void)bh_box_handle_drop(BH_TAKE(e->own), is_kept(e), NULL, NULL);
    if (!e->use)
        return;
    if (e->box)
        bh_deliver_remove(e->run, &e->lease);
    bh_witness_free(BH_TAKE(e->witness));
    bh_shared_leave(BH_TAKE(e->use));
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
    if (is_kept(e))
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
    leave_box(e);
    bh_x_drop_start(e);
    bh_capture_unref(BH_TAKE(e->capture));
    bh_capture_unref(BH_TAKE(e->gate_log));
    struct bh_result result = e->result;
    e->result = (struct bh_result){0};
    e->host->ended(e->host->arg, e, &result);
}

/* --- outputs --- */

static void *open_output(void *ctx, const char *root, const char *path, bh_box_opened_fn fn, void *arg)
{
    struct bh_execution *e = bh_x_check(ctx);
    return bh_box_call_open(e->box, root, path, fn, arg);
}

static void forget_opening(void *opening)
{
    bh_box_call_forget(opening);
}

/* A bad end of the collecting is the verdict. */
static void on_collected(void *arg, struct bh_verdict *verdict)
{
    struct bh_execution *e = bh_x_check(arg);
    bool good = verdict->outcome == BH_OUTCOME_SUCCEEDED;
    if (!good) {
        bh_x_end(e, verdict);
        return;
    }
    bh_collect_take(e->collect, &e->outputs, &e->n_outputs);
    bh_verdict_fini(verdict);
    bh_collect_free(BH_TAKE(e->collect));
    bh_x_prove_outputs(e);
}

void bh_x_collected(struct bh_execution *e)
{
    struct bh_verdict verdict;
    if (bh_x_is_judged(e)) {
        bh_x_judge(e);
        return;
    }
    bh_verdict_succeeded(&verdict);
    bh_x_end(e, &verdict);
}

static void on_closed(void *arg, int code, const struct bh_err *err)
{
    struct bh_execution *e = bh_x_check(arg);
    struct bh_verdict verdict;
    e->closing = NULL;
    if (code != 0 && bh_errno_is_loss(bh_err_errno(err))) {
        bh_verdict_lost(&verdict, "collecting");
        bh_x_end(e, &verdict);
        return;
    }
    if (code != 0) {
        bh_x_end_for_host(e, "closing the box for its outputs", code, err);
        return;
    }
    bh_x_enter(e, BH_X_COLLECTING, NULL);
    if (e->lease.n_outputs == 0) {
        bh_x_judge(e);
        return;
    }
    const struct bh_collect_spec spec = {
        .helper = e->host->helper,
        .run = e->run,
        .lease = &e->lease,
        .source = {.ctx = e, .open = open_output, .forget = forget_opening},
        .judge = e->witness ? bh_witness_judge : NULL,
        .judge_ctx = e->witness,
        .mask = e->mask,
    };
    e->collect = bh_collect_start(&spec, on_collected, e);
}

/* --- commands --- */

static char *log_path(const struct bh_execution *e)
{
    return bh_asprintf("%s/logs/%s.log", e->run->dir, e->lease.instance.s);
}

static void account(struct bh_execution *e, const struct bh_exec_result *result)
{
    e->result.cpu_ms += result->cpu_ms;
    if (result->max_rss_bytes > e->result.max_rss_bytes)
        e->result.max_rss_bytes = result->max_rss_bytes;
    if (e->own && result->end != BH_EXEC_BOX_LOST) { /* what lies in a shared box is nobody's alone */
        int64_t bytes = e->host->boxes->ops->disk_bytes(e->box);
        if (bytes > e->result.disk_bytes)
            e->result.disk_bytes = bytes;
    }
}

/* What the verdict on a command has to know of it. */
static struct bh_command_name name_of(const struct bh_execution *e, enum bh_phase phase, char *const *argv,
                                      int64_t timeout_ns)
{
    return (struct bh_command_name){
        .what = bh_phase_text(phase),
        .phase = phase,
        .argv0 = argv[0],
        .timeout_ns = timeout_ns,
        .limits = &e->limits,
        .held = e->held,
        .args_bytes = e->args_bytes,
        .box = e->use ? e->lease.box.id : NULL,
        .own = &e->lease.limits,
        .boxs = &e->of_box,
    };
}

bool bh_x_is_root(const struct bh_execution *e)
{
    return bh_streq(e->lease.user, "root");
}

/* As the kernel counts them: with their ends and the pointers to them. */
static size_t bytes_of(const char *const *texts)
{
    size_t bytes = 0;
    for (; *texts; texts++)
        bytes += strlen(*texts) + 1 + sizeof(*texts);
    return bytes;
}

int bh_x_command(struct bh_execution *e, const struct bh_exec_spec *exec, int64_t timeout_ns, bh_command_done_fn fn,
                 struct bh_err **err)
{
    struct bh_command_spec spec = {
        .loop = e->host->loop,
        .box = e->box,
        .capture = e->capture,
        .exec = *exec,
        .timeout_ns = timeout_ns,
        .grace_ns = e->lease.grace_ns,
        .late = e->witness ? bh_witness_late : NULL,
        .late_arg = e->witness,
    };
    spec.exec.limits = bh_exec_limits(&e->lease);
    spec.exec.tag = e->witness ? bh_witness_begin(e->witness) : 0;
    e->args_bytes = bytes_of(exec->argv) + bytes_of(exec->env);
    if (e->result.started.us == 0)
        e->result.started = bh_wall_now();
    return bh_command_start(&spec, fn, e, &e->command, err);
}

static void blame(struct bh_execution *e, const struct bh_command_end *end, struct bh_verdict *verdict)
{
    BH_CLEANUP_FREE char *log = log_path(e);
    const struct bh_witness_end how = {.end = end, .own = &e->lease.limits, .of_box = &e->of_box, .log = log};
    bh_witness_blame(e->witness, &how, verdict);
}

bool bh_x_command_verdict(struct bh_execution *e, enum bh_phase phase, char *const *argv, int64_t timeout_ns,
                          const struct bh_command_end *end, struct bh_verdict *ret)
{
    const struct bh_command_name name = name_of(e, phase, argv, timeout_ns);
    account(e, &end->result);
    if (e->witness && phase == BH_PHASE_RUN)
        bh_witness_end(e->witness, &end->result);
    bool good = bh_verdict_of_command(ret, &name, end);
    if (e->witness && phase == BH_PHASE_RUN && !good)
        blame(e, end, ret);
    bh_command_free(BH_TAKE(e->command));
    return !bh_x_was_cut(e, end, ret) && good;
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
    bh_x_enter(e, BH_X_CLOSING, e->lease.check.n_argv > 0 ? "checking" : "collecting");
    e->closing = bh_box_call_barrier(e->box, on_closed, e);
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

static void on_box(struct bh_execution *e, struct bh_box *box)
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

static void on_shared_ready(void *arg, struct bh_box *box, const struct bh_verdict *bad)
{
    struct bh_execution *e = bh_x_check(arg);
    struct bh_verdict verdict;
    if (e->state == BH_X_ENDED)
        return;
    if (box) {
        on_box(e, box);
        return;
    }
    bh_verdict_copy(&verdict, bad);
    bh_x_end(e, &verdict);
}

static void on_created(void *arg, int code, const struct bh_err *err)
{
    struct bh_execution *e = bh_x_check(arg);
    if (e->state == BH_X_ENDED)
        return;
    if (code != 0 && bh_x_lost_server(e, code))
        return;
    if (code != 0)
        bh_x_end_for_host(e, "making the box", code, err);
    else
        on_box(e, bh_box_handle_box(e->own));
}

/* A command that ran has been answered before: here are only the states in between. */
static void on_lost(void *arg)
{
    struct bh_execution *e = bh_x_check(arg);
    struct bh_verdict verdict;
    if (e->state == BH_X_ENDED)
        return;
    bh_verdict_lost(&verdict, e->state >= BH_X_CLOSING ? "collecting" : "the wait for its turn");
    bh_collect_free(BH_TAKE(e->collect));
    bh_x_end(e, &verdict);
}

/* What is frozen, or judged as it was left, must lie on the disk. */
static bool is_disposable(const struct bh_execution *e)
{
    return e->lease.kind == BH_LEASE_RUN && e->lease.check.n_argv == 0 && e->lease.keep == BH_LEASE_KEEP_NEVER;
}

/* What wrote to /usr is over where a box stands on snapshots: an agent sees it, and only root has more to write. */
static bool writes_usr(const struct bh_execution *e)
{
    bool later = e->lease.kind == BH_LEASE_RUN && e->lease.box.n_snapshots > 0;
    return e->lease.box.writable_usr && (!later || bh_x_is_root(e));
}

void bh_x_enter_own_box(struct bh_execution *e)
{
    static const struct bh_box_events events = {on_created, on_lost};
    bh_x_find_server(e);
    const struct bh_box_spec spec = {
        .run_dir = e->run->dir,
        .key = e->lease.box.key,
        .base_layers = bh_exec_texts(e->arena, e->lease.box.base_layers, e->lease.box.n_base_layers),
        .n_base_layers = e->lease.box.n_base_layers,
        .agent_uid = (uint32_t)e->lease.box.agent_uid,
        .agent_gid = (uint32_t)e->lease.box.agent_gid,
        .limits = bh_box_limits(&e->lease.box),
        .best_effort = e->lease.box.best_effort,
        .disposable = is_disposable(e),
        .layers = bh_exec_texts(e->arena, e->lease.box.layers, e->lease.box.n_layers),
        .n_layers = e->lease.box.n_layers,
        .snapshots = bh_exec_texts(e->arena, e->lease.box.snapshots, e->lease.box.n_snapshots),
        .n_snapshots = e->lease.box.n_snapshots,
        .writable_usr = writes_usr(e),
        .shared = false,
        .host_network = bh_ways_on_host(&e->lease, bh_x_phases(&e->lease)),
        .warm = bh_x_may_be_warm(e),
        .beneath = e->server ? bh_warm_server_exec(e->server) : NULL,
    };
    e->own = bh_box_handle_new(e->host->boxes, &spec, &events, e);
}

/* Where nobody waits any more its folder is nobody's. */
static void on_departed(void *arg, int code, const struct bh_err *err)
{
    struct bh_departure *d = arg;
    struct bh_execution *e = d->execution;
    if (e) {
        e->leaving = NULL;
        e->left = true;
        d->fn(e, code, err);
    } else {
        (void)!bh_box_folder_remove(d->run_dir, d->key, false, NULL);
    }
    bh_free(d->run_dir);
    bh_free(d->key);
    bh_free(d);
}

void bh_x_leave_own(struct bh_execution *e, bh_box_done_fn fn)
{
    struct bh_departure *d = bh_alloc(sizeof(*d));
    (void)bh_box_folder_undecided(e->run->dir, e->lease.box.key, true);
    *d = (struct bh_departure){
        .execution = e, .fn = fn, .run_dir = bh_strdup(e->run->dir), .key = bh_strdup(e->lease.box.key)};
    e->box = NULL;
    e->leaving = d;
    BH_ASSERT(bh_box_handle_drop(BH_TAKE(e->own), true, on_departed, d)); /* it was there */
}

static void enter_shared_box(struct bh_execution *e)
{
    static const struct bh_shared_events events = {on_shared_ready, on_lost};
    e->use = bh_shared_enter(e->host->shared, e->run, &e->lease, e->capture, &events, e);
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
    BH_CLEANUP_FREE char *path = log_path(e);
    BH_CLEANUP_FREE char *of_gate = bh_asprintf("%s/logs/%s.gate.log", e->run->dir, e->lease.instance.s);
    e->capture = open_log(e, path, e->lease.tainted);
    e->gate_log = e->lease.n_gates > 0 ? open_log(e, of_gate, true) : NULL;
}

void bh_x_begin(struct bh_execution *e)
{
    if (e->lease.box.shared) {
        bh_x_enter(e, BH_X_BOOTING, "booting");
        enter_shared_box(e);
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
    leave_box(e);
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
