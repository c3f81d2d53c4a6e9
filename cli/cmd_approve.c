/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulkhead approve, bulkhead reject: what would pass a gate is shown, and a person's decision about exactly that is
 * written down for whoever drives the run. Contents are shown only with --content, and escaped.
 */
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "artifact-bus/cas.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/gate_facts.h"
#include "scheduler/dispatch/gate_audit.h"

enum { PREVIEW_BYTES = 4096, SHORTEST_DIGEST = 12 };

struct asking {
    const struct bh_args *args;
    bool approve;
    struct bh_cli_run run;
    struct bh_gate_facts gates;
    const struct bh_gate_fact *gate;
};

static const struct bh_val *artifacts_of(const struct asking *a)
{
    return bh_val_get(a->gate->facts, "artifacts");
}

static const char *digest_of(const struct asking *a)
{
    return bh_val_str_of(a->gate->facts, "digest");
}

/* --- which gate --- */

static int no_gate(const struct asking *a, const char *name, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf open = BH_BUF_INIT;
    for (size_t i = 0; i < a->gates.len; i++) {
        if (bh_gate_is_waiting(&a->run, &a->gates.items[i]))
            bh_buf_addf(&open, "%s'%s'", open.len > 0 ? ", " : "", a->gates.items[i].name);
    }
    int rc = bh_err_set(err, BH_E_NOT_FOUND, 0, "nothing was asked about '%s' in run '%s'", name, a->run.id);
    if (open.len > 0)
        bh_err_hint(err, "what waits for a decision: %s", open.data);
    else
        bh_err_hint(err, "no gate of it waits; 'bulkhead explain %s' says what does", a->run.id);
    return rc;
}

/* What was decided about this question before, whether or not anything has come of it. `by` is NULL where nobody has.
 */
static struct bh_decision standing(const struct asking *a)
{
    const struct bh_val *facts = a->gate->facts;
    const struct bh_decision *pending = bh_gate_pending(a->gate);
    bool approved = a->gate->status == BH_GATE_IS_APPROVED;
    if (pending || !(approved || a->gate->status == BH_GATE_IS_REJECTED))
        return pending ? *pending : (struct bh_decision){0};
    const char *by = bh_val_str_of(facts, "by");
    return (struct bh_decision){.approved = approved,
                                .by = (char *)(uintptr_t)(by ? by : "nobody"),
                                .reason = (char *)(uintptr_t)bh_val_str_of(facts, "reason")};
}

static const char *word_of(bool approved)
{
    return approved ? "approved" : "rejected";
}

/*
 * A rejection may be taken back while nothing has come of it but the end of the run, and so may the lapse of time, and
 * whatever was decided while nobody drives the run. EXISTS, without a message, where the same was said before.
 */
static int check_open(const struct asking *a, struct bh_err **err)
{
    enum bh_gate_status status = a->gate->status;
    const struct bh_decision before = standing(a);
    const char *now = a->run.row.status;
    bool running = bh_streq(now, "running"), again = bh_streq(now, "failed") || bh_streq(now, "cancelled");
    bool taken = before.by && running && bh_home_run_is_owned(&a->run.home, a->run.id);
    if (before.by && before.approved == a->approve)
        return -BH_E_EXISTS;
    if (!taken && ((status == BH_GATE_IS_ASKED && (running || again)) || (status != BH_GATE_IS_APPROVED && again)))
        return 0;
    int rc = bh_err_set(err, BH_E_USAGE, 0, "the gate '%s' of run '%s' is %s already%s%s", a->gate->name, a->run.id,
                        before.by ? word_of(before.approved) : bh_gate_status_text(status), before.by ? ", by " : "",
                        before.by ? before.by : "");
    bh_err_hint(err, "'bulkhead explain %s' tells what came of it", a->run.id);
    return rc;
}

/* --- showing --- */

static void print_artifacts(const struct asking *a)
{
    static const char *const heads[] = {"NAME", "SIZE", "LABEL", "FROM", "DIGEST"};
    const struct bh_val *artifacts = artifacts_of(a);
    struct bh_table *table = bh_table_new(heads, BH_ARRAY_LEN(heads));
    for (size_t i = 0; i < bh_val_len(artifacts); i++) {
        char size[BH_UNIT_TEXT];
        const struct bh_val *v = bh_val_at(artifacts, i);
        const char *agent = bh_val_str_of(v, "agent");
        const char *why = bh_val_str_of(v, "why");
        BH_CLEANUP_FREE char *label =
            bh_asprintf("%s%s%s%s%s", bh_val_str_of(v, "label"), why ? " (" : "", why ? why : "", why ? ")" : "",
                        bh_val_bool_of(v, "private") ? ", private" : "");
        BH_CLEANUP_FREE char *from =
            agent ? bh_asprintf("%s, attempt %lld", agent, (long long)bh_val_int_of(v, "attempt"))
                  : bh_strdup("a source");
        const char *cells[] = {bh_val_str_of(v, "name"), bh_format_size(bh_val_int_of(v, "size"), size), label, from,
                               bh_val_str_of(v, "digest")};
        bh_table_row(table, cells);
    }
    bh_table_print(table);
}

