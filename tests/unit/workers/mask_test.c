/* SPDX-License-Identifier: Apache-2.0 */
/* What is taken out of an agent's output, in whatever pieces it comes, and what is not held back. */
#include "workers/mask.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/support/t.h"

#define VALUE "canary-5f2e91-x"
#define BASE64 "Y2FuYXJ5LTVmMmU5MS14" /* of VALUE */

static struct bh_mask *mask_of(const char *value)
{
    struct bh_mask *m = bh_mask_new();
    bh_mask_add(m, "key", value, strlen(value));
    return m;
}

/* The whole of `text` in pieces of `size` bytes. */
static char *masked(const struct bh_mask *m, const char *text, size_t size)
{
    struct bh_mask_stream s = {.mask = m};
    struct bh_buf out = BH_BUF_INIT;
    for (size_t i = 0, len = strlen(text); i < len; i += size)
        bh_mask_push(&s, text + i, len - i < size ? len - i : size, false, &out);
    bh_mask_push(&s, "", 0, true, &out);
    bh_mask_stream_fini(&s);
    return bh_buf_take(&out);
}

static void what_is_masked(void **state)
{
    static const char *const rows[][2] = {
        {"nothing here\n", "nothing here\n"},
        {VALUE, "***"},
        {"key=" VALUE "\n", "key=***\n"},
        {VALUE VALUE " " VALUE "\n", "****** ***\n"},
        {"canary-5f2\ne91-x\n", "***\n***\n"}, /* over two lines */
        {"cana\r\nr\r\ny-5f2e91-x!", "***\r\n***\r\n***!"},
        {"a " BASE64 " b", "a *** b"},
        {"Y2FuYXJ5LTVm\nMmU5MS14\n", "***\n***\n"}, /* as base64 wraps it */
        {"canary-5f2e91-\n", "canary-5f2e91-\n"},   /* not all of it */
        {"ccanary-5f2e91-x", "c***"},
        {"canary-canary-5f2e91-x", "canary-***"},
        {"", ""},
    };
    (void)state;
    struct bh_mask *m = mask_of(VALUE);
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        for (size_t size = 1; size < 24; size++) {
            BH_CLEANUP_FREE char *got = masked(m, rows[i][0], size);
            if (strcmp(got, rows[i][1]) != 0)
                fail_msg("'%s' by %zu gave '%s', wanted '%s'", rows[i][0], size, got, rows[i][1]);
        }
    }
    bh_mask_unref(m);
}

static void base64_of_more_than_the_value(void **state)
{
    static const char *const rows[] = {
        "eENhbmFyeQ==",                     /* xCanary: not it */
        "eGNhbmFyeS01ZjJlOTEteHk=",         /* x…y */
        "eHhjYW5hcnktNWYyZTkxLXh5",         /* xx…y */
        "cGFzc3dvcmQ6Y2FuYXJ5LTVmMmU5MS14", /* password:… */
    };
    (void)state;
    struct bh_mask *m = mask_of(VALUE);
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_FREE char *got = masked(m, rows[i], 5);
        assert_int_equal(strstr(got, BH_MASKED) != NULL, i > 0);
    }
    bh_mask_unref(m);
}

static void a_value_of_lines(void **state)
{
    static const char value[] = "-----BEGIN KEY-----\nAAAABBBBCCCC\nDDDDEEEEFFFF\nG\n-----END KEY-----\n";
    (void)state;
    struct bh_mask *m = mask_of(value);
    BH_CLEANUP_FREE char *whole = masked(m, value, 7);
    T_STR(whole, "***\n***\n***\nG\n***\n"); /* a line of one letter gives nothing away */
    BH_CLEANUP_FREE char *one = masked(m, "it says DDDDEEEEFFFF.\nG\n", 3);
    T_STR(one, "it says ***.\nG\n");
    bh_mask_unref(m);
}

/* What cannot be the beginning of a value goes on at once, or nobody could follow a log. */
static void nothing_waits_for_long(void **state)
{
    static const char *const rows[][2] = {
        {"progress 10%\n", "progress 10%\n"},
        {"ends in c\n", "ends in c\n"}, /* one letter, then a line end */
        {"ends in c", "ends in "},      /* the line goes on */
        {"broken: canary-\n", "broken: "} /* so much of it waits */,
    };
    (void)state;
    struct bh_mask *m = mask_of(VALUE);
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct bh_mask_stream s = {.mask = m};
        BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
        bh_mask_push(&s, rows[i][0], strlen(rows[i][0]), false, &out);
        T_STR(out.data, rows[i][1]);
        bh_mask_push(&s, "", 0, true, &out);
        T_STR(out.data, rows[i][0]);
        bh_mask_stream_fini(&s);
    }
    bh_mask_unref(m);
}

static void several_values_and_a_short_one(void **state)
{
    (void)state;
    struct bh_mask *m = mask_of(VALUE);
    bh_mask_add(m, "other", "second-value", 12);
    bh_mask_add(m, "short", "12345", 5);
    BH_CLEANUP_FREE char *got = masked(m, "second-value 12345 " VALUE, 4);
    T_STR(got, "*** 12345 ***");
    bh_mask_unref(m);
}

static void texts(void **state)
{
    (void)state;
    struct bh_mask *m = bh_mask_ref(mask_of(VALUE));
    bh_mask_unref(m);
    assert_null(bh_mask_text(m, "nothing"));
    assert_null(bh_mask_text(m, NULL));
    assert_null(bh_mask_text(NULL, VALUE));
    BH_CLEANUP_FREE char *got = bh_mask_text(m, "/workspace/out holds: " VALUE ".txt");
    T_STR(got, "/workspace/out holds: ***.txt");
    bh_mask_unref(m);
    bh_mask_unref(NULL);
}

/* Across the border of what is read at once, and without moving the offset. */
static void in_a_file(void **state)
{
    (void)state;
    struct bh_mask *m = mask_of(VALUE);
    BH_CLEANUP_FD int fd = memfd_create("file", MFD_CLOEXEC);
    const char *name = "";
    assert_true(fd >= 0);
    T_INT(bh_mask_search(m, fd, &name), 0);
    assert_null(name);
    T_INT(pwrite(fd, VALUE, strlen(VALUE), 256 * 1024 - 7), (ssize_t)strlen(VALUE));
    T_INT(bh_mask_search(m, fd, &name), 0);
    T_STR(name, "key");
    T_INT(lseek(fd, 0, SEEK_CUR), 0);
    T_INT(ftruncate(fd, 256 * 1024), 0);
    T_INT(bh_mask_search(m, fd, &name), 0);
    assert_null(name);
    T_INT(bh_mask_search(m, -1, &name), -1);
    bh_mask_unref(m);
}

static void binary(void **state)
{
    (void)state;
    struct bh_mask *m = mask_of(VALUE);
    struct bh_mask_stream s = {.mask = m};
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    static const char data[] = "\0\xff" VALUE "\0\n\0";
    bh_mask_push(&s, data, sizeof(data) - 1, true, &out);
    T_INT(out.len, 8);
    assert_memory_equal(out.data, "\0\xff***\0\n\0", 8);
    bh_mask_stream_fini(&s);
    bh_mask_unref(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_masked),
        cmocka_unit_test(base64_of_more_than_the_value),
        cmocka_unit_test(a_value_of_lines),
        cmocka_unit_test(nothing_waits_for_long),
        cmocka_unit_test(several_values_and_a_short_one),
        cmocka_unit_test(texts),
        cmocka_unit_test(in_a_file),
        cmocka_unit_test(binary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
