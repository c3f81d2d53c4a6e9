/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "base/mem.h"
#include "policies/reasons.h"
#include "tests/support/t.h"

static void every_row_is_whole(void **state)
{
    (void)state;
    for (int r = BH_REASON_NONE + 1; r < BH_REASON_MAX_; r++) {
        const struct bh_reason_info *row = bh_reason_info((enum bh_reason)r);
        T_INT(row->reason, r);
        T_TRUE(row->text[0] != '\0' && row->remedy != NULL && row->remedy[0] != '\0');
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
        for (int p = BH_PHASE_NONE; p <= BH_PHASE_GATE; p++) {
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

static void a_detail_says_what_else_mends_it(void **state)
{
    static const struct {
        enum bh_reason reason;
        int64_t exit;
        const char *detail, *remedy;
    } rows[] = {
        {BH_REASON_OOM, 1, "run exited with code 1: memory limit of 64MiB was reached",
         "raise 'limits.memory' of the agent"},
        {BH_REASON_OOM, 1, "run exited with code 1: memory limit of box 'x' (64MiB) was reached",
         "raise 'boxes.x.limits.memory'"},
        {BH_REASON_PIDS, 1, "setup of box 'a-1' exited with code 1: pids limit of box 'a-1' (9) was reached",
         "raise 'boxes.a-1.limits.pids'"},
        {BH_REASON_DISK_FULL, 1, "box 'x' held 2MiB on disk, and its limit is 1MiB",
         "raise 'boxes.x.limits.disk', or write less"},
        {BH_REASON_DISK_FULL, 1, "box 'x' held 65 files, and its limit is 64",
         "raise 'boxes.x.limits.inodes', or make fewer files"},
        {BH_REASON_DISK_FULL, 1, "run exited with code 1: inodes limit of 100 was reached",
         "raise 'limits.inodes' of the agent, or make fewer files"},
        {BH_REASON_OOM, 1, "box 'No Name", "raise 'limits.memory' of the agent"},
        {BH_REASON_OOM, 1, NULL, "raise 'limits.memory' of the agent"},
        {BH_REASON_TIMEOUT, -1, "check took longer than 1s",
         "raise 'timeout.check' of the agent, or make the step shorter"},
        {BH_REASON_TIMEOUT, -1, "run took longer than 1s", "raise 'timeout' of the agent, or make the step shorter"},
        {BH_REASON_HOST, -1, "making the box: the state directory '/s' holds 2 GiB, and its disk budget is 1 GiB (x)",
         "make room: 'bulkhead gc --dry-run --older-than 30d' says what would go; or raise the budget; then go on with "
         "'bulkhead run --resume RUN'"},
        {BH_REASON_HOST, -1, "making the box: the disk of '/s' is nearly full",
         "free space on the disk of the state directory ('bulkhead gc' removes what nobody needs), then go on with "
         "'bulkhead run --resume RUN'"},
        {BH_REASON_HOST, -1, "making the box: cannot clone", "'bulkhead doctor' says what this host lacks"},
        {BH_REASON_HOST, -1, "getting its secrets: secret 'k' cannot be had: command 'pass' failed with exit status 1",
         "run the command by hand: it must print the value and end with 0; then go on with 'bulkhead run --resume "
         "RUN'"},
        {BH_REASON_HOST, -1, "getting its secrets: secret 'k' cannot be had: variable 'K' is not set",
         "set the variable where bulkhead is started, then go on with 'bulkhead run --resume RUN'"},
        {BH_REASON_HOST, -1, "getting its secrets: secret 'k' cannot be had: file 'f' cannot be read: No such file",
         "write the value to the file, readable by whoever runs bulkhead, then go on with 'bulkhead run --resume RUN'"},
        {BH_REASON_OUTPUT_INVALID, 0, "output 'o' holds the value of the secret 'k'",
         "keep the value out of what the agent writes; give the credential to an endpoint, where it can be used and "
         "not "
         "had; and change it, if the output is known to others"},
        {BH_REASON_EXIT, 1, "run exited with code 1; 2 connections or calls were denied: x.org:443 (not-listed), y:1",
         "add \"x.org:443\" to 'network.allow' of the agent, if it is to reach that; else read its last lines with "
         "'bulkhead logs RUN -a AGENT --tail 20'"},
        {BH_REASON_EXIT, 1, "run exited with code 1; 1 connection or call was denied: x\"y:443 (not-listed)",
         "read its last lines with 'bulkhead logs RUN -a AGENT --tail 20'"},
        {BH_REASON_EXIT, 1, "run exited with code 1; 1 connection or call was denied: GET /v of e (not-allowed)",
         "read its last lines with 'bulkhead logs RUN -a AGENT --tail 20'"},
        {BH_REASON_EXIT, 1, "run exited with code 1; 2 connections or calls were denied",
         "read its last lines with 'bulkhead logs RUN -a AGENT --tail 20'; what was denied is withheld: a tainted "
         "agent has "
         "chosen it ('bulkhead audit --run RUN -a AGENT' has it)"},
        {BH_REASON_TIMEOUT, -1, "gate 'ship' was not decided within 1s",
         "decide now with 'bulkhead approve RUN ship', then go on with 'bulkhead run --resume RUN', which asks again "
         "where nothing was decided; or raise 'timeout.run' of an agent behind it"},
        {BH_REASON_POLICY, -1, "gate 'ship' was rejected by ada: gate 'x' was not decided within 1s",
         "mend what was rejected and start a new run; or let it pass after all: 'bulkhead approve RUN ship', then "
         "'bulkhead run --resume RUN'"},
        {BH_REASON_POLICY, -1, "the gate for input 'x' exited with code 1",
         "mend what makes the input, or what 'accept' asks of it"},
        {BH_REASON_TIMEOUT, -1, "prepare took longer than 1s",
         "raise 'timeout.prepare' of the agent, or make the step shorter"},
        {BH_REASON_CHECK, 0, "none of the 3 attempts that passed left one finite decimal in 's/x' (1 by exit)",
         "write one number to 's/x' in the attempt or its check"},
        {BH_REASON_CHECK, 1, "check exited with code 1",
         "read what the check printed with 'bulkhead logs RUN -a AGENT'"},
        {BH_REASON_CHECK, 1, "x one finite decimal in 'y",
         "read what the check printed with 'bulkhead logs RUN -a AGENT'"},
        {BH_REASON_EXIT, 127, "run could not start: command 'x' was not found in the box",
         "check the command, its path and the working directory: it never ran, so it has no lines in the log"},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_FREE char *remedy = bh_reason_remedy_of(rows[i].reason, rows[i].exit, rows[i].detail);
        T_STR(remedy, rows[i].remedy);
    }
    BH_CLEANUP_FREE char *written = bh_reason_remedy_of(BH_REASON_COLLISION, 0, "output 'x' changed after its agent");
    assert_non_null(strstr(written, "boxes of their own"));
    BH_CLEANUP_FREE char *named = bh_reason_remedy_of(BH_REASON_COLLISION, 0, "'x' of agent 'a' is the same name as");
    T_STR(named, bh_reason_info(BH_REASON_COLLISION)->remedy);
    BH_CLEANUP_FREE char *shell = bh_reason_remedy_of(BH_REASON_EXIT, 127, "run exited with code 127");
    T_STR(shell, bh_reason_remedy(BH_REASON_EXIT, 127)); /* a shell says why in the log */
}

static void a_remedy_leads_to_the_attempt_it_is_about(void **state)
{
    static const struct {
        const char *remedy;
        int64_t attempt;
        const char *want;
    } rows[] = {
        {"see 'logs RUN -a AGENT --tail 20'", 2, "see 'logs RUN -a AGENT --attempt 2 --tail 20'"},
        {"see 'logs RUN -a AGENT'", 0, "see 'logs RUN -a AGENT --attempt 0'"},
        {"see 'logs RUN -a AGENT'", -1, "see 'logs RUN -a AGENT'"},
        {"raise 'timeout'", 3, "raise 'timeout'"},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_FREE char *got = bh_remedy_of_attempt(rows[i].remedy, rows[i].attempt);
        T_STR(got, rows[i].want);
    }
    BH_CLEANUP_FREE char *tainted = bh_remedy_of_tainted(bh_reason_remedy(BH_REASON_EXIT, 1));
    T_STR(tainted, "read its last lines with 'bulkhead logs RUN -a AGENT --content --tail 20'");
    BH_CLEANUP_FREE char *other = bh_remedy_of_tainted("raise 'timeout'");
    T_STR(other, "raise 'timeout'");
    static const enum bh_reason reads[] = {BH_REASON_EXIT, BH_REASON_SIGNAL, BH_REASON_CHECK};
    for (size_t i = 0; i < BH_ARRAY_LEN(reads); i++) {
        BH_CLEANUP_FREE char *got = bh_remedy_of_attempt(bh_reason_info(reads[i])->remedy, 2);
        assert_non_null(strstr(got, "-a AGENT --attempt 2"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(texts_are_read_back),
        cmocka_unit_test(a_timeout_names_its_phase),
        cmocka_unit_test(nonsense_is_no_reason),
        cmocka_unit_test(a_detail_says_what_else_mends_it),
        cmocka_unit_test(a_remedy_leads_to_the_attempt_it_is_about),
        cmocka_unit_test(exit_statuses_are_those_of_the_manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