static void print_question(const struct asking *a)
{
    printf("run %s, gate of %s '%s': what would pass\n\n", a->run.id, a->gate->of_stage ? "stage" : "agent",
           a->gate->name);
    if (bh_val_len(artifacts_of(a)) == 0)
        printf("no artifact: only whether it starts\n");
    else
        print_artifacts(a);
    printf("\n'bulkhead provenance %s NAME' says where one came from\nquestion %s\n", a->run.id, digest_of(a));
}

static int open_object(const struct asking *a, const char *digest_text, int *ret_fd, struct bh_err **err)
{
    BH_CLEANUP_FREE char *dir = bh_home_path(&a->run.home, "cas");
    struct bh_cas *cas = NULL;
    struct bh_digest digest;
    if (bh_digest_parse(digest_text, &digest) != 0)
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "'%s' is no digest", digest_text);
    int rc = bh_cas_open(dir, dir, &cas, err);
    if (rc == 0)
        rc = bh_cas_open_object(cas, &digest, ret_fd, err);
    bh_cas_close(cas);
    return rc;
}

/* Line by line, so that each begins where the eye expects it. */
static void print_preview(const char *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        const char *end = memchr(data + at, '\n', len - at);
        size_t n = end ? (size_t)(end - data) - at : len - at;
        BH_CLEANUP_BUF struct bh_buf line = BH_BUF_INIT;
        bh_escape_terminal(&line, data + at, n);
        printf("    | %s\n", line.data);
        at += n + 1;
    }
}

static int print_contents(const struct asking *a, struct bh_err **err)
{
    const struct bh_val *artifacts = artifacts_of(a);
    for (size_t i = 0; i < bh_val_len(artifacts); i++) {
        char bytes[PREVIEW_BYTES];
        BH_CLEANUP_FD int fd = -1;
        const struct bh_val *v = bh_val_at(artifacts, i);
        int rc = open_object(a, bh_val_str_of(v, "digest"), &fd, err);
        ssize_t n = rc == 0 ? read(fd, bytes, sizeof(bytes)) : 0;
        if (rc != 0)
            return rc;
        if (n < 0)
            return bh_err_set(err, BH_E_IO, errno, "cannot read '%s'", bh_val_str_of(v, "name"));
        printf("\n%s, its first %zd of %lld bytes, escaped:\n", bh_val_str_of(v, "name"), n,
               (long long)bh_val_int_of(v, "size"));
        print_preview(bytes, (size_t)n);
    }
    return 0;
}

/* --- deciding --- */

static bool names(const char *given, const char *digest)
{
    const char *hex = bh_starts_with(given, "sha256:") ? given + strlen("sha256:") : given;
    return strlen(hex) >= SHORTEST_DIGEST && digest && bh_starts_with(digest + strlen("sha256:"), hex);
}

/* The digest of the question, or of the only artifact that would pass. */
static int check_digest(const struct asking *a, const char *given, struct bh_err **err)
{
    const struct bh_val *artifacts = artifacts_of(a);
    bool one = bh_val_len(artifacts) == 1;
    if (names(given, digest_of(a)) || (one && names(given, bh_val_str_of(bh_val_at(artifacts, 0), "digest"))))
        return 0;
    int rc = bh_err_set(err, BH_E_USAGE, 0, "'%s' is not what would pass the gate '%s' now", given, a->gate->name);
    bh_err_hint(err, "look at it again: the question is %s", digest_of(a));
    return rc;
}

static int ask(const struct asking *a, struct bh_err **err)
{
    const char *verb = a->approve ? "approve" : "reject";
    BH_CLEANUP_FREE char *question = bh_asprintf("%s this?", verb);
    if (!bh_cli_may_ask(a->args)) {
        int rc = bh_err_set(err, BH_E_USAGE, 0, "nobody can be asked here whether to %s '%s'", verb, a->gate->name);
        bh_err_hint(err, "name what you have seen: bulkhead %s %s %s --digest %s", verb, a->run.id, a->gate->name,
                    digest_of(a));
        return rc;
    }
    if (bh_cli_says_yes(question))
        return 0;
    int rc = bh_err_set(err, BH_E_USAGE, 0, "nothing was decided about '%s'", a->gate->name);
    bh_err_hint(err, "it stays as it was: 'bulkhead approve %s %s' lets it pass, 'bulkhead reject %s %s' keeps it out",
                a->run.id, a->gate->name, a->run.id, a->gate->name);
    return rc;
}

