/* SPDX-License-Identifier: Apache-2.0 */
/* Which box each agent gets, why, and what a shared box cannot hold. */
#include "base/buf.h"
#include "base/mem.h"
#include "plan_support.h"

#define HEAD "version: 1\nname: t\n"

static void check_boxes(const struct planned *x, const char *want)
{
    char *boxes = plan_boxes(x);
    T_STR(boxes, want);
    bh_free(boxes);
}

/* --- auto: one box, and a wall for each reason --- */

static const struct {
    const char *agent; /* of an agent 'b' beside a plain 'a' */
    const char *box, *reason;
} splits[] = {
    {"{name: b, run: x}", "crew", "shares the crew box: nothing in the document asks for a wall"},
    {"{name: b, run: x, setup: y, files: {f: f}, env: {E: e}, workdir: d, timeout: 1m, outputs: [o]}", "crew",
     "shares the crew box: nothing in the document asks for a wall"},
    {"{name: b, run: x, untrusted: true}", "b", "reads untrusted content, so it stands alone"},
    {"{name: b, run: x, inputs: [bad.txt]}", "b", "reads the untrusted source 'bad.txt', so it stands alone"},
    {"{name: b, run: x, inputs: ['bad*']}", "b", "reads the untrusted source 'bad.txt', so it stands alone"},
    {"{name: b, run: x, outputs: [{glob: 'p/*'}]}", "b",
     "declares its outputs by the glob 'p/*', so nobody else may write there"},
    {"{name: b, run: x, attempts: 5}", "b", "is tried 5 times, each in a box of its own"},
    {"{name: b, run: x, prepare: y, attempts: 5}", "b", "is tried 5 times, each in a fork of one prepared box"},
    {"{name: b, run: x, prepare: y}", "b", "runs in a fork of a box that 'prepare' made, so it stands alone"},
    {"{name: b, run: x, check: y}", "b", "is checked after it has ended, so it stands alone"},
    {"{name: b, run: x, attempts: 1}", "crew", "shares the crew box: nothing in the document asks for a wall"},
    {"{name: b, run: x, network: public}", "b", "its network is public, the crew's is none"},
    {"{name: b, run: x, network: {run: {allow: ['a.org:443']}}}", "b",
     "its network is {\"run\":{\"allow\":[\"a.org:443\"]}}, the crew's is none"},
    {"{name: b, run: x, network: none}", "crew", "shares the crew box: nothing in the document asks for a wall"},
    {"{name: b, run: x, base: 'dir:./root'}", "b", "its base is dir:./root, the crew's is host"},
    {"{name: b, run: x, base: host, user: agent}", "crew",
     "shares the crew box: nothing in the document asks for a wall"},
    {"{name: b, run: x, user: root}", "b", "its user is root, the crew's is agent"},
    {"{name: b, run: x, limits: {disk: 1GiB}}", "b", "it has limits.disk of its own, and the crew says nothing of it"},
    {"{name: b, run: x, limits: {tokens: 10}}", "b",
     "it has limits.tokens of its own, and the crew says nothing of it"},
    {"{name: b, run: x, limits: {memory: 1GiB, cpus: 1, pids: 9}}", "crew",
     "shares the crew box: nothing in the document asks for a wall"},
    {"{name: b, run: x, secrets: [k]}", "b", "its secrets differ from the crew's"},
    {"{name: b, run: x, endpoints: [open]}", "b", "its endpoints differ from the crew's"},
    {"{name: b, run: x, topology: per-agent}", "b", "asks for a box of its own (topology: per-agent)"},
    {"{name: b, run: x, topology: shared-box}", "crew", "shares one box on purpose (topology: shared-box)"},
    {"{name: b, run: x, box: lab}", "lab", "joins box 'lab' by name"},
    {"{name: b, run: x, box: crew}", "crew", "joins box 'crew' by name"},
};

