#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Attempts from one frozen state: made once, found again by later runs and by equal setups, never used when it was touched; and what
# happens to one attempt happens to no other. Usage: 58-attempts.sh MODE.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

rows() { # run: "TRY STATUS REASON" of each execution of `fixer`
  bulkhead show "$1" | awk '/^AGENT/ {on = 1; next} /^$/ {on = 0} on {print $4, $5, $6}'
}

states() { # run: how many kept states there are of it, and how they were come by
  rows "$1" | awk '$1 == "setup" || $1 == "prepare" {print $1, $2}'
}

said() { # run agent text
  bulkhead logs "$1" -a "$2" --no-prefix 2> /dev/null | grep -qF "$3"
}

# --- one dies of everything, the others run on ---

cat > reasons.yaml << 'YAML'
version: 1
name: reasons
agents:
- name: fixer
  setup: echo tool > /usr/local/share/tool
  prepare: cat /usr/local/share/tool; echo prepared > state; mkdir deep; seq 1000 > deep/numbers
  attempts:
    select: first-pass
    each: [{DIE: exit}, {DIE: signal}, {DIE: timeout}, {DIE: missing}, {DIE: check}, {DIE: disk}, {DIE: pids}, {DIE: none}, {DIE: none}]
  limits: {disk: 16MiB, pids: 64}
  timeout: {run: 30s, grace: 500ms}
  run: |
    test "$(cat state /usr/local/share/tool deep/numbers | wc -l)" = 1002
    rm -r deep; echo changed > state
    echo "$DIE $BULKHEAD_ATTEMPT" > out/answer
    case $DIE in
      exit) exit 3 ;;
      signal) kill -9 $$ ;;
      timeout) trap 'exit 1' TERM; echo waits; while :; do sleep 0.1; done ;;
      missing) rm out/answer ;;
      disk) head -c 100M /dev/zero > big ;;
      pids) i=0; while [ $i -lt 100 ]; do sleep 100 & i=$((i+1)); done ;;
    esac
  check: {run: 'test "$DIE" != check && test "$(cat state)" = prepared', box: fresh}
  outputs: [answer]
YAML
sed -i 's/run: 30s/run: 3s/' reasons.yaml
expect 0 "a run of nine attempts, seven of which die, succeeds" bulkhead run reasons.yaml
pids=$(rows @latest | awk '$1 == "7/1" {print $3}')
case $pids in pids | exit) ok "too many processes end the attempt that made them" ;; *) not_ok "too many processes" "reason: $pids" ;; esac
same "each dies of its own reason" "$(rows @latest | grep -v '^7/1')" \
"setup succeeded -
prepare succeeded -
1/1 failed exit
2/1 failed signal
3/1 failed timeout(run)
4/1 failed output-missing
5/1 failed check
6/1 failed disk-full
8/1 selected -
9/1 succeeded -"
out=$(bulkhead show @latest)
has "all started from one frozen state" "$out" "all 9 attempts started from sha256:"
digest=$(printf '%s\n' "$out" | grep -o 'sha256:[0-9a-f]*' | head -n 1)
same "the lowest that passed has the plain name" "$(bulkhead get @latest answer --to -)" "none 8"
same "the other one is readable by its number" "$(bulkhead get @latest answer@9 --to -)" "none 9"
same "one that was refused by its check, too" "$(bulkhead get @latest answer@5 --to -)" "check 5"

# --- found again ---

sed -e 's/{DIE: exit}.*{DIE: none}\]/{DIE: none}]/' reasons.yaml > again.yaml
expect 0 "a later run starts from the same state" bulkhead run again.yaml
same "and runs neither setup nor preparation" "$(states @latest)" "setup found
prepare found"
has "the state is the same" "$(bulkhead show @latest)" "$digest"
sed -e 's/seq 1000/seq 1001/' -e 's/= 1002/= 1003/' again.yaml > other.yaml
expect 0 "another preparation is made" bulkhead run other.yaml
same "on the same setup" "$(states @latest)" "setup found
prepare succeeded"

