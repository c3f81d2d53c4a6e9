/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice from the record of a run: what its agents did to each other and how long they waited, read from the store and
 * from the layers and boxes that the run left. Changes nothing.
 */
#pragma once

#include "base/home.h"
#include "scheduler/store/store.h"
#include "topologies/advise.h"

/*
 * Appends to `list`. `subject` is the run's own document, with its plan. Errors are those of the store; what lies on
 * the disk and cannot be read is passed over.
 */
int bh_advise_run(const struct bh_home *home, struct bh_store *store, const struct bh_run_row *run,
                  const struct bh_advise_subject *subject, struct bh_advices *list, struct bh_err **err) BH_MUST_CHECK;
