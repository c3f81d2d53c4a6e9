/* SPDX-License-Identifier: Apache-2.0 */
/* The first part of a scenario: statements that build the spec. None of them may follow an event. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/scenarios/scn.h"

static size_t add_box(struct scn *s, const char *id, bool shared)
{
    struct bh_spec_box *b = BH_PUSH(s->spec->boxes, s->spec->n_boxes, s->cap_boxes);
    *b = (struct bh_spec_box){.id = bh_strdup(id), .shared = shared};
    return s->spec->n_boxes - 1;
}

static bool has_word(const struct scn *s, const char *word)
{
    for (size_t i = 2; i < s->n_words; i++) {
        if (bh_streq(s->words[i], word))
            return true;
    }
    return false;
}

/* [attempts=N] [setup=G] [prepare] [select=first-pass|best|least|all] [min=N] [stop-losers] */
static bool read_forks(struct scn *s, struct bh_spec_forks **ret)
{
    static const char *const selects[] = {"first-pass", "best", "all", "least"};
    int64_t attempts = 1, group = 0, min = 1;
    const char *n = scn_option(s, 2, "attempts"), *g = scn_option(s, 2, "setup"), *m = scn_option(s, 2, "min");
    const char *select = scn_option(s, 2, "select");
    if ((n && !scn_int(s, n, &attempts)) || (g && !scn_int(s, g, &group)) || (m && !scn_int(s, m, &min)))
        return false;
    if (!n && !g && !has_word(s, "prepare"))
        return true;
    size_t kind = 0;
    while (select && kind < BH_ARRAY_LEN(selects) && !bh_streq(selects[kind], select))
        kind++;
    if (kind == BH_ARRAY_LEN(selects))
        return scn_fail(s, "no way to select '%s'", select);
    struct bh_spec_forks *f = bh_alloc(sizeof(*f));
    *f = (struct bh_spec_forks){
        .attempts = (size_t)attempts,
        .setup = g != NULL,
        .prepare = has_word(s, "prepare"),
        .setup_group = (size_t)group,
        .numbered = attempts > 1 || select,
        .rule = {.kind = kind == 3 ? BH_SELECT_BEST : (enum bh_select)kind,
                 .order_min = kind == 3,
                 .stop_losers = has_word(s, "stop-losers"),
                 .min_success = min},
    };
    if ((size_t)group > s->spec->n_setups)
        s->spec->n_setups = (size_t)group;
    *ret = f;
    return true;
}

/* node NAME [box=B] [stage=N] [retries=N] [continue] [what makes it one of several executions] */
static bool do_node(struct scn *s)
{
    int64_t stage = -1, retries = 0;
    const char *box = scn_option(s, 2, "box"), *n = scn_option(s, 2, "stage"), *r = scn_option(s, 2, "retries");
    if ((n && !scn_int(s, n, &stage)) || (r && !scn_int(s, r, &retries)))
        return false;
    size_t at = box ? scn_box(s, box) : add_box(s, s->words[1], false);
    if (at == SIZE_MAX)
        return false;
    struct bh_spec_node *node = BH_PUSH(s->spec->nodes, s->spec->n_nodes, s->cap_nodes);
    *node = (struct bh_spec_node){.name = bh_strdup(s->words[1]),
                                  .stage = (int)stage,
                                  .box = at,
                                  .continue_on_failure = has_word(s, "continue"),
                                  .retries = retries};
    return read_forks(s, &node->forks);
}

/* box NAME [own]: shared where nothing is said */
static bool do_box(struct scn *s)
{
    (void)add_box(s, s->words[1], !has_word(s, "own"));
    return true;
}

/* dep WHO ON required|optional|barrier */
static bool do_dep(struct scn *s)
{
    static const char *const kinds[] = {
        [BH_DEP_BARRIER] = "barrier", [BH_DEP_REQUIRED] = "required", [BH_DEP_OPTIONAL] = "optional"};
    if (s->n_words != 4)
        return scn_fail(s, "dep takes who waits, for whom, and how");
    size_t who = scn_node(s, s->words[1]), on = scn_node(s, s->words[2]), kind = 0;
    while (kind < BH_ARRAY_LEN(kinds) && !bh_streq(kinds[kind], s->words[3]))
        kind++;
    if (who == SIZE_MAX || on == SIZE_MAX)
        return false;
    if (kind == BH_ARRAY_LEN(kinds))
        return scn_fail(s, "no kind of dep '%s'", s->words[3]);
    struct bh_spec_node *n = &s->spec->nodes[who];
    n->deps = bh_realloc_array(n->deps, n->n_deps + 1, sizeof(*n->deps));
    n->deps[n->n_deps++] = (struct bh_dep){.node = on, .kind = (enum bh_dep_kind)kind};
    return true;
}

