/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmarks measure: series of times, and how two of them are compared. */
#pragma once

#include <stddef.h>

#define SERIES_BLOCK 20 /* of each kind in turns: what disturbs the machine for a moment disturbs both sides alike */

struct series { /* zero-initialise */
    double *of;
    size_t n, cap;
};

double series_now_us(void);
void series_add(struct series *s, double value);
void series_fini(struct series *s);
double series_percentile(const struct series *s, unsigned p); /* 0 where it is empty */
/* Of each block of so many the ratio of the medians, and of those the median. */
double series_ratio(const struct series *a, const struct series *b, size_t block);
