/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decision is looked for by the digest of the question that is open, so what was said about anything else is not even
 * read. A file that is not what it must be is reported once and waited past: a person can put it right.
 */
#include "scheduler/dispatch/gatekeeper.h"

#include <event2/event.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "policies/audit.h"
#include "scheduler/dispatch/decision.h"
#include "scheduler/dispatch/gate_audit.h"
#include "scheduler/dispatch/question.h"

struct bh_gatekeeper {
    struct event_base *loop;
    struct bh_live_run *run;
    struct bh_gatekeeper_owner owner;
    size_t n;
    struct gate {
        struct bh_gatekeeper *keeper;
        struct event *timer; /* NULL: not asked yet */
    } * gates;
    int watch; /* inotify */
    struct event *changed;
};

/* --- the audit --- */

/* Before the verdict means anything. False: the run has been stopped. */
static bool audit(struct bh_gatekeeper *k, const char *verdict, const struct bh_val *facts)
{
    struct bh_err *err = NULL;
    if (!k->owner.home || bh_gate_audit(k->owner.home, bh_live_run_id(k->run), verdict, facts, &err) == 0)
        return true;
    k->owner.failed(k->owner.arg, err);
    return false;
}

/* --- what workers looked at --- */

static bool is_endorsed(const struct bh_gatekeeper *k, const struct bh_lease *lease, const char *name)
{
    const struct bh_attempt *attempt = bh_engine_find(bh_live_run_engine(k->run), lease->instance);
    const struct bh_plan_agent *agent = attempt ? &bh_live_run_plan(k->run)->agents[attempt->node] : NULL;
    for (size_t i = 0; agent && i < agent->n_gates; i++) {
        const struct bh_plan_gate *g = &agent->gates[i];
        if (g->kind == BH_GATE_ENDORSE && bh_plan_gate_fits(g, name))
            return true;
    }
    return false;
}

static struct bh_val *validated_fields(const struct bh_lease *lease, const char *name, const char *verdict,
                                       const char *detail)
{
    char digest[BH_DIGEST_TEXT];
    const struct bh_lease_file *input = bh_lease_input(lease, name);
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "run", lease->run.s);
    bh_val_set_str(v, "verdict", verdict);
    bh_val_set_str(v, "name", lease->agent);
    bh_val_set_str(v, "of", "agent");
    bh_val_set_str(v, "how", "validate");
    bh_val_set_str(v, "instance", lease->instance.s);
    if (detail)
        bh_val_set_str(v, "reason", detail);
    struct bh_val *a = bh_val_add(bh_val_set(v, "artifacts", bh_val_list()), bh_val_map());
    bh_val_set_str(a, "name", name);
    bh_val_set_str(a, "digest", input ? bh_digest_format(&input->object.digest, digest) : NULL);
    return v;
}

/* All of one execution, and each once: several entries may be about one input. */
static size_t validated_entries(const struct bh_gatekeeper *k, const struct bh_lease *lease,
                                struct bh_audit_entry *entries)
{
    size_t n = 0;
    for (size_t i = 0; i < lease->n_gates; i++) {
        const char *name = lease->gates[i].artifact;
        bool again = false;
        for (size_t j = 0; j < i; j++)
            again = again || bh_streq(lease->gates[j].artifact, name);
        if (again)
            continue;
        entries[n++] = (struct bh_audit_entry){BH_AUDIT_GATE, validated_fields(lease, name, "pass", NULL)};
        if (is_endorsed(k, lease, name))
            entries[n++] = (struct bh_audit_entry){BH_AUDIT_OVERRIDE, validated_fields(lease, name, "endorse", NULL)};
    }
    return n;
}

/* The input that the detail names, or the first. */
static const char *refused_input(const struct bh_lease *lease, const char *detail)
{
    for (size_t i = 0; detail && i < lease->n_gates; i++) {
        BH_CLEANUP_FREE char *lead = bh_asprintf("the gate for input '%s' ", lease->gates[i].artifact);
        if (bh_starts_with(detail, lead))
            return lease->gates[i].artifact;
    }
    return NULL;
}

