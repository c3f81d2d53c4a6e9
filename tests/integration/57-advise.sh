#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bulkhead advise on documents and on real runs: every rule speaks where it should, its change applies, and then it is silent.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

says_nothing() { # description operand
  expect 0 "$1" bulkhead advise "$2"
  same "$1: silence" "$out$errs" ''
}

# The patches of the last advice, applied to a copy; that must lint.
mend() { # file
  cp "$1" "mended-$1"
  check "the change of $1 applies" patch -s "mended-$1" < "$work/stdout"
  expect 0 "the changed $1 has no error" bulkhead lint "mended-$1"
}

# --- what is asked about
expect 2 'a file that is not there' bulkhead advise nowhere.yaml
has 'is said of the file' "$errs" "cannot read the pipeline 'nowhere.yaml'"
expect 2 'a run that is not there' bulkhead advise 01zzzz
has 'is said of the run' "$errs" "no run '01zzzz'"
expect 2 'nothing' bulkhead advise
printf 'version: 1\nname: t\nagents: [{name: a, rum: x}]\n' > bad.yaml
expect 3 'an invalid document' bulkhead advise bad.yaml
has 'has its error' "$errs" "'rum' is no key of an agent"
expect 6 'a collision' bulkhead advise examples/collision/pipeline.yaml
expect 3 'as JSON' bulkhead advise bad.yaml -o json
has 'the error is there' "$out" '"code":"unknown-key"'
says_nothing 'package-audit' examples/package-audit/pipeline.yaml
says_nothing 'writers-room' examples/writers-room/pipeline.yaml
says_nothing 'collision behind globs' examples/collision/hidden.yaml

# --- trust
cat > trust.yaml << 'YAML'
version: 1
name: trust
secrets: {deploy_key: {env: DEPLOY_KEY}}
topology: shared-box
agents:
  - name: fetch # reads the web
    untrusted: true
    secrets: [deploy_key]
    run: fetch
    outputs: [pages.jsonl]
  - {name: sum, inputs: [pages.jsonl], run: sum}
YAML
expect 5 'untrusted content beside a secret is refused' bulkhead advise trust.yaml
has 'with the error' "$errs" "agent 'fetch' is tainted and has a power: secret deploy_key"
has 'and with advice' "$out" "trust-boundary: 'fetch' reads what others wrote beside secret 'deploy_key'"
has 'that cites the line' "$out" "trust.yaml:8:15: 'fetch' holds secret 'deploy_key'"
mend trust.yaml
says_nothing 'after the change' mended-trust.yaml
expect 5 'as JSON' bulkhead advise trust.yaml -o json
same 'advice and errors are together' "$(json '["advice"][0]["rule"]'),$(json '["errors"][0]["code"]')" trust-boundary,trust

# --- the concession
cat > walls.yaml << 'YAML'
version: 1
name: walls
topology: per-agent
agents:
  - {name: a, run: echo 1 > out/a, outputs: [a]}
  - {name: b, inputs: [a], run: cat in/a > out/b, outputs: [b]}
YAML
expect 0 'separate boxes that only pass files' bulkhead advise walls.yaml
has 'are told that one would do' "$out" 'one-box: 2 agents in 2 boxes only pass files along'
mend walls.yaml
says_nothing 'after the change' mended-walls.yaml
expect 0 'a run of it' bulkhead run walls.yaml -q
expect 0 'is told the same' bulkhead advise @latest:walls -o json
same 'by rule' "$(json '["advice"][0]["rule"]')" one-box
same 'with its topology' "$(json '["advice"][0]["topology"]')" shared-box
for key in file run advice errors rule summary action agents box evidence saved_ms patch text line column agent instance time; do
  has "the answer has '$key'" "$out" "\"$key\""
done
expect 0 'from standard input' bash -c '"$1" advise - < walls.yaml' bash "$work/bin/bulkhead"
has 'it is found as well' "$out" 'one-box'
echo '# later' >> walls.yaml
expect 0 'the file has changed since' bulkhead advise @latest:walls
has 'which is said' "$errs" "'walls.yaml' has changed since this run was submitted"

# --- packages that change under others
cat > packages.yaml << 'YAML'
version: 1
name: packages
stages:
  - name: first
    agents:
      - name: a
        setup: |
          mkdir -p node_modules/x && echo '{"version": "1.0.0"}' > node_modules/x/package.json
        run: 'true'
  - name: second
    agents:
      - {name: b, keep: always, files: {meet: ./meet}, run: "sh ./meet b c && echo '{\"version\": \"2.0.0\"}' > node_modules/x/package.json && sh ./meet b2 c2"}
      - {name: c, files: {meet: ./meet}, run: sh ./meet c b && sh ./meet c2 b2}
