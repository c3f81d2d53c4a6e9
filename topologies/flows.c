/* SPDX-License-Identifier: Apache-2.0 */
/* Owns the index of readers: counted first, then filled, so that it is two arrays whatever the document. */
#include "topologies/flows.h"

typedef void visit_fn(struct bh_flows *f, size_t producer, struct bh_flow flow);

static void each_flow(struct bh_flows *f, const struct bh_planner *pl, visit_fn *visit)
{
    for (size_t a = 0; a < pl->plan->n_agents; a++) {
        const struct bh_plan_agent *agent = &pl->plan->agents[a];
        const struct bh_draft *d = &pl->drafts[a];
        for (size_t i = 0; !agent->implicit_inputs && i < agent->n_inputs; i++) {
            for (size_t p = 0; p < agent->inputs[i].n_producers; p++)
                visit(f, agent->inputs[i].producers[p], (struct bh_flow){a, i, false});
        }
        for (size_t i = 0; i < d->n_steers; i++) {
            for (size_t p = 0; d->steers[i].is_data && p < d->steers[i].n_producers; p++)
                visit(f, d->steers[i].producers[p], (struct bh_flow){a, i, true});
        }
    }
}

static void count(struct bh_flows *f, size_t producer, struct bh_flow flow)
{
    (void)flow;
    f->first[producer + 1]++;
}

/* `first` is one behind while it is being filled. */
static void put(struct bh_flows *f, size_t producer, struct bh_flow flow)
{
    f->items[f->first[producer]++] = flow;
}

void bh_flows_init(struct bh_flows *f, const struct bh_planner *pl)
{
    size_t n = pl->plan->n_agents;
    *f = (struct bh_flows){.first = bh_calloc(n + 1, sizeof(*f->first))};
    each_flow(f, pl, count);
    for (size_t i = 0; i < n; i++)
        f->first[i + 1] += f->first[i];
    f->items = bh_calloc(f->first[n] + 1, sizeof(*f->items));
    each_flow(f, pl, put);
    memmove(f->first + 1, f->first, n * sizeof(*f->first));
    f->first[0] = 0;
}

void bh_flows_fini(struct bh_flows *f)
{
    bh_free(f->first);
    bh_free(f->items);
    bh_free(f->queue);
}

void bh_flows_enqueue(struct bh_flows *f, size_t agent)
{
    *BH_PUSH(f->queue, f->len, f->cap) = agent;
}

const char *bh_flow_artifact(const struct bh_planner *pl, struct bh_flow flow)
{
    return flow.is_steer ? pl->drafts[flow.reader].steers[flow.index].name
                         : pl->plan->agents[flow.reader].inputs[flow.index].name;
}