static const char world[] = "secrets: {k: {env: K}, l: {env: L}}\n"
                            "endpoints:\n"
                            "  open: {upstream: 'https://a.org', allow: ['GET /x'], tainted: true}\n"
                            "  shut: {upstream: 'https://b.org', allow: ['GET /x']}\n"
                            "sources: {bad.txt: {file: b, untrusted: true}}\n"
                            "boxes: {lab: {}}\n";

static void test_splits(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(splits); i++) {
        struct planned x;
        BH_CLEANUP_FREE char *yaml =
            bh_asprintf("%s%sagents:\n  - {name: a, run: x}\n  - %s\n", HEAD, world, splits[i].agent);
        plan_good(&x, yaml);
        if (strcmp(plan_box_of(&x, "b"), splits[i].box) != 0 ||
            strcmp(plan_agent(&x, "b")->reason, splits[i].reason) != 0)
            fail_msg("%s\n stands in '%s': %s", splits[i].agent, plan_box_of(&x, "b"), plan_agent(&x, "b")->reason);
        T_STR(plan_box_of(&x, "a"), "crew");
        plan_free(&x);
    }
}

/* What the crew has, too, can differ. */
static void test_split_by_a_limit_of_the_crew(void **state)
{
    struct planned x;
    (void)state;
    plan_good(&x, HEAD "defaults: {limits: {disk: 2GiB}}\nagents:\n  - {name: a, run: x}\n"
                       "  - {name: b, run: x, limits: {disk: 1GiB}}\n");
    T_STR(plan_box_of(&x, "b"), "b");
    T_STR(plan_agent(&x, "b")->reason, "its limits.disk differs from the crew's");
    plan_free(&x);
}

static void test_crew_of_cells_and_items(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, HEAD "sources: {l: {file: l}}\nstages:\n"
                       "  - {name: s, for_each: {artifact: l, max: 3}, agents: [{name: i, run: x}]}\n"
                       "  - {name: t, agents: [{name: m, run: x, matrix: {k: [1, 2]}}, {name: c, run: x}]}\n");
    check_boxes(&x, "i: i\nm-1: m-1\nm-2: m-2\ncrew: c\n");
    T_STR(plan_agent(&x, "i")->reason, "runs once per item, and each item stands alone");
    T_STR(plan_agent(&x, "m-2")->reason, "is one cell of a matrix, and each cell stands alone");
    T_INT(plan_agent(&x, "m-1")->topology, BH_TOPOLOGY_PER_AGENT);
    T_INT(plan_agent(&x, "c")->topology, BH_TOPOLOGY_SHARED_BOX);
    T_TRUE(plan_box(&x, "crew")->shared);
    T_TRUE(!plan_box(&x, "m-1")->shared);
    plan_free(&x);
}

static void test_tainted_crew(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, HEAD "agents:\n"
                       "  - {name: r, run: x, untrusted: true, outputs: [p]}\n"
                       "  - {name: a, run: x, outputs: [q]}\n"
                       "  - {name: b, run: x, inputs: [p, q], outputs: [s]}\n"
                       "  - {name: c, run: x, inputs: [s]}\n"
                       "  - {name: d, run: x, inputs: [q]}\n"
                       "  - {name: e, run: x, inputs: [s], network: public}\n");
    check_boxes(&x, "r: r\ncrew: a d\ncrew-tainted: b c\ne: e\n");
    const struct bh_plan_box *box = plan_box(&x, "crew-tainted");
    T_STR(box->reason, "agents tainted by what they read share a box, apart from the crew");
    T_INT(box->label, BH_TAINTED);
    T_INT(box->topology, BH_TOPOLOGY_SHARED_BOX);
    T_STR(plan_agent(&x, "b")->reason,
          "reads tainted artifacts, so it shares the box of the tainted, never the crew's");
    T_INT(plan_box(&x, "crew")->label, BH_TRUSTED);
    T_STR(plan_box(&x, "crew")->reason, "one box for the crew: nothing in the document asks for a wall");
    plan_free(&x);
}

