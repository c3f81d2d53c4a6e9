/* SPDX-License-Identifier: Apache-2.0 */
/* {{attempt}} is the one place that the plan leaves open in an agent that runs: it is filled when the attempt is
 * leased. */
#include "scheduler/dispatch/attempt_text.h"

#include "base/buf.h"
#include "base/mem.h"
#include "topologies/placeholder.h"

char *bh_attempt_text(const char *text, int attempt)
{
    struct bh_buf out = BH_BUF_INIT;
    struct bh_placeholder p;
    size_t offset = 0, done = 0;
    if (!text)
        return NULL;
    while (bh_placeholder_next(text, &offset, &p)) {
        if (p.kind != BH_HOLD_ATTEMPT)
            continue;
        bh_buf_add(&out, text + done, p.start - done);
        bh_buf_addf(&out, "%d", attempt);
        done = p.end;
    }
    bh_buf_adds(&out, text + done);
    return bh_buf_take(&out);
}
