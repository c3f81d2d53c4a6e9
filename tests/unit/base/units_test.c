/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <math.h>

#include "base/err.h"
#include "tests/support/t.h"

#define S INT64_C(1000000000)

struct sample {
    const char *text;
    int64_t value;
};

static void check(int (*parse)(const char *, int64_t *), const struct sample *good, size_t n_good,
                  const char *const *bad, size_t n_bad)
{
    for (size_t i = 0; i < n_good; i++) {
        int64_t value = -77;
        if (parse(good[i].text, &value) != 0 || value != good[i].value)
            fail_msg("'%s' gave %lld, not %lld", good[i].text, (long long)value, (long long)good[i].value);
    }
    for (size_t i = 0; i < n_bad; i++) {
        int64_t value = -77;
        if (parse(bad[i], &value) != -BH_E_BAD_VALUE || value != -77)
            fail_msg("'%s' was taken, or the result was touched: %lld", bad[i], (long long)value);
    }
}

static void test_durations(void **state)
{
    (void)state;
    static const struct sample good[] = {
        {"500ms", S / 2},
        {"30s", 30 * S},
        {"10m", 600 * S},
        {"1h30m", 5400 * S},
        {"2d", 172800 * S},
        {"1d2h3m4s5ms", 93784 * S + 5000000},
        {"0s", 0},
        {"90m", 5400 * S},
        {"007s", 7 * S},
        {"9223372036854ms", INT64_C(9223372036854000000)},
        {"106751d", INT64_C(106751) * 86400 * S},
    };
    static const char *const bad[] = {
        "",
        "s",
        "10",
        "1.5h",
        "-1s",
        "+1s",
        "1 s",
        " 1s",
        "1s ",
        "1S",
        "1H",
        "1us",
        "1ns",
        "1w",
        "1m1h",
        "1m1m",
        "1ms1s",
        "1h30",
        "1h 3m",
        "1sec",
        "1hm",
        "ms",
        "1e3s",
        "0x1s",
        "9223372036855ms",
        "106752d",
        "9223372036854775808s",
        "99999999999999999999999ms",
        "106751d86400s",
        "1\xc2\xb5s",
        "infs",
        "1s\n",
    };
    check(bh_parse_duration, good, BH_ARRAY_LEN(good), bad, BH_ARRAY_LEN(bad));
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct sample good[] = {
        {"512KiB", 524288},
        {"2GiB", INT64_C(2147483648)},
        {"64MB", 64000000},
        {"0B", 0},
        {"100B", 100},
        {"1kB", 1000},
        {"1KB", 1000},
        {"3TB", INT64_C(3000000000000)},
        {"4TiB", INT64_C(4398046511104)},
        {"8191PiB", INT64_C(8191) << 50},
        {"9223PB", INT64_C(9223000000000000000)},
        {"9223372036854775807B", INT64_MAX},
    };
    static const char *const bad[] = {
        "",
        "B",
        "1024",
        "-1KiB",
        "+1KiB",
        "1.5GiB",
        "1 GiB",
        "1gib",
        "1GIB",
        "1K",
        "1M",
        "1Kib",
        "1KiB ",
        " 1KiB",
        "1KiB1",
        "1KiBs",
        "1KiB2MB",
        "0x1B",
        "1e3B",
        "1bytes",
        "8192PiB",
        "9224PB",
        "9223372036854775808B",
        "99999999999999999999KiB",
    };
    check(bh_parse_size, good, BH_ARRAY_LEN(good), bad, BH_ARRAY_LEN(bad));
}

static void test_integers(void **state)
{
    (void)state;
    static const struct sample good[] = {
        {"0", 0},
        {"-0", 0},
        {"7", 7},
        {"-12", -12},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    static const char *const bad[] = {
        "",
        "-",
        "+1",
        "08",
        "-08",
        "00",
        "0x10",
        "0o17",
        "1e3",
        "1.0",
        "1_000",
        " 1",
        "1 ",
        "1\n",
        "no",
        "--1",
        "12:30",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
        "\xd9\xa1",
    };
    check(bh_parse_int, good, BH_ARRAY_LEN(good), bad, BH_ARRAY_LEN(bad));
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {
        {"0", 0},         {"1", 1},
        {"-1.5", -1.5},   {"+2", 2},
        {"1e3", 1000},    {"1E-3", 0.001},
        {".5", 0.5},      {"5.", 5},
        {"007.25", 7.25}, {"0.1", 0.1},
        {"1e308", 1e308}, {"1e-320", 1e-320},
        {"1e-999", 0},    {"20200219", 20200219},
    };
    static const char *const bad[] = {
        "",      ".",   "-",  "e3", "1e",  "1e+", "1e3.5", "inf",    "-inf", "nan",  "NaN", "infinity",
        "0x1p3", "1,5", " 1", "1 ", "1\n", "1f",  "1e999", "-1e999", "--1",  "1..2", "1_0",
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(good); i++) {
        double value = -77;
        if (bh_parse_number(good[i].text, &value) != 0 || fabs(value - good[i].value) > 0)
            fail_msg("'%s' gave %.17g", good[i].text, value);
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        double value = -77;
        if (bh_parse_number(bad[i], &value) != -BH_E_BAD_VALUE || value > -77)
            fail_msg("'%s' was taken", bad[i]);
    }
}

static void test_format_duration(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } samples[] = {
        {0, "0ms"},
        {999999, "0ms"},
        {-999999, "0ms"},
        {850 * INT64_C(1000000), "850ms"},
        {1200 * INT64_C(1000000), "1.2s"},
        {59999 * INT64_C(1000000), "59.9s"},
        {60 * S, "1m00s"},
        {247 * S, "4m07s"},
        {3600 * S, "1h00m"},
        {3599 * S, "59m59s"},
        {86399 * S, "23h59m"},
        {(2 * 86400 + 4 * 3600) * S, "2d04h"},
        {-1500 * INT64_C(1000000), "-1.5s"},
        {INT64_MAX, "106751d23h"},
        {INT64_MIN, "-106751d23h"},
    };
    char text[BH_UNIT_TEXT];
    for (size_t i = 0; i < BH_ARRAY_LEN(samples); i++)
        T_STR(bh_format_duration(samples[i].ns, text), samples[i].text);
}

static void test_format_size(void **state)
{
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } samples[] = {
        {0, "0 B"},
        {1, "1 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {1048575, "1023.9 KiB"},
        {1572864, "1.5 MiB"},
        {INT64_C(5) << 30, "5.0 GiB"},
        {INT64_MAX, "7.9 EiB"},
        {INT64_MIN, "-8.0 EiB"},
        {-2048, "-2.0 KiB"},
    };
    char text[BH_UNIT_TEXT];
    for (size_t i = 0; i < BH_ARRAY_LEN(samples); i++)
        T_STR(bh_format_size(samples[i].bytes, text), samples[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations), cmocka_unit_test(test_sizes),           cmocka_unit_test(test_integers),
        cmocka_unit_test(test_numbers),   cmocka_unit_test(test_format_duration), cmocka_unit_test(test_format_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
