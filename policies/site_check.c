/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds a plan to the site's rules. Every refusal says what the document asks, where it stands there, and which line of
 * which policy forbids it. Pure. An agent is judged by the rules for its pipeline and labels, a shared box by those of
 * every agent in it.
 */
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "base/val.h"
#include "policies/site_priv.h"
#include "topologies/placeholder.h"
#include "topologies/plan.h"

struct judge {
    const struct bh_site *site;
    const struct bh_plan *plan;
    const struct bh_agent *doc; /* whose rules these are */
    struct bh_site_rules rules;
    const char *leave; /* the rule that would allow what is refused next; NULL: which one is plain, or there is none */
    struct bh_map *said; /* refusals: one for all agents of a box, and all cells of a matrix */
    struct bh_errlist *errors;
    int rc;
};

/* --- which rules --- */

static const char *label_of(const struct bh_agent *doc, const char *name)
{
    for (size_t i = 0; i < doc->labels.len; i++) {
        if (bh_streq(doc->labels.items[i].name.s, name))
            return doc->labels.items[i].value.s;
    }
    return NULL;
}

static bool fits(const struct bh_site_pipeline *p, const struct bh_pipeline *pipeline, const struct bh_agent *doc)
{
    if (p->name && !bh_glob_match(p->name, pipeline->name.s))
        return false;
    for (size_t i = 0; i < p->n_labels; i++) {
        if (!bh_streq(label_of(doc, p->labels[i]), p->values[i]))
            return false;
    }
    return true;
}

static void lay_over(struct bh_site_rules *rules, const struct bh_site_rules *more)
{
    for (size_t i = 0; i < BH_N_SITE_LISTS; i++)
        rules->lists[i] = more->lists[i].line ? more->lists[i] : rules->lists[i];
    for (size_t i = 0; i < BH_N_SITE_LEAVES; i++)
        rules->leaves[i] = more->leaves[i].line ? more->leaves[i] : rules->leaves[i];
    for (size_t i = 0; i < BH_N_LIMITS; i++)
        rules->limits[i] = more->limits[i].line ? more->limits[i] : rules->limits[i];
    rules->timeout_ns = more->timeout_ns.line ? more->timeout_ns : rules->timeout_ns;
    rules->attempts = more->attempts.line ? more->attempts : rules->attempts;
    rules->parallel = more->parallel.line ? more->parallel : rules->parallel;
}

struct bh_site_rules bh_site_rules_for(const struct bh_site *site, const struct bh_pipeline *pipeline,
                                       const struct bh_agent *doc)
{
    struct bh_site_rules rules = site->rules;
    for (size_t i = 0; i < site->n_pipelines; i++) {
        if (fits(&site->pipelines[i], pipeline, doc))
            lay_over(&rules, &site->pipelines[i].rules);
    }
    return rules;
}

/* --- refusals --- */

static void refuse(struct judge *j, struct bh_pos pos, const char *path, int line, const char *fmt, ...)
    BH_PRINTF(5, 6);

static void refuse(struct judge *j, struct bh_pos pos, const char *path, int line, const char *fmt, ...)
{
    BH_CLEANUP_BUF struct bh_buf what = BH_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    bh_buf_vaddf(&what, fmt, ap);
    va_end(ap);
    j->rc = -BH_E_POLICY;
    if (!bh_map_put(j->said, what.data, j))
        return;
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_POLICY, 0, "the site does not allow %s", what.data);
    if (line > 0)
        bh_err_detail(&err, "rule: %s:%d", j->site->file, line);
    else
        bh_err_detail(&err, "no rule of the site gives leave for it");
    if (j->leave && !j->site->file)
        bh_err_hint(&err,
                    "change the document, or give leave by '%s' in %s or your own file (BULKHEAD_SITE, else "
                    "~/.config/bulkhead/site.yaml)",
                    j->leave, BH_SITE_FILE);
    else if (j->leave)
        bh_err_hint(&err, "change the document, or ask the administrator of this host for '%s' in %s", j->leave,
                    j->site->file);
    else
        bh_err_hint(&err, "change the document, or ask the administrator of this host");
    bh_err_at(&err, j->plan->pipeline->file, pos.line, pos.column, path);
    bh_errlist_add(j->errors, err);
}

static bool is_listed(const struct bh_site_list *list, const char *text)
{
    for (size_t i = 0; i < list->n; i++) {
        if (bh_streq(list->items[i], text) || bh_glob_match(list->items[i], text))
            return true;
    }
    return list->line == 0;
}

static void check_listed(struct judge *j, enum bh_site_what what, struct bh_pos pos, const char *path, const char *noun,
                         const char *text)
{
    const struct bh_site_list *list = &j->rules.lists[what];
    if (!is_listed(list, text))
        refuse(j, pos, path, list->line, "%s '%s'", noun, text);
}

/* --- networks --- */

