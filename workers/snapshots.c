/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of snapshots, and the thread that reads them (snapshots.h). */
#include "workers/snapshots.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"

struct reading { /* one that is being read */
    struct bh_snapshots *owner;
    char *key, *digest;
    int store; /* a copy: the thread's */
    bool *stop;
    struct bh_err *err;
    int rc;
    struct bh_list waits;
};

struct bh_snapshot_wait {
    struct bh_list link;
    void (*fn)(void *arg);
    void *arg;
};

struct bh_snapshots {
    struct event_base *loop;
    struct bh_boxes *boxes;
    const char *home;
    int store;
    struct bh_helper *reader; /* NULL until it is needed */
    struct bh_map *good;      /* "RUN/KEY" */
    struct bh_map *digests;   /* text by key */
    struct bh_map *readings;  /* struct reading by key */
    bool stop;
};

struct bh_snapshots *bh_snapshots_new(struct event_base *loop, struct bh_boxes *boxes, const char *home)
{
    struct bh_snapshots *s = bh_alloc(sizeof(*s));
    *s = (struct bh_snapshots){
        .loop = loop,
        .boxes = boxes,
        .home = home,
        .store = -1,
        .good = bh_map_new(NULL),
        .digests = bh_map_new(bh_free),
        .readings = bh_map_new(NULL),
    };
    return s;
}

void bh_snapshots_free(struct bh_snapshots *s)
{
    if (!s)
        return;
    __atomic_store_n(&s->stop, true, __ATOMIC_RELAXED);
    if (s->reader)
        bh_helper_free(s->reader);
    bh_map_free(s->readings);
    bh_map_free(s->digests);
    bh_map_free(s->good);
    bh_close(s->store);
    bh_free(s);
}

int bh_snapshots_store(struct bh_snapshots *s, struct bh_err **err)
{
    if (s->store >= 0)
        return s->store;
    int fd = bh_snapshots_open(s->home, err);
    if (fd >= 0)
        s->store = fd;
    return fd;
}

uint32_t bh_snapshots_owner(const struct bh_snapshots *s)
{
    const struct bh_box_ops *ops = s->boxes->ops;
    return ops->owner ? ops->owner(s->boxes) : geteuid();
}

/* --- what was found good --- */

bool bh_snapshots_are_good(const struct bh_snapshots *s, const char *run, char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        BH_CLEANUP_FREE char *name = bh_asprintf("%s/%s", run, keys[i]);
        if (!bh_map_has(s->good, name))
            return false;
    }
    return true;
}

void bh_snapshots_note_good(struct bh_snapshots *s, const char *run, char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        BH_CLEANUP_FREE char *name = bh_asprintf("%s/%s", run, keys[i]);
        (void)bh_map_put(s->good, name, NULL);
    }
}

/* --- digests --- */

const char *bh_snapshots_digest(const struct bh_snapshots *s, const char *key)
{
    return bh_map_get(s->digests, key);
}

void bh_snapshots_note_digest(struct bh_snapshots *s, const char *key, const char *digest)
{
    (void)bh_map_put(s->digests, key, bh_strdup(digest));
}

void bh_snapshots_forget_digest(struct bh_snapshots *s, const char *key)
{
    (void)bh_map_del(s->digests, key);
}

static void run_reading(void *data)
{
    struct reading *r = data;
    r->rc = bh_snapshot_read(r->store, r->key, r->stop, &r->digest, &r->err);
}

static void free_reading(void *data)
{
    struct reading *r = data;
    BH_LIST_FOREACH (it, tmp, &r->waits) {
        struct bh_snapshot_wait *w = BH_CONTAINER(it, struct bh_snapshot_wait, link);
        bh_list_remove(&w->link);
        bh_free(w);
    }
    bh_close(r->store);
    bh_free(r->key);
    bh_free(r->digest);
    bh_err_free(r->err);
    bh_free(r);
}

/* Whoever is told may order another one, or forget his own wait. */
static void tell_waits(struct reading *r)
{
    while (!bh_list_empty(&r->waits)) {
        struct bh_snapshot_wait *w = BH_CONTAINER(r->waits.next, struct bh_snapshot_wait, link);
        bh_list_remove(&w->link);
        struct bh_snapshot_wait told = *w;
        bh_free(w);
        told.fn(told.arg);
    }
}

static void on_read(void *owner, void *data)
{
    struct bh_snapshots *s = owner;
    struct reading *r = data;
    (void)bh_map_del(s->readings, r->key);
    if (r->rc == 0)
        bh_snapshots_note_digest(s, r->key, r->digest);
    else
        bh_log(BH_LOG_WARN, "snapshot.read", "key", r->key, "error", bh_err_message(r->err), NULL);
    tell_waits(r);
}

static struct reading *start_reading(struct bh_snapshots *s, const char *key)
{
    static const struct bh_job_ops ops = {run_reading, on_read, free_reading};
    int store = bh_snapshots_store(s, NULL);
    if (store < 0 || (!s->reader && bh_helper_new(s->loop, &s->reader, NULL) != 0))
        return NULL;
    struct reading *r = bh_alloc(sizeof(*r));
    *r = (struct reading){
        .owner = s, .key = bh_strdup(key), .store = fcntl(store, F_DUPFD_CLOEXEC, 3), .stop = &s->stop};
    bh_list_init(&r->waits);
    bh_map_put(s->readings, key, r);
    (void)bh_helper_submit(s->reader, &ops, s, r);
    return r;
}

void bh_snapshots_read(struct bh_snapshots *s, const char *key)
{
    if (!bh_map_has(s->digests, key) && !bh_map_has(s->readings, key))
        (void)start_reading(s, key);
}

struct bh_snapshot_wait *bh_snapshots_wait(struct bh_snapshots *s, const char *key, void (*fn)(void *arg), void *arg)
{
    struct reading *r = bh_map_get(s->readings, key);
    if (!r)
        r = start_reading(s, key);
    if (!r)
        return NULL;
    struct bh_snapshot_wait *w = bh_alloc(sizeof(*w));
    *w = (struct bh_snapshot_wait){.fn = fn, .arg = arg};
    bh_list_init(&w->link);
    bh_list_append(&r->waits, &w->link);
    return w;
}

void bh_snapshot_wait_forget(struct bh_snapshot_wait *w)
{
    if (!w)
        return;
    bh_list_remove(&w->link);
    bh_free(w);
}
