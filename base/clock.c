/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two clocks, and RFC 3339 text. The calendar is computed here (proleptic Gregorian, UTC only), so
 * neither the time zone nor the locale of the process matters.
 */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/units.h"

#define US_PER_S INT64_C(1000000)
#define S_PER_DAY INT64_C(86400)

struct bh_mono bh_mono_now(void)
{
    struct timespec ts;
    BH_ASSERT(clock_gettime(CLOCK_BOOTTIME, &ts) == 0);
    return (struct bh_mono){.ns = ts.tv_sec * BH_NS_PER_S + ts.tv_nsec};
}

struct bh_wall bh_wall_now(void)
{
    struct timespec ts;
    BH_ASSERT(clock_gettime(CLOCK_REALTIME, &ts) == 0);
    return (struct bh_wall){.us = ts.tv_sec * US_PER_S + ts.tv_nsec / 1000};
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Days since 1970-01-01. Years are counted from March, so that the leap day is the last of its year. */
static int64_t days_from_civil(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = floor_div(y, 400), year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static void civil_from_days(int64_t days, int64_t *year, int *month, int *day)
{
    days += 719468;
    int64_t era = floor_div(days, 146097), day_of_era = days - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153;
    *day = (int)(day_of_year - (153 * shifted + 2) / 5 + 1);
    *month = (int)(shifted < 10 ? shifted + 3 : shifted - 9);
    *year = year_of_era + era * 400 + (*month <= 2);
}

char *bh_wall_format(struct bh_wall t, char buf[static BH_WALL_TEXT])
{
    int64_t s = floor_div(t.us, US_PER_S), us = (t.us % US_PER_S + US_PER_S) % US_PER_S;
    int64_t days = floor_div(s, S_PER_DAY), of_day = s - days * S_PER_DAY, year;
    int month, day;
    civil_from_days(days, &year, &month, &day);
    /* The remainders change nothing; they tell the compiler that the text fits. */
    (void)snprintf(buf, BH_WALL_TEXT, "%04d-%02u-%02uT%02u:%02u:%02u.%06uZ", (int)(year % 1000000),
                   (unsigned)month % 13, (unsigned)day % 32, (unsigned)(of_day / 3600) % 24,
                   (unsigned)(of_day / 60) % 60, (unsigned)of_day % 60, (unsigned)us % 1000000);
    return buf;
}

/* Exactly `n` digits; moves *p behind them. */
static bool digits(const char **p, int n, int *ret)
{
    int value = 0;
    for (int i = 0; i < n; i++, (*p)++) {
        if (**p < '0' || **p > '9')
            return false;
        value = value * 10 + (**p - '0');
    }
    *ret = value;
    return true;
}

static bool literal(const char **p, const char *any_of)
{
    if (!**p || !strchr(any_of, **p))
        return false;
    (*p)++;
    return true;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

/* ".123" to 123000; digits past the sixth are cut. No fraction is 0. */
static bool fraction(const char **p, int64_t *ret_us)
{
    *ret_us = 0;
    if (**p != '.')
        return true;
    (*p)++;
    const char *start = *p;
    int64_t scale = US_PER_S / 10;
    for (; **p >= '0' && **p <= '9'; (*p)++, scale /= 10)
        *ret_us += (**p - '0') * scale;
    return *p != start;
}

static bool offset(const char **p, int *ret_s)
{
    *ret_s = 0;
    if (literal(p, "Zz"))
        return true;
    int sign = **p == '-' ? -1 : 1, hours, minutes;
    if (!literal(p, "+-") || !digits(p, 2, &hours) || !literal(p, ":") || !digits(p, 2, &minutes) || hours > 23 ||
        minutes > 59)
        return false;
    *ret_s = sign * (hours * 3600 + minutes * 60);
    return true;
}

static bool parse_rfc3339(const char *p, struct bh_wall *ret)
{
    int year, month, day, h, m, s, off;
    int64_t us;
    if (!digits(&p, 4, &year) || !literal(&p, "-") || !digits(&p, 2, &month) || !literal(&p, "-") ||
        !digits(&p, 2, &day) || !literal(&p, "Tt ") || !digits(&p, 2, &h) || !literal(&p, ":") || !digits(&p, 2, &m) ||
        !literal(&p, ":") || !digits(&p, 2, &s) || !fraction(&p, &us) || !offset(&p, &off) || *p)
        return false;
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || h > 23 || m > 59 || s > 60)
        return false;
    int64_t seconds = days_from_civil(year, month, day) * S_PER_DAY + h * 3600 + m * 60 + s - off;
    ret->us = seconds * US_PER_S + us;
    return true;
}

int bh_wall_parse(const char *text, struct bh_wall now, struct bh_wall *ret)
{
    int64_t before_ns;
    if (parse_rfc3339(text, ret))
        return 0;
    if (bh_parse_duration(text, &before_ns) < 0)
        return -BH_E_BAD_VALUE;
    ret->us = now.us - before_ns / 1000;
    return 0;
}
