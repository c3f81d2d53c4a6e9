/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead advise: which topology the symptoms of a document or a run call for, why, and the change that says so. */
#include <stdio.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/run_plan.h"
#include "policies/site.h"
#include "policies/trust.h"
#include "scheduler/advise/advise_run.h"
#include "topologies/advise.h"

/* A document, and where it comes from a run, that run. */
struct question {
    const char *file;
    struct bh_cli_document doc;
    struct bh_cli_run run; /* run.id NULL: of a file */
    struct bh_errlist errors;
    struct bh_advices advices;
};

/* A run is named by its id, a prefix of that, or '@'; everything else is a file, and what is there is one too. */
static bool names_run(const char *operand)
{
    struct stat st;
    if (operand[0] == '@')
        return true;
    return !bh_streq(operand, "-") && strpbrk(operand, "./") == NULL && stat(operand, &st) != 0;
}

/* Trust alone may refuse a document here: how to mend that is what was asked. */
static bool refused_by_trust(const struct bh_errlist *errors)
{
    for (size_t i = 0; i < errors->len; i++) {
        if (bh_err_code(errors->items[i]) != BH_E_TRUST)
            return false;
    }
    return errors->len > 0;
}

/* What is refused beyond the plan; the site only says which addresses need not be public. */
static int check_trust(struct question *q)
{
    struct bh_policy policy = {0};
    int rc = bh_policy_load(NULL, &policy, &q->errors);
    if (rc == 0)
        rc = bh_trust_check(q->doc.plan, &policy, &q->errors);
    bh_policy_fini(&policy);
    return rc;
}

static int read_file(struct question *q, const char *file)
{
    struct bh_plan_options options = {.lint = true};
    int rc = bh_cli_document_read(file, &q->doc, &q->errors);
    q->file = q->doc.file;
    if (rc == 0)
        rc = bh_cli_document_plan(&q->doc, &options, &q->errors);
    if (rc == 0)
        rc = check_trust(q);
    return rc != 0 && refused_by_trust(&q->errors) ? 0 : rc;
}

static int read_run(const struct bh_args *args, struct question *q, const char *name)
{
    struct bh_err *err = NULL;
    int rc = bh_cli_run_open(args, name, &q->run, &err);
    if (rc == 0) {
        bh_run_plan_again(&q->run, &q->doc);
        q->file = bh_run_file_from_here(&q->run);
    }
    if (rc == 0 && !q->doc.plan) {
        rc = bh_err_set(&err, BH_E_NOT_SUPPORTED, 0, "the document of run '%s' cannot be planned any more", q->run.id);
        bh_err_hint(&err, "ask about the file itself: bulkhead advise %s", q->file);
    }
    if (rc != 0)
        bh_errlist_add(&q->errors, err);
    return rc;
}

static int look(struct question *q)
{
    struct bh_err *err = NULL;
    struct bh_advise_subject subject = {
        .file = q->file, .pipeline = q->doc.pipeline, .plan = q->doc.plan, .errors = &q->errors};
    subject.text = q->run.id ? q->run.row.document : q->doc.text.data;
    subject.len = q->run.id ? strlen(subject.text) : q->doc.text.len;
    bh_advise_document(&subject, &q->advices);
    int rc = 0;
    if (q->run.id)
        rc = bh_advise_run(&q->run.home, q->run.store, &q->run.row, &subject, &q->advices, &err);
    bh_advise_one_box(&subject, &q->advices);
    bh_advices_finish(&subject, &q->advices);
    if (rc != 0)
        bh_errlist_add(&q->errors, err);
    return rc;
}

/* --- printing --- */

static void print_evidence(const struct question *q, const struct bh_evidence *e)
{
    char at[BH_WALL_TEXT];
    printf("  ");
    if (e->pos.line > 0) {
        bh_cli_print_escaped(q->file);
        printf(":%d:%d: ", e->pos.line, e->pos.column);
    }
    if (e->at.us)
        printf("%s: ", bh_wall_format(e->at, at));
    bh_cli_print_escaped(e->text);
    putchar('\n');
}

/* As it is, so that patch(1) takes it; control characters of the document are not carried to the terminal. */
static void print_patch(const char *patch)
{
    for (const char *p = patch; *p;) {
        size_t len = strcspn(p, "\n");
        BH_CLEANUP_FREE char *line = bh_strndup(p, len);
        bh_cli_print_escaped(line);
        putchar('\n');
        p += len + (p[len] == '\n');
    }
}

