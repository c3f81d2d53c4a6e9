/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the judgement of boxes and of what steers them. Labels, their ways, powers and networks are the plan's; nothing
 * is computed here that the plan could show otherwise.
 */
#include "policies/trust.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "policies/trust_priv.h"

void bh_trust_report(struct bh_judgement *j, struct bh_err *err, struct bh_pos pos, const char *path)
{
    BH_CLEANUP_FREE char *key = bh_asprintf("%d:%d:%s", pos.line, pos.column, bh_err_message(err));
    int rc = -(int)bh_err_code(err);
    if (!bh_map_put(j->said, key, j)) {
        bh_err_free(err);
        return;
    }
    bh_err_at(&err, j->plan->pipeline->file, pos.line, pos.column, path);
    bh_errlist_add(j->errors, err);
    j->rc = j->rc ? j->rc : rc;
}

/* --- private data, untrusted content, a way out --- */

static const char *way_text(const struct bh_val *network)
{
    const char *word = bh_val_get_str(network);
    if (word)
        return bh_streq(word, "none") ? NULL : word;
    return bh_val_len(bh_val_get(network, "allow")) > 0 ? "an allow-list" : NULL;
}

/*
 * "network public", "network public in 'check'"; empty where it is closed. The setup of a box of one agent runs before
 * anything is delivered to it: what it may reach is no way out for that.
 */
static void add_way_out(const struct bh_plan_box *box, struct bh_buf *out)
{
    static const char *const phases[] = {"setup", "prepare", "run", "check"};
    BH_CLEANUP_VAL struct bh_val *map = NULL;
    if (*box->network != '{') {
        if (strcmp(box->network, "none") != 0)
            bh_buf_addf(out, "network %s", box->network);
        return;
    }
    if (bh_json_parse(box->network, strlen(box->network), &map, NULL) != 0) {
        bh_buf_adds(out, "a network that cannot be read"); /* refused rather than let through */
        return;
    }
    const char *all = way_text(map);
    if (all)
        bh_buf_addf(out, "network %s", all);
    for (size_t i = box->shared ? 0 : 1; !all && i < BH_ARRAY_LEN(phases); i++) {
        const char *way = way_text(bh_val_get(map, phases[i]));
        if (way)
            bh_buf_addf(out, "%s%s in '%s'", out->len ? ", " : "network ", way, phases[i]);
    }
}

/* A member by itself, rather than one that is so because it stands beside it. */
static const struct bh_plan_agent *member(const struct bh_plan *plan, const struct bh_plan_box *box,
                                          const char *(*why)(const struct bh_plan_agent *))
{
    const struct bh_plan_agent *found = NULL;
    for (size_t i = 0; i < box->n_agents; i++) {
        const struct bh_plan_agent *a = &plan->agents[box->agents[i]];
        if (!why(a))
            continue;
        if (!bh_starts_with(why(a), "shares a box with "))
            return a;
        found = found ? found : a;
    }
    return found;
}

static const char *tainted_why(const struct bh_plan_agent *a)
{
    return a->label == BH_TAINTED ? a->why : NULL;
}

static const char *private_why(const struct bh_plan_agent *a)
{
    return a->private_why;
}

static void check_box(struct bh_judgement *j, const struct bh_plan_box *box)
{
    const struct bh_plan_agent *holder = box->private_ ? member(j->plan, box, private_why) : NULL;
    const struct bh_plan_agent *reader = holder ? member(j->plan, box, tainted_why) : NULL;
    BH_CLEANUP_BUF struct bh_buf way = BH_BUF_INIT;
    if (!reader)
        return;
    add_way_out(box, &way);
    if (way.len == 0)
        return;
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_TRUST, 0, "box '%s' holds private data and untrusted content and has a way out: %s", box->id,
               way.data);
    bh_err_detail(&err, "private: agent '%s', %s; tainted: agent '%s', %s", holder->name, holder->private_why,
                  reader->name, reader->why);
    bh_err_hint(&err,
                "take one of the three away: close the network after 'setup', or let an agent of its own read the "
                "private data or the untrusted content");
    bh_trust_report(j, err, reader->doc->name.pos, reader->doc->path);
}

/* --- what steers --- */

static void check_steered(struct bh_judgement *j, const struct bh_plan_agent *a)
{
    const struct bh_plan_box *box = &j->plan->boxes[a->box];
    for (size_t i = 0; i < a->n_steered_by; i++) {
        struct bh_err *err = NULL;
        if (bh_plan_gate_of(a->gates, a->n_gates, a->steered_by[i]))
            continue;
        bh_err_set(&err, BH_E_TRUST, 0,
                   "agent '%s' is steered by the tainted artifact '%s', and its box has a power: %s", a->name,
                   a->steered_by[i], box->powers[0]);
        bh_err_detail(&err, "tainted: %s", a->steered_why[i]);
        bh_err_hint(&err,
                    "let '%s' in by 'accept' of the agent, ask a person by 'gate: approve', or take the power away",
                    a->steered_by[i]);
        bh_trust_report(j, err, a->doc->name.pos, a->doc->path);
    }
}

int bh_trust_check(const struct bh_plan *plan, const struct bh_policy *policy, struct bh_errlist *errors)
{
    BH_CLEANUP_MAP struct bh_map *said = bh_map_new(NULL);
    struct bh_judgement j = {.plan = plan, .policy = policy, .errors = errors, .said = said};
    for (size_t b = 0; b < plan->n_boxes; b++)
        check_box(&j, &plan->boxes[b]);
    for (size_t a = 0; a < plan->n_agents; a++) {
        if (!plan->agents[a].gated && plan->boxes[plan->agents[a].box].n_powers > 0)
            check_steered(&j, &plan->agents[a]);
    }
    bh_trust_check_hosts(&j);
    return j.rc;
}
