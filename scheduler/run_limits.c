/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that a document asks for against what the backend can enforce. Who asks is collected by the place where it is
 * written: a thousand agents that have a limit from `defaults` are one error, not a thousand.
 */
#include "scheduler/run_limits.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "workers/box/box.h"

enum { NAMED = 5 }; /* the most that one error lists by name */

struct ask {
    const char *names[NAMED];
    size_t n;
    bool is_box;
    const char *path; /* of the document: an agent's, or "boxes", or "defaults" */
    const char *box;  /* in "boxes" */
    struct bh_pos pos;
    struct bh_limits limits; /* `asked`: those that cannot be had */
};

struct checking {
    const struct bh_plan *plan;
    const struct bh_policy *policy;
    uint32_t can, missing;
    struct ask *asks;
    size_t n, cap;
    int64_t host_memory;
    int host_cpus;
    struct bh_errlist *errors;
    bool too_large;
    struct bh_map *by_place; /* "box:line:column:bits" → index + 1 */
};

static struct bh_pos pos_of(const struct bh_traits *traits)
{
    const struct bh_str *parts[] = {&traits->crew_limits, &traits->box_limits, &traits->limits};
    for (size_t i = 0; i < BH_ARRAY_LEN(parts); i++) {
        if (parts[i]->s)
            return parts[i]->pos;
    }
    return (struct bh_pos){0};
}

static void set_place(const struct checking *c, const struct ask *ask, struct bh_err **err)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s%s%s.limits", ask->path, ask->box ? "." : "", ask->box ? ask->box : "");
    bh_err_at(err, c->plan->pipeline->file, ask->pos.line, ask->pos.column, path);
}

/* More than the host has; said once for a place of the document. */
static void check_fit(struct checking *c, const struct ask *who, const char *name)
{
    struct bh_err *err = NULL;
    BH_CLEANUP_FREE char *place = bh_asprintf("%d:%d", who->pos.line, who->pos.column);
    if (bh_limits_fit(&who->limits, c->host_memory, c->host_cpus, &err) == 0)
        return;
    c->too_large = true;
    bh_err_wrap(&err, -BH_E_HOST, "%s '%s'", who->is_box ? "box" : "agent", name);
    set_place(c, who, &err);
    if (bh_map_put(c->by_place, place, c))
        bh_errlist_add(c->errors, err);
    else
        bh_err_free(err);
}

static void add(struct checking *c, const struct ask *who, const char *name)
{
    uint32_t bad = who->limits.asked & ~c->can;
    check_fit(c, who, name);
    if (bad == 0)
        return;
    BH_CLEANUP_FREE char *place =
        bh_asprintf("%d:%d:%d:%u", who->is_box, who->pos.line, who->pos.column, (unsigned)bad);
    size_t at = (uintptr_t)bh_map_get(c->by_place, place);
    if (at == 0) {
        struct ask *made = BH_PUSH(c->asks, c->n, c->cap);
        *made = *who;
        made->n = 0;
        made->limits.asked = bad;
        at = c->n;
        bh_map_put(c->by_place, place, (void *)at);
    }
    struct ask *ask = &c->asks[at - 1];
    if (ask->n < NAMED)
        ask->names[ask->n] = name;
    ask->n++;
    c->missing |= bad;
}

static void add_box(struct checking *c, const struct bh_plan_box *box)
{
    bool own = box->doc && box->doc->traits.said.asked & ~c->can;
    const struct bh_traits *traits = own ? &box->doc->traits : &c->plan->pipeline->traits;
    if (!box->shared) { /* what its one agent says */
        const struct bh_plan_agent *a = &c->plan->agents[box->agents[0]];
        struct ask ask = {.path = a->doc->path, .pos = pos_of(&a->doc->traits), .limits = box->limits};
        add(c, &ask, a->name);
        return;
    }
    struct ask ask = {.is_box = true, .path = own ? "boxes" : "defaults", .pos = pos_of(traits), .limits = box->limits};
    ask.box = own ? box->doc->name.s : NULL;
    add(c, &ask, box->id);
    for (size_t i = 0; i < box->n_agents; i++) {
        const struct bh_plan_agent *a = &c->plan->agents[box->agents[i]];
        struct ask group = {.path = a->doc->path, .pos = pos_of(&a->doc->traits), .limits = a->limits};
        add(c, &group, a->name);
    }
}

/* --- in words --- */

