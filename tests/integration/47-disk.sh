#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Disks: a run in which one agent writes too much, and a state directory on a disk that is small, full or read-only.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

attempt() { # agent field: of its last attempt
  bulkhead show @latest -o json | python3 -c '
import json, sys
a = [a for a in json.load(sys.stdin)["agents"] if a["name"] == sys.argv[1]][0]["attempts"][-1]
print(eval("a" + sys.argv[2]))' "$1" "$2"
}

# --- one writes too much, its neighbours do not mind
cat > much.yaml << 'YAML'
version: 1
name: much
topology: per-agent
max_failures: 100
agents:
  - name: bytes
    limits: {disk: 32MiB}
    keep: on-failure
    run: 'i=0; while :; do head -c 1M /dev/zero > f$i; i=$((i + 1)); done'
  - name: files
    limits: {inodes: 500}
    run: 'i=0; while :; do true > f$i; i=$((i + 1)); done'
  - name: one
    limits: {disk: 8MiB}
    run: 'head -c 100M /dev/zero > f'
  - name: memory
    limits: {disk: 8MiB, memory: 512MiB}
    keep: never
    run: 'echo right > out/r; head -c 100M /dev/zero > f || rm f'
    outputs: [r]
  - name: tiny
    limits: {disk: 10MiB, inodes: 100}
    keep: never
    run: 'i=0; while [ $i -lt 400 ]; do : > f$i || exit 1; i=$((i + 1)); done; sleep 60'
  - name: good
    run: 'echo fine > out/g'
    outputs: [g]
YAML
sed 's/, memory: 512MiB//' much.yaml > portable.yaml # without a control group that limit would be refused
expect 0 "the run bears what fails in it" bulkhead run portable.yaml -q
for agent in bytes files one; do
  same "$agent: the reason" "$(attempt "$agent" '["reason"]')" disk-full
done
has "bytes: how much it held, and what its limit is" "$(attempt bytes '["detail"]')" "its limit is 32.0 MiB"
has "files: how many there were" "$(attempt files '["detail"]')" "files, and its limit is 500"
same "tiny: the reason" "$(attempt tiny '["reason"]')" disk-full
check "tiny: it is the files that were too many" \
  sh -c 'case $1 in *"inodes limit of 100 was reached" | *"files, and its limit is 100"*) ;; *) exit 1 ;; esac' sh \
  "$(attempt tiny '["detail"]')"
expect 0 "explain of it" bulkhead explain @latest tiny
has "tiny: and what mends it" "$out" "raise 'limits.inodes' of the agent"
kept=$(attempt bytes '["kept_box"]')
check "what it wrote can be looked at" test -s "$kept/upper/root/workspace/f3"
same "an agent that wrote no more than it may in the end has succeeded" "$(attempt memory '["status"]')" succeeded
same "what it held is in the record" "$(attempt memory '["usage"]["disk_bytes"] >= 0')" True
same "its output is the right one" "$(bulkhead get @latest r --to -)" right
same "a neighbour is none the wiser" "$(attempt good '["status"]')" succeeded

# --- a shared box is over: whoever was in it is told whose limit it was
cat > shared.yaml << 'YAML'
version: 1
name: shared
max_failures: 100
boxes: {x: {limits: {disk: 8MiB}}}
agents:
  - {name: hog, box: x, run: 'i=0; while :; do head -c 1M /dev/zero > f$i; i=$((i + 1)); done'}
  - {name: still, box: x, run: 'sleep 600'}
YAML
expect 0 "the run bears that its box is full" bulkhead run shared.yaml -q
for agent in hog still; do
  has "$agent: the box is named" "$(attempt $agent '["detail"]')" "box 'x' held"
  has "$agent: and that all were stopped" "$(attempt $agent '["detail"]')" "all agents that ran in it were stopped"
  expect 0 "explain of $agent" bulkhead explain @latest $agent
  has "$agent: the remedy is the box's" "$out" "raise 'boxes.x.limits.disk'"
done

# --- a small disk of its own
if [ "$1" = user ]; then
  done_testing
  exit
fi
mkdir disk
unshare -m true 2>/dev/null || skip_all mount "unshare -m does not work"
cat > ok.yaml << 'YAML'
version: 1
name: ok
agents:
  - {name: a, run: 'echo fine > out/g', outputs: [g]}
YAML
cat > fill.yaml << 'YAML'
version: 1
name: fill
topology: per-agent
max_failures: 100
agents:
  - {name: bad, run: 'while :; do head -c 1M /dev/zero >> f; done 2> /dev/null'}
  - {name: good, run: 'echo fine > out/g', outputs: [g]}
YAML
if [ -x /bin/busybox ]; then
  PYTHONPATH="$BH_SOURCE/tests/support" python3 -B -c '
import make_image as m
m.write_layout("bomb", [m.second_layer(lambda t: t.add("bomb", data=b"bulkhead" * (12 << 20)), "gzip")])'
  printf 'version: 1\nname: bomb\nbase: "oci:bomb"\nagents:\n  - {name: a, run: "true"}\n' > bomb.yaml
fi
# shellcheck disable=SC2016 # for the shell within
expect 0 "everything on it goes as it should" unshare -m bash -c '
set -eu
mount -t tmpfs -o size=800m,mode=0755 disk disk
export BULKHEAD_HOME=$PWD/disk/home
said() { local want=$1 got=0; shift; "$work/bin/bulkhead" "$@" > said 2>&1 || got=$?; [ $got -eq $want ] || { cat said; echo "exit $got, wanted $want"; exit 1; }; }
export work=$1
said 0 run fill.yaml -q
said 0 show @latest
grep -q "disk-full" said && grep -q "nearly full" said || { cat said; exit 1; }
rm -rf disk/home/runs/*/boxes
head -c 1G /dev/zero > disk/others 2>/dev/null || true
said 7 run ok.yaml
grep -q "No space left on device\|disk is full" said || { cat said; exit 1; }
truncate -s -4M disk/others
said 7 run ok.yaml
grep -q "is nearly full" said || { cat said; exit 1; }
rm disk/others
said 0 run ok.yaml -q
if [ -e bomb.yaml ]; then # a few KiB that hold more than there is
  head -c 1G /dev/zero > disk/others 2>/dev/null || true
  truncate -s -100M disk/others
  said 7 run bomb.yaml
  grep -q "disk, which is nearly full" said || { cat said; exit 1; }
  free=$(df --output=avail -B1M disk | tail -n 1)
  [ "$free" -ge 30 ] || { echo "$free MiB are free"; exit 1; }
  [ -z "$(find disk/home/bases -name ".bh-tmp-*")" ] || { echo "something is left"; exit 1; }
  said 0 run ok.yaml -q
  rm disk/others
fi
mount -o remount,bind,ro disk
said 7 run ok.yaml
grep -q "Read-only file system" said || { cat said; exit 1; }
' - "$work"

done_testing
