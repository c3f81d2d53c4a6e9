/* SPDX-License-Identifier: Apache-2.0 */
/* Why an execution was repeated: what had succeeded is never said to have failed. */
#include "cli/again_text.h"

#include "tests/support/t.h"

static void check(struct bh_attempt_row row, struct bh_attempt_row next, const char *want)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_again_tell(&row, &next, &out);
    T_STR(out.data, want);
}

#define ROW(status_, kind_, epoch_, reused)                                                                   \
    (struct bh_attempt_row)                                                                                   \
    {                                                                                                         \
        .status = (char *)(status_), .kind = (char *)(kind_), .epoch = (epoch_), .snapshot_reused = (reused), \
        .started = {                                                                                          \
            (reused) ? 0 : 7                                                                                  \
        }                                                                                                     \
    }

static void what_did_not_succeed_says_how(void **state)
{
    (void)state;
    const struct bh_attempt_row next = ROW("succeeded", NULL, 1, false);
    check(ROW("failed", NULL, 1, false), next, "  run again because it failed\n");
    check(ROW("failed", "prepare", 1, false), next, "  run again because it failed\n");
    check(ROW("cancelled", NULL, 1, false), next, "  run again because it had been cancelled\n");
    check(ROW("lost", "setup", 1, false), next,
          "  run again because it was lost together with its box or with bulkhead itself\n");
}

static void what_succeeded_did_not_fail(void **state)
{
    (void)state;
    check(ROW("succeeded", "prepare", 1, false), ROW("succeeded", "prepare", 2, true),
          "  looked for again because the run was resumed\n");
    check(ROW("succeeded", "prepare", 1, false), ROW("succeeded", "prepare", 2, false),
          "  run again because the run was resumed, and what it had made was not found whole\n");
    check(ROW("succeeded", "setup", 1, false), ROW("succeeded", "setup", 1, true),
          "  looked for again because attempts needed it again\n");
    check(ROW("succeeded", "setup", 1, false), ROW("running", "setup", 1, false),
          "  run again because attempts needed it again, and what it had made was not found whole\n");
    check(ROW("succeeded", NULL, 1, false), ROW("succeeded", NULL, 1, false),
          "  run again because what it had left in its box was lost\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_did_not_succeed_says_how),
        cmocka_unit_test(what_succeeded_did_not_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
