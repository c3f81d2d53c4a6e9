/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event log of a scenario, in memory, and what is compared: a digest of all that the engine shows, and a hash of
 * the effects of a step. Shared by the scenario runner and the simulator.
 */
#pragma once

#include "scheduler/core/engine.h"

struct sc_entry {
    struct bh_event ev;
    struct bh_wall now;
    bool meant_something;     /* what bh_engine_step said */
    uint64_t effects, digest; /* after the step */
};
struct sc_log {
    struct sc_entry *items;
    size_t len, cap;
};

uint64_t sc_digest_node(const struct bh_engine *e, size_t i);
uint64_t sc_digest_attempt(const struct bh_engine *e, size_t i);
uint64_t sc_digest_box(const struct bh_engine *e, size_t i);
uint64_t sc_digest_gate(const struct bh_engine *e, size_t i);
uint64_t sc_digest_run(const struct bh_engine *e);
uint64_t sc_digest(const struct bh_engine *e, const struct bh_spec *spec);
uint64_t sc_hash_effects(const struct bh_effects *fx);

/* Applies the event and writes it down with what came of it. */
bool sc_step(struct bh_engine *e, const struct bh_spec *spec, struct sc_log *log, const struct bh_event *ev,
             struct bh_wall now, struct bh_effects *fx);
/*
 * A new engine that has seen the first `n` entries of the log. Every step must say, give and leave what it did the
 * first time: else NULL, and *ret_bad is the entry that differed.
 */
struct bh_engine *sc_replay(struct bh_run_id run, const struct bh_spec *spec, const struct sc_log *log, size_t n,
                            size_t *ret_bad);