static void test_let_in_stands_alone(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, HEAD "agents:\n"
                       "  - {name: r, run: x, untrusted: true, outputs: [p]}\n"
                       "  - {name: a, run: x, inputs: [p], accept: {p: {validate: {kind: text}}}}\n"
                       "  - {name: b, run: x, inputs: [p], accept: {p: {approve: true}}}\n");
    check_boxes(&x, "r: r\na: a\ncrew: b\n");
    T_STR(plan_agent(&x, "a")->reason, "reads tainted artifacts that 'accept' lets in, so it stands alone");
    T_INT(plan_box(&x, "a")->label, BH_TRUSTED);
    T_INT(plan_agent(&x, "a")->label, BH_TAINTED);
    plan_free(&x);
}

/* --- what the crew has --- */

static void test_defaults_are_the_crew(void **state)
{
    (void)state;
    struct planned x;
    plan_good(
        &x, HEAD
        "base: 'dir:./top'\n"
        "defaults: {network: public, user: root, secrets: [k], endpoints: [open], limits: {disk: 1GiB, tokens: 5}}\n"
        "secrets: {k: {env: K}}\n"
        "endpoints: {open: {upstream: 'https://a.org', allow: ['GET /x'], tainted: true}}\n"
        "agents:\n"
        "  - {name: a, run: x}\n"
        "  - {name: b, run: x, network: public, user: root, secrets: [k], endpoints: [open], limits: {disk: 1024MiB}}\n"
        "  - {name: c, run: x, user: agent}\n"
        "  - {name: d, run: x, secrets: []}\n"
        "  - {name: e, run: x, endpoints: []}\n"
        "  - {name: f, run: x, limits: {disk: 2GiB}}\n"
        "  - {name: g, run: x, limits: {memory: 2GiB}}\n");
    check_boxes(&x, "crew: a b g\nc: c\nd: d\ne: e\nf: f\n");
    const struct bh_plan_box *crew = plan_box(&x, "crew"), *c = plan_box(&x, "c");
    T_STR(crew->base, "dir:./top");
    T_STR(crew->network, "public");
    T_STR(crew->user, "root");
    T_TRUE(crew->writable_usr);
    T_INT(crew->n_powers, 1);
    T_STR(crew->powers[0], "secret k");
    T_STR(c->base, "dir:./top");
    T_STR(c->network, "public");
    T_STR(c->user, "agent");
    T_TRUE(!c->writable_usr);
    T_INT(plan_box(&x, "d")->n_powers, 0);
    plan_free(&x);
}

static void test_the_crew_has_a_document(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, HEAD "params: {v: {type: string, default: '2'}}\n"
                       "defaults: {network: none}\n"
                       "boxes: {crew: {network: public, base: 'dir:./v{{params.v}}', setup: [make, '{{params.v}}'], "
                       "files: {f: './v{{params.v}}'}}}\n"
                       "agents:\n"
                       "  - {name: a, run: x}\n"
                       "  - {name: b, run: x, network: public}\n"
                       "  - {name: c, run: x, network: host}\n"
                       "  - {name: d, run: x, base: 'dir:./v2'}\n");
    check_boxes(&x, "crew: a b d\nc: c\n");
    const struct bh_plan_box *crew = plan_box(&x, "crew");
    T_STR(crew->base, "dir:./v2");
    T_STR(crew->network, "public");
    T_STR(crew->doc->name.s, "crew");
    T_INT(crew->n_setup, 2);
    T_STR(crew->setup[1], "2");
    T_INT(crew->n_files, 1);
    T_STR(crew->files[0].value.s, "./v2");
    T_TRUE(crew->writable_usr);
    T_STR(plan_box(&x, "c")->powers[0], "network host");
    assert_null(plan_box(&x, "c")->doc);
    plan_free(&x);
}

