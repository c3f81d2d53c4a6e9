/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the engine through random worlds: `sim [-v] [--from N] [--count N] [--list FILE] [SEED…]`. Each seed is a run
 * with workers that fail, get lost, speak late, twice and out of order, an engine process that dies at any event and is
 * made again from its log, a log that cannot be written, people who cancel and resume. A seed in which something does
 * not hold is printed with what broke; `sim -v SEED` shows every event of it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/scenarios/sim.h"

enum { MAX_STEPS = 20000, MAX_CRASHES = 8 };

struct totals {
    uint64_t seeds, events, leases, crashes, stale, ends[BH_RUN_CANCELLED + 1];
};

struct sim {
    struct sim_world world;
    struct bh_spec *spec;
    struct bh_run_id run;
    struct bh_engine *engine;
    struct bh_effects fx;
    struct sc_log log;
    struct sim_book book;
    struct totals *totals;
    int64_t now;
    size_t steps;
    int crashes_left, resumes_left;
    bool verbose;
};

static bool broken(struct sim *s, const char *what)
{
    if (!s->book.error[0])
        (void)snprintf(s->book.error, sizeof(s->book.error), "%s", what);
    return false;
}

static void show_event(const struct sim *s, const struct bh_event *ev, bool meant)
{
    const struct bh_attempt *a = bh_engine_find(s->engine, ev->instance);
    (void)printf("%8lld %s %s", (long long)s->now, meant ? ">" : "!>", bh_event_kind_text(ev->kind));
    if (ev->kind == BH_EV_STATE || ev->kind == BH_EV_ENDED)
        (void)printf(" %s.%d#%d %s %s", a ? s->spec->nodes[a->node].name : "?", a ? a->attempt : 0, a ? a->try_ : 0,
                     bh_attempt_state_text(ev->state), bh_reason_text(ev->reason, ev->phase));
    if (ev->kind == BH_EV_WORKER_UP || ev->kind == BH_EV_WORKER_LOST)
        (void)printf(" %d slots %d", ev->worker, ev->slots);
    if (ev->kind == BH_EV_GATE_ASKED || ev->kind == BH_EV_GATE_DECIDED || ev->kind == BH_EV_GATE_EXPIRED)
        (void)printf(" gate %zu %s", ev->gate, ev->approved ? "approved" : "");
    if (ev->kind == BH_EV_FROZEN || ev->kind == BH_EV_FREEZE_FAILED)
        (void)printf(" box %zu %.63s", ev->box, ev->layer);
    (void)printf("\n");
}

static void show_effects(const struct sim *s)
{
    static const char *const words[] = {
        [BH_EFFECT_LEASE] = "lease",       [BH_EFFECT_KILL] = "kill",       [BH_EFFECT_FREEZE] = "freeze",
        [BH_EFFECT_DEADLINE] = "deadline", [BH_EFFECT_PUBLISH] = "publish", [BH_EFFECT_ENDED] = "end",
        [BH_EFFECT_ASK] = "ask",           [BH_EFFECT_EXPIRY] = "expiry"};
    for (size_t i = 0; i < s->fx.len; i++) {
        const struct bh_effect *f = &s->fx.items[i];
        bool of_node = f->kind <= BH_EFFECT_KILL || f->kind == BH_EFFECT_PUBLISH;
        (void)printf("         < %s %s kind %d attempt %d box %zu try %d worker %d %s %s\n", words[f->kind],
                     of_node ? s->spec->nodes[f->node].name : "", f->execution, f->attempt, f->box, f->try_, f->worker,
                     f->layer, f->kind == BH_EFFECT_ENDED ? bh_run_status_text(f->status) : "");
    }
}

/* The event is made durable, applied and checked; its effects stand in s->fx. */
static bool step(struct sim *s, const struct bh_event *ev)
{
    if (++s->steps > MAX_STEPS)
        return broken(s, "the run goes on for ever");
    int foreseen = sim_foresee(&s->book, s->engine, ev);
    bool meant = sc_step(s->engine, s->spec, &s->log, ev, (struct bh_wall){.us = s->now}, &s->fx);
    if (s->verbose) {
        show_event(s, ev, meant);
        show_effects(s);
    }
    s->totals->events++;
    s->totals->stale += !meant;
    for (size_t i = 0; i < s->fx.len; i++)
        s->totals->leases += s->fx.items[i].kind == BH_EFFECT_LEASE;
    return sim_check(&s->book, s->engine, ev, foreseen, meant, &s->fx);
}

