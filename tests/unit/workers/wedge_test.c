/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/wedge.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/val.h"
#include "tests/support/t.h"

#define MIB (INT64_C(1) << 20)

static struct bh_stay stay(const char *agent)
{
    return (struct bh_stay){.agent = (char *)(uintptr_t)agent,
                            .instance = (char *)(uintptr_t) "i",
                            .attempt = 1,
                            .try_ = 1,
                            .began = {1},
                            .ended = {0}};
}

static struct bh_stay victim, hog, other;

/* The victim, who is dead, and two who live. */
static struct bh_wedge wedge(enum bh_wedge_what what, int64_t limit)
{
    const struct bh_box_share nothing = {.cpu_ms = -1, .memory_bytes = -1, .written_bytes = -1, .processes = -1};
    victim = stay("victim");
    hog = stay("hog");
    other = stay("other");
    struct bh_wedge w = {.what = what, .box = "x", .limit = limit, .n = 3};
    w.rows[0] = (struct bh_wedge_row){.who = &victim, .share = nothing, .elapsed_ms = 1000};
    w.rows[1] = (struct bh_wedge_row){.who = &hog, .share = nothing, .lives = true, .elapsed_ms = 1000};
    w.rows[2] = (struct bh_wedge_row){.who = &other, .share = nothing, .lives = true, .elapsed_ms = 1000};
    return w;
}

static void says(struct bh_wedge *w, const char *want)
{
    assert_true(bh_wedge_judge(w));
    BH_CLEANUP_FREE char *text = bh_wedge_text(w);
    T_STR(text, want);
}

static void half_of_the_limit_makes_a_cause(void **state)
{
    (void)state;
    struct bh_wedge w = wedge(BH_WEDGE_MEMORY, 100 * MIB);
    victim.max_rss_bytes = 40 * MIB;
    w.rows[1].share.memory_bytes = 50 * MIB;
    w.rows[2].share.memory_bytes = 1 * MIB;
    says(&w, "the cause, as the kernel counts: agent 'hog' (attempt 1) held 50.0 MiB of memory; agent 'victim' "
             "(attempt 1) held 40.0 MiB of memory, agent 'other' (attempt 1) held 1.0 MiB of memory");
    w.rows[1].share.memory_bytes = 50 * MIB - 1;
    w.rows[2].share.memory_bytes = 0;
    says(&w, "no one of these caused it alone, as the kernel counts: agent 'victim' (attempt 1) held 40.0 MiB of "
             "memory, agent 'hog' (attempt 1) held 49.9 MiB of memory");
    victim.max_rss_bytes = 90 * MIB; /* it was its own doing */
    assert_true(bh_wedge_judge(&w));
    T_INT(w.cause, 0);
}

static void what_is_not_known_is_nobodys(void **state)
{
    (void)state;
    struct bh_wedge w = wedge(BH_WEDGE_DISK, 8 * MIB);
    w.rows[1].share.written_bytes = 2 * MIB;
    w.rows[0].share.written_bytes = 3 * MIB;
    says(&w, "no one of these caused it alone, as the kernel counts: agent 'victim' (attempt 1) wrote 3.0 MiB, agent "
             "'hog' (attempt 1) wrote 2.0 MiB, agent 'other' (attempt 1) is not known");
    w.limit = 0; /* the host's disk: half of what is known */
    assert_true(bh_wedge_judge(&w));
    T_INT(w.cause, 0);
}

static void who_does_not_wait_is_not_starved(void **state)
{
    (void)state;
    struct bh_wedge w = wedge(BH_WEDGE_SPIN, 2000);
    w.rows[0].share.cpu_ms = 100;
    w.rows[1].share = (struct bh_box_share){.cpu_ms = 900, .waited_ms = 3000, .memory_bytes = -1};
    w.rows[0].share.waited_ms = 199;
    assert_false(bh_wedge_judge(&w)); /* it slept */
    w.rows[0].share.waited_ms = 200;
    says(&w,
         "it waited for a processor for 0.2s of that; the cause, as the kernel counts: agent 'hog' (attempt 1) used "
         "0.9s of processor time in 1.0s and waited for 3.0s; agent 'victim' (attempt 1) used 0.1s of processor "
         "time in 1.0s and waited for 0.2s, agent 'other' (attempt 1) is not known");
    w.rows[1].share.waited_ms = 100; /* one of two processors was free */
    assert_false(bh_wedge_judge(&w));
    w.rows[0].share = (struct bh_box_share){.cpu_ms = 900, .waited_ms = 5000}; /* it wants more than all others */
    assert_false(bh_wedge_judge(&w));
}

static void a_port_has_a_holder(void **state)
{
    (void)state;
    struct bh_wedge w = wedge(BH_WEDGE_PORT, 0);
    w.rows[0].share.n_ports = 1; /* its own is no reason */
    w.rows[0].share.ports[0] = 1;
    assert_false(bh_wedge_judge(&w));
    w.rows[2].share.n_ports = 2;
    w.rows[2].share.ports[0] = 8000;
    w.rows[2].share.ports[1] = 65535;
    says(&w, "beside it in the box: agent 'other' (attempt 1) listens on tcp ports 8000, 65535");
    T_INT(w.cause, 2);
    w.rows[2].lives = false;
    assert_false(bh_wedge_judge(&w));
}

static void alone_nobody_else_is_told_of(void **state)
{
    (void)state;
    struct bh_wedge w = wedge(BH_WEDGE_PROCESSES, 100);
    w.n = 1;
    w.rows[0].share.processes = 10;
    assert_false(bh_wedge_judge(&w));
    w.rows[0].share.processes = 60;
    says(&w, "the cause, as the kernel counts: agent 'victim' (attempt 1) had 60 processes");
}

static void the_json_has_every_number(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    struct bh_wedge w = wedge(BH_WEDGE_DISK, 8 * MIB);
    w.rows[1].share.written_bytes = 8 * MIB;
    hog.try_ = 2;
    hog.ended = (struct bh_wall){2000000};
    assert_true(bh_wedge_judge(&w));
    BH_CLEANUP_FREE char *json = bh_wedge_json(&w), *text = bh_wedge_text(&w);
    T_OK(bh_json_parse(json, strlen(json), &v, &err));
    T_STR(bh_val_str_of(v, "kind"), "wedge");
    T_STR(bh_val_str_of(v, "what"), "disk");
    T_STR(bh_val_str_of(v, "box"), "x");
    T_STR(bh_val_str_of(v, "caused_by"), "hog");
    T_INT(bh_val_int_of(v, "limit"), 8 * MIB);
    assert_true(bh_val_bool_of(v, "attributed"));
    const struct bh_val *row = bh_val_at(bh_val_get(v, "agents"), 1);
    T_STR(bh_val_str_of(row, "agent"), "hog");
    T_STR(bh_val_str_of(row, "ended"), "1970-01-01T00:00:02.000000Z");
    T_INT(bh_val_int_of(row, "written_bytes"), 8 * MIB);
    T_INT(bh_val_type(bh_val_get(row, "cpu_ms")), BH_VAL_NULL);
    assert_true(bh_val_bool_of(row, "caused"));
    assert_non_null(strstr(text, "(attempt 1, try 2)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_of_the_limit_makes_a_cause),  cmocka_unit_test(what_is_not_known_is_nobodys),
        cmocka_unit_test(who_does_not_wait_is_not_starved), cmocka_unit_test(a_port_has_a_holder),
        cmocka_unit_test(alone_nobody_else_is_told_of),     cmocka_unit_test(the_json_has_every_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