static void check_network_value(struct judge *j, struct bh_pos pos, const char *path, const struct bh_val *v)
{
    const char *word = bh_val_get_str(v);
    const struct bh_site_word *host = &j->rules.leaves[BH_SITE_HOST_NETWORK];
    if (bh_streq(word, "host")) {
        j->leave = "allow: {host_network: true}";
        if (!host->yes)
            refuse(j, pos, path, host->line, "the host's network (network: host)");
        j->leave = NULL;
    } else if (word && !bh_streq(word, "none")) {
        check_listed(j, BH_SITE_HOSTS, pos, path, "network", word);
    }
    for (size_t i = 0; i < bh_val_len(v); i++) /* a list, {allow: […]}, or phases */
        check_network_value(j, pos, path, bh_val_at(v, i));
}

static void check_network(struct judge *j, struct bh_pos pos, const char *path, const char *network)
{
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    if (!network || *network != '{')
        v = bh_val_str(network ? network : "none");
    else if (bh_json_parse(network, strlen(network), &v, NULL) != 0)
        return; /* the loader has made it: it can be parsed */
    check_network_value(j, pos, path, v);
}

/* --- secrets, endpoints, gates --- */

static void check_secret(struct judge *j, const struct bh_node *entry, struct bh_pos pos, const char *name)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    const struct bh_node *command = bh_node_get(entry, "command");
    const char *env = bh_node_text(bh_node_get(entry, "env")), *file = bh_node_text(bh_node_get(entry, "file"));
    if (command)
        bh_buf_addf(&text, "command:%s", bh_node_text(bh_node_at(command, 0)));
    else
        bh_buf_addf(&text, "%s:%s", env ? "env" : "file", env ? env : file);
    BH_CLEANUP_FREE char *path = bh_asprintf("secrets.%s", name);
    check_listed(j, BH_SITE_SECRETS, pos, path, "secret", text.data);
}

static void check_secret_named(struct judge *j, const char *name)
{
    const struct bh_node *secrets = bh_node_get(j->plan->pipeline->root, "secrets");
    for (size_t i = 0; i < bh_node_len(secrets); i++) {
        if (bh_streq(bh_node_key_at(secrets, i), name))
            check_secret(j, bh_node_at(secrets, i), bh_node_key_pos_at(secrets, i), name);
    }
}

/* Those that its headers hold. */
static void check_endpoint_secrets(struct judge *j, const char *endpoint)
{
    const struct bh_node *endpoints = bh_node_get(j->plan->pipeline->root, "endpoints");
    const struct bh_node *headers = bh_node_get(bh_node_get(endpoints, endpoint), "headers");
    for (size_t h = 0; h < bh_node_len(headers); h++) {
        const char *text = bh_node_text(bh_node_at(headers, h));
        struct bh_placeholder hold;
        size_t offset = 0;
        while (text && bh_placeholder_next(text, &offset, &hold)) {
            BH_CLEANUP_FREE char *name = bh_strndup(hold.name, hold.name_len);
            if (hold.kind == BH_HOLD_SECRET)
                check_secret_named(j, name);
        }
    }
}

static void check_endpoint(struct judge *j, const char *name)
{
    for (size_t i = 0; i < j->plan->pipeline->n_endpoints; i++) {
        const struct bh_endpoint *e = &j->plan->pipeline->endpoints[i];
        BH_CLEANUP_FREE char *path = bh_asprintf("endpoints.%s.upstream", name);
        if (bh_streq(e->name.s, name) && e->upstream.s)
            check_listed(j, BH_SITE_ENDPOINTS, e->upstream.pos, path, "upstream", e->upstream.s);
    }
    check_endpoint_secrets(j, name);
}

static void check_powers(struct judge *j)
{
    for (size_t i = 0; i < j->doc->secrets.len; i++)
        check_secret_named(j, j->doc->secrets.items[i].s);
    for (size_t i = 0; i < j->doc->endpoints.len; i++)
        check_endpoint(j, j->doc->endpoints.items[i].s);
}

static void check_gates(struct judge *j)
{
    const struct bh_site_word *endorse = &j->rules.leaves[BH_SITE_ENDORSE];
    for (size_t i = 0; endorse->line && !endorse->yes && i < bh_node_len(j->doc->accept); i++) {
        const struct bh_node *entry = bh_node_at(j->doc->accept, i);
        if (bh_streq(bh_node_text(bh_node_get(entry, "endorse")), "true"))
            refuse(j, bh_node_key_pos_at(j->doc->accept, i), j->doc->path, endorse->line, "endorsing '%s'",
                   bh_node_key_at(j->doc->accept, i));
    }
}

/* --- mounts --- */

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    return strncmp(path, folder, n) == 0 && (n == 1 || path[n] == '\0' || path[n] == '/');
}

