#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shared boxes, watched: what another agent does to a declared output is a collision that names who was there, or as root who it was;
# logs and process trees stay those of their agent; who wedges the box is named.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"
mode=$1

# The evidence of one agent's last attempt: evidence AGENT EXPRESSION
evidence() {
  bulkhead show @latest -o json | python3 -c '
import json, sys
a = [a for a in json.load(sys.stdin)["agents"] if a["name"] == sys.argv[1]][0]["attempts"][-1]
e = a["evidence"]
print(eval(sys.argv[2]))' "$1" "$2"
}
attempt() { # agent field
  bulkhead show @latest -o json | python3 -c '
import json, sys
a = [a for a in json.load(sys.stdin)["agents"] if a["name"] == sys.argv[1]][0]["attempts"][-1]
print(eval("a" + sys.argv[2]))' "$1" "$2"
}

# --- changed after the end: the agent's own process is gone, a neighbour goes on writing
cat > late.yaml << 'YAML'
version: 1
name: late
agents:
  - name: owner
    run: 'echo mine > out/x; : > written; while [ ! -e seen ]; do sleep 0.01; done'
    outputs: [x]
  - name: writer
    run: |
      while [ ! -e written ]; do sleep 0.01; done
      exec 3>> out/x; : > seen
      i=0; while [ $i -lt 120 ]; do echo theirs >&3; i=$((i + 1)); sleep 0.01; done
  - name: bystander
    run: 'while [ ! -e seen ]; do sleep 0.01; done; sleep 1'
YAML
expect 6 'an output that another agent goes on writing' bulkhead run late.yaml -q --max-parallel 3
same 'is a collision' "$(attempt owner '["reason"]')" collision
has 'of the artifact' "$(attempt owner '["detail"]')" "output 'x'"
has 'and names the writer' "$(attempt owner '["detail"]')" "agent 'writer' (attempt 1)"
same 'the evidence has the artifact, its path and its box' "$(evidence owner 'e["kind"], e["artifact"], e["path"], e["box"]')" "('collision', 'x', '/workspace/out/x', 'crew')"
same 'the owner with its times' "$(evidence owner 'e["owner"]["agent"], e["owner"]["began"] < e["owner"]["ended"] <= e["found"]')" "('owner', True)"
check 'and a digest' sh -c 'case $1 in sha256:*) ;; *) exit 1 ;; esac' sh "$(evidence owner 'e["digest"]')"
same 'who was there' "$(evidence owner 'sorted(a["agent"] for a in e["alive"])')" "['bystander', 'writer']"
same 'the kernel tells who it was' "$(evidence owner 'e["attributed"], [w["agent"] for w in e["writers"]]')" "(True, ['writer'])"
lacks 'so that nobody else is named' "$(attempt owner '["detail"]')" bystander
expect 0 'explain tells it' bulkhead explain @latest owner
has 'with what was found' "$out" "evidence: 'x' (/workspace/out/x) of box 'crew'"
has 'with who was there' "$out" "agent 'bystander' (attempt 1, try 1)"
has 'and what to do' "$out" "boxes of their own"
expect 0 'and show' bulkhead show @latest
has 'says it too' "$out" "output 'x' "