static char *user_name(void)
{
    const struct passwd *account = getpwuid(getuid());
    return account && account->pw_name ? bh_strdup(account->pw_name) : bh_asprintf("uid %u", (unsigned)getuid());
}

static int check_reason(const char *reason, struct bh_err **err)
{
    for (const char *p = reason; p && *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return bh_err_set(err, BH_E_USAGE, 0, "the reason is one line without control characters");
    }
    if (reason && strlen(reason) > BH_DECISION_REASON_MAX)
        return bh_err_set(err, BH_E_USAGE, 0, "the reason has more than %d bytes", BH_DECISION_REASON_MAX);
    return 0;
}

/* The verdict that gives way to the new one, or NULL. */
static const char *replaced(const struct bh_decision *before, bool repeated)
{
    if (!before->by || repeated)
        return NULL;
    return before->approved ? "approve" : "reject";
}

static void report_json(const struct asking *a, const char *by, bool repeated)
{
    const struct bh_decision before = standing(a);
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "run", a->run.id);
    bh_val_set_str(v, "gate", a->gate->name);
    bh_val_set_str(v, "of", a->gate->of_stage ? "stage" : "agent");
    bh_val_set_str(v, "verdict", a->approve ? "approve" : "reject");
    bh_val_set_str(v, "digest", digest_of(a));
    bh_val_set_str(v, "by", by);
    bh_val_set_bool(v, "repeated", repeated);
    bh_val_set_str(v, "replaces", replaced(&before, repeated));
    bh_val_set(v, "artifacts", bh_val_copy(artifacts_of(a)));
    bh_cli_print_json(v);
}

static void report(const struct asking *a, const char *by, bool repeated)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    const struct bh_decision before = standing(a);
    bool waits = !repeated || bh_gate_pending(a->gate);
    if (bh_args_json(a->args)) {
        report_json(a, by, repeated);
        return;
    }
    bh_buf_addf(&text, "%s '%s' of run %s", word_of(a->approve), a->gate->name, a->run.id);
    if (repeated)
        bh_buf_addf(&text, ", as it was before, by %s%s%s", before.by, before.reason ? ": " : "",
                    before.reason ? before.reason : "");
    else if (before.by)
        bh_buf_addf(&text, "; it was %s before by %s%s%s: this replaces it", word_of(before.approved), before.by,
                    before.reason ? ": " : "", before.reason ? before.reason : "");
    bh_cli_print_escaped(text.data);
    printf("\n");
    (void)fflush(stdout);
    if (waits && !bh_home_run_is_owned(&a->run.home, a->run.id) && !bh_args_has(a->args, "quiet"))
        fprintf(stderr, "no process drives the run: 'bulkhead run --resume %s' goes on with this\n", a->run.id);
}

/* Two people may look at one question at a time. */
static int check_unchanged(const struct asking *a, struct bh_err **err)
{
    struct bh_decision now = {0};
    const struct bh_decision *seen = &a->gate->filed;
    BH_CLEANUP_ERR struct bh_err *why = NULL;
    if (bh_decision_read(&a->run.home, a->run.id, digest_of(a), &now, &why) != 0)
        now = (struct bh_decision){0}; /* no decision: this one takes its place */
    bool same = bh_streq(now.by, seen->by) && now.approved == seen->approved && now.at.us == seen->at.us;
    int rc = same ? 0
                  : bh_err_set(err, BH_E_USAGE, 0, "the gate '%s' was %s by %s meanwhile", a->gate->name,
                               word_of(now.approved), now.by ? now.by : "nobody");
    if (rc != 0)
        bh_err_hint(err, "look at it again: 'bulkhead explain %s' tells what came of it", a->run.id);
    bh_decision_fini(&now);
    return rc;
}

/* First into the audit log, so that nothing has an effect that is not there; then for whoever drives the run. */
static int put_down(const struct asking *a, struct bh_decision *d, struct bh_err **err)
{
    BH_CLEANUP_FD int lock = -1;
    const struct bh_decision before = standing(a);
    int rc = bh_decision_lock(&a->run.home, a->run.id, &lock, err);
    if (rc == 0)
        rc = check_unchanged(a, err);
    if (rc != 0)
        return rc;
    BH_CLEANUP_VAL struct bh_val *facts = bh_gate_verdict(a->gate->facts, d);
    bh_val_set_str(facts, "replaces", replaced(&before, false));
    rc = bh_gate_audit(&a->run.home, a->run.id, d->approved ? "approve" : "reject", facts, err);
    d->audited = rc == 0;
    return rc == 0 ? bh_decision_write(&a->run.home, a->run.id, d, err) : rc;
}

