/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check (judge.h):
 *
 *   BOOTING --on_created--> CHECKING --on_checked--> [QUIET --on_quiet--> SCORING --on_score-->] ENDED --conclude--> fn
 *
 * From every state there is end_with() to ENDED. A check that exits with anything but 0, or is ended by a signal, or
 * cannot start for what lies in its box, is the verdict `check`; limits and time keep their own reasons.
 */
#include "workers/judge.h"

#include <event2/event.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "workers/box_call.h"
#include "workers/deliver.h"
#include "workers/exec_env.h"
#include "workers/lease_limits.h"

#define MAGIC 0x6a756467u

enum state { BOOTING, CHECKING, QUIET, SCORING, ENDED };

struct bh_judge {
    unsigned magic;
    enum state state;
    struct bh_judge_spec spec;
    bh_judge_fn fn;
    void *arg;
    struct bh_arena *arena;
    char *key;
    struct bh_box_handle *box;
    struct bh_command *command;
    struct bh_ways *ways; /* what its box may reach; NULL: nothing */
    struct bh_box_call *closing;
    struct bh_score_read *scoring;
    struct bh_limits limits;
    struct bh_enforced held;
    struct bh_judge_end end;
    struct event *later;
};

static struct bh_judge *check(void *arg)
{
    struct bh_judge *j = arg;
    BH_ASSERT(j->magic == MAGIC);
    return j;
}

static void on_ways_gone(void *arg)
{
    event_active(check(arg)->later, EV_TIMEOUT, 0);
}

/* Takes the verdict. */
static void end_with(struct bh_judge *j, struct bh_verdict *verdict)
{
    j->end.verdict = *verdict;
    *verdict = (struct bh_verdict){0};
    j->state = ENDED;
    bh_command_free(BH_TAKE(j->command));
    bh_box_call_forget(BH_TAKE(j->closing));
    bh_score_forget(BH_TAKE(j->scoring));
    if (j->ways)
        bh_ways_close(j->ways, on_ways_gone, j);
    else
        event_active(j->later, EV_TIMEOUT, 0);
}

static void end_for_host(struct bh_judge *j, const char *while_what, int code, const struct bh_err *err)
{
    struct bh_verdict verdict;
    bh_verdict_host(&verdict, while_what, code, err);
    end_with(j, &verdict);
}

static void conclude(evutil_socket_t fd, short what, void *arg)
{
    struct bh_judge *j = check(arg);
    (void)fd;
    (void)what;
    if (j->box)
        (void)bh_box_handle_drop(BH_TAKE(j->box), false, NULL, NULL);
    j->fn(j->arg, &j->end);
}

/* --- the score --- */

static void on_score(void *arg, struct bh_score *score)
{
    struct bh_judge *j = check(arg);
    struct bh_verdict verdict;
    j->scoring = NULL;
    j->end.score = *score;
    *score = (struct bh_score){0};
    bh_verdict_succeeded(&verdict);
    end_with(j, &verdict);
}

static void on_quiet(void *arg, int code, const struct bh_err *err)
{
    struct bh_judge *j = check(arg);
    j->closing = NULL;
    if (code != 0) {
        end_for_host(j, "closing the box of the check", code, err);
        return;
    }
    j->state = SCORING;
    j->scoring = bh_score_read(bh_box_handle_box(j->box), j->spec.lease->check.score, on_score, j);
}

/* --- the command --- */

/* Its own end is the verdict on the attempt. */
static void make_verdict(struct bh_verdict *v)
{
    if (v->reason == BH_REASON_EXIT || v->reason == BH_REASON_SIGNAL)
        v->reason = BH_REASON_CHECK;
}

static struct bh_command_name name_of(const struct bh_judge *j)
{
    const struct bh_lease *lease = j->spec.lease;
    return (struct bh_command_name){
        .what = bh_phase_text(BH_PHASE_CHECK),
        .phase = BH_PHASE_CHECK,
        .argv0 = lease->check.argv[0],
        .timeout_ns = lease->check_ns,
        .limits = &j->limits,
        .held = j->held,
        .own = &lease->limits,
        .boxs = &j->limits,
    };
}