static void test_writable_usr(void **state)
{
    (void)state;
    static const struct {
        const char *agent;
        bool writable;
    } cases[] = {
        {"{name: a, run: x}", false},
        {"{name: a, run: x, setup: y}", true},
        {"{name: a, run: x, prepare: y}", true},
        {"{name: a, run: x, user: root}", true},
        {"{name: a, run: x, box: made}", true},
        {"{name: a, run: x, box: lab}", false},
        {"{name: a, run: x, box: rooted}", true},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        struct planned x;
        BH_CLEANUP_FREE char *yaml = bh_asprintf(
            "%sboxes: {lab: {}, made: {setup: y}, rooted: {user: root}}\nagents: [%s]\n", HEAD, cases[i].agent);
        plan_good(&x, yaml);
        if (x.plan->boxes[0].writable_usr != cases[i].writable)
            fail_msg("%s", cases[i].agent);
        plan_free(&x);
    }
}

/* --- on purpose --- */

static void test_per_agent(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, HEAD "topology: per-agent\nboxes: {lab: {}}\nagents:\n"
                       "  - {name: a, run: x}\n  - {name: b, run: x}\n  - {name: c, run: x, topology: auto}\n"
                       "  - {name: d, run: x, box: lab}\n  - {name: e, run: x, attempts: 2}\n");
    check_boxes(&x, "a: a\nb: b\ncrew: c\nlab: d\ne: e\n");
    T_STR(plan_agent(&x, "a")->reason, "the document gives each agent a box (topology: per-agent)");
    T_STR(plan_box(&x, "a")->reason, "the document gives each agent a box (topology: per-agent)");
    T_INT(plan_agent(&x, "e")->topology, BH_TOPOLOGY_PER_ATTEMPT);
    T_INT(plan_box(&x, "e")->topology, BH_TOPOLOGY_PER_ATTEMPT);
    T_STR(plan_box(&x, "lab")->reason, "one box on purpose: its agents join 'lab'");
    plan_free(&x);
}

static void test_shared_box(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, HEAD "topology: shared-box\nsecrets: {k: {env: K}}\nagents:\n"
                       "  - {name: a, run: x, secrets: [k], limits: {memory: 1GiB, tokens: 5}}\n"
                       "  - {name: m, run: x, matrix: {v: [1, 2]}, outputs: ['{{matrix.v}}.txt']}\n"
                       "  - {name: g, run: x, outputs: [{glob: 'g/*'}]}\n"
                       "  - {name: own, run: x, topology: per-agent}\n");
    check_boxes(&x, "crew: a m-1 m-2 g\nown: own\n");
    T_STR(plan_box(&x, "crew")->reason, "one box on purpose (topology: shared-box)");
    T_STR(plan_box(&x, "crew")->powers[0], "secret k");
    plan_free(&x);
}

/* Where the document says nothing of the box, what all of its agents ask is the box's. */
static void test_shared_box_takes_what_all_ask(void **state)
{
    (void)state;
    struct planned x;
    plan_good(&x, HEAD "boxes: {lab: {}, two: {user: root}}\nagents:\n"
                       "  - {name: a, run: x, box: lab, network: public, user: root, base: 'dir:./r'}\n"
                       "  - {name: b, run: x, box: lab, network: public, user: root, base: 'dir:./r'}\n"
                       "  - {name: c, run: x, box: two}\n");
    T_STR(plan_box(&x, "lab")->network, "public");
    T_STR(plan_box(&x, "lab")->user, "root");
    T_STR(plan_box(&x, "lab")->base, "dir:./r");
    T_STR(plan_box(&x, "two")->user, "root");
    T_STR(plan_box(&x, "two")->network, "none");
    plan_free(&x);
}

static void test_box_ids_never_meet(void **state)
{
    (void)state;
    struct planned x;
    plan_good(
        &x, HEAD
        "boxes: {lab: {}}\nagents:\n"
        "  - {name: crew, run: x, topology: per-agent}\n  - {name: lab, run: x, user: root}\n"
        "  - {name: crew-tainted, run: x, untrusted: true}\n  - {name: a, run: x}\n  - {name: b, run: x, box: lab}\n");
    check_boxes(&x, "crew.own: crew\nlab.own: lab\ncrew-tainted.own: crew-tainted\ncrew: a\nlab: b\n");
    plan_free(&x);
}

