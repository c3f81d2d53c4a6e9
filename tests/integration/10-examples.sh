#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples, as their READMEs tell them.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

# --- package-audit: real scores of real packages
expect 0 'package-audit runs' bulkhead run examples/package-audit/pipeline.yaml --source status=/var/lib/dpkg/status -q
has 'and says so' "$out" succeeded
expect 0 'the scores can be fetched' bulkhead get @latest scores.csv --to scores.csv -q
check 'at least 100 packages are scored' test "$(wc -l < scores.csv)" -gt 100
check 'libc6 leads or nearly so' grep -q '^libc6,' <(head -n 4 scores.csv)
expect 0 'the report can be fetched' bulkhead get @latest report.md --to - -q
has 'the report names libc6' "$out" '| libc6 |'
expect 0 'logs of one agent' bulkhead logs @latest -a modeling
has 'its line is there, tagged' "$out" 'modeling: '
has 'with what it said' "$out" 'dependencies scored'
expect 0 'provenance' bulkhead provenance @latest scores.csv
has 'names the producer' "$out" 'made by modeling'
has 'and the source' "$out" '/var/lib/dpkg/status'
expect 0 'explain' bulkhead explain @latest
has 'tells that all is well' "$out" 'nothing is wrong'
expect 0 'show as JSON' bulkhead show @latest -o json
same 'four agents' "$(printf '%s' "$out" | field '["agents"].__len__()')" 4
same 'each succeeded once' "$(printf '%s' "$out" | field '["agents"][2]["attempts"].__len__()')" 1
expect 0 'the placement is one shared box' bulkhead plan examples/package-audit/pipeline.yaml -o json
same 'crew' "$(printf '%s' "$out" | field '["boxes"][0]["id"]')" crew
same 'and no other' "$(printf '%s' "$out" | field '["boxes"].__len__()')" 1
expect 2 'without its source it is a usage error' bulkhead run examples/package-audit/pipeline.yaml -q
has 'that says how to give it' "$errs" '--source status=PATH'

# --- writers-room: one box, and it arrives there by itself
expect 0 'writers-room runs' bulkhead run examples/writers-room/pipeline.yaml -q
expect 0 'the article' bulkhead get @latest article.md --to - -q
has 'holds what the researcher left on the desk' "$out" '- The walls of a compartment'
expect 0 'its plan' bulkhead plan examples/writers-room/pipeline.yaml -o json
same 'one box' "$(printf '%s' "$out" | field '["boxes"].__len__()')" 1

# --- collision: at lint, and at publish
expect 6 'lint finds the collision' bulkhead lint examples/collision/pipeline.yaml
has 'names alice' "$errs" alice
has 'names bob' "$errs" bob
expect 6 'run refuses it as well' bulkhead run examples/collision/pipeline.yaml -q
expect 0 'lint cannot see the hidden one' bulkhead lint examples/collision/hidden.yaml
expect 6 'it is caught at publish' bulkhead run examples/collision/hidden.yaml -q
expect 0 'show' bulkhead show @latest -o json
shown=$out
has 'the failure names alice' "$(printf '%s' "$shown" | field '["failure"]["detail"]')" alice
has 'the failure names bob' "$(printf '%s' "$shown" | field '["failure"]["detail"]')" bob
same 'the consumer was never started' "$(printf '%s' "$shown" | field '["agents"][2]["attempts"]')" '[]'
# --- pinned-versions: silently wrong in one box, right in two, and advise finds it
if why=$(examples/pinned-versions/fetch 2>&1); then
  pinned=examples/pinned-versions
  expect 0 'pinned-versions runs in one box' bulkhead run $pinned/one-box.yaml -q
  expect 0 'and the total can be fetched' bulkhead get @latest total.txt --to - -q
  same 'it is wrong, and nobody said so' "$out" 9376.00
  expect 0 'advise on the run' bulkhead advise @latest
  has 'names the package that both want' "$out" "need different versions of npm package 'd3-format'"
  has 'and what the one found who asked for the other' "$out" "'ledger' asked for npm package 'd3-format' 1.4.5, and when it had ended there was 2.0.0"
  expect 0 'advise on the document' bulkhead advise $pinned/one-box.yaml
  has 'cites the line of the first' "$out" "one-box.yaml:13:16: 'press' installs npm package 'd3-format' 2.0.0"
  check 'its change applies' patch -s -o mended.yaml $pinned/one-box.yaml < "$work/stdout"
  same 'and is the other document' "$(tail -n +3 mended.yaml)" "$(tail -n +3 $pinned/two-boxes.yaml)"
  expect 0 'which runs in two boxes' bulkhead run $pinned/two-boxes.yaml -q
  expect 0 'and the total can be fetched' bulkhead get @latest total.txt --to - -q
  same 'it is right' "$out" 3230.40
  expect 0 'advise on that run' bulkhead advise @latest
  same 'says nothing' "$out$errs" ''
  expect 0 'nor on that document' bulkhead advise $pinned/two-boxes.yaml
  same 'says it anything' "$out$errs" ''