static void on_checked(void *arg, const struct bh_command_end *end)
{
    struct bh_judge *j = check(arg);
    struct bh_verdict verdict;
    const struct bh_command_name name = name_of(j);
    j->end.cpu_ms = end->result.cpu_ms;
    j->end.max_rss_bytes = end->result.max_rss_bytes;
    bool good = bh_verdict_of_command(&verdict, &name, end);
    bh_command_free(BH_TAKE(j->command));
    make_verdict(&verdict);
    if (!good || !j->spec.lease->check.score) {
        end_with(j, &verdict);
        return;
    }
    bh_verdict_fini(&verdict);
    j->state = QUIET;
    j->closing = bh_box_call_barrier(bh_box_handle_box(j->box), on_quiet, j);
}

/* In a fresh box the inputs are what the attempt made. */
static struct bh_lease_file *outputs_as_inputs(struct bh_judge *j)
{
    struct bh_lease_file *files = bh_arena_alloc(j->arena, (j->spec.n_outputs + 1) * sizeof(*files));
    for (size_t i = 0; i < j->spec.n_outputs; i++) {
        const struct bh_result_output *o = &j->spec.outputs[i];
        files[i] = (struct bh_lease_file){.path = o->name, .name = o->name, .object = o->object};
    }
    return files;
}

/* What the check finds: its own files, the parameters, and no prompt. */
static int deliver(struct bh_judge *j, struct bh_delivery *ret, struct bh_err **err)
{
    struct bh_lease view = *j->spec.lease;
    view.box.key = j->key;
    view.box.shared = false;
    view.files = view.check.files;
    view.n_files = view.check.n_files;
    view.prompt = NULL;
    if (view.check.fresh) {
        view.inputs = outputs_as_inputs(j);
        view.n_inputs = j->spec.n_outputs;
    }
    return bh_deliver_lease(j->spec.run, &view, j->arena, ret, err);
}

static const char *const *empty_first(struct bh_judge *j)
{
    const char **paths = bh_arena_alloc(j->arena, 2 * sizeof(*paths));
    paths[0] = j->spec.lease->check.score;
    return paths[0] ? paths : NULL;
}

static int start_check(struct bh_judge *j, struct bh_err **err)
{
    const struct bh_lease *lease = j->spec.lease;
    struct bh_delivery delivery = {0};
    bool root = bh_streq(lease->user, "root");
    int rc = deliver(j, &delivery, err);
    if (rc != 0)
        return rc;
    const char *const *env = bh_exec_env_of_check(j->arena, lease, root);
    const struct bh_command_spec spec = {
        .loop = j->spec.host->loop,
        .box = bh_box_handle_box(j->box),
        .capture = j->spec.capture,
        .exec =
            {
                .argv = bh_exec_texts(j->arena, lease->check.argv, lease->check.n_argv),
                .env = j->ways ? bh_ways_env(j->ways, j->arena, env) : env,
                .cwd = lease->workdir,
                .root = root,
                .host_network = bh_ways_on_host(lease, BH_WAYS(BH_NET_CHECK)),
                .stdin_fd = j->spec.host->null_fd,
                .copies = delivery.copies,
                .n_copies = delivery.n_copies,
                .replace = true,
                .restore = !lease->check.fresh,
                .inputs = delivery.inputs,
                .params = delivery.params,
                .needs = delivery.needs,
                .empty_first = empty_first(j),
                .limits = bh_exec_limits(lease),
            },
        .timeout_ns = lease->check_ns,
        .grace_ns = lease->grace_ns,
    };
    return bh_command_start(&spec, on_checked, j, &j->command, err);
}

static void begin_check(struct bh_judge *j)
{
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    int rc = start_check(j, &err);
    if (rc != 0)
        end_for_host(j, "starting check", rc, err);
}

/* --- what it may reach --- */

static void on_ways_ready(void *arg, int code, const struct bh_err *err)
{
    struct bh_judge *j = check(arg);
    if (code != 0)
        end_for_host(j, "opening what the box of the check may reach", code, err);
    else
        begin_check(j);
}

static void on_ways_broken(void *arg, bool budget BH_UNUSED, const char *why)
{
    struct bh_judge *j = check(arg);
    struct bh_verdict verdict;
    if (j->state == ENDED)
        return;
    bh_verdict_failed(&verdict, BH_REASON_HOST, "%s", why);
    end_with(j, &verdict);
}

static void open_ways(struct bh_judge *j)
{
    const struct bh_ways_spec spec = {
        .host = j->spec.host->ways,
        .lease = j->spec.lease,
        .box = bh_box_handle_box(j->box),
        .phases = BH_WAYS(BH_NET_CHECK),
        .broken = on_ways_broken,
        .arg = j,
    };
    j->ways = bh_ways_new(&spec);
    bh_ways_enter(j->ways, BH_NET_CHECK, on_ways_ready, j);
}

