/* SPDX-License-Identifier: Apache-2.0 */
/* Who is taken among attempts: each row writes them as a word, one letter an attempt. */
#include "policies/select.h"
#include "tests/support/t.h"

/*
 * 'o' open, 'f' failed, 's' stopped, 'p' passed without a score, a digit: passed with that score. They pass from the
 * right to the left where `backwards`.
 */
static struct bh_select_verdict decide(const struct bh_select_rule *rule, const char *word, bool backwards)
{
    struct bh_select_attempt attempts[16] = {{0}};
    size_t n = strlen(word);
    for (size_t i = 0; i < n; i++) {
        bool scored = word[i] >= '0' && word[i] <= '9';
        attempts[i].state = word[i] == 'o'   ? BH_SELECT_OPEN
                            : word[i] == 'f' ? BH_SELECT_FAILED
                            : word[i] == 's' ? BH_SELECT_STOPPED
                                             : BH_SELECT_PASSED;
        attempts[i].has_score = scored;
        attempts[i].score = scored ? word[i] - '0' : 0;
        attempts[i].passed_as = backwards ? n - i : i + 1;
    }
    return bh_select_decide(rule, attempts, n);
}

struct row {
    const char *word;
    int64_t min;
    enum bh_select_answer answer;
    int winner; /* -1: none */
    bool stop;
};

static void check(struct bh_select_rule rule, const struct row *rows, size_t n, bool backwards)
{
    for (size_t i = 0; i < n; i++) {
        rule.min_success = rows[i].min;
        struct bh_select_verdict v = decide(&rule, rows[i].word, backwards);
        int winner = v.winner == SIZE_MAX ? -1 : (int)v.winner;
        if (v.answer != rows[i].answer || winner != rows[i].winner || v.stop != rows[i].stop)
            fail_msg("'%s' with min_success %d: answer %d, winner %d, stop %d", rows[i].word, (int)rows[i].min,
                     v.answer, winner, v.stop);
    }
}

static void test_first_pass(void **state)
{
    static const struct row rows[] = {
        {"p", 1, BH_SELECT_TAKE, 0, false},   {"f", 1, BH_SELECT_LOST, -1, false},
        {"o", 1, BH_SELECT_WAIT, -1, false},  {"po", 1, BH_SELECT_WAIT, -1, false},
        {"op", 1, BH_SELECT_WAIT, -1, false}, {"fpp", 1, BH_SELECT_TAKE, 1, false},
        {"ppp", 3, BH_SELECT_TAKE, 0, false}, {"pfp", 3, BH_SELECT_LOST, -1, false},
        {"ff", 1, BH_SELECT_LOST, -1, false}, {"pf", 0, BH_SELECT_TAKE, 0, false},
    };
    (void)state;
    struct bh_select_rule rule = {.kind = BH_SELECT_FIRST_PASS};
    check(rule, rows, BH_ARRAY_LEN(rows), false);
    check(rule, rows, BH_ARRAY_LEN(rows), true); /* who was faster does not count */
}

static void test_stop_losers(void **state)
{
    static const struct row rows[] = {
        {"oo", 1, BH_SELECT_WAIT, -1, false},  {"op", 1, BH_SELECT_TAKE, 1, true},
        {"fo", 1, BH_SELECT_WAIT, -1, false},  {"ff", 1, BH_SELECT_LOST, -1, false},
        {"opo", 2, BH_SELECT_WAIT, -1, false}, {"fof", 2, BH_SELECT_LOST, -1, true},
        {"sps", 1, BH_SELECT_TAKE, 1, false},  {"sfs", 1, BH_SELECT_LOST, -1, false},
    };
    static const struct row backwards[] = {{"pp", 1, BH_SELECT_TAKE, 1, false}, {"pop", 2, BH_SELECT_TAKE, 2, true}};
    (void)state;
    struct bh_select_rule rule = {.kind = BH_SELECT_FIRST_PASS, .stop_losers = true};
    check(rule, rows, BH_ARRAY_LEN(rows), false);
    check(rule, backwards, BH_ARRAY_LEN(backwards), true);
}

static void test_best(void **state)
{
    static const struct row max[] = {
        {"132", 1, BH_SELECT_TAKE, 1, false}, {"1o2", 1, BH_SELECT_WAIT, -1, false},
        {"33", 1, BH_SELECT_TAKE, 0, false},  {"f1p", 1, BH_SELECT_TAKE, 1, false},
        {"pf", 1, BH_SELECT_LOST, -1, false}, {"12f", 3, BH_SELECT_LOST, -1, false},
        {"0pp", 3, BH_SELECT_TAKE, 0, false},
    };
    static const struct row min[] = {{"312", 1, BH_SELECT_TAKE, 1, false}, {"p22", 1, BH_SELECT_TAKE, 1, false}};
    (void)state;
    check((struct bh_select_rule){.kind = BH_SELECT_BEST}, max, BH_ARRAY_LEN(max), true);
    check((struct bh_select_rule){.kind = BH_SELECT_BEST, .order_min = true}, min, BH_ARRAY_LEN(min), true);
    struct bh_select_rule rule = {.kind = BH_SELECT_BEST, .min_success = 1};
    assert_true(decide(&rule, "pf", false).unscored);
    assert_false(decide(&rule, "ff", false).unscored);
}

static void test_all(void **state)
{
    static const struct row rows[] = {
        {"pfp", 1, BH_SELECT_TAKE, -1, false},
        {"pfp", 3, BH_SELECT_LOST, -1, false},
        {"ff", 1, BH_SELECT_LOST, -1, false},
        {"po", 1, BH_SELECT_WAIT, -1, false},
    };
    (void)state;
    check((struct bh_select_rule){.kind = BH_SELECT_ALL}, rows, BH_ARRAY_LEN(rows), false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_pass),
        cmocka_unit_test(test_stop_losers),
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
