/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact-bus/wire.h"

#include <math.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/val.h"
#include "tests/support/t.h"

/* An envelope of version 1 with room for one field, and its key. */
#define HEAD "\x82\xa1v\x01"
#define BODY    \
    HEAD "\xa4" \
         "body"

static struct bh_val *from_json(const char *text)
{
    struct bh_val *v = NULL;
    T_OK(bh_json_parse(text, strlen(text), &v, &err));
    return v;
}

static void test_round_trip(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "null",
        "true",
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "1.5",
        "\"\"",
        "\"\\u0000 \\u00e9 \\ud83d\\ude00\"",
        "[]",
        "{}",
        "[1,[2,[3,{}]],false,null]",
        "{\"a\":{\"b\":[{\"c\":-129},32768,4294967296]},\"\":\"empty key\"}",
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(bodies); i++) {
        BH_CLEANUP_VAL struct bh_val *v = from_json(bodies[i]);
        BH_CLEANUP_VAL struct bh_val *back = NULL;
        BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
        T_OK(bh_wire_encode(v, &text, &err));
        T_OK(bh_wire_decode(text.data, text.len, &back, &err));
        assert_true(bh_val_equal(v, back));
    }
}

static void test_long_texts_and_lists(void **state)
{
    (void)state;
    static const size_t sizes[] = {31, 32, 255, 256, 65535, 65536};
    for (size_t i = 0; i < BH_ARRAY_LEN(sizes); i++) {
        BH_CLEANUP_VAL struct bh_val *v = bh_val_list();
        BH_CLEANUP_VAL struct bh_val *back = NULL;
        BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
        BH_CLEANUP_FREE char *s = bh_alloc(sizes[i] + 1);
        memset(s, 'x', sizes[i]);
        bh_val_add(v, bh_val_str(s));
        for (size_t n = 1; n < sizes[i]; n++)
            bh_val_add(v, bh_val_int((int64_t)n));
        T_OK(bh_wire_encode(v, &text, &err));
        T_OK(bh_wire_decode(text.data, text.len, &back, &err));
        assert_true(bh_val_equal(v, back));
    }
}

static void test_encode_appends(void **state)
{
    (void)state;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_VAL struct bh_val *v = bh_val_bool(true), *back = NULL;
    bh_buf_adds(&text, "before");
    T_OK(bh_wire_encode(v, &text, &err));
    assert_memory_equal(text.data, "before" BODY "\xc3", 6 + sizeof(BODY));
    T_OK(bh_wire_decode(text.data + 6, text.len - 6, &back, &err));
    assert_true(bh_val_get_bool(back));
}

struct bad {
    const char *data;
    size_t len;
    const char *part;
};
#define BAD(bytes, text)               \
    {                                  \
        bytes, sizeof(bytes) - 1, text \
    }

