/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulkhead logs: the lines that agents wrote, merged over instances in order of time. Following waits on inotify events
 * of the log folder and on the run's end.
 */
#include <fcntl.h>
#include <poll.h>
#include <regex.h>
#include <stdio.h>
#include <sys/inotify.h>

#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/log_merge.h"
#include "cli/log_print.h"

enum { FOLLOW_CHECK_MS = 1000, OUT_BUFFER = 64 * 1024 };

struct tail_line { /* a line kept for --tail */
    const struct bh_log_tags *tags;
    struct bh_log_line line;
    char *text;
};

struct viewer {
    const struct bh_args *args;
    struct bh_cli_run run;
    char *dir;
    struct bh_log_merge *logs;
    const char **agents;
    size_t n_agents;
    int64_t attempt; /* -1: all; 0: what attempts start from */
    struct bh_wall since;
    int64_t tail;           /* -1: all */
    struct tail_line *kept; /* a ring of `tail` lines */
    size_t n_kept, next_kept;
    regex_t grep;
    bool has_grep, skipping, content;
    struct bh_map *tainted; /* names of agents whose lines are withheld */
    size_t n_withheld;
    const char *withheld_from; /* the first of them, a value of `tainted` or of a log's tags */
    bool several_withheld;
    struct bh_log_printer *printer;
};

/* --- what is wanted --- */

static bool wants_log(void *arg, const struct bh_log_tags *tags)
{
    const struct viewer *v = arg;
    const char *stage = bh_args_get(v->args, "stage"), *box = bh_args_get(v->args, "box");
    bool agent = v->n_agents == 0;
    for (size_t i = 0; i < v->n_agents; i++)
        agent = agent || bh_streq(v->agents[i], tags->agent);
    return agent && (!stage || bh_streq(stage, tags->stage)) && (!box || bh_streq(box, tags->box)) &&
           (v->attempt < 0 || v->attempt == tags->attempt);
}

/* Before the pattern is asked: whether it fits would tell of the text. */
static bool is_withheld(struct viewer *v, const struct bh_log_tags *tags)
{
    const char *name = bh_map_get(v->tainted, tags->agent);
    if (!name && tags->tainted && !v->content)
        name = tags->agent;
    if (!name || v->skipping)
        return name != NULL;
    v->n_withheld++;
    v->several_withheld = v->several_withheld || (v->withheld_from && !bh_streq(v->withheld_from, name));
    v->withheld_from = v->withheld_from ? v->withheld_from : name;
    return true;
}

static bool matches(struct viewer *v, const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    const char *stream = bh_args_get(v->args, "stream");
    if (line->time.us < v->since.us)
        return false;
    if (line->gap) /* whatever is asked for may be missing there */
        return true;
    if (stream && !bh_streq(stream, bh_stream_text(line->stream)))
        return false;
    if (is_withheld(v, tags))
        return false;
    if (!v->has_grep)
        return true;
    regmatch_t range = {.rm_so = 0, .rm_eo = (regoff_t)line->len};
    return regexec(&v->grep, line->text, 1, &range, REG_STARTEND) == 0;
}

/* --- the tail --- */

static void keep(struct viewer *v, const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    struct tail_line *slot = &v->kept[v->next_kept];
    bh_free(slot->text);
    slot->text = bh_memdup(line->text, line->len);
    slot->tags = tags;
    slot->line = *line;
    slot->line.text = slot->text;
    v->next_kept = (v->next_kept + 1) % (size_t)v->tail;
    if (v->n_kept < (size_t)v->tail)
        v->n_kept++;
}

static void print_kept(struct viewer *v)
{
    for (size_t i = 0; i < v->n_kept; i++) {
        size_t at = (v->next_kept + (size_t)v->tail - v->n_kept + i) % (size_t)v->tail;
        bh_log_print(v->printer, v->kept[at].tags, &v->kept[at].line);
    }
}

static void free_kept(struct viewer *v)
{
    for (size_t i = 0; v->kept && i < (size_t)v->tail; i++)
        bh_free(v->kept[i].text);
    bh_free(v->kept);
    v->kept = NULL;
}

/* --- reading --- */

