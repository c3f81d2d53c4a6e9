/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/t.h"

#include "scheduler/dispatch/event_codec.h"

static struct bh_event example(enum bh_event_kind kind)
{
    struct bh_event event = {
        .kind = kind,
        .worker = 3,
        .slots = 8,
        .instance = bh_instance_id_make(bh_run_id_new(), 7),
        .epoch = 2,
        .state = kind == BH_EV_STATE ? BH_ATTEMPT_SETUP : BH_ATTEMPT_FAILED,
        .reason = BH_REASON_TIMEOUT,
        .phase = BH_PHASE_RUN,
        .has_score = true,
        .score = -0.1,
        .box = 5,
        .gate = 2,
        .approved = true,
    };
    snprintf(event.layer, sizeof(event.layer), "crew-1");
    return event;
}

/* What a kind carries comes back; what it does not carry is zero. */
static void every_kind_comes_back(void **state)
{
    (void)state;
    for (int k = 0; k <= BH_EV_GATE_EXPIRED; k++) {
        struct bh_event in = example((enum bh_event_kind)k), out;
        BH_CLEANUP_VAL struct bh_val *v = bh_event_to_val(&in);
        T_OK(bh_event_from_val(bh_event_kind_text(in.kind), v, &out, &err));
        T_INT(out.kind, in.kind);
        if (bh_val_get(v, "worker"))
            T_INT(out.worker, in.worker);
        if (bh_val_get(v, "slots"))
            T_INT(out.slots, in.slots);
        if (bh_val_get(v, "instance")) {
            T_STR(out.instance.s, in.instance.s);
            T_INT(out.epoch, in.epoch);
        }
        if (bh_val_get(v, "state"))
            T_INT(out.state, in.state);
        T_INT(out.has_score, in.kind == BH_EV_ENDED);
        if (out.has_score) {
            assert_true(out.score == in.score);
        }
        if (bh_val_get(v, "reason")) {
            T_INT(out.reason, in.reason);
            T_INT(out.phase, in.phase);
        }
        if (bh_val_get(v, "gate"))
            T_INT(out.gate, in.gate);
        T_INT(out.approved, in.kind == BH_EV_GATE_DECIDED);
        if (bh_val_get(v, "layer")) {
            T_INT(out.box, in.box);
            T_STR(out.layer, in.layer);
        }
    }
}

static void which_kinds_carry_what(void **state)
{
    (void)state;
    static const struct {
        enum bh_event_kind kind;
        const char *key;
    } carries[] = {
        {BH_EV_WORKER_UP, "slots"},     {BH_EV_WORKER_LOST, "worker"}, {BH_EV_STATE, "state"},
        {BH_EV_ENDED, "reason"},        {BH_EV_FROZEN, "layer"},       {BH_EV_FREEZE_FAILED, "box"},
        {BH_EV_FREEZE_FAILED, "layer"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(carries); i++) {
        struct bh_event in = example(carries[i].kind);
        BH_CLEANUP_VAL struct bh_val *v = bh_event_to_val(&in);
        assert_non_null(bh_val_get(v, carries[i].key));
    }
}

static void members_of_others_are_ignored(void **state)
{
    (void)state;
    struct bh_event in = example(BH_EV_CANCEL), out;
    BH_CLEANUP_VAL struct bh_val *v = bh_event_to_val(&in);
    bh_val_set_str(v, "detail", "for people");
    T_OK(bh_event_from_val(bh_event_kind_text(BH_EV_CANCEL), v, &out, &err));
    T_INT(out.kind, BH_EV_CANCEL);
}

static void a_damaged_event_is_named(void **state)
{
    (void)state;
    struct bh_event out, in = example(BH_EV_ENDED);
    BH_CLEANUP_VAL struct bh_val *v = bh_event_to_val(&in);
    const char *kind = bh_event_kind_text(BH_EV_ENDED);
    T_ERR(bh_event_from_val("no.such", v, &out, &err), BH_E_STORE_CORRUPT, "unknown event 'no.such'");
    bh_val_set_str(v, "instance", "short");
    T_ERR(bh_event_from_val(kind, v, &out, &err), BH_E_STORE_CORRUPT, kind);
    bh_val_set_str(v, "instance", in.instance.s);
    bh_val_set_str(v, "state", "dancing");
    T_ERR(bh_event_from_val(kind, v, &out, &err), BH_E_STORE_CORRUPT, kind);
    struct bh_event frozen = example(BH_EV_FROZEN);
    BH_CLEANUP_VAL struct bh_val *f = bh_event_to_val(&frozen);
    bh_val_set_str(f, "layer", "a-name-that-is-longer-than-any-layer-may-be-because-it-does-not-fit-into-it");
    T_ERR(bh_event_from_val(bh_event_kind_text(BH_EV_FROZEN), f, &out, &err), BH_E_STORE_CORRUPT, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back),
        cmocka_unit_test(which_kinds_carry_what),
        cmocka_unit_test(members_of_others_are_ignored),
        cmocka_unit_test(a_damaged_event_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
