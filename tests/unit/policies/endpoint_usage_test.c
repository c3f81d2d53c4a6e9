/* SPDX-License-Identifier: Apache-2.0 */
/* What services say about tokens, in replies as they come, in pieces of any size. */
#include "policies/broker/endpoint_usage.h"

#include "tests/support/t.h"

#define JSON "application/json; charset=utf-8"
#define EVENTS "text/event-stream"

static const struct row {
    const char *type, *text;
    int64_t in, out;
} rows[] = {
    /* a message of Anthropic's, whole and as events */
    {JSON,
     "{\"id\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"usage\":{\"input_tokens\":10,"
     "\"cache_creation_input_tokens\":3,\"cache_read_input_tokens\":5,\"output_tokens\":25}}",
     18, 25},
    {EVENTS,
     "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":12,"
     "\"output_tokens\":1}}}\n\nevent: ping\ndata: {}\n\nevent: message_delta\r\ndata: {\"delta\":{},\"usage\":"
     "{\"output_tokens\":15}}\r\n\r\n",
     12, 15},
    /* OpenAI's chat, whole and as events; its responses */
    {JSON,
     "{\"usage\" : {\"prompt_tokens\" : 7 , \"completion_tokens\":9,\"total_tokens\":16,"
     "\"prompt_tokens_details\":{\"cached_tokens\":4}}}",
     7, 9},
    {EVENTS,
     "data:{\"choices\":[],\"usage\":null}\n\ndata: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":9}}\n\n"
     "data: [DONE]\n\n",
     7, 9},
    {EVENTS, "data: {\"response\":{\"output\":[],\"usage\":{\"input_tokens\":30,\"output_tokens\":40}}}\n\n", 30, 40},
    /* Gemini's, and lines of JSON as Ollama sends them */
    {JSON, "{\"usageMetadata\":{\"promptTokenCount\":5,\"candidatesTokenCount\":6,\"totalTokenCount\":11}}", 5, 6},
    {"application/x-ndjson", "{\"done\":false}\n{\"done\":true,\"prompt_eval_count\":26,\"eval_count\":290}\n", 26,
     290},
    /* in what a model says, and elsewhere, they do not count */
    {JSON, "{\"content\":[{\"text\":\"{\\\"usage\\\":{\\\"input_tokens\\\":999}}\"}],\"usage\":{\"input_tokens\":1}}",
     1, 0},
    {JSON, "{\"content\":[{\"input\":{\"usage\":{\"input_tokens\":999}}}],\"usage\":{\"output_tokens\":2}}", 0, 2},
    {JSON, "{\"usage\":{\"x\":{\"input_tokens\":999},\"y\":[{\"output_tokens\":5}]}}", 0, 0},
    {JSON, "{\"input_tokens\":999,\"other\":{\"usage\":{\"input_tokens\":999}}}", 0, 0},
    {EVENTS, "event: {\"usage\":{\"input_tokens\":999}}\nid: data: {\"usage\":{\"input_tokens\":999}}\n\n", 0, 0},
    /* in text of any length, with escapes at any place */
    {JSON,
     "{\"a\":\"1234567\\\"{\\\\\",\"b\":\"12345678\\\\\",\"c\":\"\\\\\\\"usage\",\"\":\"\",\"usage\":{\"a\\tb\":3,"
     "\"output_tokens\":8,\"output_tokens_and_much_more_than_a_key_holds\":70,\"output_tokens\\u0000\":71}}",
     0, 8},
    /* behind and between events that say nothing of it */
    {EVENTS,
     ": hello\n\ndata: {\"a\":1}\n\ndata: {\"a\":2}\r\n\r\nevent: usage\ndata: {\"usage\":{\"output_tokens\":3}}\n\n"
     "data: {\"a\":[\n\ndata: \n\ndata: {\"done\":true,\ndata: \"eval_count\":5}\n\ndata: {\"a\":\"\n\n\n"
     "data: {\"usage\":{\"output_tokens\":6}}\n\n",
     0, 6},
    /* what a client would not take for one number, or one event */
    {EVENTS, "data: {\"usage\":\r\ndata: {\"input_tokens\":4\r\ndata: }}\r\n\r\n", 4, 0},
    {EVENTS, "data: {\"usage\":\n\ndata: {\"input_tokens\":4}}\n\n", 0, 0},
    /* not what it says to be */
    {JSON, "]]]]}}{\"usage\":{\"input_tokens\":99999999999999999999999}}", 9999999999999, 0},
    {JSON, "{\"usage\":{\"input_tokens\":", 0, 0},
    {"text/plain", "{\"usage\":{\"input_tokens\":5}}", 0, 0},
    {NULL, "{\"usage\":{\"input_tokens\":5}}", 0, 0},
};

static void test_replies(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i].text);
        for (size_t size = 1; size <= len; size = size < 8 ? size + 1 : size * 2) {
            struct bh_usage u;
            bh_usage_begin(&u, rows[i].type);
            for (size_t at = 0; at < len; at += size)
                bh_usage_feed(&u, rows[i].text + at, size < len - at ? size : len - at);
            if (bh_usage_in(&u) != rows[i].in || bh_usage_out(&u) != rows[i].out)
                fail_msg("row %zu in pieces of %zu: %lld in, %lld out", i, size, (long long)bh_usage_in(&u),
                         (long long)bh_usage_out(&u));
        }
    }
}

static void test_counts_are_there_before_the_end(void **state)
{
    (void)state;
    struct bh_usage u;
    bh_usage_begin(&u, EVENTS);
    const char *first = "data: {\"message\":{\"usage\":{\"input_tokens\":12,";
    bh_usage_feed(&u, first, strlen(first));
    T_INT(bh_usage_in(&u), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_counts_are_there_before_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
