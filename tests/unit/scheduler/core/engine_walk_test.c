/* SPDX-License-Identifier: Apache-2.0 */
/* Every (status of a run, event) and every (state of an execution, event) pair, through the engine itself. */
#include "base/mem.h"
#include "tests/support/t.h"
#include "tests/unit/scheduler/core/fixture.h"

/* A run of one agent in a shared box, with a deadline, brought into the status. */
static struct fx in_status(enum bh_run_status status)
{
    struct bh_spec *spec = fx_spec(2);
    fx_share(spec, "crew");
    spec->deadline_ms = 1000;
    spec->failures_allowed = status == BH_RUN_SUCCEEDED ? 2 : 0;
    struct fx f = fx_new(spec);
    if (status == BH_RUN_QUEUED)
        return f;
    fx_start(&f, 2);
    if (status == BH_RUN_CANCELLED)
        T_TRUE(fx_kind(&f, BH_EV_CANCEL));
    for (size_t n = 0; n < 2 && status != BH_RUN_RUNNING; n++)
        T_TRUE(fx_end(&f, n, status == BH_RUN_CANCELLED ? BH_ATTEMPT_CANCELLED : BH_ATTEMPT_FAILED, BH_REASON_EXIT));
    T_INT(bh_engine_status(f.e), status);
    return f;
}

static struct bh_event some_event(const struct fx *f, enum bh_event_kind kind)
{
    const struct bh_attempt *a = fx_newest(f, 1);
    struct bh_event ev = {.kind = kind, .slots = 3, .layer = "crew-1"};
    ev.state = kind == BH_EV_STATE ? BH_ATTEMPT_RUNNING : BH_ATTEMPT_SUCCEEDED;
    if (a) {
        ev.instance = a->instance;
        ev.epoch = a->epoch;
    }
    return ev;
}

static void every_status_meets_every_event(void **state)
{
    enum { Q = BH_RUN_QUEUED, R = BH_RUN_RUNNING, S = BH_RUN_SUCCEEDED, F = BH_RUN_FAILED, C = BH_RUN_CANCELLED };
    static const int from[] = {Q, R, S, F, C};
    /* The status afterwards; -1: the event means nothing. */
    static const int after[][5] = {
        [BH_EV_START] = {R, -1, -1, -1, -1},          [BH_EV_OWNER] = {Q, R, S, F, C},
        [BH_EV_RETRY_FAILED] = {-1, R, -1, R, R},     [BH_EV_WORKER_UP] = {Q, R, S, F, C},
        [BH_EV_WORKER_LOST] = {-1, R, S, F, C},       [BH_EV_STATE] = {-1, R, -1, -1, -1},
        [BH_EV_ENDED] = {-1, R, -1, -1, -1},          [BH_EV_FROZEN] = {-1, -1, -1, -1, -1},
        [BH_EV_FREEZE_FAILED] = {-1, -1, -1, -1, -1}, [BH_EV_CANCEL] = {C, R, -1, -1, -1},
        [BH_EV_DEADLINE] = {-1, R, -1, -1, -1},       [BH_EV_PUBLISHED] = {-1, -1, -1, -1, -1},
        [BH_EV_GATE_ASKED] = {-1, -1, -1, -1, -1},    [BH_EV_GATE_DECIDED] = {-1, -1, -1, -1, -1},
        [BH_EV_GATE_EXPIRED] = {-1, -1, -1, -1, -1},
    };
    (void)state;
    for (size_t k = 0; k < BH_ARRAY_LEN(after); k++) {
        for (size_t s = 0; s < BH_ARRAY_LEN(from); s++) {
            struct fx f = in_status((enum bh_run_status)from[s]);
            bool meant = fx_send(&f, some_event(&f, (enum bh_event_kind)k));
            int now = meant ? (int)bh_engine_status(f.e) : -1;
            if (now != after[k][s] || (!meant && (int)bh_engine_status(f.e) != from[s]))
                fail_msg("%s in a run that is %s: %d", bh_event_kind_text((enum bh_event_kind)k),
                         bh_run_status_text((enum bh_run_status)from[s]), now);
            if (!meant)
                T_INT(f.out.len, 0);
            fx_free(&f);
        }
    }
}

static void an_event_of_no_kind_means_nothing(void **state)
{
    (void)state;
    struct fx f = in_status(BH_RUN_RUNNING);
    T_TRUE(!fx_send(&f, (struct bh_event){.kind = (enum bh_event_kind)99}));
    T_TRUE(!fx_send(&f, (struct bh_event){.kind = (enum bh_event_kind) - 1}));
    fx_free(&f);
}

