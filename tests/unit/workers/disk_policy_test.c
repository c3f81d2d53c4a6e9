/* SPDX-License-Identifier: Apache-2.0 */
/* The decisions about disks, on numbers alone. */
#include "tests/support/t.h"
#include "workers/disk/policy.h"

#define KIB INT64_C(1024)
#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define S BH_NS_PER_S
#define MS BH_NS_PER_MS

static const struct bh_disk_host plain, with_memory = {.memory = true}, with_quota = {.memory = true, .quota = true};

static struct bh_limits limits(int64_t disk, int64_t inodes, int64_t memory, bool asked)
{
    struct bh_limits l = {.asked = asked ? 1u << BH_LIMIT_DISK : 0};
    l.of[BH_LIMIT_DISK] = disk;
    l.of[BH_LIMIT_INODES] = inodes;
    l.of[BH_LIMIT_MEMORY] = memory;
    return l;
}

static void means(void **state)
{
    const struct {
        struct bh_limits limits;
        bool disposable;
        const struct bh_disk_host *host;
        enum bh_enforcer want;
    } rows[] = {
        {limits(0, 0, GIB, false), true, &with_quota, BH_BY_NOTHING},
        {limits(GIB, 0, GIB, true), false, &with_quota, BH_BY_QUOTA},
        {limits(0, 100, GIB, false), false, &with_quota, BH_BY_QUOTA},
        {limits(GIB, 0, GIB, true), true, &plain, BH_BY_WATCHDOG},
        {limits(256 * MIB, 0, GIB, true), true, &with_memory, BH_BY_TMPFS},
        {limits(256 * MIB, 0, GIB, true), true, &plain, BH_BY_WATCHDOG},
        {limits(256 * MIB + 1, 0, GIB, true), true, &with_memory, BH_BY_WATCHDOG},
        {limits(256 * MIB, 0, GIB, true), false, &with_memory, BH_BY_WATCHDOG},
        {limits(256 * MIB, 0, GIB, false), true, &with_memory, BH_BY_WATCHDOG},
        {limits(256 * MIB, 0, 512 * MIB, true), true, &with_memory, BH_BY_TMPFS},
        {limits(256 * MIB, 0, 512 * MIB - 2, true), true, &with_memory, BH_BY_WATCHDOG},
        {limits(256 * MIB, 0, 0, true), true, &with_memory, BH_BY_WATCHDOG},
        {limits(0, 100, GIB, true), true, &with_memory, BH_BY_WATCHDOG},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++)
        T_INT(bh_disk_means(&rows[i].limits, rows[i].disposable, rows[i].host), rows[i].want);
}

static struct bh_disk_space space(int64_t total, int64_t free, int64_t inodes, int64_t free_inodes)
{
    return (struct bh_disk_space){total, free, inodes, free_inodes};
}

static void reserve(void **state)
{
    const struct {
        int64_t total, want;
    } rows[] = {
        {0, 0},
        {100 * MIB, 5 * MIB},   /* a twentieth of a small one */
        {5 * GIB, 256 * MIB},   /* where both meet */
        {10 * GIB, 256 * MIB},  /* the least for all others */
        {50 * GIB, GIB},        /* 2 % */
        {10000 * GIB, 2 * GIB}, /* never more than that */
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_disk_space s = space(rows[i].total, 0, 0, 0);
        T_INT(bh_disk_reserve(&s), rows[i].want);
    }
}

static void low(void **state)
{
    struct bh_disk_space s = space(50 * GIB, GIB, 1000, 20);
    (void)state;
    T_TRUE(!bh_disk_is_low(&s));
    T_TRUE(bh_disk_is_tight(&s));
    s.free--;
    T_TRUE(bh_disk_is_low(&s));
    s.free++;
    s.free_inodes = 19;
    T_TRUE(bh_disk_is_low(&s));
    s.inodes = s.free_inodes = 0; /* a file system that has no such number */
    T_TRUE(!bh_disk_is_low(&s));
    s.free = 4 * GIB;
    T_TRUE(!bh_disk_is_tight(&s));
    s.free--;
    T_TRUE(bh_disk_is_tight(&s));
    s = space(50 * GIB, 4 * GIB, 1000, 80);
    T_TRUE(!bh_disk_is_tight(&s));
    s.free_inodes--;
    T_TRUE(bh_disk_is_tight(&s));
    s = space(0, 0, 0, 0); /* nobody could ask */
    T_TRUE(!bh_disk_is_low(&s));
}

