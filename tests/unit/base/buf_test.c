/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "base/mem.h"
#include "tests/support/t.h"

static void test_empty_buffer_is_text(void **state)
{
    (void)state;
    struct bh_buf zero = BH_BUF_INIT, buf;
    bh_buf_init(&buf);
    T_STR(zero.data, "");
    T_STR(buf.data, "");
    T_INT(buf.len, 0);
    bh_buf_add(&buf, NULL, 0);
    bh_buf_adds(&buf, "");
    bh_buf_clear(&buf);
    bh_buf_consume(&buf, 0);
    T_INT(buf.cap, 0);
    bh_buf_fini(&buf);
    T_STR(buf.data, "");
}

static void test_add(void **state)
{
    (void)state;
    BH_CLEANUP_BUF struct bh_buf buf = BH_BUF_INIT;
    bh_buf_adds(&buf, "one");
    bh_buf_addc(&buf, ' ');
    bh_buf_addf(&buf, "%d-%s", 2, "three");
    T_STR(buf.data, "one 2-three");
    T_INT(buf.len, strlen("one 2-three"));
    bh_buf_add(&buf, "a\0b", 3);
    T_INT(buf.len, strlen("one 2-three") + 3);
    assert_memory_equal(buf.data + 11, "a\0b", 4);
    bh_buf_clear(&buf);
    T_STR(buf.data, "");
    T_INT(buf.len, 0);
}

static void test_grows_and_stays_terminated(void **state)
{
    (void)state;
    BH_CLEANUP_BUF struct bh_buf buf = BH_BUF_INIT;
    for (unsigned i = 0; i < 10000; i++) {
        bh_buf_addc(&buf, (char)('a' + i % 26));
        T_INT(buf.data[buf.len], 0);
        assert_true(buf.cap > buf.len);
    }
    for (unsigned i = 0; i < 10000; i++)
        T_INT(buf.data[i], 'a' + i % 26);
    bh_buf_addf(&buf, "%5000d|", 7);
    T_INT(buf.len, 15001);
    T_STR(buf.data + 14999, "7|");
}

static void test_reserve_keeps_the_nul(void **state)
{
    (void)state;
    BH_CLEANUP_BUF struct bh_buf buf = BH_BUF_INIT;
    bh_buf_adds(&buf, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    bh_buf_clear(&buf);
    char *room = bh_buf_reserve(&buf, 20);
    memcpy(room, "hello", 5);
    buf.len += 5; /* less than was reserved */
    T_STR(buf.data, "hello");
    room = bh_buf_reserve(&buf, 0);
    T_INT(*room, 0);
    room = bh_buf_reserve(&buf, 1000);
    memset(room, 'y', 1000);
    buf.len += 1000;
    T_INT(strlen(buf.data), 1005);
}

static void test_consume(void **state)
{
    (void)state;
    BH_CLEANUP_BUF struct bh_buf buf = BH_BUF_INIT;
    bh_buf_adds(&buf, "first second");
    bh_buf_consume(&buf, 6);
    T_STR(buf.data, "second");
    T_INT(buf.len, 6);
    bh_buf_consume(&buf, 6);
    T_STR(buf.data, "");
    bh_buf_adds(&buf, "again");
    T_STR(buf.data, "again");
}

static void test_take(void **state)
{
    (void)state;
    struct bh_buf buf = BH_BUF_INIT;
    BH_CLEANUP_FREE char *nothing = bh_buf_take(&buf);
    T_STR(nothing, "");
    bh_buf_adds(&buf, "mine");
    BH_CLEANUP_FREE char *text = bh_buf_take(&buf);
    T_STR(text, "mine");
    T_STR(buf.data, "");
    T_INT(buf.cap, 0);
    bh_buf_adds(&buf, "next");
    T_STR(text, "mine");
    bh_buf_fini(&buf);
    bh_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_buffer_is_text),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_grows_and_stays_terminated),
        cmocka_unit_test(test_reserve_keeps_the_nul),
        cmocka_unit_test(test_consume),
        cmocka_unit_test(test_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