/* --- what cannot be --- */

#define SHARED HEAD "topology: shared-box\nagents:\n"
#define SHARED_WITH \
    HEAD "topology: shared-box\nsecrets: {k: {env: K}}\nsources: {bad: {file: b, untrusted: true}}\nagents:\n"

static const struct bad_plan bad[] = {
    {SHARED "  - {name: a, run: x}\n  - {name: b, run: x, network: public}\n", BH_E_TOPOLOGY, 6, 32,
     "agents[1].network", "the shared box 'crew' cannot hold agent 'b': its network is public, the box's is none", NULL,
     "take the key away, set it in boxes.crew, or give the agent a box of its own"},
    {SHARED "  - {name: a, run: x, limits: {disk: 1GiB}}\n", BH_E_TOPOLOGY, 5, 31, "agents[0].limits.disk",
     "the shared box 'crew' cannot hold agent 'a': its limits.disk differs from the box's", NULL, NULL},
    {SHARED "  - {name: a, run: x, attempts: 3}\n", BH_E_TOPOLOGY, 5, 12, "agents[0]",
     "the shared box 'crew' cannot hold agent 'a': it is tried 3 times", NULL,
     "leave 'topology' away: every attempt gets a box of its own"},
    {SHARED "  - {name: a, run: x, check: y}\n", BH_E_TOPOLOGY, 5, 12, "agents[0]",
     "the shared box 'crew' cannot hold agent 'a': it has a 'check'", NULL,
     "leave 'topology' away: every attempt gets a box of its own"},
    {SHARED "  - {name: a, run: x, outputs: [{glob: '*.txt'}]}\n  - {name: b, run: x, outputs: [b.txt]}\n",
     BH_E_TOPOLOGY, 5, 40, "agents[0].outputs[0]",
     "the shared box 'crew' cannot hold agent 'a': its glob '*.txt' may take what 'b' makes ('b.txt')", NULL,
     "give 'a' a box of its own (topology: per-agent), or a folder of its own"},
    {SHARED "  - {name: a, run: x, outputs: [{glob: '*'}]}\n  - {name: b, run: x, outputs: [{name: z, path: out/y}]}\n",
     BH_E_TOPOLOGY, 5, 40, "agents[0].outputs[0]",
     "the shared box 'crew' cannot hold agent 'a': its glob '*' may take what 'b' makes ('y')", NULL, NULL},
    {HEAD "boxes: {lab: {base: 'dir:./r'}}\nagents:\n  - {name: a, run: x, box: lab, base: host}\n", BH_E_TOPOLOGY, 5,
     39, "agents[0].base", "the shared box 'lab' cannot hold agent 'a': its base is host, the box's is dir:./r", NULL,
     "take the key away, set it in boxes.lab, or give the agent a box of its own"},
    {HEAD "boxes: {lab: {}}\nagents:\n  - {name: a, run: x, box: lab, user: root}\n  - {name: b, run: x, box: lab}\n",
     BH_E_TOPOLOGY, 5, 39, "agents[0].user",
     "the shared box 'lab' cannot hold agent 'a': its user is root, the box's is agent", NULL, NULL},
    {HEAD "boxes: {lab: {}}\nagents:\n  - {name: a, run: x, box: lab, attempts: 2}\n", BH_E_TOPOLOGY, 5, 12,
     "agents[0]", "the shared box 'lab' cannot hold agent 'a': it is tried 2 times", NULL,
     "leave 'box' away: every attempt gets a box of its own"},
    {HEAD "boxes: {lab: {}}\nagents:\n  - {name: a, run: x, box: lab, topology: per-agent}\n", BH_E_TOPOLOGY, 5, 28,
     "agents[0].box", "agent 'a' asks for a box of its own and joins box 'lab'", NULL, NULL},
    /* trust */
    {SHARED_WITH "  - {name: a, run: x, untrusted: true}\n  - {name: b, run: x}\n", BH_E_TRUST, 7, 12, "agents[0]",
     "agent 'a' is tainted and cannot share box 'crew' with agent 'b'", "tainted: untrusted: true",
     "leave 'topology' away, and the plan puts it into a box of its own"},
    {SHARED_WITH "  - {name: b, run: x}\n  - {name: a, run: x, inputs: [bad]}\n", BH_E_TRUST, 8, 12, "agents[1]",
     "agent 'a' is tainted and cannot share box 'crew' with agent 'b'", "tainted: bad (untrusted source)", NULL},
    {SHARED_WITH "  - {name: r, run: x, untrusted: true, topology: per-agent, outputs: [p]}\n"
                 "  - {name: a, run: x, inputs: [p]}\n  - {name: b, run: x}\n",
     BH_E_TRUST, 8, 12, "agents[1]", "agent 'a' is tainted and cannot share box 'crew' with agent 'b'",
     "tainted: p ← r (untrusted: true)", NULL},
    {SHARED_WITH "  - {name: r, run: x, untrusted: true, outputs: [p]}\n  - {name: a, run: x, inputs: [p]}\n",
     BH_E_TRUST, 7, 12, "agents[0]", "agent 'r' is tainted and cannot share box 'crew' with agent 'a'", NULL, NULL},
    {SHARED_WITH "  - {name: a, run: x, inputs: [bad]}\n  - {name: b, run: x, secrets: [k]}\n", BH_E_TRUST, 8, 12,
     "agents[1]", "box 'crew' is tainted by agent 'a' and has a power of agent 'b': secret k",
     "tainted: bad (untrusted source)", "take the power away, or let the artifact in by 'accept'"},
    {HEAD "secrets: {k: {env: K}}\nagents:\n  - {name: a, run: x, untrusted: true, secrets: [k]}\n", BH_E_TRUST, 5, 12,
     "agents[0]", "agent 'a' is tainted and has a power: secret k", "tainted: untrusted: true",
     "let one agent read and another, which gets only what it needs of that, hold the power"},
    {HEAD "agents:\n  - {name: a, run: x, untrusted: true, network: host}\n", BH_E_TRUST, 4, 12, "agents[0]",
     "agent 'a' is tainted and has a power: network host", NULL, NULL},
    {HEAD "endpoints: {e: {upstream: 'https://a.org', allow: ['GET /x']}}\nagents:\n"
          "  - {name: a, run: x, untrusted: true, endpoints: [e]}\n",
     BH_E_TRUST, 5, 12, "agents[0]", "agent 'a' is tainted and has a power: endpoint e", NULL, NULL},
    {HEAD "secrets: {k: {env: K}}\ndefaults: {secrets: [k]}\nagents:\n  - {name: r, run: x, untrusted: true, secrets: "
          "{}, outputs: [p]}\n"
          "  - {name: a, run: x, inputs: [p]}\n",
     BH_E_TRUST, 7, 12, "agents[1]", "agent 'a' is tainted and has a power: secret k",
     "tainted: p ← r (untrusted: true)", NULL},
    {HEAD "boxes: {lab: {}}\nsecrets: {k: {env: K}}\nagents:\n  - {name: a, run: x, box: lab, untrusted: true}\n"
          "  - {name: b, run: x, box: lab, secrets: [k]}\n",
     BH_E_TRUST, 7, 12, "agents[1]", "box 'lab' is tainted by agent 'a' and has a power of agent 'b': secret k", NULL,
     NULL},
    {HEAD "agents:\n  - {name: a, run: x, box: crew, untrusted: true}\n  - {name: b, run: x}\n", BH_E_TRUST, 4, 12,
     "agents[0]", "agent 'a' is tainted and cannot share box 'crew' with agent 'b'", NULL, NULL},
    /* what cannot be with the host's network */
    {HEAD "endpoints: {e: {upstream: 'https://a.org', allow: ['GET /x']}}\nagents:\n"
          "  - {name: a, run: x, network: host, endpoints: [e]}\n",
     BH_E_INVALID, 5, 50, "agents[0].endpoints", "agent 'a' has endpoint 'e', and its 'run' has the host's network",
     "there it would be a port for every program of the host, which sends the credential along",
     "let another agent call the endpoint, or leave 'network: host' to 'setup', 'prepare' or 'check'"},
    {HEAD "endpoints: {e: {upstream: 'https://a.org', allow: ['GET /x']}}\nboxes: {lab: {network: {run: host}}}\n"
          "agents:\n  - {name: a, run: x, box: lab}\n  - {name: b, run: x, box: lab, endpoints: [e]}\n",
     BH_E_INVALID, 7, 45, "agents[1].endpoints", "agent 'b' has endpoint 'e', and its 'run' has the host's network",
     NULL, NULL},
    {HEAD "agents:\n  - {name: a, run: [x], prepare: {run: y, warm: true}, network: {prepare: host}}\n", BH_E_INVALID,
     4, 40, "agents[0].prepare", "'prepare' of agent 'a' cannot be warm with the host's network", NULL,
     "leave 'warm' away, or 'network: host' of 'prepare' and 'run'"},
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++)
        plan_must_fail(&bad[i], NULL);
}

