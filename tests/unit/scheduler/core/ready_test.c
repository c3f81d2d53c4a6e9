/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "tests/support/t.h"
#include "tests/unit/scheduler/core/fixture.h"

/* 12 nodes, three to a box. */
static struct bh_spec *boxes_of_three(void)
{
    struct bh_spec *spec = fx_spec(12);
    for (size_t i = 0; i < 12; i++)
        spec->nodes[i].box = i / 3;
    return spec;
}

static size_t take(struct bh_ready *r)
{
    size_t n = bh_ready_first(r);
    if (n != SIZE_MAX)
        bh_ready_take(r, n);
    return n;
}

static void the_lowest_comes_first(void **state)
{
    static const size_t order[] = {7, 3, 11, 0, 5, 1, 9, 2, 10, 8, 4, 6};
    struct bh_ready r;
    (void)state;
    struct bh_spec *spec = boxes_of_three();
    bh_ready_init(&r, spec);
    T_TRUE(bh_ready_first(&r) == SIZE_MAX);
    for (size_t i = 0; i < BH_ARRAY_LEN(order); i++)
        bh_ready_add(&r, order[i]);
    for (size_t i = 0; i < BH_ARRAY_LEN(order); i++)
        T_INT(take(&r), i);
    T_TRUE(take(&r) == SIZE_MAX);
    bh_ready_fini(&r);
    bh_spec_free(spec);
}

static void a_held_box_is_passed_by(void **state)
{
    struct bh_ready r;
    (void)state;
    struct bh_spec *spec = boxes_of_three();
    bh_ready_init(&r, spec);
    bh_ready_add(&r, 0);
    bh_ready_add(&r, 4);
    bh_ready_hold(&r, 0, BH_HOLD_FREEZE);
    T_INT(bh_ready_first(&r), 4);
    bh_ready_add(&r, 1); /* into the held box */
    T_INT(bh_ready_first(&r), 4);
    bh_ready_hold(&r, 0, BH_HOLD_SLOT);
    bh_ready_release(&r, 0, BH_HOLD_FREEZE); /* held for another reason still */
    T_INT(bh_ready_first(&r), 4);
    bh_ready_release(&r, 0, BH_HOLD_SLOT);
    T_INT(take(&r), 0);
    T_INT(take(&r), 1);
    T_INT(take(&r), 4);
    bh_ready_fini(&r);
    bh_spec_free(spec);
}

static void what_is_cleared_is_gone_and_holds_stay(void **state)
{
    struct bh_ready r;
    (void)state;
    struct bh_spec *spec = boxes_of_three();
    bh_ready_init(&r, spec);
    bh_ready_hold(&r, 1, BH_HOLD_SLOT);
    bh_ready_add(&r, 3);
    bh_ready_add(&r, 8);
    bh_ready_clear(&r);
    T_TRUE(bh_ready_first(&r) == SIZE_MAX);
    bh_ready_add(&r, 5);
    T_TRUE(bh_ready_first(&r) == SIZE_MAX);
    bh_ready_add(&r, 8);
    bh_ready_release(&r, 1, BH_HOLD_SLOT);
    T_INT(take(&r), 5);
    T_INT(take(&r), 8);
    bh_ready_fini(&r);
    bh_spec_free(spec);
}

/* Against a plain array of flags, over many random operations. */
static void it_agrees_with_a_simple_queue(void **state)
{
    bool in[12] = {false}, held[4] = {false};
    uint32_t seed = 12345;
    struct bh_ready r;
    (void)state;
    struct bh_spec *spec = boxes_of_three();
    bh_ready_init(&r, spec);
    for (int step = 0; step < 20000; step++) {
        seed = seed * 1664525 + 1013904223;
        size_t n = (seed >> 16) % 12, b = (seed >> 16) % 4, want = 0;
        unsigned what = (seed >> 24) % 8;
        if (what < 3 && !in[n]) {
            in[n] = true;
            bh_ready_add(&r, n);
        } else if (what == 3) {
            held[b] = true;
            bh_ready_hold(&r, b, BH_HOLD_FREEZE);
        } else if (what == 4 || what == 5) {
            held[b] = false;
            bh_ready_release(&r, b, BH_HOLD_FREEZE);
        } else if (what == 6 && seed % 64 == 0) {
            memset(in, 0, sizeof(in));
            bh_ready_clear(&r);
        }
        while (want < 12 && (!in[want] || held[want / 3]))
            want++;
        T_TRUE(bh_ready_first(&r) == (want < 12 ? want : SIZE_MAX));
        if (what == 7 && want < 12) {
            in[want] = false;
            bh_ready_take(&r, want);
        }
    }
    bh_ready_fini(&r);
    bh_spec_free(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_comes_first),
        cmocka_unit_test(a_held_box_is_passed_by),
        cmocka_unit_test(what_is_cleared_is_gone_and_holds_stay),
        cmocka_unit_test(it_agrees_with_a_simple_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
