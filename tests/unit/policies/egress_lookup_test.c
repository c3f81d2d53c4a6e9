/* SPDX-License-Identifier: Apache-2.0 */
/* Names looked up in helper processes: some hang, some die, and nobody waits for those of another. */
#include <event2/event.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "policies/broker/egress_lookup.h"
#include "tests/support/t.h"

enum { SOON_MS = 300, LONG_MS = 60000, LIMIT_S = 20, OF_ONE = 4 };

struct scene {
    struct event_base *loop;
    struct event *limit;
    struct bh_lookups *all;
    int answers, wanted; /* the loop is left when so many came */
    int last_n;
    unsigned char last[BH_ADDRESS_LEN];
};

/* Runs in helpers. */
static int look_up(const char *name, unsigned char ret[BH_LOOKUP_MAX][BH_ADDRESS_LEN])
{
    if (bh_streq(name, "hangs.example"))
        (void)pause();
    if (bh_streq(name, "dies.example"))
        abort();
    if (bh_streq(name, "ends.example"))
        _exit(0);
    return bh_address_parse("192.0.2.7", ret[0]) ? bh_streq(name, "good.example") : 0;
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
    struct scene *s = arg;
    (void)fd;
    (void)what;
    fail_msg("%d of %d answers came", s->answers, s->wanted);
}

static void on_answer(void *arg, const unsigned char addresses[][BH_ADDRESS_LEN], int n)
{
    struct scene *s = arg;
    s->last_n = n;
    if (n > 0)
        memcpy(s->last, addresses[0], BH_ADDRESS_LEN);
    if (++s->answers == s->wanted)
        (void)event_base_loopbreak(s->loop);
}

static void never(void *arg, const unsigned char addresses[][BH_ADDRESS_LEN], int n)
{
    (void)arg;
    (void)addresses;
    fail_msg("an answer (%d) that nobody waits for", n);
}

static void begin(struct scene *s, int64_t patience_ms)
{
    const struct timeval limit = {.tv_sec = LIMIT_S};
    *s = (struct scene){.loop = event_base_new()};
    s->limit = evtimer_new(s->loop, on_limit, s);
    (void)event_add(s->limit, &limit);
    s->all = bh_lookups_new(s->loop, look_up, patience_ms);
}

static void wait_for(struct scene *s, int answers)
{
    s->answers = 0;
    s->wanted = answers;
    (void)event_base_dispatch(s->loop);
    T_INT(s->answers, answers);
}

static void end(struct scene *s)
{
    bh_lookups_free(s->all);
    event_free(s->limit);
    event_base_free(s->loop);
}

static void a_name_has_addresses_or_none(void **state)
{
    struct scene s;
    char text[BH_ADDRESS_TEXT];
    (void)state;
    begin(&s, LONG_MS);
    (void)bh_lookup_ask(s.all, &s, "good.example", on_answer, &s);
    wait_for(&s, 1);
    T_INT(s.last_n, 1);
    T_STR(bh_address_format(s.last, text), "192.0.2.7");
    (void)bh_lookup_ask(s.all, &s, "nothing.example", on_answer, &s);
    wait_for(&s, 1);
    T_INT(s.last_n, 0);
    end(&s);
}

static void what_hangs_is_given_up(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, SOON_MS);
    (void)bh_lookup_ask(s.all, &s, "hangs.example", on_answer, &s);
    wait_for(&s, 1);
    T_INT(s.last_n, -1);
    (void)bh_lookup_ask(s.all, &s, "good.example", on_answer, &s);
    wait_for(&s, 1);
    T_INT(s.last_n, 1);
    end(&s);
}

static void a_helper_may_die(void **state)
{
    static const char *const names[] = {"dies.example", "ends.example"};
    struct scene s;
    (void)state;
    begin(&s, LONG_MS);
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        (void)bh_lookup_ask(s.all, &s, names[i], on_answer, &s);
        wait_for(&s, 1);
        T_INT(s.last_n, -1);
        (void)bh_lookup_ask(s.all, &s, "good.example", on_answer, &s);
        wait_for(&s, 1);
        T_INT(s.last_n, 1);
    }
    end(&s);
}

