/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/series.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

double series_now_us(void)
{
    return (double)bh_mono_now().ns / 1000.0;
}

void series_add(struct series *s, double value)
{
    *BH_PUSH(s->of, s->n, s->cap) = value;
}

void series_fini(struct series *s)
{
    bh_free(s->of);
    *s = (struct series){0};
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile_of(const double *values, size_t n, unsigned p)
{
    BH_CLEANUP_FREE double *sorted = bh_memdup(values, n * sizeof(double));
    qsort(sorted, n, sizeof(double), by_value);
    return sorted[(n - 1) * p / 100];
}

double series_percentile(const struct series *s, unsigned p)
{
    return s->n ? percentile_of(s->of, s->n, p) : 0;
}

double series_ratio(const struct series *a, const struct series *b, size_t block)
{
    struct series ratios = {0};
    for (size_t i = 0; i < a->n && i < b->n; i += block) {
        size_t len = a->n - i < block ? a->n - i : block;
        series_add(&ratios, percentile_of(a->of + i, len, 50) / percentile_of(b->of + i, len, 50));
    }
    double middle = series_percentile(&ratios, 50);
    series_fini(&ratios);
    return middle;
}
