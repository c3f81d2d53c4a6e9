/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an execution takes place: a box of its own, which is let go with its folder kept as the lease says, or its stay
 * in a shared one, which is left. The loss of a box that no command has told of ends the execution here.
 */
#include "base/mem.h"
#include "workers/box/folder.h"
#include "workers/exec_env.h"
#include "workers/execution_priv.h"
#include "workers/lease_limits.h"
#include "workers/witness.h"

/* --- into it --- */

static void on_shared_ready(void *arg, struct bh_box *box, const struct bh_verdict *bad)
{
    struct bh_execution *e = bh_x_check(arg);
    struct bh_verdict verdict;
    if (e->state == BH_X_ENDED)
        return;
    if (box) {
        bh_x_in_box(e, box);
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
        bh_x_in_box(e, bh_box_handle_box(e->own));
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

void bh_x_enter_shared_box(struct bh_execution *e)
{
    static const struct bh_shared_events events = {on_shared_ready, on_lost};
    e->use = bh_shared_enter(e->host->shared, e->run, &e->lease, e->capture, &events, e);
}

/* --- out of it --- */

bool bh_x_is_kept(const struct bh_execution *e)
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

void bh_x_leave_box(struct bh_execution *e)
{
    if (e->leaving)
        BH_TAKE(e->leaving)->execution = NULL;
    if (e->left && bh_x_is_kept(e))
        (void)bh_box_folder_undecided(e->run->dir, e->lease.box.key, false);
    else if (e->left)
        remove_left(e);
    if (e->own)
        (void)bh_box_handle_drop(BH_TAKE(e->own), bh_x_is_kept(e), NULL, NULL);
    if (!e->use)
        return;
    if (e->box)
        bh_deliver_remove(e->run, &e->lease);
    bh_witness_free(BH_TAKE(e->witness));
    bh_shared_leave(BH_TAKE(e->use));
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