YAML
# Both are there: each tells the other, and waits until it has been told.
cat > meet << 'SH'
touch "met-$1"
n=0
while [ ! -e "met-$2" ] && [ "$n" -lt 2000 ]; do
  n=$((n + 1))
  timeout 0.01 tail -f /dev/null
done
[ -e "met-$2" ]
SH
expect 0 'a package that changes under another agent' bulkhead run packages.yaml -q
expect 0 'advise' bulkhead advise @latest:packages
has 'tells the versions' "$out" "npm package 'x' in /workspace/node_modules was 1.0.0 and then 2.0.0"
has 'and who was there' "$out" "'c' was in box 'crew' then"
mend packages.yaml

# --- a wedge
cat > wedge.yaml << 'YAML'
version: 1
name: wedge
boxes: {crew: {limits: {disk: 20MiB}}}
agents:
  - {name: fine, files: {meet: ./meet}, run: sh ./meet fine hog && tail -f /dev/null}
  - {name: hog, files: {meet: ./meet}, run: "sh ./meet hog fine && for i in 1 2 3 4 5 6 7 8; do head -c 8000000 /dev/zero > big$i; done; tail -f /dev/null"}
YAML
expect 1 'one agent fills the disk of all' bulkhead run wedge.yaml -q
expect 0 'advise' bulkhead advise @latest:wedge
has 'tells of the wedge' "$out" 'shared-wedge: '
has 'cites the one' "$out" "'hog' "
has 'and the other, with the reason' "$out" 'disk-full'
has 'misses the timeouts' "$out" "'fine' has no timeout of its own"
mend wedge.yaml

# --- whose is it
cat > producer.yaml << 'YAML'
version: 1
name: producer
agents:
  - {name: owner, files: {meet: ./meet}, run: "sh ./meet owner other && echo mine > out/o && sh ./meet owner2 other2", outputs: [o]}
  - name: other
    timeout: 1m
    files: {meet: ./meet}
    run: |
      sh ./meet other owner
      exec 3>> out/o
      echo yours >&3
      sh ./meet other2 owner2
      timeout 2 tail -f /dev/null || true
YAML
expect 6 'an output that another writes to' bulkhead run producer.yaml -q
expect 0 'advise' bulkhead advise @latest:producer
has 'tells of it' "$out" "unknown-producer: 'o' of 'owner'"
has 'and who was there' "$out" "'other'"
mend producer.yaml

# --- one setup over and over: in a shared box, and in boxes of their own that differ by a variable
cat > setups.yaml << 'YAML'
version: 1
name: setups
agents:
  - {name: a, setup: timeout 1.2 tail -f /dev/null || true, run: echo 1 > out/a, outputs: [a]}
  - {name: b, setup: timeout 1.2 tail -f /dev/null || true, run: echo 2 > out/b, outputs: [b]}
YAML
cat > variables.yaml << 'YAML'
version: 1
name: variables
topology: per-agent
agents:
  - {name: a, setup: timeout 1.3 tail -f /dev/null || true, env: {SEED: one}, run: echo $SEED > out/a, outputs: [a]}
  - {name: b, setup: timeout 1.3 tail -f /dev/null || true, env: {SEED: two}, run: echo $SEED > out/b, outputs: [b]}
YAML
for name in setups variables; do
  expect 0 "two agents with one setup ($name)" bulkhead run $name.yaml -q
  expect 0 'advise as JSON' bulkhead advise @latest:$name -o json
  same 'the rule' "$(json '["advice"][0]["rule"]')" repeated-setup
  same 'calls for forks' "$(json '["advice"][0]["topology"]')" per-attempt
  check 'a second would have been saved' test "$(json '["advice"][0]["saved_ms"]')" -ge 1000
  check 'and not two' test "$(json '["advice"][0]["saved_ms"]')" -lt 2600
  expect 0 'advise as text' bulkhead advise @latest:$name
  has 'says how much' "$out" 'a snapshot would have saved 1.'
  mend $name.yaml
  expect 0 'the changed document runs' bulkhead run mended-$name.yaml -q
  says_nothing 'after the change' @latest:$name
done
expect 0 'what was a variable is one still' bulkhead get @latest b --to - -q
same 'of its own agent' "$out" two

check 'nothing is left running' wait_for_none
done_testing
