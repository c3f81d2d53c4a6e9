/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declared outputs in a shared box with a neighbour that does not leave them alone, at each moment of collecting; and
 * ends by what all share. The neighbour is the test: it acts when an output is opened.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "tests/unit/workers/rig.h"

struct scene {
    struct rig *r;
    int opens, at; /* acts at this opening of x; 0: never */
    void (*act)(struct scene *s);
    int held;
    struct bh_val *evidence;
};

static struct bh_lease crew(struct rig *r, const char *agent, const char *const *steps)
{
    struct bh_lease lease = rig_lease(r, steps);
    rig_set_shared(&lease, "crew.1");
    rig_set_text(&lease.agent, agent);
    rig_set_text(&lease.box.id, "crew");
    return lease;
}
#define CREW(r, agent, ...) crew((r), agent, (const char *const[]){__VA_ARGS__, NULL})

static char *output(const struct scene *s)
{
    return bh_asprintf("%s/runs/%s/boxes/crew.1/workspace/out/x", s->r->home, s->r->run.s);
}

static void on_open(void *arg, const char *path)
{
    struct scene *s = arg;
    if (bh_streq(path, "out/x") && ++s->opens == s->at)
        s->act(s);
}

/* Clocks of files go in ticks: until it has been changed later than now. */
static void append(struct scene *s)
{
    BH_CLEANUP_FREE char *path = output(s);
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    int64_t now = bh_wall_now().us + 1;
    struct stat st;
    do {
        T_INT(write(fd, "!", 1), 1);
        T_INT(fstat(fd, &st), 0);
    } while (st.st_ctim.tv_sec * INT64_C(1000000) + st.st_ctim.tv_nsec / 1000 <= now);
}

static void vanish(struct scene *s)
{
    BH_CLEANUP_FREE char *path = output(s);
    T_INT(unlink(path), 0);
}

static void hold(struct scene *s)
{
    BH_CLEANUP_FREE char *path = output(s);
    s->held = open(path, O_WRONLY | O_CLOEXEC);
    T_TRUE(s->held >= 0);
}

static const struct bh_result *collect(struct scene *s)
{
    struct bh_lease beside = CREW(s->r, "beside", "hang"), owner = CREW(s->r, "owner", "write:out/x=mine");
    rig_add_output(&owner, "x");
    s->held = -1;
    s->r->boxes->on_open = on_open;
    s->r->boxes->on_open_arg = s;
    (void)rig_send(s->r, &beside);
    rig_until_said(s->r, "state 1 running");
    const struct bh_result *result = rig_run(s->r, &owner);
    bh_close(s->held);
    if (result->evidence)
        T_OK(bh_json_parse(result->evidence, strlen(result->evidence), &s->evidence, &err));
    return result;
}

static void is_collision(struct scene *s, const char *how, const char *detail)
{
    const struct bh_result *result = collect(s);
    T_STR(result->reason, "collision");
    T_STR(result->detail, detail);
    T_STR(bh_val_str_of(s->evidence, "kind"), "collision");
    T_STR(bh_val_str_of(s->evidence, "how"), how);
    T_STR(bh_val_str_of(s->evidence, "artifact"), "x");
    T_STR(bh_val_str_of(s->evidence, "path"), "/workspace/out/x");
    T_STR(bh_val_str_of(bh_val_get(s->evidence, "owner"), "agent"), "owner");
    T_STR(bh_val_str_of(bh_val_at(bh_val_get(s->evidence, "alive"), 0), "agent"), "beside");
    T_INT(bh_val_bool_of(s->evidence, "attributed"), s->r->boxes->tells);
    T_INT(bh_val_len(bh_val_get(s->evidence, "writers")), s->r->boxes->tells ? 1 : 0);
    bh_val_free(s->evidence);
}

static void tell(struct rig *r, uint64_t tag, bool wrote)
{
    r->boxes->tells = true;
    r->boxes->tell = (struct bh_box_writers){.of = {{tag, wrote, {1000000}}}, .n = 1, .whole = true};
}

#define AMONG "; who it was cannot be told here; in box 'crew' there were meanwhile: agent 'beside' (attempt 1)"

static void changed_before_it_is_looked_at(void **state)
{
    struct scene s = {.r = *state, .at = 1, .act = append};
    is_collision(&s, "changed-after-end",
                 "output 'x' changed after its agent 'owner' had ended and before it was collected" AMONG);
}

static void changed_before_it_is_copied(void **state)
{
    struct scene s = {.r = *state, .at = 2, .act = append};
    tell(s.r, 1, true);
    is_collision(
        &s, "changed-after-end",
        "output 'x' changed after its agent 'owner' had ended and before it was collected; who writes to it, as "
        "the kernel tells: agent 'beside' (attempt 1)");
}

static void gone_before_it_is_copied(void **state)
{
    struct scene s = {.r = *state, .at = 2, .act = vanish};
    is_collision(&s, "vanished", "output 'x' vanished, or was replaced, while it was collected" AMONG);
}

