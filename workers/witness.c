/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/witness.h"

#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "workers/evidence.h"

#define STEP_NS (50 * BH_NS_PER_MS) /* a wall clock that lost more than this, and a hundredth, was set back */

struct bh_witness {
    struct bh_ledger *ledger;
    struct bh_box *box;
    const struct bh_lease *lease;
    uint64_t tag;          /* 0: nothing of it has run */
    uint64_t began, ended; /* moments of the box */
    struct bh_wall began_at, ended_at;
    struct bh_mono began_mono;
    char *evidence;
};

static const struct bh_box_ops *ops_of(struct bh_box *box)
{
    return ((struct bh_box_head *)(void *)box)->boxes->ops;
}

static uint64_t moment(const struct bh_witness *w)
{
    const struct bh_box_ops *ops = ops_of(w->box);
    return ops->moment ? ops->moment(w->box) : 0;
}

struct bh_witness *bh_witness_new(struct bh_ledger *ledger, struct bh_box *box, const struct bh_lease *lease)
{
    struct bh_witness *w = bh_alloc(sizeof(*w));
    *w = (struct bh_witness){.ledger = ledger, .box = box, .lease = lease};
    return w;
}

void bh_witness_free(struct bh_witness *w)
{
    if (!w)
        return;
    if (w->tag != 0)
        bh_ledger_close(w->ledger, w->tag);
    bh_free(w->evidence);
    bh_free(w);
}

uint64_t bh_witness_begin(struct bh_witness *w)
{
    if (w->tag == 0)
        w->tag = bh_ledger_begin(w->ledger, w->lease);
    w->began = moment(w);
    w->began_at = bh_wall_now();
    w->began_mono = bh_mono_now();
    return w->tag;
}

void bh_witness_end(struct bh_witness *w, const struct bh_exec_result *result)
{
    w->ended = moment(w);
    w->ended_at = result->ended.us > 0 ? result->ended : bh_wall_now();
    bh_ledger_end(w->ledger, w->tag, w->ended_at, result->cpu_ms, result->max_rss_bytes);
}

char *bh_witness_take(struct bh_witness *w)
{
    return w ? BH_TAKE(w->evidence) : NULL;
}

/* --- outputs --- */

/* Times of files are taken from the wall clock: after it was set back they say nothing. */
static bool clock_was_set_back(const struct bh_witness *w)
{
    int64_t wall = (bh_wall_now().us - w->began_at.us) * 1000, mono = bh_mono_now().ns - w->began_mono.ns;
    return wall < mono - mono / 100 - STEP_NS;
}

/* No process can choose when its file was changed. */
static bool changed_after_end(const struct bh_witness *w, const struct bh_collect_item *item)
{
    int64_t ns = (int64_t)item->changed.tv_sec * BH_NS_PER_S + item->changed.tv_nsec;
    return ns > (w->ended_at.us + 1) * 1000 && !clock_was_set_back(w);
}

static enum bh_collision_how how_of(const struct bh_witness *w, const struct bh_collect_item *item)
{
    if (item->vanished)
        return BH_COLLISION_VANISHED;
    if (item->while_copied)
        return BH_COLLISION_WHILE_COPIED;
    if (item->since_seal || changed_after_end(w, item))
        return BH_COLLISION_AFTER_END;
    return item->held ? BH_COLLISION_HELD : BH_COLLISION_NONE;
}

/* Who is among those that were there and, as the kernel tells, wrote since the moment. `opened` counts, too, where it
 * is known that somebody did. */
static void add_writers(const struct bh_witness *w, uint64_t since, const struct bh_collect_item *item, bool opened,
                        struct bh_collision *c)
{
    const struct bh_box_ops *ops = ops_of(w->box);
    struct bh_box_writers found;
    BH_CLEANUP_FREE char *path = bh_asprintf("/workspace/%s", item->path);
    if (!ops->writers || !ops->writers(w->box, since, item->inode, path, &found))
        return;
    for (size_t i = 0; i < found.n; i++) {
        for (size_t k = 0; k < c->n_beside; k++) {
            if (c->beside[k]->tag == found.of[i].tag && (found.of[i].wrote || opened))
                c->writers[c->n_writers++] = (struct bh_collision_writer){c->beside[k], found.of[i].at};
        }
    }
}

static void find_writers(const struct bh_witness *w, const struct bh_collect_item *item, struct bh_collision *c)
{
    if (c->how != BH_COLLISION_NONE)
        add_writers(w, w->ended, item, false, c);
    if (c->n_writers == 0)
        add_writers(w, w->began, item, false, c);
    if (c->n_writers > 0 && c->how == BH_COLLISION_NONE)
        c->how = BH_COLLISION_TWO_WRITERS;
    if (c->n_writers == 0 && c->how != BH_COLLISION_NONE)
        add_writers(w, w->began, item, true, c);
}

bool bh_witness_judge(void *ctx, const struct bh_collect_item *item, struct bh_verdict *ret)
{
    struct bh_witness *w = ctx;
    struct bh_collision c = {
        .item = item, .box = w->lease->box.id, .owner = bh_ledger_find(w->ledger, w->tag), .how = how_of(w, item)};
    BH_ASSERT(c.owner);
    c.n_beside = bh_ledger_beside(w->ledger, w->tag, w->began_mono, c.beside);
    find_writers(w, item, &c);
    bool by_time = c.how == BH_COLLISION_AFTER_END && !item->since_seal;
    if (c.how == BH_COLLISION_NONE || (by_time && c.n_beside == 0))
        return true;
    BH_CLEANUP_FREE char *text = bh_collision_text(&c);
    bh_verdict_failed(ret, BH_REASON_COLLISION, "%s", text);
    bh_free(w->evidence);
    w->evidence = bh_collision_json(&c);
    return false;
}
