/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead run: runs a pipeline here, or goes on with a run. */
#include <signal.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/grants.h"
#include "cli/progress.h"
#include "cli/run_plan.h"
#include "scheduler/run_local.h"
#include "workers/box/subids.h"

struct request {
    const struct bh_args *args;
    struct bh_home home;
    struct bh_buf text;
    struct bh_cli_params params;
    struct bh_run_source *sources;
    size_t n_sources;
    int64_t max_parallel;
    const char **only;
    char *resume; /* run id, or NULL */
    char *resumed_file;
    bool had_succeeded; /* the run that is to be resumed */
    const char *file;
};

static void request_fini(struct request *r)
{
    bh_buf_fini(&r->text);
    bh_cli_params_free(&r->params);
    for (size_t i = 0; i < r->n_sources; i++)
        bh_free((char *)(uintptr_t)r->sources[i].name);
    bh_free(r->sources);
    bh_free(r->only);
    bh_free(r->resume);
    bh_free(r->resumed_file);
    bh_home_close(&r->home);
}

static int read_sources(struct request *r, struct bh_err **err)
{
    size_t n = 0, cap = 0;
    BH_CLEANUP_FREE const char **given = bh_args_all(r->args, "source", &n);
    for (size_t i = 0; i < n; i++) {
        const char *eq = strchr(given[i], '=');
        if (!eq || eq == given[i] || eq[1] == '\0') {
            int rc = bh_err_set(err, BH_E_USAGE, 0, "'--source %s' is no NAME=PATH", given[i]);
            bh_err_hint(err, "write for example --source status=/var/lib/dpkg/status");
            return rc;
        }
        *BH_PUSH(r->sources, r->n_sources, cap) =
            (struct bh_run_source){.name = bh_strndup(given[i], (size_t)(eq - given[i])), .path = eq + 1};
    }
    return 0;
}

static int read_max_parallel(struct request *r, struct bh_err **err)
{
    const char *text = bh_args_get(r->args, "max-parallel");
    if (text && (bh_parse_int(text, &r->max_parallel) != 0 || r->max_parallel < 1))
        return bh_err_set(err, BH_E_USAGE, 0, "'--max-parallel %s' is no number above 0", text);
    return 0;
}

static int refuse_later(const struct bh_args *args, struct bh_err **err)
{
    static const char *const later[] = {"from", "detach"};
    static const char *const instead[] = {
        "leave it out; after a failure 'bulkhead run --resume RUN' does not run again what had succeeded",
        "leave it out, and start bulkhead with nohup or in a terminal multiplexer: it is the process that runs the "
        "boxes",
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(later); i++) {
        if (!bh_args_has(args, later[i]))
            continue;
        int rc = bh_err_set(err, BH_E_NOT_SUPPORTED, 0, "'--%s' is not supported by this version", later[i]);
        bh_err_hint(err, "%s", instead[i]);
        return rc;
    }
    return 0;
}

/* Which options make no sense beside --resume: the run has its own since it was submitted. */
static int check_resume_options(const struct bh_args *args, struct bh_err **err)
{
    static const char *const fixed[] = {"param", "params-file", "source", "only", "keep-going", "dry-run"};
    for (size_t i = 0; i < BH_ARRAY_LEN(fixed); i++) {
        if (!bh_args_has(args, fixed[i]))
            continue;
        int rc = bh_err_set(err, BH_E_USAGE, 0, "'--%s' does not go with --resume", fixed[i]);
        bh_err_hint(err, "a run goes on with what it was submitted with");
        return rc;
    }
    return 0;
}

static int resolve_resume(struct request *r, struct bh_err **err)
{
    const char *name = bh_args_get(r->args, "resume");
    if (!name)
        return 0;
    int rc = check_resume_options(r->args, err);
    if (rc != 0)
        return rc;
    struct bh_cli_run run;
    rc = bh_cli_run_open(r->args, name, &run, err);
    if (rc == 0) {
        r->resume = bh_strdup(run.id);
        r->resumed_file = bh_strdup(bh_run_file_from_here(&run));
        r->had_succeeded = bh_streq(run.row.status, "succeeded");
        if (!r->had_succeeded && !bh_args_has(r->args, "quiet") && r->args->n_operands == 0)
            bh_run_note_changes(&run);
    }
    bh_cli_run_close(&run);
    return rc;
}

