/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of a run, in one place: settle() commits what was applied, answers whoever waits for that, and carries out
 * the effects, which may apply more; it returns when nothing is left to do before somebody speaks again.
 */
#include "scheduler/dispatch/dispatcher.h"

#include <event2/event.h>

#include "artifact-bus/transport.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "scheduler/dispatch/gatekeeper.h"
#include "scheduler/dispatch/hub.h"
#include "scheduler/dispatch/lease_make.h"
#include "scheduler/dispatch/snapshot_key.h"

struct box_life { /* a shared box as it stands on its worker */
    char *key;    /* NULL: not made, or given up */
    int worker;
    unsigned made; /* how many incarnations this process has named */
};

struct answer {
    struct bh_bus_request *request;
    struct bh_val *body;
};

struct bh_dispatcher {
    struct event_base *loop;
    struct bh_live_run *run;
    struct bh_hub *hub;
    struct bh_dispatcher_owner owner;
    struct bh_map *leases; /* instance → struct bh_lease, until its end */
    struct box_life *boxes;
    struct answer *answers; /* wait for the next commit */
    size_t n_answers, cap_answers;
    struct event *deadline;
    struct bh_gatekeeper *gates;
    char *host;       /* bh_host_stamp() when the run was taken up */
    size_t releasing; /* shared boxes whose release is not confirmed */
    bool over, settling, broken;
    enum bh_run_status status;
};

static void settle(struct bh_dispatcher *d);

static const struct bh_plan *plan_of(const struct bh_dispatcher *d)
{
    return bh_live_run_plan(d->run);
}

static struct bh_val *message(const struct bh_dispatcher *d, const char *kind)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "kind", kind);
    bh_val_set_str(v, "run", bh_live_run_id(d->run));
    return v;
}

static struct bh_val *ok_body(bool ok)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_bool(v, "ok", ok);
    return v;
}

static void answer_later(struct bh_dispatcher *d, struct bh_bus_request *request, struct bh_val *body)
{
    *BH_PUSH(d->answers, d->n_answers, d->cap_answers) = (struct answer){request, body};
}

static void free_lease(void *lease)
{
    bh_lease_fini(lease);
    bh_free(lease);
}

/* --- what workers say --- */

static bool read_instance(const struct bh_val *body, struct bh_event *event)
{
    const char *instance = bh_val_str_of(body, "instance");
    if (!instance || !bh_instance_id_valid(instance))
        return false;
    memcpy(event->instance.s, instance, sizeof(event->instance.s));
    event->epoch = bh_val_int_of(body, "epoch");
    return true;
}

static struct bh_val *said_state(struct bh_dispatcher *d, const struct bh_val *body)
{
    struct bh_event event = {.kind = BH_EV_STATE};
    const char *text = bh_val_str_of(body, "state");
    int state = text ? bh_attempt_state_parse(text) : -1;
    if (!read_instance(body, &event) || state < BH_ATTEMPT_BOOTING || state > BH_ATTEMPT_COLLECTING)
        return ok_body(false);
    event.state = (enum bh_attempt_state)state;
    return ok_body(bh_live_run_apply(d->run, &event, NULL));
}

/* The box of a lost execution is not used again; what comes next starts from its newest frozen layer. */
static void give_up_box(struct bh_dispatcher *d, const struct bh_lease *lease)
{
    for (size_t i = 0; i < plan_of(d)->n_boxes; i++) {
        if (d->boxes[i].key && bh_streq(d->boxes[i].key, lease->box.key))
            bh_free(BH_TAKE(d->boxes[i].key));
    }
}