static void on_created(void *arg, int code, const struct bh_err *error)
{
    struct bh_judge *j = check(arg);
    if (j->state == ENDED)
        return;
    if (code != 0) {
        end_for_host(j, "making the box of the check", code, error);
        return;
    }
    const struct bh_limits own = bh_exec_limits(j->spec.lease);
    j->held = j->spec.host->boxes->ops->enforced(bh_box_handle_box(j->box), &own);
    j->state = CHECKING;
    if (bh_ways_needed(j->spec.lease, BH_WAYS(BH_NET_CHECK)))
        open_ways(j);
    else
        begin_check(j);
}

/* A command that ran has been answered before. */
static void on_lost(void *arg)
{
    struct bh_judge *j = check(arg);
    struct bh_verdict verdict;
    if (j->state == ENDED)
        return;
    bh_verdict_lost(&verdict, "check");
    end_with(j, &verdict);
}

/* --- the box --- */

static void make_box(struct bh_judge *j)
{
    static const struct bh_box_events events = {on_created, on_lost};
    const struct bh_lease_box *box = &j->spec.lease->box;
    const struct bh_box_spec spec = {
        .run_dir = j->spec.run->dir,
        .key = j->key,
        .base_layers = bh_exec_texts(j->arena, box->base_layers, box->n_base_layers),
        .n_base_layers = box->n_base_layers,
        .agent_uid = (uint32_t)box->agent_uid,
        .agent_gid = (uint32_t)box->agent_gid,
        .limits = j->limits,
        .best_effort = box->best_effort,
        .disposable = true,
        .host_network = bh_ways_on_host(j->spec.lease, BH_WAYS(BH_NET_CHECK)),
        .layers = bh_exec_texts(j->arena, box->layers, box->n_layers),
        .n_layers = box->n_layers,
        .snapshots = bh_exec_texts(j->arena, box->snapshots, box->n_snapshots),
        .n_snapshots = box->n_snapshots,
        .workspace_of = j->spec.lease->check.fresh ? NULL : box->key,
        .writable_usr = box->writable_usr && bh_streq(j->spec.lease->user, "root"),
    };
    j->box = bh_box_handle_new(j->spec.host->boxes, &spec, &events, j);
}

/* An attempt that took /workspace away, or put something else there, has left nothing that could be judged. */
static bool has_workspace(const struct bh_judge *j)
{
    struct stat st;
    BH_CLEANUP_FREE char *path = bh_asprintf("boxes/%s/upper/root/workspace", j->spec.lease->box.key);
    if (j->spec.lease->check.fresh || fstatat(j->spec.run->dirfd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return true;
    return S_ISDIR(st.st_mode);
}

struct bh_judge *bh_judge_start(const struct bh_judge_spec *spec, bh_judge_fn fn, void *arg)
{
    struct bh_judge *j = bh_alloc(sizeof(*j));
    *j = (struct bh_judge){.magic = MAGIC, .spec = *spec, .fn = fn, .arg = arg};
    j->arena = bh_arena_new();
    j->key = bh_asprintf("%s.check", spec->lease->box.key);
    j->limits = bh_box_limits(&spec->lease->box);
    j->later = evtimer_new(spec->host->loop, conclude, j);
    BH_ASSERT(j->later);
    if (has_workspace(j)) {
        make_box(j);
        return j;
    }
    struct bh_verdict verdict;
    bh_verdict_failed(&verdict, BH_REASON_CHECK, "there is nothing to check: the attempt left no /workspace");
    end_with(j, &verdict);
    return j;
}

void bh_judge_stop(struct bh_judge *j)
{
    struct bh_verdict verdict;
    if (j->state == ENDED)
        return;
    if (j->command) { /* its end comes as always */
        bh_command_stop(j->command);
        return;
    }
    bh_verdict_cancelled(&verdict);
    end_with(j, &verdict);
}

void bh_judge_free(struct bh_judge *j)
{
    if (!j)
        return;
    BH_ASSERT(j->magic == MAGIC);
    bh_command_free(j->command);
    bh_ways_free(j->ways);
    bh_box_call_forget(j->closing);
    bh_score_forget(j->scoring);
    if (j->box)
        (void)bh_box_handle_drop(j->box, false, NULL, NULL);
    event_free(j->later);
    bh_verdict_fini(&j->end.verdict);
    bh_score_fini(&j->end.score);
    bh_arena_free(j->arena);
    bh_free(j->key);
    j->magic = 0;
    bh_free(j);
}