static int read_request(struct request *r, struct bh_err **err)
{
    int rc = refuse_later(r->args, err);
    if (rc == 0)
        rc = resolve_resume(r, err);
    if (rc == 0 && !r->resume && r->args->n_operands == 0) {
        rc = bh_err_set(err, BH_E_USAGE, 0, "'bulkhead run' needs a FILE, or --resume RUN");
        bh_err_hint(err, "'bulkhead init' writes a pipeline to start from");
    }
    if (rc == 0)
        rc = bh_cli_params_read(r->args, &r->params, err);
    if (rc == 0)
        rc = read_sources(r, err);
    if (rc == 0)
        rc = read_max_parallel(r, err);
    size_t n;
    r->only = bh_args_all(r->args, "only", &n);
    if (n == 0) {
        bh_free(r->only);
        r->only = NULL;
    }
    return rc;
}

/* Reads the document's text; the loader's errors come from the run itself. */
static int read_document(struct request *r, struct bh_errlist *errors)
{
    struct bh_cli_document doc = {0};
    if (r->args->n_operands == 0)
        return 0;
    int rc = bh_cli_document_read(r->args->operands[0], &doc, errors);
    r->file = doc.file;
    if (rc == 0) {
        r->text = doc.text;
        doc.text = BH_BUF_INIT;
    }
    bh_cli_document_fini(&doc);
    return rc;
}

static int exit_of(const struct bh_run_outcome *outcome)
{
    if (outcome->signal != 0)
        return 128 + outcome->signal;
    if (outcome->status == BH_RUN_SUCCEEDED)
        return 0;
    return outcome->reason != BH_REASON_NONE ? bh_reason_info(outcome->reason)->exit_status : 1;
}

/* What the person would not see from the status alone. */
static void print_hints(const struct request *r, const struct bh_run_outcome *outcome,
                        const struct bh_progress *progress)
{
    const char *run = outcome->run.s;
    size_t unfinished = bh_progress_unfinished(progress);
    if (r->had_succeeded)
        fprintf(stderr, "run %s had succeeded, so nothing was started; for a new run: bulkhead run %s\n", run,
                r->resumed_file);
    else if (outcome->status == BH_RUN_SUCCEEDED && unfinished > 0)
        fprintf(stderr, "%zu of %zu agents did not finish; 'bulkhead explain %s' says why\n", unfinished,
                bh_progress_agents(progress), run);
    else if (outcome->status != BH_RUN_SUCCEEDED)
        fprintf(stderr,
                "'bulkhead explain %s' says why; 'bulkhead run --resume %s' goes on with the files as they were "
                "submitted; after a change start a new run\n",
                run, run);
}

static void print_result(const struct bh_args *args, const struct bh_run_outcome *outcome)
{
    const char *status = bh_run_status_text(outcome->status);
    if (bh_args_json(args)) {
        BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
        bh_val_set_str(v, "run", outcome->run.s);
        bh_val_set_str(v, "status", status);
        bh_val_set_int(v, "exit_status", exit_of(outcome));
        bh_cli_print_json(v);
        return;
    }
    printf("%s %s\n", outcome->run.s, status);
}

/* What a file asks for beyond its own folder is its reader's to give: by --grant, or asked once on a terminal. */
static int grant(void *arg, const struct bh_plan *plan, struct bh_err **err)
{
    const struct request *r = arg;
    const struct bh_grant_ask ask = {
        .home = &r->home,
        .given = bh_args_has(r->args, "grant"),
        .may_ask = bh_cli_may_ask(r->args),
    };
    return bh_grant_check(&ask, plan, err);
}