static void check_mounts(struct judge *j)
{
    const struct bh_site_list *mounts = &j->rules.lists[BH_SITE_MOUNTS];
    for (size_t i = 0; i < j->plan->pipeline->n_sources; i++) {
        const struct bh_source *s = &j->plan->pipeline->sources[i];
        bool allowed = !s->mount || !s->dir.s;
        for (size_t k = 0; !allowed && k < mounts->n; k++)
            allowed = is_below(s->dir.s, mounts->items[k]) && !strstr(s->dir.s, "..");
        if (!allowed)
            refuse(j, s->pos, NULL, mounts->line, "a mount of '%s'", s->dir.s);
    }
}

/* --- caps --- */

static void check_limits(struct judge *j, const struct bh_limits *of, const char *path)
{
    for (int i = 0; i < BH_N_LIMITS; i++) {
        const struct bh_site_number *cap = &j->rules.limits[i];
        char most[BH_LIMIT_TEXT], value[BH_LIMIT_TEXT];
        bool said = of->of[i] > 0;
        int64_t asked = said ? of->of[i] : bh_limit_usual((enum bh_limit)i);
        if (cap->line == 0 || (asked > 0 && asked <= cap->most))
            continue;
        refuse(j, j->doc->name.pos, path, cap->line, "agent '%s' more than limits.%s %s (%s: %s)", j->doc->name.s,
               bh_limit_name((enum bh_limit)i), bh_limit_format((enum bh_limit)i, cap->most, most),
               said ? "the document says" : "nothing is said, and the default is",
               asked > 0 ? bh_limit_format((enum bh_limit)i, asked, value) : "none");
    }
}

static void check_timeout(struct judge *j, const char *phase, bool is_there, int64_t ns)
{
    const struct bh_site_number *cap = &j->rules.timeout_ns;
    char most[BH_UNIT_TEXT], value[BH_UNIT_TEXT];
    if (is_there && cap->line > 0 && ns > cap->most)
        refuse(j, j->doc->name.pos, j->doc->path, cap->line, "agent '%s' a timeout of more than %s (%s: %s)",
               j->doc->name.s, bh_format_duration(cap->most, most), phase, bh_format_duration(ns, value));
}

static void check_caps(struct judge *j, const struct bh_plan_agent *agent, const struct bh_plan_box *box)
{
    const struct bh_timeouts *t = &j->doc->timeouts;
    struct bh_limits own = box->shared ? box->limits : agent->limits;
    own.of[BH_LIMIT_OUTPUT] = agent->limits.of[BH_LIMIT_OUTPUT];
    check_limits(j, &own, j->doc->path);
    check_timeout(j, "setup", agent->n_setup > 0, t->setup);
    check_timeout(j, "prepare", agent->n_prepare > 0, t->prepare);
    check_timeout(j, "run", true, t->run);
    check_timeout(j, "check", agent->n_check > 0, t->check);
    const struct bh_site_number *cap = &j->rules.attempts;
    if (cap->line > 0 && j->doc->attempts.count > cap->most)
        refuse(j, j->doc->name.pos, j->doc->path, cap->line, "agent '%s' more than %lld attempts", j->doc->name.s,
               (long long)cap->most);
}

/* --- all of it --- */

static void check_box(struct judge *j, const struct bh_plan_box *box)
{
    const struct bh_site_word *root = &j->rules.leaves[BH_SITE_ROOT];
    check_listed(j, BH_SITE_BASES, j->doc->name.pos, j->doc->path, "base", box->base);
    check_network(j, j->doc->name.pos, j->doc->path, box->network);
    if (root->line && !root->yes && bh_streq(box->user, "root"))
        refuse(j, j->doc->name.pos, j->doc->path, root->line, "agent '%s' to be root in its box (user: root)",
               j->doc->name.s);
}

static void judge_agent(struct judge *j, size_t index)
{
    const struct bh_plan_agent *agent = &j->plan->agents[index];
    const struct bh_plan_box *box = &j->plan->boxes[agent->box];
    j->doc = agent->doc;
    j->rules = bh_site_rules_for(j->site, j->plan->pipeline, agent->doc);
    check_box(j, box);
    check_caps(j, agent, box);
    check_gates(j);
    check_powers(j);
    if (index == 0)
        check_mounts(j);
}

int bh_policy_check(const struct bh_policy *policy, const struct bh_plan *plan, struct bh_errlist *errors)
{
    static const struct bh_site nobody; /* who has said nothing has given no leave either */
    int rc = 0;
    for (size_t s = 0; s < policy->n || s == 0; s++) {
        BH_CLEANUP_MAP struct bh_map *said = bh_map_new(NULL);
        struct judge j = {
            .site = policy->n > 0 ? &policy->sites[s] : &nobody, .plan = plan, .said = said, .errors = errors};
        for (size_t i = 0; i < plan->n_agents; i++)
            judge_agent(&j, i);
        rc = j.rc != 0 ? j.rc : rc;
    }
    return rc;
}
