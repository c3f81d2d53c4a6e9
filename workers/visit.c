/* SPDX-License-Identifier: Apache-2.0 */
/* A person's command beside an agent: with all that is the agent's, and nothing that it does is the execution's. */
#include "workers/box_call.h"
#include "workers/execution_priv.h"
#include "workers/worker.h"

static const char *const *with_more(struct bh_arena *arena, const char *const *env, const char *more)
{
    size_t n = 0;
    while (env[n])
        n++;
    const char **list = bh_arena_alloc(arena, (n + 2) * sizeof(*list));
    for (size_t i = 0; i < n; i++)
        list[i] = env[i];
    list[n] = more;
    return list;
}

bool bh_execution_is_visible(const struct bh_execution *e)
{
    return e->box && e->command; /* before and after there is nobody to be looked at */
}

struct bh_box_call *bh_execution_visit(struct bh_execution *e, const struct bh_worker_visit *visit, bh_exec_done_fn fn,
                                       void *arg)
{
    const bool shared = e->lease.box.shared, root = bh_x_is_root(e);
    if (!bh_execution_is_visible(e) || e->lease.kind != BH_LEASE_RUN) /* a visitor's traces would be frozen too */
        return NULL;
    struct bh_arena *arena = bh_arena_new();
    const struct bh_exec_spec exec = {
        .argv = visit->argv,
        .env = with_more(arena, bh_x_env(e, arena, root), visit->more_env),
        .cwd = e->lease.workdir,
        .root = root,
        .terminal = visit->terminal,
        .beside = !shared,
        .stdin_fd = visit->stdio[0],
        .stdout_fd = visit->stdio[1],
        .stderr_fd = visit->stdio[2],
        .inputs = e->delivery.inputs,
        .prompt = shared ? e->delivery.prompt : NULL, /* in a box of its own they are files of the agent by now */
        .params = shared ? e->delivery.params : NULL,
        .needs = shared ? e->delivery.needs : NULL,
    };
    struct bh_box_call *call = bh_box_call_exec(e->box, &exec, fn, arg);
    bh_arena_free(arena);
    return call;
}
