/* SPDX-License-Identifier: Apache-2.0 */
/* Powers, gates and what steers: which documents are refused, with what words, and which are not. */
#include "trust_rows.h"

#define HEAD                                                                            \
    "secrets: {k: {env: K}}\n"                                                          \
    "endpoints: {shut: {upstream: 'https://a.example.org', allow: ['POST /x']},\n"      \
    "  open: {upstream: 'https://b.example.org', allow: ['POST /x'], tainted: true}}\n" \
    "sources: {bad.txt: {file: b, untrusted: true}, worse.txt: {file: w, untrusted: true}, own.txt: {file: o}}\n"
/* r reads what is not ours and makes `page`. */
#define READER HEAD "agents:\n  - {name: r, run: x, untrusted: true, outputs: [page, more]}\n"
#define STAGES HEAD "stages:\n  - {name: s, agents: [{name: r, run: x, untrusted: true, outputs: [page, more]}]}\n"
/* The same, and `a` in the box `lab` reads it: its other keys follow. */
#define GATED_LAB                                                                                                     \
    HEAD "boxes: {lab: {}}\nagents:\n  - {name: r, run: x, untrusted: true, outputs: [page]}\n  - {name: a, run: x, " \
         "box: lab, inputs: [page], "

static const struct trust_row powers[] = {
    {"no label", HEAD "agents: [{name: a, run: x, secrets: [k], endpoints: [shut]}]\n", ""},
    {"a reader without powers", READER, "r=untrusted: true;"},
    {"a reader with a secret", HEAD "agents: [{name: a, run: x, untrusted: true, secrets: [k]}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: untrusted: true\n"},
    {"a reader with a secret under another name",
     HEAD "agents: [{name: a, run: x, untrusted: true, secrets: {TOKEN: k}}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: untrusted: true\n"},
    {"a reader with an endpoint that is a power",
     HEAD "agents: [{name: a, run: x, untrusted: true, endpoints: [shut]}]\n",
     "trust: agent 'a' is tainted and has a power: endpoint shut | tainted: untrusted: true\n"},
    {"a reader with an endpoint for the tainted",
     HEAD "agents: [{name: a, run: x, untrusted: true, endpoints: [open]}]\n", "a=untrusted: true;"},
    {"a reader with the host's network", HEAD "agents: [{name: a, run: x, untrusted: true, network: host}]\n",
     "trust: agent 'a' is tainted and has a power: network host | tainted: untrusted: true\n"},
    {"a reader with the host's network in its setup alone: the box is the same",
     HEAD "agents: [{name: a, run: x, setup: y, untrusted: true, network: {setup: host}}]\n",
     "trust: agent 'a' is tainted and has a power: network host | tainted: untrusted: true\n"},
    {"a reader with a public network", HEAD "agents: [{name: a, run: x, untrusted: true, network: public}]\n",
     "a=untrusted: true;"},
    {"a reader with an allow-list",
     HEAD "agents: [{name: a, run: x, untrusted: true, network: {allow: ['example.org:443']}}]\n",
     "a=untrusted: true;"},
    {"a brain with a secret has the label of its hands",
     HEAD "agents: [{name: a, brain: x, untrusted: true, secrets: [k]}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: untrusted: true\n"},
    {"a brain whose hands read a tainted source",
     HEAD "agents: [{name: a, brain: x, inputs: [bad.txt], endpoints: [shut]}]\n",
     "trust: agent 'a' is tainted and has a power: endpoint shut | tainted: bad.txt (untrusted source)\n"},
    {"a brain with an endpoint for the tainted",
     HEAD "agents: [{name: a, brain: x, inputs: [bad.txt], endpoints: [open]}]\n", "a=bad.txt (untrusted source);"},
    {"an untrusted source beside a secret", HEAD "agents: [{name: a, run: x, inputs: [bad.txt], secrets: [k]}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: bad.txt (untrusted source)\n"},
    {"a source of ours beside a secret", HEAD "agents: [{name: a, run: x, inputs: [own.txt], secrets: [k]}]\n", ""},
    {"a secret by the defaults",
     HEAD "defaults: {secrets: [k]}\nagents: [{name: a, run: x, untrusted: true}, {name: b, run: x}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: untrusted: true\n"},
    {"a secret by the defaults that the reader does without",
     HEAD "defaults: {secrets: [k]}\nagents: [{name: a, run: x, untrusted: true, secrets: []}, {name: b, run: x}]\n",
     "a=untrusted: true;"},
    {"a reader in a box whose network is the host's",
     HEAD "boxes: {lab: {network: host}}\nagents: [{name: a, run: x, box: lab}, {name: b, run: x, box: lab, "
          "inputs: [bad.txt]}]\n",
     "trust: box 'lab' is tainted by agent 'b' and has a power: network host | tainted: bad.txt (untrusted source)\n"},
    {"powers and label of a box are those of its whole life: the power comes first",
     HEAD "boxes: {lab: {}}\nstages:\n  - {name: s, agents: [{name: a, run: x, box: lab, secrets: [k]}]}\n"
          "  - {name: t, agents: [{name: b, run: x, box: lab, inputs: [bad.txt]}]}\n",
     "trust: box 'lab' is tainted by agent 'b' and has a power of agent 'a': secret k | tainted: bad.txt (untrusted "
     "source)\n"},
    {"and the taint comes first",
     HEAD "boxes: {lab: {}}\nstages:\n  - {name: s, agents: [{name: b, run: x, box: lab, untrusted: true}]}\n"
          "  - {name: t, agents: [{name: a, run: x, box: lab, inputs: [own.txt], endpoints: [shut]}]}\n",
     "trust: box 'lab' is tainted by agent 'b' and has a power of agent 'a': endpoint shut | tainted: untrusted: "
     "true\n"},
    {"the same in two boxes",
     HEAD "boxes: {lab: {}}\nagents: [{name: a, run: x, box: lab, secrets: [k]}, {name: b, run: x, untrusted: true}]\n",
     "b=untrusted: true;"},
    {"one box for all", HEAD "topology: shared-box\nagents: [{name: a, run: x}, {name: b, run: x, untrusted: true}]\n",
     "trust: agent 'b' is tainted and cannot share box 'crew' with agent 'a' | tainted: untrusted: true\n"},
    {"each its own",
     HEAD "topology: per-agent\nagents: [{name: a, run: x, secrets: [k]}, {name: b, run: x, untrusted: "
          "true}]\n",
     "b=untrusted: true;"},
    {"attempts of a reader with a secret",
     HEAD "agents: [{name: a, run: x, attempts: 3, untrusted: true, secrets: [k]}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: untrusted: true\n"},
    {"one error for all cells of a matrix",
     HEAD "agents: [{name: a, run: x, matrix: {m: [1, 2]}, untrusted: true, secrets: [k]}]\n",
     "trust: agent 'a-1' is tainted and has a power: secret k | tainted: untrusted: true\n"},
};

