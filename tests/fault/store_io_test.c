/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operation of the database on its files fails once, then every one from it on, and the same for its memory:
 * whatever was acknowledged is there afterwards, the chain is good, an error has a code that says what happened, and
 * the store goes on once the disk is well again.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "scheduler/store/store_priv.h"
#include "tests/fault/shim_vfs.h"
#include "tests/kit/store_kit.h"
#include "tests/support/t.h"

#define COMMITS 4
#define EVENTS 3 /* of each commit */

struct outcome {
    int64_t acknowledged;
    int rc; /* of the first failure */
    bool completed;
};

/* A run as an engine makes it, up to the first failure. */
static struct outcome play(struct kit_home *h, const char *run)
{
    struct outcome out = {0};
    struct bh_store *s = NULL;
    struct bh_err *why = NULL;
    out.rc = bh_store_open(&h->home, BH_STORE_WRITE, &s, &why);
    if (out.rc == 0)
        out.rc = kit_commit_run(s, run, "running", &why);
    for (int i = 0; out.rc == 0 && i < COMMITS; i++) {
        out.rc = kit_commit_events(s, run, out.acknowledged + 1, EVENTS, &why);
        if (out.rc == 0)
            out.acknowledged += EVENTS;
    }
    out.completed = out.rc == 0;
    if (out.rc) /* an error always says something */
        T_TRUE(why && bh_err_code(why) == (enum bh_code) - out.rc && strlen(bh_err_message(why)) > 10);
    bh_err_free(why);
    bh_store_close(s);
    return out;
}

/* Reading meets the same disk: right or an error, never something else. */
static int read_back(struct kit_home *h, const char *run, int64_t *ret_n)
{
    struct bh_store *s = NULL;
    struct bh_err *why = NULL;
    int rc = bh_store_open(&h->home, BH_STORE_READ, &s, &why);
    if (rc == 0)
        rc = kit_replay(s, run, ret_n, &why);
    bh_err_free(why);
    bh_store_close(s);
    return rc;
}

static void expect_whole(struct kit_home *h, const char *run, struct outcome out)
{
    struct bh_store *s = NULL;
    int64_t n = 0;
    T_OK(bh_store_open(&h->home, BH_STORE_WRITE, &s, &err));
    struct bh_err *why = NULL;
    int rc = kit_replay(s, run, &n, &why);
    if (rc == -BH_E_NOT_FOUND && out.acknowledged == 0) {
        bh_err_free(why);
    } else {
        t_check_ok(rc, why, "replay", __FILE__, __LINE__);
        T_TRUE(n >= out.acknowledged && n <= out.acknowledged + EVENTS && n % EVENTS == 0);
    }
    T_OK(kit_commit_events(s, run, n + 1, 1, &err));
    T_OK(kit_replay(s, run, &n, &err));
    bh_store_close(s);
}

static void expect_code(int rc, const int *allowed)
{
    for (; *allowed; allowed++) {
        if (rc == -*allowed)
            return;
    }
    fail_msg("an unexpected code: %s", bh_code_info(rc)->text);
}

static void write_with_faults(void (*arm)(int, bool), const int *allowed, int stride)
{
    struct bh_run_id run = kit_run_id(1);
    for (int stays = 0; stays < 2; stays++) {
        bool struck = true;
        int n = 1;
        for (; struck; n += n < 300 ? 1 : stride) {
            struct kit_home h;
            kit_home_make(&h);
            arm(n, stays);
            struct outcome out = play(&h, run.s);
            struck = shim_has_failed();
            arm(0, false);
            if (!out.completed)
                expect_code(out.rc, allowed);
            T_TRUE(struck || out.completed);
            expect_whole(&h, run.s, out);
            kit_home_remove(&h);
        }
        print_message("%d places\n", n);
        T_TRUE(n > 20); /* the layer was really in use */
    }
}

static void read_with_faults(void (*arm)(int, bool), const int *allowed, int stride)
{
    struct bh_run_id run = kit_run_id(1);
    struct kit_home h;
    kit_home_make(&h);
    T_TRUE(play(&h, run.s).completed);
    for (int stays = 0; stays < 2; stays++) {
        bool struck = true;
        for (int n = 1; struck; n += n < 300 ? 1 : stride) {
            int64_t events = 0;
            arm(n, stays);
            int rc = read_back(&h, run.s, &events);
            struck = shim_has_failed();
            arm(0, false);
            if (rc)
                expect_code(rc, allowed);
            else
                T_INT(events, COMMITS * EVENTS);
        }
    }
    kit_home_remove(&h);
}

static const int io_codes[] = {BH_E_IO, BH_E_DISK_FULL, BH_E_PERMISSION, 0};
static const int alloc_codes[] = {BH_E_NOMEM, 0};

static void writing_survives_every_failing_operation(void **state)
{
    (void)state;
    write_with_faults(shim_fail, io_codes, 1);
}

static void reading_survives_every_failing_operation(void **state)
{
    (void)state;
    read_with_faults(shim_fail, io_codes, 1);
}

static void writing_survives_every_failing_allocation(void **state)
{
    (void)state;
    write_with_faults(shim_fail_alloc, alloc_codes, 7);
}

static void reading_survives_every_failing_allocation(void **state)
{
    (void)state;
    read_with_faults(shim_fail_alloc, alloc_codes, 7);
}

/* The transaction is on the disk, the mark is not: the run stops here, and the next process takes it up. */
static void a_mark_that_cannot_be_written_stops_the_run(void **state)
{
    (void)state;
    struct kit_home h;
    struct bh_run_id run = kit_run_id(1);
    struct bh_store *s = NULL;
    kit_home_make(&h);
    T_OK(bh_store_open(&h.home, BH_STORE_WRITE, &s, &err));
    T_OK(kit_commit_events(s, run.s, 1, 1, &err));
    struct bh_tail *tail = bh_map_get(s->tails, run.s);
    int full = open("/dev/full", O_RDWR | O_CLOEXEC);
    assert_true(full >= 0 && dup2(full, tail->mark_fd) >= 0);
    close(full);
    T_ERR(kit_commit_events(s, run.s, 2, 1, &err), BH_E_DISK_FULL, "cannot write the head mark of run");
    T_ERR(kit_commit_events(s, run.s, 3, 1, &err), BH_E_IO, "an earlier write of it failed");
    bh_store_close(s);
    int64_t n = 0;
    T_OK(bh_store_open(&h.home, BH_STORE_WRITE, &s, &err));
    T_OK(kit_replay(s, run.s, &n, &err));
    T_INT(n, 2);
    T_OK(kit_commit_events(s, run.s, 3, 1, &err));
    bh_store_close(s);
    kit_home_remove(&h);
}

int main(void)
{
    struct stat st;
    if (stat("/dev/shm", &st) == 0 && S_ISDIR(st.st_mode)) /* thousands of homes: their syncs need not reach a disk */
        setenv("TMPDIR", "/dev/shm", 1);
    shim_install_alloc();
    shim_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writing_survives_every_failing_operation),
        cmocka_unit_test(reading_survives_every_failing_operation),
        cmocka_unit_test(writing_survives_every_failing_allocation),
        cmocka_unit_test(reading_survives_every_failing_allocation),
        cmocka_unit_test(a_mark_that_cannot_be_written_stops_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
