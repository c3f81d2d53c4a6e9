/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/ledger.h"

#include "base/mem.h"
#include "tests/support/t.h"

static struct bh_lease lease_of(const char *agent)
{
    return (struct bh_lease){.agent = (char *)(uintptr_t)agent,
                             .attempt = 1,
                             .try_ = 2,
                             .instance = {.s = "01m8mg62xfvah6fdqf4s6stcq9-000001"}};
}

static void end(struct bh_ledger *l, uint64_t tag, int64_t us, int64_t rss)
{
    const struct bh_exec_result result = {.share = {.cpu_ms = 3}, .max_rss_bytes = rss};
    bh_ledger_end(l, tag, (struct bh_wall){us}, &result);
}

static uint64_t begin(struct bh_ledger *l, const char *agent)
{
    const struct bh_lease lease = lease_of(agent);
    return bh_ledger_begin(l, &lease);
}

static size_t beside(const struct bh_ledger *l, uint64_t tag, const struct bh_stay *ret[BH_LEDGER_MAX])
{
    return bh_ledger_beside(l, tag, bh_ledger_find(l, tag)->began_mono, ret);
}

static void who_overlaps_is_beside(void **state)
{
    const struct bh_stay *found[BH_LEDGER_MAX];
    struct bh_ledger *l = bh_ledger_new();
    (void)state;
    uint64_t early = begin(l, "early");
    end(l, early, 5, 8);
    uint64_t a = begin(l, "a");
    T_INT(beside(l, a, found), 0);
    uint64_t b = begin(l, "b");
    T_INT(beside(l, a, found), 1);
    T_STR(found[0]->agent, "b");
    T_INT(found[0]->try_, 2);
    T_INT(found[0]->ended.us, 0);
    T_INT(beside(l, b, found), 1);
    T_STR(found[0]->agent, "a");
    T_INT(beside(l, early, found), 2);
    end(l, b, 9, 4);
    T_INT(beside(l, a, found), 1); /* it was there */
    T_INT(found[0]->ended.us, 9);
    T_INT(found[0]->share.cpu_ms, 3);
    T_INT(found[0]->max_rss_bytes, 4);
    bh_ledger_free(l);
}

static void who_is_asked_about_is_kept(void **state)
{
    struct bh_ledger *l = bh_ledger_new();
    (void)state;
    uint64_t a = begin(l, "a"), b = begin(l, "b");
    bh_ledger_close(l, b);
    T_TRUE(bh_ledger_find(l, b) && bh_ledger_find(l, b)->ended.us > 0); /* a may have to be told of it */
    bh_ledger_close(l, a);
    T_TRUE(!bh_ledger_find(l, a) || !bh_ledger_find(l, b));
    uint64_t c = begin(l, "c");
    bh_ledger_close(l, c);
    T_TRUE(c > b && !bh_ledger_find(l, a) && !bh_ledger_find(l, b));
    end(l, a, 1, 0); /* unknown by now: nothing happens */
    bh_ledger_close(l, a);
    bh_ledger_free(l);
    bh_ledger_free(NULL);
}

static void of_too_many_the_last_are_named(void **state)
{
    const struct bh_stay *found[BH_LEDGER_MAX];
    struct bh_ledger *l = bh_ledger_new();
    (void)state;
    uint64_t a = begin(l, "a"), last = 0;
    for (int i = 0; i < BH_LEDGER_MAX + 10; i++)
        last = begin(l, "n");
    T_INT(beside(l, a, found), BH_LEDGER_MAX);
    T_INT(found[BH_LEDGER_MAX - 1]->tag, last);
    T_INT(found[0]->tag, last - BH_LEDGER_MAX + 1);
    bh_ledger_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_overlaps_is_beside),
        cmocka_unit_test(who_is_asked_about_is_kept),
        cmocka_unit_test(of_too_many_the_last_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
