/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead audit: reads the audit log, and finds out whether it is whole. */
#include <stdio.h>

#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "policies/audit.h"

/* --- verify --- */

static void print_report_json(const struct bh_audit_report *report)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    bh_val_set_bool(v, "ok", report->n_problems == 0);
    bh_val_set_int(v, "lines", report->lines);
    struct bh_val *list = bh_val_set(v, "problems", bh_val_list());
    for (size_t i = 0; i < report->n_kept; i++) {
        struct bh_val *p = bh_val_add(list, bh_val_map());
        if (report->problems[i].line > 0)
            bh_val_set_int(p, "line", report->problems[i].line);
        else
            bh_val_set(p, "line", bh_val_null());
        bh_val_set_str(p, "text", report->problems[i].text);
    }
    bh_cli_print_json(v);
}

static void print_report_text(const struct bh_audit_report *report)
{
    for (size_t i = 0; i < report->n_kept; i++) {
        const struct bh_audit_problem *p = &report->problems[i];
        if (p->line > 0)
            printf("line %lld %s\n", (long long)p->line, p->text);
        else
            printf("the log: %s\n", p->text);
    }
    if ((int64_t)report->n_kept < report->n_problems)
        printf("and %lld more\n", (long long)(report->n_problems - (int64_t)report->n_kept));
    if (report->n_problems == 0)
        printf("%lld line%s, none changed, missing or moved\n", (long long)report->lines,
               report->lines == 1 ? "" : "s");
}

static int verify(const struct bh_args *args, const struct bh_home *home)
{
    struct bh_audit_report report;
    struct bh_err *err = NULL;
    int rc = bh_audit_verify(home, &report, &err);
    if (rc != 0)
        return bh_cli_fail(args, err);
    bool whole = report.n_problems == 0, json = bh_args_json(args);
    if (json)
        print_report_json(&report);
    else
        print_report_text(&report);
    if (!whole && !json) {
        (void)fflush(stdout);
        (void)bh_err_set(&err, BH_E_STORE_CORRUPT, 0, "the audit log '%s/audit/audit.jsonl' is not as it was written",
                         home->path);
        bh_err_hint(&err, "what stands before the first problem can be relied on; keep a copy before anything else "
                          "runs");
        (void)bh_cli_fail(args, err);
    }
    bh_audit_report_fini(&report);
    return whole ? 0 : bh_code_info(BH_E_STORE_CORRUPT)->exit_status;
}

/* --- reading --- */

struct reading {
    const char *kind, *agent;
    char *run; /* NULL: all */
    struct bh_wall since;
    bool json;
};

static bool is_wanted(const struct reading *r, const struct bh_val *line)
{
    struct bh_wall at = {0};
    if (r->kind && !bh_streq(bh_val_str_of(line, "kind"), r->kind))
        return false;
    if (r->agent && !bh_streq(bh_val_str_of(line, "agent"), r->agent))
        return false;
    if (r->run && !bh_streq(bh_val_str_of(line, "run"), r->run))
        return false;
    const char *time = bh_val_str_of(line, "time");
    return r->since.us == 0 || (time && bh_wall_parse(time, (struct bh_wall){0}, &at) == 0 && at.us >= r->since.us);
}

enum { WORDS = 64 }; /* bytes of what a box chose that are shown */

/* Method, path and host of what went out: words of the box, which may be a tainted one. Never a sentence. */
static bool is_chosen(const char *key)
{
    return bh_streq(key, "method") || bh_streq(key, "path") || bh_streq(key, "host");
}

/* As in a URL, so that there is neither a space nor a letter of another script to be read. */
static void print_chosen(const char *s)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/?&=:@*%[]";
    size_t len = strlen(s);
    for (size_t i = 0; i < len && i < WORDS; i++)
        printf(strchr(plain, s[i]) ? "%c" : "%%%02X", (unsigned char)s[i]);
    if (len > WORDS)
        printf("…(%zu bytes)", len);
}

static void print_value(const char *key, const struct bh_val *v)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    const char *s = bh_val_get_str(v);
    if (s && is_chosen(key)) {
        print_chosen(s);
        return;
    }
    if (s && *s && !strpbrk(s, " =\"")) {
        bh_cli_print_escaped(s);
        return;
    }
    bh_json_format(v, &text);
    bh_cli_print_escaped(text.data);
}