else
  skip_some npm "pinned-versions needs two packages: $why"
fi

# --- fix-minimist: best of five, and a judge that says which
if why=$(examples/fix-minimist/fetch 2>&1); then
  expect 0 'fix-minimist runs' bulkhead run examples/fix-minimist/pipeline.yaml -q
  expect 0 'show' bulkhead show @latest -o json
  shown=$out
  same 'one fix of five is right' "$(printf '%s' "$shown" | python3 -c 'import json, sys
tries = json.load(sys.stdin)["agents"][0]["attempts"]
print([t["attempt"] for t in tries if t["status"] == "succeeded" and t["attempt"] > 0])')" '[4]'
  expect 0 'its output has the plain name' bulkhead get @latest index.js --to - -q
  has 'and is that fix' "$out" isConstructorOrProto
  expect 0 'those of the others stay' bulkhead get @latest index.js@2 --to - -q
  lacks 'as they were' "$out" isConstructorOrProto
  for attempt in 1 2 3 5; do
    expect 0 "what the judge said to attempt $attempt" bulkhead logs @latest --attempt $attempt
    has 'is a test that failed' "$out" 'not ok 14'
    lacks 'and none of the package itself' "$out" 'not ok 144'
  done
  expect 0 'a second run' bulkhead run examples/fix-minimist/pipeline.yaml -q
  expect 0 'show' bulkhead show @latest
  has 'starts from what was prepared' "$out" found
else
  skip_some npm "fix-minimist needs minimist: $why"
fi
check 'nothing is left running' wait_for_none

# --- reader-and-writer: a reader that obeys every page, and what comes of it
if command -v python3 > /dev/null; then
  expect 0 'reader-and-writer runs' env BULKHEAD="$work/bin/bulkhead" examples/reader-and-writer/run -q
  has 'the summary is published' "$out" 'blog: POST /posts {"title": "Notes on walls", "points": ["Attempts that start'
  has 'by one call of the model' "$(grep -c '^model: ' "$work/stdout")" 1
  lacks 'and nobody else got anything' "$out" 'STOLEN'
  same 'nothing else came out' "$(grep -c '^\(model\|blog\|collector\): ' "$work/stdout")" 2
  expect 0 'its log' bulkhead logs @latest
  same 'is withheld' "$out" ''
  expect 0 'and shown when asked for' bulkhead logs @latest -a reader --content --no-prefix
  tried=$out
  has 'no credential was there' "$tried" 'print credentials: nothing that looks like one'
  has 'no way out' "$tried" 'directly: failed: URLError: <urlopen error [Errno 111] Connection refused>'
  has 'no name was found' "$tried" 'look up collect.example: failed'
  has 'the proxy said why' "$tried" 'Forbidden by bulkhead (not-listed)'
  has 'and the endpoint' "$tried" "endpoint 'model' does not allow this call"
  has 'it wrote orders' "$tried" 'write into /workspace/prompt.md: written'
  expect 0 'the log of the next agent' bulkhead logs @latest -a publisher --content
  has 'who found none' "$out" 'no orders were found'
  expect 0 'the gate of the headline' bulkhead explain @latest headline
  has 'stayed shut' "$out" "the gate for input 'headline.txt' is shut"
  expect 0 'the audit log' bulkhead audit --run @latest
  same 'has the connection that was denied' "$(grep -c 'egress .*host=collect.example .*verdict=deny' "$work/stdout")" 1
  same 'the calls that were denied' "$(grep -c 'call .*verdict=deny' "$work/stdout")" 3
  same 'both gates' "$(grep -c ' gate ' "$work/stdout")" 2
  expect 0 'it verifies' bulkhead audit verify
  lacks 'no key is in the state' "$(grep -r -l -a -e model-key-4711 -e blog-token-0815 "$BULKHEAD_HOME" || true)" /
else
  skip_some python3 'reader-and-writer needs python3'
fi
done_testing
