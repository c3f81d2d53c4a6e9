/* SPDX-License-Identifier: Apache-2.0 */
/* The chain's bytes are a format: stores written today must verify tomorrow. And the file that holds its end. */
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "scheduler/store/mark.h"
#include "tests/kit/store_kit.h"
#include "tests/support/t.h"

static void hex_is(const struct bh_digest *d, const char *want)
{
    char text[BH_DIGEST_TEXT];
    T_STR(strchr(bh_digest_format(d, text), ':') + 1, want);
}

/* Computed by another program (Python's hashlib). */
static void links_have_the_documented_bytes(void **state)
{
    (void)state;
    const char *run = "01hzzzzzzz0123456789abcdef";
    BH_CLEANUP_BUF struct bh_buf scratch = BH_BUF_INIT;
    struct bh_head h = {.chain = bh_chain_start(run)};
    hex_is(&h.chain, "552353621bf88398b60dd8c4b65316af961eb4ffdfed702820b7c0ca01bbc3fd");
    h = bh_chain_next(&h, run, (struct bh_wall){1}, "run.start", "{}", &scratch);
    T_INT(h.seq, 1);
    hex_is(&h.chain, "f1f2514bbb4c32e61e4bec5b19cb7039c1c62e36297ca01782526f435bfde89e");
    h = bh_chain_next(&h, run, (struct bh_wall){-2}, "attempt.ended", "{\"x\":\"\xc3\xa4\"}", &scratch);
    T_INT(h.seq, 2);
    hex_is(&h.chain, "931c4d4c5bc5899f88be2c1ea92f051b301af1c2f6179748a9a568b23add81c2");
}

static void every_field_counts(void **state)
{
    (void)state;
    BH_CLEANUP_BUF struct bh_buf scratch = BH_BUF_INIT;
    struct bh_head a = {.seq = 1, .chain = bh_chain_start("r")}, b = {.seq = 1, .chain = bh_chain_start("s")},
                   c = {.seq = 2, .chain = bh_chain_start("r")};
    struct bh_wall at = {5}, later = {6};
    struct bh_digest links[] = {
        bh_chain_next(&a, "r", at, "ab", "c", &scratch).chain,    bh_chain_next(&b, "r", at, "ab", "c", &scratch).chain,
        bh_chain_next(&c, "r", at, "ab", "c", &scratch).chain,    bh_chain_next(&a, "q", at, "ab", "c", &scratch).chain,
        bh_chain_next(&a, "r", later, "ab", "c", &scratch).chain, bh_chain_next(&a, "r", at, "a", "bc", &scratch).chain,
        bh_chain_next(&a, "ra", at, "b", "c", &scratch).chain,    bh_chain_next(&a, "r", at, "ab", "", &scratch).chain,
        bh_chain_next(&a, "r", at, "ab", NULL, &scratch).chain,
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(links); i++) {
        for (size_t j = 0; j < i; j++)
            assert_false(bh_digest_equal(&links[i], &links[j]));
    }
}

/* --- marks --- */

static int set_up(void **state)
{
    struct kit_home *h = calloc(1, sizeof(*h));
    kit_home_make(h);
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    kit_home_remove(*state);
    free(*state);
    return 0;
}

static void a_mark_is_written_in_place(void **state)
{
    struct kit_home *h = *state;
    struct bh_run_id run = kit_run_id(1);
    struct bh_mark mark = {.found = true};
    T_OK(bh_mark_read(&h->home, run.s, &mark, &err));
    T_TRUE(!mark.found && !bh_mark_is_set(&mark));
    int fd = -1;
    T_OK(bh_mark_make(&h->home, run.s, &fd, &err));
    T_OK(bh_mark_read(&h->home, run.s, &mark, &err));
    T_TRUE(mark.found && !bh_mark_is_set(&mark));
    struct bh_head head = {.seq = INT64_MAX, .chain = bh_chain_start(run.s)};
    T_OK(bh_mark_write(fd, &head, run.s, &err));
    T_OK(bh_mark_sync(fd, run.s, &err));
    T_OK(bh_mark_read(&h->home, run.s, &mark, &err));
    T_TRUE(bh_mark_is_set(&mark) && mark.head.seq == INT64_MAX);
    T_TRUE(bh_digest_equal(&mark.head.chain, &head.chain));
    struct bh_mark other = mark;
    T_TRUE(bh_mark_equal(&mark, &other));
    other.head.seq--;
    T_TRUE(!bh_mark_equal(&mark, &other));
    close(fd);
    T_OK(bh_mark_open(&h->home, run.s, &fd, &err));
    close(fd);
    T_ERR(bh_mark_open(&h->home, kit_run_id(2).s, &fd, &err), BH_E_IO, "cannot open the head mark");
    T_ERR(bh_mark_write(-1, &head, run.s, &err), BH_E_IO, "Bad file descriptor");
    T_ERR(bh_mark_sync(-1, run.s, &err), BH_E_IO, "cannot sync the head mark of run");
}

