#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which attempt becomes the agent's result, under which names, and what a person is told of it. Usage: 56-choice.sh MODE.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

shown() { # expression over the JSON of the last run
  bulkhead show @latest -o json | field "$1"
}

selected() { # agent index: numbers of the attempts that are selected
  shown "[\"agents\"][$1][\"attempts\"]" > attempts.py
  python3 -c 'print(*[a["attempt"] for a in eval(open("attempts.py").read()) if a["selected"]])'
}

names() { # what is on the bus of the last run, sorted
  bulkhead artifacts @latest -o json | python3 -c 'import json,sys; print(*sorted(a["name"] for a in json.load(sys.stdin)))'
}

# --- best: numbers, ties, and what is no number ---

cat > best.yaml << 'YAML'
version: 1
name: best
topology: per-agent
agents:
  - name: most
    attempts: {select: best, score: marks/score, each: [{S: '0.5'}, {S: '2.5e3'}, {S: '-7'}, {S: '2500'}]}
    run: mkdir marks; echo 99999 > marks/score; echo "$S" > out/s
    check: {run: 'echo $(cat out/s) > marks/score'}
    outputs: [s]
  - name: least
    attempts: {select: best, score: score, order: min, each: [{S: ' 3 '}, {S: '-1.5'}, {S: 'nan'}, {S: '1e999'}, {S: ''}, {S: '0x1'}, {S: '-9 -9'}, {S: 'inf'}]}
    run: echo "$S" > score; echo "$S" > out/l
    outputs: [l]
  - name: none
    on_failure: continue
    attempts: {count: 3, select: best, score: score}
    run: test "$BULKHEAD_ATTEMPT" != 2; echo nothing > out/n
    outputs: [n]
YAML
expect 0 'the best of several' bulkhead run best.yaml -q
same 'the greatest number wins, of equal ones the lower attempt' "$(selected 0)" 2
same '  what the check left counts, not what the agent did' "$(shown '["agents"][0]["attempts"][0]["score"]')" 0.5
same 'the least number wins, and what is no finite decimal does not compete' "$(selected 1)" 2
same '  it has no score' "$(shown '["agents"][1]["attempts"][2]["score"]')" None
same '  and has passed all the same' "$(shown '["agents"][1]["attempts"][3]["status"]')" succeeded
same 'without any score nobody is taken' "$(selected 2)" ''
same '  and the agent fails by its check' "$(shown '["agents"][2]["reason"]')" check
same '  but its outputs can be read' "$(bulkhead get @latest n@3 --to -)" nothing
same 'the chosen ones have the plain names' "$(bulkhead get @latest s --to -) $(bulkhead get @latest l --to -)" '2.5e3 -1.5'
has 'show has the scores' "$(bulkhead show @latest)" 'SCORE'

cat > nobody.yaml << 'YAML'
version: 1
name: nobody
agents:
  - name: gen
    attempts: {count: 2, select: best, score: marks/n}
    run: mkdir marks; echo many > marks/n
YAML
expect 1 'nobody has a score' bulkhead run nobody.yaml
has '  its line says by what it failed' "$(grep '^failed  *gen' <<< "$errs")" ' check'
has '  and the remedy what to write' "$(shown '["failure"]["remedy"]')" "write one number to 'marks/n'"

# --- what explain says leads to the attempt it is said of ---

cat > lead.yaml << 'YAML'
version: 1
name: lead
topology: per-agent
max_failures: 9
agents:
  - name: gen
    attempts: 3
    run: echo "$BULKHEAD_ATTEMPT" > mine; echo "FileNotFoundError $BULKHEAD_ATTEMPT"; test "$BULKHEAD_ATTEMPT" = 3
  - name: pre
    prepare: echo half > made; exit 4
    attempts: 2
    run: 'true'
