/* SPDX-License-Identifier: Apache-2.0 */
/* Private data: where it flows, and that it never meets untrusted content and a way out in one box. */
#include "trust_rows.h"

#define HEAD                                                                                                   \
    "secrets: {k: {env: K}}\n"                                                                                 \
    "endpoints: {open: {upstream: 'https://b.example.org', allow: ['POST /x'], tainted: true}}\n"              \
    "sources: {bad.txt: {file: b, untrusted: true}, mine.txt: {file: m, private: true}, own.txt: {file: o},\n" \
    "  both.txt: {file: z, private: true, untrusted: true}}\n"
#define NET "network: {allow: ['example.org:443']}"
#define MET(box, way, holder, mine, reader, bad)                                            \
    "trust: box '" box "' holds private data and untrusted content and has a way out: " way \
    " | private: agent '" holder "', " mine "; tainted: agent '" reader "', " bad "\n"
#define MINE "mine.txt (private source)"
#define BAD "bad.txt (untrusted source)"

static const struct trust_row flows[] = {
    {"nowhere else",
     HEAD "agents: [{name: a, run: x, inputs: [mine.txt], outputs: [o], topology: per-agent}, {name: "
          "b, run: x, inputs: [own.txt]}]\n",
     "a~" MINE ";"},
    {"to readers",
     HEAD "topology: per-agent\nagents: [{name: a, run: x, inputs: [mine.txt], outputs: [o]}, {name: b, "
          "run: x, inputs: [o]}]\n",
     "a~" MINE ";b~o ← a ← " MINE ";"},
    {"no gate clears it",
     HEAD "topology: per-agent\nagents: [{name: a, run: x, inputs: [both.txt], accept: {both.txt: {approve: true}}, "
          "outputs: [o]}, {name: b, run: x, inputs: [o]}]\n",
     "a~both.txt (private source);b~o ← a ← both.txt (private source);"},
    {"by a glob", HEAD "agents: [{name: a, run: x, inputs: ['m*']}]\n", "a~" MINE ";"},
    {"to all of the crew's box",
     HEAD "agents: [{name: a, run: x, inputs: [mine.txt]}, {name: b, run: x, outputs: [o]}, {name: c, run: x, inputs: "
          "[o], topology: per-agent}]\n",
     "a~" MINE ";b~shares a box with a ← " MINE ";c~o ← b, which shares a box with a ← " MINE ";"},
    {"to all later stages that see what was made before",
     HEAD "topology: per-agent\nstages:\n  - {name: s, agents: [{name: a, run: x, inputs: [mine.txt], outputs: [o]}]}\n"
          "  - {name: t, agents: [{name: b, run: x}, {name: c, run: x, inputs: [own.txt]}]}\n"
          "  - {name: u, agents: [{name: d, run: x}]}\n",
     "a~" MINE ";b~o ← a ← " MINE ";d~o ← a ← " MINE ";"},
    {"not by what those do not see, for it is tainted",
     HEAD "topology: per-agent\nstages:\n  - {name: s, agents: [{name: a, run: x, inputs: [both.txt], outputs: "
          "[o]}]}\n  - {name: t, agents: [{name: b, run: x}]}\n",
     "a=both.txt (untrusted source);a~both.txt (private source);"},
    {"to the next round",
     HEAD "topology: per-agent\nstages: [{name: s, repeat: {max: 2, until: {artifact: v, is: y}}, agents: [{name: a, "
          "run: x, inputs: [mine.txt], outputs: [v]}, {name: b, run: x, inputs: [own.txt]}]}]\n",
     "a~" MINE ";b~the round before ← a ← " MINE ";"},
    {"to the agents of each item",
     HEAD "topology: per-agent\nstages: [{name: s, for_each: {artifact: mine.txt, max: 2}, agents: [{name: a, run: "
          "x}]}]\n",
     "a~" MINE ";"},
    {"not by a predicate", HEAD "topology: per-agent\nagents: [{name: a, run: x, when: {artifact: mine.txt, is: y}}]\n",
     ""},
};

