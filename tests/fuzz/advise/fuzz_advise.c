/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents of any kind through the rules of advice: commands are read, text is edited by positions, patches are made.
 * What it says must have a place in the document or none, and a patch must be one of this file.
 */
#include <string.h>

#include "base/text.h"
#include "base/val.h"
#include "topologies/advise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct bh_advice *a, int lines)
{
    BH_ASSERT(a->summary && *a->summary && a->n_evidence > 0);
    for (size_t i = 0; i < a->n_evidence; i++)
        BH_ASSERT(a->evidence[i].text && a->evidence[i].pos.line >= 0 && a->evidence[i].pos.line <= lines);
    BH_ASSERT(!a->patch || !*a->patch || bh_starts_with(a->patch, "--- fuzz.yaml\n+++ fuzz.yaml\n@@ -"));
    BH_CLEANUP_VAL struct bh_val *v = bh_advice_to_val(a, "fuzz.yaml");
    BH_ASSERT(bh_val_type(v) == BH_VAL_MAP);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bh_errlist errors = {0};
    struct bh_advise_subject subject = {
        .file = "fuzz.yaml", .text = size ? (const char *)data : "", .len = size, .errors = &errors};
    struct bh_plan_options options = {.lint = true};
    struct bh_pipeline *pipeline = NULL;
    struct bh_plan *plan = NULL;
    struct bh_advices list;
    int rc = bh_pipeline_load(subject.file, subject.text, size, &pipeline, &errors);
    if (rc == 0)
        rc = bh_plan_make(pipeline, &options, &plan, &errors);
    bh_advices_init(&list);
    subject.pipeline = pipeline;
    subject.plan = plan;
    if (rc == 0 || (pipeline && rc == -BH_E_TRUST)) {
        bh_advise_document(&subject, &list);
        bh_advise_one_box(&subject, &list);
        bh_advices_finish(&subject, &list);
    }
    int lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    for (size_t i = 0; i < list.len; i++)
        check(&list.items[i], lines);
    bh_advices_fini(&list);
    bh_plan_free(plan);
    bh_pipeline_free(pipeline);
    bh_errlist_fini(&errors);
    return 0;
}
