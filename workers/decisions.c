/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions into the audit log (decisions.h). The log is synced for every batch, so it is written on the helper thread,
 * one batch at a time; whoever waits for the end of an execution waits for the last one.
 */
#include "workers/decisions.h"

#include "base/buf.h"
#include "base/home.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "workers/decision_sums.h"
#include "workers/helper.h"

/* Lines of one execution, of what was let through and of denials each; those after them are summed. */
enum { SINGLE_MAX = 1000, SHOWN = 3 };

struct batch { /* of the helper thread while it is written */
    char *home;
    struct bh_audit_entry *entries;
    size_t n, cap;
    int64_t connection; /* the last one that waits for it to be written; 0: none */
    char *problem;
};

struct bh_decisions {
    struct bh_helper *helper;
    const char *home;
    const struct bh_lease *lease;
    struct batch *next; /* is being filled; NULL: nothing to write */
    struct bh_job *job;
    bh_decisions_noted_fn *noted;
    void *noted_arg;
    void (*done)(void *arg);
    void *arg;
    int64_t lines[2]; /* what was let through, denials */
    struct bh_decision_sums *sums;
    int64_t denied;
    unsigned on_host; /* phases, as bits */
    char *shown[SHOWN];
    size_t n_shown;
    char *problem; /* of the log */
};

/* --- batches --- */

static void free_batch(void *data)
{
    struct batch *b = data;
    bh_audit_entries_free(b->entries, b->n);
    bh_free(b->home);
    bh_free(b->problem);
    bh_free(b);
}

static void write_batch(void *data)
{
    struct batch *b = data;
    struct bh_home home;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    int rc = bh_home_open(b->home, false, &home, &err);
    if (rc == 0) {
        rc = bh_audit_add_all(&home, b->entries, b->n, &err);
        bh_home_close(&home);
    }
    if (rc != 0)
        b->problem = bh_strdup(bh_err_message(err));
}

static void write_next(struct bh_decisions *d);
static void on_written(void *owner, void *data);

static const struct bh_job_ops batch_ops = {write_batch, on_written, free_batch};

static void on_written(void *owner, void *data)
{
    struct bh_decisions *d = owner;
    struct batch *b = data;
    bool ok = !b->problem;
    d->job = NULL;
    if (!ok && !d->problem) {
        bh_log(BH_LOG_ERROR, "audit.lost", "instance", d->lease->instance.s, "error", b->problem, NULL);
        d->problem = BH_TAKE(b->problem);
    }
    if (b->connection > 0)
        d->noted(d->noted_arg, b->connection, ok);
    write_next(d);
}

static void write_next(struct bh_decisions *d)
{
    if (d->job)
        return; /* what has come meanwhile goes together */
    if (d->next)
        d->job = bh_helper_submit(d->helper, &batch_ops, d, BH_TAKE(d->next));
    else if (d->done)
        BH_TAKE(d->done)(d->arg);
}

static struct bh_val *new_fields(const struct bh_decisions *d)
{
    struct bh_val *fields = bh_val_map();
    bh_val_set_str(fields, "run", d->lease->run.s);
    bh_val_set_str(fields, "agent", d->lease->agent);
    bh_val_set_str(fields, "instance", d->lease->instance.s);
    return fields;
}

static struct batch *next_batch(struct bh_decisions *d)
{
    if (!d->next) {
        d->next = bh_alloc(sizeof(*d->next));
        d->next->home = bh_strdup(d->home);
    }
    return d->next;
}

/* Takes fields. */
static void add_line(struct bh_decisions *d, enum bh_audit_kind kind, struct bh_val *fields)
{
    struct batch *b = next_batch(d);
    *BH_PUSH(b->entries, b->n, b->cap) = (struct bh_audit_entry){kind, fields};
}

static void copy_fields(struct bh_val *to, const struct bh_val *from, const char *const *keys)
{
    for (; *keys; keys++) {
        const struct bh_val *v = bh_val_get(from, *keys);
        if (v)
            bh_val_set(to, *keys, bh_val_copy(v));
    }
}