static int drain(struct viewer *v, struct bh_err **err)
{
    struct bh_log_line line = {0};
    const struct bh_log_tags *tags = NULL;
    int rc;
    while ((rc = bh_log_merge_next(v->logs, &line, &tags, err)) == 1) {
        if (!matches(v, tags, &line) || v->skipping)
            continue;
        if (v->kept)
            keep(v, tags, &line);
        else
            bh_log_print(v->printer, tags, &line);
    }
    return rc;
}

/* --- following --- */

static bool run_is_over(const struct viewer *v)
{
    return !bh_home_run_is_owned(&v->run.home, v->run.id);
}

static int take_events(struct viewer *v, int fd, struct bh_err **err)
{
    char buf[16 * 1024] __attribute__((aligned(__alignof__(struct inotify_event))));
    int rc = 0;
    for (ssize_t n; rc == 0 && (n = read(fd, buf, sizeof(buf))) > 0;) {
        const struct inotify_event *e;
        for (ssize_t at = 0; rc == 0 && at < n; at += (ssize_t)(sizeof(*e) + e->len)) {
            e = (const struct inotify_event *)(const void *)(buf + at);
            if (e->mask & IN_Q_OVERFLOW)
                rc = bh_log_merge_look(v->logs, err);
            else if (e->len > 0)
                rc = bh_log_merge_touch(v->logs, e->name, err);
        }
    }
    return rc;
}

static int follow(struct viewer *v, struct bh_err **err)
{
    BH_CLEANUP_FD int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0 || inotify_add_watch(fd, v->dir, IN_MODIFY | IN_CREATE) < 0)
        return errno == ENOENT && run_is_over(v) ? 0 : bh_err_set(err, BH_E_IO, errno, "cannot watch '%s'", v->dir);
    bool last = run_is_over(v);
    int rc = bh_log_merge_look(v->logs, err); /* what came before the watch */
    while (rc == 0 && (rc = drain(v, err)) == 0 && fflush(stdout) == 0 && !last) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        (void)poll(&p, 1, FOLLOW_CHECK_MS);
        last = run_is_over(v);
        rc = last ? bh_log_merge_look(v->logs, err) : take_events(v, fd, err);
    }
    return rc;
}

/* --- options --- */

static int read_grep(struct viewer *v, struct bh_err **err)
{
    const char *pattern = bh_args_get(v->args, "grep");
    if (!pattern)
        return 0;
    int rc = regcomp(&v->grep, pattern, REG_EXTENDED);
    if (rc != 0) {
        char why[128];
        regerror(rc, &v->grep, why, sizeof(why));
        return bh_err_set(err, BH_E_USAGE, 0, "'--grep %s' is no regular expression: %s", pattern, why);
    }
    v->has_grep = true;
    return 0;
}

static int read_options(struct viewer *v, struct bh_err **err)
{
    const char *attempt = bh_args_get(v->args, "attempt"), *tail = bh_args_get(v->args, "tail"),
               *since = bh_args_get(v->args, "since"), *stream = bh_args_get(v->args, "stream");
    v->tail = -1;
    v->attempt = -1;
    if (attempt && (bh_parse_int(attempt, &v->attempt) != 0 || v->attempt < 0))
        return bh_err_set(err, BH_E_USAGE, 0, "'--attempt %s' is no number", attempt);
    if (tail && (bh_parse_int(tail, &v->tail) != 0 || v->tail < 0 || v->tail > 10000000))
        return bh_err_set(err, BH_E_USAGE, 0, "'--tail %s' is no number of lines", tail);
    if (since && bh_wall_parse(since, bh_wall_now(), &v->since) != 0) {
        int rc = bh_err_set(err, BH_E_USAGE, 0, "'--since %s' is neither a time nor a duration", since);
        bh_err_hint(err, "write 2026-01-31T12:00:00Z, or 10m for ten minutes ago");
        return rc;
    }
    if (stream && !bh_streq(stream, "stdout") && !bh_streq(stream, "stderr"))
        return bh_err_set(err, BH_E_USAGE, 0, "'--stream %s' is neither stdout nor stderr", stream);
    v->agents = bh_args_all(v->args, "agent", &v->n_agents);
    v->printer = bh_log_printer_new(bh_args_json(v->args), !bh_args_has(v->args, "no-prefix"));
    if (v->tail > 0)
        v->kept = bh_calloc((size_t)v->tail, sizeof(*v->kept));
    return read_grep(v, err);
}

