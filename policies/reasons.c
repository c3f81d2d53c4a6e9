/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of reasons as data, and their spelling. Everything here is static text; nothing is allocated. A reason that
 * came from a file or a peer may hold any value: it gets the empty row, never an assertion.
 */
#include "policies/reasons.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

static const struct bh_reason_info rows[] = {
    [BH_REASON_NONE] = {.reason = BH_REASON_NONE, .text = "", .exit_status = 0, .http_status = 200, .remedy = ""},
#define BH_X(name, spelling, tries, exit, http, help) \
    [BH_REASON_##name] = {.reason = BH_REASON_##name, \
                          .text = (spelling),         \
                          .default_retries = (tries), \
                          .exit_status = (exit),      \
                          .http_status = (http),      \
                          .remedy = (help)},
#include "policies/reasons.def"
#undef BH_X
};

static const struct {
    const char *text, *timeout;
} phases[] = {
    [BH_PHASE_NONE] = {"", "timeout"},
    [BH_PHASE_SETUP] = {"setup", "timeout(setup)"},
    [BH_PHASE_PREPARE] = {"prepare", "timeout(prepare)"},
    [BH_PHASE_RUN] = {"run", "timeout(run)"},
    [BH_PHASE_CHECK] = {"check", "timeout(check)"},
    [BH_PHASE_GATE] = {"gate", "timeout(gate)"},
};

static bool is_phase(enum bh_phase phase)
{
    return (size_t)phase < BH_ARRAY_LEN(phases);
}

const struct bh_reason_info *bh_reason_info(enum bh_reason reason)
{
    return &rows[(size_t)reason < BH_ARRAY_LEN(rows) ? (size_t)reason : (size_t)BH_REASON_NONE];
}

const char *bh_reason_remedy(enum bh_reason reason, int64_t exit_code)
{
    if (reason == BH_REASON_EXIT && (exit_code == 126 || exit_code == 127))
        return "check the command, its path and the working directory; 'bulkhead logs RUN -a AGENT --tail 20' has its "
               "last lines";
    return bh_reason_info(reason)->remedy;
}