/* A hundred names of one box that no name server answers for: another's is answered at once. */
static void nobody_waits_for_anothers_names(void **state)
{
    struct scene s;
    int one, other;
    (void)state;
    begin(&s, LONG_MS);
    for (int i = 0; i < 100; i++)
        (void)bh_lookup_ask(s.all, &one, "hangs.example", never, &s);
    for (int i = 0; i < 2 * OF_ONE; i++)
        (void)bh_lookup_ask(s.all, &other, "good.example", on_answer, &s);
    wait_for(&s, 2 * OF_ONE);
    T_INT(s.last_n, 1);
    end(&s); /* and kills those that hang */
}

/* As many as hold every helper when each may have OF_ONE. */
static void a_few_boxes_do_not_hold_every_helper(void **state)
{
    enum { HOSTILE = 4, NAMES = 60 };
    struct scene s;
    int boxes[HOSTILE + 1];
    (void)state;
    begin(&s, LONG_MS);
    for (int i = 0; i < HOSTILE * NAMES; i++)
        (void)bh_lookup_ask(s.all, &boxes[i / NAMES], "hangs.example", never, &s);
    for (int i = 0; i < OF_ONE; i++)
        (void)bh_lookup_ask(s.all, &boxes[HOSTILE], "good.example", on_answer, &s);
    wait_for(&s, OF_ONE);
    T_INT(s.last_n, 1);
    end(&s);
}

static void count_one(void *arg, const unsigned char addresses[][BH_ADDRESS_LEN], int n)
{
    (void)addresses;
    (void)n;
    ++*(int *)arg;
}

/* More boxes than helpers: each waits for its turn, not for all that was asked for before. */
static void many_boxes_take_turns(void **state)
{
    enum { HOSTILE = 40, NAMES = 10 };
    struct scene s;
    int boxes[HOSTILE + 1], given_up = 0;
    (void)state;
    begin(&s, SOON_MS);
    for (int i = 0; i < HOSTILE * NAMES; i++)
        (void)bh_lookup_ask(s.all, &boxes[i / NAMES], "hangs.example", count_one, &given_up);
    (void)bh_lookup_ask(s.all, &boxes[HOSTILE], "good.example", on_answer, &s);
    wait_for(&s, 1);
    T_INT(s.last_n, 1);
    assert_in_range(given_up, 1, 2 * HOSTILE);
    end(&s);
}

static void what_nobody_waits_for_is_cancelled(void **state)
{
    struct scene s;
    struct bh_lookup *running, *queued[2 * OF_ONE];
    (void)state;
    begin(&s, 3 * SOON_MS);
    running = bh_lookup_ask(s.all, &s, "hangs.example", never, &s);
    for (size_t i = 0; i < BH_ARRAY_LEN(queued); i++)
        queued[i] = bh_lookup_ask(s.all, &s, "nothing.example", never, &s);
    for (size_t i = 0; i < BH_ARRAY_LEN(queued); i++)
        bh_lookup_cancel(queued[i]);
    (void)bh_lookup_ask(s.all, &s, "good.example", on_answer, &s);
    wait_for(&s, 1);
    bh_lookup_cancel(running); /* its helper hangs on, until it is given up */
    for (int i = 0; i < 2 * OF_ONE; i++)
        (void)bh_lookup_ask(s.all, &s, "hangs.example", on_answer, &s);
    wait_for(&s, 2 * OF_ONE);
    T_INT(s.last_n, -1);
    end(&s);
}

/* By the host's own files; a name is taken as it stands. */
static void the_host_is_asked(void **state)
{
    unsigned char addresses[BH_LOOKUP_MAX][BH_ADDRESS_LEN];
    (void)state;
    T_TRUE(bh_lookup_host("localhost", addresses) >= 1);
    T_INT(bh_address_kind(addresses[0]), BH_ADDRESS_LOOPBACK);
    T_TRUE(bh_lookup_host("no-such-host.invalid", addresses) <= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_addresses_or_none),
        cmocka_unit_test(what_hangs_is_given_up),
        cmocka_unit_test(a_helper_may_die),
        cmocka_unit_test(nobody_waits_for_anothers_names),
        cmocka_unit_test(a_few_boxes_do_not_hold_every_helper),
        cmocka_unit_test(many_boxes_take_turns),
        cmocka_unit_test(what_nobody_waits_for_is_cancelled),
        cmocka_unit_test(the_host_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
