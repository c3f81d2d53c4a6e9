/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/scenarios/replay.h"

#include <string.h>

#include "base/mem.h"

/* Numbers and texts are mixed in one by one: structs are never hashed whole, their padding means nothing. */
static uint64_t mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

static uint64_t mix_text(uint64_t h, const char *s)
{
    uint64_t word = 0;
    for (size_t i = 0; s[i]; i++) {
        word = word << 8 | (unsigned char)s[i];
        if (i % 8 == 7)
            h = mix(h, word);
    }
    return mix(mix(h, word), 1);
}

#define START UINT64_C(0xcbf29ce484222325)

uint64_t sc_digest_node(const struct bh_engine *e, size_t i)
{
    const struct bh_node *n = bh_engine_node(e, i);
    return mix(mix(mix(mix(START, (uint64_t)n->state), (uint64_t)n->reason), (uint64_t)n->phase), n->blamed);
}

uint64_t sc_digest_attempt(const struct bh_engine *e, size_t i)
{
    const struct bh_attempt *a = bh_engine_attempt(e, i);
    uint64_t h = mix_text(mix(START, a->node), a->instance.s);
    h = mix(mix(mix(h, (uint64_t)a->attempt), (uint64_t)a->try_), (uint64_t)a->epoch);
    h = mix(mix(mix(h, (uint64_t)a->worker), (uint64_t)a->state), (uint64_t)a->reason);
    h = mix(mix(mix(h, (uint64_t)a->phase), a->died_with_bulkhead), (uint64_t)a->kind << 1 | a->selected);
    return mix(mix(mix(h, (uint64_t)a->created.us), (uint64_t)a->started.us), (uint64_t)a->ended.us);
}

uint64_t sc_digest_box(const struct bh_engine *e, size_t i)
{
    const struct bh_box_state *b = bh_engine_box(e, i);
    return mix_text(mix(mix(START, b->freezing), b->dirty), b->layer.s);
}

uint64_t sc_digest_gate(const struct bh_engine *e, size_t i)
{
    const struct bh_gate *g = bh_engine_gate(e, i);
    return mix(mix(START, (uint64_t)g->state), (uint64_t)g->expires.us);
}

uint64_t sc_digest_run(const struct bh_engine *e)
{
    size_t node;
    enum bh_reason reason = bh_engine_failure(e, &node);
    uint64_t h = mix(mix(START, (uint64_t)bh_engine_status(e)), (uint64_t)bh_engine_epoch(e));
    return mix(mix(h, (uint64_t)reason), node);
}

uint64_t sc_digest(const struct bh_engine *e, const struct bh_spec *spec)
{
    uint64_t h = mix(sc_digest_run(e), bh_engine_n_attempts(e));
    for (size_t i = 0; i < spec->n_nodes; i++)
        h = mix(h, sc_digest_node(e, i));
    for (size_t i = 0; i < bh_engine_n_attempts(e); i++)
        h = mix(h, sc_digest_attempt(e, i));
    for (size_t i = 0; i < spec->n_boxes; i++)
        h = mix(h, sc_digest_box(e, i));
    for (size_t i = 0; i < spec->n_gates; i++)
        h = mix(h, sc_digest_gate(e, i));
    return h;
}

uint64_t sc_hash_effects(const struct bh_effects *fx)
{
    uint64_t h = mix(START, fx->len);
    for (size_t i = 0; i < fx->len; i++) {
        const struct bh_effect *f = &fx->items[i];
        h = mix(mix(mix(h, (uint64_t)f->kind << 4 | f->execution), f->node), f->box << 16 | f->gate);
        h = mix(mix(mix(h, (uint64_t)f->attempt), (uint64_t)f->try_), (uint64_t)f->worker);
        h = mix_text(mix_text(mix(h, (uint64_t)f->epoch), f->instance.s), f->layer);
        h = mix(mix(h, (uint64_t)f->at.us), (uint64_t)f->status);
    }
    return h;
}

bool sc_step(struct bh_engine *e, const struct bh_spec *spec, struct sc_log *log, const struct bh_event *ev,
             struct bh_wall now, struct bh_effects *fx)
{
    struct sc_entry *entry = BH_PUSH(log->items, log->len, log->cap);
    entry->ev = *ev;
    entry->now = now;
    entry->meant_something = bh_engine_step(e, ev, now, fx);
    entry->effects = sc_hash_effects(fx);
    entry->digest = sc_digest(e, spec);
    return entry->meant_something;
}

struct bh_engine *sc_replay(struct bh_run_id run, const struct bh_spec *spec, const struct sc_log *log, size_t n,
                            size_t *ret_bad)
{
    struct bh_engine *e = bh_engine_new(run, spec);
    struct bh_effects fx = {0};
    size_t i = 0;
    for (; i < n; i++) {
        const struct sc_entry *was = &log->items[i];
        bool meant = bh_engine_step(e, &was->ev, was->now, &fx);
        if (meant != was->meant_something || sc_hash_effects(&fx) != was->effects || sc_digest(e, spec) != was->digest)
            break;
    }
    bh_effects_fini(&fx);
    if (i == n)
        return e;
    *ret_bad = i;
    bh_engine_free(e);
    return NULL;
}