static struct bh_val *said_done(struct bh_dispatcher *d, const struct bh_val *body)
{
    struct bh_result result = {0};
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (bh_result_from_val(bh_val_get(body, "result"), &result, &err) != 0) {
        struct bh_val *v = ok_body(false);
        bh_val_set_str(v, "error", bh_err_message(err));
        return v;
    }
    const struct bh_lease *lease = bh_map_get(d->leases, result.instance.s);
    bool fresh = lease && bh_live_run_end(d->run, lease, &result);
    if (fresh)
        bh_gatekeeper_validated(d->gates, lease, &result);
    if (fresh && result.reason && (bh_streq(result.reason, "box-lost") || bh_streq(result.reason, "host")))
        give_up_box(d, lease);
    bh_log(BH_LOG_INFO, fresh ? "execution.end" : "execution.stale", "run", bh_live_run_id(d->run), "agent",
           lease ? lease->agent : "", "instance", result.instance.s, "reason", result.reason ? result.reason : "",
           "detail", result.detail ? result.detail : "", NULL);
    struct bh_val *answer = ok_body(fresh);
    if (!fresh)
        bh_val_set_bool(answer, "stale", true);
    bh_map_del(d->leases, result.instance.s);
    bh_result_fini(&result);
    return answer;
}

static size_t box_index(const struct bh_dispatcher *d, const char *id)
{
    const struct bh_plan *plan = plan_of(d);
    for (size_t i = 0; i < plan->n_boxes; i++) {
        if (bh_streq(plan->boxes[i].id, id))
            return i;
    }
    return SIZE_MAX;
}

static struct bh_val *said_frozen(struct bh_dispatcher *d, const struct bh_val *body)
{
    size_t box = box_index(d, bh_val_str_of(body, "box"));
    const char *layer = bh_val_str_of(body, "layer");
    bool ok = bh_val_bool_of(body, "ok");
    struct bh_event event = {
        .kind = ok ? BH_EV_FROZEN : BH_EV_FREEZE_FAILED, .box = box, .reason = ok ? BH_REASON_NONE : BH_REASON_HOST};
    if (box == SIZE_MAX || !layer || strlen(layer) >= sizeof(event.layer))
        return ok_body(false);
    memcpy(event.layer, layer, strlen(layer) + 1);
    const char *why = bh_val_str_of(body, "detail");
    struct bh_val *extra = bh_val_map();
    BH_CLEANUP_FREE char *detail =
        bh_asprintf("the shared box '%s' could not be frozen, so what agents left there undeclared is lost: %s",
                    plan_of(d)->boxes[box].id, why ? why : "no reason was given");
    if (!ok)
        bh_val_set_str(extra, "detail", detail);
    return ok_body(bh_live_run_apply(d->run, &event, extra));
}

static struct bh_val *said_released(struct bh_dispatcher *d)
{
    if (d->releasing > 0)
        d->releasing--;
    return ok_body(true);
}

static void on_said(void *arg, int worker BH_UNUSED, const char *kind, struct bh_bus_request *request)
{
    struct bh_dispatcher *d = arg;
    const struct bh_val *body = bh_bus_request_body(request);
    struct bh_val *answer;
    if (bh_streq(kind, "state"))
        answer = said_state(d, body);
    else if (bh_streq(kind, "done"))
        answer = said_done(d, body);
    else if (bh_streq(kind, "frozen"))
        answer = said_frozen(d, body);
    else
        answer = said_released(d);
    answer_later(d, request, answer);
}

static void on_worker_up(void *arg, int worker, int slots)
{
    struct bh_dispatcher *d = arg;
    struct bh_event event = {.kind = BH_EV_WORKER_UP, .worker = worker, .slots = slots};
    char number[16];
    snprintf(number, sizeof(number), "%d", slots);
    bh_log(BH_LOG_INFO, "worker.up", "run", bh_live_run_id(d->run), "slots", number, NULL);
    (void)bh_live_run_apply(d->run, &event, NULL);
}

static void on_turn_over(void *arg)
{
    settle(arg);
}

/* --- effects --- */

static const char *box_key(struct bh_dispatcher *d, const struct bh_effect *effect)
{
    size_t box = plan_of(d)->agents[effect->node].box;
    struct box_life *life = &d->boxes[box];
    if (!plan_of(d)->boxes[box].shared)
        return effect->instance.s;
    if (!life->key)
        life->key = bh_asprintf("%s.%lld.%u", plan_of(d)->boxes[box].id, (long long)effect->epoch, ++life->made);
    life->worker = effect->worker;
    return life->key;
}

