/* SPDX-License-Identifier: Apache-2.0 */
/* Why an execution was repeated, as one line for people. Knows rows, and nothing of where they are from. */
#pragma once

#include "base/buf.h"
#include "scheduler/store/store.h"

/* `next` is what followed `row` in its place; NULL where that is not known. */
void bh_again_tell(const struct bh_attempt_row *row, const struct bh_attempt_row *next, struct bh_buf *out);
