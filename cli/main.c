/* SPDX-License-Identifier: Apache-2.0 */
/* `bulkhead`: finds the verb, reads its options, runs it. */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/common.h"

const struct bh_cmd *const bh_commands[] = {
    &bh_cmd_init,    &bh_cmd_lint,    &bh_cmd_plan,       &bh_cmd_advise,    &bh_cmd_run,   &bh_cmd_ps,
    &bh_cmd_show,    &bh_cmd_explain, &bh_cmd_logs,       &bh_cmd_artifacts, &bh_cmd_get,   &bh_cmd_provenance,
    &bh_cmd_approve, &bh_cmd_reject,  &bh_cmd_diff,       &bh_cmd_shell,     &bh_cmd_audit, &bh_cmd_gc,
    &bh_cmd_doctor,  &bh_cmd_version, &bh_cmd_completion,
};
const size_t bh_n_commands = BH_ARRAY_LEN(bh_commands);

/* Verbs of the command line's contract that this version lacks: named, so that nobody takes them for slips. */
static const char *const later_verbs[] = {
    "submit", "batch", "cancel",  "pause",  "resume", "retry", "serve",
    "worker", "mcp",   "session", "replay", "fork",   "fsck",
};

const struct bh_cmd *bh_command_find(const char *name)
{
    for (size_t i = 0; i < bh_n_commands; i++) {
        if (bh_streq(bh_commands[i]->name, name))
            return bh_commands[i];
    }
    return NULL;
}

static void print_overview(FILE *to)
{
    fprintf(to, "usage: bulkhead VERB [operands] [options]\n\n"
                "Schedules crews of agents over sandboxes: declared, checked, enforced, explainable.\n\nverbs:\n");
    for (size_t i = 0; i < bh_n_commands; i++)
        fprintf(to, "  %-12s %s\n", bh_commands[i]->name, bh_commands[i]->summary);
    fprintf(to, "\n'bulkhead VERB --help' says more, with an example; the manual is 'man bulkhead'.\n");
}

static int no_such_verb(const char *name)
{
    struct bh_err *err = NULL;
    for (size_t i = 0; i < BH_ARRAY_LEN(later_verbs); i++) {
        if (bh_streq(later_verbs[i], name)) {
            (void)bh_err_set(&err, BH_E_NOT_SUPPORTED, 0, "'bulkhead %s' does not exist yet", name);
            bh_err_hint(&err, "'bulkhead help' lists the verbs of this version");
            return bh_cli_fail(NULL, err);
        }
    }
    const char *names[BH_ARRAY_LEN(bh_commands)];
    for (size_t i = 0; i < bh_n_commands; i++)
        names[i] = bh_commands[i]->name;
    const char *near = bh_nearest(name, names, bh_n_commands);
    (void)bh_err_set(&err, BH_E_USAGE, 0, "unknown verb '%s'", name);
    if (near)
        bh_err_hint(&err, "did you mean 'bulkhead %s'?", near);
    return bh_cli_fail(NULL, err);
}

static int check_server(const struct bh_args *args, struct bh_err **err)
{
    const char *env = getenv("BULKHEAD_SERVER");
    if (!bh_args_has(args, "server") && !(env && *env))
        return 0;
    int rc = bh_err_set(err, BH_E_NOT_SUPPORTED, 0, "this version speaks to no server");
    bh_err_hint(err, "leave out --server and unset BULKHEAD_SERVER: everything runs on this machine without one");
    return rc;
}

/* An empty name is what an unset variable leaves; it must not silently mean another folder. */
static int check_home(const struct bh_args *args, struct bh_err **err)
{
    const char *home = bh_args_get(args, "home");
    if (!home || *home)
        return 0;
    int rc = bh_err_set(err, BH_E_USAGE, 0, "'--home' is empty");
    bh_err_hint(err, "name a folder, or leave --home out");
    return rc;
}

static int run_verb(const struct bh_cmd *cmd, int argc, char **argv)
{
    struct bh_args args;
    struct bh_err *err = NULL;
    int status;
    int rc = bh_args_parse(cmd, argc, argv, &args, &err);
    if (rc == 0)
        rc = check_home(&args, &err);
    if (rc == 0 && !args.help)
        rc = check_server(&args, &err);
    if (rc != 0) {
        status = bh_cli_fail(&args, err);
    } else if (args.help) {
        bh_args_print_help(cmd);
        status = 0;
    } else {
        bh_log_setup(STDERR_FILENO, bh_args_has(&args, "verbose") ? BH_LOG_DEBUG : bh_log_level_from_env(BH_LOG_WARN));
        status = cmd->run(&args);
    }
    bh_args_fini(&args);
    return status;
}

/* Output that could not be written must not look like success. */
static int flush_output(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno == EPIPE)
        return status;
    struct bh_err *err = NULL;
    (void)bh_err_set(&err, BH_E_IO, errno, "cannot write the answer");
    bh_err_hint(&err, "free space where standard output goes, or send it elsewhere; what was done is done");
    int failed = bh_cli_fail(NULL, err);
    return status != 0 ? status : failed;
}

/* `--home X run …`: options of every verb may stand before it. Gives the index of the verb. */
static int find_verb(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-')
            return i;
        if (bh_streq(argv[i], "--home") || bh_streq(argv[i], "--server") || bh_streq(argv[i], "-o") ||
            bh_streq(argv[i], "--output"))
            i++;
    }
    return argc;
}

/*
 * A write that cannot be made is an error where it is made, never a signal; and as many descriptors as we may have: an
 * agent at work takes about nine of them.
 */
static void set_up_process(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct rlimit files;
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGXFSZ, &ignore, NULL);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

int main(int argc, char **argv)
{
    set_up_process();
    int at = find_verb(argc, argv);
    if (at >= argc || bh_streq(argv[at], "help")) {
        const struct bh_cmd *about = at + 1 < argc ? bh_command_find(argv[at + 1]) : NULL;
        bool asked = at < argc || (argc > 1 && (bh_streq(argv[1], "--help") || bh_streq(argv[1], "-h")));
        if (argc > 1 && bh_streq(argv[1], "--version"))
            return flush_output(run_verb(&bh_cmd_version, 0, argv));
        if (about)
            bh_args_print_help(about);
        else
            print_overview(asked ? stdout : stderr);
        return flush_output(asked ? 0 : 2);
    }
    const struct bh_cmd *cmd = bh_command_find(argv[at]);
    if (!cmd)
        return no_such_verb(argv[at]);
    for (int i = at; i > 1; i--) /* the verb to the front, so that the rest is one list of words */
        argv[i] = argv[i - 1];
    return flush_output(run_verb(cmd, argc - 2, argv + 2));
}