/* What is about the line, and not about what happened, is left to -o json. */
static bool is_frame(const char *key)
{
    static const char *const keys[] = {"seq", "time", "kind", "prev", "hash", "instance"};
    for (size_t i = 0; i < BH_ARRAY_LEN(keys); i++) {
        if (strcmp(key, keys[i]) == 0)
            return true;
    }
    return false;
}

static void print_line(const struct reading *r, const struct bh_val *line)
{
    if (r->json) {
        bh_cli_print_json(line);
        return;
    }
    const char *time = bh_val_str_of(line, "time"), *kind = bh_val_str_of(line, "kind");
    bh_cli_print_escaped(time ? time : "-");
    putchar(' ');
    bh_cli_print_escaped(kind ? kind : "-");
    for (size_t i = 0; i < bh_val_len(line); i++) {
        const char *key = bh_val_key_at(line, i);
        if (is_frame(key) || bh_val_type(bh_val_at(line, i)) == BH_VAL_NULL)
            continue;
        putchar(' ');
        bh_cli_print_escaped(key);
        putchar('=');
        print_value(key, bh_val_at(line, i));
    }
    putchar('\n');
}

static bool on_line(void *arg, const struct bh_val *line)
{
    const struct reading *r = arg;
    if (is_wanted(r, line))
        print_line(r, line);
    return true;
}

static int read_kind(const struct bh_args *args, struct reading *r, struct bh_err **err)
{
    const char *names[BH_AUDIT_KINDS_];
    r->kind = bh_args_get(args, "kind");
    for (int i = 0; i < BH_AUDIT_KINDS_; i++) {
        names[i] = bh_audit_kind_text((enum bh_audit_kind)i);
        if (!r->kind || bh_streq(names[i], r->kind))
            return 0;
    }
    const char *near = bh_nearest(r->kind, names, BH_AUDIT_KINDS_);
    int rc = bh_err_set(err, BH_E_USAGE, 0, "'--kind %s' is no kind of line", r->kind);
    if (near)
        bh_err_hint(err, "did you mean '%s'?", near);
    else
        bh_err_hint(err, "the kinds are grant, denial, gate, secret, egress, call, override");
    return rc;
}

static int read_since(const struct bh_args *args, struct reading *r, struct bh_err **err)
{
    const char *since = bh_args_get(args, "since");
    if (!since || bh_wall_parse(since, bh_wall_now(), &r->since) == 0)
        return 0;
    int rc = bh_err_set(err, BH_E_USAGE, 0, "'--since %s' is neither a time nor a duration", since);
    bh_err_hint(err, "write for example 10m, or 2026-11-29T12:00:00Z");
    return rc;
}

static int read_run(const struct bh_args *args, struct reading *r, struct bh_err **err)
{
    struct bh_cli_run run;
    const char *name = bh_args_get(args, "run");
    if (!name)
        return 0;
    int rc = bh_cli_run_open(args, name, &run, err);
    if (rc == 0)
        r->run = bh_strdup(run.id);
    bh_cli_run_close(&run);
    return rc;
}

/* --- names --- */

struct names {
    struct bh_map *seen; /* agents of the log */
    const struct reading *r;
};

static bool on_name(void *arg, const struct bh_val *line)
{
    static char yes;
    struct names *n = arg;
    const char *agent = bh_val_str_of(line, "agent");
    if (agent && (!n->r->run || bh_streq(bh_val_str_of(line, "run"), n->r->run)))
        (void)bh_map_put(n->seen, agent, &yes);
    return true;
}

/* Of one run also those that the log says nothing of. */
static int add_agents_of(const struct bh_args *args, struct bh_map *seen, struct bh_err **err)
{
    static char yes;
    struct bh_cli_run run;
    struct bh_agent_row *rows = NULL;
    size_t n = 0;
    int rc = bh_cli_run_open(args, bh_args_get(args, "run"), &run, err);
    if (rc == 0)
        rc = bh_store_list_agents(run.store, run.id, &rows, &n, err);
    for (size_t i = 0; i < n; i++)
        (void)bh_map_put(seen, rows[i].name, &yes);
    bh_agent_rows_free(rows, n);
    bh_cli_run_close(&run);
    return rc;
}