static const struct trust_row flows[] = {
    {"what a reader made beside a secret", READER "  - {name: a, run: x, inputs: [page], secrets: [k]}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: page ← r (untrusted: true)\n"},
    {"over two agents",
     READER "  - {name: m, run: x, inputs: [page], outputs: [sum]}\n  - {name: a, run: x, inputs: [sum], secrets: "
            "[k]}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: sum ← m ← page ← r (untrusted: true)\n"},
    {"by a glob", READER "  - {name: a, run: x, inputs: ['p*'], secrets: [k]}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: p* ← r (untrusted: true)\n"},
    {"optional", READER "  - {name: a, run: x, inputs: [{name: page, optional: true}], secrets: [k]}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: page ← r (untrusted: true)\n"},
    {"order alone is no data", READER "  - {name: a, run: x, needs: [r], secrets: [k]}\n", "r=untrusted: true;"},
    {"a stage later sees nothing tainted", STAGES "  - {name: t, agents: [{name: a, run: x, secrets: [k]}]}\n",
     "r=untrusted: true;"},
    {"a number of an attempt",
     HEAD "agents:\n  - {name: r, run: x, attempts: 2, untrusted: true, outputs: [page]}\n"
          "  - {name: a, run: x, inputs: ['page@1'], secrets: [k]}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: page@1 ← r (untrusted: true)\n"},
    {"all attempts",
     HEAD "agents:\n  - {name: r, run: x, attempts: {count: 2, select: all}, untrusted: true, outputs: [page]}\n"
          "  - {name: a, run: x, inputs: ['page@*'], secrets: [k]}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: page@* ← r (untrusted: true)\n"},
    {"a family",
     HEAD "agents:\n  - {name: r, run: x, untrusted: true, outputs: [{glob: 'page-*'}]}\n"
          "  - {name: a, run: x, inputs: [page-7], secrets: [k]}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: page-7 ← r (untrusted: true)\n"},
    {"an item of an untrusted source",
     HEAD "stages: [{name: s, for_each: {artifact: bad.txt, max: 3}, agents: [{name: a, run: x, secrets: [k]}]}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: bad.txt (untrusted source)\n"},
    {"an item that a reader made",
     STAGES "  - {name: t, for_each: {artifact: page, max: 3}, agents: [{name: a, run: x, secrets: [k]}]}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: page ← r (untrusted: true)\n"},
    {"what items made, numbered",
     STAGES "  - {name: t, for_each: {artifact: page, max: 3}, agents: [{name: i, run: x, outputs: ['o-{{item}}']}]}\n"
            "  - {name: u, agents: [{name: a, run: x, inputs: ['o-*'], secrets: [k]}]}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: o-* ← i ← page ← r (untrusted: true)\n"},
    {"the round before",
     HEAD "stages: [{name: s, repeat: {max: 2, until: {artifact: v, is: y}}, agents: [{name: a, run: x, secrets: [k]}, "
          "{name: b, run: x, inputs: [bad.txt], outputs: [v]}]}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: the round before ← b ← bad.txt (untrusted "
     "source)\n"},
    {"the round before of a reader that makes nothing",
     HEAD "stages: [{name: s, repeat: {max: 2, until: {artifact: v, is: y}}, agents: [{name: a, run: x, secrets: [k], "
          "outputs: [v]}, {name: b, run: x, inputs: [bad.txt]}]}]\n",
     "b=bad.txt (untrusted source);"},
    {"a box that reads, and who reads from it",
     HEAD "boxes: {lab: {}}\nagents: [{name: a, run: x, box: lab, outputs: [o]}, {name: b, run: x, box: lab, inputs: "
          "[bad.txt]}, {name: c, run: x, inputs: [o], secrets: [k]}]\n",
     "trust: agent 'c' is tainted and has a power: secret k | tainted: o ← a, which shares a box with b ← bad.txt "
     "(untrusted source)\n"},
};

