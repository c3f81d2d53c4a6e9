/* SPDX-License-Identifier: Apache-2.0 */
/* What a whole state directory may hold: counted before anything starts, and again and again. */
#include "workers/disk/budget.h"

#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"

#define MIB (INT64_C(1) << 20)

struct rig {
    char *dir;
    struct event_base *loop;
    struct bh_disk_budget *budget;
};

static int set_up(void **state)
{
    struct rig *r = bh_alloc(sizeof(*r));
    r->dir = t_tmpdir();
    r->loop = event_base_new();
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    bh_disk_budget_free(r->budget);
    event_base_free(r->loop);
    t_tmpdir_free(r->dir);
    bh_free(r);
    return 0;
}

static void put(const struct rig *r, const char *name, int64_t bytes)
{
    BH_CLEANUP_FREE char *path = bh_path_join(r->dir, name);
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    T_TRUE(fd >= 0 && posix_fallocate(fd, 0, bytes) == 0);
}

static void open_budget(struct rig *r, int64_t limit)
{
    T_OK(bh_disk_budget_new(r->loop, r->dir, limit, "a test", &r->budget, &err));
}

/* Asks, and lets the loop turn, until the answer is this: a count follows at the earliest a second after another. */
static void wait_for(struct rig *r, int want)
{
    struct bh_mono until = {bh_mono_now().ns + 20 * BH_NS_PER_S};
    while (bh_disk_budget_room(r->budget, NULL) != want && bh_mono_now().ns < until.ns) {
        struct timeval turn = {.tv_usec = 20000};
        (void)event_base_loopexit(r->loop, &turn);
        (void)event_base_dispatch(r->loop);
    }
    T_INT(bh_disk_budget_room(r->budget, NULL), want);
}

static void there_is_room(void **state)
{
    struct rig *r = *state;
    put(r, "small", MIB);
    open_budget(r, 10 * MIB);
    T_OK(bh_disk_budget_room(r->budget, &err));
    T_TRUE(bh_disk_budget_held(r->budget) >= MIB && bh_disk_budget_held(r->budget) < 2 * MIB);
}

static void it_is_full_from_the_start(void **state)
{
    struct rig *r = *state;
    put(r, "large", 3 * MIB);
    open_budget(r, 2 * MIB);
    T_ERR(bh_disk_budget_room(r->budget, &err), BH_E_DISK_FULL, "its disk budget is 2.0 MiB (a test)");
}

static void what_comes_and_goes_is_seen(void **state)
{
    struct rig *r = *state;
    open_budget(r, 2 * MIB);
    T_OK(bh_disk_budget_room(r->budget, &err));
    put(r, "large", 3 * MIB);
    wait_for(r, -BH_E_DISK_FULL);
    BH_CLEANUP_FREE char *path = bh_path_join(r->dir, "large");
    T_INT(unlink(path), 0);
    wait_for(r, 0);
}

/* Whoever asks first after it was passed is refused: the count does not wait to be asked for. */
static void it_is_counted_without_being_asked(void **state)
{
    struct rig *r = *state;
    open_budget(r, 2 * MIB);
    put(r, "large", 3 * MIB);
    struct bh_mono until = {bh_mono_now().ns + 20 * BH_NS_PER_S};
    while (bh_disk_budget_held(r->budget) < 3 * MIB && bh_mono_now().ns < until.ns)
        (void)event_base_loop(r->loop, EVLOOP_ONCE);
    T_ERR(bh_disk_budget_room(r->budget, &err), BH_E_DISK_FULL, "its disk budget is 2.0 MiB (a test)");
}

static void a_count_under_way_is_given_up(void **state)
{
    struct rig *r = *state;
    open_budget(r, MIB);
    wait_for(r, 0);
    (void)!bh_disk_budget_room(r->budget, NULL);
    bh_disk_budget_free(BH_TAKE(r->budget));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(there_is_room),
        TEST(it_is_full_from_the_start),
        TEST(what_comes_and_goes_is_seen),
        TEST(it_is_counted_without_being_asked),
        TEST(a_count_under_way_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
