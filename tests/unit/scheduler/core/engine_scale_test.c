/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 10,000 agents: what an event touches stays what it must touch, counted and not timed, because a clock makes tests
 * flaky. The time is printed for people.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/support/t.h"
#include "tests/unit/scheduler/core/fixture.h"

enum { MANY = 10000 };

struct tally {
    size_t events, changes, effects, leases, most; /* most: changes of one event, at most */
};

static void count(const struct fx *f, struct tally *t)
{
    struct bh_changes c = bh_engine_changes(f->e);
    size_t n = c.n_nodes + c.n_attempts + c.n_boxes;
    t->events++;
    t->changes += n;
    t->effects += f->out.len;
    t->most = n > t->most ? n : t->most;
}

/* Everybody succeeds, the oldest first; freezes are answered at once. */
static struct tally run_all(struct fx *f, int slots)
{
    struct tally t = {0};
    struct bh_mono begin = bh_mono_now();
    fx_start(f, slots);
    count(f, &t);
    for (size_t i = 0; bh_engine_status(f->e) == BH_RUN_RUNNING;) {
        struct bh_event ev = {.kind = BH_EV_ENDED, .state = BH_ATTEMPT_SUCCEEDED};
        if (f->out.len > 0 && f->out.items[0].kind == BH_EFFECT_FREEZE) {
            ev = (struct bh_event){.kind = BH_EV_FROZEN, .box = f->out.items[0].box};
            memcpy(ev.layer, f->out.items[0].layer, sizeof(ev.layer));
        } else {
            ev.instance = bh_engine_attempt(f->e, i)->instance;
            ev.epoch = bh_engine_attempt(f->e, i++)->epoch;
        }
        T_TRUE(fx_send(f, ev));
        count(f, &t);
    }
    print_message("%zu events, %zu changes, %zu effects in %.1f ms\n", t.events, t.changes, t.effects,
                  (double)(bh_mono_now().ns - begin.ns) / 1e6);
    T_INT(bh_engine_status(f->e), BH_RUN_SUCCEEDED);
    T_INT(bh_engine_n_attempts(f->e), f->spec->n_nodes);
    return t;
}

static void many_that_need_nobody(void **state)
{
    (void)state;
    struct fx f = fx_new(fx_spec(MANY));
    struct tally t = run_all(&f, 8);
    T_INT(t.events, MANY + 1);
    T_TRUE(t.most <= 16 || t.most == MANY + 16); /* one ends, one starts */
    T_TRUE(t.changes <= (size_t)4 * MANY + 32);
    fx_free(&f);
}

static void a_long_chain(void **state)
{
    (void)state;
    struct bh_spec *spec = fx_spec(MANY);
    for (size_t i = 1; i < MANY; i++)
        fx_dep(spec, i - 1, i, BH_DEP_REQUIRED); /* against the order of the document */
    struct fx f = fx_new(spec);
    struct tally t = run_all(&f, 8);
    T_TRUE(t.most <= 4);
    fx_free(&f);
}

/* 5,000 behind a stage of 5,000 would be 25 million edges. */
static void a_stage_behind_a_stage(void **state)
{
    (void)state;
    struct bh_spec *spec = fx_spec(MANY);
    spec->n_groups = 1;
    spec->groups = bh_calloc(1, sizeof(*spec->groups));
    spec->groups[0].nodes = bh_calloc(MANY / 2, sizeof(*spec->groups[0].nodes));
    for (size_t i = 0; i < MANY; i++) {
        spec->nodes[i].stage = i >= MANY / 2;
        if (i < MANY / 2)
            spec->groups[0].nodes[spec->groups[0].n_nodes++] = i;
        else
            spec->nodes[i].group = 1;
    }
    struct fx f = fx_new(spec);
    struct tally t = run_all(&f, 64);
    T_TRUE(t.changes <= (size_t)5 * MANY);
    fx_free(&f);
}

/* One crew box, no stages: a freeze between any two, and nobody is looked at twice for it. */
static void many_in_one_box(void **state)
{
    (void)state;
    struct bh_spec *spec = fx_spec(MANY);
    fx_share(spec, "crew");
    struct fx f = fx_new(spec);
    struct tally t = run_all(&f, 1);
    T_INT(t.events, 2 * MANY); /* START and WORKER_UP count as one; the last success needs no freeze */
    T_TRUE(t.changes <= (size_t)7 * MANY);
    fx_free(&f);
}

/* The first of a chain fails: all others are skipped in one step, without recursion, each blaming it. */
static void a_chain_is_skipped_at_once(void **state)
{
    (void)state;
    struct bh_spec *spec = fx_spec(MANY);
    for (size_t i = 1; i < MANY; i++)
        fx_dep(spec, i, i - 1, BH_DEP_REQUIRED);
    spec->failures_allowed = 1;
    struct fx f = fx_new(spec);
    fx_start(&f, 1);
    T_TRUE(fx_end(&f, 0, BH_ATTEMPT_FAILED, BH_REASON_EXIT));
    T_INT(bh_engine_status(f.e), BH_RUN_SUCCEEDED);
    for (size_t i = 1; i < MANY; i++) {
        T_INT(bh_engine_node(f.e, i)->state, BH_NODE_SKIPPED);
        T_INT(bh_engine_node(f.e, i)->blamed, 0);
    }
    T_INT(bh_engine_changes(f.e).n_nodes, MANY);
    fx_free(&f);
}

/* One agent of 10,000 attempts: leased one by one as slots come free, chosen once when the last has ended. */
static void many_attempts(void **state)
{
    (void)state;
    struct bh_spec *spec = fx_spec(1);
    struct bh_spec_forks *forks = spec->nodes[0].forks = bh_alloc(sizeof(*forks));
    *forks = (struct bh_spec_forks){
        .attempts = MANY, .prepare = true, .numbered = true, .rule = {.kind = BH_SELECT_BEST, .min_success = 1}};
    struct fx f = fx_new(spec);
    fx_start(&f, 16);
    T_TRUE(fx_end(&f, 0, BH_ATTEMPT_SUCCEEDED, BH_REASON_NONE)); /* prepared */
    T_INT(f.out.len, 16);
    for (size_t i = 1; i <= MANY; i++) {
        const struct bh_attempt *a = bh_engine_attempt(f.e, i);
        struct bh_event ev = {.kind = BH_EV_ENDED,
                              .instance = a->instance,
                              .epoch = a->epoch,
                              .state = BH_ATTEMPT_SUCCEEDED,
                              .has_score = true,
                              .score = i == 4711 ? 1 : 0};
        T_INT(a->attempt, i);
        T_TRUE(fx_send(&f, ev));
        T_TRUE(bh_engine_changes(f.e).n_attempts <= 2);
    }
    T_INT(f.out.len, 1);
    T_INT(f.out.items[0].kind, BH_EFFECT_PUBLISH);
    T_INT(f.out.items[0].attempt, 4711);
    fx_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_that_need_nobody),      cmocka_unit_test(a_long_chain),
        cmocka_unit_test(a_stage_behind_a_stage),     cmocka_unit_test(many_in_one_box),
        cmocka_unit_test(a_chain_is_skipped_at_once), cmocka_unit_test(many_attempts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
