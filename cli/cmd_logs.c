/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulkhead logs: the lines that agents wrote, merged over instances in order of time. Each instance has a file of its
 * own; the merge keeps one line of each in hand. Following waits on inotify events of the log folder and on the run's
 * end.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <regex.h>
#include <stdio.h>
#include <sys/inotify.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "workers/logs/log_file.h"

enum { FOLLOW_CHECK_MS = 1000 };

struct tail_line { /* a line kept for --tail */
    const struct bh_log_tags *tags;
    struct bh_log_line line;
    char *text;
};

struct source {
    char *name;
    struct bh_log_reader *reader;
    struct bh_log_line line; /* valid where has_line; its text is borrowed from the reader */
    bool has_line;
};

struct viewer {
    const struct bh_args *args;
    struct bh_cli_run run;
    char *dir;
    struct source *sources;
    size_t n_sources, cap_sources;
    const char **agents;
    size_t n_agents;
    int64_t attempt; /* 0: all */
    struct bh_wall since;
    int64_t tail;           /* -1: all */
    struct tail_line *kept; /* a ring of `tail` lines */
    size_t n_kept, next_kept;
    regex_t grep;
    bool has_grep, colour;
    char today[BH_WALL_TEXT]; /* the date is said of lines of other days only */
};

/* --- what is wanted --- */

static bool wants_file(const struct viewer *v, const struct bh_log_tags *tags)
{
    const char *stage = bh_args_get(v->args, "stage"), *box = bh_args_get(v->args, "box");
    bool agent = v->n_agents == 0;
    for (size_t i = 0; i < v->n_agents; i++)
        agent = agent || bh_streq(v->agents[i], tags->agent);
    return agent && (!stage || bh_streq(stage, tags->stage)) && (!box || bh_streq(box, tags->box)) &&
           (v->attempt == 0 || v->attempt == tags->attempt);
}

static bool matches(const struct viewer *v, const struct bh_log_line *line)
{
    const char *stream = bh_args_get(v->args, "stream");
    if (stream && !bh_streq(stream, bh_stream_text(line->stream)))
        return false;
    if (line->time.us < v->since.us)
        return false;
    if (!v->has_grep)
        return true;
    regmatch_t range = {.rm_so = 0, .rm_eo = (regoff_t)line->len};
    return regexec(&v->grep, line->text, 1, &range, REG_STARTEND) == 0;
}

/* --- printing --- */

static void set_text(struct bh_val *v, const struct bh_log_line *line)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (bh_utf8_check(line->text, line->len) == line->len) {
        bh_val_set(v, "text", bh_val_strn(line->text, line->len));
        return;
    }
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0; i < line->len; i += 3) {
        size_t left = line->len - i;
        uint32_t a = (unsigned char)line->text[i], b = left > 1 ? (unsigned char)line->text[i + 1] : 0,
                 c = left > 2 ? (unsigned char)line->text[i + 2] : 0, n = a << 16 | b << 8 | c;
        bh_buf_addc(&out, alphabet[n >> 18]);
        bh_buf_addc(&out, alphabet[n >> 12 & 63]);
        bh_buf_addc(&out, left > 1 ? alphabet[n >> 6 & 63] : '=');
        bh_buf_addc(&out, left > 2 ? alphabet[n & 63] : '=');
    }
    bh_val_set_str(v, "text", out.data);
    bh_val_set_bool(v, "base64", true);
}

static void print_json(const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    bh_cli_set_time(v, "time", line->time);
    bh_val_set_str(v, "run", tags->run);
    bh_val_set_str(v, "stage", *tags->stage ? tags->stage : NULL);
    bh_val_set_str(v, "agent", tags->agent);
    bh_val_set_int(v, "attempt", tags->attempt);
    bh_val_set_int(v, "try", tags->try_);
    bh_val_set_str(v, "instance", tags->instance);
    bh_val_set_str(v, "box", tags->box);
    bh_val_set_str(v, "stream", bh_stream_text(line->stream));
    bh_val_set_int(v, "seq", (int64_t)line->seq);
    set_text(v, line);
    if (!line->eol)
        bh_val_set_bool(v, "eol", false);
    bh_cli_print_json(v);
}

