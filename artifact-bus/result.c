/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of an execution as tables (see lease.c). It comes from a worker, which is another host: the engine takes
 * from it only what these tables let through.
 */
#include <limits.h>
#include <string.h>

#include "artifact-bus/lease.h"
#include "artifact-bus/lease_priv.h"
#include "artifact-bus/text_rules_priv.h"
#include "base/json.h"
#include "base/val.h"
#include "topologies/names.h"

enum {
    DETAIL_MAX = 256 * 1024,
    EXIT_MAX = 255,
    SIGNAL_MAX = 64,
    LIMITS_TEXT_MAX = 1023,
    EVIDENCE_MAX = 65536,
    SNAPSHOTS_MAX = 1000
};

/* "memory=cgroup-v2 disk=watchdog+best-effort": nothing that a terminal would obey. */
static const char *limits_text_problem(const char *text)
{
    static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789=+- ";
    return text[strspn(text, chars)] != '\0' ? "is no list of limits" : NULL;
}

/* It is stored and handed out as it is. */
static const char *evidence_problem(const char *text)
{
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    bool good = bh_json_parse(text, strlen(text), &v, NULL) == 0 && bh_val_type(v) == BH_VAL_MAP;
    return good ? NULL : "is no JSON object";
}

static const struct bh_field output_fields[] = {
    FIELD(bh_result_output, name, .kind = BH_FIELD_TEXT, .max = BH_ARTIFACT_MAX, .problem = bh_artifact_name_problem),
    FIELD(bh_result_output, object, .kind = BH_FIELD_STRUCT, .sub = &bh_object_shape),
};
static const struct bh_shape output_shape = SHAPE("output", bh_result_output, output_fields);

static const char *const outcome_words[] = {
    [BH_OUTCOME_SUCCEEDED] = "succeeded",
    [BH_OUTCOME_FAILED] = "failed",
    [BH_OUTCOME_CANCELLED] = "cancelled",
    [BH_OUTCOME_LOST] = "lost",
    NULL,
};

static const char *result_problem(const void *s)
{
    const struct bh_result *r = s;
    bool succeeded = r->outcome == BH_OUTCOME_SUCCEEDED;
    if (succeeded && r->reason)
        return "succeeded and gives a reason why not";
    if (r->outcome == BH_OUTCOME_FAILED && !r->reason)
        return "failed without a reason";
    bool ended = succeeded || r->outcome == BH_OUTCOME_FAILED;
    return !ended && r->n_outputs > 0 ? "did not end and has outputs" : NULL;
}

static const struct bh_field result_fields[] = {
    FIELD(bh_result, instance, .kind = BH_FIELD_CHARS, .max = BH_INSTANCE_LEN, .problem = bh_rule_instance_id),
    FIELD(bh_result, epoch, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_result, outcome, .kind = BH_FIELD_WORD, .words = outcome_words),
    FIELD(bh_result, reason, .kind = BH_FIELD_OPT_TEXT, .max = BH_NAME_MAX, .problem = bh_rule_reason),
    FIELD(bh_result, detail, .kind = BH_FIELD_OPT_TEXT, .max = DETAIL_MAX),
    FIELD(bh_result, exit_code, .kind = BH_FIELD_INT, .min = -1, .max = EXIT_MAX),
    FIELD(bh_result, signal, .kind = BH_FIELD_INT, .max = SIGNAL_MAX),
    FIELD(bh_result, started, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_result, ended, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    LIST(bh_result, outputs, n_outputs, .kind = BH_FIELD_STRUCTS, .sub = &output_shape, .max_items = BH_OUTPUTS_MAX),
    FIELD(bh_result, kept_box, .kind = BH_FIELD_OPT_TEXT, .max = BH_PATH_TEXT_MAX, .problem = bh_rule_path),
    FIELD(bh_result, cpu_ms, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_result, max_rss_bytes, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_result, disk_bytes, .kind = BH_FIELD_INT64, .min = -1, .max = INT64_MAX),
    FIELD(bh_result, box_ms, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_result, output_dropped, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_result, requests, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_result, tokens_in, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_result, tokens_out, .kind = BH_FIELD_INT64, .max = INT64_MAX),
    FIELD(bh_result, limits, .kind = BH_FIELD_OPT_TEXT, .min = 1, .max = LIMITS_TEXT_MAX,
          .problem = limits_text_problem),
    FIELD(bh_result, evidence, .kind = BH_FIELD_OPT_TEXT, .min = 1, .max = EVIDENCE_MAX, .problem = evidence_problem),
    FIELD(bh_result, snapshot, .kind = BH_FIELD_OPT_TEXT, .max = BH_NAME_MAX, .problem = bh_rule_digest),
    FIELD(bh_result, snapshot_reused, .kind = BH_FIELD_BOOL),
    LIST(bh_result, snapshots, n_snapshots, .kind = BH_FIELD_TEXTS, .max = BH_NAME_MAX, .max_items = SNAPSHOTS_MAX,
         .problem = bh_rule_segment),
    FIELD(bh_result, has_score, .kind = BH_FIELD_BOOL),
    FIELD(bh_result, score, .kind = BH_FIELD_NUM),
    FIELD(bh_result, passed, .kind = BH_FIELD_BOOL),
};
static const struct bh_shape result_shape = SHAPE("result", bh_result, result_fields, .problem = result_problem);

void bh_result_fini(struct bh_result *r)
{
    bh_shape_fini(&result_shape, r);
}

struct bh_val *bh_result_to_val(const struct bh_result *r)
{
    return bh_shape_to_val(&result_shape, r);
}

int bh_result_from_val(const struct bh_val *v, struct bh_result *ret, struct bh_err **err)
{
    struct bh_result result = {0};
    int rc = bh_shape_from_val(&result_shape, v, &result, err);
    if (rc == 0)
        *ret = result;
    return rc;
}