/* group NAME NODE… */
static bool do_group(struct scn *s)
{
    struct bh_spec_group *g = BH_PUSH(s->spec->groups, s->spec->n_groups, s->cap_groups);
    *BH_PUSH(s->group_names.items, s->group_names.len, s->group_names.cap) = bh_strdup(s->words[1]);
    g->nodes = bh_calloc(s->n_words, sizeof(*g->nodes));
    for (size_t i = 2; i < s->n_words; i++) {
        size_t node = scn_node(s, s->words[i]);
        if (node == SIZE_MAX)
            return false;
        g->nodes[g->n_nodes++] = node;
    }
    return true;
}

/* behind GROUP NODE… */
static bool do_behind(struct scn *s)
{
    size_t g = 0;
    while (g < s->group_names.len && !bh_streq(s->group_names.items[g], s->words[1]))
        g++;
    if (g == s->group_names.len)
        return scn_fail(s, "no group '%s'", s->words[1]);
    for (size_t i = 2; i < s->n_words; i++) {
        size_t node = scn_node(s, s->words[i]);
        if (node == SIZE_MAX)
            return false;
        s->spec->nodes[node].group = g + 1;
    }
    return true;
}

static size_t add_gate(struct scn *s, bool of_stage)
{
    struct bh_spec_gate *g = BH_PUSH(s->spec->gates, s->spec->n_gates, s->cap_gates);
    *g = (struct bh_spec_gate){.id = bh_strdup(s->words[1]), .of_stage = of_stage, .timeout_ms = 60000};
    g->nodes = bh_calloc(s->spec->n_nodes, sizeof(*g->nodes));
    g->after = bh_calloc(s->spec->n_nodes, sizeof(*g->after));
    return s->spec->n_gates;
}

/* gate NODE: named as it */
static bool do_gate(struct scn *s)
{
    size_t node = scn_node(s, s->words[1]);
    if (node == SIZE_MAX)
        return false;
    s->spec->nodes[node].gate = add_gate(s, false);
    struct bh_spec_gate *g = &s->spec->gates[s->spec->n_gates - 1];
    g->nodes[g->n_nodes++] = node;
    return true;
}

/* stage-gate NAME STAGE [after NODE…] */
static bool do_stage_gate(struct scn *s)
{
    int64_t stage;
    if (!scn_int(s, s->words[2], &stage))
        return false;
    size_t gate = add_gate(s, true);
    struct bh_spec_gate *g = &s->spec->gates[gate - 1];
    for (size_t i = 0; i < s->spec->n_nodes; i++) {
        if (s->spec->nodes[i].stage != stage)
            continue;
        s->spec->nodes[i].stage_gate = gate;
        g->nodes[g->n_nodes++] = i;
    }
    for (size_t i = 4; i < s->n_words; i++) {
        size_t node = scn_node(s, s->words[i]);
        if (node == SIZE_MAX)
            return false;
        g->after[g->n_after++] = node;
    }
    return true;
}

/* left-out NODE… */
static bool do_left_out(struct scn *s)
{
    for (size_t i = 1; i < s->n_words; i++) {
        size_t node = scn_node(s, s->words[i]);
        if (node == SIZE_MAX)
            return false;
        s->spec->nodes[node].left_out = true;
    }
    return true;
}

static bool do_max_parallel(struct scn *s)
{
    return scn_int(s, s->words[1], &s->spec->max_parallel);
}

static bool do_max_failures(struct scn *s)
{
    return scn_int(s, s->words[1], &s->spec->failures_allowed);
}

static bool do_deadline(struct scn *s)
{
    int64_t ns;
    if (bh_parse_duration(s->words[1], &ns) != 0)
        return scn_fail(s, "'%s' is no duration", s->words[1]);
    s->spec->deadline_ms = ns / BH_NS_PER_MS;
    return true;
}

static bool do_keep_going(struct scn *s)
{
    s->spec->keep_going = true;
    return true;
}

bool scn_setup(struct scn *s)
{
    static const struct {
        const char *word;
        size_t least; /* words, itself included */
        bool (*fn)(struct scn *s);
    } rows[] = {
        {"node", 2, do_node},
        {"box", 2, do_box},
        {"dep", 4, do_dep},
        {"group", 3, do_group},
        {"behind", 3, do_behind},
        {"left-out", 2, do_left_out},
        {"gate", 2, do_gate},
        {"stage-gate", 3, do_stage_gate},
        {"max-parallel", 2, do_max_parallel},
        {"max-failures", 2, do_max_failures},
        {"deadline", 2, do_deadline},
        {"keep-going", 1, do_keep_going},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        if (!bh_streq(rows[i].word, s->words[0]))
            continue;
        if (s->engine)
            return scn_fail(s, "'%s' behind the first event", s->words[0]);
        if (s->n_words < rows[i].least)
            return scn_fail(s, "'%s' needs more words", s->words[0]);
        return rows[i].fn(s);
    }
    return scn_fail(s, "no statement '%s'", s->words[0]);
}
