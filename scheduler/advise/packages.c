/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the rule of the changed environment: package directories of a shared box as they were when it was frozen, one
 * state after another. Two findings: an agent asked for a version, and when it had ended the box had another; and a
 * package that was there became another one while several agents were at work in the box.
 */
#include <dirent.h>
#include <fcntl.h>

#include "base/fd.h"
#include "base/home.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "scheduler/advise/advise_run_priv.h"
#include "scheduler/advise/package_scan.h"
#include "topologies/installs.h"

struct state {
    struct bh_wall from, at; /* what was written between the two; `at` 0: the end of the run */
    struct bh_packages packages;
};

struct box_look {
    const struct bh_run_question *q;
    const struct bh_plan_box *box;
    struct state *states;
    size_t n, cap;
    struct bh_advice *advice; /* the document's own of this box, or a new one */
};

/* --- the states of a box --- */

static struct state *add_state(struct box_look *look, struct bh_wall at)
{
    struct bh_wall from = look->n > 0 ? look->states[look->n - 1].at : look->q->record->run->started;
    struct state *s = BH_PUSH(look->states, look->n, look->cap);
    *s = (struct state){.from = from, .at = at};
    return s;
}

static void scan_layers(struct box_look *look, size_t box)
{
    const struct bh_run_record *r = look->q->record;
    for (size_t i = 0; i < r->n_freezes; i++) {
        if (r->freezes[i].box != box || !bh_path_is_clean(r->freezes[i].layer))
            continue;
        BH_CLEANUP_FREE char *dir = bh_asprintf("runs/%s/layers/%s", r->run->run, r->freezes[i].layer);
        bh_packages_scan(look->q->home->dirfd, dir, &add_state(look, r->freezes[i].at)->packages);
    }
}

/* The youngest folder "ID.EPOCH.NUMBER" of the box; NULL where none was kept. */
static char *kept_folder(const struct box_look *look)
{
    char *best = NULL;
    size_t len = strlen(look->box->id);
    BH_CLEANUP_FREE char *path = bh_asprintf("runs/%s/boxes", look->q->record->run->run);
    DIR *dir = bh_dir_stream(bh_open_beneath(look->q->home->dirfd, path, O_RDONLY | O_DIRECTORY, 0));
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        const char *rest = e->d_name + len;
        if (strncmp(e->d_name, look->box->id, len) != 0 || *rest != '.' || rest[strspn(rest, ".0123456789")] != '\0')
            continue;
        if (!best || strverscmp(best, e->d_name) < 0) {
            bh_free(best);
            best = bh_strdup(e->d_name);
        }
    }
    if (dir)
        (void)closedir(dir);
    return best;
}

static void scan_kept(struct box_look *look)
{
    BH_CLEANUP_FREE char *folder = kept_folder(look);
    if (!folder)
        return;
    BH_CLEANUP_FREE char *dir = bh_asprintf("runs/%s/boxes/%s/upper", look->q->record->run->run, folder);
    bh_packages_scan(look->q->home->dirfd, dir, &add_state(look, look->q->record->run->ended)->packages);
}

/* --- what to say --- */

static void find_advice(struct box_look *look, const char *name, const char *kind)
{
    struct bh_advices *list = look->q->list;
    for (size_t i = 0; i < list->len && !look->advice; i++) {
        if (list->items[i].rule == BH_ADVICE_INSTALLS && bh_streq(list->items[i].box, look->box->id))
            look->advice = &list->items[i];
    }
    if (look->advice)
        return;
    look->advice = bh_advices_add(list, BH_ADVICE_INSTALLS, BH_TOPOLOGY_PER_AGENT,
                                  "%s package '%s' changed under the agents of box '%s'", kind, name, look->box->id);
    look->advice->box = bh_arena_strdup(list->arena, look->box->id);
    look->advice->action = "a box of its own for whoever needs, or makes, another environment";
}

static void cite(struct box_look *look, struct bh_wall at, const char *agent, const char *text)
{
    bh_advice_cite(look->q->list, look->advice, (struct bh_pos){0}, agent, "%s", text)->at = at;
}

/* Whether what an installer calls a place is this directory. */
static bool is_at(const struct bh_install *install, const struct bh_package *p)
{
    if (!bh_streq(install->kind, p->kind) || !bh_streq(install->name, p->name))
        return false;
    if (bh_streq(p->kind, "npm")) {
        size_t len = strlen(install->place);
        return strncmp(p->place, install->place, len) == 0 && bh_streq(p->place + len, "/node_modules");
    }
    size_t len = strlen(install->place);
    return len > 0 ? strncmp(p->place, install->place, len) == 0 && p->place[len] == '/'
                   : bh_starts_with(p->place, "/usr/");
}

/* The package as it was at the end of state `last`, or NULL: an older state shows through where nobody wrote. */
static const struct bh_package *package_at(const struct box_look *look, size_t last, const struct bh_install *install)
{
    for (size_t i = last + 1; i-- > 0;) {
        for (size_t k = 0; k < look->states[i].packages.len; k++) {
            const struct bh_package *p = &look->states[i].packages.items[k];
            if (is_at(install, p))
                return p->version ? p : NULL;
        }
    }
    return NULL;
}

/* The last execution of the agent that succeeded; NULL where none did. */
static const struct bh_attempt_row *success_of(const struct box_look *look, const char *agent)
{
    const struct bh_run_record *r = look->q->record;
    const struct bh_attempt_row *found = NULL;
    for (size_t i = 0; i < r->n_attempts; i++) {
        if (bh_streq(r->attempts[i].agent, agent) && bh_streq(r->attempts[i].status, "succeeded"))
            found = &r->attempts[i];
    }
    return found;
}

