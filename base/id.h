/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids that are never reused and sort by time: 26 lower-case characters of Crockford base 32, 48 bits of milliseconds
 * and 80 random bits (the layout of a ULID); within one process they are strictly increasing. An instance id is "<run
 * id>-<6 digit counter>".
 */
#pragma once

#include "base/clock.h"
#include "base/compiler.h"

#define BH_ID_LEN 26
struct bh_run_id {
    char s[BH_ID_LEN + 1];
};
#define BH_INSTANCE_LEN (BH_ID_LEN + 1 + 6)
struct bh_instance_id {
    char s[BH_INSTANCE_LEN + 1];
};

struct bh_run_id bh_run_id_new(void);
bool bh_run_id_valid(const char *text);
/* `n` is 1..999999. */
struct bh_instance_id bh_instance_id_make(struct bh_run_id run, unsigned n);
bool bh_instance_id_valid(const char *text);
