#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Limits from the document to the record: what is refused, what holds, how attempts end by them. No hog here takes more than 200 MB,
# whatever holds it.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"
unset BULKHEAD_CGROUP BULKHEAD_SITE

last() { bulkhead show @latest -o json | field "[\"agents\"][$1][\"attempts\"][-1][\"$2\"]"; }
hog='head -c 200M /dev/zero | tail'

# --- refused before anything runs
cat > p.yaml << YAML
version: 1
name: t
defaults: {limits: {cpus: 0.5}}
agents:
  - {name: a, run: 'echo ran > /workspace/out/x', outputs: [x], limits: {memory: 32MiB}}
  - {name: b, run: 'true', topology: per-agent}
YAML
expect 0 'lint takes what this host may not have' env BULKHEAD_CGROUP=off "$work/bin/bulkhead" lint p.yaml
expect 0 'plan shows limits' bulkhead plan p.yaml -o json
same '  of the box' "$(printf '%s' "$out" | field '["boxes"][0]["limits"]')" "{'cpus': 0.5}"
same '  of the agent in it' "$(printf '%s' "$out" | field '["agents"][0]["limits"]')" "{'memory': 33554432}"
expect 0 'also in text' bulkhead plan p.yaml
has '  as they are written' "$out" 'limits memory 32MiB'
export BULKHEAD_CGROUP=off
expect 7 'without a control group a limit of memory is refused' bulkhead run p.yaml
has '  which names the agent and the limit' "$errs" "agent 'a' asks for memory 32MiB, which this host cannot enforce"
has '  and who has it from the defaults' "$errs" "box 'crew' asks for cpus 0.5"
has '  with the place' "$errs" 'p.yaml:5:73: agents[0].limits'
has '  why not' "$errs" 'BULKHEAD_CGROUP is off'
has '  and the remedies' "$errs" "'limits: best-effort' in /etc/bulkhead/site.yaml"
expect 7 'as JSON' bulkhead run p.yaml -o json
same '  it is of the host' "$(printf '%s' "$out" | field '["errors"][0]["code"]')" host
expect 0 'and no run was made of it' bulkhead ps --all -o json
same '  none' "$out" '[]'
same '  not even its folder' "$(find "$BULKHEAD_HOME/runs" -mindepth 1 2> /dev/null | wc -l)" 0

# --- the site's leave
printf 'limits: best-effort\n' > site.yaml
export BULKHEAD_SITE=$work/site.yaml
expect 0 'the site may allow best effort' bulkhead run p.yaml
has '  which is said once' "$errs" 'not enforced on this host, with the site'
same '  and no more' "$(printf '%s\n' "$errs" | grep -c best-effort)" 1
expect 0 'show' bulkhead show @latest -o json
same '  has it of the run' "$(printf '%s' "$out" | field '["limits"]')" best-effort
same '  with what is not enforced' "$(printf '%s' "$out" | field '["not_enforced"]')" 'memory, cpus'
has '  and of the attempts' "$(last 0 limits)" '+best-effort'
expect 0 'show as text' bulkhead show @latest
has '  says so too' "$out" 'best-effort: this host cannot enforce memory, cpus'
has '  and by what each is held' "$out" 'memory=watchdog'
eat='import time; x = bytearray(200 << 20); time.sleep(86397)'
cat > shared.yaml << YAML
version: 1
name: t
max_failures: 2
agents:
  - {name: hog, limits: {memory: 32MiB, cpus: 1}, run: 'python3 -c "$eat"; exit 4'}
  - {name: other, limits: {memory: 64MiB}, run: 'exec sleep 1'}
  - {name: main, limits: {memory: 32MiB}, run: 'exec python3 -c "$eat"'}
YAML
expect 0 'in a shared box each agent is watched' bulkhead run shared.yaml -q
same '  who took too much is out of memory' "$(last 0 reason) $(last 2 reason)" 'oom oom'
has '  and told by how much' "$(last 2 detail)" 'the processes of the agent held'
same '  nobody else is' "$(last 1 status)" succeeded
has '  by the watch' "$(last 0 limits)" 'memory=watchdog cpus=affinity'
has '  which is recorded as that' "$(last 0 limits)" '+best-effort'
lacks '  and of nobody who did not ask' "$(last 1 limits)" 'cpus='
cat > fails.yaml << 'YAML'
version: 1
name: t
agents: [{name: a, topology: per-agent, run: 'exit 1', limits: {cpus: 0.5}}]
YAML
expect 1 'a run that fails under best effort' bulkhead run fails.yaml -q
printf 'limits: enforced\n' > site.yaml
expect 7 'is not resumed where the site allows it no more' bulkhead run --resume @latest
has '  with the same words' "$errs" "agent 'a' asks for cpus 0.5, which this host cannot enforce"
printf 'limits: maybe\n' > site.yaml
expect 5 'a policy that cannot be read lets nothing run' bulkhead run fails.yaml
has '  and is named with its place' "$errs" 'site.yaml:1:9'
printf 'limit: best-effort\n' > site.yaml
expect 5 'nor does one with an unknown key' bulkhead run fails.yaml
has '  with the nearest' "$errs" "did you mean 'limits'?"
printf 'limits: best-effort\n' > site.yaml
chmod 0666 site.yaml
expect 5 'nor one that anybody could have written' bulkhead run fails.yaml
rm site.yaml
expect 5 'nor one that is named and is not there' bulkhead run fails.yaml
unset BULKHEAD_SITE BULKHEAD_CGROUP