static void compare_asked(struct box_look *look, const struct bh_plan_agent *agent, const struct bh_installs *installs)
{
    const struct bh_attempt_row *row = success_of(look, agent->name);
    size_t after = 0;
    while (row && after < look->n && look->states[after].at.us < row->ended.us)
        after++;
    for (size_t i = 0; row && after < look->n && i < installs->len; i++) {
        const struct bh_install *asked = &installs->items[i];
        const struct bh_package *p = package_at(look, after, asked);
        struct bh_version has = p ? bh_version_exact(p->version) : (struct bh_version){0};
        if (!bh_versions_conflict(&asked->version, &has))
            continue;
        find_advice(look, asked->name, asked->kind);
        BH_CLEANUP_FREE char *text =
            bh_asprintf("'%s' asked for %s package '%s' %s, and when it had ended there was %s in %s", agent->name,
                        asked->kind, asked->name, asked->version.text, p->version, p->place);
        cite(look, look->states[after].at, agent->name, text);
        bh_advice_name(look->q->list, look->advice, agent->name);
        if (look->advice->n_changes == 0)
            bh_advice_own_box(look->q->subject, look->q->list, look->advice, agent->doc);
    }
}

static void look_at_asked(struct box_look *look)
{
    const struct bh_plan *plan = look->q->subject->plan;
    for (size_t i = 0; i < look->box->n_agents; i++) {
        const struct bh_plan_agent *agent = &plan->agents[look->box->agents[i]];
        const char *workdir = agent->doc->workdir.s ? agent->doc->workdir.s : "/workspace";
        struct bh_installs installs = {0};
        bh_installs_of(agent->setup, agent->n_setup, workdir, look->q->list->arena, &installs);
        bh_installs_of(agent->run, agent->n_run, workdir, look->q->list->arena, &installs);
        compare_asked(look, agent, &installs);
    }
}

/* --- under another --- */

static bool was_there(const struct box_look *look, const struct bh_attempt_row *row, const struct state *s)
{
    int64_t until = s->at.us ? s->at.us : INT64_MAX;
    return bh_streq(row->box, look->box->id) && row->started.us && row->started.us < until &&
           bh_span_end(row) > s->from.us;
}

/* Two agents at the same time while the state came to be. */
static bool was_shared(const struct box_look *look, const struct state *s)
{
    const struct bh_run_record *r = look->q->record;
    for (size_t i = 0; i < r->n_attempts; i++) {
        for (size_t k = 0; k < i && was_there(look, &r->attempts[i], s); k++) {
            if (was_there(look, &r->attempts[k], s) && !bh_streq(r->attempts[i].agent, r->attempts[k].agent) &&
                bh_spans_overlap(&r->attempts[i], &r->attempts[k]))
                return true;
        }
    }
    return false;
}

static void report_change(struct box_look *look, const struct bh_package *was, const struct bh_package *now,
                          const struct state *s)
{
    const struct bh_run_record *r = look->q->record;
    find_advice(look, now->name, now->kind);
    bool had_changes = look->advice->n_changes > 0, first = true;
    BH_CLEANUP_FREE char *text =
        bh_asprintf("%s package '%s' in %s was %s and then %s, while several agents were at work there", now->kind,
                    now->name, now->place, was->version, now->version ? now->version : "gone");
    cite(look, s->at, NULL, text);
    for (size_t i = 0; i < r->n_attempts; i++) {
        const struct bh_attempt_row *row = &r->attempts[i];
        const struct bh_plan_agent *agent = was_there(look, row, s) ? bh_question_agent(look->q, row->agent) : NULL;
        if (!agent)
            continue;
        bh_question_cite(look->q, look->advice, row, "'%s' was in box '%s' then", row->agent, row->box);
        bh_advice_name(look->q->list, look->advice, row->agent);
        if (!had_changes && !first)
            bh_advice_own_box(look->q->subject, look->q->list, look->advice, agent->doc);
        first = false;
    }
}

static void look_at_changes(struct box_look *look)
{
    struct bh_map *known = bh_map_new(NULL); /* kind, place and name → struct bh_package */
    for (size_t i = 0; i < look->n; i++) {
        const struct state *s = &look->states[i];
        for (size_t k = 0; k < s->packages.len; k++) {
            struct bh_package *p = &look->states[i].packages.items[k];
            BH_CLEANUP_FREE char *key = bh_asprintf("%s\n%s\n%s", p->kind, p->place, p->name);
            const struct bh_package *was = bh_map_get(known, key);
            bool changed = was && was->version && !bh_streq(was->version, p->version);
            if (changed && was_shared(look, s))
                report_change(look, was, p, s);
            bh_map_put(known, key, p);
        }
    }
    bh_map_free(known);
}

void bh_advise_packages(const struct bh_run_question *q)
{
    for (size_t i = 0; q->home && i < q->subject->plan->n_boxes; i++) {
        struct box_look look = {.q = q, .box = bh_question_shared_box(q, q->subject->plan->boxes[i].id)};
        if (!look.box)
            continue;
        scan_layers(&look, i);
        scan_kept(&look);
        look_at_asked(&look);
        look_at_changes(&look);
        for (size_t k = 0; k < look.n; k++)
            bh_packages_fini(&look.states[k].packages);
        bh_free(look.states);
    }
}
