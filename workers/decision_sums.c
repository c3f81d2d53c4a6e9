/* SPDX-License-Identifier: Apache-2.0 */
/* Two tables of a fixed size, one of what was let through and one of denials (decision_sums.h). */
#include "workers/decision_sums.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"

enum { SUMS = 64, N_COUNTS = 4 };

static const char *const counts[N_COUNTS] = {"up", "down", "tokens_in", "tokens_out"};

struct sum {
    enum bh_audit_kind kind;
    char *key;
    struct bh_val *fields;
    int64_t more, count[N_COUNTS];
};

struct bh_decision_sums {
    struct sum of[2][SUMS]; /* let through, denied */
    size_t n[2];
    int64_t rest[BH_AUDIT_KINDS_]; /* denials that were not named */
};

struct bh_decision_sums *bh_decision_sums_new(void)
{
    return bh_alloc(sizeof(struct bh_decision_sums));
}

static void give(struct sum *sum, bh_decision_sum_fn *fn, void *arg)
{
    struct bh_val *fields = BH_TAKE(sum->fields);
    if (sum->more > 0 && fn) {
        bh_val_set_int(fields, "more", sum->more);
        for (int i = 0; i < N_COUNTS; i++) {
            if (sum->count[i] > 0)
                bh_val_set_int(fields, counts[i], sum->count[i]);
        }
        fn(arg, sum->kind, BH_TAKE(fields));
    }
    bh_val_free(fields);
    bh_free(sum->key);
    *sum = (struct sum){0};
}

static void give_all(struct bh_decision_sums *s, bool denied, bh_decision_sum_fn *fn, void *arg)
{
    for (size_t i = 0; i < s->n[denied]; i++)
        give(&s->of[denied][i], fn, arg);
    s->n[denied] = 0;
}

void bh_decision_sums_free(struct bh_decision_sums *s)
{
    if (!s)
        return;
    give_all(s, false, NULL, NULL);
    give_all(s, true, NULL, NULL);
    bh_free(s);
}

static struct sum *find(struct bh_decision_sums *s, enum bh_audit_kind kind, const char *key, bool denied)
{
    for (size_t i = 0; i < s->n[denied]; i++) {
        struct sum *sum = &s->of[denied][i];
        if (sum->kind == kind && bh_streq(sum->key, key))
            return sum;
    }
    return NULL;
}

bool bh_decision_sums_add(struct bh_decision_sums *s, enum bh_audit_kind kind, struct bh_val *fields,
                          const struct bh_val *msg, bool denied, bh_decision_sum_fn *fn, void *arg)
{
    BH_CLEANUP_VAL struct bh_val *own = fields;
    BH_CLEANUP_BUF struct bh_buf key = BH_BUF_INIT;
    bh_json_format(own, &key);
    struct sum *sum = find(s, kind, key.data, denied);
    int64_t times = bh_val_int_of(msg, "times");
    if (sum) {
        sum->more += times > 0 ? times : 1;
        for (int i = 0; i < N_COUNTS; i++)
            sum->count[i] += bh_val_int_of(msg, counts[i]);
        return false;
    }
    if (s->n[denied] == SUMS && denied) {
        s->rest[kind] += times > 0 ? times : 1;
        return false;
    }
    if (s->n[denied] == SUMS)
        give_all(s, denied, fn, arg);
    s->of[denied][s->n[denied]++] =
        (struct sum){.kind = kind, .key = bh_buf_take(&key), .fields = BH_TAKE(own), .more = times};
    return times == 0;
}

void bh_decision_sums_take(struct bh_decision_sums *s, bh_decision_sum_fn *fn, void *arg)
{
    give_all(s, false, fn, arg);
    give_all(s, true, fn, arg);
    for (int kind = 0; kind < BH_AUDIT_KINDS_; kind++) {
        if (s->rest[kind] == 0)
            continue;
        struct bh_val *fields = bh_val_map();
        bh_val_set_int(fields, "more", s->rest[kind]);
        bh_val_set_int(fields, "denied", s->rest[kind]);
        s->rest[kind] = 0;
        fn(arg, (enum bh_audit_kind)kind, fields);
    }
}