/* The attempt ends before it began. */
static enum bh_reason why_no_lease(const struct bh_err *why)
{
    enum bh_code code = bh_err_code(why);
    return code == BH_E_UNBOUND_INPUT ? BH_REASON_INPUT_SKIPPED
           : code == BH_E_POLICY      ? BH_REASON_POLICY
                                      : BH_REASON_HOST;
}

static void refuse_lease(struct bh_dispatcher *d, const struct bh_effect *effect, const struct bh_err *why)
{
    struct bh_event event = {
        .kind = BH_EV_ENDED,
        .instance = effect->instance,
        .epoch = effect->epoch,
        .state = BH_ATTEMPT_FAILED,
        .reason = why_no_lease(why),
    };
    struct bh_val *extra = bh_val_map();
    bh_val_set_str(extra, "detail", bh_err_message(why));
    (void)bh_live_run_apply(d->run, &event, extra);
}

static void carry_out_lease(struct bh_dispatcher *d, const struct bh_effect *effect)
{
    const struct bh_box_state *state = bh_engine_box(bh_live_run_engine(d->run), plan_of(d)->agents[effect->node].box);
    struct bh_lease_order order = {
        .kind = effect->execution,
        .host = d->host,
        .instance = effect->instance,
        .epoch = effect->epoch,
        .node = effect->node,
        .attempt = effect->attempt,
        .try_ = effect->try_,
        .box_key = box_key(d, effect),
        .box_layer = state->layer.s[0] ? state->layer.s : NULL,
    };
    struct bh_lease *lease = bh_alloc(sizeof(*lease));
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (bh_lease_make(d->run, &order, lease, &err) != 0) {
        bh_free(lease);
        refuse_lease(d, effect, err);
        return;
    }
    bh_log(BH_LOG_INFO, "execution.lease", "run", bh_live_run_id(d->run), "agent", lease->agent, "instance",
           effect->instance.s, "box", lease->box.key, "layer", order.box_layer ? order.box_layer : "", NULL);
    struct bh_val *body = message(d, "lease");
    bh_val_set(body, "lease", bh_lease_to_val(lease));
    bh_map_put(d->leases, effect->instance.s, lease);
    bh_hub_send_work(d->hub, effect->worker, body);
}

static void carry_out_kill(struct bh_dispatcher *d, const struct bh_effect *effect)
{
    const struct bh_attempt *attempt = bh_engine_find(bh_live_run_engine(d->run), effect->instance);
    struct bh_val *body = message(d, "kill");
    bh_val_set_str(body, "instance", effect->instance.s);
    bh_val_set_int(body, "epoch", effect->epoch);
    bh_hub_send_control(d->hub, attempt ? attempt->worker : effect->worker, body);
}

static void carry_out_freeze(struct bh_dispatcher *d, const struct bh_effect *effect)
{
    struct box_life *life = &d->boxes[effect->box];
    if (!life->key) {
        struct bh_event event = {.kind = BH_EV_FREEZE_FAILED, .box = effect->box};
        memcpy(event.layer, effect->layer, sizeof(event.layer));
        (void)bh_live_run_apply(d->run, &event, NULL);
        return;
    }
    const struct bh_box_state *state = bh_engine_box(bh_live_run_engine(d->run), effect->box);
    bh_log(BH_LOG_INFO, "box.freeze", "run", bh_live_run_id(d->run), "box", life->key, "layer", effect->layer, NULL);
    struct bh_val *body = message(d, "freeze");
    bh_val_set_str(body, "box", plan_of(d)->boxes[effect->box].id);
    bh_val_set_str(body, "key", life->key);
    bh_val_set_str(body, "layer", effect->layer);
    bh_val_set_str(body, "below", state->layer.s[0] ? state->layer.s : NULL);
    bh_hub_send_work(d->hub, life->worker, body);
    bh_free(BH_TAKE(life->key)); /* what comes next is a new box on that layer */
}

