#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Labels from the document to the box: what lint, plan and run say of them, with which status, and what an agent of a tainted box is
# told. Usage: 61-labels.sh MODE
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

# Lint, plan and run refuse it, with this status, these words and these of the detail.
refused() { # status what words detail
  for verb in lint plan run; do
    expect "$1" "$verb refuses $2" bulkhead "$verb" p.yaml
    has '  and says what' "$errs" "$3"
    has '  and by which way' "$errs" "$4"
  done
  expect 0 'no run was made' bulkhead ps --all -o json
  same '  at all' "$out" '[]'
}

document() { # the rest of it, on stdin
  printf 'version: 1\nname: labels\n' > p.yaml
  cat >> p.yaml
}

printf 'not ours\n' > bad.txt
printf 'only ours\n' > mine.txt

# --- what is refused
document << 'YAML'
secrets: {k: {env: HOME}}
agents:
  - {name: reader, untrusted: true, run: "true", outputs: [page]}
  - {name: writer, run: "true", inputs: [page], outputs: [text]}
  - {name: publisher, run: "true", inputs: [text], secrets: [k]}
YAML
refused 5 'a power behind a reader' "agent 'publisher' is tainted and has a power: secret k" \
  'tainted: text ← writer ← page ← reader (untrusted: true)'
expect 5 'as JSON' bulkhead lint p.yaml -o json
same '  the code' "$(json '["errors"][0]["code"]')" trust
same '  the place' "$(json '["errors"][0]["path"]')" 'agents[2]'

document << 'YAML'
sources: {bad.txt: {file: bad.txt, untrusted: true}, mine.txt: {file: mine.txt, private: true}}
agents:
  - {name: both, run: "true", inputs: [bad.txt, mine.txt], network: public}
YAML
refused 5 'the three in one box' "box 'both' holds private data and untrusted content and has a way out: network public" \
  "private: agent 'both', mine.txt (private source); tainted: agent 'both', bad.txt (untrusted source)"

document << 'YAML'
secrets: {k: {env: HOME}}
agents:
  - {name: reader, untrusted: true, run: "true", outputs: [page]}
  - {name: publisher, run: "true", secrets: [k], when: {artifact: page, is: go}}
YAML
refused 5 'what is steered, whatever else is not supported' "agent 'publisher' is steered by the tainted artifact 'page'" \
  'tainted: page ← reader (untrusted: true)'
expect 5 'advise says it too' bulkhead advise p.yaml
has '  and what to do' "$errs" "hint: let 'page' in by 'accept'"

document << 'YAML'
agents: [{name: a, run: "true", network: {allow: ["169.254.169.254:80"]}}]
YAML
refused 5 'the metadata service' "the network '169.254.169.254:80' is not public: metadata" 'allow: {ranges:'
for entry in '*' '*.' 'example.org' 'http://example.org:80' '0177.0.0.1:80' '0x7f000001:80'; do
  document << YAML
agents: [{name: a, run: "true", network: {allow: ["$entry"]}}]
YAML
  expect 3 "'$entry' in an allow-list is malformed" bulkhead lint p.yaml
  has '  and named' "$errs" "'$entry' "
done

# --- what runs
document << 'YAML'
params:
  topic: {type: string, default: cats}
  other: {type: string, default: not-for-all}
sources:
  bad.txt: {file: bad.txt, untrusted: true}
  mine.txt: {file: mine.txt, private: true}
stages:
  - name: gather
    agents:
      - name: reader
        untrusted: true
        env: {TOPIC: "{{params.topic}}"}
        run: env | grep ^BULKHEAD_PARAM_ > out/told; cat params.json >> out/told
        outputs: [told]
      - {name: own, inputs: [mine.txt], run: "cat params.json > out/all", outputs: [all]}
  - name: use
    agents:
      - {name: sum, inputs: [told, bad.txt], run: "cat in/.provenance.json > out/ways", outputs: [ways]}
      - {name: rest, run: "ls in > out/seen", outputs: [seen]}
YAML
expect 0 'its plan' bulkhead plan p.yaml
has 'labels the sources' "$out" '  bad.txt: tainted (untrusted: true)'
has 'also private ones' "$out" '  mine.txt: trusted, private'
has 'says of an agent why' "$out" '  sum [use]: box sum, tainted (bad.txt (untrusted source))'
has 'of what it reads' "$out" '    reads told (tainted), bad.txt (tainted)'
has 'of what it makes' "$out" '    writes ways (tainted)'
has 'what is left out' "$out" '    left out (tainted, not named): told'
has 'how private data came to one who shares the box' "$out" 'private (shares a box with own ← mine.txt (private source))'
has 'and what a tainted one is told' "$out" '    parameters that it is told: topic'
expect 0 'as a graph' bulkhead plan p.yaml --format dot
has 'it is coloured' "$out" '[label="sum\ntainted", color=red]'
has 'along the edges as well' "$out" '[style=solid, color=red]'
has 'with what is left out' "$out" '\nleft out: told"'
expect 0 'as another one' bulkhead plan p.yaml --format mermaid
has 'it has a class' "$out" '["sum<br/>tainted"]:::tainted'
has 'and what is left out' "$out" '<br/>left out: told"'
expect 0 'as JSON' bulkhead plan p.yaml -o json
same 'inputs that are tainted' "$(json '["agents"][2]["tainted_inputs"]')" "['told', 'bad.txt']"
same 'a source' "$(json '["sources"][0]["label"]')" tainted
same 'why it is private' "$(json '["agents"][1]["private_why"]')" 'mine.txt (private source)'

expect 0 'it runs' bulkhead run p.yaml
for name in told all ways seen; do bulkhead get @latest "$name" --to "$name" 2> /dev/null; done
same 'the reader is told what its keys name' "$(cat told)" 'BULKHEAD_PARAM_TOPIC=cats
{"topic":"cats"}'
same 'others are told all' "$(cat all)" '{"topic":"cats","other":"not-for-all"}'
same 'a tainted artifact is seen by who names it' "$(cat seen)" 'all'
has 'with its way beside it' "$(cat ways)" 'untrusted: true'
expect 0 'what was published' bulkhead artifacts @latest -o json
same 'has its label' "$(json '[0]["label"]+" "+v[0]["name"]')" 'trusted all'
same 'private' "$(printf '%s' "$out" | python3 -c 'import json,sys; print([a["name"] for a in json.load(sys.stdin) if a["private"]])')" \
  "['all', 'mine.txt', 'seen']"
same 'tainted' "$(printf '%s' "$out" | python3 -c 'import json,sys; print([a["name"] for a in json.load(sys.stdin) if a["label"] == "tainted"])')" \
  "['bad.txt', 'told', 'ways']"
printf 'version: 1\nname: again\nsources: {got: {file: told}}\nagents: [{name: a, run: "true", inputs: [got]}]\n' > again.yaml
expect 0 'what was fetched and handed in again, in a plan' bulkhead plan again.yaml
has 'is tainted still' "$out" '  got: tainted (an earlier run knows its content)'
has 'and so is who reads it' "$out" '  a: box a, tainted (got (source with tainted content))'
expect 0 'where no run knows it' bulkhead --home "$work/nowhere" plan again.yaml
has 'it is not' "$out" '  got: trusted'
check 'and no state is made' test ! -e "$work/nowhere"
expect 0 'its provenance' bulkhead provenance @latest seen -o json
has 'says why it is private' "$out" '"private":"shares a box with own ← mine.txt (private source)"'

done_testing
