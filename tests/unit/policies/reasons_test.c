/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "policies/reasons.h"
#include "tests/support/t.h"

static void every_row_is_whole(void **state)
{
    (void)state;
    for (int r = BH_REASON_NONE + 1; r < BH_REASON_MAX_; r++) {
        const struct bh_reason_info *row = bh_reason_info((enum bh_reason)r);
        T_INT(row->reason, r);
        T_TRUE(row->text[0] != '\0' && row->remedy != NULL);
        for (const char *c = row->text; *c; c++)
            T_TRUE(islower((unsigned char)*c) || *c == '-');
        T_TRUE(row->exit_status > 0 && row->exit_status < 128);
        T_TRUE(row->http_status >= 200 && row->http_status < 600);
        T_TRUE(row->default_retries >= 0);
        size_t n = strlen(row->remedy);
        T_TRUE(n == 0 || row->remedy[n - 1] != '.');
    }
}

static void texts_are_read_back(void **state)
{
    (void)state;
    for (int r = BH_REASON_NONE + 1; r < BH_REASON_MAX_; r++) {
        T_INT(bh_reason_parse(bh_reason_info((enum bh_reason)r)->text), r);
        for (int p = BH_PHASE_NONE; p <= BH_PHASE_CHECK; p++) {
            const char *text = bh_reason_text((enum bh_reason)r, (enum bh_phase)p);
            T_INT(bh_reason_parse(text), r);
            if (r == BH_REASON_TIMEOUT)
                T_INT(bh_phase_parse(text), p);
        }
    }
}

static void a_timeout_names_its_phase(void **state)
{
    (void)state;
    T_STR(bh_reason_text(BH_REASON_TIMEOUT, BH_PHASE_SETUP), "timeout(setup)");
    T_STR(bh_reason_text(BH_REASON_TIMEOUT, BH_PHASE_PREPARE), "timeout(prepare)");
    T_STR(bh_reason_text(BH_REASON_TIMEOUT, BH_PHASE_RUN), "timeout(run)");
    T_STR(bh_reason_text(BH_REASON_TIMEOUT, BH_PHASE_CHECK), "timeout(check)");
    T_STR(bh_reason_text(BH_REASON_TIMEOUT, BH_PHASE_NONE), "timeout");
    T_STR(bh_reason_text(BH_REASON_EXIT, BH_PHASE_RUN), "exit");
    T_INT(bh_phase_parse("setup"), BH_PHASE_SETUP);
    T_INT(bh_phase_parse("run"), BH_PHASE_RUN);
    T_STR(bh_phase_text(BH_PHASE_CHECK), "check");
    T_STR(bh_phase_text(BH_PHASE_NONE), "");
}

static void nonsense_is_no_reason(void **state)
{
    static const char *const texts[] = {
        "",      "Exit",     "exit(run)", "timeout()", "timeout(boot)", "timeout(run", "timeout(run) ",
        " exit", "box_lost", "none"};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++) {
        T_INT(bh_reason_parse(texts[i]), BH_REASON_NONE);
        T_INT(bh_phase_parse(texts[i]), BH_PHASE_NONE);
    }
    T_INT(bh_reason_parse(NULL), BH_REASON_NONE);
    T_INT(bh_phase_parse(NULL), BH_PHASE_NONE);
    T_STR(bh_reason_info((enum bh_reason)9999)->text, "");
    T_STR(bh_reason_info((enum bh_reason) - 1)->text, "");
    T_STR(bh_reason_info(BH_REASON_NONE)->text, "");
    T_STR(bh_reason_text((enum bh_reason)9999, BH_PHASE_RUN), "");
    T_STR(bh_reason_text(BH_REASON_TIMEOUT, (enum bh_phase)77), "timeout");
    T_STR(bh_phase_text((enum bh_phase)77), "");
}

/* What scripts rely on: docs/bulkhead.1. */
static void exit_statuses_are_those_of_the_manual(void **state)
{
    static const struct {
        const char *text;
        int exit, http;
    } rows[] = {
        {"exit", 1, 200},          {"signal", 1, 200}, {"timeout", 1, 200},        {"oom", 1, 200},
        {"disk-full", 1, 200},     {"pids", 1, 200},   {"check", 1, 200},          {"output-missing", 1, 200},
        {"collision", 6, 409},     {"policy", 5, 403}, {"output-invalid", 1, 200}, {"box-lost", 1, 503},
        {"host", 7, 503},          {"budget", 1, 200}, {"items", 1, 200},          {"rounds", 1, 200},
        {"input-skipped", 1, 200},
    };
    (void)state;
    T_INT(BH_ARRAY_LEN(rows), BH_REASON_MAX_ - 1);
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        const struct bh_reason_info *row = bh_reason_info(bh_reason_parse(rows[i].text));
        T_STR(row->text, rows[i].text);
        T_INT(row->exit_status, rows[i].exit);
        T_INT(row->http_status, rows[i].http);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(texts_are_read_back),
        cmocka_unit_test(a_timeout_names_its_phase),
        cmocka_unit_test(nonsense_is_no_reason),
        cmocka_unit_test(exit_statuses_are_those_of_the_manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
