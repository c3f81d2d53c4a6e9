/* SPDX-License-Identifier: Apache-2.0 */
/* '>' and '!>': events that are given to the engine, written down, and checked for whether they meant anything. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/scenarios/scn.h"

/* worker N up SLOTS | worker N lost */
static bool read_worker(struct scn *s, struct bh_event *ev)
{
    int64_t n = 0, slots = 0;
    if (s->n_words < 4 || !scn_int(s, s->words[2], &n))
        return scn_fail(s, "worker takes a number and what became of it");
    ev->worker = (int)n;
    ev->kind = bh_streq(s->words[3], "up") ? BH_EV_WORKER_UP : BH_EV_WORKER_LOST;
    if (ev->kind == BH_EV_WORKER_UP && (!s->words[4] || !scn_int(s, s->words[4], &slots)))
        return scn_fail(s, "'up' takes a number of slots");
    ev->slots = (int)slots;
    return true;
}

/* frozen BOX LAYER | freeze-failed BOX [LAYER [REASON]] */
static bool read_freeze(struct scn *s, struct bh_event *ev)
{
    ev->kind = bh_streq(s->words[1], "frozen") ? BH_EV_FROZEN : BH_EV_FREEZE_FAILED;
    if (s->n_words < 3)
        return scn_fail(s, "'%s' of which box?", s->words[1]);
    ev->box = scn_box(s, s->words[2]);
    const char *layer = s->words[3] ? s->words[3] : "";
    memcpy(ev->layer, layer, strnlen(layer, sizeof(ev->layer) - 1));
    if (layer[0] && s->words[4])
        ev->reason = bh_reason_parse(s->words[4]);
    return ev->box != SIZE_MAX;
}

/* published NODE.ATTEMPT [REASON] */
static bool read_published(struct scn *s, struct bh_event *ev)
{
    const struct bh_attempt *a = s->words[2] ? scn_attempt(s, s->words[2]) : NULL;
    if (!a)
        return scn_fail(s, "which attempt was published?");
    ev->kind = BH_EV_PUBLISHED;
    ev->instance = a->instance;
    ev->reason = s->words[3] ? bh_reason_parse(s->words[3]) : BH_REASON_NONE;
    return true;
}

/* gate NAME asked|approved|rejected|expired */
static bool read_gate(struct scn *s, struct bh_event *ev)
{
    static const struct {
        const char *word;
        enum bh_event_kind kind;
    } rows[] = {{"asked", BH_EV_GATE_ASKED},
                {"approved", BH_EV_GATE_DECIDED},
                {"rejected", BH_EV_GATE_DECIDED},
                {"expired", BH_EV_GATE_EXPIRED}};
    if (s->n_words != 4)
        return scn_fail(s, "gate takes its name and what became of it");
    ev->gate = scn_gate(s, s->words[2]);
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        if (!bh_streq(rows[i].word, s->words[3]))
            continue;
        ev->kind = rows[i].kind;
        ev->approved = i == 1;
        return ev->gate != SIZE_MAX;
    }
    return scn_fail(s, "a gate is not '%s'", s->words[3]);
}

/* NODE[.UNIT][#TRY] STATE [REASON] [epoch=N] [score=N] */
static bool read_attempt(struct scn *s, struct bh_event *ev)
{
    const struct bh_attempt *a = scn_attempt(s, s->words[1]);
    int state = s->words[2] ? bh_attempt_state_parse(s->words[2]) : -1;
    if (!a)
        return false;
    if (state < 0)
        return scn_fail(s, "no state of an execution '%s'", s->words[2] ? s->words[2] : "");
    const char *epoch = scn_option(s, 3, "epoch");
    ev->instance = a->instance;
    ev->epoch = a->epoch;
    if (epoch && !scn_int(s, epoch, &ev->epoch))
        return false;
    ev->state = (enum bh_attempt_state)state;
    ev->kind = state >= BH_ATTEMPT_SUCCEEDED ? BH_EV_ENDED : BH_EV_STATE;
    const char *score = scn_option(s, 3, "score");
    ev->has_score = score && bh_parse_number(score, &ev->score) == 0;
    if (s->words[3] && !epoch && !score) {
        ev->reason = bh_reason_parse(s->words[3]);
        ev->phase = bh_phase_parse(s->words[3]);
        if (ev->reason == BH_REASON_NONE)
            return scn_fail(s, "no reason '%s'", s->words[3]);
    }
    return true;
}

static bool read_event(struct scn *s, struct bh_event *ev)
{
    static const struct {
        const char *word;
        enum bh_event_kind kind;
    } plain[] = {
        {"start", BH_EV_START},   {"owner", BH_EV_OWNER},       {"retry-failed", BH_EV_RETRY_FAILED},
        {"cancel", BH_EV_CANCEL}, {"deadline", BH_EV_DEADLINE},
    };
    const char *word = s->words[1];
    if (!word)
        return scn_fail(s, "which event?");
    for (size_t i = 0; i < BH_ARRAY_LEN(plain); i++) {
        if (bh_streq(plain[i].word, word)) {
            ev->kind = plain[i].kind;
            return true;
        }
    }
    if (bh_streq(word, "worker"))
        return read_worker(s, ev);
    if (bh_streq(word, "frozen") || bh_streq(word, "freeze-failed"))
        return read_freeze(s, ev);
    if (bh_streq(word, "gate"))
        return read_gate(s, ev);
    if (bh_streq(word, "published"))
        return read_published(s, ev);
    return read_attempt(s, ev);
}

bool scn_event(struct scn *s, bool meant)
{
    struct bh_event ev = {0};
    if (!scn_effects_done(s))
        return false;
    if (!s->engine)
        s->engine = bh_engine_new(s->run, s->spec);
    if (!read_event(s, &ev))
        return false;
    s->fx_seen = 0;
    s->event_line = s->line;
    uint64_t before = sc_digest(s->engine, s->spec);
    bool did = sc_step(s->engine, s->spec, &s->log, &ev, s->now, &s->fx);
    if (did != meant)
        return scn_fail(s, did ? "the event was to mean nothing, but it did" : "the event meant nothing");
    struct bh_changes c = bh_engine_changes(s->engine);
    if (!did &&
        (s->fx.len > 0 || c.run || c.n_nodes + c.n_attempts + c.n_boxes > 0 || sc_digest(s->engine, s->spec) != before))
        return scn_fail(s, "the event meant nothing, yet something changed");
    return true;
}

bool scn_crash(struct scn *s)
{
    size_t bad = 0;
    if (!s->engine)
        return scn_fail(s, "nothing to crash before the first event");
    struct bh_engine *again = sc_replay(s->run, s->spec, &s->log, s->log.len, &bad);
    if (!again)
        return scn_fail(s, "replaying the log, event %zu of %zu went another way", bad + 1, s->log.len);
    bh_engine_free(s->engine);
    s->engine = again;
    return true;
}