static const char *const holds[] = {
    /* one tainted agent alone, on purpose */
    SHARED "  - {name: a, run: x, untrusted: true}\n",
    /* all read what came from elsewhere */
    SHARED_WITH "  - {name: r, run: x, untrusted: true, topology: per-agent, outputs: [p]}\n"
                "  - {name: a, run: x, inputs: [p]}\n  - {name: b, run: x, inputs: [p]}\n",
    /* a named box may be tainted as a whole */
    HEAD
    "boxes: {lab: {}}\nagents:\n  - {name: a, run: x, box: lab, untrusted: true}\n  - {name: b, run: x, box: lab}\n",
    /* reach, not possession */
    HEAD "endpoints: {e: {upstream: 'https://a.org', allow: ['GET /x'], tainted: true}}\nagents:\n"
         "  - {name: a, run: x, untrusted: true, endpoints: [e]}\n",
    /* an endpoint where run is not on the host's network */
    HEAD "endpoints: {e: {upstream: 'https://a.org', allow: ['GET /x']}}\nagents:\n"
         "  - {name: a, run: x, network: {setup: host, prepare: host}, endpoints: [e]}\n"
         "  - {name: b, run: [x], prepare: {run: y, warm: true}, network: {setup: host}}\n",
    /* globs that cannot meet what others make */
    SHARED "  - {name: a, run: x, outputs: [{glob: 'a/*'}]}\n  - {name: b, run: x, outputs: [{glob: 'b/**'}, c.txt, "
           "{name: d, path: a/d}]}\n",
    /* what counts per agent may differ */
    SHARED
    "  - {name: a, run: x, limits: {tokens: 1, requests: 2, output: 1MiB, memory: 1GiB}}\n  - {name: b, run: x}\n",
    /* the box's own value, said again */
    HEAD "boxes: {lab: {network: public, limits: {disk: 1GiB}}}\nagents:\n  - {name: a, run: x, box: lab, network: "
         "public, limits: {disk: 1024MiB}}\n",
};

static void test_holds(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(holds); i++) {
        struct planned x;
        plan_good(&x, holds[i]);
        plan_free(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_split_by_a_limit_of_the_crew),
        cmocka_unit_test(test_crew_of_cells_and_items),
        cmocka_unit_test(test_tainted_crew),
        cmocka_unit_test(test_let_in_stands_alone),
        cmocka_unit_test(test_defaults_are_the_crew),
        cmocka_unit_test(test_the_crew_has_a_document),
        cmocka_unit_test(test_writable_usr),
        cmocka_unit_test(test_per_agent),
        cmocka_unit_test(test_shared_box),
        cmocka_unit_test(test_shared_box_takes_what_all_ask),
        cmocka_unit_test(test_box_ids_never_meet),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