/* --- single ones --- */

static bool is_denied(const struct bh_val *msg)
{
    return !bh_streq(bh_val_str_of(msg, "verdict"), "allow");
}

static void on_sum(void *arg, enum bh_audit_kind kind, struct bh_val *sum)
{
    struct bh_decisions *d = arg;
    struct bh_val *fields = new_fields(d);
    for (size_t i = 0; i < bh_val_len(sum); i++)
        bh_val_set(fields, bh_val_key_at(sum, i), bh_val_copy(bh_val_at(sum, i)));
    bh_val_free(sum);
    add_line(d, kind, fields);
}

/*
 * A line of its own, or it is summed. However much is denied or let through before it, where something went to is
 * always named. Takes `common`, which it shares with others of its kind; `own` are the names of its other fields.
 */
static void note(struct bh_decisions *d, enum bh_audit_kind kind, struct bh_val *common, const struct bh_val *msg,
                 const char *const *own)
{
    BH_CLEANUP_VAL struct bh_val *shared = common;
    bool denied = is_denied(msg);
    if (d->lines[denied]++ >= SINGLE_MAX &&
        !bh_decision_sums_add(d->sums, kind, bh_val_copy(shared), msg, denied, on_sum, d))
        return;
    struct bh_val *fields = new_fields(d);
    for (size_t i = 0; i < bh_val_len(shared); i++)
        bh_val_set(fields, bh_val_key_at(shared, i), bh_val_copy(bh_val_at(shared, i)));
    if (bh_val_str_of(msg, "time")) /* when it was decided; `time` is when the line was written */
        bh_val_set_str(fields, "at", bh_val_str_of(msg, "time"));
    copy_fields(fields, msg, own);
    add_line(d, kind, fields);
}

static void note_denial(struct bh_decisions *d, char *what, const char *why)
{
    BH_CLEANUP_FREE char *own = what;
    d->denied++;
    if (d->lease->tainted || d->n_shown == SHOWN)
        return;
    for (size_t i = 0; i < d->n_shown; i++) {
        if (bh_starts_with(d->shown[i], own))
            return;
    }
    d->shown[d->n_shown++] = why ? bh_asprintf("%s (%s)", own, why) : bh_strdup(own);
}

void bh_decisions_egress(struct bh_decisions *d, const struct bh_val *msg)
{
    static const char *const keys[] = {"phase", "host", "port", "verdict", "reason", "state", NULL};
    static const char *const own[] = {"connection", "address", "up", "down", NULL};
    if (is_denied(msg)) {
        const char *host = bh_val_str_of(msg, "host");
        note_denial(d, bh_asprintf("%s:%lld", host ? host : "", (long long)bh_val_int_of(msg, "port")),
                    bh_val_str_of(msg, "reason"));
    }
    struct bh_val *common = bh_val_map();
    bh_val_set_str(common, "box", d->lease->box.id);
    copy_fields(common, msg, keys);
    note(d, BH_AUDIT_EGRESS, common, msg, own);
    if (bh_streq(bh_val_str_of(msg, "state"), "open")) /* also behind what is being written, where it is summed */
        next_batch(d)->connection = bh_val_int_of(msg, "connection");
    write_next(d);
}

void bh_decisions_call(struct bh_decisions *d, const char *endpoint, const struct bh_val *msg)
{
    static const char *const keys[] = {"verdict", "reason", "leaked", NULL};
    static const char *const own[] = {"method", "path", "status", "up", "down", "tokens_in", "tokens_out", NULL};
    int64_t times = bh_val_int_of(msg, "times");
    d->denied += times;
    if (is_denied(msg) && times == 0) {
        const char *method = bh_val_str_of(msg, "method"), *path = bh_val_str_of(msg, "path");
        note_denial(d, bh_asprintf("%s %s of %s", method ? method : "", path ? path : "", endpoint),
                    bh_val_str_of(msg, "reason"));
    }
    struct bh_val *common = bh_val_map();
    bh_val_set_str(common, "endpoint", endpoint);
    copy_fields(common, msg, keys);
    if (times > 0) { /* the broker has counted them, for there were too many */
        (void)bh_decision_sums_add(d->sums, BH_AUDIT_CALL, common, msg, true, on_sum, d);
        return;
    }
    note(d, BH_AUDIT_CALL, common, msg, own);
    write_next(d);
}

