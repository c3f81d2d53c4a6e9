#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Interrupts: once cancels, twice kills; nobody outlives bulkhead; the run can be resumed.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

cat > p.yaml << 'YAML'
version: 1
name: t
agents:
  - {name: first, run: 'echo 1 > out/x', outputs: [x]}
  - {name: second, inputs: [x], timeout: {run: 1h, grace: 1h}, run: 'trap "" TERM; echo up; while :; do sleep 86396; done'}
YAML
sed 's/trap "" TERM; //' p.yaml > polite.yaml

start() { # file: starts a run and waits until its second agent runs; $pid, $run
  rm -f progress
  mkfifo progress
  "$work/bin/bulkhead" run "$1" > run.out 2> progress &
  pid=$!
  while read -r line; do
    case "$line" in
      'run '*) run=${line#run } run=${run%%:*} ;;
      'running'*second*) break ;;
    esac
  done < <(cat progress)
  while [ "$(bulkhead logs "$run" -a second --no-prefix)" != up ]; do pause; done
}

ended() { # wanted status, description
  local got=0
  wait "$pid" || got=$?
  same "$2" "$got" "$1"
}

for pair in INT:130 TERM:143 HUP:129; do
  signal=${pair%:*}
  start polite.yaml
  kill -s "$signal" "$pid"
  ended "${pair#*:}" "SIG$signal ends it with ${pair#*:}"
  expect 0 '  following its log ends' timeout 20 "$work/bin/bulkhead" logs "$run" -f
  expect 0 '  explain' bulkhead explain "$run" second
  has '  does not say that it was not started' "$out" 'stopped while it ran: the run was cancelled'
  same '  the run is cancelled' "$(bulkhead show "$run" -o json | field '["status"]')" cancelled
  same '  what had succeeded stays' "$(bulkhead show "$run" -o json | field '["agents"][0]["status"]')" done
done

start p.yaml
expect 2 'a run that another process owns is not taken' bulkhead run --resume "$run"
has 'and says so' "$errs" 'another process'
while kill -s INT "$pid" 2> /dev/null; do # two that come at once are one
  read -r -t 0.05 -u 9 _ || [ $? -gt 128 ]
done
ended 130 'two interrupts kill what ignores SIGTERM'
same '  the run is cancelled' "$(bulkhead show "$run" -o json | field '["status"]')" cancelled
check 'nothing is left running' wait_for_none

start p.yaml
kill -s KILL "$pid"
ended 137 'SIGKILL ends it at once'
check 'and its boxes die with it' wait_for_none
expect 0 'following the log of a run whose process is gone ends' timeout 20 "$work/bin/bulkhead" logs "$run" -f
expect 0 'ps calls it abandoned' bulkhead ps -o json
same 'abandoned' "$(printf '%s' "$out" | field '[0]["abandoned"]')" True
expect 0 'explain says what to do' bulkhead explain "$run"
has 'resume' "$out" '--resume'

done_testing
