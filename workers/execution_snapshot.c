/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an execution starts from, and executions that make it.
 *
 * An attempt starts from snapshots that were looked at in this run before, or are now: one that was changed is never
 * used, and the attempt fails by `host` with its name. A SETUP or PREPARE finds its snapshot under its key and has
 * nothing to do, or runs its command, ends its box and freezes what the box wrote:
 *
 *   FINDING --on_found--> (ENDED) or BOOTING … SETUP --on_made--> LEAVING --on_left--> FREEZING --on_frozen--> ENDED
 */
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "workers/exec_env.h"
#include "workers/execution_priv.h"

static bool is_setup(const struct bh_execution *e)
{
    return e->lease.kind == BH_LEASE_SETUP;
}

static struct bh_snapshot_spec spec_of(struct bh_execution *e, const char *key, char *const *below, size_t n)
{
    const struct bh_lease *l = &e->lease;
    return (struct bh_snapshot_spec){
        .key = key,
        .kind = is_setup(e) ? "setup" : "prepare",
        .run = l->run.s,
        .agent = l->agent,
        .base = l->box.base_digest ? l->box.base_digest : l->box.base,
        .below = bh_exec_texts(e->arena, below, n),
        .n_below = n,
        .owner = bh_snapshots_owner(e->host->snapshots),
    };
}

/* --- using them --- */

/* From now until its end nobody removes them. What is gone already is found out by looking. */
static void use(struct bh_execution *e, char *const *keys, size_t n)
{
    int store = bh_snapshots_store(e->host->snapshots, NULL);
    e->uses = bh_realloc_array(e->uses, e->n_uses + n, sizeof(*e->uses));
    for (size_t i = 0; i < n && store >= 0; i++) {
        int fd = bh_snapshot_use(store, keys[i]);
        if (fd >= 0)
            e->uses[e->n_uses++] = fd;
    }
}

void bh_x_drop_start(struct bh_execution *e)
{
    for (size_t i = 0; i < e->n_uses; i++)
        bh_close(e->uses[i]);
    bh_free(BH_TAKE(e->uses));
    e->n_uses = 0;
    bh_snapshot_wait_forget(BH_TAKE(e->wait));
}

static void boot(struct bh_execution *e)
{
    bh_x_enter(e, BH_X_BOOTING, "booting");
    bh_x_enter_own_box(e);
}

static void on_looked(void *arg, int code, const struct bh_snapshot *snapshot, const struct bh_err *err)
{
    struct bh_execution *e = bh_x_check(arg);
    struct bh_lease_box *box = &e->lease.box;
    e->job = NULL;
    if (code != 0) {
        bh_x_end_for_host(e, "starting from the prepared state", code, err);
        return;
    }
    bh_snapshots_note_good(e->host->snapshots, e->lease.run.s, box->snapshots, box->n_snapshots);
    if (snapshot->digest)
        bh_snapshots_note_digest(e->host->snapshots, box->snapshots[0], snapshot->digest);
    boot(e);
}

static void find_stack(struct bh_execution *e)
{
    const struct bh_lease_box *box = &e->lease.box;
    if (box->n_snapshots == 0) {
        boot(e);
        return;
    }
    use(e, box->snapshots, box->n_snapshots);
    if (bh_snapshots_are_good(e->host->snapshots, e->lease.run.s, box->snapshots, box->n_snapshots)) {
        boot(e);
        return;
    }
    const struct bh_snapshot_spec spec = spec_of(e, box->snapshots[0], box->snapshots + 1, box->n_snapshots - 1);
    e->job = bh_snapshots_check(e->host->snapshots, e->host->helper, &spec, on_looked, e);
}

/* --- one that was made before --- */

static void take_stack(struct bh_execution *e, const struct bh_snapshot *s)
{
    struct bh_result *r = &e->result;
    r->snapshots = bh_calloc(s->n_stack, sizeof(*r->snapshots));
    for (size_t i = 0; i < s->n_stack; i++)
        r->snapshots[i] = bh_strdup(s->stack[i]);
    r->n_snapshots = s->n_stack;
    bh_snapshots_note_good(e->host->snapshots, e->lease.run.s, s->stack, s->n_stack);
    if (s->digest)
        bh_snapshots_note_digest(e->host->snapshots, s->key, s->digest);
    else
        bh_snapshots_forget_digest(e->host->snapshots, s->key);
    bh_snapshots_read(e->host->snapshots, s->key);
}

static void note_bad(struct bh_execution *e, const struct bh_err *err)
{
    bh_log(BH_LOG_WARN, "snapshot.bad", "key", e->lease.snapshot_key, "error", bh_err_message(err), NULL);
    e->note = bh_asprintf("%s: it was not used, and is made anew", bh_err_message(err));
}

static void on_found(void *arg, int code, const struct bh_snapshot *snapshot, const struct bh_err *err)
{
    struct bh_execution *e = bh_x_check(arg);
    struct bh_verdict verdict;
    e->job = NULL;
    if (code == 0) {
        use(e, snapshot->stack, snapshot->n_stack);
        take_stack(e, snapshot);
        e->result.snapshot_reused = true;
        bh_verdict_succeeded(&verdict);
        bh_x_end(e, &verdict);
        return;
    }
    if (code != -BH_E_NOT_FOUND)
        note_bad(e, err);
    find_stack(e);
}

void bh_x_find_start(struct bh_execution *e)
{
    const struct bh_lease_box *box = &e->lease.box;
    bh_x_enter(e, BH_X_FINDING, NULL);
    if (e->lease.kind == BH_LEASE_RUN) {
        find_stack(e);
        return;
    }
    if (bh_x_may_be_warm(e)) { /* what an earlier run has left on the disk holds no process */
        find_stack(e);
        return;
    }
    const struct bh_snapshot_spec spec = spec_of(e, e->lease.snapshot_key, box->snapshots, box->n_snapshots);
    e->job = bh_snapshots_find(e->host->snapshots, e->host->helper, &spec, on_found, e);
}

