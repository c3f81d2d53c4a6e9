/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a whole box, or of one exec of a shared box, where no control group holds it: weighed on a helper
 * thread while something runs, and where it is too much the largest process is killed. Never kills what is not below
 * the box's init.
 */
#include <stdio.h>

#include "base/mem.h"
#include "base/units.h"
#include "workers/disk/processes.h"
#include "workers/disk/watch_priv.h"

struct bh_disk_scale {
    struct bh_list link;
    struct bh_disk_watch *watch;
    int init;
    int inside; /* number of an exec's PID 1 in the box; 0: the whole box */
    int64_t init_started, limit;
    void (*over)(void *arg, const char *note);
    void *arg;
    struct bh_job *job;
};

struct weighing {
    int init, inside;
    int64_t init_started, limit, sum;
    bool killed;
};

static void run_weighing(void *data)
{
    struct weighing *w = data;
    struct bh_disk_processes p = {0};
    size_t largest = 0;
    int root = w->inside ? bh_disk_process_of_exec(w->init, w->inside) : w->init;
    if (root == 0)
        return;
    int64_t root_started = bh_disk_process_started(root);
    bh_disk_processes_find(root, &p);
    w->sum = bh_disk_processes_memory(&p, w->limit, &largest);
    /* Of a box or an exec that has died meanwhile the number may be anybody's. */
    bool is_it = bh_disk_process_started(w->init) == w->init_started && bh_disk_process_started(root) == root_started &&
                 (!w->inside || bh_disk_process_of_exec(w->init, w->inside) == root);
    if (w->sum > w->limit && largest < p.len && is_it) {
        bh_disk_process_kill(&p.items[largest]);
        w->killed = true;
    }
    bh_disk_processes_fini(&p);
}

static void weighing_done(void *owner, void *data)
{
    struct bh_disk_scale *s = owner;
    const struct weighing *w = data;
    char held[BH_UNIT_TEXT], limit[BH_UNIT_TEXT], note[200];
    s->job = NULL;
    if (!w->killed)
        return;
    (void)snprintf(note, sizeof(note), "the processes of the %s held %s of memory, and its limit is %s",
                   s->inside ? "agent" : "box", bh_format_size(w->sum, held), bh_format_size(w->limit, limit));
    s->over(s->arg, note);
}

static const struct bh_job_ops weighing_ops = {run_weighing, weighing_done, bh_free};

void bh_disk_scale_weigh(struct bh_disk_scale *s)
{
    struct bh_helper *helper = s ? bh_disk_watch_helper(s->watch, &s->watch->weigher) : NULL;
    if (!helper || s->job)
        return;
    struct weighing *w = bh_alloc(sizeof(*w));
    *w = (struct weighing){.init = s->init, .inside = s->inside, .init_started = s->init_started, .limit = s->limit};
    s->job = bh_helper_submit(helper, &weighing_ops, s, w);
}

void bh_disk_scales_weigh(struct bh_disk_watch *w)
{
    BH_LIST_FOREACH (it, tmp, &w->scales)
        bh_disk_scale_weigh(BH_CONTAINER(it, struct bh_disk_scale, link));
}

/* --- life --- */

struct bh_disk_scale *bh_disk_scale_make(struct bh_disk_watch *w, int init, int inside, int64_t limit,
                                         void (*over)(void *arg, const char *note), void *arg)
{
    struct bh_disk_scale *s = bh_alloc(sizeof(*s));
    *s = (struct bh_disk_scale){.watch = w,
                                .init = init,
                                .inside = inside,
                                .init_started = bh_disk_process_started(init),
                                .limit = limit,
                                .over = over,
                                .arg = arg};
    bh_list_init(&s->link);
    return s;
}

struct bh_disk_scale *bh_disk_scale_new(struct bh_disk_watch *w, int init, int inside, int64_t limit,
                                        void (*over)(void *arg, const char *note), void *arg)
{
    struct bh_disk_scale *s = bh_disk_scale_make(w, init, inside, limit, over, arg);
    bh_list_append(&w->scales, &s->link);
    return s;
}

void bh_disk_scale_free(struct bh_disk_scale *s)
{
    if (!s)
        return;
    bh_job_forget(s->job);
    bh_list_remove(&s->link);
    bh_free(s);
}
