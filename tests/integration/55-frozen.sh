#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A shared box is frozen at each stage end (without stages: after each success), and a resumed run starts from the newest frozen state.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

kill_when() { # agent line: starts p.yaml, kills bulkhead when the agent has printed the line; $run
  start_run p.yaml
  until last_line_is "$run" "$1" "$2"; do pause; done
  kill_run
}

cat > p.yaml << 'YAML'
version: 1
name: stages
stages:
  - name: one
    agents:
      - {name: a, run: 'echo kept > scratch; mkdir d; echo x > d/gone; echo 1 > out/a', outputs: [a]}
      - {name: b, run: 'echo b', outputs: []}
  - name: two
    agents:
      - name: c
        run: |
          cat scratch; test -e d/gone; rm -r d; echo late > newer; echo up
          if [ "$BULKHEAD_TRY" = 1 ]; then while :; do sleep 86395; done; fi
          cat in/a > out/c
        outputs: [c]
        inputs: [a]
        needs: [b] # or it may be in the box already when the stage ends, which is not frozen then
  - name: three
    agents: [{name: d, inputs: [c], run: 'cat scratch > out/d; test ! -e d; test -e newer; ls in > out/e', outputs: [d, e]}]
YAML
kill_when c up
expect 0 'resumed from the freeze at the end of stage one' bulkhead run --resume "$run" -q
same 'what had succeeded was not run again' "$(bulkhead show "$run" -o json | field '["agents"][0]["attempts"].__len__()')" 1
statuses=$(bulkhead show "$run" -o json | python3 -c 'import json,sys; print(*[a["status"] for a in json.load(sys.stdin)["agents"][2]["attempts"]])')
same 'what was lost was' "$statuses" 'lost succeeded'
expect 0 'the last stage saw the frozen state and what came after it' bulkhead get "$run" d --to - -q
same 'kept' "$out" kept
expect 0 'explain tells of the lost try' bulkhead explain "$run" c
has 'with its reason' "$out" 'lost'
expect 0 'a run whose agents published several outputs is taken up again' bulkhead run --resume "$run" -q
check 'nothing is left of the layers of a run that succeeded' test ! -e "home/runs/$run/layers"

cat > p.yaml << 'YAML'
version: 1
name: flow
agents:
  - {name: a, run: 'echo 1 >> trail; echo 1 > out/a', outputs: [a]}
  - {name: b, inputs: [a], run: 'echo 2 >> trail; echo 2 > out/b', outputs: [b]}
  - {name: c, inputs: [b], run: 'cat trail; echo 3 >> trail; echo up; if [ "$BULKHEAD_TRY" = 1 ]; then while :; do sleep 86395; done; fi; cp trail out/c', outputs: [c]}
YAML
kill_when c up
expect 0 'without stages each success is a freeze' bulkhead run --resume "$run" -q
expect 0 'the trail' bulkhead get "$run" c --to - -q
same 'holds what had succeeded, and the lost try left no trace' "$out" $'1\n2\n3'

# --- a chain of many freezes
{
  printf 'version: 1\nname: chain\nagents:\n  - {name: a0, run: "echo 0 > f0; echo x > out/o0", outputs: [o0]}\n'
  for ((i = 1; i <= 70; i++)); do
    printf '  - {name: a%d, inputs: [o%d], run: "test -e f%d; rm f%d; echo %d > f%d; echo x > out/o%d", outputs: [o%d]}\n' \
      "$i" $((i - 1)) $((i - 1)) $((i - 1)) "$i" "$i" "$i" "$i"
  done
} > p.yaml
expect 0 'seventy freezes in a row' bulkhead run p.yaml -q
check 'nothing is left running' wait_for_none
done_testing