static int check_name(const struct viewer *v, const char *what, const char *name, const char *const *names, size_t n,
                      struct bh_err **err)
{
    for (size_t i = 0; i < n; i++) {
        if (bh_streq(names[i], name))
            return 0;
    }
    const char *near = bh_nearest(name, names, n);
    int rc = bh_err_set(err, BH_E_NOT_FOUND, 0, "run '%s' has no %s '%s'", v->run.id, what, name);
    bh_err_hint(err, near ? "did you mean '%s'?" : "'bulkhead show %s' lists them", near ? near : v->run.id);
    return rc;
}

/* What those wrote who read others' text is not put before who only looks at a run. */
static void remember_tainted(struct viewer *v, const struct bh_agent_row *rows, size_t n)
{
    v->content = bh_args_has(v->args, "content");
    v->tainted = bh_map_new(bh_free);
    for (size_t i = 0; i < n && !v->content; i++) {
        if (!bh_streq(rows[i].label, "trusted"))
            bh_map_put(v->tainted, rows[i].name, bh_strdup(rows[i].name));
    }
}

static void say_withheld(const struct viewer *v)
{
    if (v->n_withheld == 0)
        return;
    bool one = !v->several_withheld;
    (void)fflush(stdout);
    fprintf(stderr, "note: %zu line%s of %s%s%s %s withheld: tainted text; --content shows %s, escaped\n",
            v->n_withheld, v->n_withheld == 1 ? "" : "s", one ? "'" : "tainted agents", one ? v->withheld_from : "",
            one ? "'" : "", v->n_withheld == 1 ? "is" : "are", v->n_withheld == 1 ? "it" : "them");
}

/* A name that nothing of the run has is a slip, not an empty log. */
static int check_names(struct viewer *v, struct bh_err **err)
{
    const char *stage = bh_args_get(v->args, "stage"), *box = bh_args_get(v->args, "box");
    struct bh_agent_row *rows = NULL;
    size_t n = 0;
    int rc = bh_store_list_agents(v->run.store, v->run.id, &rows, &n, err);
    BH_CLEANUP_FREE const char **agents = bh_calloc(n + 1, sizeof(*agents));
    BH_CLEANUP_FREE const char **stages = bh_calloc(n + 1, sizeof(*stages));
    BH_CLEANUP_FREE const char **boxes = bh_calloc(n + 1, sizeof(*boxes));
    for (size_t i = 0; i < n; i++) {
        agents[i] = rows[i].name;
        stages[i] = rows[i].stage;
        boxes[i] = rows[i].box;
    }
    remember_tainted(v, rows, n);
    for (size_t i = 0; i < v->n_agents && rc == 0; i++)
        rc = check_name(v, "agent", v->agents[i], agents, n, err);
    if (rc == 0 && stage)
        rc = check_name(v, "stage", stage, stages, n, err);
    if (rc == 0 && box)
        rc = check_name(v, "box", box, boxes, n, err);
    bh_agent_rows_free(rows, n);
    return rc;
}

static int no_attempt(const struct viewer *v, struct bh_err **err)
{
    const char *what = v->attempt == 0 ? "preparation or setup of its own" : "attempt";
    BH_CLEANUP_FREE char *number = v->attempt == 0 ? bh_strdup("") : bh_asprintf(" %lld", (long long)v->attempt);
    int rc = v->n_agents == 1 ? bh_err_set(err, BH_E_NOT_FOUND, 0, "'%s' has no %s%s", v->agents[0], what, number)
                              : bh_err_set(err, BH_E_NOT_FOUND, 0, "no agent of run '%s' has %s %s%s", v->run.id,
                                           v->attempt == 0 ? "a" : "an", what, number);
    bh_err_hint(err, "'bulkhead show %s' lists the attempts", v->run.id);
    return rc;
}

