/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs are old, what goes with them, and what stays because some run still names it. */
#include "scheduler/gc.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "artifact-bus/cas.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/kit/store_kit.h"
#include "tests/support/t.h"

#define DAY_US INT64_C(86400000000)

struct rig {
    struct kit_home h;
    struct bh_store *store;
    struct bh_gc_result result;
    unsigned n;
};

static int set_up(void **state)
{
    struct rig *r = bh_alloc(sizeof(*r));
    kit_home_make(&r->h);
    T_OK(bh_store_open(&r->h.home, BH_STORE_WRITE, &r->store, &err));
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    bh_store_close(r->store);
    kit_home_remove(&r->h);
    bh_free(r);
    return 0;
}

static struct bh_object put(const struct rig *r, const char *text)
{
    BH_CLEANUP_FREE char *dir = bh_home_path(&r->h.home, "cas");
    BH_CLEANUP_FREE char *tmp = bh_home_path(&r->h.home, "tmp");
    struct bh_cas *cas = NULL;
    struct bh_object object;
    T_OK(bh_cas_open(dir, tmp, &cas, &err));
    T_OK(bh_cas_put_bytes(cas, text, strlen(text), &object, &err));
    T_OK(bh_cas_sync(cas, &err));
    bh_cas_close(cas);
    return object;
}

static bool has(const struct rig *r, const struct bh_object *object)
{
    BH_CLEANUP_FREE char *dir = bh_home_path(&r->h.home, "cas");
    BH_CLEANUP_FREE char *tmp = bh_home_path(&r->h.home, "tmp");
    struct bh_cas *cas = NULL;
    T_OK(bh_cas_open(dir, tmp, &cas, &err));
    bool there = bh_cas_has(cas, &object->digest);
    bh_cas_close(cas);
    return there;
}

/* The n-th run, which ended so many days ago (0: it has not); its submission names an object. */
static void add_run(const struct rig *r, unsigned n, const char *status, int64_t days, const struct bh_object *object)
{
    char digest[BH_DIGEST_TEXT] = "";
    struct bh_run_id id = kit_run_id(n);
    struct bh_run_row row = kit_run_row(id.s, status);
    int fd = -1;
    T_OK(bh_home_own_run(&r->h.home, id.s, 0, &fd, &err));
    if (object)
        bh_digest_format(&object->digest, digest);
    row.submission = digest;
    row.ended.us = days ? bh_wall_now().us - days * DAY_US : 0;
    const struct bh_store_event event = {.kind = "kit.1", .at = {1000}, .payload = "{}"};
    const struct bh_store_batch batch = {.run = id.s, .events = &event, .n_events = 1, .run_row = &row};
    T_OK(bh_store_commit(r->store, &batch, &err));
    bh_close(fd);
}

static bool is_there(const struct rig *r, unsigned n)
{
    struct bh_run_row row = {0};
    struct bh_run_id id = kit_run_id(n);
    bool known = bh_store_get_run(r->store, id.s, &row, NULL) == 0;
    BH_CLEANUP_FREE char *dir = bh_home_run_path(&r->h.home, id.s, NULL);
    bh_run_row_fini(&row);
    T_INT(access(dir, F_OK) == 0, known); /* folder and records go together */
    return known;
}

static void found(void *arg, const struct bh_reclaimed *what)
{
    struct rig *r = arg;
    T_INT(what->error, 0);
    r->n++;
}

static void gc(struct rig *r, const struct bh_gc_keep *keep, bool dry_run)
{
    struct bh_errlist errors = {0};
    const struct bh_reclaim how = {.dry_run = dry_run, .found = found, .arg = r};
    r->n = 0;
    bh_gc(&r->h.home, &how, keep, &r->result, &errors);
    T_INT(errors.len, 0);
}

static void four_runs(struct rig *r)
{
    add_run(r, 1, "succeeded", 40, NULL);
    add_run(r, 2, "failed", 30, NULL);
    add_run(r, 3, "running", 0, NULL); /* interrupted */
    add_run(r, 4, "succeeded", 1, NULL);
}

static void without_a_rule_all_stay(void **state)
{
    struct rig *r = *state;
    const struct bh_gc_keep none = {.older_than_ns = -1};
    four_runs(r);
    gc(r, NULL, false);
    gc(r, &none, false);
    T_TRUE(is_there(r, 1) && is_there(r, 2) && is_there(r, 3) && is_there(r, 4));
    T_INT(r->result.runs, 0);
}