static const struct bad bad_messages[] = {
    BAD("", "does not begin with a protocol version"),
    BAD("\x82", "does not begin with a protocol version"),
    BAD("\x82\xa1v", "does not begin with a protocol version"),
    BAD("\x82\xa1w\x01\xa4"
        "body\xc0",
        "does not begin with a protocol version"),
    BAD("\x92\xa1v\x01\xa4"
        "body\xc0",
        "does not begin with a protocol version"),
    BAD("\x82\xa1v\xcc\x01\xa4"
        "body\xc0",
        "does not begin with a protocol version"),
    BAD("hello, is this the bus?", "does not begin with a protocol version"),
    BAD("\x82\xa1v\x02\xa4"
        "body\xc0",
        "of protocol version 2, this side speaks 1"),
    BAD("\x82\xa1v\x7f"
        "anything at all",
        "of protocol version 127, this side speaks 1"),
    BAD(HEAD, "claims more values than there are bytes left"),
    BAD(BODY, "ends before its last value"),
    BAD(BODY "\xa5"
             "four",
        "ends in the middle of a value"),
    BAD(BODY "\xcd\x01", "ends in the middle of a value"),
    BAD(BODY "\xcb\0\0\0", "ends in the middle of a value"),
    BAD(BODY "\xd9", "ends in the middle of a value"),
    BAD(BODY "\xdb\0\0", "ends in the middle of a value"),
    BAD(BODY "\xdb\xff\xff\xff\xff", "ends in the middle of a value"),
    BAD(BODY "\xdd\0\0", "ends in the middle of a value"),
    BAD(BODY "\xc0\xc0", "goes on behind its end"),
    BAD(BODY "\x90\0", "goes on behind its end"),
    BAD("\x81\xa1v\x01\xc0", "goes on behind its end"),
    /* kinds we do not have */
    BAD(BODY "\xc1", "is of a type that is not used here"),
    BAD(BODY "\xc4\x01x", "is of a type that is not used here"),
    BAD(BODY "\xc7\x01\x05x", "is of a type that is not used here"),
    BAD(BODY "\xd4\x05x", "is of a type that is not used here"),
    BAD(BODY "\xd6\xff\0\0\0\0", "is of a type that is not used here"),
    BAD(BODY "\x91\xc6\0\0\0\0", "is of a type that is not used here"),
    /* claims of more than there is */
    BAD(BODY "\xdd\xff\xff\xff\xff", "claims more values than there are bytes left"),
    BAD(BODY "\xdf\xff\xff\xff\xff", "claims more values than there are bytes left"),
    BAD(BODY "\xdd\x05\xf5\xe1\0\xc0", "claims more values than there are bytes left"),
    BAD(BODY "\xdf\x80\0\0\0\xa1"
             "a\xc0",
        "claims more values than there are bytes left"),
    BAD(BODY "\x81\xa1"
             "a",
        "ends before its last value"),
    /* keys */
    BAD(BODY "\x81\x01\xc0", "is a key that is no text"),
    BAD(BODY "\x81\xc0\xc0", "is a key that is no text"),
    BAD(BODY "\x81\x90\xc0", "is a key that is no text"),
    BAD(BODY "\x82\xa1"
             "a\x01\xa1"
             "a\x02",
        "the same key twice in one map"),
    BAD(BODY "\x91\x82\xa1"
             "a\xc0\xd9\x01"
             "a\xc0",
        "the same key twice in one map"),
    BAD(BODY "\x81\xa3"
             "a\0b\xc0",
        "a key with a NUL in it"),
    BAD(BODY "\x81\xa2"
             "a\xff\xc0",
        "a key that is not UTF-8"),
    /* values */
    BAD(BODY "\xa1\xff", "text that is not UTF-8"),
    BAD(BODY "\xa3\xed\xa0\x80", "text that is not UTF-8"),
    BAD(BODY "\xa2\xc0\x80", "text that is not UTF-8"),
    BAD(BODY "\xcf\x80\0\0\0\0\0\0\0", "an integer that is too large"),
    BAD(BODY "\xcb\x7f\xf8\0\0\0\0\0\0", "a number that is not finite"),
    BAD(BODY "\xcb\xff\xf0\0\0\0\0\0\0", "a number that is not finite"),
    BAD(BODY "\xca\x7f\x80\0\0", "a number that is not finite"),
    /* the envelope */
    BAD("\x81\xa1v\x01", "has no body"),
    BAD(HEAD "\xa4"
             "Body\xc0",
        "has no body"),
    BAD("\x83\xa1v\x01\xa4"
        "body\xc0\xa4"
        "body\xc0",
        "the same key twice in one map"),
    BAD("\x83\xa1v\x01\xa4"
        "body\xc0\xa1v\x01",
        "the same key twice in one map"),
    BAD("\x84\xa1v\x01\xa1x\xc0\xa4"
        "body\xc0\xa1x\xc0",
        "the same key twice in one map"),
    BAD(HEAD "\xa5"
             "error\x01",
        "an error that is no text"),
    BAD(HEAD "\xa5"
             "error\xa1\xff",
        "text that is not UTF-8"),
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(bad_messages); i++) {
        struct bh_val *poison = (struct bh_val *)&poison, *body = poison;
        /* a copy of exactly that length, so that a sanitizer sees a read behind the end */
        char *data = bh_memdup(bad_messages[i].data, bad_messages[i].len);
        T_ERR(bh_wire_decode(data, bad_messages[i].len, &body, &err), BH_E_PROTOCOL, bad_messages[i].part);
        assert_ptr_equal(body, poison);
        bh_free(data);
    }
}

static void test_every_cut_is_refused(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v = from_json("{\"a\":[1,300,70000,-5,2.5,\"text\"],\"b\":{\"c\":null,\"d\":true}}");
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    T_OK(bh_wire_encode(v, &text, &err));
    for (size_t n = 0; n < text.len; n++) {
        struct bh_val *body = NULL;
        char *cut = bh_memdup(text.data, n);
        T_ERR(bh_wire_decode(cut, n, &body, &err), BH_E_PROTOCOL, "the message ");
        bh_free(cut);
    }
}

static void test_unknown_envelope_fields_are_ignored(void **state)
{
    (void)state;
    static const char message[] = "\x83\xa1v\x01\xa3new\x92\x01\xa1x\xa4"
                                  "body\x2a";
    BH_CLEANUP_VAL struct bh_val *body = NULL;
    T_OK(bh_wire_decode(message, sizeof(message) - 1, &body, &err));
    T_INT(bh_val_get_int(body), 42);
}

static void test_error_message(void **state)
{
    (void)state;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    struct bh_val *body = NULL;
    bh_wire_encode_error("the message has no body", &text);
    T_ERR(bh_wire_decode(text.data, text.len, &body, &err), BH_E_PROTOCOL,
          "the other side refused it: the message has no body");
    bh_buf_clear(&text);
    bh_wire_encode_error("cut at \xff bytes", &text);
    T_ERR(bh_wire_decode(text.data, text.len, &body, &err), BH_E_PROTOCOL, "refused it: cut at ");
    BH_CLEANUP_FREE char *long_text = bh_alloc(100000);
    memset(long_text, 'x', 99999);
    bh_buf_clear(&text);
    bh_wire_encode_error(long_text, &text);
    assert_true(text.len < 5000);
    T_ERR(bh_wire_decode(text.data, text.len, &body, &err), BH_E_PROTOCOL, "refused it: xxx");
}