YAML
expect 0 'attempts that fail' bulkhead run lead.yaml -q
lead=$(bulkhead explain @latest gen)
run=$(shown '["run"]')
for k in 1 2; do
  has "the log of attempt $k is asked for" "$lead" "bulkhead logs $run -a gen --attempt $k --tail 20"
  has '  and its box' "$lead" "bulkhead diff $run gen --attempt $k'"
  has '  and a fork of it' "$lead" "bulkhead shell $run gen --attempt $k'"
  has '  which is its own' "$(bulkhead diff "$run" gen --attempt $k --content)" "+$k"
done
lacks 'a file that is not there is no network' "$lead" 'no network'
lead=$(bulkhead explain @latest pre)
has 'what a preparation wrote is asked for' "$lead" "bulkhead logs $run -a pre --attempt 0 --tail 20"
expect 2 'logs of an attempt that is none' bulkhead logs "$run" -a gen --attempt 7
has '  say so' "$errs" "'gen' has no attempt 7"
expect 2 '  as diff does' bulkhead diff "$run" gen --attempt 7
expect 2 'logs of a preparation that is none' bulkhead logs "$run" -a gen --attempt 0
has '  say so' "$errs" "'gen' has no preparation"

for phase in check prepare; do
  printf 'version: 1\nname: late\nagents: [{name: a, attempts: 2, run: "true", %s: "sleep 60", timeout: {%s: 200ms}}]\n' $phase $phase > late.yaml
  expect 1 "$phase that takes too long" bulkhead run late.yaml -q
  has '  its limit is to be raised' "$(shown '["failure"]["remedy"]')" "raise 'timeout.$phase'"
done

# --- first-pass without stop_losers does not depend on who is faster ---

cat > first.yaml << 'YAML'
version: 1
name: first
agents:
  - name: a
    attempts: 4
    prompt: "You are number {{attempt}}."
    env: {SLOW: "0.{{attempt}}"}
    run: [/bin/sh, -ceu, 'sleep $(python3 -c "print(0.5-$SLOW)"); cat > "out/said-{{attempt}}"; test {{attempt}} != 1']
    outputs: ["said-{{attempt}}"]
  - name: one
    check: 'test -f /workspace/out/x'
    run: echo x > out/x
    outputs: [x]
YAML
expect 0 'the first of four' bulkhead run first.yaml
same 'is the lowest that passed, though the last was the fastest' "$(selected 0)" 2
same 'its number is in its names and texts' "$(bulkhead get @latest said-2 --to -)" 'You are number 2.'
same 'all of them are there' "$(names)" 'said-2 said-2@2 said-3@3 said-4@4 x'
has 'show says who was selected' "$(bulkhead show @latest)" 'a: attempt 2; 3 of 4 attempts passed'
has 'explain too' "$(bulkhead explain @latest a)" 'attempt 2 was selected; 3 of 4 passed'
same 'logs of one attempt are of it alone' "$(bulkhead logs @latest -a a --attempt 3 -o json | wc -l)" 0

# --- all, for an agent that judges ---

cat > all.yaml << 'YAML'
version: 1
name: all
agents:
  - name: writer
    attempts: {count: 3, select: all, min_success: 2}
    run: test "$BULKHEAD_ATTEMPT" != 2; echo "draft $BULKHEAD_ATTEMPT" > out/draft
    outputs: [draft]
  - name: judge
    inputs: ['draft@*']
    run: cat in/draft@* > out/draft
    outputs: [draft]
YAML
expect 0 'all who passed go to a judge' bulkhead run all.yaml -q
same 'who has the plain name' "$(bulkhead get @latest draft --to -)" "$(printf 'draft 1\ndraft 3')"
same 'every one that passed is selected' "$(selected 0)" '1 3'
has '  show names each' "$(bulkhead show @latest)" 'writer: attempts 1, 3; 2 of 3 attempts passed'
has '  so does explain' "$(bulkhead explain @latest writer)" 'attempts 1, 3 were selected; 2 of 3 passed'
sed 's/min_success: 2/min_success: 3/' all.yaml > three.yaml
expect 1 'too few that passed' bulkhead run three.yaml
has '  says how many' "$errs" '2 of 3 attempts passed, 3 had to (1 by exit); attempt 2: run exited with code 1'
has '  so does show' "$(bulkhead show @latest)" '2 of 3 attempts passed, 3 had to'