static void add_names(struct bh_buf *out, const struct ask *ask)
{
    size_t shown = ask->n < NAMED ? ask->n : NAMED;
    bh_buf_adds(out, ask->is_box ? (ask->n > 1 ? "boxes " : "box ") : (ask->n > 1 ? "agents " : "agent "));
    for (size_t i = 0; i < shown; i++)
        bh_buf_addf(out, "%s'%s'", i == 0 ? "" : i + 1 == ask->n ? " and " : ", ", ask->names[i]);
    if (ask->n > shown)
        bh_buf_addf(out, " and %zu more", ask->n - shown);
}

static void add_limits(struct bh_buf *out, const struct bh_limits *limits)
{
    char text[BH_LIMIT_TEXT];
    const char *between = "";
    for (int i = 0; i < BH_N_LIMITS; i++) {
        uint32_t rest = limits->asked >> i;
        if (!(rest & 1u))
            continue;
        bh_buf_addf(out, "%s%s %s", between, bh_limit_name((enum bh_limit)i),
                    bh_limit_format((enum bh_limit)i, limits->of[i], text));
        rest >>= 1;
        between = (rest & (rest - 1)) ? ", " : " and ";
    }
}

static const char *why(const struct bh_boxes *boxes)
{
    const char *said = boxes->ops->why_not ? boxes->ops->why_not(boxes) : NULL;
    return said ? said : "there is no control group that bulkhead may use";
}

/* Who has turned the groups off need not be told how to get them. */
static const char *first_remedy(const struct bh_boxes *boxes)
{
    if (strstr(why(boxes), "BULKHEAD_CGROUP is off"))
        return "unset BULKHEAD_CGROUP";
    return "run bulkhead as root or with a delegated cgroup (systemd-run --user --scope -p Delegate=yes bulkhead run "
           "…)";
}

static void refuse(const struct checking *c, const struct ask *ask, const struct bh_boxes *boxes)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    struct bh_err *err = NULL;
    add_names(&text, ask);
    bh_buf_addf(&text, " ask%s for ", ask->n > 1 ? "" : "s");
    add_limits(&text, &ask->limits);
    bh_err_set(&err, BH_E_HOST, 0, "%s, which this host cannot enforce: %s", text.data, why(boxes));
    bh_err_hint(&err,
                "%s, take the limit away, or let the site's policy allow it unenforced: 'limits: best-effort' in %s; "
                "'bulkhead doctor' says more",
                first_remedy(boxes), c->policy->n > 0 ? c->policy->sites[0].file : BH_SITE_FILE);
    set_place(c, ask, &err);
    bh_errlist_add(c->errors, err);
}

static const char mode[] = "best-effort:";

static char *watched_text(uint32_t missing)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_buf_adds(&text, mode);
    for (int i = 0; i < BH_N_LIMITS; i++) {
        if (missing & 1u << i)
            bh_buf_addf(&text, " %s", bh_limit_name((enum bh_limit)i));
    }
    return bh_buf_take(&text);
}

int bh_run_limits_check(const struct bh_plan *plan, const struct bh_boxes *boxes, const struct bh_policy *policy,
                        char **ret_watched, struct bh_errlist *errors)
{
    struct checking c = {.plan = plan,
                         .policy = policy,
                         .can = boxes->ops->enforceable(boxes),
                         .errors = errors,
                         .by_place = bh_map_new(NULL)};
    bh_limits_host(&c.host_memory, &c.host_cpus);
    c.can |= 1u << BH_LIMIT_OUTPUT; /* the worker's own business */
    for (size_t i = 0; i < plan->n_boxes; i++)
        add_box(&c, &plan->boxes[i]);
    bool refused = c.missing && !bh_policy_best_effort(policy);
    for (size_t i = 0; refused && i < c.n; i++)
        refuse(&c, &c.asks[i], boxes);
    if (refused || c.too_large)
        bh_errlist_sort(errors);
    else if (c.missing)
        *ret_watched = watched_text(c.missing);
    bh_map_free(c.by_place);
    bh_free(c.asks);
    return refused || c.too_large ? -BH_E_HOST : 0;
}

char *bh_run_limits_list(const char *watched)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    if (!watched || !bh_starts_with(watched, mode))
        return NULL;
    for (const char *p = watched + strlen(mode); *p; p++) {
        if (*p != ' ')
            bh_buf_addc(&text, *p);
        else if (text.len > 0)
            bh_buf_adds(&text, ", ");
    }
    return bh_buf_take(&text);
}
