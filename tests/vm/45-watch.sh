#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who wrote in a shared box and who wedged it, on an older kernel with cgroup v2. Everything here takes ten times as long as elsewhere.
# shellcheck source=tests/integration/lib.sh
source /test/tests/integration/lib.sh
begin "$1" "$0" "$@"

cat > two.yaml << 'YAML'
version: 1
name: two
agents:
  - name: owner
    run: 'echo mine > out/x; : > up; while [ ! -e over ]; do sleep 0.1; done; echo mine again > out/x.new; mv out/x.new out/x'
    outputs: [x]
  - {name: quick, run: 'while [ ! -e up ]; do sleep 0.1; done; sh -c "echo theirs > out/x"; : > over'}
YAML
expect 6 'an output that another wrote to, by a process that is long gone' bulkhead run two.yaml -q --max-parallel 2
expect 0 'explain of it' bulkhead explain @latest owner
has 'names who it was' "$out" "the other, as the kernel tells: agent 'quick' (attempt 1)"

cat > memory.yaml << 'YAML'
version: 1
name: memory
boxes: {x: {limits: {memory: 64MiB}}}
max_failures: 2
agents:
  - name: hold
    box: x
    run: |
      for i in 1 2 3; do (head -c 12M /dev/zero; : > filled$i; while [ ! -e over ]; do sleep 0.1; done) | tail -n 1 > /dev/null & done
      while [ ! -e filled1 ] || [ ! -e filled2 ] || [ ! -e filled3 ]; do sleep 0.1; done
      : > up; while [ ! -e dead ]; do sleep 0.1; done
      i=0; while [ $i -lt 50 ]; do sleep 0.1; i=$((i + 1)); done; : > over; wait
  - {name: second, box: x, run: 'while [ ! -e up ]; do sleep 0.1; done; head -c 60M /dev/zero | tail -n 1 | cat > /dev/null; : > dead; exit 1'}
YAML
expect 0 'a box without memory left' bulkhead run memory.yaml -q --max-parallel 3
expect 0 'explain of it' bulkhead explain @latest second
has 'names who held most' "$out" "the cause, as the kernel counts: agent 'hold' (attempt 1) held"
check 'nothing is left running' wait_for_none
done_testing