static int carry_out(struct request *r, struct bh_errlist *errors)
{
    const struct bh_args *args = r->args;
    struct bh_progress *progress = bh_progress_new(bh_args_has(args, "quiet"));
    struct bh_run_options options = {
        .home = &r->home,
        .file = r->file,
        .text = r->file ? r->text.data : NULL,
        .text_len = r->text.len,
        .params = r->params.items,
        .n_params = r->params.len,
        .sources = r->sources,
        .n_sources = r->n_sources,
        .max_parallel = r->max_parallel,
        .keep_going = bh_args_has(args, "keep-going"),
        .only = r->only,
        .grant = grant,
        .grant_arg = r,
        .watch = bh_progress_watch(progress),
    };
    struct bh_run_outcome outcome = {0};
    int rc = r->resume ? bh_run_resume(&options, r->resume, &outcome, errors) : bh_run_new(&options, &outcome, errors);
    if (rc == 0) {
        print_result(args, &outcome);
        (void)fflush(stdout); /* before the hints, where both go to one place */
        if (!bh_args_has(args, "quiet"))
            print_hints(r, &outcome, progress);
    }
    bh_progress_free(progress);
    if (rc == 0)
        return exit_of(&outcome);
    if (errors->len == 0) { /* an empty list would read as success */
        struct bh_err *err = NULL;
        (void)bh_err_set(&err, (enum bh_code) - rc, 0, "the run could not be started, and nobody said why");
        bh_errlist_add(errors, err);
    }
    bh_grant_note_refusals(&r->home, r->file, errors);
    return bh_cli_fail_list(args, errors);
}

static int run(const struct bh_args *args)
{
    struct request r = {.args = args, .home = {.dirfd = -1}, .text = BH_BUF_INIT};
    struct bh_err *err = NULL;
    struct bh_errlist errors = {0};
    int status;
    int rc = read_request(&r, &err);
    if (rc != 0) {
        status = bh_cli_fail(args, err);
    } else if (bh_args_has(args, "dry-run")) {
        status = bh_cmd_plan.run(args);
    } else if (read_document(&r, &errors) != 0) {
        status = bh_cli_fail_list(args, &errors);
    } else if ((void)bh_subids_enter(), bh_home_open(bh_args_get(args, "home"), true, &r.home, &err) != 0) {
        status = bh_cli_fail(args, err);
    } else {
        status = carry_out(&r, &errors);
    }
    request_fini(&r);
    return status;
}

static const struct bh_opt opts[] = {
    {"param", 'p', BH_OPT_REPEATED, "NAME=VALUE", "a parameter"},
    {"params-file", 0, BH_OPT_VALUE, "FILE", "parameters from a JSON object"},
    {"source", 0, BH_OPT_REPEATED, "NAME=PATH", "where a source of the pipeline lies"},
    {"grant", 0, BH_OPT_FLAG, NULL, "grant what the file asks for beyond its folder"},
    {"dry-run", 'n', BH_OPT_FLAG, NULL, "print the plan, run nothing"},
    {"resume", 0, BH_OPT_VALUE, "RUN", "go on with a run; what had succeeded is not run again"},
    {"only", 0, BH_OPT_REPEATED, "AGENT", "run this agent and what it needs, nothing else"},
    {"from", 0, BH_OPT_REPEATED, "AGENT", "run from this agent on (not supported yet)"},
    {"max-parallel", 0, BH_OPT_VALUE, "N", "agents at once"},
    {"keep-going", 0, BH_OPT_FLAG, NULL, "a failure does not stop new starts"},
    {"detach", 0, BH_OPT_FLAG, NULL, "return at once (not supported yet)"},
};

const struct bh_cmd bh_cmd_run = {
    .name = "run",
    .operands = "FILE | --resume RUN",
    .summary = "run a pipeline on this machine",
    .more = "Ctrl-C once stops starting and cancels, twice kills. Nothing outlives bulkhead; what it had finished is "
            "kept and --resume goes on, with the document, files, prompts and sources as they were submitted: after "
            "a change start a new run. With --resume go --max-parallel and the options of every verb; -p, "
            "--params-file, --source, --only, --keep-going and -n are refused, since the run has its own. Exit "
            "status: 0 succeeded, 1 failed, 3 invalid, 5 refused by trust or policy, 6 collision, 7 the host lacks "
            "something, 130 interrupted.",
    .example = "bulkhead run pipeline.yaml -p topic=sandboxes\nbulkhead run --resume @latest",
    .opts = opts,
    .n_opts = BH_ARRAY_LEN(opts),
    .max_operands = 1,
    .run = run,
};
