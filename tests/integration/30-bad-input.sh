#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Documents that are wrong: a message with file:line:column (and the path in the document where there is one), exit 3, never a crash.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

python3 - << 'PY'
head = "version: 1\nname: t\n"
agents = "agents:\n  - {name: a, run: 'true', outputs: [x]}\n"
cases = {
    "empty": b"",
    "comment": b"# nothing\n",
    "binary": bytes(range(256)) * 4,
    "nul": b"version: 1\nname: t\0\n",
    "utf16": (head + agents).encode("utf-16"),
    "latin1": b"version: 1\nname: caf\xe9\n",
    "big": b"# " + b"x" * 10_000_000 + b"\n",
    "deep": (head + "x-d: " + "[" * 10_000 + "]" * 10_000 + "\n" + agents).encode(),
    "laughs": (head + "x-a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"x-{b}: &{b} [" + ",".join(["*" + a] * 9) + "]\n" for a, b in zip("abcdefghijk", "bcdefghijkl")) + agents).encode(),
    "two": (head + agents + "---\n" + head + agents).encode(),
    "tab": (head + "agents:\n\t- name: a\n").encode(),
    "duplicate": (head + "name: again\n" + agents).encode(),
    "unknown": (head + "agents:\n  - {name: a, run: 'true', output: [x]}\n").encode(),
    "type": (head + "agents:\n  - {name: a, run: 'true', outputs: x}\n").encode(),
    "param": (head + "agents:\n  - {name: a, run: [echo, '{{params.nope}}']}\n").encode(),
    "shell": (head + "params: {x: {type: string, default: y}}\nagents:\n  - {name: a, run: 'echo {{params.x}}'}\n").encode(),
    "self": (head + "agents:\n  - {name: a, run: 'true', inputs: [x], outputs: [x]}\n").encode(),
    "cycle": (head + "agents:\n  - {name: a, run: 'true', needs: [c]}\n  - {name: b, run: 'true', needs: [a]}\n"
              "  - {name: c, run: 'true', needs: [b]}\n").encode(),
    "nothing": (head + "agents:\n  - {name: a, run: 'true', inputs: [y]}\n").encode(),
    "need": (head + "agents:\n  - {name: a, run: 'true', needs: [zz]}\n").encode(),
    "badname": (head + "agents:\n  - {name: a, run: 'true', outputs: ['../x']}\n").encode(),
    "missingfile": (head + "agents:\n  - {name: a, run: 'true', files: {x: ./nofile}}\n").encode(),
    "tag": (head + "x-t: !!python/object:os.system x\n" + agents).encode(),
    "directive": ("%YAML 1.2\n---\n" + head + agents).encode(),
    "version": ("version: 2\nname: t\n" + agents).encode(),
    "alias": (head + "x-a: *nope\n" + agents).encode(),
    "scalar": b"just text\n",
    "list": b"- 1\n- 2\n",
}
for name, data in cases.items():
    open(name + ".yaml", "wb").write(data)
PY

while IFS='|' read -r file part path; do
  expect 3 "lint refuses '$file'" timeout 20 "$work/bin/bulkhead" lint "$file.yaml"
  check "  names the place" grep -qE "^$file\.yaml:[0-9]+:[0-9]+: " <(printf '%s\n' "$errs")
  has "  says why" "$errs" "$part"
  [ -z "$path" ] || has "  names the path" "$errs" "$path"
  expect 3 "  run refuses it" timeout 20 "$work/bin/bulkhead" run "$file.yaml" -q
done << 'TABLE'
empty|empty|
comment|empty|
binary||
nul||
utf16|UTF-16|
latin1|UTF-8|
deep|deep|
laughs||
two|document|
tab|tab|
duplicate|'name'|
unknown|outputs|agents[0]
type|list|agents[0].outputs
param|nope|agents[0].run
shell|env|agents[0].run
self|a|
cycle|a|
nothing|'y'|agents[0]
need|'zz'|agents[0]
badname|..|agents[0].outputs
missingfile|nofile|
tag|tag|
directive|directive|
version|version|version
alias|nope|
scalar||
list||
TABLE
expect 3 'a document of 10 MB' bulkhead lint big.yaml
has 'is too large' "$errs" '4 MiB'
expect 3 'cycles name their members' bulkhead lint cycle.yaml
for member in a b c; do has "  $member" "$errs" "$member"; done
expect 0 'no run was made' bulkhead ps --all -o json
same 'none' "$out" '[]'
printf 'version: 1\nname: t\nagents:\n  - {name: a, run: "true", outputz: [x]}\n  - {name: a, runn: "true"}\n' > many.yaml
expect 3 'all errors of a file' bulkhead lint many.yaml -o json
check 'at once' test "$(printf '%s' "$out" | field '["errors"].__len__()')" -ge 3

# --- keys of a later version: lint warns, plan prints and refuses, run refuses
later() { printf 'version: 1\nname: t\n%s\nagents:\n  - {name: a, run: "true", %s}\n' "$1" "$2" > later.yaml; }
while IFS='|' read -r top agent; do
  later "$top" "$agent"
  expect 0 "lint accepts '$top$agent'" bulkhead lint later.yaml
  has '  with a warning' "$errs" 'warning: '
  expect 3 '  plan refuses' bulkhead plan later.yaml
  has '  after it has printed the placement' "$out" 'boxes:'
  expect 3 '  run refuses' bulkhead run later.yaml -o json
  same '  as not-supported' "$(printf '%s' "$out" | field '["errors"][0]["code"]')" not-supported
done << 'TABLE'
|retries: 2
|matrix: {x: [a, b]}
|when: always, needs: []
TABLE
printf 'version: 1\nname: t\nask: x\nagents: [{name: a, run: "true"}]\n' > reserved.yaml
expect 3 'reserved words are refused' bulkhead lint reserved.yaml -o json
same 'as not-supported' "$(printf '%s' "$out" | field '["errors"][0]["code"]')" not-supported

done_testing
