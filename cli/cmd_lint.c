/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead lint: every error of the documents, without running anything. */
#include <stdio.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "policies/site.h"
#include "policies/trust.h"
#include "scheduler/dispatch/submission.h"

/* Errors of one document, and with -o json its warnings too. */
struct findings {
    struct bh_errlist errors, warnings;
    bool policy; /* asked for */
};

static void copy_warning(struct bh_errlist *to, const struct bh_err *warning)
{
    struct bh_err *copy = NULL;
    (void)bh_err_set(&copy, bh_err_code(warning), 0, "%s", bh_err_message(warning));
    if (bh_err_get_hint(warning))
        bh_err_hint(&copy, "%s", bh_err_get_hint(warning));
    bh_err_at(&copy, bh_err_file(warning), bh_err_line(warning), bh_err_column(warning), bh_err_path(warning));
    bh_errlist_add(to, copy);
}

static void look(const char *file, const struct bh_policy *policy, struct findings *f)
{
    struct bh_cli_document doc = {0};
    struct bh_plan_options options = {.lint = true};
    int rc = bh_cli_document_read(file, &doc, &f->errors);
    if (rc == 0)
        rc = bh_cli_document_plan(&doc, &options, &f->errors);
    if (rc == 0)
        rc = bh_submission_make(doc.plan, doc.file, NULL, 0, false, NULL, NULL, &f->errors);
    if (rc == 0)
        rc = bh_trust_check(doc.plan, policy, &f->errors);
    if (rc == 0 && f->policy)
        rc = bh_policy_check(policy, doc.plan, &f->errors);
    for (size_t i = 0; doc.plan && i < doc.plan->n_warnings; i++)
        copy_warning(&f->warnings, doc.plan->warnings[i]);
    bh_cli_document_fini(&doc);
    (void)rc; /* what went wrong is in the list */
}

static struct bh_val *list_to_val(const struct bh_errlist *list)
{
    struct bh_val *v = bh_val_list();
    for (size_t i = 0; i < list->len; i++)
        bh_val_add(v, bh_err_to_val(list->items[i]));
    return v;
}

static void print_json(const struct findings *f)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    bh_val_set(v, "errors", list_to_val(&f->errors));
    bh_val_set(v, "warnings", list_to_val(&f->warnings));
    bh_cli_print_json(v);
}

static void print_text(const struct bh_args *args, struct findings *f)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; i < f->warnings.len; i++)
        bh_err_format(f->warnings.items[i], &text);
    for (const char *p = text.data; *p;) { /* the message lines begin with the place, hints are indented */
        size_t len = strcspn(p, "\n");
        fprintf(stderr, "%s%.*s\n", *p == ' ' ? "" : "warning: ", (int)len, p);
        p += len + (p[len] == '\n');
    }
    if (f->errors.len == 0 && !bh_args_has(args, "quiet"))
        printf("%zu file%s without errors, %zu warning%s\n", args->n_operands, args->n_operands == 1 ? "" : "s",
               f->warnings.len, f->warnings.len == 1 ? "" : "s");
}

static int lint(const struct bh_args *args)
{
    struct findings f = {0};
    struct bh_policy policy = {0};
    f.policy = bh_args_has(args, "policy"); /* else it only says which addresses need not be public */
    int rc = bh_policy_load(f.policy ? bh_args_get(args, "policy") : NULL, &policy, &f.errors);
    for (size_t i = 0; rc == 0 && i < args->n_operands; i++)
        look(args->operands[i], &policy, &f);
    bh_policy_fini(&policy);
    bh_errlist_sort(&f.warnings);
    int status = bh_cli_exit_of(&f.errors);
    if (bh_args_json(args)) {
        bh_errlist_sort(&f.errors);
        print_json(&f);
        bh_errlist_fini(&f.errors);
    } else {
        print_text(args, &f);
        if (status != 0)
            (void)bh_cli_fail_list(args, &f.errors);
        else
            bh_errlist_fini(&f.errors);
    }
    bh_errlist_fini(&f.warnings);
    return status;
}

static const struct bh_opt opts[] = {
    {"policy", 0, BH_OPT_VALUE, "SITE", "check against this policy too, and the system's own"},
};

const struct bh_cmd bh_cmd_lint = {
    .name = "lint",
    .operands = "FILE...",
    .summary = "print every error of a pipeline, with file:line:column",
    .more = "Exits 0 where there is none, 3 where a document is invalid, 6 where two agents declare the same output, 5 "
            "where trust or the policy forbids it.",
    .example = "bulkhead lint pipeline.yaml",
    .opts = opts,
    .n_opts = BH_ARRAY_LEN(opts),
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .run = lint,
};
