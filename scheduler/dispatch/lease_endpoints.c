/* SPDX-License-Identifier: Apache-2.0 */
/* From the document's endpoints to those of a lease. Values of secrets are never looked at. */
#include "scheduler/dispatch/lease_endpoints.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "scheduler/dispatch/lease_secrets.h"
#include "topologies/placeholder.h"
#include "topologies/plan.h"

static const struct bh_endpoint *find(const struct bh_pipeline *p, const char *name)
{
    for (size_t i = 0; i < p->n_endpoints; i++) {
        if (bh_streq(p->endpoints[i].name.s, name))
            return &p->endpoints[i];
    }
    return NULL;
}

/* Placeholders without white space in them: the form that worker and broker look for. */
static char *plain_holds(const char *text)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    struct bh_placeholder hold;
    size_t offset = 0, done = 0;
    while (bh_placeholder_next(text, &offset, &hold)) {
        bh_buf_add(&out, text + done, hold.start - done);
        if (hold.kind == BH_HOLD_SECRET)
            bh_buf_addf(&out, "{{secrets.%.*s}}", (int)hold.name_len, hold.name);
        else if (hold.kind == BH_HOLD_URL)
            bh_buf_adds(&out, "{{url}}");
        else
            bh_buf_add(&out, text + hold.start, hold.end - hold.start);
        done = hold.end;
    }
    bh_buf_adds(&out, text + done);
    return bh_buf_take(&out);
}

static struct bh_lease_env *copy_pairs(const struct bh_pairs *pairs, size_t *ret_n)
{
    struct bh_lease_env *copy = bh_calloc(pairs->len + 1, sizeof(*copy));
    for (size_t i = 0; i < pairs->len; i++)
        copy[i] = (struct bh_lease_env){.name = bh_strdup(pairs->items[i].name.s),
                                        .value = plain_holds(pairs->items[i].value.s)};
    *ret_n = pairs->len;
    return copy;
}

static bool has_secret(const struct bh_lease_endpoint *e, const char *name)
{
    for (size_t i = 0; i < e->n_secrets; i++) {
        if (bh_streq(e->secrets[i].name, name))
            return true;
    }
    return false;
}

/* Those that one header names, each once. */
static void add_secrets(const struct bh_pipeline *p, const char *file, const char *header, struct bh_lease_endpoint *e)
{
    struct bh_placeholder hold;
    size_t offset = 0;
    while (bh_placeholder_next(header, &offset, &hold)) {
        BH_CLEANUP_FREE char *name = bh_strndup(hold.name, hold.name_len);
        if (hold.kind != BH_HOLD_SECRET || has_secret(e, name))
            continue;
        e->secrets = bh_realloc_array(e->secrets, e->n_secrets + 1, sizeof(*e->secrets));
        bh_lease_secret_of(p, file, name, NULL, &e->secrets[e->n_secrets++]);
    }
}

static void fill_one(const struct bh_pipeline *p, const char *file, const struct bh_endpoint *doc,
                     struct bh_lease_endpoint *e)
{
    *e = (struct bh_lease_endpoint){.name = bh_strdup(doc->name.s),
                                    .upstream = bh_strdup(doc->upstream.s),
                                    .max_parallel = doc->max_parallel,
                                    .tainted = doc->tainted};
    e->headers = copy_pairs(&doc->headers, &e->n_headers);
    e->env = copy_pairs(&doc->env, &e->n_env);
    e->n_allow = doc->allow.len;
    e->allow = bh_calloc(e->n_allow + 1, sizeof(*e->allow));
    for (size_t i = 0; i < e->n_allow; i++)
        e->allow[i] = bh_strdup(doc->allow.items[i].s);
    for (size_t i = 0; i < doc->headers.len; i++)
        add_secrets(p, file, doc->headers.items[i].value.s, e);
}

/* What an agent does not say itself, its box may say for each of its agents. */
static void fill_call_limits(const struct bh_plan *plan, const struct bh_plan_agent *agent, struct bh_lease *lease)
{
    static const struct bh_traits nothing;
    const struct bh_box_doc *box = plan->boxes[agent->box].doc;
    const struct bh_traits *own = &agent->doc->traits, *around = box ? &box->traits : &nothing;
    lease->max_requests = own->max_requests > 0 ? own->max_requests : around->max_requests;
    lease->max_tokens = own->max_tokens > 0 ? own->max_tokens : around->max_tokens;
}

void bh_lease_fill_endpoints(const struct bh_plan *plan, const char *file, const struct bh_plan_agent *agent,
                             struct bh_lease *lease)
{
    const struct bh_strs *names = &agent->doc->endpoints;
    lease->endpoints = bh_calloc(names->len + 1, sizeof(*lease->endpoints));
    for (size_t i = 0; i < names->len; i++) {
        const struct bh_endpoint *doc = find(plan->pipeline, names->items[i].s);
        BH_ASSERT(doc); /* the loader has checked it */
        fill_one(plan->pipeline, file, doc, &lease->endpoints[lease->n_endpoints++]);
    }
    fill_call_limits(plan, agent, lease);
}
