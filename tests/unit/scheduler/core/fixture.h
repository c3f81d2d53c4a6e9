/* SPDX-License-Identifier: Apache-2.0 */
/* Small specs and an engine over them, for tests. */
#pragma once

#include "scheduler/core/engine_priv.h"

/* n nodes "n0", "n1", … without edges, each in a box of its own of the same name. */
struct bh_spec *fx_spec(size_t n);
void fx_dep(struct bh_spec *spec, size_t who, size_t on, enum bh_dep_kind kind);
/* Every node in one shared box. */
void fx_share(struct bh_spec *spec, const char *id);
struct bh_run_id fx_run(void);

struct fx {
    struct bh_spec *spec;
    struct bh_engine *e;
    struct bh_effects out; /* of the last event */
    struct bh_wall now;
};
struct fx fx_new(struct bh_spec *spec); /* takes spec */
void fx_free(struct fx *f);
bool fx_send(struct fx *f, struct bh_event ev);
bool fx_kind(struct fx *f, enum bh_event_kind kind);
bool fx_worker(struct fx *f, int worker, int slots); /* 0: lost */
/* About the newest execution of the node. */
bool fx_state(struct fx *f, size_t node, enum bh_attempt_state to);
bool fx_end(struct fx *f, size_t node, enum bh_attempt_state to, enum bh_reason reason);
const struct bh_attempt *fx_newest(const struct fx *f, size_t node); /* NULL where it was never leased */
/* START and a worker. */
void fx_start(struct fx *f, int slots);
