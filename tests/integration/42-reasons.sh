#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Why an attempt did not succeed: the whole table, in a shared box and in boxes of their own, and no two ends alike.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

# One line a row: name|what the agent has|reason|exit code|signal|part of the detail. All rows run at once, each agent in its place.
write_pipeline() { # top-level lines; the table is on fd 3
  printf 'version: 1\nname: reasons\nmax_failures: 1000\n%s\nagents:\n' "$1"
  while IFS='|' read -r name has _ _ _ _; do
    printf '  - {name: %s, %s}\n' "$name" "$has"
  done <&3
}

# Compares the last attempt of each agent of a run with its row; prints what differs.
judge() { # table; the run's JSON on stdin
  python3 -c '
import json, sys
agents = {a["name"]: (a["attempts"] or a["preparations"])[-1] for a in json.load(sys.stdin)["agents"]}
for row in open(sys.argv[1]).read().splitlines():
    name, _, reason, code, signal, detail = row.split("|")
    a = agents[name]
    got = [str(a["reason"]), str(a["exit_code"]), str(a["signal"])]
    want = [reason, code, signal]
    good = got == want and detail in (a["detail"] or "")
    good = good and (a["status"] == "succeeded") == (reason == "None")
    print("good" if good else "%s: got %s %s, wanted %s %s" % (name, got, a["detail"], want, detail))
' "$1"
}

run_table() { # description top-level-lines table
  write_pipeline "$2" 3< "$3" > p.yaml
  expect 0 "$1: the run bears its failures" bulkhead run p.yaml -q
  bulkhead show @latest -o json > run.json
  while read -r line; do
    if [ "$line" = good ]; then ok "$1: a row is exact"; else not_ok "$1" "$line"; fi
  done < <(judge "$3" < run.json)
  same "$1: every row was judged" "$(judge "$3" < run.json | wc -l)" "$(wc -l < "$3")"
}

printf 'not a program\n' > noexec
printf '#!/no/such/interpreter\n' > badinterp
printf '\1\2\3\4not a program' > badformat
chmod +x badinterp badformat
cat > table << 'TABLE'
e0|run: 'exit 0'|None|0|None|
e1|run: 'exit 1'|exit|1|None|run exited with code 1
e126|run: 'exit 126'|exit|126|None|run exited with code 126
e127|run: 'exit 127'|exit|127|None|run exited with code 127
e137|run: 'exit 137'|exit|137|None|run exited with code 137
e255|run: 'exit 255'|exit|255|None|run exited with code 255
kill|run: 'kill -9 $$'|signal|None|9|run was ended by signal 9 (SIGKILL)
segv|run: 'kill -11 $$'|signal|None|11|run was ended by signal 11 (SIGSEGV)
term|run: 'kill $$'|signal|None|15|run was ended by signal 15 (SIGTERM)
nothere|run: [nosuchcommand, x]|exit|127|None|command 'nosuchcommand' was not found in the box
nopath|run: [./nothing]|exit|127|None|command './nothing' was not found in the box
folder|run: [/usr]|exit|126|None|command '/usr': Permission denied
noexec|files: {noexec: ./noexec}, run: [./noexec]|exit|126|None|command './noexec': Permission denied
badinterp|files: {badinterp: ./badinterp}, run: [./badinterp]|exit|127|None|or the interpreter that its first line names
badformat|files: {badformat: ./badformat}, run: [./badformat]|exit|126|None|command './badformat': Exec format error
noworkdir|workdir: /nowhere, run: 'true'|exit|126|None|cannot enter the working directory
slow|timeout: {run: 1s, grace: 5s}, run: 'exec sleep 86397'|timeout(run)|None|15|run took longer than 1.0s
stubborn|timeout: {run: 1s, grace: 100ms}, run: 'trap "" TERM; while :; do sleep 86397; done'|timeout(run)|None|9|run took longer than 1.0s and did not end when asked to
stopped|timeout: {run: 1s, grace: 100ms}, run: 'kill -STOP $$'|timeout(run)|None|9|and did not end when asked to
polite|timeout: {run: 1s, grace: 5s}, run: 'trap "exit 3" TERM; sleep 86397 & wait'|timeout(run)|3|None|run took longer than 1.0s
slowsetup|timeout: {setup: 1s, grace: 5s}, setup: 'exec sleep 86397', run: 'true'|timeout(setup)|None|15|setup took longer than 1.0s
badsetup|setup: 'exit 5', run: 'true'|exit|5|None|setup exited with code 5
killedsetup|setup: 'kill -9 $$', run: 'true'|signal|None|9|setup was ended by signal 9
nosetup|setup: [nosuchcommand], run: 'true'|exit|127|None|setup could not start: command 'nosuchcommand'
TABLE
run_table 'a box each' 'topology: per-agent' table
grep -v setup table > shared
run_table 'one box' 'topology: shared-box' shared