/* Lists in lists, the innermost empty; the envelope is one level more. */
static struct bh_val *nested(int levels)
{
    struct bh_val *v = bh_val_list();
    for (int i = 1; i < levels; i++) {
        struct bh_val *outer = bh_val_list();
        bh_val_add(outer, v);
        v = outer;
    }
    return v;
}

static void test_depth(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *deepest = nested(BH_WIRE_MAX_DEPTH - 1), *deeper = nested(BH_WIRE_MAX_DEPTH);
    BH_CLEANUP_VAL struct bh_val *back = NULL;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    T_OK(bh_wire_encode(deepest, &text, &err));
    T_OK(bh_wire_decode(text.data, text.len, &back, &err));
    assert_true(bh_val_equal(deepest, back));
    size_t before = text.len;
    T_ERR(bh_wire_encode(deeper, &text, &err), BH_E_TOO_LARGE, "nested deeper than 12 levels");
    T_INT(text.len, before);
    bh_buf_clear(&text);
    bh_buf_add(&text, BODY, sizeof(BODY) - 1);
    for (int i = 0; i < 100000; i++)
        bh_buf_addc(&text, (char)0x91);
    bh_buf_addc(&text, (char)0xc0);
    struct bh_val *body = NULL;
    T_ERR(bh_wire_decode(text.data, text.len, &body, &err), BH_E_PROTOCOL, "nested too deep");
}

static void test_object_count(void **state)
{
    (void)state;
    size_t most = BH_WIRE_MAX_OBJECTS - 5; /* the envelope's two pairs and itself */
    BH_CLEANUP_VAL struct bh_val *list = bh_val_list(), *back = NULL;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; i < most; i++)
        bh_val_add(list, bh_val_null());
    T_OK(bh_wire_encode(list, &text, &err));
    T_OK(bh_wire_decode(text.data, text.len, &back, &err));
    T_INT(bh_val_len(back), most);
    bh_val_add(list, bh_val_null());
    T_ERR(bh_wire_encode(list, &text, &err), BH_E_TOO_LARGE, "more than 1048576 values");
    /* the same by hand: many bytes, so that only the count is wrong */
    bh_buf_clear(&text);
    bh_buf_add(&text, BODY "\xdd\x00\x10\x00\x00", sizeof(BODY) + 4);
    for (size_t i = 0; i < BH_WIRE_MAX_OBJECTS; i++)
        bh_buf_addc(&text, (char)0xc0);
    struct bh_val *body = NULL;
    T_ERR(bh_wire_decode(text.data, text.len, &body, &err), BH_E_PROTOCOL, "too many values for one message");
}

static void test_length(void **state)
{
    (void)state;
    size_t len = BH_WIRE_MAX_CONTROL;
    BH_CLEANUP_FREE char *s = bh_alloc(len + 1);
    memset(s, 'x', len);
    BH_CLEANUP_VAL struct bh_val *fits = bh_val_strn(s, len - (sizeof(BODY) - 1) - 5), *body = NULL;
    BH_CLEANUP_VAL struct bh_val *longer = bh_val_strn(s, len - (sizeof(BODY) - 1) - 4);
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    T_OK(bh_wire_encode(fits, &text, &err));
    T_INT(text.len, len);
    T_OK(bh_wire_decode(text.data, text.len, &body, &err));
    assert_true(bh_val_equal(fits, body));
    bh_buf_clear(&text);
    T_ERR(bh_wire_encode(longer, &text, &err), BH_E_TOO_LARGE, "longer than 33554432 bytes");
    T_INT(text.len, 0);
    bh_buf_add(&text, BODY, sizeof(BODY) - 1);
    bh_buf_add(&text, s, len - text.len + 1);
    T_ERR(bh_wire_decode(text.data, text.len, &body, &err), BH_E_PROTOCOL, "more than the 33554432 that are allowed");
}

static void test_what_cannot_be_encoded(void **state)
{
    (void)state;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_VAL struct bh_val *nan_value = bh_val_num(NAN), *list = bh_val_list();
    T_ERR(bh_wire_encode(nan_value, &text, &err), BH_E_BAD_VALUE, "not finite");
    bh_val_add(list, bh_val_num(-INFINITY));
    T_ERR(bh_wire_encode(list, &text, &err), BH_E_BAD_VALUE, "not finite");
    T_INT(text.len, 0);
    T_INT(text.data[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_long_texts_and_lists),
        cmocka_unit_test(test_encode_appends),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_unknown_envelope_fields_are_ignored),
        cmocka_unit_test(test_error_message),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_object_count),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_what_cannot_be_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
