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
      i=0; while [ $i -lt 3000 ]; do echo theirs >&3; i=$((i + 1)); sleep 0.001; done
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
if [ "$mode" = root ]; then
  same 'the kernel tells who it was' "$(evidence owner 'e["attributed"], [w["agent"] for w in e["writers"]]')" "(True, ['writer'])"
  lacks 'so that nobody else is named' "$(attempt owner '["detail"]')" bystander
else
  same 'nobody tells who it was' "$(evidence owner 'e["attributed"], e["writers"]')" '(False, [])'
  has 'all that were there are named' "$(attempt owner '["detail"]')" "agent 'bystander' (attempt 1)"
fi
expect 0 'explain tells it' bulkhead explain @latest owner
has 'with the owner' "$out" "output 'x'"
done_testing
