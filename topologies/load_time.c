/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what bounds an execution: timeouts by phase, and retries.
 */
#include "base/text.h"
#include "topologies/load_priv.h"

/* --- timeout --- */

static void read_phase(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_duration(r, n, false, field);
}

static void read_grace(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_duration(r, n, true, field);
}

#define PHASE(name)                                              \
    {                                                            \
#name, read_phase, offsetof(struct bh_timeouts, name), 0 \
    }
static const struct bh_key timeout_keys[] = {PHASE(setup),
                                             PHASE(prepare),
                                             PHASE(run),
                                             PHASE(check),
                                             {"grace", read_grace, offsetof(struct bh_timeouts, grace), 0}};
#undef PHASE
const struct bh_key_table bh_timeout_table = {"timeout", "a timeout", timeout_keys, BH_ARRAY_LEN(timeout_keys), 0};

void bh_read_timeout(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_timeouts *t = field;
    int64_t ns;
    if (bh_node_kind(n) == BH_NODE_MAP)
        (void)bh_read_map(r, n, &bh_timeout_table, t);
    else if (bh_read_duration(r, n, false, &ns))
        t->setup = t->prepare = t->run = t->check = ns;
}

/* --- retries --- */

struct retries {
    int64_t max;
    int64_t backoff, max_backoff;
};

static void read_max(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_int(r, n, 0, BH_COUNT_MAX, &((struct retries *)field)->max);
}

static void read_on(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const reasons[] = {"exit",  "signal",         "timeout",        "oom",      "disk-full", "pids",
                                          "check", "output-missing", "output-invalid", "box-lost", "host"};
    static const char *const never[] = {"policy", "collision", "budget"};
    (void)field;
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of reasons"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        const struct bh_node *item = bh_node_at(n, i);
        size_t at, refused = BH_ARRAY_LEN(never);
        for (size_t k = 0; k < BH_ARRAY_LEN(never); k++)
            refused = bh_streq(bh_node_text(item), never[k]) ? k : refused;
        if (refused < BH_ARRAY_LEN(never))
            bh_read_error(r, item, BH_E_BAD_VALUE, NULL, "what failed by '%s' is never tried again", never[refused]);
        else
            (void)bh_read_word(r, item, reasons, BH_ARRAY_LEN(reasons), &at);
    }
}

static const struct bh_key retries_keys[] = {
    {"max", read_max, 0, BH_KEY_REQUIRED},
    {"backoff", read_grace, offsetof(struct retries, backoff), 0},
    {"max_backoff", read_grace, offsetof(struct retries, max_backoff), 0},
    {"on", read_on, 0, 0},
    {"grow", NULL, 0, BH_KEY_RESERVED},
};
const struct bh_key_table bh_retries_table = {"retries", "retries", retries_keys, BH_ARRAY_LEN(retries_keys), 0};

void bh_read_retries(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_agent *a = field;
    struct retries retries = {.max = 0, .backoff = -1, .max_backoff = -1};
    if (bh_node_kind(n) == BH_NODE_MAP)
        (void)bh_read_map(r, n, &bh_retries_table, &retries);
    else
        (void)bh_read_int(r, n, 0, BH_COUNT_MAX, &retries.max);
    if (retries.backoff >= 0 && retries.max_backoff >= 0 && retries.backoff > retries.max_backoff)
        bh_read_error(r, bh_node_get(n, "max_backoff"), BH_E_INVALID, NULL, "max_backoff is below backoff");
    a->retries = retries.max;
    if (retries.max > 0)
        bh_read_later(r, n, "retries");
}
