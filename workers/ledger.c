/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/ledger.h"

#include <string.h>

#include "base/mem.h"

struct bh_ledger {
    struct bh_stay *items; /* in order of their tags */
    size_t len, cap;
    uint64_t last;
};

struct bh_ledger *bh_ledger_new(void)
{
    struct bh_ledger *l = bh_alloc(sizeof(*l));
    *l = (struct bh_ledger){0};
    return l;
}

static void free_stay(struct bh_stay *s)
{
    bh_free(s->agent);
    bh_free(s->instance);
}

void bh_ledger_free(struct bh_ledger *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->len; i++)
        free_stay(&l->items[i]);
    bh_free(l->items);
    bh_free(l);
}

static struct bh_stay *find(const struct bh_ledger *l, uint64_t tag)
{
    for (size_t i = 0; i < l->len; i++) {
        if (l->items[i].tag == tag)
            return &l->items[i];
    }
    return NULL;
}

const struct bh_stay *bh_ledger_find(const struct bh_ledger *l, uint64_t tag)
{
    return find(l, tag);
}

/* Whoever ended before the first of those began that are still asked about was beside none of them. */
static void drop_old(struct bh_ledger *l)
{
    int64_t first = INT64_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < l->len; i++) {
        if (!l->items[i].closed && l->items[i].began_mono.ns < first)
            first = l->items[i].began_mono.ns;
    }
    for (size_t i = 0; i < l->len; i++) {
        struct bh_stay *s = &l->items[i];
        if (s->closed && s->ended_mono.ns < first)
            free_stay(s);
        else
            l->items[kept++] = *s;
    }
    l->len = kept;
}

uint64_t bh_ledger_begin(struct bh_ledger *l, const struct bh_lease *lease)
{
    *BH_PUSH(l->items, l->len, l->cap) = (struct bh_stay){
        .tag = ++l->last,
        .agent = bh_strdup(lease->agent),
        .instance = bh_strdup(lease->instance.s),
        .attempt = lease->attempt,
        .try_ = lease->try_,
        .began = bh_wall_now(),
        .began_mono = bh_mono_now(),
    };
    return l->last;
}

void bh_ledger_end(struct bh_ledger *l, uint64_t tag, struct bh_wall ended, const struct bh_exec_result *result)
{
    struct bh_stay *s = find(l, tag);
    if (!s)
        return;
    s->ended = ended;
    s->ended_mono = bh_mono_now();
    s->share = result->share;
    s->max_rss_bytes = result->max_rss_bytes;
}

void bh_ledger_close(struct bh_ledger *l, uint64_t tag)
{
    struct bh_stay *s = find(l, tag);
    if (!s)
        return;
    if (s->ended.us == 0) {
        s->ended = bh_wall_now();
        s->ended_mono = bh_mono_now();
    }
    s->closed = true;
    drop_old(l);
}

size_t bh_ledger_beside(const struct bh_ledger *l, uint64_t tag, struct bh_mono since,
                        const struct bh_stay *ret[static BH_LEDGER_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < l->len; i++) {
        const struct bh_stay *s = &l->items[i];
        if (s->tag == tag || (s->ended.us != 0 && s->ended_mono.ns < since.ns))
            continue;
        if (n == BH_LEDGER_MAX)
            memmove(ret, ret + 1, --n * sizeof(*ret));
        ret[n++] = s;
    }
    return n;
}
