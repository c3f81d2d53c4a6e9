/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs in the snapshot store (snapshots.h): everything that a job needs is its own. */
#include <fcntl.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "workers/box/folder.h"
#include "workers/snapshots.h"

enum what { FIND, PUT, CHECK };

struct work {
    enum what what;
    struct bh_arena *arena;
    struct bh_snapshot_order order; /* in the arena */
    int store;                      /* a copy */
    struct bh_snapshot found;
    int rc;
    struct bh_err *err;
};

struct bh_snapshot_job {
    struct bh_job *job;
    bh_snapshot_done_fn fn;
    void *arg;
};

static int put(struct work *w)
{
    const struct bh_snapshot_order *o = &w->order;
    BH_CLEANUP_FREE char *boxes_path = bh_path_join(o->run_dir, "boxes");
    BH_CLEANUP_FREE char *upper = bh_asprintf("%s/upper", o->box);
    BH_CLEANUP_FD int boxes = open(boxes_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (boxes < 0)
        return bh_err_set(&w->err, BH_E_IO, errno, "cannot open '%s'", boxes_path);
    int rc = o->warm ? bh_snapshot_retire(w->store, o->spec.key, &w->err) : 0;
    if (rc == 0)
        rc = bh_snapshot_put(boxes, upper, w->store, &o->spec, &w->found, &w->err);
    if (!o->warm)
        (void)!bh_box_folder_remove(o->run_dir, o->box, false, NULL);
    return rc;
}

static int look(struct work *w)
{
    const struct bh_snapshot_spec *spec = &w->order.spec;
    BH_CLEANUP_FREE const char **stack = bh_calloc(spec->n_below + 1, sizeof(*stack));
    stack[0] = spec->key;
    for (size_t i = 0; i < spec->n_below; i++)
        stack[i + 1] = spec->below[i];
    return bh_snapshots_verify(w->store, stack, spec->n_below + 1, &w->found.digest, &w->err);
}

static void run_work(void *data)
{
    struct work *w = data;
    if (w->what == FIND)
        w->rc = bh_snapshot_find(w->store, &w->order.spec, &w->found, &w->err);
    else
        w->rc = w->what == PUT ? put(w) : look(w);
}

static void work_done(void *owner, void *data)
{
    const struct work *w = data;
    struct bh_snapshot_job job = *(struct bh_snapshot_job *)owner;
    bh_free(owner);
    job.fn(job.arg, w->rc, &w->found, w->err);
}

static void free_work(void *data)
{
    struct work *w = data;
    bh_snapshot_fini(&w->found);
    bh_err_free(w->err);
    bh_close(w->store);
    bh_arena_free(w->arena);
    bh_free(w);
}

static struct bh_snapshot_spec copy_spec(struct bh_arena *arena, const struct bh_snapshot_spec *spec)
{
    const char **below = bh_arena_alloc(arena, (spec->n_below + 1) * sizeof(*below));
    for (size_t i = 0; i < spec->n_below; i++)
        below[i] = bh_arena_strdup(arena, spec->below[i]);
    return (struct bh_snapshot_spec){
        .key = bh_arena_strdup(arena, spec->key),
        .kind = bh_arena_strdup(arena, spec->kind),
        .run = bh_arena_strdup(arena, spec->run),
        .agent = bh_arena_strdup(arena, spec->agent),
        .base = bh_arena_strdup(arena, spec->base),
        .below = below,
        .n_below = spec->n_below,
        .owner = spec->owner,
    };
}

/* A store that cannot be opened fails where the job runs. */
static struct bh_snapshot_job *submit(struct bh_snapshots *s, struct bh_helper *helper, enum what what,
                                      const struct bh_snapshot_order *order, bh_snapshot_done_fn fn, void *arg)
{
    static const struct bh_job_ops ops = {run_work, work_done, free_work};
    struct work *w = bh_alloc(sizeof(*w));
    int store = bh_snapshots_store(s, NULL);
    w->what = what;
    w->arena = bh_arena_new();
    w->order.spec = copy_spec(w->arena, &order->spec);
    w->order.run_dir = bh_arena_strdup(w->arena, order->run_dir);
    w->order.box = bh_arena_strdup(w->arena, order->box);
    w->order.warm = order->warm;
    w->store = store >= 0 ? fcntl(store, F_DUPFD_CLOEXEC, 3) : -1;
    struct bh_snapshot_job *job = bh_alloc(sizeof(*job));
    *job = (struct bh_snapshot_job){.fn = fn, .arg = arg};
    job->job = bh_helper_submit(helper, &ops, job, w);
    return job;
}

struct bh_snapshot_job *bh_snapshots_find(struct bh_snapshots *s, struct bh_helper *helper,
                                          const struct bh_snapshot_spec *spec, bh_snapshot_done_fn fn, void *arg)
{
    const struct bh_snapshot_order order = {.spec = *spec};
    return submit(s, helper, FIND, &order, fn, arg);
}

struct bh_snapshot_job *bh_snapshots_put(struct bh_snapshots *s, struct bh_helper *helper,
                                         const struct bh_snapshot_order *order, bh_snapshot_done_fn fn, void *arg)
{
    return submit(s, helper, PUT, order, fn, arg);
}

struct bh_snapshot_job *bh_snapshots_check(struct bh_snapshots *s, struct bh_helper *helper,
                                           const struct bh_snapshot_spec *spec, bh_snapshot_done_fn fn, void *arg)
{
    const struct bh_snapshot_order order = {.spec = *spec};
    return submit(s, helper, CHECK, &order, fn, arg);
}

void bh_snapshot_job_forget(struct bh_snapshot_job *job)
{
    if (!job)
        return;
    bh_job_forget(job->job);
    bh_free(job);
}