void bh_decisions_secret(struct bh_decisions *d, const char *endpoint, const char *secret)
{
    struct bh_val *fields = new_fields(d);
    bh_val_set_str(fields, "secret", secret);
    bh_val_set_str(fields, "endpoint", endpoint);
    add_line(d, BH_AUDIT_SECRET, fields);
    write_next(d);
}

/* What is reached there is not asked for here: one line for all of it. */
void bh_decisions_host(struct bh_decisions *d, enum bh_net_phase phase)
{
    struct bh_val *fields = new_fields(d);
    bh_val_set_str(fields, "box", d->lease->box.id);
    bh_val_set_str(fields, "phase", bh_net_phase_text(phase));
    bh_val_set_str(fields, "verdict", "allow");
    bh_val_set_str(fields, "reason", "host-network");
    add_line(d, BH_AUDIT_EGRESS, fields);
    write_next(d);
    d->on_host |= 1u << phase;
}

const char *bh_decisions_problem(const struct bh_decisions *d)
{
    return d->problem;
}

/* --- the end --- */

void bh_decisions_flush(struct bh_decisions *d, void (*done)(void *arg), void *arg)
{
    bh_decision_sums_take(d->sums, on_sum, d);
    d->done = done;
    d->arg = arg;
    write_next(d);
}

char *bh_decisions_text(const struct bh_decisions *d)
{
    if (d->problem)
        return bh_asprintf("its decisions could not be written to the audit log: %s", d->problem);
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    for (int i = 0; i < BH_N_NET_PHASES; i++) {
        if (d->on_host & 1u << i)
            bh_buf_addf(&out, "%s%s", out.len ? ", " : "it had the host's network in ",
                        bh_net_phase_text((enum bh_net_phase)i));
    }
    if (d->denied == 0)
        return out.len > 0 ? bh_buf_take(&out) : NULL;
    bh_buf_addf(&out, "%s%lld connection%s or call%s denied", out.len ? "; " : "", (long long)d->denied,
                d->denied == 1 ? "" : "s", d->denied == 1 ? " was" : "s were");
    for (size_t i = 0; i < d->n_shown; i++) {
        bh_buf_adds(&out, i == 0 ? ": " : ", ");
        bh_escape_terminal(&out, d->shown[i], strlen(d->shown[i]));
    }
    if (d->n_shown == SHOWN && d->denied > SHOWN)
        bh_buf_adds(&out, " …");
    return bh_buf_take(&out);
}

struct bh_decisions *bh_decisions_new(struct bh_helper *helper, const char *home, const struct bh_lease *lease,
                                      bh_decisions_noted_fn *noted, void *arg)
{
    struct bh_decisions *d = bh_alloc(sizeof(*d));
    *d = (struct bh_decisions){.helper = helper, .home = home, .lease = lease, .noted = noted, .noted_arg = arg};
    d->sums = bh_decision_sums_new();
    return d;
}

void bh_decisions_free(struct bh_decisions *d)
{
    if (!d)
        return;
    bh_job_forget(d->job);
    bh_decision_sums_take(d->sums, on_sum, d);
    bh_decision_sums_free(d->sums);
    if (d->next) /* nobody waits, and it is to be known all the same */
        bh_job_forget(bh_helper_submit(d->helper, &batch_ops, NULL, d->next));
    for (size_t i = 0; i < d->n_shown; i++)
        bh_free(d->shown[i]);
    bh_free(d->problem);
    bh_free(d);
}