static const struct trust_row meeting[] = {
    {"private and open", HEAD "agents: [{name: a, run: x, inputs: [mine.txt], network: public}]\n", "a~" MINE ";"},
    {"tainted and open", HEAD "agents: [{name: a, run: x, inputs: [bad.txt], network: public}]\n", "a=" BAD ";"},
    {"private and tainted", HEAD "agents: [{name: a, run: x, inputs: [mine.txt, bad.txt]}]\n", "a=" BAD ";a~" MINE ";"},
    {"public", HEAD "agents: [{name: a, run: x, inputs: [mine.txt, bad.txt], network: public}]\n",
     MET("a", "network public", "a", MINE, "a", BAD)},
    {"an allow-list", HEAD "agents: [{name: a, run: x, inputs: [mine.txt], untrusted: true, " NET "}]\n",
     MET("a", "network an allow-list", "a", MINE, "a", "untrusted: true")},
    {"a source that is both", HEAD "agents: [{name: a, run: x, inputs: [both.txt], " NET "}]\n",
     MET("a", "network an allow-list", "a", "both.txt (private source)", "a", "both.txt (untrusted source)")},
    {"in 'run' alone", HEAD "agents: [{name: a, run: x, inputs: [mine.txt, bad.txt], network: {run: public}}]\n",
     MET("a", "network public in 'run'", "a", MINE, "a", BAD)},
    {"in 'prepare' alone, which has the inputs",
     HEAD "agents: [{name: a, run: x, prepare: y, inputs: [mine.txt, bad.txt], network: {prepare: {allow: "
          "['x.org:443']}}}]\n",
     MET("a", "network an allow-list in 'prepare'", "a", MINE, "a", BAD)},
    {"in 'check' alone, which has the outputs",
     HEAD "agents: [{name: a, run: x, check: y, inputs: [mine.txt, bad.txt], network: {check: public}}]\n",
     MET("a", "network public in 'check'", "a", MINE, "a", BAD)},
    {"in two phases",
     HEAD "agents: [{name: a, run: x, inputs: [mine.txt, bad.txt], network: {run: public, check: {allow: "
          "['x.org:443']}}}]\n",
     MET("a", "network public in 'run', an allow-list in 'check'", "a", MINE, "a", BAD)},
    {"in 'setup' of a box of its own, which has nothing yet",
     HEAD "agents: [{name: a, run: x, setup: y, inputs: [mine.txt, bad.txt], network: {setup: public}}]\n",
     "a=" BAD ";a~" MINE ";"},
    {"in 'setup' of a shared box, which runs beside the others",
     HEAD "boxes: {lab: {network: {setup: public}}}\nagents: [{name: a, run: x, box: lab, setup: y, inputs: "
          "[mine.txt]}, {name: b, run: x, box: lab, inputs: [bad.txt]}]\n",
     MET("lab", "network public in 'setup'", "a", MINE, "b", BAD)},
    {"each of the two by another agent of a box",
     HEAD "boxes: {lab: {" NET "}}\nagents: [{name: c, run: x, box: lab}, {name: a, run: x, box: lab, inputs: "
          "[mine.txt]}, {name: b, run: x, box: lab, inputs: [bad.txt]}]\n",
     MET("lab", "network an allow-list", "a", MINE, "b", BAD)},
    {"stages apart, in one box",
     HEAD "boxes: {lab: {" NET "}}\nstages:\n  - {name: s, agents: [{name: a, run: x, box: lab, inputs: [mine.txt]}]}\n"
          "  - {name: t, agents: [{name: b, run: x, box: lab, untrusted: true, inputs: []}]}\n",
     MET("lab", "network an allow-list", "a", MINE, "b", "untrusted: true")},
    {"in two boxes",
     HEAD "agents: [{name: a, run: x, inputs: [mine.txt], " NET ", topology: per-agent}, {name: b, run: x, inputs: "
          "[bad.txt], " NET "}]\n",
     "a~" MINE ";b=" BAD ";"},
    {"private by what it reads",
     HEAD "agents: [{name: a, run: x, inputs: [mine.txt], outputs: [o], topology: per-agent}, {name: b, run: x, "
          "untrusted: true, inputs: [o], network: public}]\n",
     MET("b", "network public", "b", "o ← a ← " MINE, "b", "untrusted: true")},
    {"both by what it reads",
     HEAD "agents: [{name: a, run: x, inputs: [mine.txt], outputs: [o], topology: per-agent}, {name: r, run: x, "
          "untrusted: true, outputs: [p]}, {name: b, run: x, inputs: [o, p], network: public}]\n",
     MET("b", "network public", "b", "o ← a ← " MINE, "b", "p ← r (untrusted: true)")},
    {"private by a stage before",
     HEAD "topology: per-agent\nstages:\n  - {name: s, agents: [{name: a, run: x, inputs: [mine.txt], outputs: [o]}]}\n"
          "  - {name: t, agents: [{name: b, run: x, untrusted: true, network: public}]}\n",
     MET("b", "network public", "b", "o ← a ← " MINE, "b", "untrusted: true")},
    {"what a check lets in is untrusted still",
     HEAD "agents: [{name: a, run: x, inputs: [mine.txt, bad.txt], network: public, accept: {bad.txt: {validate: "
          "{kind: json}}}}]\n",
     MET("a", "network public", "a", MINE, "a", BAD)},
    {"what a person let in is not",
     HEAD "agents: [{name: a, run: x, inputs: [mine.txt, bad.txt], network: public, accept: {bad.txt: {approve: "
          "true}}}]\n",
     "a~" MINE ";"},
    {"an endpoint for the tainted is printed, not refused",
     HEAD "agents: [{name: a, run: x, inputs: [mine.txt, bad.txt], endpoints: [open]}]\n", "a=" BAD ";a~" MINE ";"},
    {"the crew's network, by the defaults",
     HEAD "defaults: {network: public}\nagents: [{name: a, run: x, inputs: [mine.txt]}, {name: b, run: x}, {name: r, "
          "run: x, untrusted: true, network: none, outputs: [p]}, {name: c, run: x, inputs: [p, mine.txt]}]\n",
     MET("crew-tainted", "network public", "c", MINE, "c", "p ← r (untrusted: true)")},
    {"one box of the tainted: one is private by itself, the other is not",
     HEAD "defaults: {network: public}\nagents: [{name: r, run: x, untrusted: true, network: none, outputs: [p]}, "
          "{name: b, run: x, inputs: [p]}, {name: c, run: x, inputs: [p, mine.txt]}]\n",
     MET("crew-tainted", "network public", "c", MINE, "b", "p ← r (untrusted: true)")},
    {"the host's network: a power already",
     HEAD "agents: [{name: a, run: x, inputs: [mine.txt, bad.txt], network: host}]\n",
     "trust: agent 'a' is tainted and has a power: network host | tainted: " BAD "\n"},
    {"an empty network is none",
     HEAD "agents: [{name: a, run: x, inputs: [mine.txt, bad.txt], network: {run: none}}]\n", "a=" BAD ";a~" MINE ";"},
    {"cells of a matrix are told apart",
     HEAD "agents: [{name: a, run: x, matrix: {m: [1, 2]}, inputs: [mine.txt, bad.txt], network: public}]\n",
     MET("a-1", "network public", "a-1", MINE, "a-1", BAD) MET("a-2", "network public", "a-2", MINE, "a-2", BAD)},
};

static void test_flows(void **state)
{
    (void)state;
    trust_rows_check(flows, BH_ARRAY_LEN(flows), NULL);
}

static void test_meeting(void **state)
{
    (void)state;
    trust_rows_check(meeting, BH_ARRAY_LEN(meeting), NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flows), cmocka_unit_test(test_meeting)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