# --- touched ---

spoil() { # file below a snapshot: in each that has it
  local f hit=0
  for f in "$work"/home/snapshots/*/"$1"; do
    [ -e "$f" ] || continue
    printf 'by hand\n' >> "$f"
    hit=1
  done
  [ "$hit" = 1 ]
}

check "a kept state is changed on disk" spoil root/workspace/state
expect 0 "a run that would have started from it succeeds" bulkhead run again.yaml
same "it was made again" "$(states @latest)" "setup found
prepare succeeded"
has "the run says why" "$(bulkhead explain @latest fixer)" "was changed on disk"
expect 0 "the one after that" bulkhead run again.yaml
same "finds the new one" "$(states @latest)" "setup found
prepare found"
check "what it stands on is changed" spoil usr/local/share/tool
expect 0 "a run succeeds all the same" bulkhead run again.yaml
same "both are made again" "$(states @latest)" "setup succeeded
prepare succeeded"
rm -rf "$work"/home/snapshots/*
expect 0 "all of them are removed: a run succeeds" bulkhead run again.yaml
same "and makes them" "$(states @latest)" "setup succeeded
prepare succeeded"

# --- equal setups ---

cat > equal.yaml << 'YAML'
version: 1
name: equal
defaults: {setup: 'echo made once; date +%s%N > /usr/local/share/when'}
agents:
- {name: one, attempts: 2, run: cat /usr/local/share/when > out/one, outputs: [one]}
- {name: two, attempts: 2, run: cat /usr/local/share/when > out/two, outputs: [two]}
YAML
expect 0 "two agents with the same setup" bulkhead run equal.yaml
same "share what it made" "$(bulkhead get @latest one --to -)" "$(bulkhead get @latest two --to -)"
same "which ran once" "$(bulkhead logs @latest --no-prefix | grep -c 'made once')" "1"

# --- preparations that fail ---

bad() { # name, timeout, preparation: runs it with three attempts
  cat > bad.yaml << YAML
version: 1
name: bad
agents:
- {name: fixer, prepare: "$3", attempts: 3, run: echo ran, timeout: {prepare: $2, grace: 200ms}, limits: {disk: 16MiB}}
- {name: other, run: echo on, needs: []}
max_failures: 5
YAML
  expect 0 "a preparation that $1 fails its agent, and others run on" bulkhead run bad.yaml
  same "the other one is done ($1)" "$(bulkhead show @latest | awk '$1 == "other" {print $5}')" "succeeded"
  same "it is reported once, and no attempt starts ($1)" "$(rows @latest | grep -c '^[0-9]*/1 .* fixer' || true) $(bulkhead show @latest | grep -c '^fixer')" "0 1"
  lacks "nothing of the attempts ran ($1)" "$(bulkhead logs @latest --no-prefix)" "ran"
}
bad "exits with 1" 30s "exit 1"
same "its reason is the exit" "$(rows @latest | head -n 1)" "prepare failed exit"
bad "hangs" 300ms "sleep 1000"
same "its reason is the time" "$(rows @latest | head -n 1)" "prepare failed timeout(prepare)"
bad "fills the disk" 30s "head -c 100M /dev/zero > big"
same "its reason is the disk" "$(rows @latest | head -n 1)" "prepare failed disk-full"

cat > daemon.yaml << 'YAML'
version: 1
name: daemon
agents:
- name: fixer
  prepare: |
    setsid sh -c 'while :; do echo x >> noise; done' > /dev/null 2>&1 &
    until [ -s noise ]; do :; done
  attempts: {count: 3, select: all}
  run: |
    test "$(ls -d /proc/[0-9]* | wc -l)" -lt 6
    wc -c < noise > out/size
  outputs: [size]
YAML
expect 0 "a preparation that leaves a daemon" bulkhead run daemon.yaml
same "it is dead, and all attempts see the same" "$(for i in 1 2 3; do bulkhead get @latest size@$i --to -; done | sort -u | wc -l)" "1"