/* A name that nothing has is a slip, not an empty log. */
static int check_agent(const struct bh_args *args, const struct bh_home *home, const struct reading *r,
                       struct bh_err **err)
{
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    struct names names = {.seen = seen, .r = r};
    int rc = bh_audit_read(home, on_name, &names, err);
    if (rc == 0 && r->run)
        rc = add_agents_of(args, seen, err);
    if (rc != 0 || bh_map_get(seen, r->agent))
        return rc;
    BH_CLEANUP_FREE const char **list = bh_calloc(bh_map_len(seen) + 1, sizeof(*list));
    size_t it = 0, n = 0;
    void *value;
    while (bh_map_next(seen, &it, &list[n], &value))
        n++;
    const char *near = bh_nearest(r->agent, list, n);
    rc = r->run ? bh_err_set(err, BH_E_NOT_FOUND, 0, "run '%s' has no agent '%s'", r->run, r->agent)
                : bh_err_set(err, BH_E_NOT_FOUND, 0, "no line of the audit log is about an agent '%s'", r->agent);
    if (near)
        bh_err_hint(err, "did you mean '%s'?", near);
    else if (r->run)
        bh_err_hint(err, "'bulkhead show %s' lists the agents", r->run);
    else
        bh_err_hint(err, "'bulkhead audit' without --agent shows all lines, with their agents");
    return rc;
}

static int show(const struct bh_args *args, const struct bh_home *home)
{
    struct reading r = {.agent = bh_args_get(args, "agent"), .json = bh_args_json(args)};
    struct bh_err *err = NULL;
    int rc = read_kind(args, &r, &err);
    if (rc == 0)
        rc = read_since(args, &r, &err);
    if (rc == 0)
        rc = read_run(args, &r, &err);
    if (rc == 0 && r.agent)
        rc = check_agent(args, home, &r, &err);
    if (rc == 0)
        rc = bh_audit_read(home, on_line, &r, &err);
    bh_free(r.run);
    return rc == 0 ? 0 : bh_cli_fail(args, err);
}

static int audit(const struct bh_args *args)
{
    struct bh_home home = {.dirfd = -1};
    struct bh_err *err = NULL;
    bool verifies = args->n_operands == 1;
    int status;
    if (verifies && !bh_streq(args->operands[0], "verify")) {
        (void)bh_err_set(&err, BH_E_USAGE, 0, "'bulkhead audit %s' is nothing", args->operands[0]);
        bh_err_hint(&err, "'bulkhead audit' reads the log, 'bulkhead audit verify' finds out whether it is whole");
        status = bh_cli_fail(args, err);
    } else if (bh_home_open(bh_args_get(args, "home"), false, &home, &err) != 0) {
        status = bh_cli_fail(args, err);
    } else {
        status = verifies ? verify(args, &home) : show(args, &home);
    }
    bh_home_close(&home);
    return status;
}

static const struct bh_opt opts[] = {
    {"kind", 0, BH_OPT_VALUE, "grant|denial|gate|secret|egress|call|override", "only lines of this kind"},
    {"run", 0, BH_OPT_VALUE, "RUN", "only what is about this run"},
    {"agent", 'a', BH_OPT_VALUE, "AGENT", "only what is about this agent"},
    {"since", 0, BH_OPT_VALUE, "T", "only lines since a time, or a duration before now"},
};

const struct bh_cmd bh_cmd_audit = {
    .name = "audit",
    .operands = "[verify]",
    .summary = "what was granted, denied, let out and used, by whom",
    .more = "Every grant, denial, gate, use of a secret, connection and call of this state directory is a line of "
            "HOME/audit/audit.jsonl, chained to the one before by its hash. 'verify' says which line was changed, "
            "taken out or moved, and exits with 7 if one was. Method, path and host are words of the box: shown as in "
            "a URL, the first 64 bytes. With -o json "
            "one object a line, as it stands there.",
    .example = "bulkhead audit --run @latest --kind egress\nbulkhead audit verify",
    .opts = opts,
    .n_opts = BH_ARRAY_LEN(opts),
    .max_operands = 1,
    .run = audit,
};
