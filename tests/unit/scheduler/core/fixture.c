/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/scheduler/core/fixture.h"

#include "base/mem.h"

struct bh_spec *fx_spec(size_t n)
{
    struct bh_spec *spec = bh_alloc(sizeof(*spec));
    spec->n_nodes = spec->n_boxes = n;
    spec->nodes = bh_calloc(n, sizeof(*spec->nodes));
    spec->boxes = bh_calloc(n, sizeof(*spec->boxes));
    for (size_t i = 0; i < n; i++) {
        spec->nodes[i] = (struct bh_spec_node){.name = bh_asprintf("n%zu", i), .stage = -1, .box = i};
        spec->boxes[i] = (struct bh_spec_box){.id = bh_asprintf("n%zu", i)};
    }
    return spec;
}

void fx_dep(struct bh_spec *spec, size_t who, size_t on, enum bh_dep_kind kind)
{
    struct bh_spec_node *n = &spec->nodes[who];
    n->deps = bh_realloc_array(n->deps, n->n_deps + 1, sizeof(*n->deps));
    n->deps[n->n_deps++] = (struct bh_dep){.node = on, .kind = kind};
}

void fx_share(struct bh_spec *spec, const char *id)
{
    bh_free(spec->boxes[0].id);
    spec->boxes[0] = (struct bh_spec_box){.id = bh_strdup(id), .shared = true};
    for (size_t i = 0; i < spec->n_nodes; i++)
        spec->nodes[i].box = 0;
}

struct bh_run_id fx_run(void)
{
    return (struct bh_run_id){.s = "01hzzzzzzzzzzzzzzzzzzzzzzz"};
}

struct fx fx_new(struct bh_spec *spec)
{
    return (struct fx){.spec = spec, .e = bh_engine_new(fx_run(), spec), .now = {.us = 1000000}};
}

void fx_free(struct fx *f)
{
    bh_engine_free(f->e);
    bh_spec_free(f->spec);
    bh_effects_fini(&f->out);
}

bool fx_send(struct fx *f, struct bh_event ev)
{
    f->now.us++;
    return bh_engine_step(f->e, &ev, f->now, &f->out);
}

bool fx_kind(struct fx *f, enum bh_event_kind kind)
{
    return fx_send(f, (struct bh_event){.kind = kind});
}

bool fx_worker(struct fx *f, int worker, int slots)
{
    return fx_send(
        f, (struct bh_event){.kind = slots ? BH_EV_WORKER_UP : BH_EV_WORKER_LOST, .worker = worker, .slots = slots});
}

const struct bh_attempt *fx_newest(const struct fx *f, size_t node)
{
    for (size_t i = bh_engine_n_attempts(f->e); i-- > 0;) {
        if (bh_engine_attempt(f->e, i)->node == node)
            return bh_engine_attempt(f->e, i);
    }
    return NULL;
}

static bool about(struct fx *f, size_t node, enum bh_event_kind kind, enum bh_attempt_state to, enum bh_reason reason)
{
    const struct bh_attempt *a = fx_newest(f, node);
    struct bh_event ev = {.kind = kind, .state = to, .reason = reason};
    if (a) {
        ev.instance = a->instance;
        ev.epoch = a->epoch;
    }
    return fx_send(f, ev);
}

bool fx_state(struct fx *f, size_t node, enum bh_attempt_state to)
{
    return about(f, node, BH_EV_STATE, to, BH_REASON_NONE);
}

bool fx_end(struct fx *f, size_t node, enum bh_attempt_state to, enum bh_reason reason)
{
    return about(f, node, BH_EV_ENDED, to, reason);
}

void fx_start(struct fx *f, int slots)
{
    (void)fx_kind(f, BH_EV_START);
    (void)fx_worker(f, 0, slots);
}