# --- what a check refuses is for people, not for other agents ---

cat > refused.yaml << 'YAML'
version: 1
name: refused
agents:
- name: many
  attempts: {count: 10, select: all}
  run: 'echo $BULKHEAD_ATTEMPT > out/o'
  check: 'test "$(cat out/o)" != 2'
  outputs: [o]
- name: judge
  inputs: ["o@*"]
  run: 'ls /workspace/in | sort -V | tr "\n" " " > out/seen'
  outputs: [seen]
- name: one
  inputs: ["o@2"]
  run: 'true'
  on_failure: continue
YAML
expect 0 "nine of ten pass" bulkhead run refused.yaml
same "a judge is given those" "$(bulkhead get @latest seen --to - | sed 's/o@2 /REFUSED /; s/[^RED@o0-9 ].*//')" "o@1 o@3 o@4 o@5 o@6 o@7 o@8 o@9 o@10 "
has "the refused one was not published for others" "$(bulkhead explain @latest one)" "attempt 2 failed by check"
same "a person reads it" "$(bulkhead get @latest o@2 --to -)" 2
same "they are listed by number" "$(bulkhead artifacts @latest | awk '/^o@/{printf "%s ", $1}')" "o@1 o@2 o@3 o@4 o@5 o@6 o@7 o@8 o@9 o@10 "
has "with what became of them" "$(bulkhead artifacts @latest | grep '^o@2 ')" "failed by check"
has "and who was chosen" "$(bulkhead artifacts @latest | grep '^o@10 ')" "selected"
has "also as JSON" "$(bulkhead artifacts @latest -o json | tr -d ' \n')" '"passed":false,"selected":false'

# --- losers ---

cat > losers.yaml << 'YAML'
version: 1
name: losers
agents:
- name: fixer
  attempts: {count: 4, select: first-pass, stop_losers: true}
  run: |
    if [ "$BULKHEAD_ATTEMPT" != 3 ]; then trap 'exit 0' TERM; echo waits; while :; do sleep 0.1; done; fi
    echo 3 > out/answer
  outputs: [answer]
YAML
expect 0 "the first to pass wins" bulkhead run losers.yaml
same "losers are cancelled, not failed" "$(rows @latest | sort | awk '{print $2}' | sort | uniq -c | awk '{print $1, $2}')" "3 cancelled
1 selected"

same "each is told who had passed" "$(bulkhead explain @latest fixer | grep -c 'it was stopped because attempt 3 had passed')" 3

# --- bulkhead dies while a state is made, or attempts run ---

start() { # document agent text: runs it, kills bulkhead when the agent has said so; $run
  start_run "$1"
  until said "$run" "$2" "$3"; do pause; done
  kill_run
}
cat > dies.yaml << 'YAML'
version: 1
name: dies
agents:
- name: fixer
  prepare: "echo preparing; test -e /workspace/in/slow || sleep SLEEP1; echo p > state"
  attempts: {count: 2, select: all}
  run: "echo running; sleep SLEEP2; cat state > out/s"
  outputs: [s]
YAML
sed -e 's/SLEEP1/1000/' -e 's/SLEEP2/0/' dies.yaml > dies1.yaml
start dies1.yaml fixer preparing
check "nothing of it lives on" wait_for_none
same "no half state is left" "$(find "$work/home/snapshots" -maxdepth 1 -name '.*' | wc -l)" "0"
sed -e 's/SLEEP1/0/' -e 's/SLEEP2/2/' dies.yaml > dies2.yaml
start dies2.yaml fixer running
check "nothing of attempts lives on" wait_for_none
expect 0 "the run goes on" bulkhead run --resume "$run"
same "from the state that was made, which is made no second time" "$(states "$run" | grep -c succeeded) $(bulkhead logs "$run" --no-prefix | grep -c preparing)" "1 1"
same "to its end" "$(bulkhead get "$run" s@1 --to -) $(bulkhead get "$run" s@2 --to -)" "p p"

done_testing
