/* SPDX-License-Identifier: Apache-2.0 */
/* What is a score, and what is none. */
#include "workers/score.h"

#include <string.h>

#include "tests/support/t.h"

static void numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {
        {"0", 0},          {"-0", 0},
        {"+7", 7},         {"1.5", 1.5},
        {".5", 0.5},       {"5.", 5},
        {"1e3", 1e3},      {"-2.5E-2", -0.025},
        {" 3\n", 3},       {"\t\r\n4 \n", 4},
        {"1e+308", 1e308}, {"1e-400", 0},
        {"00012", 12},     {"9007199254740993", 9007199254740992.0},
    };
    double value;
    for (size_t i = 0; i < BH_ARRAY_LEN(good); i++) {
        value = -1;
        T_TRUE(bh_score_parse(good[i].text, strlen(good[i].text), &value));
        T_TRUE(value == good[i].value);
    }
}

static void no_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      " \n", "nan",  "NaN", "inf", "-infinity", "1e999", "-1e999", "0x10",
                                      "1,5",   "1 2", "1\n2", "1e",  "e5",  ".",         "-",     "--1",    "1.2.3",
                                      "1e1.5", "ten", "1f",   "1e+", "+-1", "0b1",       "1_000", "1e 5"};
    double value = 42;
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        T_TRUE(!bh_score_parse(bad[i], strlen(bad[i]), &value));
        T_TRUE(value == 42);
    }
    T_TRUE(!bh_score_parse("1\0", 2, &value)); /* NUL is no white space */
    T_TRUE(!bh_score_parse("1\0002", 3, &value));
    T_TRUE(bh_score_parse("12", 1, &value) && value == 1); /* as long as is said */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(no_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