/* An execution in the state, by the shortest way there. */
static struct fx in_attempt_state(enum bh_attempt_state s)
{
    struct fx f = fx_new(fx_spec(2)); /* the other keeps the run going */
    fx_start(&f, 2);
    if (s > BH_ATTEMPT_LEASED && s < BH_ATTEMPT_SUCCEEDED)
        T_TRUE(fx_state(&f, 0, s));
    else if (s == BH_ATTEMPT_LOST)
        T_TRUE(fx_end(&f, 0, s, BH_REASON_NONE));
    else if (s > BH_ATTEMPT_LEASED)
        T_TRUE(fx_end(&f, 0, s, BH_REASON_CHECK));
    T_INT(bh_engine_attempt(f.e, 0)->state, s);
    return f;
}

static bool is_live(int s)
{
    return s >= BH_ATTEMPT_LEASED && s < BH_ATTEMPT_SUCCEEDED;
}

static void every_state_meets_every_report(void **state)
{
    (void)state;
    for (int from = BH_ATTEMPT_LEASED; from <= BH_ATTEMPT_LOST; from++) {
        for (int to = BH_ATTEMPT_QUEUED; to <= BH_ATTEMPT_LOST + 1; to++) {
            struct fx f = in_attempt_state((enum bh_attempt_state)from);
            struct bh_event ev = {.kind = BH_EV_STATE,
                                  .instance = bh_engine_attempt(f.e, 0)->instance,
                                  .epoch = bh_engine_attempt(f.e, 0)->epoch,
                                  .state = (enum bh_attempt_state)to};
            bool forward = is_live(from) && is_live(to) && to > from;
            if (fx_send(&f, ev) != forward || (int)bh_engine_attempt(f.e, 0)->state != (forward ? to : from))
                fail_msg("state %d reported in %d", to, from);
            fx_free(&f);

            f = in_attempt_state((enum bh_attempt_state)from);
            ev.kind = BH_EV_ENDED;
            ev.reason = BH_REASON_EXIT;
            bool ends = is_live(from) && to >= BH_ATTEMPT_SUCCEEDED && to <= BH_ATTEMPT_LOST;
            if (fx_send(&f, ev) != ends || (int)bh_engine_attempt(f.e, 0)->state != (ends ? to : from))
                fail_msg("end %d reported in %d", to, from);
            fx_free(&f);
        }
    }
}

/* What the node becomes for each end, tried again or not. */
static void every_end_settles_the_node(void **state)
{
    static const struct {
        enum bh_attempt_state end;
        enum bh_reason reason;
        int64_t retries;
        enum bh_node_state node;
        enum bh_reason why;
    } rows[] = {
        {BH_ATTEMPT_SUCCEEDED, BH_REASON_EXIT, 0, BH_NODE_DONE, BH_REASON_NONE},
        {BH_ATTEMPT_FAILED, BH_REASON_EXIT, 0, BH_NODE_FAILED, BH_REASON_EXIT},
        {BH_ATTEMPT_FAILED, BH_REASON_EXIT, 1, BH_NODE_ACTIVE, BH_REASON_NONE}, /* leased again in the same step */
        {BH_ATTEMPT_FAILED, BH_REASON_HOST, 0, BH_NODE_ACTIVE, BH_REASON_NONE},
        {BH_ATTEMPT_FAILED, BH_REASON_COLLISION, 9, BH_NODE_FAILED, BH_REASON_COLLISION},
        {BH_ATTEMPT_FAILED, (enum bh_reason)999, 0, BH_NODE_ACTIVE, BH_REASON_NONE}, /* as host */
        {BH_ATTEMPT_CANCELLED, BH_REASON_NONE, 0, BH_NODE_ACTIVE, BH_REASON_NONE},
        {BH_ATTEMPT_LOST, BH_REASON_EXIT, 0, BH_NODE_ACTIVE, BH_REASON_NONE},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_spec *spec = fx_spec(1);
        spec->nodes[0].retries = rows[i].retries;
        struct fx f = fx_new(spec);
        fx_start(&f, 1);
        T_TRUE(fx_end(&f, 0, rows[i].end, rows[i].reason));
        if (bh_engine_node(f.e, 0)->state != rows[i].node || bh_engine_node(f.e, 0)->reason != rows[i].why)
            fail_msg("row %zu: %s", i, bh_node_state_text(bh_engine_node(f.e, 0)->state));
        T_INT(bh_engine_attempt(f.e, 0)->reason == BH_REASON_BOX_LOST, rows[i].end == BH_ATTEMPT_LOST);
        fx_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_meets_every_event),
        cmocka_unit_test(an_event_of_no_kind_means_nothing),
        cmocka_unit_test(every_state_meets_every_report),
        cmocka_unit_test(every_end_settles_the_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
