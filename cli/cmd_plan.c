/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead plan: what a file asks for, its boxes and why, the order; runs nothing. */
#include <stdio.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/plan_text.h"
#include "policies/site.h"
#include "policies/trust.h"
#include "scheduler/dispatch/known_taint.h"
#include "scheduler/dispatch/submission.h"

struct format {
    const char *name;
    void (*print)(const struct bh_plan *plan);
};

static void print_plan_json(const struct bh_plan *plan)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_plan_to_val(plan);
    bh_cli_print_json(v);
}

static const struct format formats[] = {
    {"text", bh_plan_print_text},
    {"json", print_plan_json},
    {"dot", bh_plan_print_dot},
    {"mermaid", bh_plan_print_mermaid},
};

static const struct format *find_format(const struct bh_args *args, struct bh_err **err)
{
    const char *name = bh_args_get(args, "format");
    if (!name)
        name = bh_args_json(args) ? "json" : "text";
    for (size_t i = 0; i < BH_ARRAY_LEN(formats); i++) {
        if (bh_streq(formats[i].name, name))
            return &formats[i];
    }
    (void)bh_err_set(err, BH_E_USAGE, 0, "unknown format '%s', it is one of text, json, dot and mermaid", name);
    return NULL;
}

/*
 * What some run of this state directory knows as tainted is so in the plan that a new run would have. Where there is no
 * state, nothing is known.
 */
static int follow_known_taint(const struct bh_args *args, struct bh_cli_document *doc, struct bh_plan_options *options,
                              struct bh_val **ret_submission, struct bh_errlist *errors)
{
    struct bh_cli_run state;
    struct bh_err *err = NULL;
    BH_CLEANUP_VAL struct bh_val *submission = NULL;
    bool any = false;
    int rc = bh_cli_store_open(args, &state, &err);
    if (rc == 0)
        rc = bh_submission_make(doc->plan, doc->file, NULL, 0, false, NULL, &submission, errors);
    if (rc == 0)
        rc = bh_known_taint_find(state.store, submission, &any, &err);
    if (rc == 0 && any) {
        bh_known_taint_options(submission, options);
        bh_plan_free(BH_TAKE(doc->plan));
        rc = bh_cli_document_plan(doc, options, errors);
        bh_known_taint_options_fini(options);
    }
    bh_cli_run_close(&state);
    *ret_submission = BH_TAKE(submission);
    if (rc == -BH_E_NOT_FOUND) {
        bh_err_free(BH_TAKE(err));
        rc = 0;
    }
    if (err)
        bh_errlist_add(errors, err);
    return rc;
}

/* Loads, plans, prints; then says what this version cannot run. */
static void plan_file(const struct bh_args *args, const struct format *format, const struct bh_cli_params *params,
                      struct bh_errlist *errors)
{
    struct bh_policy policy = {0};
    struct bh_cli_document doc = {0};
    BH_CLEANUP_VAL struct bh_val *submission = NULL;
    struct bh_plan_options options = {.params = params->items, .n_params = params->len};
    int rc = bh_cli_document_read(args->operands[0], &doc, errors);
    if (rc == 0)
        rc = bh_cli_document_plan(&doc, &options, errors);
    if (rc == 0)
        rc = bh_submission_make(doc.plan, doc.file, NULL, 0, false, NULL, NULL, errors);
    if (rc == 0)
        rc = follow_known_taint(args, &doc, &options, &submission, errors);
    if (rc == 0)
        rc = bh_policy_load(NULL, &policy, errors);
    if (rc == 0)
        rc = bh_trust_check(doc.plan, &policy, errors);
    if (rc == 0)
        rc = bh_policy_check(&policy, doc.plan, errors);
    if (rc == 0) {
        format->print(doc.plan);
        rc = bh_plan_check_supported(doc.plan, errors);
    }
    bh_known_taint_tell(submission, errors);
    (void)rc; /* what went wrong is in the list */
    bh_policy_fini(&policy);
    bh_cli_document_fini(&doc);
}

static int plan(const struct bh_args *args)
{
    struct bh_err *err = NULL;
    struct bh_cli_params params = {0};
    struct bh_errlist errors = {0};
    const struct format *format = find_format(args, &err);
    if (!format || bh_cli_params_read(args, &params, &err) != 0) {
        bh_cli_params_free(&params);
        return bh_cli_fail(args, err);
    }
    plan_file(args, format, &params, &errors);
    bh_cli_params_free(&params);
    if (errors.len == 0)
        return 0;
    /* With JSON on stdout the plan is the answer; what follows goes to stderr as text. */
    bool printed = bh_err_code(errors.items[0]) == BH_E_NOT_SUPPORTED && format->print != bh_plan_print_text;
    return bh_cli_fail_list(printed ? NULL : args, &errors);
}

static const struct bh_opt opts[] = {
    {"param", 'p', BH_OPT_REPEATED, "NAME=VALUE", "a parameter"},
    {"params-file", 0, BH_OPT_VALUE, "FILE", "parameters from a JSON object"},
    {"format", 0, BH_OPT_VALUE, "text|json|dot|mermaid", "how to print the plan"},
};

const struct bh_cmd bh_cmd_plan = {
    .name = "plan",
    .operands = "FILE",
    .summary = "print where each agent would run, and why; runs nothing",
    .more = "First what the file asks of this host, then the boxes with the reason of each split, then the agents in "
            "order. A file that uses keys "
            "of a later version is printed first and then refused (exit 3).",
    .example = "bulkhead plan pipeline.yaml\nbulkhead plan pipeline.yaml --format dot | dot -Tsvg > plan.svg",
    .opts = opts,
    .n_opts = BH_ARRAY_LEN(opts),
    .min_operands = 1,
    .max_operands = 1,
    .run = plan,
};
