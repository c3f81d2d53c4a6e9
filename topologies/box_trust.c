/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what placement itself must refuse for the sake of trust: tainted content beside powers in one box, and untrusted
 * content in a box that was to be shared by all. Which agents may be let in by a gate, and what may leave a box, is
 * judged above this floor.
 */
#include "topologies/placement.h"

/* The member by which the box is tainted: not one that is so only because it stands in it. */
static size_t culprit(const struct bh_planner *pl, const struct bh_plan_box *box)
{
    for (size_t i = 0; i < box->n_agents; i++) {
        const struct bh_draft *d = &pl->drafts[box->agents[i]];
        if (d->box_tainted && d->box_taint.via != BH_VIA_BOX)
            return box->agents[i];
    }
    return box->agents[0];
}

/* A member that holds a power; SIZE_MAX: it is the box's own. */
static size_t holder(struct bh_planner *pl, const struct bh_plan_box *box)
{
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    struct bh_texts powers = {0};
    for (size_t i = 0; i < box->n_agents; i++) {
        bh_traits_add_powers(pl, box->agents[i], seen, &powers);
        if (powers.len > 0)
            return box->agents[i];
    }
    return SIZE_MAX;
}

/* A gate let it in for the agent, and could not for those who share its box. */
static bool let_in(const struct bh_planner *pl, size_t agent)
{
    const struct bh_plan_agent *a = &pl->plan->agents[agent];
    const char *artifact = pl->drafts[agent].box_taint.artifact;
    const struct bh_plan_gate *gate = artifact ? bh_plan_gate_of(a->gates, a->n_gates, artifact) : NULL;
    return gate && gate->kind == BH_GATE_VALIDATE;
}

static void refuse_let_in(struct bh_planner *pl, const struct bh_plan_box *box, size_t reader, size_t owner)
{
    const struct bh_plan_agent *a = &pl->plan->agents[reader];
    const struct bh_plan_agent *b = owner == SIZE_MAX ? a : &pl->plan->agents[owner];
    struct bh_err *err = NULL;
    if (owner == SIZE_MAX)
        bh_err_set(&err, BH_E_TRUST, 0, "agent '%s' lets '%s' into box '%s', which it shares and which has a power: %s",
                   a->name, pl->drafts[reader].box_taint.artifact, box->id, box->powers[0]);
    else
        bh_err_set(&err, BH_E_TRUST, 0,
                   "agent '%s' lets '%s' into box '%s', which it shares and which has a power of agent '%s': %s",
                   a->name, pl->drafts[reader].box_taint.artifact, box->id, b->name, box->powers[0]);
    bh_err_detail(&err, "tainted: %s", bh_plan_box_taint_path(pl, reader));
    bh_err_hint(&err,
                "'validate' lets an artifact in for one agent, not for those who share its box: leave 'box' and "
                "'topology' of '%s' away, and the plan gives it a box of its own",
                a->name);
    bh_planner_report(pl, err, b->doc->name.pos, b->doc->path);
}

static void refuse_powers(struct bh_planner *pl, const struct bh_plan_box *box)
{
    size_t reader = culprit(pl, box), owner = holder(pl, box);
    const struct bh_plan_agent *a = &pl->plan->agents[reader], *b = owner == SIZE_MAX ? a : &pl->plan->agents[owner];
    struct bh_err *err = NULL;
    if (let_in(pl, reader)) {
        refuse_let_in(pl, box, reader, owner);
        return;
    }
    if (owner == SIZE_MAX && box->n_agents > 1)
        bh_err_set(&err, BH_E_TRUST, 0, "box '%s' is tainted by agent '%s' and has a power: %s", box->id, a->name,
                   box->powers[0]);
    else if (a == b)
        bh_err_set(&err, BH_E_TRUST, 0, "agent '%s' is tainted and has a power: %s", a->name, box->powers[0]);
    else
        bh_err_set(&err, BH_E_TRUST, 0, "box '%s' is tainted by agent '%s' and has a power of agent '%s': %s", box->id,
                   a->name, b->name, box->powers[0]);
    bh_err_detail(&err, "tainted: %s", bh_plan_box_taint_path(pl, reader));
    if (pl->drafts[reader].box_taint.via == BH_VIA_SELF)
        bh_err_hint(&err, "let one agent read and another, which gets only what it needs of that, hold the power");
    else
        bh_err_hint(&err, "take the power away, or let the artifact in by 'accept'");
    bh_planner_report(pl, err, b->doc->name.pos, b->doc->path);
}