enum { DATE = sizeof("2026-01-31") - 1, CLOCK = sizeof("12:00:00.000") - 1 };

/* "model", of a later try "model/2", of a later attempt "model/2.1" */
static void add_name(struct bh_buf *out, const struct bh_log_tags *tags)
{
    bh_buf_adds(out, tags->agent);
    if (tags->attempt > 1)
        bh_buf_addf(out, "/%lld.%lld", (long long)tags->attempt, (long long)tags->try_);
    else if (tags->try_ > 1)
        bh_buf_addf(out, "/%lld", (long long)tags->try_);
}

static void add_prefix(const struct viewer *v, const struct bh_log_tags *tags, const struct bh_log_line *line,
                       struct bh_buf *out)
{
    char time[BH_WALL_TEXT];
    bool err = line->stream == BH_STREAM_STDERR;
    bh_wall_format(line->time, time);
    if (strncmp(time, v->today, DATE) != 0)
        bh_buf_addf(out, "%.*s ", DATE, time);
    bh_buf_addf(out, "%.*s %s", CLOCK, time + DATE + 1, v->colour ? (err ? "\x1b[31m" : "\x1b[36m") : "");
    add_name(out, tags);
    bh_buf_addf(out, "%s%s ", err ? "!" : ":", v->colour ? "\x1b[0m" : "");
}

static void print_text(const struct viewer *v, const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    if (!bh_args_has(v->args, "no-prefix"))
        add_prefix(v, tags, line, &out);
    bh_escape_terminal(&out, line->text, line->len);
    puts(out.data);
}