# --- arguments and environment
python3 - << 'PY'
import json
def doc(name, agent):
    json.dump({"version": 1, "name": "t", "agents": [dict(agent, name="a")]}, open(name, "w"))
sh = ["/bin/sh", "-c", 'printf "%s\\n" $# ${#1}', "sh"]
doc("args128k.yaml", {"run": sh + ["x" * 2048] * 64})
doc("onearg.yaml", {"run": sh + ["x" * 131071]})
doc("args3m.yaml", {"run": ["/bin/true"] + ["x" * 100000] * 30})
doc("env3m.yaml", {"run": ["/bin/true"], "env": {"V%d" % i: "x" * 100000 for i in range(30)}})
doc("arg3m.yaml", {"run": ["/bin/true", "x" * 3000000]})
doc("envvalue.yaml", {"run": ["/bin/true"], "env": {"V": "x" * 200000}})
PY
last() { bulkhead show @latest -o json | field "[\"agents\"][0][\"attempts\"][-1][\"$1\"]"; }
expect 0 '128 KiB of arguments' bulkhead run args128k.yaml -q
same '  arrive' "$(bulkhead logs @latest --no-prefix | tr '\n' ' ')" '64 2048 '
expect 0 'one argument of 128 KiB' bulkhead run onearg.yaml -q
same '  arrives' "$(bulkhead logs @latest --no-prefix | tr '\n' ' ')" '1 131071 '
for what in args3m env3m; do
  expect 1 "3 MB ($what) fail the run" bulkhead run $what.yaml -q
  same '  by exit' "$(last reason)" exit
  same '  with 126' "$(last exit_code)" 126
  has '  which names the size' "$(last detail)" 'are 30'
  has '  and the limit' "$(last detail)" '2 MiB of them together and 128 KiB for one'
done
for what in arg3m envvalue; do
  expect 3 "one value that no kernel takes ($what) is invalid" bulkhead run $what.yaml
  has '  and says how much it may be' "$errs" '128 KiB'
done

# --- the end comes from outside
printed() { bulkhead logs "@latest:$1" --no-prefix 2> /dev/null | grep -q here; }
cat > p.yaml << 'YAML'
version: 1
name: lost
topology: per-agent
agents: [{name: a, run: '[ "$BULKHEAD_TRY" -gt 1 ] || { echo here; exec sleep 86397; }'}]
YAML
"$work/bin/bulkhead" run p.yaml -q > /dev/null 2>&1 &
pid=$!
check 'it runs' wait_until printed lost
read -r init _ < "$(echo "$BULKHEAD_HOME"/runs/*/boxes/*/pid)"
kill -9 "$init"
status=0
wait $pid || status=$?
same 'a box that is killed is tried again' "$status" 0
bulkhead show @latest -o json > run.json
same '  and lost' "$(field '["agents"][0]["attempts"][0]["status"]' < run.json)" lost
same '  by box-lost' "$(field '["agents"][0]["attempts"][0]["reason"]' < run.json)" box-lost
same '  without a status' "$(field '["agents"][0]["attempts"][0]["exit_code"]' < run.json)" None
same '  the next try is a success' "$(field '["agents"][0]["attempts"][1]["status"]' < run.json)" succeeded

sed -i 's/name: lost/name: cancelled/' p.yaml
"$work/bin/bulkhead" run p.yaml -q > /dev/null 2>&1 &
pid=$!
check 'another runs' wait_until printed cancelled
kill -TERM $pid # a background job of a script ignores SIGINT from its birth; this is the same act
status=0
wait $pid || status=$?
same 'an interrupted run says so' "$status" 143
bulkhead show @latest -o json > run.json
same 'an interrupted attempt is cancelled' "$(field '["agents"][0]["attempts"][0]["status"]' < run.json)" cancelled
same '  for no reason of its own' "$(field '["agents"][0]["attempts"][0]["reason"]' < run.json)" None

# --- main ends, the others are killed, what they had written is kept, in that order
cat > p.yaml << 'YAML'
version: 1
name: t
topology: per-agent
agents:
  - name: a
    run: |
      trap '' TERM
      for how in plain stopped detached; do
        case $how in
          plain) sleep 86397 & ;;
          stopped) sleep 86397 & kill -STOP $! ;;
          detached) setsid sh -c 'sleep 86397 & sleep 86397' & ;;
        esac
      done
      (while :; do echo noise; done) &
      echo out/x > out/x
      printf 'last words'
    outputs: [x]
YAML
started=$SECONDS
expect 0 'who leaves others behind ends all the same' bulkhead run p.yaml -q
check '  within 5 s' test $((SECONDS - started)) -lt 5
bulkhead logs @latest --no-prefix > log
check '  and its last words are kept' grep -q 'last words' log
check '  nothing of it lives' wait_for_none

done_testing
