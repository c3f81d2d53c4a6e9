/* SPDX-License-Identifier: Apache-2.0 */
/* '<': the effects of the last event, all of them in their order. 'expect': what the engine shows. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/scenarios/scn.h"

static const char *const effect_words[] = {
    [BH_EFFECT_LEASE] = "lease",       [BH_EFFECT_KILL] = "kill",     [BH_EFFECT_FREEZE] = "freeze",
    [BH_EFFECT_DEADLINE] = "deadline", [BH_EFFECT_ENDED] = "end",     [BH_EFFECT_PUBLISH] = "publish",
    [BH_EFFECT_ASK] = "ask",           [BH_EFFECT_EXPIRY] = "expiry",
};

/* What the effect is about, in the word that stands second in a '<' line. The caller owns it. */
static char *subject_of(const struct scn *s, const struct bh_effect *f)
{
    char span[BH_UNIT_TEXT];
    switch (f->kind) {
    case BH_EFFECT_LEASE:
    case BH_EFFECT_KILL:
    case BH_EFFECT_PUBLISH:
        if (s->spec->nodes[f->node].forks)
            return bh_asprintf("%s.%s", s->spec->nodes[f->node].name, scn_unit(f->execution, f->attempt, span));
        return bh_strdup(s->spec->nodes[f->node].name);
    case BH_EFFECT_FREEZE:
        return bh_strdup(s->spec->boxes[f->box].id);
    case BH_EFFECT_ASK:
    case BH_EFFECT_EXPIRY:
        return bh_strdup(s->spec->gates[f->gate].id);
    case BH_EFFECT_DEADLINE:
        return bh_strdup(bh_format_duration((f->at.us - s->now.us) * 1000, span));
    case BH_EFFECT_ENDED:
        return bh_strdup(bh_run_status_text(f->status));
    }
    return NULL;
}

bool scn_effects_done(struct scn *s)
{
    if (s->fx_seen >= s->fx.len)
        return true;
    const struct bh_effect *f = &s->fx.items[s->fx_seen];
    char *subject BH_CLEANUP_FREE = subject_of(s, f);
    s->line = s->event_line;
    return scn_fail(s, "the event has an effect that no '<' names: %s %s", effect_words[f->kind], subject);
}

static bool check_number(struct scn *s, const char *key, int64_t got)
{
    const char *text = scn_option(s, 3, key);
    int64_t want = 0;
    if (!text)
        return true;
    if (!scn_int(s, text, &want))
        return false;
    return want == got || scn_fail(s, "%s is %lld, not %s", key, (long long)got, text);
}

bool scn_effect(struct scn *s)
{
    if (s->n_words < 3)
        return scn_fail(s, "which effect, on what?");
    if (s->fx_seen >= s->fx.len)
        return scn_fail(s, "no such effect: the event had %zu", s->fx.len);
    const struct bh_effect *f = &s->fx.items[s->fx_seen++];
    char *subject BH_CLEANUP_FREE = subject_of(s, f);
    if (!bh_streq(s->words[1], effect_words[f->kind]) || !bh_streq(s->words[2], subject))
        return scn_fail(s, "the effect is: %s %s", effect_words[f->kind], subject);
    const char *layer = scn_option(s, 3, "layer");
    if (layer && !bh_streq(layer, f->layer))
        return scn_fail(s, "layer is %s", f->layer);
    return check_number(s, "try", f->try_) && check_number(s, "worker", f->worker) &&
           check_number(s, "epoch", f->epoch);
}

static bool same(struct scn *s, const char *what, const char *got, const char *want)
{
    return bh_streq(got, want) || scn_fail(s, "%s is '%s'", what, got);
}