static void on_deadline(evutil_socket_t fd BH_UNUSED, short what BH_UNUSED, void *arg)
{
    struct bh_event event = {.kind = BH_EV_DEADLINE};
    bh_dispatcher_feed(arg, &event, NULL);
}

static void carry_out_deadline(struct bh_dispatcher *d, const struct bh_effect *effect)
{
    int64_t left = effect->at.us - bh_wall_now().us;
    if (left < 0)
        left = 0;
    struct timeval tv = {.tv_sec = left / 1000000, .tv_usec = left % 1000000};
    (void)evtimer_add(d->deadline, &tv);
}

/* Whether somebody's `keep` wants to look into a shared box afterwards. */
static bool keeps(const struct bh_dispatcher *d, size_t box)
{
    const struct bh_plan_box *b = &plan_of(d)->boxes[box];
    for (size_t i = 0; i < b->n_agents; i++) {
        enum bh_keep keep = plan_of(d)->agents[b->agents[i]].doc->keep;
        enum bh_node_state state = bh_engine_node(bh_live_run_engine(d->run), b->agents[i])->state;
        if (keep == BH_KEEP_ALWAYS || (keep == BH_KEEP_ON_FAILURE && state == BH_NODE_FAILED))
            return true;
    }
    return false;
}

static void release_boxes(struct bh_dispatcher *d)
{
    for (size_t i = 0; i < plan_of(d)->n_boxes; i++) {
        struct box_life *life = &d->boxes[i];
        if (!life->key)
            continue;
        struct bh_val *body = message(d, "release");
        bh_val_set_str(body, "box", plan_of(d)->boxes[i].id);
        bh_val_set_str(body, "key", life->key);
        bh_val_set_bool(body, "keep", keeps(d, i));
        bh_hub_send_work(d->hub, life->worker, body);
        bh_free(BH_TAKE(life->key));
        d->releasing++;
    }
}

static void carry_out(struct bh_dispatcher *d, const struct bh_effect *effect)
{
    switch (effect->kind) {
    case BH_EFFECT_LEASE:
        carry_out_lease(d, effect);
        break;
    case BH_EFFECT_KILL:
        carry_out_kill(d, effect);
        break;
    case BH_EFFECT_FREEZE:
        carry_out_freeze(d, effect);
        break;
    case BH_EFFECT_DEADLINE:
        carry_out_deadline(d, effect);
        break;
    case BH_EFFECT_PUBLISH: /* done where it arose: it is durable together with the end that brought it about */
        break;
    case BH_EFFECT_ASK:
        bh_gatekeeper_ask(d->gates, effect->gate);
        break;
    case BH_EFFECT_EXPIRY:
        bh_gatekeeper_expire_at(d->gates, effect->gate, effect->at);
        break;
    case BH_EFFECT_ENDED:
        if (bh_engine_status(bh_live_run_engine(d->run)) != effect->status)
            break; /* it was taken up again in the same breath */
        d->over = true;
        d->status = effect->status;
        bh_log(BH_LOG_INFO, "run.end", "run", bh_live_run_id(d->run), "status", bh_run_status_text(effect->status),
               NULL);
        (void)event_del(d->deadline);
        release_boxes(d);
        break;
    }
}

static void send_answers(struct bh_dispatcher *d)
{
    for (size_t i = 0; i < d->n_answers; i++)
        bh_bus_reply(d->answers[i].request, d->answers[i].body);
    d->n_answers = 0;
}

static bool settle_once(struct bh_dispatcher *d)
{
    struct bh_err *err = NULL;
    if (d->broken)
        return false;
    if (bh_live_run_commit(d->run, &err) != 0) {
        d->broken = true;
        d->owner.failed(d->owner.arg, err);
        return false;
    }
    send_answers(d);
    struct bh_effects effects = bh_live_run_take_effects(d->run);
    for (size_t i = 0; i < effects.len; i++)
        carry_out(d, &effects.items[i]);
    bh_effects_fini(&effects);
    return bh_live_run_pending(d->run);
}