/* --- making one --- */

/* A fork server may have ended, or been asked to, while it was frozen. */
static void end_made(struct bh_execution *e)
{
    struct bh_verdict verdict;
    if (e->is_warm)
        bh_x_keep_server(e);
    bh_verdict_succeeded(&verdict);
    bh_x_end(e, &verdict);
}

static void on_frozen(void *arg, int code, const struct bh_snapshot *snapshot, const struct bh_err *err)
{
    struct bh_execution *e = bh_x_check(arg);
    e->job = NULL;
    e->left = false; /* the job has seen to it */
    if (code != 0) {
        bh_x_end_for_host(e, "freezing the prepared state", code, err);
        return;
    }
    take_stack(e, snapshot);
    end_made(e);
}

void bh_x_freeze(struct bh_execution *e)
{
    const struct bh_lease_box *box = &e->lease.box;
    bh_x_enter(e, BH_X_FREEZING, NULL);
    const struct bh_snapshot_order order = {
        .spec = spec_of(e, e->lease.snapshot_key, box->snapshots, box->n_snapshots),
        .run_dir = e->run->dir,
        .box = box->key,
        .warm = e->is_warm,
    };
    e->job = bh_snapshots_put(e->host->snapshots, e->host->helper, &order, on_frozen, e);
}

static void on_left(void *arg, int code, const struct bh_err *err)
{
    struct bh_execution *e = bh_x_check(arg);
    if (code != 0)
        bh_x_end_for_host(e, "ending the box to freeze it", code, err);
    else
        bh_x_freeze(e);
}

/* Every process that it left has been killed with it, so the box is quiet; it ends, and nothing writes to it any more.
 */
static void on_made(void *arg, const struct bh_command_end *end)
{
    struct bh_execution *e = bh_x_check(arg);
    const struct bh_lease *l = &e->lease;
    struct bh_verdict verdict;
    bool setup = is_setup(e);
    if (e->is_warm && !end->stopped) { /* nobody has forked it yet: they start from the disk then */
        e->server_ended = true;
        bh_command_free(BH_TAKE(e->command));
        return;
    }
    if (!bh_x_command_verdict(e, setup ? BH_PHASE_SETUP : BH_PHASE_PREPARE, setup ? l->setup : l->prepare,
                              setup ? l->setup_ns : l->prepare_ns, end, &verdict)) {
        bh_x_end(e, &verdict);
        return;
    }
    bh_verdict_fini(&verdict);
    bh_x_enter(e, BH_X_LEAVING, NULL);
    bh_x_leave_own(e, on_left);
}

/* What it may depend on is what its key was made of: no prompt, and inputs only for a preparation. The files come with
 * the first of the two. */
void bh_x_make(struct bh_execution *e)
{
    const struct bh_lease *l = &e->lease;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    bool setup = is_setup(e), root = setup || bh_x_is_root(e), first = l->box.n_snapshots == 0;
    bh_x_enter(e, BH_X_SETUP, "setup");
    struct bh_exec_spec exec = {
        .argv = bh_exec_texts(e->arena, setup ? l->setup : l->prepare, setup ? l->n_setup : l->n_prepare),
        .env = bh_x_env(e, e->arena, root),
        .cwd = l->workdir,
        .root = root,
        .host_network = bh_ways_on_host(l, bh_x_phases(l)),
        .stdin_fd = e->host->null_fd,
        .copies = first ? e->delivery.copies : NULL,
        .n_copies = first ? e->delivery.n_copies : 0,
        .inputs = setup ? NULL : e->delivery.inputs,
        .params = e->delivery.params,
        .needs = setup ? NULL : e->delivery.needs,
        .give_to_agent = setup && !bh_x_is_root(e),
    };
    int rc = bh_x_may_be_warm(e) ? bh_x_warm_command(e, &exec, &err) : 0;
    if (rc == 0)
        rc = bh_x_command(e, &exec, setup ? l->setup_ns : l->prepare_ns, on_made, &err);
    if (rc != 0)
        bh_x_end_for_host(e, setup ? "starting setup" : "starting prepare", rc, err);
}

/* --- the digest --- */

static void on_digest(void *arg)
{
    struct bh_execution *e = bh_x_check(arg);
    e->wait = NULL;
    bh_x_conclude_soon(e);
}

static const char *key_of(const struct bh_execution *e)
{
    if (e->lease.kind != BH_LEASE_RUN)
        return e->result.n_snapshots > 0 ? e->result.snapshots[0] : NULL;
    return e->lease.box.n_snapshots > 0 && e->in_box_since.ns != 0 ? e->lease.box.snapshots[0] : NULL;
}

/* Attempts have time to wait for it at their end; whoever makes a snapshot does not (attempts are to begin), and nobody
 * waits who was told to end. */
bool bh_x_start_is_known(struct bh_execution *e)
{
    const char *key = key_of(e);
    if (!key || e->lease.kind != BH_LEASE_RUN || e->waited || e->verdict.outcome == BH_OUTCOME_CANCELLED ||
        bh_snapshots_digest(e->host->snapshots, key))
        return true;
    e->waited = true;
    e->wait = bh_snapshots_wait(e->host->snapshots, key, on_digest, e);
    return !e->wait;
}

void bh_x_fill_start(const struct bh_execution *e, struct bh_result *r)
{
    const char *key = key_of(e);
    if (key)
        r->snapshot = bh_strdup(bh_snapshots_digest(e->host->snapshots, key));
}