# --- changed by others in the window between the end and the collection, which a large output before it makes long
window() { # NAME COMMAND: what the neighbour does when the owner has ended
  cat > window.yaml << YAML
version: 1
name: $1
agents:
  - name: owner
    run: |
      head -c 48M /dev/zero > out/a; echo mine > out/b; echo else > out/c
      exec 9> lock; flock 9; : > up; exec sleep 0.1
    outputs: [a, b]
  - {name: other, run: 'while [ ! -e up ]; do sleep 0.01; done; flock lock true; i=0; while [ \$i -lt 60 ]; do $2; i=\$((i + 1)); sleep 0.01; done'}
  - {name: third, run: 'while [ ! -e up ]; do sleep 0.01; done; cat out/b; flock lock true; cat out/b out/a > /dev/null || :'}
YAML
  expect 6 "$1: is refused" bulkhead run window.yaml -q --max-parallel 3
  same "$1: as a collision" "$(attempt owner '["reason"]')" collision
  has "$1: of the very output" "$(attempt owner '["detail"]')" "output 'b'"
  has "$1: with who it may have been" "$(attempt owner '["detail"]')" "agent 'other' (attempt 1)"
  same "$1: nothing was published" "$(bulkhead artifacts @latest -o json)" '[]'
}
window appended 'echo theirs >> out/b'
same 'appended: how' "$(evidence owner 'e["how"] in ("changed-after-end", "changed-while-collected", "held-open")')" True
[ "$mode" != root ] || same 'appended: by whom' "$(evidence owner '[w["agent"] for w in e["writers"]]')" "['other']"
window replaced 'echo theirs > t; mv t out/b'
same 'replaced: how' "$(evidence owner 'e["how"] in ("changed-after-end", "changed-while-collected", "vanished")')" True
[ "$mode" != root ] || same 'replaced: by whom' "$(evidence owner '[w["agent"] for w in e["writers"]]')" "['other']"

# --- two that write to one output while both run: only the kernel can tell, and only root is told
cat > two.yaml << 'YAML'
version: 1
name: two
agents:
  - name: owner
    run: 'echo mine > out/x; : > up; while [ ! -e over ]; do sleep 0.01; done; echo mine again > out/x.new; mv out/x.new out/x'
    outputs: [x]
  - {name: quick, run: 'while [ ! -e up ]; do sleep 0.01; done; sh -c "echo theirs > out/x"; : > over'}
  - {name: reader, run: 'while [ ! -e over ]; do cat out/* > /dev/null || :; sleep 0.01; done; echo own > out/y', outputs: [y]}
YAML
if [ "$mode" = root ]; then
  expect 6 'an output that another wrote to, by a process that is long gone' bulkhead run two.yaml -q --max-parallel 3
  same 'is a collision of two writers' "$(evidence owner 'e["how"], [w["agent"] for w in e["writers"]]')" "('two-writers', ['quick'])"
  has 'that names both' "$(attempt owner '["detail"]')" "output 'x' of agent 'owner' was written by two agents"
  same 'and the run says who' "$(bulkhead show @latest -o json | field '["failure"]["caused_by"]')" quick
  same 'whoever only reads is not blamed' "$(attempt reader '["status"]')" succeeded
else
  expect 0 'an output that another wrote to while its owner ran cannot be told here' bulkhead run two.yaml -q --max-parallel 3
fi

# --- what is no collision
cat > fine.yaml << 'YAML'
version: 1
name: fine
stages:
  - name: one
    agents:
      - {name: a, run: 'echo draft > draft; i=0; while [ $i -lt 300 ]; do echo $i > out/a; i=$((i + 1)); done', outputs: [a]}
      - {name: b, run: 'i=0; while [ $i -lt 300 ]; do echo $i > out/b; cat out/* > /dev/null || :; i=$((i + 1)); done', outputs: [b]}
      - {name: c, run: 'mkfifo f; (cat f > got) & echo through > f; wait; mkdir out/d; for i in 1 2 3; do cp got out/d/$i.txt; done', outputs: [{glob: 'd/*.txt'}]}
  - name: two
    agents:
      - {name: d, run: 'echo more >> draft; i=0; while [ $i -lt 100 ]; do echo $i > out/d2; i=$((i + 1)); done', outputs: [{name: draft, path: draft}, d2]}
      - {name: e, run: 'i=0; while [ $i -lt 100 ]; do echo $i >> out/e; i=$((i + 1)); done', outputs: [e]}
