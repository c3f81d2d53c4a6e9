/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the inputs of an agent among what is on the bus of its run, by name and by glob. Says why one is not there. */
#include "scheduler/dispatch/lease_inputs.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"

struct finder {
    const struct bh_live_run *run;
    const struct bh_plan *plan;
    const struct bh_plan_agent *agent;
    struct bh_map *seen; /* paths */
    struct bh_found_inputs *ret;
};

static void add(struct finder *f, const struct bh_artifact *artifact, const char *path)
{
    if (bh_map_put(f->seen, path, f))
        *BH_PUSH(f->ret->items, f->ret->len, f->ret->cap) = (struct bh_found_input){artifact, path};
}

static bool made_by(const struct bh_plan *plan, const struct bh_plan_input *input, const char *agent)
{
    for (size_t i = 0; i < input->n_producers; i++) {
        if (bh_streq(plan->agents[input->producers[i]].name, agent))
            return true;
    }
    return false;
}

/* What an attempt left that did not pass lies under its number for people: nobody is made to build on it. NULL: it did,
 * or nobody made it. */
static const struct bh_attempt *refused(const struct finder *f, const struct bh_artifact *a)
{
    struct bh_instance_id instance;
    if (!bh_instance_id_valid(a->instance))
        return NULL;
    memcpy(instance.s, a->instance, sizeof(instance.s));
    const struct bh_attempt *made = bh_engine_find(bh_live_run_engine(f->run), instance);
    return made && made->state != BH_ATTEMPT_SUCCEEDED ? made : NULL;
}

static void add_glob(struct finder *f, const struct bh_plan_input *input)
{
    const struct bh_registry *bus = bh_live_run_registry(f->run);
    for (size_t i = 0; i < bh_registry_len(bus); i++) {
        const struct bh_artifact *a = bh_registry_at(bus, i);
        if (bh_registry_get(bus, a->name) != a || refused(f, a)) /* the first: of an earlier try */
            continue;
        bool wanted = *a->agent ? made_by(f->plan, input, a->agent) : input->source >= 0;
        if (wanted && bh_glob_match(input->name, a->name))
            add(f, a, a->name);
    }
}

static int missing_input(const struct finder *f, const struct bh_plan_input *input, struct bh_err **err)
{
    const char *producer = input->n_producers > 0 ? f->plan->agents[input->producers[0]].name : NULL;
    int rc = bh_err_set(err, BH_E_UNBOUND_INPUT, 0, "the input '%s' was not published%s%s%s", input->name,
                        producer ? " by '" : "", producer ? producer : "", producer ? "'" : "");
    bh_err_hint(err, "mark the input 'optional: true' if the agent can do without it");
    return rc;
}

/* Of name@2 that is not there: the newest try of that attempt, where it ended without passing. */
static const struct bh_attempt *failed_maker(const struct finder *f, const struct bh_plan_input *input)
{
    const struct bh_engine *engine = bh_live_run_engine(f->run);
    const char *at = strrchr(input->name, '@');
    int64_t number = 0;
    if (!at || input->n_producers == 0 || bh_parse_int(at + 1, &number) != 0)
        return NULL;
    for (size_t i = bh_engine_n_attempts(engine); i > 0; i--) {
        const struct bh_attempt *a = bh_engine_attempt(engine, i - 1);
        if (a->node == input->producers[0] && a->kind == BH_EXECUTION_RUN && a->attempt == number)
            return a->state == BH_ATTEMPT_FAILED || a->state == BH_ATTEMPT_CANCELLED ? a : NULL;
    }
    return NULL;
}

static int refused_input(const struct finder *f, const struct bh_plan_input *input, bool left,
                         const struct bh_attempt *by, struct bh_err **err)
{
    bool failed = by->reason != BH_REASON_NONE;
    const char *at = strrchr(input->name, '@');
    int rc = bh_err_set(err, BH_E_UNBOUND_INPUT, 0, "the input '%s' was not published by '%s': attempt %d %s%s%s",
                        input->name, f->plan->agents[by->node].name, by->attempt,
                        failed ? "failed by " : "did not pass", failed ? bh_reason_text(by->reason, by->phase) : "",
                        left ? ", and what it left is not handed on" : "");
    bh_err_hint(err, "take those that passed with '%.*s@*', or mark the input 'optional: true'",
                at ? (int)(at - input->name) : (int)strlen(input->name), input->name);
    return rc;
}

static int add_named(struct finder *f, const struct bh_plan_input *input, bool lenient, struct bh_err **err)
{
    const struct bh_artifact *artifact = bh_registry_get(bh_live_run_registry(f->run), input->name);
    const struct bh_attempt *by = artifact ? refused(f, artifact) : failed_maker(f, input);
    if (artifact && !by)
        add(f, artifact, input->path ? input->path : input->name);
    else if (!input->optional && !lenient)
        return by ? refused_input(f, input, artifact != NULL, by, err) : missing_input(f, input, err);
    return 0;
}

int bh_find_inputs(const struct bh_live_run *run, size_t node, bool lenient, struct bh_found_inputs *ret,
                   struct bh_err **err)
{
    const struct bh_plan *plan = bh_live_run_plan(run);
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    struct bh_found_inputs found = {0};
    struct finder f = {.run = run, .plan = plan, .agent = &plan->agents[node], .seen = seen, .ret = &found};
    int rc = 0;
    for (size_t i = 0; i < f.agent->n_inputs && rc == 0; i++) {
        const struct bh_plan_input *input = &f.agent->inputs[i];
        if (input->is_glob)
            add_glob(&f, input);
        else
            rc = add_named(&f, input, lenient, err);
    }
    if (rc != 0)
        bh_found_inputs_fini(&found);
    else
        *ret = found;
    return rc;
}

void bh_found_inputs_fini(struct bh_found_inputs *found)
{
    bh_free(found->items);
    *found = (struct bh_found_inputs){0};
}
