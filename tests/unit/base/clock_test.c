/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <time.h>

#include "base/err.h"
#include "tests/support/t.h"

static const struct bh_wall now = {.us = INT64_C(1800000000000000)};

static const struct {
    int64_t us;
    const char *text;
} known[] = {
    {0, "1970-01-01T00:00:00.000000Z"},
    {-1, "1969-12-31T23:59:59.999999Z"},
    {INT64_C(951782400000000), "2000-02-29T00:00:00.000000Z"},
    {INT64_C(951868800000000), "2000-03-01T00:00:00.000000Z"},
    {INT64_C(4107542400000000), "2100-03-01T00:00:00.000000Z"},
    {INT64_C(1795959223000123), "2026-11-29T13:33:43.000123Z"},
    {INT64_C(253402300799999999), "9999-12-31T23:59:59.999999Z"},
    {INT64_C(-62167219200000000), "0000-01-01T00:00:00.000000Z"},
};

static void test_known_times(void **state)
{
    (void)state;
    char text[BH_WALL_TEXT];
    for (size_t i = 0; i < BH_ARRAY_LEN(known); i++) {
        struct bh_wall back;
        T_STR(bh_wall_format((struct bh_wall){known[i].us}, text), known[i].text);
        T_INT(bh_wall_parse(known[i].text, now, &back), 0);
        T_INT(back.us, known[i].us);
    }
}

static void test_extremes_fit(void **state)
{
    (void)state;
    char text[BH_WALL_TEXT];
    T_STR(bh_wall_format((struct bh_wall){INT64_MAX}, text), "294247-01-10T04:00:54.775807Z");
    T_STR(bh_wall_format((struct bh_wall){INT64_MIN}, text), "-290308-12-21T19:59:05.224192Z");
}

/* Every day of 400 years, by the C library's calendar. */
static void test_calendar_agrees_with_gmtime(void **state)
{
    (void)state;
    for (time_t day = 0; day < 146097; day++) {
        time_t at = day * 86400 + day % 86400;
        struct tm tm;
        char want[64], got[BH_WALL_TEXT];
        struct bh_wall back;
        assert_non_null(gmtime_r(&at, &tm));
        assert_true(strftime(want, sizeof(want), "%Y-%m-%dT%H:%M:%S.000000Z", &tm) > 0);
        T_STR(bh_wall_format((struct bh_wall){at * 1000000}, got), want);
        T_INT(bh_wall_parse(got, now, &back), 0);
        T_INT(back.us, at * 1000000);
    }
}

static void test_parse_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us;
    } forms[] = {
        {"1970-01-01T00:00:01Z", 1000000},      {"1970-01-01t00:00:01z", 1000000},
        {"1970-01-01 00:00:01+00:00", 1000000}, {"1970-01-01T02:00:00+02:00", 0},
        {"1969-12-31T18:30:00-05:30", 0},       {"1970-01-01T00:00:00-00:00", 0},
        {"1970-01-01T00:00:00.5Z", 500000},     {"1970-01-01T00:00:00.1234567Z", 123456},
        {"1970-01-01T00:00:60Z", 60000000},     {"1972-02-29T00:00:00Z", INT64_C(68169600000000)},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(forms); i++) {
        struct bh_wall t;
        T_INT(bh_wall_parse(forms[i].text, now, &t), 0);
        T_INT(t.us, forms[i].us);
    }
}

static void test_durations_count_back(void **state)
{
    (void)state;
    struct bh_wall t;
    T_INT(bh_wall_parse("10m", now, &t), 0);
    T_INT(t.us, now.us - INT64_C(600000000));
    T_INT(bh_wall_parse("1h30m", now, &t), 0);
    T_INT(t.us, now.us - INT64_C(5400000000));
    T_INT(bh_wall_parse("0s", now, &t), 0);
    T_INT(t.us, now.us);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "now",
        "yesterday",
        "-10m",
        "10",
        "2026-11-29",
        "2026-11-29T13:33:43",
        "2026-11-29T13:33Z",
        "2026-11-29T13:33:43.Z",
        "2026-11-29T13:33:43Zx",
        "2026-11-29T13:33:43 Z",
        " 2026-11-29T13:33:43Z",
        "2026-00-29T13:33:43Z",
        "2026-13-29T13:33:43Z",
        "2026-02-29T13:33:43Z",
        "2100-02-29T13:33:43Z",
        "2026-11-00T13:33:43Z",
        "2026-11-31T13:33:43Z",
        "2026-11-29T24:00:00Z",
        "2026-11-29T13:60:43Z",
        "2026-11-29T13:33:61Z",
        "2026-11-29T13:33:43+2:00",
        "2026-11-29T13:33:43+0200",
        "2026-11-29T13:33:43+24:00",
        "2026-11-29T13:33:43+02:60",
        "02026-11-29T13:33:43Z",
        "2026-1-29T13:33:43Z",
        "20261129T133343Z",
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        struct bh_wall t;
        if (bh_wall_parse(bad[i], now, &t) != -BH_E_BAD_VALUE)
            fail_msg("'%s' was taken", bad[i]);
    }
}

static void test_now(void **state)
{
    (void)state;
    struct timespec ts;
    struct bh_mono first = bh_mono_now();
    T_INT(clock_gettime(CLOCK_BOOTTIME, &ts), 0);
    struct bh_mono last = bh_mono_now();
    int64_t between = ts.tv_sec * BH_NS_PER_S + ts.tv_nsec;
    assert_true(first.ns <= between && between <= last.ns);
    struct bh_wall before = bh_wall_now();
    T_INT(clock_gettime(CLOCK_REALTIME, &ts), 0);
    /* The wall clock may be set at any moment; an hour tells it from the other clocks. */
    assert_true(llabs(ts.tv_sec - before.us / 1000000) < 3600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_times),
        cmocka_unit_test(test_extremes_fit),
        cmocka_unit_test(test_calendar_agrees_with_gmtime),
        cmocka_unit_test(test_parse_forms),
        cmocka_unit_test(test_durations_count_back),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