static void old_ones_go_and_interrupted_ones_never(void **state)
{
    struct rig *r = *state;
    const struct bh_gc_keep keep = {.some = true, .older_than_ns = 10 * DAY_US * 1000};
    const struct bh_gc_keep all = {.some = true, .older_than_ns = -1};
    four_runs(r);
    gc(r, &keep, true);
    T_INT(r->result.runs, 2);
    T_TRUE(is_there(r, 1) && is_there(r, 2)); /* only said */
    gc(r, &keep, false);
    T_INT(r->result.runs, 2);
    T_TRUE(!is_there(r, 1) && !is_there(r, 2) && is_there(r, 3) && is_there(r, 4));
    gc(r, &all, false);
    T_TRUE(is_there(r, 3) && !is_there(r, 4));
}

static void the_newest_stay_and_failed_ones_where_asked(void **state)
{
    struct rig *r = *state;
    const struct bh_gc_keep keep = {.some = true, .older_than_ns = -1, .last = 2, .failed = true};
    four_runs(r);
    gc(r, &keep, false);
    T_TRUE(!is_there(r, 1) && is_there(r, 2) && is_there(r, 3) && is_there(r, 4));
}

static void both_rules_must_hold(void **state)
{
    struct rig *r = *state;
    const struct bh_gc_keep keep = {.some = true, .older_than_ns = 35 * DAY_US * 1000, .last = 1};
    four_runs(r);
    gc(r, &keep, false);
    T_TRUE(!is_there(r, 1) && is_there(r, 2));
}

static void objects_go_with_the_last_run_that_names_them(void **state)
{
    struct rig *r = *state;
    const struct bh_gc_keep keep = {.some = true, .older_than_ns = 10 * DAY_US * 1000};
    struct bh_object both = put(r, "both"), old = put(r, "old"), nobody = put(r, "nobody");
    add_run(r, 1, "succeeded", 40, &both);
    add_run(r, 2, "succeeded", 40, &old);
    add_run(r, 3, "running", 0, &both);
    gc(r, NULL, false);
    T_TRUE(has(r, &both) && has(r, &old) && !has(r, &nobody));
    gc(r, &keep, true);
    T_INT(r->n, 3); /* two runs, one object */
    gc(r, &keep, false);
    T_TRUE(has(r, &both) && !has(r, &old));
    T_TRUE(!r->result.shared_in_use);
}

static void a_live_run_keeps_what_runs_share(void **state)
{
    struct rig *r = *state;
    struct bh_object nobody = put(r, "nobody");
    struct bh_run_id id = kit_run_id(3);
    int fd = -1;
    add_run(r, 3, "running", 0, NULL);
    T_OK(bh_home_own_run(&r->h.home, id.s, 0, &fd, &err));
    gc(r, NULL, false);
    T_TRUE(r->result.shared_in_use && has(r, &nobody));
    bh_close(fd);
    gc(r, NULL, false);
    T_TRUE(!r->result.shared_in_use && !has(r, &nobody));
}

static void who_is_in_a_box_keeps_the_run(void **state)
{
    struct rig *r = *state;
    const struct bh_gc_keep all = {.some = true, .older_than_ns = -1};
    struct bh_run_id id = kit_run_id(1);
    add_run(r, 1, "failed", 40, NULL);
    BH_CLEANUP_FREE char *dir = bh_home_run_path(&r->h.home, id.s, NULL);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_INT(flock(fd, LOCK_SH), 0);
    gc(r, &all, false);
    T_TRUE(is_there(r, 1));
    T_INT(r->result.in_shells, 1);
    bh_close(fd);
    gc(r, &all, false);
    T_TRUE(!is_there(r, 1));
}

/* Its folder has its other name, its records are there. */
static void what_a_dead_gc_began_is_finished(void **state)
{
    struct rig *r = *state;
    struct bh_run_id id = kit_run_id(1);
    add_run(r, 1, "succeeded", 40, NULL);
    BH_CLEANUP_FREE char *from = bh_home_run_path(&r->h.home, id.s, NULL);
    BH_CLEANUP_FREE char *to = bh_asprintf("%s/runs/.gone-%s", r->h.dir, id.s);
    T_INT(rename(from, to), 0);
    gc(r, NULL, true);
    T_INT(access(to, F_OK), 0);
    gc(r, NULL, false);
    T_TRUE(!is_there(r, 1) && access(to, F_OK) < 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_rule_all_stay),
        TEST(old_ones_go_and_interrupted_ones_never),
        TEST(the_newest_stay_and_failed_ones_where_asked),
        TEST(both_rules_must_hold),
        TEST(objects_go_with_the_last_run_that_names_them),
        TEST(a_live_run_keeps_what_runs_share),
        TEST(who_is_in_a_box_keeps_the_run),
        TEST(what_a_dead_gc_began_is_finished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
