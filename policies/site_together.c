/* SPDX-License-Identifier: Apache-2.0 */
/* What several policies say together: the stricter wins. Pure. */
#include "base/mem.h"
#include "base/text.h"
#include "policies/range.h"
#include "policies/site_priv.h"
#include "topologies/plan.h"

bool bh_policy_best_effort(const struct bh_policy *policy)
{
    bool all = policy->n > 0;
    for (size_t i = 0; i < policy->n; i++)
        all = all && policy->sites[i].best_effort;
    return all;
}

int64_t bh_policy_disk_budget(const struct bh_policy *policy, const char **ret_file)
{
    int64_t least = 0;
    for (size_t i = 0; i < policy->n; i++) {
        const struct bh_site *site = &policy->sites[i];
        if (site->disk_budget == 0 || (least > 0 && site->disk_budget >= least))
            continue;
        least = site->disk_budget;
        *ret_file = site->file;
    }
    return least;
}

int64_t bh_policy_parallel(const struct bh_policy *policy, const struct bh_plan *plan)
{
    int64_t least = 0;
    for (size_t s = 0; s < policy->n; s++) {
        for (size_t a = 0; a < plan->n_agents; a++) {
            struct bh_site_rules rules = bh_site_rules_for(&policy->sites[s], plan->pipeline, plan->agents[a].doc);
            if (rules.parallel.line && (least == 0 || rules.parallel.most < least))
                least = rules.parallel.most;
        }
    }
    return least;
}

/* --- ranges --- */

static bool is_within_one(const char *text, const struct bh_site_list *list)
{
    struct bh_range inner, outer;
    for (size_t i = 0; i < list->n; i++) {
        if (bh_range_parse(text, &inner) && bh_range_parse(list->items[i], &outer) &&
            bh_range_is_within(&inner, &outer))
            return true;
    }
    return false;
}

void bh_policy_ranges(const struct bh_policy *policy, const struct bh_plan *plan, size_t agent, char ***ret,
                      size_t *ret_n)
{
    struct bh_site_rules rules[BH_ARRAY_LEN(policy->sites)];
    const struct bh_agent *doc = plan->agents[agent].doc;
    size_t most = 0, n = 0;
    for (size_t s = 0; s < policy->n; s++) {
        rules[s] = bh_site_rules_for(&policy->sites[s], plan->pipeline, doc);
        most += rules[s].lists[BH_SITE_RANGES].n;
    }
    char **texts = bh_calloc(most + 1, sizeof(*texts));
    for (size_t s = 0; s < policy->n; s++) {
        for (size_t i = 0; i < rules[s].lists[BH_SITE_RANGES].n; i++) {
            const char *text = rules[s].lists[BH_SITE_RANGES].items[i];
            bool all = true;
            for (size_t other = 0; other < policy->n; other++)
                all = all && is_within_one(text, &rules[other].lists[BH_SITE_RANGES]);
            if (all)
                texts[n++] = bh_strdup(text);
        }
    }
    *ret = texts;
    *ret_n = n;
}
