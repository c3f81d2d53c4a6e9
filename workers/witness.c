/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/witness.h"

#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "workers/evidence.h"
#include "workers/port_words.h"
#include "workers/wedge.h"

#define STEP_NS BH_NS_PER_MS /* a wall clock that lost more than this, and a hundredth, was set back */

struct bh_witness {
    struct bh_ledger *ledger;
    struct bh_box *box;
    const struct bh_lease *lease;
    uint64_t tag;          /* 0: nothing of it has run */
    uint64_t began, ended; /* moments of the box */
    struct bh_wall began_at, ended_at;
    struct bh_mono began_mono;
    struct bh_box_share late[BH_LEDGER_MAX]; /* when its time was over */
    size_t n_late;
    struct bh_mono late_at;
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
    bh_ledger_end(w->ledger, w->tag, w->ended_at, result);
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
    if (!ops->writers || !ops->writers(w->box, since, item->file, path, &found))
        return;
    for (size_t i = 0; i < found.n; i++) {
        for (size_t k = 0; k < c->n_beside; k++) {
            if (c->beside[k]->tag == found.of[i].tag && (found.of[i].wrote || opened))
                c->writers[c->n_writers++] = (struct bh_collision_writer){c->beside[k], found.of[i].at};
        }
    }
}

/* Also where nobody is told who writes: who has it open now can be looked up. */
static void add_holders(const struct bh_witness *w, const struct bh_collect_item *item, struct bh_collision *c)
{
    const struct bh_box_ops *ops = ops_of(w->box);
    uint64_t tags[BH_LEDGER_MAX];
    size_t n = ops->holders ? ops->holders(w->box, item->device, item->inode, tags, BH_LEDGER_MAX) : 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < c->n_beside && c->n_writers < BH_LEDGER_MAX; k++) {
            if (c->beside[k]->tag == tags[i])
                c->writers[c->n_writers++] = (struct bh_collision_writer){.who = c->beside[k]};
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
    if (c->n_writers == 0 && item->held)
        add_holders(w, item, c);
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

/* --- wedges --- */

static size_t census(const struct bh_witness *w, struct bh_box_share ret[static BH_LEDGER_MAX])
{
    const struct bh_box_ops *ops = ops_of(w->box);
    return ops->census ? ops->census(w->box, ret, BH_LEDGER_MAX) : 0;
}

void bh_witness_late(void *arg)
{
    struct bh_witness *w = arg;
    w->n_late = census(w, w->late);
    w->late_at = bh_mono_now();
}

static const struct bh_box_share *share_of(const struct bh_box_share *shares, size_t n, uint64_t tag)
{
    for (size_t i = 0; i < n; i++) {
        if (shares[i].tag == tag)
            return &shares[i];
    }
    return NULL;
}

/* Those that lived at a moment are judged by what they had had until then. */
static void add_row(struct bh_wedge *wedge, const struct bh_stay *who, const struct bh_box_share *lives,
                    struct bh_mono at)
{
    struct bh_mono until = lives || who->ended.us == 0 ? at : who->ended_mono;
    wedge->rows[wedge->n++] = (struct bh_wedge_row){
        .who = who,
        .share = lives ? *lives : who->share,
        .lives = lives != NULL,
        .elapsed_ms = (until.ns - who->began_mono.ns) / BH_NS_PER_MS,
    };
}

static void fill_rows(const struct bh_witness *w, struct bh_wedge *wedge, bool late)
{
    struct bh_box_share now[BH_LEDGER_MAX];
    const struct bh_stay *beside[BH_LEDGER_MAX];
    size_t n_now = late ? 0 : census(w, now);
    const struct bh_box_share *shares = late ? w->late : now;
    size_t n = late ? w->n_late : n_now, n_beside;
    struct bh_mono at = late ? w->late_at : bh_mono_now();
    add_row(wedge, bh_ledger_find(w->ledger, w->tag), late ? share_of(shares, n, w->tag) : NULL, at);
    n_beside = bh_ledger_beside(w->ledger, w->tag, w->began_mono, beside);
    for (size_t i = 0; i < n_beside; i++)
        add_row(wedge, beside[i], share_of(shares, n, beside[i]->tag), at);
}

static int64_t processors(const struct bh_limits *of_box)
{
    int64_t host = (int64_t)sysconf(_SC_NPROCESSORS_ONLN) * 1000, limit = of_box->of[BH_LIMIT_CPUS];
    return limit > 0 && limit < host ? limit : host;
}

static bool is_own(const struct bh_witness_end *how, enum bh_limit limit)
{
    int64_t own = how->own->of[limit], box = how->of_box->of[limit];
    return own > 0 && (box <= 0 || own <= box);
}

/* Which of the things that all share it may have met; false: none of them. */
static bool what_of(const struct bh_witness_end *how, const struct bh_verdict *v, struct bh_wedge *wedge)
{
    const struct bh_limits *l = how->of_box;
    switch (v->reason) {
    case BH_REASON_OOM:
        *wedge = (struct bh_wedge){.what = BH_WEDGE_MEMORY, .limit = l->of[BH_LIMIT_MEMORY]};
        return !is_own(how, BH_LIMIT_MEMORY);
    case BH_REASON_PIDS:
        *wedge = (struct bh_wedge){.what = BH_WEDGE_PROCESSES, .limit = l->of[BH_LIMIT_PIDS]};
        return !is_own(how, BH_LIMIT_PIDS);
    case BH_REASON_DISK_FULL:
        *wedge = (struct bh_wedge){.what = BH_WEDGE_DISK, .limit = l->of[BH_LIMIT_DISK]};
        return how->end->result.disk_full && !how->end->result.inodes;
    case BH_REASON_TIMEOUT:
        *wedge = (struct bh_wedge){.what = BH_WEDGE_SPIN, .limit = processors(l)};
        return true;
    case BH_REASON_EXIT:
        *wedge = (struct bh_wedge){.what = BH_WEDGE_PORT};
        return bh_log_says_port_is_taken(how->log);
    default:
        return false;
    }
}

void bh_witness_blame(struct bh_witness *w, const struct bh_witness_end *how, struct bh_verdict *verdict)
{
    struct bh_wedge wedge;
    if (w->tag == 0 || !what_of(how, verdict, &wedge))
        return;
    wedge.box = w->lease->box.id;
    fill_rows(w, &wedge, how->end->timed_out);
    if (!bh_wedge_judge(&wedge))
        return;
    BH_CLEANUP_FREE char *text = bh_wedge_text(&wedge), *before = BH_TAKE(verdict->detail);
    verdict->detail = bh_asprintf("%s; %s", before ? before : "", text);
    bh_free(w->evidence);
    w->evidence = bh_wedge_json(&wedge);
}