static void print_advice(const struct question *q, const struct bh_advice *advice)
{
    char saved[BH_UNIT_TEXT];
    printf("%s: ", bh_advice_rule_text(advice->rule));
    bh_cli_print_escaped(advice->summary);
    putchar('\n');
    for (size_t i = 0; i < advice->n_evidence; i++)
        print_evidence(q, &advice->evidence[i]);
    if (advice->saved_ns > 0)
        printf("  a snapshot would have saved %s\n", bh_format_duration(advice->saved_ns, saved));
    printf("  so: %s", bh_topology_text(advice->topology));
    if (advice->action) {
        printf("; ");
        bh_cli_print_escaped(advice->action);
    }
    putchar('\n');
    if (advice->later)
        printf("  apply the changes above, and ask again for this one\n");
    else if (!advice->patch)
        printf("  the change is yours to make: these lines cannot be changed mechanically\n");
    else if (!*advice->patch)
        printf("  the change above does it\n");
    else
        print_patch(advice->patch);
}

static void print_json(const struct question *q)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "file", q->file);
    bh_val_set_str(v, "run", q->run.id);
    struct bh_val *advice = bh_val_set(v, "advice", bh_val_list());
    for (size_t i = 0; i < q->advices.len; i++)
        bh_val_add(advice, bh_advice_to_val(&q->advices.items[i], q->file));
    struct bh_val *errors = bh_val_set(v, "errors", bh_val_list());
    for (size_t i = 0; i < q->errors.len; i++)
        bh_val_add(errors, bh_err_to_val(q->errors.items[i]));
    bh_cli_print_json(v);
}

static void print_text(const struct question *q)
{
    for (size_t i = 0; i < q->advices.len; i++) {
        if (i > 0)
            putchar('\n');
        print_advice(q, &q->advices.items[i]);
    }
}

/* What the file is now may not be what the run was given, and the patch is for the latter. */
static void note_change(const struct question *q)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    if (!q->run.id || q->advices.len == 0 ||
        (bh_read_file(q->run.row.file, BH_PIPELINE_MAX_BYTES, &text, NULL) == 0 &&
         bh_streq(text.data, q->run.row.document)))
        return;
    BH_CLEANUP_BUF struct bh_buf escaped = BH_BUF_INIT;
    bh_escape_terminal(&escaped, q->file, strlen(q->file));
    fprintf(stderr, "note: '%s' has changed since this run was submitted: lines and changes are those of the run\n",
            escaped.data);
}

static int advise(const struct bh_args *args)
{
    struct question q = {.run = {.home = {.dirfd = -1}}};
    const char *operand = args->operands[0];
    bh_advices_init(&q.advices);
    int rc = names_run(operand) ? read_run(args, &q, operand) : read_file(&q, operand);
    if (rc == 0)
        rc = look(&q);
    int status = 0;
    if (rc != 0) {
        status = bh_cli_fail_list(args, &q.errors);
    } else if (bh_args_json(args)) {
        status = bh_cli_exit_of(&q.errors);
        print_json(&q);
        bh_errlist_fini(&q.errors);
    } else {
        print_text(&q);
        note_change(&q);
        status = q.errors.len > 0 ? bh_cli_fail_list(args, &q.errors) : 0;
    }
    bh_advices_fini(&q.advices);
    bh_cli_document_fini(&q.doc);
    bh_cli_run_close(&q.run);
    return status;
}

const struct bh_cmd bh_cmd_advise = {
    .name = "advise",
    .operands = "FILE|RUN",
    .summary = "which topology the symptoms call for, why, and the change",
    .more = "Says nothing where nothing is wrong. Each piece of advice cites what it saw (lines of the document, times "
            "and names of the run) and ends with a patch of the document; all of them apply in turn. Exits 0 whether "
            "there is advice or not, 3 where a document is invalid, 5 where trust refuses it (the advice says how to "
            "split it).",
    .example =
        "bulkhead advise pipeline.yaml\nbulkhead advise @latest\nbulkhead advise pipeline.yaml | patch pipeline.yaml",
    .min_operands = 1,
    .max_operands = 1,
    .run = advise,
};
