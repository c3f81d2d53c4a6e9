/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the site policy. What is kept is copied: the document it stands in does not live on. */
#include "base/mem.h"
#include "base/text.h"
#include "policies/range.h"
#include "policies/site_priv.h"
#include "topologies/settings.h"

enum { COUNT_MAX = 1000000 };

/* --- allow --- */

static void read_list(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_site_list *list = field;
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of patterns"))
        return;
    list->line = bh_node_key_pos(n).line;
    list->items = bh_calloc(bh_node_len(n) + 1, sizeof(*list->items));
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_str text;
        if (bh_read_filled(r, bh_node_at(n, i), "a pattern", BH_HOLDS_NONE, &text))
            list->items[list->n++] = bh_strdup(text.s);
    }
}

static void read_range_list(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_site_list *list = field;
    read_list(r, n, list);
    for (size_t i = 0; i < list->n && list->n == bh_node_len(n); i++) {
        struct bh_range range;
        if (!bh_range_parse(list->items[i], &range))
            bh_read_bad(r, bh_node_at(n, i), "a range of addresses", "like 10.1.0.0/16 or fd00:1::/32");
    }
}

static void read_mounts(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_site_list *list = field;
    read_list(r, n, list);
    for (size_t i = 0; i < list->n && list->n == bh_node_len(n); i++) {
        if (*list->items[i] != '/')
            bh_read_bad(r, bh_node_at(n, i), "a path from the root", NULL);
    }
}

static void read_leave(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_site_word *word = field;
    if (bh_read_bool(r, n, &word->yes))
        word->line = bh_node_key_pos(n).line;
}

#define LIST(what) offsetof(struct bh_site_rules, lists) + (what) * sizeof(struct bh_site_list)
#define LEAVE(what) offsetof(struct bh_site_rules, leaves) + (what) * sizeof(struct bh_site_word)
static const struct bh_key allow_keys[] = {
    {"bases", read_list, LIST(BH_SITE_BASES), 0},
    {"hosts", read_list, LIST(BH_SITE_HOSTS), 0},
    {"secrets", read_list, LIST(BH_SITE_SECRETS), 0},
    {"endpoints", read_list, LIST(BH_SITE_ENDPOINTS), 0},
    {"mounts", read_mounts, LIST(BH_SITE_MOUNTS), 0},
    {"ranges", read_range_list, LIST(BH_SITE_RANGES), 0},
    {"host_network", read_leave, LEAVE(BH_SITE_HOST_NETWORK), 0},
    {"root", read_leave, LEAVE(BH_SITE_ROOT), 0},
    {"endorse", read_leave, LEAVE(BH_SITE_ENDORSE), 0},
};
static const struct bh_key_table allow_table = {"site_allow", "what a site allows", allow_keys,
                                                BH_ARRAY_LEN(allow_keys), 0};

static void read_allow(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_map(r, n, &allow_table, field);
}

/* --- caps --- */

static void read_limit_caps(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_site_rules *rules = field;
    struct bh_limits limits = {0};
    bh_settings_limits(r, n, &limits);
    for (int i = 0; i < BH_N_LIMITS; i++) {
        const struct bh_node *said = bh_node_get(n, bh_limit_name((enum bh_limit)i));
        if (said && limits.of[i] > 0)
            rules->limits[i] = (struct bh_site_number){limits.of[i], bh_node_key_pos(said).line};
    }
}

static void read_timeout_cap(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_site_number *cap = field;
    if (bh_read_duration(r, n, false, &cap->most))
        cap->line = bh_node_key_pos(n).line;
}

static void read_count_cap(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_site_number *cap = field;
    if (bh_read_int(r, n, 1, COUNT_MAX, &cap->most))
        cap->line = bh_node_key_pos(n).line;
}

static const struct bh_key caps_keys[] = {
    {"limits", read_limit_caps, 0, 0},
    {"timeout", read_timeout_cap, offsetof(struct bh_site_rules, timeout_ns), 0},
    {"attempts", read_count_cap, offsetof(struct bh_site_rules, attempts), 0},
    {"parallel", read_count_cap, offsetof(struct bh_site_rules, parallel), 0},
};
static const struct bh_key_table caps_table = {"site_caps", "the caps of a site", caps_keys, BH_ARRAY_LEN(caps_keys),
                                               0};

static void read_caps(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_map(r, n, &caps_table, field);
}

/* --- pipelines --- */

static void read_match_name(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_str text;
    if (bh_read_filled(r, n, "a pattern of names", BH_HOLDS_NONE, &text))
        *(char **)field = bh_strdup(text.s);
}

static void read_match_labels(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_site_pipeline *p = field;
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of label to value"))
        return;
    p->labels = bh_calloc(bh_node_len(n) + 1, sizeof(*p->labels));
    p->values = bh_calloc(bh_node_len(n) + 1, sizeof(*p->values));
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_str value;
        if (!bh_read_text(r, bh_node_at(n, i), "a value", BH_HOLDS_NONE, &value))
            continue;
        p->labels[p->n_labels] = bh_strdup(bh_node_key_at(n, i));
        p->values[p->n_labels++] = bh_strdup(value.s);
    }
}

#define RULES offsetof(struct bh_site_pipeline, rules)
static const struct bh_key pipeline_keys[] = {
    {"name", read_match_name, offsetof(struct bh_site_pipeline, name), 0},
    {"labels", read_match_labels, 0, 0},
    {"caps", read_caps, RULES, 0},
    {"allow", read_allow, RULES, 0},
};
static const struct bh_key_table pipeline_table = {"site_pipeline", "rules for some pipelines", pipeline_keys,
                                                   BH_ARRAY_LEN(pipeline_keys), 0};

static void read_pipelines(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_site *site = field;
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of rules for some pipelines"))
        return;
    site->pipelines = bh_calloc(bh_node_len(n) + 1, sizeof(*site->pipelines));
    for (size_t i = 0; i < bh_node_len(n); i++)
        (void)bh_read_map(r, bh_node_at(n, i), &pipeline_table, &site->pipelines[site->n_pipelines++]);
}

/* --- the file --- */

static void read_enforcement(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"enforced", "best-effort"};
    size_t i;
    if (bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i))
        *(bool *)field = i == 1;
}

static void read_budget(struct bh_reader *r, struct bh_node *n, void *field)
{
    int64_t bytes = 0;
    if (!bh_read_size(r, n, &bytes))
        return;
    if (bytes > 0)
        *(int64_t *)field = bytes;
    else
        bh_read_bad(r, n, "a size above 0", NULL);
}

static const struct bh_key keys[] = {
    {"limits", read_enforcement, offsetof(struct bh_site, best_effort), 0},
    {"disk_budget", read_budget, offsetof(struct bh_site, disk_budget), 0},
    {"caps", read_caps, offsetof(struct bh_site, rules), 0},
    {"allow", read_allow, offsetof(struct bh_site, rules), 0},
    {"pipelines", read_pipelines, 0, 0},
};
const struct bh_key_table bh_site_table = {"site", "a site policy", keys, BH_ARRAY_LEN(keys), 0};