static bool begins_taint(const struct bh_planner *pl, size_t agent)
{
    enum bh_via via = pl->drafts[agent].box_taint.via;
    return via == BH_VIA_SELF || via == BH_VIA_SOURCE || via == BH_VIA_FILE;
}

/* A member that would be trusted, were it not for the box; else SIZE_MAX. */
static size_t bystander(const struct bh_planner *pl, const struct bh_plan_box *box)
{
    for (size_t i = 0; i < box->n_agents; i++) {
        const struct bh_draft *d = &pl->drafts[box->agents[i]];
        if (!d->box_tainted || d->box_taint.via == BH_VIA_BOX)
            return box->agents[i];
    }
    return SIZE_MAX;
}

static void refuse_sharing(struct bh_planner *pl, const struct bh_plan_box *box)
{
    size_t reader = culprit(pl, box), other = bystander(pl, box);
    for (size_t i = 0; i < box->n_agents && !begins_taint(pl, reader); i++)
        reader = begins_taint(pl, box->agents[i]) ? box->agents[i] : reader;
    if (other == SIZE_MAX && !begins_taint(pl, reader))
        return; /* all of them read what came from elsewhere */
    if (other == SIZE_MAX || other == reader)
        other = box->agents[0] == reader ? box->agents[1] : box->agents[0];
    const struct bh_plan_agent *a = &pl->plan->agents[reader];
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_TRUST, 0, "agent '%s' is tainted and cannot share box '%s' with agent '%s'", a->name, box->id,
               pl->plan->agents[other].name);
    bh_err_detail(&err, "tainted: %s", bh_plan_box_taint_path(pl, reader));
    bh_err_hint(&err, "leave 'topology' away, and the plan puts it into a box of its own");
    bh_planner_report(pl, err, a->doc->name.pos, a->doc->path);
}

/* Whoever is in it has them, trusted or not: so they are refused where agents' own files would make those tainted. */
static void check_files(struct bh_planner *pl, const struct bh_plan_box *box)
{
    for (size_t i = 0; i < box->n_files; i++) {
        const struct bh_pair *file = &box->files[i];
        if (!file->value.s || !bh_map_has(pl->tainted_files, file->value.s))
            continue;
        struct bh_err *err = NULL;
        bh_err_set(&err, BH_E_TRUST, 0, "file '%s' of box '%s' is tainted: an earlier run knows what it holds",
                   file->value.s, box->id);
        bh_err_hint(&err, "give it to the agents that need it, under 'files': they are tainted then");
        bh_planner_report(pl, err, file->value.pos,
                          bh_arena_printf(pl->arena, "boxes.%s.files[\"%s\"]", box->doc->name.s, file->name.s));
    }
}

/*
 * What one has read or was let in, all who share its box can read. Those who joined it like that one are labelled with
 * it; in the crews' boxes some stand by name and others because nothing spoke against it, and these do not know of each
 * other.
 */
static void check_bystanders(struct bh_planner *pl, const struct bh_plan_box *box)
{
    const struct bh_plan_agent *reader = NULL, *other = NULL;
    for (size_t i = 0; i < box->n_agents; i++) {
        const struct bh_plan_agent *a = &pl->plan->agents[box->agents[i]];
        reader = !reader && a->label == BH_TAINTED ? a : reader;
        other = !other && a->label == BH_TRUSTED ? a : other;
    }
    if (!reader || !other)
        return;
    struct bh_err *err = NULL;
    bool let_in = box->label != BH_TAINTED;
    bh_err_set(&err, BH_E_TRUST, 0, "agent '%s' %s and cannot share box '%s' with agent '%s'", reader->name,
               let_in ? "lets tainted artifacts in" : "is tainted", box->id, other->name);
    bh_err_detail(&err, "tainted: %s", reader->why);
    bh_err_hint(&err, "leave 'topology' and 'box' of '%s' away, and the plan finds another box for it",
                let_in ? reader->name : other->name);
    bh_planner_report(pl, err, reader->doc->name.pos, reader->doc->path);
}

void bh_box_trust_check(struct bh_planner *pl, size_t index)
{
    const struct bh_plan_box *box = &pl->plan->boxes[index];
    check_files(pl, box);
    if (box->label == BH_TAINTED && box->n_powers > 0)
        refuse_powers(pl, box);
    else if (box->label == BH_TAINTED && box->n_agents > 1 && strcmp(box->id, "crew") == 0)
        refuse_sharing(pl, box);
    else
        check_bystanders(pl, box);
}
