#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What killed processes leave behind, and that nothing of it stays: `bulkhead gc`, and boxes killed at random moments.
# Usage: 80-reclaim.sh MODE BOXES. $BH_SEED repeats a storm.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"
boxes=$2
seed=${BH_SEED:-$$}
tag=86000.$$ # what agents of this test sleep for: their command line names them

start_up() { # file: $pid, $run, when agent a has said up
  start_run "$1"
  until last_line_is "$run" a up; do pause; done
}

# What a state directory holds beyond its records, the content store and whole bases.
leftovers() {
  find home -mindepth 1 \( -path 'home/bases/host-*' -o -path 'home/cas/*' -o -path 'home/store/*' -o -path 'home/runs/*/logs/*' \) -prune -o \
    ! -path home/version ! -path home/store ! -path home/cas ! -path home/bases ! -path home/runs \
    ! -path 'home/runs/??????????????????????????' ! -path 'home/runs/*/owner' ! -path 'home/runs/*/head' ! -path 'home/runs/*/logs' -print
}

# Groups of launchers that no launcher holds locked.
stale_groups() {
  local d
  for d in /sys/fs/cgroup/{,*/}bulkhead/l-*; do
    if [ -w "$d" ] && flock -n "$d" true; then printf '%s\n' "$d"; fi
  done
}

# What gc has said of this state directory. Control groups are the machine's: of a neighbour's another may be quicker.
removed() { json ' and [r for r in v["removed"] if r["kind"] != "control group"]'; }

named_groups() { json ' and "\n".join(r["path"] for r in v["removed"] if r["kind"] == "control group")'; }

agents() { grep -ls "[8]6000[.]$$" /proc/[0-9]*/cmdline || true; } # not itself

wait_for_no_agent() {
  local end=$((SECONDS + 10))
  while [ -n "$(agents)" ]; do
    [ "$SECONDS" -lt "$end" ] || return 1
    pause
  done
}

names() { find . -mindepth 1 -maxdepth 1 -printf '%f\n'; }

lying_about() { find /tmp /dev/shm /run /var/tmp -maxdepth 1 -name '*bulkhead*' 2> /dev/null || true; }

mounts() { sed 's/^[0-9]* [0-9]* //' /proc/self/mountinfo; }

# --- what the verb says
expect 2 'gc of a state directory that is not there' bulkhead gc --home "$work/none"
has 'says so' "$errs" "no state directory at '$work/none'"
BULKHEAD_HOME=$work/none expect 0 'gc without a state directory' bulkhead gc
same 'has nothing to do' "$out" 'nothing is left over'
check 'and makes none' test ! -e none
for option in '--older-than 3' '--keep-last x' '--keep-last -1' '--keep-failed'; do
  # shellcheck disable=SC2086
  expect 2 "gc $option" bulkhead gc $option
  has 'is named' "$errs" "${option%% *}"
done
expect 2 'an operand' bulkhead gc all

# --- a run whose process was killed
mounts_before=$(mounts)
names_before=$(names)
lay_before=$'none\n'$(lying_about)
cat > p.yaml << YAML
version: 1
name: dead
agents: [{name: a, run: 'echo up; test "\$BULKHEAD_TRY" != 1 || sleep $tag; echo 1 > out/x', outputs: [x]}]
YAML
start_up p.yaml
expect 0 'gc beside a live run' bulkhead gc -o json
same 'does not touch it' "$(removed) $(json '["in_use"]')" '[] 1'
check 'its box is there' test -d "home/runs/$run/boxes"
same 'no mount of it is in the table of the host' "$(mounts)" "$mounts_before"
kill_run
check 'its agents die with it' wait_for_no_agent
check 'its processes too' wait_for_none
box=$(echo "home/runs/$run/boxes/"[!.]*)
expect 0 'what would go' bulkhead gc --dry-run -o json
same 'a look alone' "$(json '["dry_run"]')" True
would=$(removed) groups=$(named_groups)
has 'names the box' "$would" "runs/$run/boxes/${box##*/}"
check 'has sizes' test "$(json '["bytes"]')" -gt 0
check 'and touches nothing' test -d "$box"
expect 0 'gc' bulkhead gc -o json
same 'removes what it said' "$(removed)" "$would"
same 'and the control groups' "$(for d in $groups; do [ ! -e "$d" ] || echo "$d"; done)" ''
same 'with nothing failed' "$(json '["failed"]') $(json '["errors"]')" '[] []'
same 'nothing is left' "$(leftovers)" ''
expect 0 'a second gc' bulkhead gc
same 'finds nothing' "$out" 'nothing is left over'
expect 0 'the run is resumed all the same' bulkhead run --resume "$run" -q
expect 0 'with its output' bulkhead get "$run" x --to - -q
same 'right' "$out" 1