static void print_line(const struct viewer *v, const struct bh_log_tags *tags, const struct bh_log_line *line)
{
    if (bh_args_json(v->args))
        print_json(tags, line);
    else
        print_text(v, tags, line);
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
        print_line(v, v->kept[at].tags, &v->kept[at].line);
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

static bool known(const struct viewer *v, const char *name)
{
    for (size_t i = 0; i < v->n_sources; i++) {
        if (bh_streq(v->sources[i].name, name))
            return true;
    }
    return false;
}

static int add_source(struct viewer *v, const char *name, struct bh_err **err)
{
    BH_CLEANUP_FREE char *path = bh_path_join(v->dir, name);
    struct bh_log_reader *reader = NULL;
    int rc = bh_log_reader_open(path, &reader, err);
    if (rc == -BH_E_AGAIN) { /* its head is not written yet */
        bh_err_free(*err);
        *err = NULL;
        return 0;
    }
    if (rc != 0)
        return rc;
    struct source *s = BH_PUSH(v->sources, v->n_sources, v->cap_sources);
    s->name = bh_strdup(name);
    if (wants_file(v, bh_log_reader_tags(reader)))
        s->reader = reader;
    else
        bh_log_reader_close(reader);
    return 0;
}

static int find_sources(struct viewer *v, struct bh_err **err)
{
    DIR *dir = opendir(v->dir);
    int rc = 0;
    if (!dir)
        return errno == ENOENT ? 0 : bh_err_set(err, BH_E_IO, errno, "cannot open the logs in '%s'", v->dir);
    for (struct dirent *e; rc == 0 && (e = readdir(dir)) != NULL;) {
        if (bh_ends_with(e->d_name, ".log") && !known(v, e->d_name))
            rc = add_source(v, e->d_name, err);
    }
    closedir(dir);
    return rc;
}

static int refill(struct source *s, struct bh_err **err)
{
    if (!s->reader || s->has_line)
        return 0;
    int rc = bh_log_reader_next(s->reader, &s->line, err);
    s->has_line = rc == 1;
    return rc < 0 ? rc : 0;
}

/* The source with the oldest line, or NULL when all are read to their present end. */
static int oldest(struct viewer *v, struct source **ret, struct bh_err **err)
{
    *ret = NULL;
    for (size_t i = 0; i < v->n_sources; i++) {
        int rc = refill(&v->sources[i], err);
        if (rc != 0)
            return rc;
        if (v->sources[i].has_line && (!*ret || v->sources[i].line.time.us < (*ret)->line.time.us))
            *ret = &v->sources[i];
    }
    return 0;
}

static int drain(struct viewer *v, struct bh_err **err)
{
    struct source *s;
    int rc = find_sources(v, err);
    while (rc == 0 && (rc = oldest(v, &s, err)) == 0 && s) {
        s->has_line = false;
        if (!matches(v, &s->line))
            continue;
        if (v->kept)
            keep(v, bh_log_reader_tags(s->reader), &s->line);
        else
            print_line(v, bh_log_reader_tags(s->reader), &s->line);
    }
    return rc;
}

/* --- following --- */

static bool run_is_over(const struct viewer *v)
{
    return !bh_home_run_is_owned(&v->run.home, v->run.id);
}

static void swallow_events(int fd)
{
    char buf[4096];
    while (read(fd, buf, sizeof(buf)) > 0)
        ;
}

static int follow(struct viewer *v, struct bh_err **err)
{
    BH_CLEANUP_FD int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0 || inotify_add_watch(fd, v->dir, IN_MODIFY | IN_CREATE) < 0)
        return errno == ENOENT && run_is_over(v) ? 0 : bh_err_set(err, BH_E_IO, errno, "cannot watch '%s'", v->dir);
    int rc = 0;
    while (rc == 0 && fflush(stdout) == 0) {
        bool last = run_is_over(v);
        rc = drain(v, err);
        if (last)
            break;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        (void)poll(&p, 1, FOLLOW_CHECK_MS);
        swallow_events(fd);
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
    if (attempt && (bh_parse_int(attempt, &v->attempt) != 0 || v->attempt < 1))
        return bh_err_set(err, BH_E_USAGE, 0, "'--attempt %s' is no number above 0", attempt);
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
    v->colour = bh_cli_colour(STDOUT_FILENO);
    bh_wall_format(bh_wall_now(), v->today);
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

/* A name that nothing of the run has is a slip, not an empty log. */
static int check_names(const struct viewer *v, struct bh_err **err)
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
    for (size_t i = 0; i < v->n_agents && rc == 0; i++)
        rc = check_name(v, "agent", v->agents[i], agents, n, err);
    if (rc == 0 && stage)
        rc = check_name(v, "stage", stage, stages, n, err);
    if (rc == 0 && box)
        rc = check_name(v, "box", box, boxes, n, err);
    bh_agent_rows_free(rows, n);
    return rc;
}

static int view(struct viewer *v, struct bh_err **err)
{
    int rc = bh_cli_run_open(v->args, v->args->operands[0], &v->run, err);
    if (rc == 0)
        rc = read_options(v, err);
    if (rc == 0)
        rc = check_names(v, err);
    if (rc != 0)
        return rc;
    v->dir = bh_home_run_path(&v->run.home, v->run.id, "logs");
    if (v->tail != 0)
        rc = drain(v, err);
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
    for (size_t i = 0; i < v->n_sources; i++) {
        bh_log_reader_close(v->sources[i].reader);
        bh_free(v->sources[i].name);
    }
    bh_free(v->sources);
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
    viewer_fini(&v);
    return rc == 0 ? 0 : bh_cli_fail(args, err);
}

static const struct bh_opt opts[] = {
    {"agent", 'a', BH_OPT_REPEATED, "AGENT", "only this agent"},
    {"attempt", 0, BH_OPT_VALUE, "N", "only this attempt"},
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
