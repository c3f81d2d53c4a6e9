/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/box/rack.h"

#include <event2/event.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/helper.h"

#define IDLE_S 2
#define LENT_MAX (BH_RACK_MAX / 2) /* others find folders without one */

/* --- jobs: they touch the disk and their own data, never the rack --- */

enum task { MAKE, EMPTY, REMOVE };

struct job {
    enum task task;
    char *run_dir, *name;
    struct bh_box_owner owner;
    bool writable_usr;
    int root; /* -1: none */
    struct bh_box_stamp stamp;
    bool there; /* a folder of that name is nobody's */
};

static void remove_folder(const char *run_dir, const char *name)
{
    struct bh_err *err = NULL;
    if (bh_box_folder_remove(run_dir, name, false, &err) != 0)
        bh_err_free(err); /* what is left is reclaimed by the next owner of the run */
}

/* Its last mount goes before anything is taken away from below it. */
static void let_go(struct job *job)
{
    bh_close(BH_TAKE_FD(job->root));
    job->stamp.taken = false;
}

static void run_job(void *data)
{
    struct job *job = data;
    struct bh_err *err = NULL;
    int rc = -1;
    if (job->task == EMPTY && job->root >= 0 && bh_box_folder_unused(job->run_dir, job->name, &job->owner, &job->stamp))
        return;
    let_go(job);
    if (job->task == MAKE)
        rc = bh_box_folder_make(job->run_dir, job->name, &job->owner, job->writable_usr, &err);
    else if (job->task == EMPTY)
        rc = bh_box_folder_empty(job->run_dir, job->name, &job->owner);
    job->there = rc == 0;
    bh_err_free(err);
    if (rc != 0 && job->task != MAKE)
        remove_folder(job->run_dir, job->name);
}

static void dispose_job(void *data)
{
    struct job *job = data;
    let_go(job);
    if (job->there) /* never run, or run and its rack has gone or is full */
        remove_folder(job->run_dir, job->name);
    bh_free(job->run_dir);
    bh_free(job->name);
    bh_free(job);
}

static size_t count_lent(const struct bh_rack *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_waiting; i++)
        n += r->waiting[i].root >= 0;
    return n;
}

static void job_done(void *owner, void *data)
{
    struct bh_rack *r = owner;
    struct job *job = data;
    if (job->task != REMOVE)
        r->n_ordered--;
    if (!job->there || r->n_waiting == BH_RACK_MAX || (job->root >= 0 && count_lent(r) == LENT_MAX))
        return;
    r->waiting[r->n_waiting++] = (struct bh_rack_place){BH_TAKE(job->name), BH_TAKE_FD(job->root), job->stamp};
    job->there = false;
}

static const struct bh_job_ops job_ops = {run_job, job_done, dispose_job};

/* Takes the place. */
static void submit(struct bh_rack *r, enum task task, struct bh_rack_place place)
{
    struct job *job = bh_alloc(sizeof(*job));
    *job = (struct job){.task = task, .run_dir = bh_strdup(r->run_dir), .name = place.name, .owner = r->owner};
    job->root = place.root;
    job->stamp = place.stamp;
    job->writable_usr = r->writable_usr;
    job->there = task != MAKE;
    if (task != REMOVE)
        r->n_ordered++;
    (void)bh_helper_submit(r->helper, &job_ops, r, job);
}

static char *new_name(struct bh_rack *r)
{
    return bh_asprintf(BH_BOX_GONE "%c%llu", r->writable_usr ? 'w' : 'p', (unsigned long long)++r->serial);
}

/* --- the rack --- */

static void wait_for_idle(struct bh_rack *r)
{
    const struct timeval soon = {.tv_sec = IDLE_S};
    if (r->in_use == 0 && r->idle)
        (void)event_add(r->idle, &soon);
}

static void on_idle(evutil_socket_t fd, short what, void *arg)
{
    struct bh_rack *r = arg;
    (void)fd;
    (void)what;
    while (r->n_waiting > 0)
        submit(r, REMOVE, r->waiting[--r->n_waiting]);
    if (r->n_ordered > 0) /* which come back on a slow disk after this */
        wait_for_idle(r);
}

