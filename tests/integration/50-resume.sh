#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Killed with SIGKILL at random moments, resumed until it ends: the right outputs, every agent succeeded exactly once, nothing left over.
# A round is a run that was killed while it lived. Usage: 50-resume.sh MODE ROUNDS
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"
rounds=$2
cp /var/lib/dpkg/status "$work/status" # packages may be installed meanwhile

expect 0 'an undisturbed run' bulkhead run examples/package-audit/pipeline.yaml --source status="$work/status" -q
bulkhead get @latest scores.csv --to want.csv -q
bulkhead get @latest report.md --to want.md -q
started=$(date +%s%N)
bulkhead run examples/package-audit/pipeline.yaml --source status="$work/status" -q > /dev/null
whole=$((($(date +%s%N) - started) / 1000000 + 20))
mounts_before=$(sed 's/^[0-9]* [0-9]* //' /proc/self/mountinfo)

RANDOM=${BH_SEED:-$$}
printf '# seed %s, an undisturbed run takes %d ms\n' "${BH_SEED:-$$}" "$whole"
kills=0 unborn=0
round=0
while [ "$round" -lt "$rounds" ] && [ "$unborn" -lt $((rounds * 4)) ]; do
  before=$(bulkhead ps --all -o json | field '.__len__()')
  at=$((RANDOM % whole + 1)) status=0
  timeout --foreground -s KILL "0.$(printf '%03d' $((at % 1000)))" "$work/bin/bulkhead" run examples/package-audit/pipeline.yaml \
    --source status="$work/status" -q > /dev/null 2>&1 || status=$?
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
      timeout --foreground -s KILL "0.$(printf '%03d' $((at % 1000)))" "$work/bin/bulkhead" run --resume "$run" -q > "$work/resume.log" 2>&1 || status=$?
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
    good = [a for a in agent["attempts"] if a["status"] == "succeeded"]
    if len(good) != 1 or agent["attempts"][-1]["status"] != "succeeded":
        print(agent["name"], [a["status"] for a in agent["attempts"]])
')
  bulkhead get "$run" scores.csv --to got.csv --force -q
  bulkhead get "$run" report.md --to got.md --force -q
  cmp -s got.csv want.csv || problem="$problem scores differ"
  cmp -s got.md want.md || problem="$problem report differs"
  [ ! -e "home/runs/$run/tmp" ] || problem="$problem tmp is left"
  [ -z "$(ls "home/runs/$run/boxes" 2>/dev/null)" ] || problem="$problem boxes are left"
  [ -z "$problem" ] || not_ok "round $round" "run $run: $problem"
done
same 'as many rounds as were asked for' "$round" "$rounds"
check "$rounds rounds with $kills kills ($unborn more missed the run) ended well" test "$bad" -eq 0
expect 0 'one more run, which sweeps what never became one' bulkhead run examples/package-audit/pipeline.yaml --source status="$work/status" -q
check 'no process is left' wait_for_none
same 'no mount is left' "$(sed 's/^[0-9]* [0-9]* //' /proc/self/mountinfo)" "$mounts_before"
same 'no socket or temporary file is left' "$(find home -type s -o -name '*.tmp' -o -path '*/tmp/*' | head -n 5)" ''
done_testing
