/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking for what an earlier try left: the declared names as they are, and one walk of the output folder for each
 * glob. What cannot be opened or walked is no leftover: collecting judges it later.
 */
#include "workers/leftovers.h"

#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"
#include "workers/box_call.h"
#include "workers/output_job.h"

struct bh_leftovers {
    struct bh_box *box;
    struct bh_helper *helper;
    const struct bh_lease *lease;
    bh_leftovers_fn fn;
    void *arg;
    size_t next; /* in lease->outputs */
    struct bh_box_call *opening;
    struct bh_job *job;
    char **paths; /* NULL-terminated when they are given */
    size_t n_paths, cap_paths;
};

static void look_on(struct bh_leftovers *l);

static void add_path(struct bh_leftovers *l, char *path)
{
    *BH_PUSH(l->paths, l->n_paths, l->cap_paths) = path;
}

static void on_walked(void *owner, void *data)
{
    struct bh_leftovers *l = owner;
    const struct bh_walk *walk = &((struct bh_walk_job *)data)->walk;
    const struct bh_lease_output *o = &l->lease->outputs[l->next++];
    l->job = NULL;
    for (size_t i = 0; i < walk->len; i++) {
        if (!S_ISDIR(walk->entries[i].type) && bh_glob_match(o->glob, walk->entries[i].name))
            add_path(l, bh_asprintf("%s/%s", o->path, walk->entries[i].name));
    }
    look_on(l);
}

static void on_root(void *arg, int fd, int error)
{
    static const struct bh_job_ops ops = {bh_walk_job_run, on_walked, bh_walk_job_free};
    struct bh_leftovers *l = arg;
    (void)error;
    l->opening = NULL;
    if (fd >= 0) {
        l->job = bh_helper_submit(l->helper, &ops, l, bh_walk_job_new(fd));
        return;
    }
    l->next++;
    look_on(l);
}

/* The object may be gone afterwards. */
static void look_on(struct bh_leftovers *l)
{
    for (; l->next < l->lease->n_outputs; l->next++) {
        const struct bh_lease_output *o = &l->lease->outputs[l->next];
        if (o->glob) {
            l->opening = bh_box_call_open(l->box, ".", o->path, on_root, l);
            return;
        }
        add_path(l, bh_strdup(o->path));
    }
    add_path(l, NULL);
    l->fn(l->arg, (const char *const *)l->paths);
}

struct bh_leftovers *bh_leftovers_find(struct bh_box *box, struct bh_helper *helper, const struct bh_lease *lease,
                                       bh_leftovers_fn fn, void *arg)
{
    struct bh_leftovers *l = bh_alloc(sizeof(*l));
    bool has_glob = false;
    *l = (struct bh_leftovers){.box = box, .helper = helper, .lease = lease, .fn = fn, .arg = arg};
    for (size_t i = 0; i < lease->n_outputs; i++)
        has_glob = has_glob || lease->outputs[i].glob;
    BH_ASSERT(has_glob); /* without one there is nothing to look for, and no answer to wait for */
    look_on(l);
    return l;
}

void bh_leftovers_free(struct bh_leftovers *l)
{
    if (!l)
        return;
    bh_box_call_forget(l->opening);
    bh_job_forget(l->job);
    for (size_t i = 0; i < l->n_paths; i++)
        bh_free(l->paths[i]);
    bh_free(l->paths);
    bh_free(l);
}