static void over(void **state)
{
    const struct bh_disk_limits l = {.bytes = 100, .inodes = 10}, none = {0};
    struct bh_disk_usage u = {.bytes = 100, .inodes = 10};
    (void)state;
    T_TRUE(bh_disk_over(&u, &l) == NULL);
    u.inodes = 11;
    T_STR(bh_disk_over(&u, &l), "inodes");
    u.bytes = 101;
    T_STR(bh_disk_over(&u, &l), "disk");
    T_TRUE(bh_disk_over(&u, &none) == NULL);
}

/* --- when to look --- */

static const struct bh_disk_limits gib = {.bytes = GIB, .inodes = 1000};

static struct bh_disk_pace begin(const struct bh_disk_space *s)
{
    struct bh_disk_pace p;
    bh_disk_pace_begin(&p, s, (struct bh_mono){0});
    return p;
}

static bool due(const struct bh_disk_pace *p, int64_t free, int64_t free_inodes, int64_t at)
{
    struct bh_disk_space s = space(100 * GIB, free, 1000000, free_inodes);
    return bh_disk_pace_due(p, &gib, &s, (struct bh_mono){at});
}

static void growth_calls_for_a_walk(void **state)
{
    struct bh_disk_space s = space(100 * GIB, 50 * GIB, 1000000, 500000);
    struct bh_disk_pace p = begin(&s);
    (void)state;
    T_TRUE(!due(&p, 50 * GIB, 500000, 0));
    T_TRUE(!due(&p, 50 * GIB - GIB / 2 + 1, 500000, 0));
    T_TRUE(due(&p, 50 * GIB - GIB / 2, 500000, 0));
    T_TRUE(!due(&p, 50 * GIB, 500000 - 499, 0));
    T_TRUE(due(&p, 50 * GIB, 500000 - 500, 0));
    T_TRUE(!due(&p, 60 * GIB, 600000, 0));
}

static void walk(struct bh_disk_pace *p, int64_t bytes, int64_t free, int64_t started, int64_t ended)
{
    const struct bh_disk_usage u = {.bytes = bytes};
    struct bh_disk_space s = space(100 * GIB, free, 1000000, 500000);
    bh_disk_pace_walked(p, &gib, &u, &s, (struct bh_mono){started}, (struct bh_mono){ended});
}

/* The nearer it is, the less it takes. */
static void gap_shrinks(void **state)
{
    struct bh_disk_space s = space(100 * GIB, 50 * GIB, 1000000, 500000);
    struct bh_disk_pace p = begin(&s);
    (void)state;
    walk(&p, GIB - 4 * MIB, 40 * GIB, 0, MS);
    T_TRUE(!due(&p, 40 * GIB - 2 * MIB + 1, 500000, 10 * MS));
    T_TRUE(due(&p, 40 * GIB - 2 * MIB, 500000, 10 * MS));
    walk(&p, GIB - 10, 40 * GIB, 0, MS); /* a byte of growth is no reason */
    T_TRUE(!due(&p, 40 * GIB - 64 * KIB + 1, 500000, 10 * MS));
    T_TRUE(due(&p, 40 * GIB - 64 * KIB, 500000, 10 * MS));
    walk(&p, 2 * GIB, 40 * GIB, 0, MS); /* nor is less than none left */
    T_TRUE(due(&p, 40 * GIB - 64 * KIB, 500000, 10 * MS));
}

static void walks_do_not_take_all_the_time(void **state)
{
    struct bh_disk_space s = space(100 * GIB, 50 * GIB, 1000000, 500000);
    struct bh_disk_pace p = begin(&s);
    (void)state;
    walk(&p, 0, 50 * GIB, 0, S); /* it took a second */
    T_TRUE(!due(&p, 40 * GIB, 500000, S + 3 * S - 1));
    T_TRUE(due(&p, 40 * GIB, 500000, S + 3 * S));
    T_TRUE(!due(&p, 50 * GIB - 1, 500000, S + 20 * S - 1));
    T_TRUE(due(&p, 50 * GIB - 1, 500000, S + 20 * S));
}

