/* SPDX-License-Identifier: Apache-2.0 */
/* Whose limits are whose, and limits in words. */
#include "topologies/limits.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/val.h"
#include "plan_support.h"

#define HEAD "version: 1\nname: t\n"
#define MIB (INT64_C(1) << 20)

/* "memory=64MiB cpus=0.5": what was asked for, in the order of the table. */
static char *said(const struct bh_limits *l)
{
    struct bh_buf out = BH_BUF_INIT;
    char text[BH_LIMIT_TEXT];
    for (int i = 0; i < BH_N_LIMITS; i++) {
        if (l->asked & 1u << i)
            bh_buf_addf(&out, "%s%s=%s", out.len > 0 ? " " : "", bh_limit_name((enum bh_limit)i),
                        bh_limit_format((enum bh_limit)i, l->of[i], text));
        else
            T_INT(l->of[i], 0);
    }
    return bh_buf_take(&out);
}

static const struct {
    const char *yaml, *agent, *of_box, *room, *of_agent;
} rows[] = {
    /* nothing said */
    {"agents: [{name: a, run: x}]\n", "a", "", "", ""},
    /* a box of its own has all that its agent says, and what `defaults` say beside it */
    {"defaults: {limits: {cpus: 2, disk: 1GiB, output: 1MiB}}\n"
     "agents: [{name: a, run: x, topology: per-agent, limits: {cpus: 0.5, memory: 64MiB}}]\n",
     "a", "memory=64MiB cpus=0.5 disk=1GiB", "", "memory=64MiB cpus=0.5 disk=1GiB output=1MiB"},
    /* the crew's are those of `defaults`; an agent that says no more has no group of its own */
    {"defaults: {limits: {memory: 512MiB, cpus: 1, pids: 256, disk: 1GiB}}\nagents: [{name: a, run: x}]\n", "a",
     "memory=512MiB cpus=1 pids=256 disk=1GiB", "", ""},
    /* what it says itself of memory, cpus and pids is a group of its own inside */
    {"defaults: {limits: {memory: 512MiB, pids: 256}}\nagents: [{name: b, run: x}, {name: a, run: x, limits: {memory: "
     "64MiB, cpus: 0.25}}]\n",
     "a", "memory=512MiB pids=256", "memory=64MiB cpus=0.25", "memory=64MiB cpus=0.25"},
    /* boxes.crew comes before `defaults`, key by key; a default that is tighter than the box is a group */
    {"defaults: {limits: {memory: 64MiB, pids: 256, inodes: 1000}}\nboxes: {crew: {limits: {memory: 1GiB, pids: "
     "100}}}\n"
     "agents: [{name: a, run: x}]\n",
     "a", "memory=1GiB pids=100 inodes=1000", "memory=64MiB", "memory=64MiB"},
    /* a named box */
    {"boxes: {lab: {limits: {disk: 64MB, nofile: 64}}}\nagents: [{name: a, run: x, box: lab, limits: {pids: 7}}]\n",
     "a", "disk=64MB nofile=64", "pids=7", "pids=7"},
    /* the box says no memory, two agents do: it must have room for the larger */
    {"agents: [{name: b, run: x, limits: {memory: 4GiB}}, {name: a, run: x, limits: {memory: 1GiB}}]\n", "a", "",
     "memory=4GiB", "memory=1GiB"},
    /* output counts per agent: its own, else the box's, else the default */
    {"defaults: {limits: {output: 1MiB}}\nboxes: {lab: {limits: {output: 2MiB}}}\n"
     "agents: [{name: a, run: x, box: lab}]\n",
     "a", "", "", "output=2MiB"},
    {"boxes: {lab: {limits: {output: 2MiB}}}\nagents: [{name: a, run: x, box: lab, limits: {output: 3MiB}}]\n", "a", "",
     "", "output=3MiB"},
    {"defaults: {limits: {output: 1MiB}}\nboxes: {lab: {}}\nagents: [{name: a, run: x, box: lab}]\n", "a", "", "",
     "output=1MiB"},
};

static void limits_find_their_owner(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        struct planned x;
        BH_CLEANUP_FREE char *yaml = bh_asprintf("%s%s", HEAD, rows[i].yaml);
        plan_good(&x, yaml);
        const struct bh_plan_agent *agent = plan_agent(&x, rows[i].agent);
        const struct bh_plan_box *box = &x.plan->boxes[agent->box];
        BH_CLEANUP_FREE char *of_box = said(&box->limits);
        BH_CLEANUP_FREE char *room = said(&box->room);
        BH_CLEANUP_FREE char *of_agent = said(&agent->limits);
        if (strcmp(of_box, rows[i].of_box) != 0 || strcmp(room, rows[i].room) != 0 ||
            strcmp(of_agent, rows[i].of_agent) != 0)
            fail_msg("%s\nbox: %s\nroom: %s\nagent: %s", rows[i].yaml, of_box, room, of_agent);
        plan_free(&x);
    }
}