# --- what no host has
cat > p.yaml << 'YAML'
version: 1
name: t
agents: [{name: a, run: 'true', limits: {memory: 1000TiB}}]
YAML
expect 7 'more memory than there is' bulkhead run p.yaml
has '  is told apart' "$errs" "the limit 'memory: 1000TiB' is more than the"
sed -i 's/memory: 1000TiB/disk: 0B/' p.yaml
expect 3 'none at all is invalid' bulkhead run p.yaml
sed -i 's/disk: 0B/pids: 1/' p.yaml
expect 3 'too little to live is, too' bulkhead run p.yaml
has '  and the least is said' "$errs" 'the least is 4'

# --- what holds, and how an attempt ends by it: name|what the agent has|reason|part of the detail
judge() { # table
  bulkhead show @latest -o json | python3 -c '
import json, sys
agents = {a["name"]: a["attempts"][-1] for a in json.load(sys.stdin)["agents"]}
for row in open(sys.argv[1]).read().splitlines():
    name, _, reason, detail = row.split("|")
    a = agents[name]
    good = str(a["reason"]) == reason and detail in (a["detail"] or "") and (a["status"] == "succeeded") == (reason == "None")
    print("good" if good else "%s: got %s, exit %s, signal %s: %s" % (name, a["reason"], a["exit_code"], a["signal"], a["detail"]))
' "$1"
}
run_table() { # description top-level-line table
  printf 'version: 1\nname: t\nmax_failures: 1000\n%s\nagents:\n' "$2" > p.yaml
  while IFS='|' read -r name has _; do printf '  - {name: %s, %s}\n' "$name" "${has//;;/|}"; done < "$3" >> p.yaml
  expect 0 "$1: the run bears its failures" bulkhead run p.yaml -q
  while read -r line; do
    if [ "$line" = good ]; then ok "$1: a row is exact"; else not_ok "$1" "$line"; fi
  done < <(judge "$3")
}

head -c 3000000 /dev/urandom > big
cat > fits << TABLE
pipes|limits: {pids: 4}, run: 'echo hi ;; cat'|None|
disk|limits: {disk: 1MiB}, run: 'dd if=/dev/zero of=x bs=1M count=5'|disk-full|limit
diskexec|limits: {disk: 1MiB}, run: 'exec dd if=/dev/zero of=x bs=1M count=5'|disk-full|limit
parts|limits: {disk: 1MiB}, run: 'for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=x\$i bs=500K count=1; done; exec sleep 86397'|disk-full|and its limit is 1.0 MiB
memory|keep: never, limits: {disk: 1MiB}, run: 'for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=x\$i bs=500K count=1; done'|disk-full|
bigfile|limits: {disk: 1MiB}, files: {big: ./big}, run: 'exec sleep 86397'|disk-full|and its limit is 1.0 MiB
bigfilemem|keep: never, limits: {disk: 1MiB}, files: {big: ./big}, run: 'true'|disk-full|cannot copy big: No space left on device: disk limit of 1MiB was reached
inodes|limits: {inodes: 100}, run: 'i=0; while [ \$i -lt 1000 ]; do i=\$((i+1)); echo > f\$i; done; exec sleep 86397'|disk-full|and its limit is 100
diskgood|keep: never, limits: {disk: 1MiB}, run: '(dd if=/dev/zero of=x bs=1M count=5) ;;;; true'|None|
nofile|limits: {nofile: 16}, run: 'test \$(ulimit -n) -eq 16; test \$(ulimit -Hn) -eq 16'|None|
openfiles|limits: {nofile: 16}, run: 'for i in 3 4 5 6 7 8 9; do eval "exec \$i</dev/null"; done; sh -c "for i in 3 4 5 6 7 8 9; do echo; done" > /dev/null'|None|
output|limits: {output: 4KiB}, run: 'head -c 100000 /dev/zero ;; tr "\\\\0" "x"'|None|
TABLE
run_table 'in a box of its own' 'topology: per-agent' fits
same 'the bytes of an output that were dropped are counted' "$(bulkhead show @latest -o json |
  python3 -c 'import json,sys; print([a["attempts"][-1]["output_dropped"] > 90000 for a in json.load(sys.stdin)["agents"] if a["name"] == "output"])')" '[True]'