/* The same of a number. Who follows a run may wait for an attempt that has not begun. */
static int check_attempt(const struct viewer *v, struct bh_err **err)
{
    struct bh_attempt_row *rows = NULL;
    size_t n = 0;
    bool found = false;
    if (v->attempt < 0 || (bh_args_has(v->args, "follow") && bh_home_run_is_owned(&v->run.home, v->run.id)))
        return 0;
    int rc = bh_store_list_attempts(v->run.store, v->run.id, &rows, &n, err);
    for (size_t i = 0; i < n && !found; i++) {
        bool asked = v->n_agents == 0;
        for (size_t k = 0; k < v->n_agents; k++)
            asked = asked || bh_streq(v->agents[k], rows[i].agent);
        found = asked && rows[i].attempt == v->attempt;
    }
    bh_attempt_rows_free(rows, n);
    return rc != 0 || found ? rc : no_attempt(v, err);
}

static int view(struct viewer *v, struct bh_err **err)
{
    int rc = bh_cli_run_open(v->args, v->args->operands[0], &v->run, err);
    if (rc == 0)
        rc = read_options(v, err);
    if (rc == 0)
        rc = check_names(v, err);
    if (rc == 0)
        rc = check_attempt(v, err);
    if (rc != 0)
        return rc;
    if (!isatty(STDOUT_FILENO))
        (void)setvbuf(stdout, NULL, _IOFBF, OUT_BUFFER);
    v->dir = bh_home_run_path(&v->run.home, v->run.id, "logs");
    v->logs = bh_log_merge_new(v->dir, wants_log, v);
    v->skipping = v->tail == 0; /* none of what is there, all of what comes */
    rc = bh_log_merge_look(v->logs, err);
    if (rc == 0)
        rc = drain(v, err);
    v->skipping = false;
    if (rc == 0 && v->kept)
        print_kept(v);
    free_kept(v);
    if (rc == 0 && bh_args_has(v->args, "follow"))
        rc = follow(v, err);
    return rc;
}

static void viewer_fini(struct viewer *v)
{
    free_kept(v);
    bh_map_free(v->tainted);
    bh_log_merge_free(v->logs);
    bh_log_printer_free(v->printer);
    bh_free(v->agents);
    bh_free(v->dir);
    if (v->has_grep)
        regfree(&v->grep);
    bh_cli_run_close(&v->run);
}

static int logs(const struct bh_args *args)
{
    struct viewer v = {.args = args, .run = {.home = {.dirfd = -1}}};
    struct bh_err *err = NULL;
    int rc = view(&v, &err);
    if (rc == 0)
        say_withheld(&v);
    viewer_fini(&v);
    return rc == 0 ? 0 : bh_cli_fail(args, err);
}

static const struct bh_opt opts[] = {
    {"agent", 'a', BH_OPT_REPEATED, "AGENT", "only this agent"},
    {"attempt", 0, BH_OPT_VALUE, "N", "only this attempt; 0: its setup and preparation"},
    {"stage", 0, BH_OPT_VALUE, "S", "only this stage"},
    {"box", 0, BH_OPT_VALUE, "B", "only this box"},
    {"stream", 0, BH_OPT_VALUE, "stdout|stderr", "only this stream"},
    {"since", 0, BH_OPT_VALUE, "T", "only lines since a time, or a duration before now"},
    {"tail", 0, BH_OPT_VALUE, "N", "only the last N lines"},
    {"grep", 0, BH_OPT_VALUE, "RE", "only lines that match an extended regular expression"},
    {"follow", 'f', BH_OPT_FLAG, NULL, "go on until the run has ended"},
    {"no-prefix", 0, BH_OPT_FLAG, NULL, "the lines alone"},
    {"content", 0, BH_OPT_FLAG, NULL, "text of tainted agents too"},
};

const struct bh_cmd bh_cmd_logs = {
    .name = "logs",
    .operands = "RUN",
    .summary = "the lines that agents wrote, tagged, in order",
    .more =
        "Times are UTC, with the date where a line is not of today. A name is followed by ':' for standard output, '!' "
        "for standard error; 'model/2' is a second try. Control characters are escaped in text; -o json carries "
        "every byte.",
    .example = "bulkhead logs @latest -a modeling --stream stderr --tail 20",
    .opts = opts,
    .n_opts = BH_ARRAY_LEN(opts),
    .min_operands = 1,
    .max_operands = 1,
    .run = logs,
};