/* The length of the name behind "box '", at *ret; 0: no box is named. */
static int box_in(const char *detail, const char **ret)
{
    static const char lead[] = "box '";
    const char *at = strstr(detail, lead);
    if (!at)
        return 0;
    *ret = at + strlen(lead);
    size_t len = strspn(*ret, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return (*ret)[len] == '\'' ? (int)len : 0;
}

/* The length of the name of the gate that has come to this end, at *ret; 0: the detail speaks of something else. */
static int gate_in(const char *detail, const char *how, const char **ret)
{
    static const char lead[] = "gate '";
    const char *end = bh_starts_with(detail, lead) ? strchr(detail + strlen(lead), '\'') : NULL;
    if (!end || !bh_starts_with(end + 1, how))
        return 0;
    *ret = detail + strlen(lead);
    return (int)(end - *ret);
}

/* A timeout names the phase whose own limit is to be raised. */
static char *remedy_of_timeout(const char *detail)
{
    static const enum bh_phase all[] = {BH_PHASE_SETUP, BH_PHASE_PREPARE, BH_PHASE_CHECK};
    const char *gate = NULL;
    int len = gate_in(detail, " was not decided within", &gate);
    if (len > 0)
        return bh_asprintf(
            "decide now with 'bulkhead approve RUN %.*s', then go on with 'bulkhead run --resume RUN', which asks "
            "again where nothing was decided; or raise 'timeout.run' of an agent behind it",
            len, gate);
    for (size_t i = 0; i < BH_ARRAY_LEN(all); i++) {
        const char *name = phases[all[i]].text;
        if (bh_starts_with(detail, name) && detail[strlen(name)] == ' ')
            return bh_asprintf("raise 'timeout.%s' of the agent, or make the step shorter", name);
    }
    return NULL;
}

/* Of what the host lacks, what bulkhead itself keeps account of. */
static const char *remedy_of_host(const char *detail)
{
    if (strstr(detail, "' cannot be had: variable '"))
        return "set the variable where bulkhead is started, then go on with 'bulkhead run --resume RUN'";
    if (strstr(detail, "' cannot be had: file '"))
        return "write the value to the file, readable by whoever runs bulkhead, then go on with 'bulkhead run --resume "
               "RUN'";
    if (strstr(detail, "' cannot be had: command '"))
        return "run the command by hand: it must print the value and end with 0; then go on with 'bulkhead run "
               "--resume "
               "RUN'";
    if (strstr(detail, "disk budget"))
        return "make room: 'bulkhead gc --dry-run --older-than 30d' says what would go; or raise the budget; then go "
               "on "
               "with 'bulkhead run --resume RUN'";
    if (strstr(detail, "is nearly full") || strstr(detail, "o space left on device"))
        return "free space on the disk of the state directory ('bulkhead gc' removes what nobody needs), then go on "
               "with "
               "'bulkhead run --resume RUN'";
    return NULL;
}

/* Attempts that passed and left no score fail their agent. NULL: the detail speaks of something else. */
static char *remedy_of_score(const char *detail)
{
    static const char lead[] = " one finite decimal in '";
    const char *at = strstr(detail, lead), *end = at ? strchr(at + strlen(lead), '\'') : NULL;
    if (!end)
        return NULL;
    at += strlen(lead);
    return bh_asprintf("write one number to '%.*s' in the attempt or its check", (int)(end - at), at);
}

/* Of a gate that a validation or a person has shut. NULL: the detail speaks of something else. */
static char *remedy_of_rejection(const char *detail)
{
    const char *gate = NULL;
    if (bh_starts_with(detail, "the gate for input '"))
        return bh_strdup("mend what makes the input, or what 'accept' asks of it");
    int len = gate_in(detail, " was rejected by ", &gate);
    if (len == 0)
        return NULL;
    return bh_asprintf("mend what was rejected and start a new run; or let it pass after all: 'bulkhead approve RUN "
                       "%.*s', then 'bulkhead run --resume RUN'",
                       len, gate);
}

/* A trusted agent's denials are named in the detail, a tainted one's are only counted: it has chosen the hosts. NULL:
 * the detail speaks of something else. */
static char *remedy_of_denial(const char *detail, const char *general)
{
    static const char lead[] = " denied: ", why[] = " (not-listed)";
    static const char *const counts[] = {" connection or call was denied", " connections or calls were denied"};
    const char *at = strstr(detail, lead);
    for (size_t i = 0; i < BH_ARRAY_LEN(counts) && !at; i++) {
        const char *count = strstr(detail, counts[i]);
        char next = count ? count[strlen(counts[i])] : 'x';
        if (next == '\0' || next == ')' || next == ';' || next == ',')
            return bh_asprintf(
                "%s; what was denied is withheld: a tainted agent has chosen it ('bulkhead audit --run RUN "
                "-a AGENT' has it)",
                general);
    }
    if (!at)
        return NULL;
    at += strlen(lead);
    size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:[]");
    if (len == 0 || !bh_starts_with(at + len, why))
        return NULL;
    return bh_asprintf("add \"%.*s\" to 'network.allow' of the agent, if it is to reach that; else %s", (int)len, at,
                       general);
}

char *bh_remedy_of_tainted(const char *remedy)
{
    static const char logs[] = "'bulkhead logs RUN -a AGENT";
    const char *at = strstr(remedy, logs);
    if (!at)
        return bh_strdup(remedy);
    int head = (int)(at + strlen(logs) - remedy);
    return bh_asprintf("%.*s --content%s", head, remedy, remedy + head);
}

char *bh_remedy_of_attempt(const char *remedy, int64_t attempt)
{
    static const char option[] = "-a AGENT";
    const char *at = strstr(remedy, option);
    if (attempt < 0 || !at)
        return bh_strdup(remedy);
    int head = (int)(at + strlen(option) - remedy);
    return bh_asprintf("%.*s --attempt %lld%s", head, remedy, (long long)attempt, remedy + head);
}

char *bh_reason_remedy_of(enum bh_reason reason, int64_t exit_code, const char *detail)
{
    const char *text = detail ? detail : "", *box = NULL;
    const char *key = reason == BH_REASON_OOM ? "memory" : reason == BH_REASON_PIDS ? "pids" : "disk";
    const char *less = "";
    bool limit = reason == BH_REASON_OOM || reason == BH_REASON_PIDS || reason == BH_REASON_DISK_FULL;
    bool inodes =
        reason == BH_REASON_DISK_FULL && (strstr(text, "inodes limit") || strstr(text, " files, and its limit"));
    if (reason == BH_REASON_DISK_FULL)
        less = inodes ? ", or make fewer files" : ", or write less";
    int len = limit ? box_in(text, &box) : 0;
    if (reason == BH_REASON_COLLISION && bh_starts_with(text, "output '"))
        return bh_strdup(
            "let no other agent of the box write to what this one declares, or give them boxes of their own "
            "('topology: per-agent')");
    if (len > 0)
        return bh_asprintf("raise 'boxes.%.*s.limits.%s'%s", len, box, inodes ? "inodes" : key, less);
    if (inodes)
        return bh_asprintf("raise 'limits.inodes' of the agent%s", less);
    if (reason == BH_REASON_EXIT && strstr(text, " could not start: "))
        return bh_strdup(
            "check the command, its path and the working directory: it never ran, so it has no lines in the "
            "log");
    if (reason == BH_REASON_OUTPUT_INVALID && strstr(text, " holds the value of "))
        return bh_strdup(
            "keep the value out of what the agent writes; give the credential to an endpoint, where it can be used and "
            "not had; and change it, if the output is known to others");
    if (reason == BH_REASON_OUTPUT_INVALID && strstr(text, "' is not valid: "))
        return bh_strdup("mend what the agent writes, or what 'validate' asks of it");
    char *special = reason == BH_REASON_TIMEOUT  ? remedy_of_timeout(text)
                    : reason == BH_REASON_CHECK  ? remedy_of_score(text)
                    : reason == BH_REASON_POLICY ? remedy_of_rejection(text)
                                                 : NULL;
    if (special)
        return special;
    if (reason == BH_REASON_EXIT || reason == BH_REASON_SIGNAL)
        special = remedy_of_denial(text, bh_reason_remedy(reason, exit_code));
    if (special)
        return special;
    const char *host = reason == BH_REASON_HOST ? remedy_of_host(text) : NULL;
    return bh_strdup(host ? host : bh_reason_remedy(reason, exit_code));
}

enum bh_reason bh_reason_parse(const char *text)
{
    if (!text || !*text)
        return BH_REASON_NONE;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        if (bh_streq(rows[i].text, text))
            return rows[i].reason;
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(phases); i++) {
        if (bh_streq(phases[i].timeout, text))
            return BH_REASON_TIMEOUT;
    }
    return BH_REASON_NONE;
}

const char *bh_reason_text(enum bh_reason reason, enum bh_phase phase)
{
    if (reason == BH_REASON_TIMEOUT && is_phase(phase))
        return phases[phase].timeout;
    return bh_reason_info(reason)->text;
}

const char *bh_phase_text(enum bh_phase phase)
{
    return phases[is_phase(phase) ? phase : BH_PHASE_NONE].text;
}

enum bh_phase bh_phase_parse(const char *text)
{
    for (size_t i = BH_PHASE_NONE + 1; i < BH_ARRAY_LEN(phases); i++) {
        if (bh_streq(phases[i].text, text) || bh_streq(phases[i].timeout, text))
            return (enum bh_phase)i;
    }
    return BH_PHASE_NONE;
}