/* The first n entries once more, in a new engine. */
static struct bh_engine *replay(struct sim *s, size_t n)
{
    size_t bad = 0;
    struct bh_engine *e = sc_replay(s->run, s->spec, &s->log, n, &bad);
    if (!e)
        (void)broken(s, "a replay of the log went another way");
    return e;
}

static bool deliver(struct sim *s, const struct bh_event *ev);

/* The engine process is dead, with the effects that it had not carried out. A new one reads the log and takes over. */
static bool restart(struct sim *s)
{
    struct bh_engine *again = replay(s, s->log.len);
    if (!again)
        return false;
    bh_engine_free(s->engine);
    s->engine = again;
    s->totals->crashes++;
    s->now += 1000;
    sim_workers_come(&s->world, s->now);
    if (s->verbose)
        (void)printf("         --- engine process died ---\n");
    if (bh_engine_status(s->engine) == BH_RUN_QUEUED && !deliver(s, &(struct bh_event){.kind = BH_EV_START}))
        return false;
    if (!deliver(s, &(struct bh_event){.kind = BH_EV_OWNER}))
        return false;
    return !sim_chance(&s->world.rng, 40) || deliver(s, &(struct bh_event){.kind = BH_EV_RETRY_FAILED});
}

/* Where in dealing with this event the process dies: 0 before it is durable, 1 behind, 2 among its effects; 3 nowhere.
 */
static int crash_point(struct sim *s)
{
    if (s->crashes_left == 0)
        return 3;
    if (sim_chance(&s->world.rng, s->world.temper.store_error)) {
        s->crashes_left--;
        return 0;
    }
    if (!sim_chance(&s->world.rng, s->world.temper.crash))
        return 3;
    s->crashes_left--;
    return (int)sim_below(&s->world.rng, 3);
}

static bool deliver(struct sim *s, const struct bh_event *ev)
{
    int point = crash_point(s);
    if (point == 0)
        return restart(s);
    if (!step(s, ev))
        return false;
    if (point == 1)
        return restart(s);
    for (size_t i = 0; i < s->fx.len; i++) {
        if (point == 2 && sim_chance(&s->world.rng, 50))
            return restart(s);
        sim_carry_out(&s->world, &s->fx.items[i], s->now);
    }
    return point == 3 || restart(s);
}

static bool worker_dies(struct sim *s, int worker)
{
    struct sim_world *w = &s->world;
    if (!w->up[worker] || w->deaths_left == 0)
        return true;
    w->deaths_left--;
    w->up[worker] = false;
    int64_t noticed = s->now + sim_below(&w->rng, 5000);
    sim_send(w, noticed, (struct sim_msg){.kind = SIM_EVENT, .ev = {.kind = BH_EV_WORKER_LOST, .worker = worker}});
    sim_send(w, noticed + 1 + sim_below(&w->rng, 5000), (struct sim_msg){.kind = SIM_WORKER_UP, .worker = worker});
    return true;
}

static bool worker_comes(struct sim *s, int worker)
{
    if (s->world.up[worker])
        return true;
    s->world.up[worker] = true;
    if (s->world.deaths_left > 0 && sim_chance(&s->world.rng, 60))
        sim_send(&s->world, s->now + sim_below(&s->world.rng, 60000),
                 (struct sim_msg){.kind = SIM_WORKER_DIE, .worker = worker});
    return deliver(s, &(struct bh_event){
                          .kind = BH_EV_WORKER_UP, .worker = worker, .slots = 1 + (int)sim_below(&s->world.rng, 3)});
}

static bool receive(struct sim *s, const struct sim_msg *m)
{
    switch (m->kind) {
    case SIM_EVENT:
        return deliver(s, &m->ev);
    case SIM_WORKER_UP:
        return worker_comes(s, m->worker);
    case SIM_WORKER_DIE:
        return worker_dies(s, m->worker);
    case SIM_TIMER:
        return m->timer != s->world.timer || deliver(s, &(struct bh_event){.kind = BH_EV_DEADLINE});
    }
    return true;
}