static const struct trust_row gates[] = {
    {"validate lets in and does not clear",
     READER "  - {name: a, run: x, inputs: [page], secrets: [k], accept: {page: {validate: {kind: json}}}, outputs: "
            "[o]}\n  - {name: b, run: x, inputs: [o]}\n",
     "r=untrusted: true;a=page ← r (untrusted: true);b=o ← a ← page ← r (untrusted: true);"},
    {"so who reads on needs a gate of its own",
     READER "  - {name: a, run: x, inputs: [page], secrets: [k], accept: {page: {validate: {kind: json}}}, outputs: "
            "[o]}\n  - {name: b, run: x, inputs: [o], secrets: [k]}\n",
     "trust: agent 'b' is tainted and has a power: secret k | tainted: o ← a ← page ← r (untrusted: true)\n"},
    {"approve clears",
     READER "  - {name: a, run: x, inputs: [page], secrets: [k], accept: {page: {approve: true}}, outputs: [o]}\n"
            "  - {name: b, run: x, inputs: [o], secrets: [k]}\n",
     "r=untrusted: true;"},
    {"endorse clears",
     READER "  - {name: a, run: x, inputs: [page], secrets: [k], accept: {page: {validate: {kind: text}, endorse: "
            "true}}, outputs: [o]}\n  - {name: b, run: x, inputs: [o], secrets: [k]}\n",
     "r=untrusted: true;"},
    {"a gate for one of two",
     READER "  - {name: a, run: x, inputs: [page, more], secrets: [k], accept: {page: {approve: true}}}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: more ← r (untrusted: true)\n"},
    {"one that clears and one that lets in",
     READER "  - {name: a, run: x, inputs: [page, more], secrets: [k], accept: {page: {approve: true}, more: "
            "{validate: {max_size: 1KiB}}}}\n",
     "r=untrusted: true;a=more ← r (untrusted: true);"},
    {"a gate by a glob", READER "  - {name: a, run: x, inputs: [page], secrets: [k], accept: {'*': {approve: true}}}\n",
     "r=untrusted: true;"},
    {"a gate that is narrower than the glob that is read",
     READER "  - {name: a, run: x, inputs: ['pa*'], secrets: [k], accept: {'pa?e': {approve: true}}}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: pa* ← r (untrusted: true)\n"},
    {"a gate that a star of the input only seems to fit",
     READER "  - {name: a, run: x, inputs: ['p*e'], secrets: [k], accept: {'p?e': {approve: true}}}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: p*e ← r (untrusted: true)\n"},
    {"a gate within a segment, an input across",
     READER "  - {name: a, run: x, inputs: ['p**'], secrets: [k], accept: {'p*': {approve: true}}}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: p** ← r (untrusted: true)\n"},
    {"a gate across for all",
     READER "  - {name: a, run: x, inputs: ['p*'], secrets: [k], accept: {'**': {approve: "
            "true}}}\n",
     "r=untrusted: true;"},
    {"a gate for one source of two that a glob fits",
     HEAD "agents: [{name: a, run: x, inputs: ['*.txt'], secrets: [k], accept: {bad.txt: {approve: true}}}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: worse.txt (untrusted source)\n"},
    {"gates for both",
     HEAD "agents: [{name: a, run: x, inputs: ['*.txt'], secrets: [k], accept: {bad.txt: {approve: true}, worse.txt: "
          "{approve: true}}}]\n",
     ""},
    {"of two gates that fit the one that clears",
     READER "  - {name: a, run: x, inputs: [page], secrets: [k], accept: {'p*': {validate: {kind: json}}, page: "
            "{approve: true}}}\n",
     "r=untrusted: true;"},
    {"a gate is of the agent's own reading: untrusted itself",
     READER "  - {name: a, run: x, inputs: [page], untrusted: true, secrets: [k], accept: {page: {approve: true}}}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: untrusted: true\n"},
    {"a gate at the start is none for what is read",
     READER "  - {name: a, run: x, inputs: [page], secrets: [k], gate: approve}\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: page ← r (untrusted: true)\n"},
    {"a gate for an item",
     STAGES "  - {name: t, for_each: {artifact: page, max: 3}, agents: [{name: a, run: x, secrets: [k], accept: {page: "
            "{validate: {kind: jsonl}}}}]}\n",
     "r=untrusted: true;a=page ← r (untrusted: true);"},
    {"what a gate lets in lies in the box: who shares it makes tainted things, too",
     HEAD "boxes: {lab: {}}\nagents:\n  - {name: r, run: x, untrusted: true, outputs: [page]}\n"
          "  - {name: a, run: x, box: lab, inputs: [page], accept: {page: {validate: {kind: json}}}}\n"
          "  - {name: b, run: x, box: lab, inputs: [own.txt], outputs: [o]}\n  - {name: c, run: x, inputs: [o]}\n",
     "r=untrusted: true;a=page ← r (untrusted: true);b=shares a box with a ← page ← r (untrusted: true);c=o ← b, which "
     "shares a box with a ← page ← r (untrusted: true);"},
    {"so it is refused where another in the box has a power",
     GATED_LAB "accept: {page: {validate: {kind: json}}}}\n  - {name: b, run: x, box: lab, endpoints: [shut]}\n",
     "trust: agent 'a' lets 'page' into box 'lab', which it shares and which has a power of agent 'b': endpoint shut | "
     "tainted: page ← r (untrusted: true)\n"},
    {"and where the power is its own, for what the other makes of it lies there, too",
     GATED_LAB "secrets: [k], accept: {page: {validate: {kind: json}}}}\n  - {name: b, run: x, box: lab}\n",
     "trust: agent 'a' lets 'page' into box 'lab', which it shares and which has a power of agent 'a': secret k | "
     "tainted: page ← r (untrusted: true)\n"},
    {"and where both have a gate",
     GATED_LAB "accept: {page: {validate: {kind: json}}}}\n  - {name: b, run: x, box: lab, inputs: [page], secrets: "
               "[k], accept: {page: {validate: {kind: json}}}}\n",
     "trust: agent 'a' lets 'page' into box 'lab', which it shares and which has a power of agent 'b': secret k | "
     "tainted: page ← r (untrusted: true)\n"},
    {"and where the power is the box's",
     HEAD
     "boxes: {lab: {network: host}}\nagents:\n  - {name: a, run: x, box: lab, inputs: [bad.txt], accept: {bad.txt: "
     "{validate: {kind: json}}}}\n  - {name: b, run: x, box: lab}\n",
     "trust: agent 'a' lets 'bad.txt' into box 'lab', which it shares and which has a power: network host | tainted: "
     "bad.txt (untrusted source)\n"},
    {"and where it is the crew's",
     HEAD "topology: shared-box\nagents:\n  - {name: a, run: x, inputs: [bad.txt], accept: {bad.txt: {validate: {kind: "
          "json}}}}\n  - {name: b, run: x, secrets: [k]}\n",
     "trust: agent 'a' lets 'bad.txt' into box 'crew', which it shares and which has a power of agent 'b': secret k | "
     "tainted: bad.txt (untrusted source)\n"},
    {"an endpoint for the tainted is none",
     GATED_LAB "accept: {page: {validate: {kind: json}}}}\n  - {name: b, run: x, box: lab, endpoints: [open]}\n",
     "r=untrusted: true;a=page ← r (untrusted: true);b=shares a box with a ← page ← r (untrusted: true);"},
    {"a box in which nobody else is will do",
     GATED_LAB "secrets: [k], accept: {page: {validate: {kind: json}}}}\n  - {name: b, run: x, secrets: [k]}\n",
     "r=untrusted: true;a=page ← r (untrusted: true);"},
    {"what a person let in is for all",
     GATED_LAB "accept: {page: {approve: true}}}\n  - {name: b, run: x, box: lab, endpoints: [shut]}\n",
     "r=untrusted: true;"},
    {"but who is in the crew's box without having asked for it is not told so",
     READER "  - {name: a, run: x, topology: shared-box, inputs: [page], accept: {page: {validate: {kind: json}}}}\n"
            "  - {name: b, run: x, inputs: [own.txt]}\n",
     "trust: agent 'a' lets tainted artifacts in and cannot share box 'crew' with agent 'b' | tainted: page ← r "
     "(untrusted: true)\n"},
    {"nor is who joins the crew of the tainted by name",
     "boxes: {crew-tainted: {}}\n" READER "  - {name: a, run: x, inputs: [page]}\n"
     "  - {name: b, run: x, box: crew-tainted, inputs: [own.txt]}\n",
     "trust: agent 'a' is tainted and cannot share box 'crew-tainted' with agent 'b' | tainted: page ← r (untrusted: "
     "true)\n"},
    {"a gate of one does not help another in the box",
     HEAD "boxes: {lab: {}}\nagents:\n  - {name: r, run: x, untrusted: true, outputs: [page]}\n"
          "  - {name: a, run: x, box: lab, inputs: [page], accept: {page: {approve: true}}}\n"
          "  - {name: b, run: x, box: lab, inputs: [page], secrets: [k]}\n",
     "trust: agent 'b' is tainted and has a power: secret k | tainted: page ← r (untrusted: true)\n"},
    {"gates of rounds: all that the reader makes is let in",
     HEAD "stages: [{name: s, repeat: {max: 2, until: {artifact: v, is: y}}, agents: [{name: a, run: x, inputs: [v], "
          "secrets: [k], accept: {v: {validate: {kind: json}}}, outputs: [o]}, {name: b, run: x, inputs: [bad.txt], "
          "outputs: [v]}]}]\n",
     "a=v ← b ← bad.txt (untrusted source);b=bad.txt (untrusted source);"},
    {"gates of rounds: something is not",
     HEAD "stages: [{name: s, repeat: {max: 2, until: {artifact: v, is: y}}, agents: [{name: a, run: x, inputs: [v], "
          "secrets: [k], accept: {v: {validate: {kind: json}}}}, {name: b, run: x, inputs: [bad.txt], outputs: [v, "
          "w]}]}]\n",
     "trust: agent 'a' is tainted and has a power: secret k | tainted: the round before ← b ← bad.txt (untrusted "
     "source)\n"},
    {"rounds: who has no gates is told by who has some",
     HEAD "stages:\n"
          "  - {name: s, agents: [{name: r, run: x, untrusted: true, outputs: [page]}]}\n"
          "  - {name: t, repeat: {max: 2, until: {artifact: v, is: y}}, agents: [\n"
          "    {name: a, run: x, inputs: [page], accept: {'*': {validate: {kind: json}}}, outputs: [o]},\n"
          "    {name: c, run: x, inputs: [own.txt], secrets: [k]}, {name: b, run: x, inputs: [own.txt], outputs: "
          "[v]}]}\n",
     "trust: agent 'c' is tainted and has a power: secret k | tainted: the round before ← a ← page ← r (untrusted: "
     "true)\n"},
    {"rounds: in one box, what a gate let in is in the round before, too",
     HEAD "boxes: {lab: {}}\nstages:\n"
          "  - {name: s, agents: [{name: r, run: x, untrusted: true, outputs: [page]}]}\n"
          "  - {name: t, repeat: {max: 2, until: {artifact: v, is: y}}, agents: [\n"
          "    {name: a, run: x, box: lab, inputs: [page], secrets: [k], accept: {'*': {validate: {kind: json}}}},\n"
          "    {name: c, run: x, box: lab, inputs: [own.txt], outputs: [o]}, {name: b, run: x, inputs: [own.txt], "
          "outputs: [v]}]}\n",
     "trust: agent 'a' lets 'page' into box 'lab', which it shares and which has a power of agent 'a': secret k | "
     "tainted: page ← r (untrusted: true)\n"},
};