static void now_and_then(void **state)
{
    struct bh_disk_space s = space(100 * GIB, 50 * GIB, 1000000, 500000);
    struct bh_disk_pace p = begin(&s);
    (void)state;
    T_TRUE(!due(&p, 50 * GIB, 500000, 100 * S)); /* nobody has written anything at all */
    T_TRUE(!due(&p, 50 * GIB + 1, 500000, 2 * S - 1));
    T_TRUE(due(&p, 50 * GIB + 1, 500000, 2 * S));
    /* A box that stays as it is is looked at less and less often. */
    int64_t periods[] = {4 * S, 8 * S, 16 * S, 32 * S, 60 * S, 60 * S}, now = 2 * S;
    for (size_t i = 0; i < BH_ARRAY_LEN(periods); i++) {
        walk(&p, MIB, 50 * GIB, now, now);
        T_INT(p.period_ns, periods[i]);
        now += periods[i];
    }
    walk(&p, 100 * MIB, 50 * GIB, now, now);
    T_INT(p.period_ns, 2 * S);
    const struct bh_disk_limits none = {0};
    T_TRUE(!bh_disk_pace_due(&p, &none, &(struct bh_disk_space){0}, (struct bh_mono){now + 1000 * S}));
}

/* --- who goes --- */

static void scapegoat(void **state)
{
    struct bh_disk_space s = space(10 * GIB, 100 * MIB, 0, 0); /* reserve 256 MiB: less than 16 MiB is not worth it */
    struct bh_disk_space began = space(10 * GIB, 715 * MIB, 0, 0);
    struct bh_disk_holder h[] = {
        {.usage.bytes = 15 * MIB, .running = true},
        {.usage.bytes = 200 * MIB, .running = true},
        {.usage.bytes = 300 * MIB},
        {.usage.bytes = 100 * MIB, .running = true},
    };
    (void)state;
    T_INT(bh_disk_scapegoat(h, 4, &s, &began), 1);
    h[1].running = false;
    T_INT(bh_disk_scapegoat(h, 4, &s, &began), 3);
    h[3].running = false;
    T_INT(bh_disk_scapegoat(h, 4, &s, &began), -1);
    T_INT(bh_disk_scapegoat(NULL, 0, &s, &began), -1);
    s = space(10 * GIB, 5 * GIB, 10000, 100); /* inodes */
    began = space(10 * GIB, 5 * GIB, 10000, 110);
    h[0].usage.inodes = 13;
    T_INT(bh_disk_scapegoat(h, 4, &s, &began), 0);
    h[0].usage.inodes = 11;
    T_INT(bh_disk_scapegoat(h, 4, &s, &began), -1);
}

/* Nobody knows who holds most of what is gone. */
static void no_scapegoat(void **state)
{
    const struct bh_disk_space began = space(420 * MIB, 400 * MIB, 0, 0), s = space(420 * MIB, 20 * MIB, 0, 0);
    struct bh_disk_holder h[] = {
        {.usage.bytes = 30 * MIB, .running = true, .written = 40 * MIB},
        {.usage.bytes = 0, .running = true, .written = 330 * MIB},
    };
    (void)state;
    T_INT(bh_disk_scapegoat(h, 2, &s, &began), 1);
    h[1].running = false; /* others hold it */
    T_INT(bh_disk_scapegoat(h, 2, &s, &began), -1);
    h[1] = (struct bh_disk_holder){.running = true, .written = 150 * MIB}; /* not the most of it */
    T_INT(bh_disk_scapegoat(h, 2, &s, &began), -1);
    h[0].usage.bytes = 250 * MIB; /* now most of it is known */
    T_INT(bh_disk_scapegoat(h, 2, &s, &began), 0);
}

static void worse(void **state)
{
    struct bh_disk_space mark = space(10 * GIB, 100 * MIB, 8000, 100), s = mark;
    (void)state;
    T_TRUE(!bh_disk_is_worse(&s, &mark));
    s.free = 68 * MIB;
    T_TRUE(!bh_disk_is_worse(&s, &mark));
    s.free--;
    T_TRUE(bh_disk_is_worse(&s, &mark));
    s = mark;
    s.free_inodes = 80;
    T_TRUE(!bh_disk_is_worse(&s, &mark));
    s.free_inodes--;
    T_TRUE(bh_disk_is_worse(&s, &mark));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means),
        cmocka_unit_test(reserve),
        cmocka_unit_test(low),
        cmocka_unit_test(over),
        cmocka_unit_test(growth_calls_for_a_walk),
        cmocka_unit_test(gap_shrinks),
        cmocka_unit_test(walks_do_not_take_all_the_time),
        cmocka_unit_test(now_and_then),
        cmocka_unit_test(scapegoat),
        cmocka_unit_test(no_scapegoat),
        cmocka_unit_test(worse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