/* Messages that nobody should send: each must change nothing, which sim_check sees to. */
static bool nonsense(struct sim *s)
{
    struct sim_rng *r = &s->world.rng;
    struct bh_event ev = {.kind = BH_EV_ENDED, .state = BH_ATTEMPT_SUCCEEDED, .epoch = bh_engine_epoch(s->engine)};
    size_t n = bh_engine_n_attempts(s->engine);
    const struct bh_attempt *a = n ? bh_engine_attempt(s->engine, sim_below(r, (unsigned)n)) : NULL;
    switch (sim_below(r, s->spec->n_gates > 0 ? 8 : 7)) {
    case 0: /* of another run */
        ev.instance = bh_instance_id_make((struct bh_run_id){.s = "01hxxxxxxxxxxxxxxxxxxxxxxx"}, 1);
        break;
    case 1: /* of the future */
        ev.instance = bh_instance_id_make(s->run, (unsigned)n + 1 + sim_below(r, 5));
        break;
    case 2: /* no end is no end */
        if (a)
            ev = (struct bh_event){.kind = BH_EV_ENDED, .instance = a->instance, .epoch = a->epoch};
        break;
    case 3: /* of another epoch */
        if (a)
            ev = (struct bh_event){
                .kind = BH_EV_ENDED, .instance = a->instance, .epoch = a->epoch + 1, .state = BH_ATTEMPT_SUCCEEDED};
        break;
    case 4: /* no such box */
        ev = (struct bh_event){.kind = BH_EV_FROZEN, .box = s->spec->n_boxes + sim_below(r, 3)};
        break;
    case 5: /* no such worker */
        ev = (struct bh_event){.kind = BH_EV_WORKER_LOST, .worker = sim_chance(r, 50) ? -1 : 1 << 20};
        break;
    case 7: /* no such gate */
        ev =
            (struct bh_event){.kind = BH_EV_GATE_DECIDED, .gate = s->spec->n_gates + sim_below(r, 3), .approved = true};
        break;
    default: /* no slots */
        ev = (struct bh_event){.kind = BH_EV_WORKER_UP, .worker = sim_chance(r, 50) ? 0 : -1, .slots = 0};
        break;
    }
    return step(s, &ev);
}

static bool is_over(const struct sim *s)
{
    return bh_engine_status(s->engine) > BH_RUN_PAUSED;
}

/* Until nothing is under way: by then the run must have ended. */
static bool drain(struct sim *s)
{
    struct sim_msg m;
    while (sim_receive(&s->world, &m)) {
        if (m.at > s->now)
            s->now = m.at;
        if (!receive(s, &m))
            return false;
        if (sim_chance(&s->world.rng, 3) && !nonsense(s))
            return false;
    }
    return is_over(s) || broken(s, "everything was delivered and the run has not ended");
}

/* A person looks at it, mends something, and resumes: in the same process or in a new one. */
static bool resume(struct sim *s)
{
    s->resumes_left--;
    s->now += 1000000;
    s->world.temper.fail /= 2;
    s->world.temper.lost /= 2;
    if (sim_chance(&s->world.rng, 50)) {
        s->crashes_left += s->crashes_left == 0;
        return restart(s) && deliver(s, &(struct bh_event){.kind = BH_EV_RETRY_FAILED});
    }
    sim_workers_come(&s->world, s->now);
    for (int w = 0; w < SIM_MAX_WORKERS; w++) { /* they are told apart from those of before */
        if (s->book.slots[w] > 0 && !step(s, &(struct bh_event){.kind = BH_EV_WORKER_LOST, .worker = w}))
            return false;
    }
    return deliver(s, &(struct bh_event){.kind = BH_EV_RETRY_FAILED});
}

static bool whole_run(struct sim *s)
{
    struct sim_rng *r = &s->world.rng;
    sim_workers_come(&s->world, s->now);
    int64_t when = s->now + sim_below(r, 100000);
    if (sim_chance(r, 15))
        sim_send(&s->world, when, (struct sim_msg){.kind = SIM_EVENT, .ev = {.kind = BH_EV_CANCEL}});
    if (sim_chance(r, 12)) /* perhaps while those who were killed are still dying */
        sim_send(&s->world, when + sim_below(r, 3000),
                 (struct sim_msg){.kind = SIM_EVENT, .ev = {.kind = BH_EV_RETRY_FAILED}});
    if (!deliver(s, &(struct bh_event){.kind = BH_EV_START}) || !drain(s))
        return false;
    while (s->resumes_left > 0 && sim_chance(r, 60)) {
        if (!resume(s) || !drain(s))
            return false;
    }
    for (int i = 0; i < 3; i++) { /* the whole log, and what a process that died earlier would have had of it */
        struct bh_engine *e = replay(s, i == 0 ? s->log.len : sim_below(r, (unsigned)s->log.len));
        bh_engine_free(e);
    }
    return s->book.error[0] == '\0';
}