same 'what lay on its disk is known' "$(bulkhead show @latest -o json |
  python3 -c 'import json,sys; print([a["attempts"][-1]["usage"]["disk_bytes"] > 1000000 for a in json.load(sys.stdin)["agents"] if a["name"] == "disk"])')" '[True]'
has 'and what held it' "$(last 1 limits)" 'disk='

cat > p.yaml << 'YAML'
version: 1
name: t
agents: [{name: a, run: 'true', topology: per-agent, limits: {memory: 32MiB, cpus: 1, pids: 64}}]
YAML
got=0
bulkhead run p.yaml -q > /dev/null 2> "$work/stderr" || got=$?
if [ "$got" -eq 7 ]; then
  skip_some cgroup "$(sed -n 's/.*cannot enforce: //p' "$work/stderr" | head -n 1)"
  done_testing
  exit
fi
same 'control groups hold' "$got" 0
has '  memory' "$(last 0 limits)" 'memory=cgroup-v'
has '  cpus' "$(last 0 limits)" 'cpus=cgroup-v'
has '  and pids' "$(last 0 limits)" 'pids=cgroup-v'

cat > held << TABLE
oom|limits: {memory: 32MiB}, run: 'exec python3 -c "x = bytearray(200 << 20)"'|oom|was ended by signal 9 (SIGKILL): memory limit of 32MiB was reached
oomshell|limits: {memory: 32MiB}, run: '${hog/|/;;}'|oom|exited with code 137: memory limit of 32MiB was reached
oomcaught|limits: {memory: 32MiB}, run: '${hog/|/;;} ;;;; exit 3'|oom|exited with code 3: memory limit of 32MiB was reached
oomgood|limits: {memory: 32MiB}, run: '(${hog/|/;;}) ;;;; true'|None|
oomsetup|limits: {memory: 32MiB}, setup: '${hog/|/;;}', run: 'true'|oom|setup exited with code 137: memory limit of 32MiB was reached
oomslow|limits: {memory: 32MiB}, timeout: {run: 8s, grace: 1s}, run: '(${hog/|/;;}) ;;;; exec sleep 86397'|timeout(run)|; its memory limit of 32MiB was reached
pids|limits: {pids: 8}, run: 'for i in 1 2 3 4 5 6 7 8 9 10; do sleep 86397 & done; wait'|pids|pids limit of 8 was reached
pidsgood|limits: {pids: 8}, run: '(for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1 & done; wait) ;;;; true'|None|
bomb|limits: {pids: 64}, timeout: {run: 4s, grace: 100ms}, run: '(f() { f ;; f & }; f) ;;;; true; exec sleep 86397'|timeout(run)|; its pids limit of 64 was reached
innocent|run: 'exec sleep 1'|None|
TABLE
run_table 'held in a box of its own' 'topology: per-agent' held
run_table 'held in a shared box' 'topology: shared-box' held
same 'nobody else was hit' "$(bulkhead show @latest -o json | python3 -c '
import json, sys
print([a["status"] for a in json.load(sys.stdin)["agents"] if a["name"] == "innocent"])')" "['done']"
check 'nothing is left running' wait_for_none

# --- tried again
cat > p.yaml << YAML
version: 1
name: t
agents: [{name: a, topology: per-agent, run: '$hog', limits: {memory: 32MiB}}]
YAML
expect 1 'out of memory fails the run' bulkhead run p.yaml
has '  and says by what' "$errs" 'oom: run exited with code 137: memory limit of 32MiB was reached'
expect 0 'explain' bulkhead explain @latest a
has '  has the remedy' "$out" "raise 'limits.memory' of the agent"
has '  and what held it' "$out" 'limits held by: memory=cgroup-v'

# --- the box's own limit, met by who has none
cat > p.yaml << YAML
version: 1
name: t
boxes: {x: {limits: {memory: 32MiB}}}
agents: [{name: a, box: x, run: 'true'}, {name: b, box: x, run: '$hog'}]
YAML
expect 1 'a box out of memory fails the run' bulkhead run p.yaml
has '  and says whose limit it was' "$errs" "memory limit of box 'x' (32MiB) was reached"
expect 0 '  explain' bulkhead explain @latest b
has '  the remedy is the box'"'"'s' "$out" "raise 'boxes.x.limits.memory'"

done_testing