static void what_is_no_mark_is_damaged(void **state)
{
    struct kit_home *h = *state;
    struct bh_run_id run = kit_run_id(1);
#define HEX63 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeef"
    static const char *const bad[] = {
        "x",
        "0000000000000000001 " HEX63 "\n",
        "0000000000000000001 " HEX63 "0",
        "0000000000000000001 " HEX63 "00\n",
        "0000000000000000001 " HEX63 "g\n",
        "0000000000000000001-" HEX63 "0\n",
        "-000000000000000001 " HEX63 "0\n",
        " 000000000000000001 " HEX63 "0\n",
        "9999999999999999999 " HEX63 "0\n",
        "000000000000000001  " HEX63 "0\n",
        "0000000000000000001 " HEX63 "0\n\n",
    };
    struct bh_mark mark;
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        kit_write_mark(&h->home, run.s, bad[i]);
        T_ERR(bh_mark_read(&h->home, run.s, &mark, &err), BH_E_STORE_CORRUPT, "does not hold a sequence and a digest");
    }
    kit_write_mark(&h->home, run.s, "0000000000000000017 " HEX63 "0\n");
    T_OK(bh_mark_read(&h->home, run.s, &mark, &err));
    T_INT(mark.head.seq, 17);
    int fd = -1;
    T_OK(bh_mark_make(&h->home, run.s, &fd, &err)); /* made anew, whatever its length was */
    close(fd);
    T_OK(bh_mark_read(&h->home, run.s, &mark, &err));
    T_TRUE(mark.found && !bh_mark_is_set(&mark));
}

/* The path of a run could be anybody's link. */
static void a_mark_is_never_a_link(void **state)
{
    struct kit_home *h = *state;
    struct bh_run_id run = kit_run_id(1);
    char *victim = bh_path_join(h->dir, "victim"), *folder = bh_home_run_path(&h->home, run.s, NULL);
    char *link_path = bh_home_run_path(&h->home, run.s, "head");
    int fd = open(victim, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && write(fd, "x", 1) == 1);
    close(fd);
    T_OK(bh_mkdir_p(folder, 0700, &err));
    assert_int_equal(symlink(victim, link_path), 0);
    struct bh_mark mark;
    T_ERR(bh_mark_read(&h->home, run.s, &mark, &err), BH_E_IO, "symbolic links");
    T_ERR(bh_mark_make(&h->home, run.s, &fd, &err), BH_E_IO, "symbolic links");
    bh_free(victim);
    bh_free(folder);
    bh_free(link_path);
}

static int collect(void *arg, const char *run, struct bh_err **err)
{
    char *seen = arg;
    seen[run[9] - '0']++;
    return run[9] == '7' ? bh_err_set(err, BH_E_PROTOCOL, 0, "stop") : 0;
}

static void only_runs_are_walked(void **state)
{
    struct kit_home *h = *state;
    char seen[10] = {0};
    T_OK(bh_mark_each_run(&h->home, collect, seen, &err));
    for (unsigned i = 1; i < 4; i++) {
        char *folder = bh_home_run_path(&h->home, kit_run_id(i).s, NULL);
        T_OK(bh_mkdir_p(folder, 0700, &err));
        bh_free(folder);
    }
    char *odd = bh_home_run_path(&h->home, "10000000010000000000000000.lost", NULL);
    T_OK(bh_mkdir_p(odd, 0700, &err));
    bh_free(odd);
    T_OK(bh_mark_each_run(&h->home, collect, seen, &err));
    T_TRUE(seen[1] == 1 && seen[2] == 1 && seen[3] == 1 && seen[0] == 0);
    char *seven = bh_home_run_path(&h->home, kit_run_id(7).s, NULL);
    T_OK(bh_mkdir_p(seven, 0700, &err));
    bh_free(seven);
    T_ERR(bh_mark_each_run(&h->home, collect, seen, &err), BH_E_PROTOCOL, "stop");
    assert_int_equal(bh_rmtree_at(h->home.dirfd, "runs"), 0);
    T_OK(bh_mark_each_run(&h->home, collect, seen, &err)); /* no folder, no runs */
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_have_the_documented_bytes),
        cmocka_unit_test(every_field_counts),
        TEST(a_mark_is_written_in_place),
        TEST(what_is_no_mark_is_damaged),
        TEST(a_mark_is_never_a_link),
        TEST(only_runs_are_walked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