static bool run_seed(uint64_t seed, bool verbose, struct totals *totals)
{
    struct sim s = {.now = 1000000, .verbose = verbose, .totals = totals};
    sim_world_init(&s.world, seed);
    s.spec = sim_spec(&s.world.rng);
    s.crashes_left = (int)sim_below(&s.world.rng, MAX_CRASHES + 1);
    s.resumes_left = (int)sim_below(&s.world.rng, 3);
    s.run = (struct bh_run_id){.s = "01hzzzzzzzzzzzzzzzzzzzzzzz"};
    s.engine = bh_engine_new(s.run, s.spec);
    sim_book_init(&s.book, s.spec, s.engine);
    bool good = whole_run(&s);
    if (!good)
        (void)printf("not ok seed %llu, event %zu of its log: %s\n", (unsigned long long)seed, s.log.len, s.book.error);
    totals->seeds++;
    totals->ends[bh_engine_status(s.engine)]++;
    sim_book_fini(&s.book);
    sim_world_fini(&s.world);
    bh_engine_free(s.engine);
    bh_effects_fini(&s.fx);
    bh_free(s.log.items);
    bh_spec_free(s.spec);
    return good;
}

/* Seeds of a file, one a line; '#' begins a comment. */
static bool run_list(const char *file, bool verbose, struct totals *totals)
{
    struct bh_buf text BH_CLEANUP_BUF = BH_BUF_INIT;
    struct bh_err *err BH_CLEANUP_ERR = NULL;
    int fd BH_CLEANUP_FD = open(file, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && bh_read_all(fd, 1 << 20, &text, &err) == 0;
    if (!good)
        (void)printf("not ok %s: cannot be read\n", file);
    for (char *line = text.data, *next; line; line = next) {
        int64_t seed = 0;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        line[strcspn(line, " #")] = '\0';
        if (*line && bh_parse_int(line, &seed) != 0) {
            (void)printf("not ok %s: '%s' is no seed\n", file, line);
            good = false;
        } else if (*line) {
            good &= run_seed((uint64_t)seed, verbose, totals);
        }
    }
    return good;
}

static bool number(int argc, char **argv, int *i, int64_t *ret)
{
    return *i + 1 < argc && bh_parse_int(argv[++*i], ret) == 0;
}

int main(int argc, char **argv)
{
    struct totals t = {0};
    bool verbose = false, good = true, usage = false;
    int64_t from = 1, count = 0, seed = 0;
    for (int i = 1; i < argc && !usage; i++) {
        if (bh_streq(argv[i], "-v"))
            verbose = true;
        else if (bh_streq(argv[i], "--from"))
            usage = !number(argc, argv, &i, &from);
        else if (bh_streq(argv[i], "--count"))
            usage = !number(argc, argv, &i, &count);
        else if (bh_streq(argv[i], "--list") && i + 1 < argc)
            good &= run_list(argv[++i], verbose, &t);
        else if (bh_parse_int(argv[i], &seed) == 0)
            good &= run_seed((uint64_t)seed, verbose, &t);
        else
            usage = true;
    }
    if (usage) {
        (void)fprintf(stderr, "usage: sim [-v] [--from N] [--count N] [--list FILE] [SEED...]\n");
        return 2;
    }
    for (int64_t i = 0; i < count; i++)
        good &= run_seed((uint64_t)(from + i), verbose, &t);
    (void)printf("%llu seeds, %llu events (%llu without meaning), %llu executions, %llu restarts; %llu succeeded, "
                 "%llu failed, %llu cancelled\n",
                 (unsigned long long)t.seeds, (unsigned long long)t.events, (unsigned long long)t.stale,
                 (unsigned long long)t.leases, (unsigned long long)t.crashes,
                 (unsigned long long)t.ends[BH_RUN_SUCCEEDED], (unsigned long long)t.ends[BH_RUN_FAILED],
                 (unsigned long long)t.ends[BH_RUN_CANCELLED]);
    return good ? 0 : 1;
}
