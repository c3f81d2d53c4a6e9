/* SPDX-License-Identifier: Apache-2.0 */
/* A run that is forgotten is gone, and all others are as they were. */
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "tests/kit/store_kit.h"
#include "tests/support/t.h"

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

static struct bh_store *open_store(struct kit_home *h)
{
    struct bh_store *s = NULL;
    T_OK(bh_store_open(&h->home, BH_STORE_WRITE, &s, &err));
    return s;
}

static void put_mark_aside(const struct kit_home *h, const char *run)
{
    BH_CLEANUP_FREE char *from = bh_home_run_path(&h->home, run, NULL);
    BH_CLEANUP_FREE char *to = bh_asprintf("%s/runs/.gone-%s", h->dir, run);
    T_INT(rename(from, to), 0);
}

static size_t n_runs(struct bh_store *s)
{
    struct bh_run_row *rows = NULL;
    size_t n = 0;
    T_OK(bh_store_list_runs(s, &rows, &n, &err));
    bh_run_rows_free(rows, n);
    return n;
}

static void it_is_gone_and_the_others_are_not(void **state)
{
    struct kit_home *h = *state;
    struct bh_store *s = open_store(h);
    struct bh_run_id one = kit_run_id(1), two = kit_run_id(2);
    struct bh_run_row row;
    int64_t n = 0;
    T_OK(kit_commit_run(s, one.s, "succeeded", &err));
    T_OK(kit_commit_events(s, one.s, 1, 3, &err));
    T_OK(kit_commit_run(s, two.s, "failed", &err));
    T_OK(kit_commit_events(s, two.s, 1, 2, &err));
    T_INT(n_runs(s), 2);
    put_mark_aside(h, one.s);
    T_OK(bh_store_forget(s, one.s, &err));
    T_INT(n_runs(s), 1); /* the count of runs agrees */
    T_ERR(bh_store_get_run(s, one.s, &row, &err), BH_E_NOT_FOUND, one.s);
    T_ERR(kit_replay(s, one.s, &n, &err), BH_E_NOT_FOUND, one.s);
    T_OK(kit_replay(s, two.s, &n, &err));
    T_INT(n, 2);
    T_OK(bh_store_forget(s, one.s, &err)); /* again: nothing */
    T_INT(n_runs(s), 1);
    bh_store_close(s);
    s = open_store(h);
    T_INT(n_runs(s), 1);
    bh_store_close(s);
}

static void the_id_can_be_used_again(void **state)
{
    struct kit_home *h = *state;
    struct bh_store *s = open_store(h);
    struct bh_run_id one = kit_run_id(1);
    int64_t n = 0;
    T_OK(kit_commit_events(s, one.s, 1, 3, &err));
    put_mark_aside(h, one.s);
    T_OK(bh_store_forget(s, one.s, &err));
    T_OK(kit_commit_events(s, one.s, 1, 1, &err));
    T_OK(kit_replay(s, one.s, &n, &err));
    T_INT(n, 1);
    bh_store_close(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_is_gone_and_the_others_are_not),
        TEST(the_id_can_be_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
