/* SPDX-License-Identifier: Apache-2.0 */
/* Names and digests of what would pass go into the log, and never what is in it. */
#include "scheduler/dispatch/gate_audit.h"

#include "base/text.h"
#include "policies/audit.h"
#include "scheduler/dispatch/question.h"

struct bh_val *bh_gate_verdict(const struct bh_val *question, const struct bh_decision *d)
{
    char at[BH_WALL_TEXT];
    struct bh_val *v = bh_val_copy(question);
    bh_question_set_answer(v, "person", d->by, bh_wall_format(d->at, at), d->reason);
    return v;
}

static void add_fact(struct bh_val *fields, const char *key, const struct bh_val *facts)
{
    const struct bh_val *v = bh_val_get(facts, key);
    bh_val_set(fields, key, v ? bh_val_copy(v) : bh_val_null());
}

int bh_gate_audit(const struct bh_home *home, const char *run, const char *verdict, const struct bh_val *facts,
                  struct bh_err **err)
{
    static const char *const keys[] = {"name", "of", "digest", "by", "at", "reason", "how", "replaces"};
    BH_CLEANUP_VAL struct bh_val *fields = bh_val_map();
    bh_val_set_str(fields, "run", run);
    bh_val_set_str(fields, "verdict", verdict);
    for (size_t i = 0; i < BH_ARRAY_LEN(keys); i++) {
        if (bh_val_type(bh_val_get(facts, keys[i])) != BH_VAL_NULL)
            add_fact(fields, keys[i], facts);
    }
    const struct bh_val *artifacts = bh_val_get(facts, "artifacts");
    struct bh_val *list = bh_val_set(fields, "artifacts", bh_val_list());
    for (size_t i = 0; i < bh_val_len(artifacts); i++) {
        struct bh_val *a = bh_val_add(list, bh_val_map());
        add_fact(a, "name", bh_val_at(artifacts, i));
        add_fact(a, "digest", bh_val_at(artifacts, i));
    }
    return bh_audit_add(home, BH_AUDIT_GATE, fields, err);
}
