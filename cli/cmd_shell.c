/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead shell: a command in a fork of a finished box, or beside the agent in a live one. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/kept_box.h"
#include "scheduler/shell/live.h"
#include "workers/box/subids.h"

struct visit {
    const struct bh_args *args;
    struct bh_cli_run run;
    struct bh_run_facts facts;
    int64_t attempt;         /* or BH_KEPT_ANY */
    const char *const *argv; /* NULL: a shell */
    bool raw;
};

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* An attempt that may have a live box now, as far as the store knows. */
static bool is_live(const struct visit *v, const struct bh_agent_row *agent)
{
    size_t n = 0;
    const struct bh_attempt_row *rows = bh_run_facts_attempts(&v->facts, agent->name, &n);
    for (size_t i = 0; i < n; i++) {
        if (bh_kept_is_live(rows[i].status) && (v->attempt < 0 || rows[i].attempt == v->attempt || rows[i].kind))
            return bh_home_run_is_owned(&v->run.home, v->run.id);
    }
    return false;
}

static void tell_entered(void *arg, int64_t attempt, const char *box)
{
    const struct visit *v = arg;
    if (!bh_args_has(v->args, "quiet"))
        fprintf(stderr, "beside attempt %lld of '%s', in its live box '%s': what is done here is noted\n",
                (long long)attempt, v->args->operands[1], box);
}

static int enter_live(struct visit *v, const struct bh_agent_row *agent, struct bh_shell_end *ret, struct bh_err **err)
{
    const struct bh_shell_live what = {
        .home = &v->run.home,
        .run = v->run.id,
        .agent = agent->name,
        .attempt = v->attempt > 0 ? v->attempt : 0,
        .argv = v->argv,
        .raw = v->raw,
        .entered = tell_entered,
        .arg = v,
    };
    return bh_shell_live(&what, ret, err);
}

static int nothing_known(const struct bh_kept *kept, struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_NOT_SUPPORTED, 0, "nothing says what the box of '%s' stands on", kept->agent->name);
    bh_err_hint(err, "it was kept by an older bulkhead, or by one that was killed: look at its files in '%s'",
                kept->upper);
    return rc;
}

/* Which one it is, and where the selected one's is not there: that it is another. */
static void tell_fork(const struct visit *v, const struct bh_kept *kept)
{
    size_t n = 0;
    const struct bh_attempt_row *rows = bh_run_facts_attempts(&v->facts, kept->agent->name, &n);
    for (size_t i = 0; i < n && v->attempt < 0 && !kept->attempt->selected && !kept->frozen; i++) {
        if (rows[i].selected)
            fprintf(stderr, "the box of attempt %lld, which was selected, is not there: this is another\n",
                    (long long)rows[i].attempt);
    }
    if (kept->attempt->kind)
        fprintf(stderr, "a fork of the box of the %s of '%s': what is done here changes nothing else\n",
                bh_kept_kind(kept->attempt), kept->agent->name);
    else
        fprintf(stderr,
                "a fork of the box of attempt %lld, try %lld, of '%s': what is done here changes nothing else\n",
                (long long)kept->attempt->attempt, (long long)kept->attempt->try_, kept->agent->name);
}

static int enter_fork(const struct visit *v, const struct bh_kept *kept, struct bh_shell_end *ret, struct bh_err **err)
{
    const struct bh_shell_fork what = {
        .home = &v->run.home,
        .store = v->run.store,
        .run = v->run.id,
        .agent = kept->agent->name,
        .attempt = kept->attempt,
        .stand = &kept->stand,
        .kept = kept->frozen ? NULL : last_part(kept->path),
        .layer = kept->frozen ? last_part(kept->path) : NULL,
        .argv = v->argv,
        .raw = v->raw,
    };
    if (!kept->known)
        return nothing_known(kept, err);
    if (!bh_args_has(v->args, "quiet"))
        tell_fork(v, kept);
    return bh_shell_fork(&what, ret, err);
}

static int enter(struct visit *v, struct bh_shell_end *ret, struct bh_err **err)
{
    const struct bh_agent_row *agent = NULL;
    struct bh_kept kept = {0};
    int rc = bh_kept_agent(&v->run, &v->facts, v->args->operands[1], &agent, err);
    if (rc != 0)
        return rc;
    if (is_live(v, agent))
        return enter_live(v, agent, ret, err);
    rc = bh_kept_find(&v->run, &v->facts, agent->name, v->attempt, &kept, err);
    if (rc == 0)
        rc = enter_fork(v, &kept, ret, err);
    bh_kept_fini(&kept);
    return rc;
}

static int read_options(struct visit *v, struct bh_err **err)
{
    const char *attempt = bh_args_get(v->args, "attempt");
    v->attempt = BH_KEPT_ANY;
    int rc = attempt ? bh_kept_attempt(attempt, &v->attempt, err) : 0;
    if (rc != 0)
        return rc;
    v->raw = bh_args_has(v->args, "raw");
    v->argv = v->args->n_operands > 2 ? v->args->operands + 2 : NULL; /* ends in a NULL */
    return 0;
}

static int shell(const struct bh_args *args)
{
    struct bh_err *err = NULL;
    struct bh_shell_end end = {0};
    struct visit v = {.args = args, .run = {.home = {.dirfd = -1}}};
    (void)bh_subids_enter(); /* as run does: the box is made with the same ids */
    int rc = read_options(&v, &err);
    if (rc == 0)
        rc = bh_cli_run_open(args, args->operands[0], &v.run, &err);
    if (rc == 0)
        rc = bh_run_facts_read(&v.run, &v.facts, &err);
    if (rc == 0)
        rc = enter(&v, &end, &err);
    bh_run_facts_fini(&v.facts);
    bh_cli_run_close(&v.run);
    if (rc != 0)
        return bh_cli_fail(args, err);
    if (end.why[0])
        fprintf(stderr, "bulkhead: %s\n", end.why);
    return end.status;
}

static const struct bh_opt opts[] = {
    {"attempt", 0, BH_OPT_VALUE, "N", "the box of this attempt, 0: of a failed setup or preparation"},
    {"raw", 0, BH_OPT_FLAG, NULL, "pass what it writes to the terminal as it is, not escaped"},
};

const struct bh_cmd bh_cmd_shell = {
    .name = "shell",
    .operands = "RUN AGENT [-- COMMAND...]",
    .summary = "a shell, or a command, in a finished box or beside a live agent",
    .example = "bulkhead shell @latest fixer\nbulkhead shell @latest fixer --attempt 2 -- git diff",
    .more = "Of a finished box it enters a fork: the same files, walls, inputs and environment, and the box that was\n"
            "kept stays as it is. In a live box it is a process beside the agent, which ends with the box; who asked\n"
            "is noted in the run's folder. Where a setup or preparation is at work it is refused: what that leaves is\n"
            "what attempts and later runs start from. Its exit status is passed on, 128 and the number of a signal.\n"
            "What comes from the box is escaped on a terminal, unless --raw is given.",
    .opts = opts,
    .n_opts = BH_ARRAY_LEN(opts),
    .min_operands = 2,
    .max_operands = SIZE_MAX,
    .run = shell,
};