# --- names that belong to another ---

cat > clash.yaml << 'YAML'
version: 1
name: clash
topology: per-agent
max_failures: 1
agents:
  - name: quick
    run: echo q > out/page
    outputs: [page]
  - name: late
    needs: [quick]
    attempts: 2
    run: echo "l$BULKHEAD_ATTEMPT" > out/page
    outputs: [{glob: 'p*'}]
YAML
expect 0 'a name that is taken' bulkhead run clash.yaml -q
same '  makes the choice a collision' "$(shown '["agents"][1]["reason"]')" collision
same '  nobody is selected' "$(selected 1)" ''
same '  the owner keeps the name' "$(bulkhead get @latest page --to -)" q
same '  and every attempt its own' "$(names)" 'page page@1 page@2'
clash=$(bulkhead explain @latest late)
has '  explain names it' "$clash" 'late: failed'

# --- a person resumes: who passed is not run again ---

cat > again.yaml << 'YAML'
version: 1
name: again
agents:
  - name: a
    prepare: date +%s%N > made
    attempts: {count: 3, min_success: 3}
    run: cat made > out/m; test "$BULKHEAD_TRY" -gt 1 || test "$BULKHEAD_ATTEMPT" != 2
    outputs: [m]
YAML
expect 1 'one of three fails' bulkhead run again.yaml -q
run=$(shown '["run"]')
expect 0 'the run goes on' bulkhead run --resume "$run" -q
same 'only that one ran again' "$(shown '["agents"][0]["attempts"]' | python3 -c 'import sys; print(*["%d/%d" % (a["attempt"], a["try"]) for a in eval(sys.stdin.read())])')" '1/1 2/1 2/2 3/1'
same 'from the same state' "$(for i in 1 2 3; do bulkhead get @latest m@$i --to -; done | sort -u | wc -l)" 1
same '  as show says' "$(shown '["agents"][0]["snapshot"]["equal"]')" True

# --- what cannot be ---

while IFS='|' read -r attempts part; do
  printf 'version: 1\nname: t\nagents: [{name: a, run: "true", attempts: %s}]\n' "$attempts" > bad.yaml
  expect 3 "attempts: $attempts is refused" bulkhead lint bad.yaml
  has '  with what is wrong' "$errs" "$part"
done << 'TABLE'
0|out of range
-1|out of range
10001|out of range
{each: []}|asks for no attempt at all
{count: 0}|out of range
{count: 2, each: [{A: b}]}|'each' beside 'count'
{count: 2, select: best}|'select: best' needs 'score'
{count: 2, min_success: 3}|3 of 2 attempts cannot succeed
TABLE
printf 'version: 1\nname: t\nagents: [{name: a, run: "true", attempts: 2, prepare: [echo, "{{attempt}}"]}]\n' > bad.yaml
expect 3 'what is made once has no number' bulkhead lint bad.yaml
has '  and is told so' "$errs" 'all attempts start from the same state'
printf 'version: 1\nname: t\nagents: [{name: a, run: "true", check: "true", box: b}]\nboxes: {b: {}}\n' > bad.yaml
expect 3 'a shared box has no check' bulkhead lint bad.yaml
has '  because all of its processes must be dead' "$errs" "cannot hold agent 'a': it has a 'check'"

# --- many ---

printf 'version: 1\nname: many\nagents: [{name: a, run: "true", attempts: {count: 150, min_success: 150}}]\n' > many.yaml
expect 0 'a hundred and fifty attempts' bulkhead run many.yaml -q
same 'each ran once' "$(shown '["agents"][0]["attempts"].__len__()')" 150

done_testing
