/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls an endpoint lets through, however their path is written. */
#include "policies/broker/endpoint_rules.h"

#include "base/mem.h"
#include "tests/support/t.h"

static void test_targets_are_normalised(void **state)
{
    static const struct {
        const char *target, *compared, *sent;
    } rows[] = {
        {"/", "/", "/"},
        {"/v1/messages", "/v1/messages", "/v1/messages"},
        {"/v1/messages?beta=true&x=%2e", "/v1/messages", "/v1/messages?beta=true&x=%2e"},
        {"/v1/%6dessages", "/v1/messages", "/v1/messages"},
        {"/a%2db%7E", "/a-b~", "/a-b~"},
        {"/@scope%2fname", "/@scope%2Fname", "/@scope%2Fname"},
        {"/a/./b/../c", "/a/c", "/a/c"},
        {"/a/%2e%2e/c", "/c", "/c"},
        {"/a/..", "/", "/"},
        {"/a/.", "/a/", "/a/"},
        {"/a//b", "/a//b", "/a//b"},
        {"/.well-known/x", "/.well-known/x", "/.well-known/x"},
        {"/a/...", "/a/...", "/a/..."},
        {"/100%25", "/100%", "/100%25"},
        {"/a%3fb", "/a?b", "/a%3Fb"},
        {"/%E2%82%AC", "/\xe2\x82\xac", "/%E2%82%AC"},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_endpoint_target t = {0};
        const char *why = NULL;
        if (bh_endpoint_normalise(rows[i].target, &t, &why) < 0)
            fail_msg("%s: %s", rows[i].target, why);
        T_STR(t.compared, rows[i].compared);
        T_STR(t.sent, rows[i].sent);
        bh_endpoint_target_fini(&t);
    }
}

static void test_what_reads_two_ways_is_refused(void **state)
{
    static const char *const rows[] = {
        "",          "*",         "http://x/",     "v1",         "/..",       "/a/../../b", "/%2e%2e/a", "/a%2f..%2fb",
        "/a/..%2fb", "/a%5cb",    "/a\\b",         "/a%00",      "/a%0d%0ab", "/a%",        "/a%2",      "/a%zz",
        "/a#b",      "/v1/..;/b", "/%252e%252e/a", "/a/.;x=1/b", "/a%252fb",  "/a%7f",      "/a%2f.",
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_endpoint_target t = {0};
        const char *why = NULL;
        if (bh_endpoint_normalise(rows[i], &t, &why) == 0)
            fail_msg("'%s' became '%s'", rows[i], t.sent);
        assert_non_null(why);
    }
}

static void test_rules(void **state)
{
    static const struct {
        const char *rule, *method, *path;
        bool fits;
    } rows[] = {
        {"POST /v1/messages", "POST", "/v1/messages", true},
        {"POST /v1/messages", "GET", "/v1/messages", false},
        {"POST /v1/messages", "post", "/v1/messages", false},
        {"POST /v1/messages", "POST", "/v1/messages/", false},
        {"POST /v1/messages", "POST", "/v1/messages/batches", false},
        {"POST /v1/messages", "POST", "/V1/messages", false},
        {"POST /v1/messages", "POST", "//v1/messages", false},
        {"POST /v1/messages", "XPOST", "/v1/messages", false},
        {"GET /v1/models/*", "GET", "/v1/models/a.b-c", true},
        {"GET /v1/models/*", "GET", "/v1/models/a/b", false},
        {"GET /**", "GET", "/a/b/c", true},
        {"GET /v1/**", "GET", "/v2/a", false},
        {"* /a", "DELETE", "/a", true},
        {"* /a", "DELETE", "/b", false},
        {"GET /@scope%2fname", "GET", "/@scope%2Fname", true},
        {"GET /@*%2F*", "GET", "/@scope%2Fname", true},
        {"GET /@*%2F*", "GET", "/@scope%2Fname%2Fx", false},
        {"GET /@*%2F*", "GET", "/@scope/name", false},
        {"GET /@*/*", "GET", "/@scope%2Fname", false},
        {"GET /v1/*", "GET", "/v1/a%2Fb", false},
        {"GET /**", "GET", "/v1/a%2Fb", false},
        {"GET /**%2F**", "GET", "/v1/a%2Fb/c", true},
        {"GET /v1", "HEAD", "/v1", false},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        char *rule[] = {bh_strdup("PUT /never"), bh_strdup(rows[i].rule)};
        if (bh_endpoint_allows(rule, 2, rows[i].method, rows[i].path) != rows[i].fits)
            fail_msg("%s: %s %s", rows[i].rule, rows[i].method, rows[i].path);
        bh_free(rule[0]);
        bh_free(rule[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets_are_normalised),
        cmocka_unit_test(test_what_reads_two_ways_is_refused),
        cmocka_unit_test(test_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
