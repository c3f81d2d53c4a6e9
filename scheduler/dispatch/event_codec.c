/* SPDX-License-Identifier: Apache-2.0 */
/* One table of which fields an event kind has; writing and reading follow it. */
#include "scheduler/dispatch/event_codec.h"

#include <string.h>

#include "base/text.h"

enum {
    HAS_WORKER = 1,
    HAS_SLOTS = 2,
    HAS_INSTANCE = 4,
    HAS_STATE = 8,
    HAS_REASON = 16,
    HAS_BOX = 32,
    HAS_LAYER = 64,
    HAS_SCORE = 128,
    HAS_GATE = 256,
    HAS_VERDICT = 512
};

static unsigned fields_of(enum bh_event_kind kind)
{
    switch (kind) {
    case BH_EV_WORKER_UP:
        return HAS_WORKER | HAS_SLOTS;
    case BH_EV_WORKER_LOST:
        return HAS_WORKER;
    case BH_EV_STATE:
        return HAS_INSTANCE | HAS_STATE;
    case BH_EV_ENDED:
        return HAS_INSTANCE | HAS_STATE | HAS_REASON | HAS_SCORE;
    case BH_EV_PUBLISHED:
        return HAS_INSTANCE | HAS_REASON;
    case BH_EV_FROZEN:
        return HAS_BOX | HAS_LAYER;
    case BH_EV_FREEZE_FAILED:
        return HAS_BOX | HAS_LAYER | HAS_REASON;
    case BH_EV_GATE_ASKED:
    case BH_EV_GATE_EXPIRED:
        return HAS_GATE;
    case BH_EV_GATE_DECIDED:
        return HAS_GATE | HAS_VERDICT;
    case BH_EV_START:
    case BH_EV_OWNER:
    case BH_EV_RETRY_FAILED:
    case BH_EV_CANCEL:
    case BH_EV_DEADLINE:
        return 0;
    }
    return 0;
}

struct bh_val *bh_event_to_val(const struct bh_event *event)
{
    unsigned fields = fields_of(event->kind);
    struct bh_val *v = bh_val_map();
    if (fields & HAS_WORKER)
        bh_val_set_int(v, "worker", event->worker);
    if (fields & HAS_SLOTS)
        bh_val_set_int(v, "slots", event->slots);
    if (fields & HAS_INSTANCE) {
        bh_val_set_str(v, "instance", event->instance.s);
        bh_val_set_int(v, "epoch", event->epoch);
    }
    if (fields & HAS_STATE)
        bh_val_set_str(v, "state", bh_attempt_state_text(event->state));
    if ((fields & HAS_REASON) && event->reason != BH_REASON_NONE)
        bh_val_set_str(v, "reason", bh_reason_text(event->reason, event->phase));
    if ((fields & HAS_SCORE) && event->has_score)
        bh_val_set(v, "score", bh_val_num(event->score));
    if (fields & HAS_BOX)
        bh_val_set_int(v, "box", (int64_t)event->box);
    if (fields & HAS_LAYER)
        bh_val_set_str(v, "layer", event->layer);
    if (fields & HAS_GATE)
        bh_val_set_int(v, "gate", (int64_t)event->gate);
    if (fields & HAS_VERDICT)
        bh_val_set_str(v, "verdict", event->approved ? "approve" : "reject");
    return v;
}

static bool read_instance(const struct bh_val *payload, struct bh_event *event)
{
    const char *instance = bh_val_str_of(payload, "instance");
    if (!instance || !bh_instance_id_valid(instance))
        return false;
    memcpy(event->instance.s, instance, sizeof(event->instance.s));
    event->epoch = bh_val_int_of(payload, "epoch");
    return true;
}

static bool read_state(const struct bh_val *payload, struct bh_event *event)
{
    const char *text = bh_val_str_of(payload, "state");
    int state = text ? bh_attempt_state_parse(text) : -1;
    if (state < 0)
        return false;
    event->state = (enum bh_attempt_state)state;
    return true;
}

static bool read_layer(const struct bh_val *payload, struct bh_event *event)
{
    const char *layer = bh_val_str_of(payload, "layer");
    if (!layer || strlen(layer) >= sizeof(event->layer))
        return false;
    memcpy(event->layer, layer, strlen(layer) + 1);
    return true;
}

static bool read_verdict(const struct bh_val *payload, struct bh_event *event)
{
    const char *verdict = bh_val_str_of(payload, "verdict");
    event->approved = bh_streq(verdict, "approve");
    return event->approved || bh_streq(verdict, "reject");
}

int bh_event_from_val(const char *kind, const struct bh_val *payload, struct bh_event *ret, struct bh_err **err)
{
    int k = bh_event_kind_parse(kind);
    if (k < 0)
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "unknown event '%s'", kind);
    struct bh_event event = {.kind = (enum bh_event_kind)k};
    unsigned fields = fields_of(event.kind);
    event.worker = (int)bh_val_int_of(payload, "worker");
    event.slots = (int)bh_val_int_of(payload, "slots");
    event.box = (size_t)bh_val_int_of(payload, "box");
    event.gate = (size_t)bh_val_int_of(payload, "gate");
    const struct bh_val *score = fields & HAS_SCORE ? bh_val_get(payload, "score") : NULL;
    event.has_score = bh_val_type(score) == BH_VAL_NUM || bh_val_type(score) == BH_VAL_INT;
    event.score = event.has_score ? bh_val_get_num(score) : 0;
    const char *reason = bh_val_str_of(payload, "reason");
    if (reason) {
        event.reason = bh_reason_parse(reason);
        event.phase = bh_phase_parse(reason);
    }
    bool good = (!(fields & HAS_INSTANCE) || read_instance(payload, &event)) &&
                (!(fields & HAS_STATE) || read_state(payload, &event)) &&
                (!(fields & HAS_LAYER) || read_layer(payload, &event)) &&
                (!(fields & HAS_VERDICT) || read_verdict(payload, &event));
    if (!good)
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "an event '%s' lacks a field", kind);
    *ret = event;
    return 0;
}