static const struct trust_row steered[] = {
    {"an agent without powers", READER "  - {name: a, run: x, when: {artifact: page, is: y}}\n", "r=untrusted: true;"},
    {"an agent with a secret", READER "  - {name: a, run: x, secrets: [k], when: {artifact: page, is: y}}\n",
     "trust: agent 'a' is steered by the tainted artifact 'page', and its box has a power: secret k | tainted: page ← "
     "r (untrusted: true)\n"},
    {"by a pointer into it",
     READER "  - {name: a, run: x, endpoints: [shut], when: {artifact: page, at: /ok, not: n}}\n",
     "trust: agent 'a' is steered by the tainted artifact 'page', and its box has a power: endpoint shut | tainted: "
     "page ← r (untrusted: true)\n"},
    {"by an untrusted source", HEAD "agents: [{name: a, run: x, network: host, when: {artifact: bad.txt, is: y}}]\n",
     "trust: agent 'a' is steered by the tainted artifact 'bad.txt', and its box has a power: network host | tainted: "
     "bad.txt (untrusted source)\n"},
    {"let in by a check",
     READER "  - {name: a, run: x, secrets: [k], when: {artifact: page, is: y}, accept: {page: "
            "{validate: {kind: json}}}}\n",
     "r=untrusted: true;"},
    {"let in by a person",
     READER "  - {name: a, run: x, secrets: [k], when: {artifact: page, is: y}, accept: {page: "
            "{approve: true}}}\n",
     "r=untrusted: true;"},
    {"a person is asked at the start",
     READER "  - {name: a, run: x, secrets: [k], when: {artifact: page, is: y}, gate: approve}\n",
     "r=untrusted: true;"},
    {"a gate for something else",
     READER "  - {name: a, run: x, secrets: [k], when: {artifact: page, is: y}, accept: "
            "{more: {approve: true}}}\n",
     "trust: agent 'a' is steered by the tainted artifact 'page', and its box has a power: secret k | tainted: page ← "
     "r (untrusted: true)\n"},
    {"a whole stage",
     STAGES "  - {name: t, when: {artifact: page, is: y}, agents: [{name: a, run: x, secrets: [k]}, "
            "{name: b, run: x}]}\n",
     "trust: agent 'a' is steered by the tainted artifact 'page', and its box has a power: secret k | tainted: page ← "
     "r (untrusted: true)\n"},
    {"a whole stage behind a person",
     STAGES "  - {name: t, gate: approve, when: {artifact: page, is: y}, agents: [{name: a, run: x, secrets: [k]}, "
            "{name: b, run: x}]}\n",
     "r=untrusted: true;"},
    {"how many rounds there are",
     HEAD "stages:\n  - {name: s, agents: [{name: r, run: x, untrusted: true, outputs: [page]}]}\n"
          "  - {name: t, repeat: {max: 2, until: {artifact: page, is: y}}, agents: [{name: a, run: x, inputs: "
          "[own.txt], secrets: [k]}]}\n",
     "trust: agent 'a' is steered by the tainted artifact 'page', and its box has a power: secret k | tainted: page ← "
     "r (untrusted: true)\n"},
    {"how many rounds there are, by one of a family",
     HEAD "stages:\n  - {name: s, agents: [{name: r, run: x, untrusted: true, outputs: [{glob: 'p-*'}]}]}\n"
          "  - {name: t, repeat: {max: 2, until: {artifact: p-1, is: y}}, agents: [{name: a, run: x, inputs: "
          "[own.txt], secrets: [k]}]}\n",
     "trust: agent 'a' is steered by the tainted artifact 'p-1', and its box has a power: secret k | tainted: p-1 ← r "
     "(untrusted: true)\n"},
    {"how many rounds there are, by a source",
     HEAD "stages: [{name: t, repeat: {max: 2, until: {artifact: bad.txt, is: y}}, agents: [{name: a, run: x, inputs: "
          "[own.txt], secrets: [k]}]}]\n",
     "trust: agent 'a' is steered by the tainted artifact 'bad.txt', and its box has a power: secret k | tainted: "
     "bad.txt (untrusted source)\n"},
    {"the power is another's in the same box",
     HEAD "boxes: {lab: {}}\nagents:\n  - {name: r, run: x, untrusted: true, outputs: [page]}\n"
          "  - {name: a, run: x, box: lab, when: {artifact: page, is: y}}\n  - {name: b, run: x, box: lab, secrets: "
          "[k]}\n",
     "trust: agent 'a' is steered by the tainted artifact 'page', and its box has a power: secret k | tainted: page ← "
     "r (untrusted: true)\n"},
    {"what was cleared does not steer",
     READER "  - {name: c, run: x, inputs: [page], accept: {page: {approve: true}}, outputs: [v]}\n"
            "  - {name: a, run: x, secrets: [k], when: {artifact: v, is: y}}\n",
     "r=untrusted: true;"},
    {"what was only let in does",
     READER "  - {name: c, run: x, inputs: [page], accept: {page: {validate: {kind: json}}}, outputs: [v]}\n"
            "  - {name: a, run: x, secrets: [k], when: {artifact: v, is: y}}\n",
     "trust: agent 'a' is steered by the tainted artifact 'v', and its box has a power: secret k | tainted: v ← c ← "
     "page ← r (untrusted: true)\n"},
    {"an endpoint for the tainted is no power",
     READER "  - {name: a, run: x, endpoints: [open], when: {artifact: page, is: y}}\n", "r=untrusted: true;"},
    {"how another ended is no artifact", READER "  - {name: a, run: x, needs: [r], when: failed, secrets: [k]}\n",
     "r=untrusted: true;"},
};

#define TEST(name)                                                  \
    static void test_##name(void **state)                           \
    {                                                               \
        (void)state;                                                \
        trust_rows_check(name, sizeof(name) / sizeof(*name), NULL); \
    }
TEST(powers)
TEST(flows)
TEST(gates)
TEST(steered)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_powers),
        cmocka_unit_test(test_flows),
        cmocka_unit_test(test_gates),
        cmocka_unit_test(test_steered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
