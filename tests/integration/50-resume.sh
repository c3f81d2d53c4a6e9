#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Killed with SIGKILL at random moments, resumed until it ends: the right outputs, every agent succeeded exactly once, nothing left over.
# A round is a run that was killed while it lived. Usage: 50-resume.sh MODE ROUNDS crew|forks: a crew in one box, or attempts (of a
# disk and of a warm process), a judge, a gate, and what was kept for later runs.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"
rounds=$2 plan=$3

if [ "$plan" = crew ]; then
  cp /var/lib/dpkg/status "$work/status" # packages may be installed meanwhile
  submission=(examples/package-audit/pipeline.yaml --source status="$work/status")
  artifacts='scores.csv report.md'
else
  submission=(forks.yaml)
  artifacts='rows answer result'
  cat > forks.yaml << 'YAML'
version: 1
name: forks
params: {salt: {type: string, default: ""}}
agents:
  - name: pages
    untrusted: true
    run: printf '{"n":1}\n' > out/pages.jsonl
    outputs: [pages.jsonl]
  - name: reader
    inputs: [pages.jsonl]
    accept: {pages.jsonl: {validate: {kind: jsonl, max_lines: 2, command: [sh, -c, 'grep -q n "$BULKHEAD_ARTIFACT"']}, endorse: true}}
    run: cp in/pages.jsonl out/rows
    outputs: [rows]
  - name: fixer
    env: {SALT: "{{params.salt}}"}
    setup: echo tool > /usr/local/share/tool
    prepare: cat /usr/local/share/tool; seq 1000 > numbers
    attempts: {select: best, score: score, each: [{N: 1}, {N: 3}, {N: 2}]}
    run: test "$(wc -l < numbers)" = 1000; echo "$N" > out/answer
    check: {run: cp in/answer score, box: fresh}
    outputs: [answer]
  - name: warm
    inputs: [rows, answer]
    env: {SALT: "{{params.salt}}"}
    files: {server.py: ./server.py, try.py: ./try.py}
    prepare: {run: [/usr/bin/python3, server.py], warm: true}
    attempts: {count: 3, select: first-pass}
    run: [/usr/bin/python3, try.py]
    outputs: [result]
YAML
  cat > server.py << 'END'
import bulkhead
open("/workspace/state", "w").write("on disk")
bulkhead.warm().run()
END
  cat > try.py << 'END'
import os
parts = [open(name).read() for name in ("state", "in/rows", "in/answer")]
open("out/result", "w").write("".join(parts) + os.environ["BULKHEAD_ATTEMPT"])
END
fi

salt() { # N: every second run makes the states that its attempts start from, every other one finds them
  [ "$plan" = crew ] || printf -- '-p\nsalt=%d\n' $(($1 / 2))
}
submit() { # N options…: by name, so that a kill meets the program itself
  mapfile -t salted < <(salt "$1")
  shift
  "$@" "$work/bin/bulkhead" run "${submission[@]}" "${salted[@]}" -q
}

seconds() { printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)); }

mkdir want got
expect 0 'an undisturbed run' submit 0
for name in $artifacts; do bulkhead get @latest "$name" --to "want/$name" -q; done
started=$(date +%s%N)
submit 2 > /dev/null
whole=$((($(date +%s%N) - started) / 1000000 + 20))
mounts_before=$(sed 's/^[0-9]* [0-9]* //' /proc/self/mountinfo)

RANDOM=${BH_SEED:-$$}
printf '# seed %s, an undisturbed run takes %d ms\n' "${BH_SEED:-$$}" "$whole"
kills=0 unborn=0
round=0
while [ "$round" -lt "$rounds" ] && [ "$unborn" -lt $((rounds * 4)) ]; do
  before=$(bulkhead ps --all -o json | field '.__len__()')
  at=$((RANDOM % whole + 1)) status=0
  submit $((round + 4)) timeout --foreground -s KILL "$(seconds $at)" > /dev/null 2>&1 || status=$?
  if [ "$(bulkhead ps --all -o json | field '.__len__()')" = "$before" ]; then
    unborn=$((unborn + 1)) # killed before the run existed: nothing to resume
    continue
  fi
  if [ "$status" -eq 0 ]; then
    unborn=$((unborn + 1)) # it was faster
    continue
  fi
  round=$((round + 1))
  run=$(bulkhead ps --all -o json | field '[0]["run"]')
  tries=0 finished=1
  while [ "$status" -ne 0 ]; do
    tries=$((tries + 1)) kills=$((kills + 1)) status=0
    if [ "$tries" -gt 20 ]; then finished=0; break; fi
    if [ $((RANDOM % 2)) -eq 0 ]; then
      at=$((RANDOM % whole + 1))
      timeout --foreground -s KILL "$(seconds $at)" "$work/bin/bulkhead" run --resume "$run" -q > "$work/resume.log" 2>&1 || status=$?
    else
      "$work/bin/bulkhead" run --resume "$run" -q > "$work/resume.log" 2>&1 || status=$?
    fi
    # 124: it ended by itself in the moment of the kill
    if [ "$status" -ne 0 ] && [ "$status" -ne 137 ] && [ "$status" -ne 124 ]; then
      not_ok "round $round: resume ended with $status" "$(cat "$work/resume.log")"
      finished=0
      break
    fi
  done
  [ "$finished" -eq 1 ] || { not_ok "round $round: did not finish"; continue; }
  shown=$(bulkhead show "$run" -o json)
  problem=$(printf '%s' "$shown" | python3 -c '
import json, sys
run = json.load(sys.stdin)
if run["status"] != "succeeded":
    print("status", run["status"])
for agent in run["agents"]:
    for attempt in {a["attempt"] for a in agent["attempts"]}:
        tries = [a["status"] for a in agent["attempts"] if a["attempt"] == attempt]
        if tries.count("succeeded") != 1 or tries[-1] != "succeeded":
            print(agent["name"], attempt, tries)
')
  for name in $artifacts; do
    bulkhead get "$run" "$name" --to "got/$name" --force -q
    cmp -s "got/$name" "want/$name" || problem="$problem $name differs"
  done
  [ ! -e "home/runs/$run/tmp" ] || problem="$problem tmp is left"
  [ -z "$(ls "home/runs/$run/boxes" 2>/dev/null)" ] || problem="$problem boxes are left: $(cd "home/runs/$run/boxes" && find . -maxdepth 2 | tr "\n" " ")"
  [ -z "$problem" ] || not_ok "round $round" "run $run: $problem"
done
same 'as many rounds as were asked for' "$round" "$rounds"
check "$rounds rounds with $kills kills ($unborn more missed the run) ended well" test "$bad" -eq 0
expect 0 'one more run, which sweeps what never became one' submit 0
check 'no process is left' wait_for_none
same 'no mount is left' "$(sed 's/^[0-9]* [0-9]* //' /proc/self/mountinfo)" "$mounts_before"
same 'no socket or temporary file is left' "$(find home -type s -o -name '*.tmp' -o -path '*/tmp/*' | head -n 5)" ''
done_testing
