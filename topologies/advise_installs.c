/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the rule of conflicting installs: agents of one box whose commands pin versions of one package of which no one
 * can be both. Who comes first in the document stays, with all who agree with it; the others are to move out.
 */
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/advise_priv.h"
#include "topologies/installs.h"

/* What stands in the box so far, and who says so. */
struct stay {
    struct bh_install install;
    const char *who; /* "'press'", "box 'crew'" */
    const char *agent;
    struct bh_pos pos;
    bool cited;
};
struct stays {
    struct stay *items;
    size_t len, cap;
};

struct box_look {
    const struct bh_advise_subject *subject;
    struct bh_advices *list;
    const struct bh_plan_box *box;
    struct bh_advice *advice; /* NULL until there is something to say */
    struct bh_map *stays;     /* kind, place and name → struct stays */
};

static const char *place_text(struct bh_arena *arena, const char *place)
{
    if (!*place)
        return "";
    return strcmp(place, "global") == 0 ? " for all" : bh_arena_printf(arena, " in %s", place);
}

static void cite(struct box_look *look, const struct stay *s)
{
    bh_advice_cite(look->list, look->advice, s->pos, s->agent, "%s installs %s package '%s' %s%s: %s", s->who,
                   s->install.kind, s->install.name, s->install.version.text,
                   place_text(look->list->arena, s->install.place), s->install.command);
}

/* Among what one command line installs the last one counts. */
static bool is_replaced(const struct bh_installs *installs, size_t i)
{
    for (size_t k = i + 1; k < installs->len; k++) {
        if (bh_installs_conflict(&installs->items[i], &installs->items[k]))
            return true;
    }
    return false;
}

static void report(struct box_look *look, struct stay *first, const struct stay *second)
{
    if (!look->advice) {
        look->advice =
            bh_advices_add(look->list, BH_ADVICE_INSTALLS, BH_TOPOLOGY_PER_AGENT,
                           "%s and %s share box '%s' and need different versions of %s package '%s': whoever "
                           "installs last, or first, decides for both, and nothing fails",
                           first->who, second->who, look->box->id, second->install.kind, second->install.name);
        look->advice->box = bh_arena_strdup(look->list->arena, look->box->id);
    }
    if (!first->cited)
        cite(look, first);
    first->cited = true;
    cite(look, second);
    if (first->agent)
        bh_advice_name(look->list, look->advice, first->agent);
    bh_advice_name(look->list, look->advice, second->agent);
}

static char *key_of(const struct bh_install *install)
{
    return bh_asprintf("%s\n%s\n%s", install->kind, install->place, install->name);
}

static void add_stays(struct box_look *look, const struct bh_installs *installs, const char *who, const char *agent,
                      struct bh_pos pos)
{
    struct bh_arena *arena = look->list->arena;
    for (size_t i = 0; i < installs->len; i++) {
        if (is_replaced(installs, i))
            continue;
        BH_CLEANUP_FREE char *key = key_of(&installs->items[i]);
        struct stays *stays = bh_map_get(look->stays, key);
        if (!stays) {
            stays = bh_arena_alloc(arena, sizeof(*stays));
            bh_map_put(look->stays, key, stays);
        }
        *BH_ARENA_PUSH(arena, stays->items, stays->len, stays->cap) =
            (struct stay){.install = installs->items[i], .who = who, .agent = agent, .pos = pos};
    }
}

/* The first of those who stay that an install of this agent conflicts with; they agree among themselves. */
static struct stay *first_conflict(const struct box_look *look, const struct bh_install *install)
{
    BH_CLEANUP_FREE char *key = key_of(install);
    const struct stays *stays = bh_map_get(look->stays, key);
    for (size_t i = 0; stays && i < stays->len; i++) {
        if (bh_installs_conflict(&stays->items[i].install, install))
            return &stays->items[i];
    }
    return NULL;
}

/* True where the agent cannot stay. */
static bool compare(struct box_look *look, const struct bh_installs *installs, const char *who, const char *agent,
                    struct bh_pos pos)
{
    bool conflict = false;
    for (size_t i = 0; i < installs->len; i++) {
        const struct stay mine = {.install = installs->items[i], .who = who, .agent = agent, .pos = pos};
        struct stay *other = is_replaced(installs, i) ? NULL : first_conflict(look, &mine.install);
        if (other)
            report(look, other, &mine);
        conflict = conflict || other;
    }
    return conflict;
}

static const char *workdir_of(const struct bh_agent *doc)
{
    return doc->workdir.s ? doc->workdir.s : "/workspace";
}

static void look_at_agent(struct box_look *look, const struct bh_plan_agent *agent)
{
    struct bh_arena *arena = look->list->arena;
    const char *who = bh_arena_printf(arena, "'%s'", agent->name);
    struct bh_installs setup = {0}, run = {0};
    bh_installs_of(agent->setup, agent->n_setup, workdir_of(agent->doc), arena, &setup);
    bh_installs_of(agent->run, agent->n_run, workdir_of(agent->doc), arena, &run);
    bool out = compare(look, &setup, who, agent->name, agent->doc->setup.pos);
    out = compare(look, &run, who, agent->name, agent->doc->run.pos) || out;
    if (out) {
        bh_advice_own_box(look->subject, look->list, look->advice, agent->doc);
        return;
    }
    add_stays(look, &setup, who, agent->name, agent->doc->setup.pos);
    add_stays(look, &run, who, agent->name, agent->doc->run.pos);
}

void bh_advise_installs(const struct bh_advise_subject *subject, struct bh_advices *list)
{
    for (size_t i = 0; subject->plan && i < subject->plan->n_boxes; i++) {
        const struct bh_plan_box *box = &subject->plan->boxes[i];
        struct box_look look = {.subject = subject, .list = list, .box = box};
        if (!box->shared)
            continue;
        look.stays = bh_map_new(NULL);
        struct bh_installs setup = {0};
        const char *who = bh_arena_printf(list->arena, "box '%s' itself", box->id);
        bh_installs_of(box->setup, box->n_setup, "/workspace", list->arena, &setup);
        add_stays(&look, &setup, who, NULL, box->doc ? box->doc->setup.pos : (struct bh_pos){0});
        for (size_t k = 0; k < box->n_agents; k++)
            look_at_agent(&look, &subject->plan->agents[box->agents[k]]);
        bh_map_free(look.stays);
        if (look.advice)
            look.advice->action = "a box of its own for whoever disagrees with the first";
    }
}

void bh_advise_document(const struct bh_advise_subject *subject, struct bh_advices *list)
{
    bh_advise_trust(subject, list);
    bh_advise_installs(subject, list);
}