void bh_gatekeeper_validated(struct bh_gatekeeper *k, const struct bh_lease *lease, const struct bh_result *result)
{
    struct bh_err *err = NULL;
    size_t n = 0;
    const char *refused = bh_streq(result->reason, "policy") ? refused_input(lease, result->detail) : NULL;
    if (!k->owner.home || lease->n_gates == 0)
        return;
    struct bh_audit_entry *entries = bh_calloc(2 * lease->n_gates, sizeof(*entries));
    if (refused)
        entries[n++] =
            (struct bh_audit_entry){BH_AUDIT_GATE, validated_fields(lease, refused, "refuse", result->detail)};
    else if (result->started.us != 0) /* something of the agent ran: so all of them had passed */
        n = validated_entries(k, lease, entries);
    if (n > 0 && bh_audit_add_all(k->owner.home, entries, n, &err) != 0)
        k->owner.failed(k->owner.arg, err);
    bh_audit_entries_free(entries, n);
}

/* --- verdicts --- */

static void decide(struct bh_gatekeeper *k, size_t gate, bool approved, bool audited, struct bh_val *facts)
{
    struct bh_event event = {.kind = BH_EV_GATE_DECIDED, .gate = gate, .approved = approved};
    if (!audited && !audit(k, approved ? "approve" : "reject", facts)) {
        bh_val_free(facts);
        return;
    }
    bh_log(BH_LOG_INFO, "gate.decided", "run", bh_live_run_id(k->run), "gate", bh_val_str_of(facts, "name"), "verdict",
           approved ? "approve" : "reject", NULL);
    if (k->gates[gate].timer)
        (void)event_del(k->gates[gate].timer);
    k->owner.feed(k->owner.arg, &event, facts);
    k->owner.told(k->owner.arg, gate);
}

/* Nobody is asked: there is nothing to pass, or somebody has let all of it pass before. */
static struct bh_val *without_asking(struct bh_val *question, const struct bh_val *before)
{
    bh_question_repeat_answer(question, before ? "approved before" : "nothing to approve", before);
    return question;
}

/* True where somebody has decided about this question. */
static bool look(struct bh_gatekeeper *k, size_t gate, const struct bh_val *question)
{
    struct bh_decision d = {0};
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (!k->owner.home)
        return false;
    int rc = bh_decision_read(k->owner.home, bh_live_run_id(k->run), bh_val_str_of(question, "digest"), &d, &err);
    if (rc == -BH_E_NOT_FOUND)
        return false;
    if (rc != 0) {
        bh_log(BH_LOG_WARN, "gate.decision-refused", "run", bh_live_run_id(k->run), "gate",
               bh_val_str_of(question, "name"), "why", bh_err_message(err), NULL);
        return false;
    }
    decide(k, gate, d.approved, d.audited, bh_gate_verdict(question, &d));
    bh_decision_fini(&d);
    return true;
}

/* --- asking --- */

void bh_gatekeeper_ask(struct bh_gatekeeper *k, size_t gate)
{
    BH_CLEANUP_VAL struct bh_val *question = bh_question_make(k->run, gate);
    const struct bh_val *before = NULL;
    if (!bh_question_is_new(k->run, gate, question, &before)) {
        decide(k, gate, true, false, without_asking(BH_TAKE(question), before));
        return;
    }
    if (look(k, gate, question))
        return;
    struct bh_event event = {.kind = BH_EV_GATE_ASKED, .gate = gate};
    bh_log(BH_LOG_INFO, "gate.asked", "run", bh_live_run_id(k->run), "gate", bh_val_str_of(question, "name"), NULL);
    k->owner.feed(k->owner.arg, &event, BH_TAKE(question));
}

static bool is_open(const struct bh_gatekeeper *k, size_t gate)
{
    const struct bh_gate *g = bh_engine_gate(bh_live_run_engine(k->run), gate);
    return g->state == BH_GATE_ASKED && g->expires.us != 0;
}