YAML
expect 0 'agents that leave each other alone, and a box that is frozen between' bulkhead run fine.yaml -q --max-parallel 3
same 'one goes on with what another has left' "$(bulkhead get @latest draft --to -)" $'draft\nmore'
same 'a pipe between them holds what was written' "$(bulkhead get @latest d/2.txt --to -)" through
same 'nobody has evidence of anything' "$(bulkhead show @latest -o json | field '["agents"]' | grep -c "'evidence': {")" 0

# --- logs and process trees are those of their agent
cat > trees.yaml << 'YAML'
version: 1
name: trees
max_failures: 9
agents:
  - name: daemons
    run: |
      i=0; while [ $i -lt 20 ]; do (setsid sh -c 'trap "" TERM; : > beats/d'$i'; while :; do sleep 0.02; echo x >> beats/d'$i'; done' &) ; i=$((i + 1)); done 2> /dev/null
      while [ "$(ls beats | wc -l)" -lt 20 ]; do sleep 0.01; done; printf 'half a line'
  - name: slow
    timeout: {run: 500ms, grace: 100ms}
    run: 'mkdir -p beats; (setsid sh -c "while :; do sleep 0.02; echo x >> beats/slow; done" &); trap "" TERM; echo mine; while :; do sleep 0.05; done'
  - name: watcher
    run: |
      (while :; do sleep 0.02; echo x >> alive; done) &
      n=; while [ "$n" != "$(cat beats/* | wc -c)" ] || [ ! -e beats/slow ]; do n=$(cat beats/* | wc -c); sleep 0.3; done
      n=$(wc -c < alive); while [ "$n" = "$(wc -c < alive)" ]; do sleep 0.01; done; echo other half
    timeout: 20s
YAML
sed -i 's/^    run: |$/&\n      mkdir -p beats/' trees.yaml
expect 0 'one ends with daemons, one is killed with its own' bulkhead run trees.yaml -q --max-parallel 3
same 'none of them goes on, and the processes of the third do' "$(attempt watcher '["status"]')" succeeded
same 'the one that took too long is told so' "$(attempt slow '["reason"]')" 'timeout(run)'
same 'half a line stays whose it is' "$(bulkhead logs @latest -a daemons --no-prefix)" 'half a line'
same 'and the other half' "$(bulkhead logs @latest -a watcher --stream stdout --no-prefix | tail -n 1)" 'other half'
same 'and what was said before the end' "$(bulkhead logs @latest -a slow --no-prefix)" mine

# --- wedges: who took what all share
cat > disk.yaml << 'YAML'
version: 1
name: disk
boxes: {x: {limits: {disk: 16MiB}}}
agents:
  - {name: still, box: x, run: 'head -c 100k /dev/zero > mine; : > up; sleep 600'}
  - {name: hog, box: x, run: 'while [ ! -e up ]; do sleep 0.01; done; i=0; while :; do head -c 1M /dev/zero > f$i; i=$((i + 1)); done'}
YAML
expect 1 'a box that one has filled' bulkhead run disk.yaml -q
for agent in still hog; do
  same "$agent: the reason" "$(attempt $agent '["reason"]')" disk-full
  same "$agent: the evidence has everybody's numbers" "$(evidence $agent 'e["kind"], e["what"], sorted(a["agent"] for a in e["agents"])')" "('wedge', 'disk', ['hog', 'still'])"
done
if [ "$mode" != user ] || [ "$(evidence still '[a["written_bytes"] for a in e["agents"] if a["agent"] == "hog"][0]')" != None ]; then
  has 'the cause is named' "$(attempt still '["detail"]')" "the cause, as the kernel counts: agent 'hog' (attempt 1) wrote"
  same 'in the failure of the run, too' "$(bulkhead show @latest -o json | field '["failure"]["caused_by"]')" hog
fi

cat > port.yaml << 'YAML'
version: 1
name: port
agents:
  - name: server
    run: |
      exec python3 -c "
      import os, socket, time
      s = socket.socket(); s.bind(('127.0.0.1', 8000)); s.listen(); open('up', 'w')
      while not os.path.exists('over'): time.sleep(0.01)"
  - name: second
    run: |
      while [ ! -e up ]; do sleep 0.01; done
      python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 8000))" || exit 3
  - {name: third, run: 'while [ ! -e up ]; do sleep 0.01; done; sleep 0.4; : > over'}
YAML
expect 1 'a port that another holds' bulkhead run port.yaml -q --max-parallel 3
has 'is told with its holder' "$(attempt second '["detail"]')" "beside it in the box: agent 'server' (attempt 1) listens on tcp port 8000"
same 'who is the cause' "$(bulkhead show @latest -o json | field '["failure"]["caused_by"]')" server

cat > spin.yaml << 'YAML'
version: 1
name: spin
agents:
  # Each in a session of its own: a kernel that schedules by session would give all twelve no more than the slow one has.
  - name: spinner
    run: |
      for i in 1 2 3 4 5 6 7 8 9 10 11 12; do setsid sh -c ': > up; while [ ! -e over ]; do :; done' & done
      while [ ! -e over ]; do sleep 0.1; done; wait
  - {name: slow, timeout: 1500ms, run: 'while [ ! -e up ]; do sleep 0.01; done; while :; do :; done'}
  - {name: third, run: 'sleep 2; : > over'}
  - {name: sleeper, timeout: 1500ms, run: 'sleep 600'}
YAML
# On one processor: where there is another, each has one for itself, and nobody waits.
processor=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)
expect 1 'a box whose processors one has taken' taskset -c "$processor" "$work/bin/bulkhead" run spin.yaml -q --max-parallel 4 --keep-going
has 'who waited for one is told so' "$(attempt slow '["detail"]')" 'it waited for a processor for'
has 'and who had it' "$(attempt slow '["detail"]')" "the cause, as the kernel counts: agent 'spinner' (attempt 1) used"
lacks 'who only slept has nobody to blame' "$(attempt sleeper '["detail"]')" spinner

if [ "$mode" = root ]; then
  cat > memory.yaml << 'YAML'
version: 1
name: memory
boxes: {x: {limits: {memory: 96MiB}}}
agents:
  - name: hog
    box: x
    run: |
      exec python3 -c "
      import os, time
      for i in range(3):
          if os.fork() == 0:
              a = b'x' * (17 << 20)
              time.sleep(600)
      time.sleep(1)
      open('up', 'w')
      while not os.path.exists('over'): time.sleep(0.02)"
  - name: second
    box: x
    run: |
      while [ ! -e up ]; do sleep 0.02; done
      exec python3 -c "
      a = b'x' * (40 << 20)
      b = b'x' * (40 << 20)"
  - {name: third, box: x, run: 'while [ ! -e up ]; do sleep 0.02; done; sleep 2; : > over'}
YAML
  if bulkhead doctor -o json | field '["checks"]' | grep -q "memory"; then
    got=0
    bulkhead run memory.yaml -q --max-parallel 3 > run.out 2>&1 || got=$?
    if [ "$got" -eq 7 ]; then
      skip_some cgroups 'memory of boxes is not held here'
    else
      same 'who is killed when all is taken' "$(attempt second '["reason"]')" oom
      has 'is told who held most' "$(attempt second '["detail"]')" "the cause, as the kernel counts: agent 'hog' (attempt 1) held"
    fi
  fi
fi
if [ "$mode" = root ]; then
  cat > pids.yaml << 'YAML'
version: 1
name: pids
boxes: {x: {limits: {pids: 60}}}
agents:
  - {name: hog, box: x, run: 'i=0; while [ $i -lt 44 ]; do sleep 3 & i=$((i + 1)); done; : > up; wait'}
  - {name: second, box: x, run: 'while [ ! -e up ]; do sleep 0.05; done; i=0; while [ $i -lt 40 ]; do sleep 3 & i=$((i + 1)); done; wait'}
YAML
  got=0
  bulkhead run pids.yaml -q --max-parallel 2 > run.out 2>&1 || got=$?
  if [ "$got" -eq 7 ] || ! bulkhead show @latest -o json | grep -q '"pids=cgroup\|pids=cgroup'; then
    skip_some cgroups 'processes of a whole box are not counted here'
  else
    same 'who cannot make a process any more' "$(attempt second '["reason"]')" pids
    has 'is told who has them' "$(attempt second '["detail"]')" "the cause, as the kernel counts: agent 'hog' (attempt 1) had"
  fi
fi
check 'nothing is left running' wait_for_none
done_testing