/* expect node NAME STATE [REASON] [blamed=NODE] */
static bool expect_node(struct scn *s)
{
    size_t i = scn_node(s, s->words[2]);
    if (i == SIZE_MAX)
        return false;
    const struct bh_node *n = bh_engine_node(s->engine, i);
    const char *reason = s->words[4] && !strchr(s->words[4], '=') ? s->words[4] : "";
    const char *blamed = scn_option(s, 4, "blamed");
    return same(s, s->words[2], bh_node_state_text(n->state), s->words[3]) &&
           same(s, "the reason", bh_reason_text(n->reason, n->phase), reason) &&
           same(s, "the blamed one", n->blamed == SIZE_MAX ? "-" : s->spec->nodes[n->blamed].name,
                blamed ? blamed : "-");
}

/* expect selected NAME.UNIT yes|no */
static bool expect_selected(struct scn *s)
{
    const struct bh_attempt *a = scn_attempt(s, s->words[2]);
    return a && same(s, s->words[2], a->selected ? "yes" : "no", s->words[3]);
}

/* expect attempt NAME[.UNIT][#TRY] STATE [REASON] */
static bool expect_attempt(struct scn *s)
{
    const struct bh_attempt *a = scn_attempt(s, s->words[2]);
    return a && same(s, s->words[2], bh_attempt_state_text(a->state), s->words[3]) &&
           same(s, "the reason", bh_reason_text(a->reason, a->phase), s->words[4] ? s->words[4] : "");
}

/* expect box NAME clean|dirty|freezing [layer=NAME] */
static bool expect_box(struct scn *s)
{
    size_t i = scn_box(s, s->words[2]);
    if (i == SIZE_MAX)
        return false;
    const struct bh_box_state *b = bh_engine_box(s->engine, i);
    const char *layer = scn_option(s, 4, "layer");
    return same(s, s->words[2],
                b->freezing ? "freezing"
                : b->dirty  ? "dirty"
                            : "clean",
                s->words[3]) &&
           same(s, "the layer", b->layer.s, layer ? layer : "");
}

/* expect gate NAME shut|asked|open|refused */
static bool expect_gate(struct scn *s)
{
    static const char *const words[] = {
        [BH_GATE_SHUT] = "shut", [BH_GATE_ASKED] = "asked", [BH_GATE_OPEN] = "open", [BH_GATE_REFUSED] = "refused"};
    size_t i = scn_gate(s, s->words[2]);
    return i != SIZE_MAX && same(s, s->words[2], words[bh_engine_gate(s->engine, i)->state], s->words[3]);
}

/* expect run STATUS [epoch=N] */
static bool expect_run(struct scn *s)
{
    return same(s, "the run", bh_run_status_text(bh_engine_status(s->engine)), s->words[2]) &&
           check_number(s, "epoch", bh_engine_epoch(s->engine));
}

/* expect failure REASON|none [NODE] */
static bool expect_failure(struct scn *s)
{
    size_t node;
    enum bh_reason r = bh_engine_failure(s->engine, &node);
    return same(s, "the failure", r == BH_REASON_NONE ? "none" : bh_reason_text(r, BH_PHASE_NONE), s->words[2]) &&
           same(s, "its node", node == SIZE_MAX ? "-" : s->spec->nodes[node].name, s->words[3] ? s->words[3] : "-");
}

bool scn_expect(struct scn *s)
{
    static const struct {
        const char *word;
        size_t least;
        bool (*fn)(struct scn *s);
    } rows[] = {
        {"node", 4, expect_node},         {"attempt", 4, expect_attempt}, {"box", 4, expect_box},
        {"selected", 4, expect_selected}, {"run", 3, expect_run},         {"failure", 3, expect_failure},
        {"gate", 4, expect_gate},
    };
    if (!s->engine)
        return scn_fail(s, "nothing to expect before the first event");
    for (size_t i = 0; s->words[1] && i < BH_ARRAY_LEN(rows); i++) {
        if (!bh_streq(rows[i].word, s->words[1]))
            continue;
        return s->n_words >= rows[i].least ? rows[i].fn(s) : scn_fail(s, "'%s' needs more words", s->words[1]);
    }
    return scn_fail(s, "expect what?");
}
