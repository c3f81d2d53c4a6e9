/* SPDX-License-Identifier: Apache-2.0 */
/* A box that is made ahead: when there is one, who gets it, and that nobody is the worse for it. */
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"
#include "workers/box/ns_priv.h"

static struct ns *ns(void)
{
    return (struct ns *)(void *)kit.boxes;
}

static size_t n_boxes(void)
{
    size_t n = 0;
    BH_LIST_FOREACH (it, tmp, &ns()->boxes)
        n++;
    return n;
}

/* The one that is not ours. */
static struct bh_box *spare(void)
{
    BH_LIST_FOREACH (it, tmp, &ns()->boxes) {
        struct bh_box *box = BH_CONTAINER(it, struct bh_box, link);
        if (box->spare)
            return box;
    }
    return NULL;
}

static struct bh_box *wait_spare(void)
{
    int64_t end = bh_mono_now().ns + 10 * BH_NS_PER_S;
    while ((!spare() || spare()->state != BOX_ALIVE) && bh_mono_now().ns < end)
        (void)event_base_loop(kit.loop, EVLOOP_ONCE);
    T_TRUE(spare() && spare()->state == BOX_ALIVE);
    return spare();
}

static void wait_boxes(size_t n)
{
    int64_t end = bh_mono_now().ns + 10 * BH_NS_PER_S;
    while (n_boxes() != n && bh_mono_now().ns < end)
        (void)event_base_loop(kit.loop, EVLOOP_ONCE);
    T_INT(n_boxes(), n);
}

static void make(struct kit_box *b, const struct kit_how *how)
{
    if (kit_create(&kit, b, how) != 0)
        fail_msg("create: %s", b->message);
}

static void works(struct kit_box *b)
{
    struct kit_exec e;
    kit_deliver(b, "x", "delivered\n");
    kit_sh(b, &e, "ls -A /workspace; echo y > /workspace/y; cat /workspace/y; hostname");
    T_INT(e.result.end, BH_EXEC_EXITED);
    T_STR(e.out.data, "in\nout\ny\nbulkhead\n");
    kit_exec_fini(&e);
}

/* Two of a kind, and one more that nobody has asked for. */
static struct bh_box *two_and_spare(struct kit_box *a, struct kit_box *b)
{
    ns()->alike = 0; /* whatever the test before has left */
    make(a, NULL);
    assert_null(spare());
    make(b, NULL);
    return wait_spare();
}

static void next_of_the_kind_gets_it(void **state)
{
    struct kit_box a, b, c;
    struct stat st;
    (void)state;
    const struct bh_box *ahead = two_and_spare(&a, &b);
    T_INT(n_boxes(), 3);
    make(&c, NULL);
    T_TRUE(c.box == ahead);
    BH_CLEANUP_FREE char *folder = kit_path(&c, "pid");
    T_INT(stat(folder, &st), 0);
    works(&c);
    BH_CLEANUP_FREE char *written = kit_path(&c, "upper/root/workspace/y");
    T_INT(stat(written, &st), 0);
    T_INT(kit_destroy(&a, false), 0);
    T_INT(kit_destroy(&b, false), 0);
    T_INT(kit_destroy(&c, false), 0);
    wait_boxes(0); /* nobody asks for two seconds */
}

static void another_kind_does_not_get_it(void **state)
{
    static const struct kit_how others[] = {
        {.writable_usr = true}, {.limits = {.of[BH_LIMIT_PIDS] = 77}}, {.disposable = true}, {.shared = true}};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(others); i++) {
        struct kit_box a, b, c;
        const struct bh_box *ahead = two_and_spare(&a, &b);
        make(&c, &others[i]);
        T_TRUE(c.box != ahead);
        wait_boxes(3);
        T_INT(kit_destroy(&a, false), 0);
        T_INT(kit_destroy(&b, false), 0);
        T_INT(kit_destroy(&c, false), 0);
        T_INT(n_boxes(), 0);
    }
}

static void one_that_died_is_missed_by_nobody(void **state)
{
    struct kit_box a, b, c;
    (void)state;
    const struct bh_box *ahead = two_and_spare(&a, &b);
    T_INT(kill(ahead->pid, SIGKILL), 0);
    wait_boxes(2);
    make(&c, NULL);
    works(&c);
    T_INT(kit_destroy(&a, false), 0);
    T_INT(kit_destroy(&b, false), 0);
    T_INT(kit_destroy(&c, false), 0);
    wait_boxes(0);
}

/* Its end is known to the kernel, and not yet to us. */
static void one_that_has_just_died_is_not_given_away(void **state)
{
    struct kit_box a, b, c;
    (void)state;
    const struct bh_box *ahead = two_and_spare(&a, &b);
    struct pollfd polled = {.fd = ahead->pidfd, .events = POLLIN};
    T_INT(kill(ahead->pid, SIGKILL), 0);
    T_INT(poll(&polled, 1, 10000), 1);
    make(&c, NULL);
    works(&c);
    T_INT(kit_destroy(&a, false), 0);
    T_INT(kit_destroy(&b, false), 0);
    T_INT(kit_destroy(&c, false), 0);
    wait_boxes(0);
}

static void a_name_that_is_taken_is_still_refused(void **state)
{
    struct kit_box a, b, c;
    (void)state;
    (void)two_and_spare(&a, &b);
    BH_CLEANUP_FREE char *taken = bh_asprintf("%s/boxes/k%u", kit.run_dir, kit.serial + 1);
    T_INT(mkdir(taken, 0700), 0);
    T_INT(kit_create(&kit, &c, NULL), -BH_E_EXISTS);
    kit_forget(&c);
    T_INT(rmdir(taken), 0);
    make(&c, NULL);
    works(&c);
    T_INT(kit_destroy(&a, false), 0);
    T_INT(kit_destroy(&b, false), 0);
    T_INT(kit_destroy(&c, false), 0);
    wait_boxes(0);
}

static void closing_waits_for_one_in_the_making(void **state)
{
    struct kit_box a, b;
    struct bh_err *err = NULL;
    (void)state;
    make(&a, NULL);
    make(&b, NULL);
    T_TRUE(spare() != NULL);
    kit_forget(&a);
    kit_forget(&b);
    kit_close(&kit);
    T_INT(kit_reopen(&kit, &err), 0);
    make(&a, NULL);
    works(&a);
    T_INT(kit_destroy(&a, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_of_the_kind_gets_it),
        cmocka_unit_test(another_kind_does_not_get_it),
        cmocka_unit_test(one_that_has_just_died_is_not_given_away),
        cmocka_unit_test(one_that_died_is_missed_by_nobody),
        cmocka_unit_test(a_name_that_is_taken_is_still_refused),
        cmocka_unit_test(closing_waits_for_one_in_the_making),
    };
    KIT_MAIN(tests);
}