/* A limit of `defaults` that boxes.crew does not mention is the crew's: an agent that repeats it is not split off. */
static void an_inherited_limit_splits_nobody(void **state)
{
    struct planned x;
    (void)state;
    plan_good(&x, HEAD "defaults: {limits: {disk: 1GiB}}\nboxes: {crew: {limits: {inodes: 1000}}}\n"
                       "agents: [{name: a, run: x, limits: {disk: 1024MiB}}, {name: b, run: x}]\n");
    T_STR(plan_box_of(&x, "a"), "crew");
    plan_free(&x);
}

static void a_group_larger_than_its_box_is_warned_of(void **state)
{
    struct planned x;
    (void)state;
    plan_good(&x, HEAD "boxes: {crew: {limits: {memory: 64MiB, pids: 9}}}\n"
                       "agents: [{name: a, run: x, limits: {memory: 1GiB, pids: 9}}]\n");
    T_STR(plan_warning(&x, BH_E_BAD_VALUE), "agent 'a' may have memory 1GiB, and its box 'crew' has 64MiB");
    plan_free(&x);
}

static void the_plan_shows_them(void **state)
{
    struct planned x;
    (void)state;
    plan_good(&x,
              HEAD "agents: [{name: a, run: x, topology: per-agent, limits: {memory: 64MiB, cpus: 0.5, pids: 9}}]\n");
    BH_CLEANUP_VAL struct bh_val *v = bh_plan_to_val(x.plan);
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_json_format(bh_val_get(bh_val_at(bh_val_get(v, "boxes"), 0), "limits"), &text);
    T_STR(text.data, "{\"memory\":67108864,\"cpus\":0.5,\"pids\":9}");
    bh_buf_clear(&text);
    bh_json_format(bh_val_get(bh_val_at(bh_val_get(v, "agents"), 0), "limits"), &text);
    T_STR(text.data, "{\"memory\":67108864,\"cpus\":0.5,\"pids\":9}");
    plan_free(&x);
}

static const struct {
    enum bh_limit limit;
    int64_t value;
    const char *text;
} words[] = {
    {BH_LIMIT_MEMORY, 64 * MIB, "64MiB"},
    {BH_LIMIT_MEMORY, 1536 * MIB, "1536MiB"},
    {BH_LIMIT_DISK, 64000000, "64MB"},
    {BH_LIMIT_DISK, 1000001, "1000001B"},
    {BH_LIMIT_OUTPUT, 2048, "2KiB"},
    {BH_LIMIT_OUTPUT, INT64_C(1) << 40, "1TiB"},
    {BH_LIMIT_CPUS, 2000, "2"},
    {BH_LIMIT_CPUS, 250, "0.25"},
    {BH_LIMIT_PIDS, 1024, "1024"},
    {BH_LIMIT_INODES, 500000, "500000"},
    {BH_LIMIT_NOFILE, 16, "16"},
    {BH_LIMIT_MEMORY, 0, "0B"},
    {BH_LIMIT_DISK, INT64_MAX, "9223372036854775807B"},
};

static void limits_in_words(void **state)
{
    char text[BH_LIMIT_TEXT];
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(words); i++)
        T_STR(bh_limit_format(words[i].limit, words[i].value, text), words[i].text);
    T_STR(bh_limit_name(BH_LIMIT_NOFILE), "nofile");
    T_STR(bh_limit_name(BH_N_LIMITS), "");
    T_STR(bh_enforcer_name(BH_BY_CGROUP2), "cgroup-v2");
    T_STR(bh_enforcer_name(BH_BY_NOTHING), "nothing");
    T_STR(bh_enforcer_name((enum bh_enforcer)99), "nothing");
    for (int i = 0; i < BH_N_LIMITS; i++)
        T_TRUE(bh_limit_least((enum bh_limit)i) > 0 && *bh_limit_name((enum bh_limit)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_find_their_owner),
        cmocka_unit_test(an_inherited_limit_splits_nobody),
        cmocka_unit_test(a_group_larger_than_its_box_is_warned_of),
        cmocka_unit_test(the_plan_shows_them),
        cmocka_unit_test(limits_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
