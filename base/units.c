/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalars of the pipeline grammar. Every parser takes the whole text or nothing, checks overflow, and
 * touches its result only on success. No locale: the process never sets LC_NUMERIC.
 */
#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

struct unit {
    const char *text;
    int64_t factor;
};

/* From large to small: the parts of a duration come in this order. */
static const struct unit duration_units[] = {
    {"d", 86400 * BH_NS_PER_S}, {"h", 3600 * BH_NS_PER_S}, {"m", 60 * BH_NS_PER_S},
    {"s", BH_NS_PER_S},         {"ms", BH_NS_PER_MS},
};

static const struct unit size_units[] = {
    {"B", 1},
    {"kB", INT64_C(1000)},
    {"KB", INT64_C(1000)},
    {"MB", INT64_C(1000000)},
    {"GB", INT64_C(1000000000)},
    {"TB", INT64_C(1000000000000)},
    {"PB", INT64_C(1000000000000000)},
    {"KiB", INT64_C(1) << 10},
    {"MiB", INT64_C(1) << 20},
    {"GiB", INT64_C(1) << 30},
    {"TiB", INT64_C(1) << 40},
    {"PiB", INT64_C(1) << 50},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* At least one digit; moves *p behind them. */
static bool scan_digits(const char **p, int64_t *ret)
{
    int64_t value = 0;
    if (!is_digit(**p))
        return false;
    for (; is_digit(**p); (*p)++) {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, **p - '0', &value))
            return false;
    }
    *ret = value;
    return true;
}

/* The index of the unit whose letters stand at *p, up to the next digit or the end; -1 for none. */
static int scan_unit(const char **p, const struct unit *units, size_t n)
{
    size_t len = strcspn(*p, "0123456789");
    for (size_t i = 0; i < n; i++) {
        if (len && strlen(units[i].text) == len && memcmp(units[i].text, *p, len) == 0) {
            *p += len;
            return (int)i;
        }
    }
    return -1;
}

int bh_parse_duration(const char *text, int64_t *ret_ns)
{
    int64_t total = 0;
    int last = -1;
    const char *p = text;
    do {
        int64_t n;
        if (!scan_digits(&p, &n))
            return -BH_E_BAD_VALUE;
        int unit = scan_unit(&p, duration_units, BH_ARRAY_LEN(duration_units));
        if (unit <= last || __builtin_mul_overflow(n, duration_units[unit].factor, &n) ||
            __builtin_add_overflow(total, n, &total))
            return -BH_E_BAD_VALUE;
        last = unit;
    } while (*p);
    *ret_ns = total;
    return 0;
}

int bh_parse_size(const char *text, int64_t *ret_bytes)
{
    int64_t n;
    const char *p = text;
    if (!scan_digits(&p, &n))
        return -BH_E_BAD_VALUE;
    int unit = scan_unit(&p, size_units, BH_ARRAY_LEN(size_units));
    if (unit < 0 || *p || __builtin_mul_overflow(n, size_units[unit].factor, &n))
        return -BH_E_BAD_VALUE;
    *ret_bytes = n;
    return 0;
}

int bh_parse_int(const char *text, int64_t *ret)
{
    const char *p = text;
    bool negative = *p == '-';
    p += negative;
    if (!is_digit(*p) || (*p == '0' && p[1]))
        return -BH_E_BAD_VALUE;
    int64_t value = 0; /* kept negative: INT64_MIN has no positive twin */
    for (; is_digit(*p); p++) {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, *p - '0', &value))
            return -BH_E_BAD_VALUE;
    }
    if (*p || (!negative && value == INT64_MIN))
        return -BH_E_BAD_VALUE;
    *ret = negative ? value : -value;
    return 0;
}

static size_t skip_digits(const char **p)
{
    size_t n = 0;
    for (; is_digit(**p); (*p)++)
        n++;
    return n;
}

/* strtod also takes white space, hex, inf and nan, which are no numbers here. */
static bool is_decimal(const char *p)
{
    if (*p == '-' || *p == '+')
        p++;
    size_t n = skip_digits(&p);
    if (*p == '.') {
        p++;
        n += skip_digits(&p);
    }
    if (!n)
        return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '-' || *p == '+')
            p++;
        if (!skip_digits(&p))
            return false;
    }
    return *p == '\0';
}

int bh_parse_number(const char *text, double *ret)
{
    if (!is_decimal(text))
        return -BH_E_BAD_VALUE;
    double value = strtod(text, NULL);
    if (!isfinite(value))
        return -BH_E_BAD_VALUE;
    *ret = value;
    return 0;
}

char *bh_format_duration(int64_t ns, char buf[static BH_UNIT_TEXT])
{
    const char *sign = ns < 0 ? "-" : "";
    uint64_t ms = (ns < 0 ? -(uint64_t)ns : (uint64_t)ns) / BH_NS_PER_MS, s = ms / 1000;
    int minutes = (int)(s / 60 % 60), hours = (int)(s / 3600 % 24);
    if (s < 1)
        (void)snprintf(buf, BH_UNIT_TEXT, "%s%dms", ms ? sign : "", (int)ms);
    else if (s < 60)
        (void)snprintf(buf, BH_UNIT_TEXT, "%s%d.%ds", sign, (int)s, (int)(ms / 100 % 10));
    else if (s < 3600)
        (void)snprintf(buf, BH_UNIT_TEXT, "%s%dm%02ds", sign, minutes, (int)(s % 60));
    else if (s < 86400)
        (void)snprintf(buf, BH_UNIT_TEXT, "%s%dh%02dm", sign, hours, minutes);
    else
        (void)snprintf(buf, BH_UNIT_TEXT, "%s%llud%02dh", sign, (unsigned long long)(s / 86400), hours);
    return buf;
}

char *bh_format_size(int64_t bytes, char buf[static BH_UNIT_TEXT])
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    const char *sign = bytes < 0 ? "-" : "";
    uint64_t b = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes, unit = 1024;
    size_t i = 0;
    if (b < 1024) {
        (void)snprintf(buf, BH_UNIT_TEXT, "%s%u B", sign, (unsigned)b);
        return buf;
    }
    for (; i + 1 < BH_ARRAY_LEN(names) && b / unit >= 1024; i++)
        unit *= 1024;
    (void)snprintf(buf, BH_UNIT_TEXT, "%s%llu.%llu %s", sign, (unsigned long long)(b / unit),
                   (unsigned long long)(b % unit * 10 / unit), names[i]);
    return buf;
}