# --- numbers that are somebody else's by now
start_up p.yaml
kill_run
check 'it is gone' wait_for_none
cat never > /dev/null & # nobody writes
stranger=$!
box=$(echo "home/runs/$run/boxes/"[!.]*)
start=$(sed 's/.*) //' "/proc/$stranger/stat" | cut -d' ' -f20)
boot=$(cat /proc/sys/kernel/random/boot_id)
read -r _ _ noted < "$box/pid"
same 'the pid file holds the boot' "$noted" "$boot"
for note in "$stranger 1 $boot" "$stranger $start 00000000-0000-0000-0000-000000000000" "$stranger $start" "$stranger $start -"; do
  mkdir -p "$box/work" "$box/upper"
  printf '%s\n' "$note" > "$box/pid"
  expect 0 'gc of a box whose number was given to another' bulkhead gc -q
  check 'leaves that one alone' kill -0 "$stranger"
  check 'and removes the box' test ! -e "$box"
done
mkdir -p "$box/work" "$box/upper"
printf '%s %s %s\n' "$stranger" "$start" "$boot" > "$box/pid"
expect 0 'gc of a box whose init lives' bulkhead gc -q
got=0
wait "$stranger" 2> /dev/null || got=$?
same 'ends it' "$got" 137

# --- what has to stay
cat > kept.yaml << 'YAML'
version: 1
name: kept
topology: per-agent
agents: [{name: a, run: 'echo mine > f; exit 3'}]
YAML
expect 1 'an agent that fails' bulkhead run kept.yaml -q
run=$(bulkhead ps --all -o json | field '[0]["run"]')
expect 0 'gc' bulkhead gc
same 'leaves the box that was kept' "$out" 'nothing is left over'
check 'as it was' test -e "$(echo "home/runs/$run/boxes/"*/upper/root/workspace/f)"
rm -rf "home/runs/$run/boxes"
cat > frozen.yaml << YAML
version: 1
name: frozen
agents:
  - {name: a, run: 'echo frozen > scratch; echo 1 > out/a; echo up', outputs: [a]}
  - {name: b, inputs: [a], run: 'test "\$BULKHEAD_TRY" != 1 || sleep $tag; cat scratch > out/b', outputs: [b]}
YAML
start_up frozen.yaml
while [ -z "$(agents)" ]; do pause; done
kill_run
check 'its agents die with it' wait_for_no_agent
expect 0 'gc' bulkhead gc -q
check 'leaves the layer that a resumed run starts from' test -n "$(ls "home/runs/$run/layers")"
mkdir "home/runs/$run/layers/.half-b" "home/runs/$run/layers/unknown"
expect 0 'gc' bulkhead gc -q
check 'removes those that nobody stands on' test ! -e "home/runs/$run/layers/unknown" -a ! -e "home/runs/$run/layers/.half-b"
expect 0 'the run goes on from it' bulkhead run --resume "$run" -q
expect 0 'with what was frozen' bulkhead get "$run" b --to - -q
same 'in it' "$out" frozen

