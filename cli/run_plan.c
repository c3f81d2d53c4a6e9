/* SPDX-License-Identifier: Apache-2.0 */
/* Plans again, compares with the disk; changes nothing. */
#include "cli/run_plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "scheduler/dispatch/known_taint.h"
#include "scheduler/dispatch/submission.h"

static struct bh_val *parsed(const char *json)
{
    struct bh_val *v = NULL;
    if (!json || bh_json_parse(json, strlen(json), &v, NULL) != 0)
        return bh_val_null();
    return v;
}

void bh_run_plan_again(const struct bh_cli_run *run, struct bh_cli_document *doc)
{
    struct bh_errlist errors = {0};
    BH_CLEANUP_VAL struct bh_val *params = parsed(run->row.params);
    if (!run->row.document || bh_val_type(params) != BH_VAL_MAP)
        return;
    size_t n = bh_val_len(params);
    BH_CLEANUP_FREE struct bh_param_value *values = bh_calloc(n + 1, sizeof(*values));
    for (size_t i = 0; i < n; i++)
        values[i] = (struct bh_param_value){bh_val_key_at(params, i), bh_val_get_str(bh_val_at(params, i))};
    struct bh_plan_options options = {.params = values, .n_params = n};
    BH_CLEANUP_VAL struct bh_val *submission = bh_run_submission(run);
    bh_known_taint_options(submission, &options);
    int rc = bh_pipeline_load(run->row.file, run->row.document, strlen(run->row.document), &doc->pipeline, &errors);
    if (rc == 0)
        rc = bh_plan_make(doc->pipeline, &options, &doc->plan, &errors);
    (void)rc; /* the rest can be told without a plan */
    bh_known_taint_options_fini(&options);
    bh_errlist_fini(&errors);
}

/* --- parameters --- */

static struct bh_val *typed(const struct bh_pipeline *pipeline, const char *name, const char *text)
{
    enum bh_param_type type = BH_PARAM_STRING;
    for (size_t k = 0; k < pipeline->n_params; k++) {
        if (bh_streq(pipeline->params[k].name.s, name))
            type = pipeline->params[k].type;
    }
    return bh_param_to_val(type, text);
}

struct bh_val *bh_run_params(const struct bh_cli_run *run, const struct bh_plan *plan)
{
    BH_CLEANUP_VAL struct bh_val *texts = parsed(run->row.params);
    struct bh_val *v = bh_val_map();
    for (size_t i = 0; i < bh_val_len(texts); i++) {
        const char *name = bh_val_key_at(texts, i), *text = bh_val_get_str(bh_val_at(texts, i));
        bh_val_set(v, name, plan && text ? typed(plan->pipeline, name, text) : bh_val_copy(bh_val_at(texts, i)));
    }
    return v;
}

/* --- what has changed since --- */

struct bh_val *bh_run_submission(const struct bh_cli_run *run)
{
    return parsed(run->row.submission);
}

const char *bh_run_file_from_here(const struct bh_cli_run *run)
{
    const char *file = run->row.file ? run->row.file : "";
    BH_CLEANUP_FREE char *here = realpath(".", NULL);
    size_t len = here ? strlen(here) : 0;
    if (len > 1 && strncmp(file, here, len) == 0 && file[len] == '/')
        return file + len + 1;
    return file;
}

static void note(const char *name, const char *file)
{
    BH_CLEANUP_BUF struct bh_buf line = BH_BUF_INIT;
    while (bh_starts_with(name, "./"))
        name += 2;
    bh_buf_addf(&line,
                "note: '%s' has changed since this run was submitted; the run keeps the old one; to use the new one: "
                "bulkhead run %s",
                name, file);
    BH_CLEANUP_BUF struct bh_buf escaped = BH_BUF_INIT;
    bh_escape_terminal(&escaped, line.data, line.len);
    fprintf(stderr, "%s\n", escaped.data);
}

static bool document_changed(const struct bh_cli_run *run)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    return bh_read_file(run->row.file, BH_PIPELINE_MAX_BYTES, &text, NULL) == 0 &&
           !bh_streq(text.data, run->row.document);
}

void bh_run_note_changes(const struct bh_cli_run *run)
{
    struct bh_cli_document doc = {0};
    const char *file = bh_run_file_from_here(run);
    bh_run_plan_again(run, &doc);
    if (doc.plan) {
        BH_CLEANUP_VAL struct bh_val *submission = bh_run_submission(run);
        BH_CLEANUP_VAL struct bh_val *changed = bh_submission_changed(doc.plan, run->row.file, submission);
        if (document_changed(run))
            note(file, file);
        for (size_t i = 0; i < bh_val_len(changed); i++)
            note(bh_val_get_str(bh_val_at(changed, i)), file);
    }
    bh_cli_document_fini(&doc);
}