static void held_open_by_somebody(void **state)
{
    struct scene s = {.r = *state, .at = 2, .act = hold};
    tell(s.r, 1, false); /* it is one that opened it at all */
    is_collision(&s, "held-open",
                 "output 'x' is held open for writing although its agent 'owner' has ended; who writes to it, as the "
                 "kernel tells: agent 'beside' (attempt 1)");
}

static void written_by_two(void **state)
{
    struct scene s = {.r = *state};
    tell(s.r, 1, true);
    is_collision(
        &s, "two-writers",
        "output 'x' of agent 'owner' was written by two agents; the other, as the kernel tells: agent 'beside' "
        "(attempt 1)");
}

static void what_proves_nothing(void **state)
{
    static const struct {
        uint64_t tag;
        bool wrote;
    } tells[] = {{2, true} /* its own */, {1, false}, {0, true}, {99, true}};
    for (size_t i = 0; i < BH_ARRAY_LEN(tells); i++) {
        void *again = NULL;
        if (i > 0)
            T_INT(rig_setup(&again), 0);
        struct scene s = {.r = i > 0 ? again : *state};
        tell(s.r, tells[i].tag, tells[i].wrote);
        const struct bh_result *result = collect(&s);
        T_INT(result->outcome, BH_OUTCOME_SUCCEEDED);
        T_TRUE(!result->evidence);
        rig_expect_object(s.r, &result->outputs[0], "x", "mine");
        if (i > 0)
            T_INT(rig_teardown(&again), 0);
    }
}

static void alone_nobody_can_have_done_it(void **state)
{
    struct scene s = {.r = *state, .at = 1, .act = append};
    struct bh_lease owner = CREW(s.r, "owner", "write:out/x=mine");
    rig_add_output(&owner, "x");
    s.r->boxes->on_open = on_open;
    s.r->boxes->on_open_arg = &s;
    T_INT(rig_run(s.r, &owner)->outcome, BH_OUTCOME_SUCCEEDED);
}

static void who_took_the_memory_is_named(void **state)
{
    struct rig *r = *state;
    struct bh_lease beside = CREW(r, "beside", "hang"), victim = CREW(r, "victim", "hit:oom", "signal:9");
    victim.box.limits.of[BH_LIMIT_MEMORY] = 64 << 20;
    r->boxes->shares[0] = (struct bh_box_share){.tag = 1, .memory_bytes = 60 << 20};
    r->boxes->n_shares = 1;
    (void)rig_send(r, &beside);
    rig_until_said(r, "state 1 running");
    const struct bh_result *result = rig_run(r, &victim);
    T_STR(result->reason, "oom");
    T_STR(result->detail, "run was ended by signal 9 (SIGKILL): memory limit of box 'crew' (64MiB) was reached; the "
                          "cause, as the kernel counts: agent 'beside' (attempt 1) held 60.0 MiB of memory; agent "
                          "'victim' (attempt 1) held 4.0 KiB of memory");
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    T_OK(bh_json_parse(result->evidence, strlen(result->evidence), &v, &err));
    T_STR(bh_val_str_of(v, "caused_by"), "beside");
}

/* Of its own limit, inside that of the box, nobody else is the cause. */
static void its_own_limit_is_its_own(void **state)
{
    struct rig *r = *state;
    struct bh_lease beside = CREW(r, "beside", "hang"), victim = CREW(r, "victim", "hit:oom", "signal:9");
    victim.box.limits.of[BH_LIMIT_MEMORY] = 64 << 20;
    victim.limits.of[BH_LIMIT_MEMORY] = 8 << 20;
    r->boxes->shares[0] = (struct bh_box_share){.tag = 1, .memory_bytes = 60 << 20};
    r->boxes->n_shares = 1;
    (void)rig_send(r, &beside);
    rig_until_said(r, "state 1 running");
    const struct bh_result *result = rig_run(r, &victim);
    T_STR(result->reason, "oom");
    T_TRUE(!result->evidence && !strstr(result->detail, "beside"));
}

static void an_address_in_use_is_looked_for(void **state)
{
    struct rig *r = *state;
    struct bh_lease beside = CREW(r, "beside", "hang");
    struct bh_lease victim = CREW(r, "victim", "err:bind: Address already in use\n", "exit:1");
    struct bh_lease other = CREW(r, "other", "err:nothing of the kind\n", "exit:1");
    r->boxes->shares[0] = (struct bh_box_share){.tag = 1, .ports = {8080}, .n_ports = 1};
    r->boxes->n_shares = 1;
    (void)rig_send(r, &beside);
    rig_until_said(r, "state 1 running");
    T_STR(rig_run(r, &victim)->detail,
          "run exited with code 1; beside it in the box: agent 'beside' (attempt 1) listens "
          "on tcp port 8080");
    const struct bh_result *result = rig_run(r, &other);
    T_STR(result->detail, "run exited with code 1");
    T_TRUE(!result->evidence);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(changed_before_it_is_looked_at),
        TEST(changed_before_it_is_copied),
        TEST(gone_before_it_is_copied),
        TEST(held_open_by_somebody),
        TEST(written_by_two),
        TEST(what_proves_nothing),
        TEST(alone_nobody_can_have_done_it),
        TEST(who_took_the_memory_is_named),
        TEST(its_own_limit_is_its_own),
        TEST(an_address_in_use_is_looked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
