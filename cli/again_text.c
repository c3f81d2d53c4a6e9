/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/again_text.h"

#include "base/text.h"

/* What attempts start from is asked for anew by whoever drives the run, and mostly found. */
static void tell_made(const struct bh_attempt_row *row, const struct bh_attempt_row *next, struct bh_buf *out)
{
    const char *why = next && next->epoch > row->epoch ? "the run was resumed" : "attempts needed it again";
    if (next && !next->snapshot_reused && next->started.us != 0)
        bh_buf_addf(out, "  run again because %s, and what it had made was not found whole\n", why);
    else
        bh_buf_addf(out, "  looked for again because %s\n", why);
}

void bh_again_tell(const struct bh_attempt_row *row, const struct bh_attempt_row *next, struct bh_buf *out)
{
    if (bh_streq(row->status, "succeeded") && row->kind)
        tell_made(row, next, out);
    else if (bh_streq(row->status, "succeeded"))
        bh_buf_adds(out, "  run again because what it had left in its box was lost\n");
    else if (bh_streq(row->status, "lost"))
        bh_buf_adds(out, "  run again because it was lost together with its box or with bulkhead itself\n");
    else if (bh_streq(row->status, "cancelled"))
        bh_buf_adds(out, "  run again because it had been cancelled\n");
    else
        bh_buf_adds(out, "  run again because it failed\n");
}
