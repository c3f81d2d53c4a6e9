/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a document in a state directory of its own, created and not begun. */
#pragma once

#include "scheduler/dispatch/live_run.h"
#include "tests/kit/store_kit.h"

struct fixture {
    struct kit_home home;
    struct bh_store *store;
    struct bh_live_run *run;
    struct bh_run_id id;
};

/* The test fails where the document cannot be planned. */
struct fixture *run_fixture_new(const char *document);
int run_fixture_tear_down(void **state); /* a cmocka tear-down: *state is the fixture */