# --- what is in the making
unborn=01m8m00000000000000000000x
mkdir -p home/bases/.bh-tmp-dead/etc home/bases/.bh-tmp-live/etc "home/runs/$unborn/tmp" home/runs/strange
touch "home/runs/$unborn/owner" home/.bh-tmp-new
touch -d '1 hour ago' home/.bh-tmp-old
exec 8< home/bases/.bh-tmp-live
flock -n 8
expect 0 'gc of half-made things' bulkhead gc -q
check 'a half base and a run that was never born go' test ! -e home/bases/.bh-tmp-dead -a ! -e "home/runs/$unborn"
check 'what somebody makes stays' test -e home/bases/.bh-tmp-live -a -e home/.bh-tmp-new
check 'an old temporary file goes' test ! -e home/.bh-tmp-old
check 'what is not ours stays' test -e home/runs/strange
exec 8<&-
rm -rf home/runs/strange home/.bh-tmp-new
mkdir home/bases/.bh-tmp-again
printf '%s\n' 'version: 1' 'name: plain' "agents: [{name: a, run: 'true'}]" > plain.yaml
expect 0 'a run' bulkhead run plain.yaml -q
check 'sweeps half bases as well' test ! -e home/bases/.bh-tmp-live -a ! -e home/bases/.bh-tmp-again

# --- a launcher that is killed
start_up p.yaml
kill -s KILL "$(cat "/proc/$pid/task/$pid/children")"
got=0
wait "$pid" || got=$?
same 'a run without its launcher ends: the host lacks something' "$got" 7
expect 0 'explain' bulkhead explain "$run"
has 'says what' "$out" 'the launcher has ended'
has 'of the try before' "$out" 'box-lost'
check 'its agents are dead' wait_for_no_agent
expect 0 'the run is resumed' bulkhead run --resume "$run" -q

# --- a storm
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
  printf '%s\n' "  - {name: a$i, run: 'echo $i > out/o$i; mkdir d; touch d/{1,2,3}; sleep 0.0$((i % 4)); exec 5<>/dev/shm/x; head -c 100000 /dev/zero > /tmp/t', outputs: [o$i]}"
done > agents.txt
{
  printf 'version: 1\nname: wide\ntopology: per-agent\nmax_parallel: 4\nagents:\n'
  cat agents.txt
} > wide.yaml
expect 0 'lint' bulkhead lint wide.yaml
{
  printf 'version: 1\nname: shared\nstages:\n'
  printf '  - name: one\n    agents:\n'
  sed -n '1,3s/^  /      /p' agents.txt
  printf '  - name: two\n    setup: "echo s > /workspace/setup"\n    agents:\n' | sed '/setup/d'
  sed -n '4,6s/^  /      /p' agents.txt
} > shared.yaml
sed -i 's/mkdir d; touch d/mkdir -p d; touch d/' shared.yaml
expect 0 'lint' bulkhead lint shared.yaml
printf '# seed %s\n' "$seed"
if python3 "$BH_SOURCE/tests/integration/reclaim_chaos.py" "$work/bin/bulkhead" "$seed" "$boxes" wide.yaml shared.yaml > storm.txt 2>&1; then
  ok "$(head -n 1 storm.txt)"
else
  not_ok 'a storm' "$(cat storm.txt)"
fi
check 'no agent is left' wait_for_no_agent
check 'no process is left' wait_for_none
expect 0 'gc after the storm' bulkhead gc -q
expect 0 'and again' bulkhead gc -o json
same 'there is nothing' "$(removed)" '[]'
find home -path '*/boxes/*/upper' -prune -o -path '*/boxes/*' -print > kept.txt
rm -rf home/runs/*/boxes home/runs/*/layers # of runs that failed: kept on purpose
same 'nothing is left in the state directory' "$(leftovers)" ''
same 'no control group is left' "$(stale_groups)" ''
same 'no mount is left' "$(mounts)" "$mounts_before"
same 'nothing is in the folder from which it ran but what the test made' \
  "$(names | grep -vxF "$names_before" | grep -vxE '(p|kept|frozen|plain|wide|shared)\.yaml|(agents|storm|kept)\.txt|run\.(out|err)|std(out|err)' || true)" ''
same 'no socket has a name' "$(find home/runs -mindepth 1 -maxdepth 1 -printf '%f\n' | grep -F -f - /proc/net/unix || true)" ''
same 'nothing lies where programs leave things' "$(lying_about | grep -vxF "$lay_before" || true)" ''
done_testing