/* What is there of the events is of no interest: each question that is open knows what it looks for. */
static void on_changed(evutil_socket_t fd, short what BH_UNUSED, void *arg)
{
    struct bh_gatekeeper *k = arg;
    char events[4096];
    while (read(fd, events, sizeof(events)) > 0)
        ;
    for (size_t i = 0; i < k->n; i++) {
        BH_CLEANUP_VAL struct bh_val *question = NULL;
        if (!is_open(k, i))
            continue;
        question = bh_val_copy(bh_live_run_question(k->run, i)); /* deciding replaces it */
        (void)look(k, i, question);
    }
}

static void on_expired(evutil_socket_t fd BH_UNUSED, short what BH_UNUSED, void *arg)
{
    struct gate *g = arg;
    struct bh_gatekeeper *k = g->keeper;
    size_t gate = (size_t)(g - k->gates);
    struct bh_event event = {.kind = BH_EV_GATE_EXPIRED, .gate = gate};
    struct bh_val *facts = is_open(k, gate) ? bh_val_copy(bh_live_run_question(k->run, gate)) : NULL;
    if (!facts || !audit(k, "expired", facts)) {
        bh_val_free(facts);
        return;
    }
    k->owner.feed(k->owner.arg, &event, facts);
    k->owner.told(k->owner.arg, gate);
}

void bh_gatekeeper_expire_at(struct bh_gatekeeper *k, size_t gate, struct bh_wall at)
{
    struct gate *g = &k->gates[gate];
    int64_t left = at.us - bh_wall_now().us;
    struct timeval tv = {.tv_sec = left > 0 ? left / 1000000 : 0, .tv_usec = left > 0 ? left % 1000000 : 0};
    if (!is_open(k, gate))
        return; /* decided in the same breath */
    if (!g->timer)
        g->timer = evtimer_new(k->loop, on_expired, g);
    if (g->timer)
        (void)evtimer_add(g->timer, &tv);
    k->owner.told(k->owner.arg, gate);
    /* Who decided between the look and this could not be heard. */
    BH_CLEANUP_VAL struct bh_val *question = bh_val_copy(bh_live_run_question(k->run, gate));
    (void)look(k, gate, question);
}

/* --- life --- */

static int start_watch(struct bh_gatekeeper *k, struct bh_err **err)
{
    BH_CLEANUP_FREE char *folder = NULL;
    int rc = bh_decision_folder(k->owner.home, bh_live_run_id(k->run), &folder, err);
    if (rc != 0)
        return rc;
    k->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (k->watch < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot watch for decisions");
    if (inotify_add_watch(k->watch, folder, IN_MOVED_TO | IN_CREATE | IN_CLOSE_WRITE | IN_ONLYDIR) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot watch '%s'", folder);
    k->changed = event_new(k->loop, k->watch, EV_READ | EV_PERSIST, on_changed, k);
    if (!k->changed || event_add(k->changed, NULL) != 0)
        return bh_err_set(err, BH_E_INTERNAL, 0, "cannot watch for decisions");
    return 0;
}

int bh_gatekeeper_new(struct event_base *loop, struct bh_live_run *run, struct bh_gatekeeper_owner owner,
                      struct bh_gatekeeper **ret, struct bh_err **err)
{
    struct bh_gatekeeper *k = bh_alloc(sizeof(*k));
    *k = (struct bh_gatekeeper){
        .loop = loop, .run = run, .owner = owner, .n = bh_live_run_spec(run)->n_gates, .watch = -1};
    k->gates = bh_calloc(k->n, sizeof(*k->gates));
    for (size_t i = 0; i < k->n; i++)
        k->gates[i].keeper = k;
    int rc = k->n > 0 && owner.home ? start_watch(k, err) : 0;
    if (rc != 0)
        bh_gatekeeper_free(k);
    else
        *ret = k;
    return rc;
}

void bh_gatekeeper_free(struct bh_gatekeeper *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < k->n; i++) {
        if (k->gates[i].timer)
            event_free(k->gates[i].timer);
    }
    if (k->changed)
        event_free(k->changed);
    bh_close(k->watch);
    bh_free(k->gates);
    bh_free(k);
}