struct bh_rack *bh_rack_new(struct event_base *loop, struct bh_helper *helper, const char *run_dir,
                            const struct bh_box_owner *owner, bool writable_usr)
{
    struct bh_rack *r = bh_alloc(sizeof(*r));
    *r = (struct bh_rack){.run_dir = bh_strdup(run_dir), .owner = *owner, .loop = loop, .helper = helper};
    r->writable_usr = writable_usr;
    bh_list_init(&r->link);
    r->idle = event_new(loop, -1, 0, on_idle, r);
    return r;
}

/* One more for each sixteen boxes: few boxes leave little to remove, many spread what they free over the disk. */
static void order(struct bh_rack *r)
{
    size_t want = 2 + r->taken / 16;
    if (want > BH_RACK_MAX)
        want = BH_RACK_MAX;
    if (r->n_waiting + r->n_ordered < BH_RACK_MAX && r->n_waiting - count_lent(r) + r->n_ordered < want)
        submit(r, MAKE, (struct bh_rack_place){.name = new_name(r), .root = -1});
}

static struct bh_rack_place take_at(struct bh_rack *r, size_t i)
{
    struct bh_rack_place place = r->waiting[i];
    r->n_waiting--;
    memmove(r->waiting + i, r->waiting + i + 1, (r->n_waiting - i) * sizeof(*r->waiting));
    return place;
}

/* The oldest that waits, while another stays behind: its last mounts are gone for certain. */
static struct bh_rack_place oldest(struct bh_rack *r)
{
    size_t i = 0;
    if (r->n_waiting - count_lent(r) < 2)
        return (struct bh_rack_place){.root = -1};
    while (r->waiting[i].root >= 0)
        i++;
    return take_at(r, i);
}

/* The latest with a root: what the kernel remembers of it is still near. */
static struct bh_rack_place latest_lent(struct bh_rack *r)
{
    for (size_t i = r->n_waiting; i > 0; i--) {
        if (r->waiting[i - 1].root >= 0)
            return take_at(r, i - 1);
    }
    return (struct bh_rack_place){.root = -1};
}

static int rename_or_make(struct bh_rack *r, const char *key, struct bh_rack_place *place, struct bh_err **err)
{
    if (place->name && bh_box_folder_rename(r->run_dir, place->name, key) == 0) {
        bh_free(BH_TAKE(place->name));
        return 0;
    }
    place->stamp.taken = false;
    if (place->name) /* somebody has the key, or the run's folder has gone */
        submit(r, REMOVE, (struct bh_rack_place){.name = BH_TAKE(place->name), .root = BH_TAKE_FD(place->root)});
    return bh_box_folder_make(r->run_dir, key, &r->owner, r->writable_usr, err);
}

int bh_rack_take(struct bh_rack *r, const char *key, int *ret_root, struct bh_box_stamp *ret_stamp, struct bh_err **err)
{
    struct bh_rack_place place = ret_root ? latest_lent(r) : (struct bh_rack_place){.root = -1};
    if (!place.name)
        place = oldest(r);
    int rc = rename_or_make(r, key, &place, err);
    if (ret_root) {
        *ret_root = place.root;
        *ret_stamp = place.stamp;
    }
    if (rc != 0)
        return rc;
    r->in_use++;
    if (r->idle)
        (void)event_del(r->idle);
    if (place.root >= 0)
        return 0;
    r->taken++;
    order(r);
    return 0;
}

void bh_rack_forget(struct bh_rack *r)
{
    r->in_use--;
    wait_for_idle(r);
}

int bh_rack_put(struct bh_rack *r, const char *key, int root, const struct bh_box_stamp *stamp)
{
    BH_CLEANUP_FREE char *name = new_name(r);
    if (bh_box_folder_rename(r->run_dir, key, name) < 0)
        return -1;
    bool enough = r->n_waiting + r->n_ordered >= BH_RACK_MAX;
    submit(r, enough ? REMOVE : EMPTY, (struct bh_rack_place){BH_TAKE(name), root, *stamp});
    bh_rack_forget(r);
    return 0;
}

void bh_rack_free(struct bh_rack *r)
{
    if (r->idle)
        event_free(r->idle);
    while (r->n_waiting > 0) {
        struct bh_rack_place place = r->waiting[--r->n_waiting];
        bh_close(place.root);
        remove_folder(r->run_dir, place.name);
        bh_free(place.name);
    }
    bh_list_remove(&r->link);
    bh_free(r->run_dir);
    bh_free(r);
}