static int decide(const struct asking *a, struct bh_err **err)
{
    BH_CLEANUP_FREE char *by = user_name();
    const char *given = bh_args_get(a->args, "digest");
    int rc = given ? check_digest(a, given, err) : ask(a, err);
    if (rc != 0)
        return rc;
    struct bh_decision decision = {
        .gate = a->gate->name,
        .digest = (char *)(uintptr_t)digest_of(a),
        .approved = a->approve,
        .by = by,
        .reason = (char *)(uintptr_t)bh_args_get(a->args, "reason"),
        .at = bh_wall_now(),
    };
    rc = put_down(a, &decision, err);
    if (rc == 0)
        report(a, by, false);
    return rc;
}

/* Whoever names what they have seen is told where it is something else. */
static int repeat(const struct asking *a, struct bh_err **err)
{
    const char *given = bh_args_get(a->args, "digest");
    const struct bh_decision *pending = bh_gate_pending(a->gate);
    int rc = given ? check_digest(a, given, err) : 0;
    if (rc == 0)
        report(a, pending ? pending->by : bh_val_str_of(a->gate->facts, "by"), true);
    return rc;
}

static int look(struct asking *a, struct bh_err **err)
{
    const char *name = a->args->operands[1];
    int rc = check_reason(bh_args_get(a->args, "reason"), err);
    if (rc == 0)
        rc = bh_cli_run_open(a->args, a->args->operands[0], &a->run, err);
    if (rc == 0)
        rc = bh_gate_facts_read(&a->run, &a->gates, err);
    if (rc != 0)
        return rc;
    a->gate = bh_gate_facts_find(&a->gates, name);
    return a->gate && digest_of(a) ? check_open(a, err) : no_gate(a, name, err);
}

static int run(const struct bh_args *args, bool approve)
{
    struct asking a = {.args = args, .approve = approve};
    struct bh_err *err = NULL;
    int rc = look(&a, &err);
    if (rc == -BH_E_EXISTS) {
        rc = repeat(&a, &err);
    } else if (rc == 0) {
        if (!bh_args_json(args) && !bh_args_has(args, "quiet"))
            print_question(&a);
        if (bh_args_has(args, "content") && !bh_args_json(args))
            rc = print_contents(&a, &err);
        (void)fflush(stdout);
        if (rc == 0)
            rc = decide(&a, &err);
    }
    bh_gate_facts_fini(&a.gates);
    bh_cli_run_close(&a.run);
    return rc == 0 ? 0 : bh_cli_fail(args, err);
}

static int approve(const struct bh_args *args)
{
    return run(args, true);
}

static int reject(const struct bh_args *args)
{
    return run(args, false);
}

static const struct bh_opt opts[] = {
    {"digest", 0, BH_OPT_VALUE, "DIGEST", "decide without being asked: of the question, or of the one artifact"},
    {"content", 0, BH_OPT_FLAG, NULL, "show how each artifact begins, escaped"},
    {"reason", 0, BH_OPT_VALUE, "TEXT", "why; goes into the record and the audit log"},
};

#define MORE                                                                                                       \
    "Shows what would pass (names, sizes, labels, digests) and asks on a terminal; elsewhere --digest has to say " \
    "what was seen. A decision holds for exactly that: when a digest changes it is void, and the gate asks again."

const struct bh_cmd bh_cmd_approve = {
    .name = "approve",
    .operands = "RUN AGENT|STAGE",
    .summary = "let pass what waits at a gate",
    .example = "bulkhead approve @latest publisher --reason 'read it'",
    .more = MORE,
    .opts = opts,
    .n_opts = BH_ARRAY_LEN(opts),
    .min_operands = 2,
    .max_operands = 2,
    .run = approve,
};

const struct bh_cmd bh_cmd_reject = {
    .name = "reject",
    .operands = "RUN AGENT|STAGE",
    .summary = "keep out what waits at a gate: who waits for it fails",
    .example = "bulkhead reject @latest publisher --reason 'it says too much'",
    .more = MORE,
    .opts = opts,
    .n_opts = BH_ARRAY_LEN(opts),
    .min_operands = 2,
    .max_operands = 2,
    .run = reject,
};