static void settle(struct bh_dispatcher *d)
{
    if (d->settling || d->broken)
        return;
    d->settling = true;
    while (settle_once(d))
        ;
    d->settling = false;
    if (d->over && d->releasing == 0 && !d->broken) {
        d->over = false;
        d->owner.ended(d->owner.arg, d->status);
    }
}

/* --- gates --- */

static void feed_of_gates(void *arg, const struct bh_event *event, struct bh_val *extra)
{
    bh_dispatcher_feed(arg, event, extra);
}

static void gate_told(void *arg, size_t gate)
{
    struct bh_dispatcher *d = arg;
    if (d->owner.gate && !d->broken)
        d->owner.gate(d->owner.arg, gate);
}

static void gates_failed(void *arg, struct bh_err *err)
{
    struct bh_dispatcher *d = arg;
    d->broken = true;
    d->owner.failed(d->owner.arg, err);
}

/* --- life --- */

int bh_dispatcher_new(struct event_base *loop, struct bh_live_run *run, const char *url, const char *token,
                      struct bh_dispatcher_owner owner, struct bh_dispatcher **ret, struct bh_err **err)
{
    struct bh_dispatcher *d = bh_alloc(sizeof(*d));
    d->loop = loop;
    d->run = run;
    d->owner = owner;
    d->leases = bh_map_new(free_lease);
    d->boxes = bh_calloc(bh_live_run_plan(run)->n_boxes, sizeof(*d->boxes));
    d->deadline = evtimer_new(loop, on_deadline, d);
    d->host = bh_host_stamp();
    struct bh_hub_owner hub_owner = {.arg = d, .worker_up = on_worker_up, .said = on_said, .turn_over = on_turn_over};
    struct bh_gatekeeper_owner gate_owner = {
        .arg = d, .home = owner.home, .feed = feed_of_gates, .told = gate_told, .failed = gates_failed};
    int rc = bh_gatekeeper_new(loop, run, gate_owner, &d->gates, err);
    if (rc == 0)
        rc = bh_hub_new(loop, url, token, hub_owner, &d->hub, err);
    if (rc != 0)
        bh_dispatcher_free(d);
    else
        *ret = d;
    return rc;
}

void bh_dispatcher_free(struct bh_dispatcher *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_answers; i++) {
        bh_bus_request_drop(d->answers[i].request);
        bh_val_free(d->answers[i].body);
    }
    bh_free(d->answers);
    bh_hub_free(d->hub);
    bh_gatekeeper_free(d->gates);
    if (d->deadline)
        event_free(d->deadline);
    for (size_t i = 0; i < plan_of(d)->n_boxes; i++)
        bh_free(d->boxes[i].key);
    bh_free(d->boxes);
    bh_map_free(d->leases);
    bh_free(d->host);
    bh_free(d);
}

void bh_dispatcher_feed(struct bh_dispatcher *d, const struct bh_event *event, struct bh_val *extra)
{
    if (bh_live_run_apply(d->run, event, extra))
        settle(d);
}

void bh_dispatcher_begin(struct bh_dispatcher *d, const enum bh_event_kind *kinds, size_t n, struct bh_val *extra)
{
    for (size_t i = 0; i < n; i++) {
        struct bh_event event = {.kind = kinds[i]};
        (void)bh_live_run_apply(d->run, &event, bh_val_copy(extra));
    }
    bh_val_free(extra);
    settle(d);
}

int bh_dispatcher_abandon(struct bh_dispatcher *d, struct bh_err **err)
{
    const struct bh_engine *engine = bh_live_run_engine(d->run);
    for (size_t i = 0; i < bh_engine_n_attempts(engine); i++) {
        const struct bh_attempt *attempt = bh_engine_attempt(engine, i);
        if (attempt->state >= BH_ATTEMPT_SUCCEEDED)
            continue;
        struct bh_event event = {
            .kind = BH_EV_ENDED, .instance = attempt->instance, .epoch = attempt->epoch, .state = BH_ATTEMPT_CANCELLED};
        (void)bh_live_run_apply(d->run, &event, NULL);
    }
    return bh_live_run_commit(d->run, err);
}
