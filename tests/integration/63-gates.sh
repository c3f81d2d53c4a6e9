#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gates: people who approve, reject, come late or to nobody; what is validated and what becomes of it. Usage: 63-gates.sh MODE.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

shown() { # expression over the JSON of the run
  bulkhead show "$run" -o json | field "$1"
}

gate_is() { # name status
  bulkhead show "$run" -o json | python3 -c 'import json,sys
sys.exit(not any(g["gate"] == sys.argv[1] and g["status"] == sys.argv[2] for g in json.load(sys.stdin)["gates"]))' "$1" "$2"
}

question() { # name
  bulkhead show "$run" -o json | python3 -c 'import json,sys
print(next(g["digest"] for g in json.load(sys.stdin)["gates"] if g["gate"] == sys.argv[1]))' "$1"
}

asked() { # document gate: starts the run and waits until the gate is asked
  start_run "$1"
  wait_until gate_is "$2" asked || not_ok "$1: '$2' is asked" "$(cat run.err)"
}

ends_with() { # status description: of the run in the background
  local got=0
  wait "$pid" || got=$?
  if [ "$got" -eq "$1" ]; then ok "$2"; else not_ok "$2" "exit status $got, wanted $1" "$(cat run.err)"; fi
}

audited() { # kind verdict name: how many lines of this run
  python3 -c 'import json,sys
rows = [json.loads(l) for l in open(sys.argv[1])]
print(sum(r["kind"] == sys.argv[2] and r.get("verdict") == sys.argv[3] and r.get("name") == sys.argv[4] and r.get("run") == sys.argv[5]
          for r in rows))' "$work/home/audit/audit.jsonl" "$1" "$2" "$3" "$run"
}

provenance() { # artifact expression over what its consumer was told of it
  bulkhead get "$run" seen --to - | python3 -c 'import json,sys
v = json.load(sys.stdin)[sys.argv[1]]
print(eval("v" + sys.argv[2]))' "$1" "$2"
}

# --- one agent, approved ---

cat > one.yaml << 'YAML'
version: 1
name: one
agents:
  - name: reader
    untrusted: true
    run: printf 'a page \033[31mred\n' > out/page; echo ran >> in-reader; echo "$BULKHEAD_TRY"
    outputs: [page]
  - name: publisher
    inputs: [page]
    gate: approve
    run: cp in/.provenance.json out/seen
    outputs: [seen]
YAML
asked one.yaml publisher
has 'the run says what waits, and how to decide' "$(cat run.err)" "asking    publisher: 1 artifact would pass, 1 of them tainted; decide within 1h"
has '  with the command' "$(cat run.err)" "bulkhead approve $run publisher"
has 'explain says so too' "$(bulkhead explain "$run" publisher)" "waits for a decision since"
has 'and show' "$(bulkhead show "$run")" "'bulkhead approve $run publisher' decides"
has 'and ps' "$(bulkhead ps 2>&1)" 'running, asks: publisher'
same '  as JSON too' "$(bulkhead ps -o json | field '[0]["asks"]')" "['publisher']"
got=0
said=$(python3 - "$work/bin/bulkhead" approve "$run" publisher << 'PY'
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
while True:
    try:
        part = os.read(fd, 4096)
    except OSError:
        break
    if not part:
        break
    if b"[y/N]" in part and b"[y/N]" not in seen:
        os.write(fd, b"n\n")
    seen += part
print(seen.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
) || got=$?
same 'who answers no has decided nothing' "$got" 2
has '  and is told so' "$said" "nothing was decided about 'publisher'"
has '  and what there is to say' "$said" "'bulkhead reject $run publisher' keeps it out"
lacks '  and not to read the manual' "$said" "see 'bulkhead help'"
expect 2 'approve needs a terminal or what was seen' bulkhead approve "$run" publisher
has '  it shows what would pass' "$out" 'page'
has '  its label, and why' "$out" 'tainted (untrusted: true)'
has '  who made it' "$out" 'reader, attempt 1'
lacks '  and not a byte of it' "$out$errs" 'a page'
has '  and says how' "$errs" "--digest sha256:"
expect 2 '--content shows it, escaped' bulkhead approve "$run" publisher --content
has '  escaped' "$out" '| a page \x1B[31mred'
expect 2 'a digest of something else is refused' bulkhead approve "$run" publisher --digest sha256:0123456789abcdef
has '  by name' "$errs" "is not what would pass the gate 'publisher' now"
expect 2 'so is a short one' bulkhead approve "$run" publisher --digest sha256:0
expect 2 'and an agent without a gate' bulkhead approve "$run" reader --digest "$(question publisher)"
has '  which is told what waits' "$errs" "what waits for a decision: 'publisher'"
expect 2 'a reason is one line' bulkhead approve "$run" publisher --digest "$(question publisher)" --reason $'a\nb'
check 'nothing has passed so far' gate_is publisher asked
page=$(bulkhead artifacts "$run" -o json | python3 -c 'import json,sys; print(next(a["digest"] for a in json.load(sys.stdin) if a["name"] == "page"))')
expect 0 'the digest of the one artifact does' bulkhead approve "$run" publisher --digest "$page" --reason 'read it' -o json
same '  the verdict as JSON' "$(json '["verdict"]')" approve
ends_with 0 'the run goes on and succeeds'
same 'what passed says by which gate' "$(provenance page '["passed"][0]["gate"]')" publisher
same '  how' "$(provenance page '["passed"][0]["how"]')" approve
same '  and why' "$(provenance page '["passed"][0]["reason"]')" 'read it'
same 'a gate that is no accept clears no label' "$(bulkhead show "$run" -o json | field '["agents"][1]["label"]')" tainted
same 'the verdict is in the audit log' "$(audited gate approve publisher)" 1
expect 0 'saying it again changes nothing' bulkhead approve "$run" publisher --digest "$page"
has '  and says so' "$out" 'as it was before'
expect 2 '  but what was seen has to be what passed' bulkhead approve "$run" publisher --digest 000000000000
has '  by name' "$errs" "is not what would pass the gate 'publisher' now"
expect 2 'saying the opposite is too late' bulkhead reject "$run" publisher --digest "$page"
has '  by whom it was decided' "$errs" 'is approved already, by '

# --- bytes of the tainted and a terminal ---

if ! command -v script > /dev/null; then
  skip_some script "no terminal can be made here"
else
  expect 2 'the bytes of a tainted artifact are not shown to a terminal' script -qec "$work/bin/bulkhead get $run page --to -" /dev/null
  has '  it says why' "$out" "'page' is tainted, and standard output is a terminal"
  has '  and what to do' "$out" "bulkhead get $run page --to - | less"
  lacks '  not one of them' "$out" 'a page'
  expect 0 '  but where they are asked for' script -qec "$work/bin/bulkhead get $run page --to - --content" /dev/null
  has '  they are as they are' "$out" $'a page \033[31mred'
fi
expect 0 '  and to a pipe they go' bulkhead get "$run" page --to -
has '  as they are' "$out" $'a page \033[31mred'

# --- rejected, then after all ---

asked one.yaml publisher
expect 0 'reject' bulkhead reject "$run" publisher --digest "$(question publisher)" --reason 'says too much'
ends_with 5 'the run fails by policy'
has '  and says by whom and why' "$(cat run.err)" "gate 'publisher' was rejected by "
has '  in the words of who did' "$(cat run.err)" ': says too much'
has 'explain has the remedy' "$(bulkhead explain "$run" publisher)" "'bulkhead approve $run publisher'"
same 'show has the reason' "$(shown '["failure"]["reason"]')" policy
expect 5 'resumed, the same is not asked again' bulkhead run --resume "$run"
lacks '  nobody was asked' "$errs" 'asking'
same '  who had succeeded did not run again' "$(shown '["agents"][0]["attempts"].__len__()')" 1
expect 0 'a person changes their mind' bulkhead approve "$run" publisher --digest "$(question publisher)"
has '  and is told what takes it up' "$errs" "bulkhead run --resume $run"
expect 0 '  then it goes on' bulkhead run --resume "$run"
lacks '  without asking' "$errs" 'asking'
same '  both verdicts are in the audit log' "$(audited gate reject publisher)$(audited gate approve publisher)" 11

# --- nobody drives the run while a person decides ---

asked one.yaml publisher
kill_run
wait_for_none
expect 0 'a decision about a run that is dead' bulkhead approve "$run" publisher --digest "$(question publisher)"
expect 0 '  counts when it is taken up' bulkhead run --resume "$run"
lacks '  without asking' "$errs" 'asking'
same '  who had succeeded did not run again' "$(shown '["agents"][0]["attempts"].__len__()')" 1

asked one.yaml publisher
kill_run
wait_for_none
"$work/bin/bulkhead" run --resume "$run" > run.out 2> run.err &
pid=$!
wait_until grep -q asking run.err || not_ok 'a question that was open is put again' "$(cat run.err)"
mkdir -p "$work/home/runs/$run/decisions"
printf '{"verdict":"approve"}' > "$work/home/runs/$run/decisions/$(question publisher | cut -d: -f2).json"
printf '{"verdict":"approve"}' > "$work/home/runs/$run/decisions/x.json"
check 'a file that is no decision decides nothing' gate_is publisher asked
expect 0 'a real one takes its place' bulkhead approve "$run" publisher --digest "$(question publisher)"
ends_with 0 '  and the run goes on'

# --- cancelled, and out of time ---

asked one.yaml publisher
kill -s INT "$pid"
ends_with 130 'a run that waits can be cancelled'
asks=$(question publisher)
expect 2 'what was seen must be what is asked' bulkhead approve "$run" publisher --digest 000000000000
expect 0 'what was asked can be decided then' bulkhead approve "$run" publisher --digest "$asks" --reason AAA -o json
same '  for the first time' "$(json '["repeated"]') $(json '["replaces"]')" 'False None'
has '  show says what waits for whom' "$(bulkhead show "$run")" "AAA; counts at 'bulkhead run --resume $run'"
has '  explain does' "$(bulkhead explain "$run" publisher)" ": AAA; counts at 'bulkhead run --resume $run'"
same '  so does JSON' "$(shown '["gates"][0]["pending"]["verdict"]')" approve
same '  and the audit log at once' "$(audited gate approve publisher)" 1
expect 0 'the same once more' bulkhead approve "$run" publisher --digest "$asks" --reason BBB -o json
same '  is a repetition' "$(json '["repeated"]')" True
expect 2 '  of what was seen' bulkhead approve "$run" publisher --digest 000000000000
expect 0 'the opposite' bulkhead reject "$run" publisher --digest "$asks" --reason CCC
has '  says what it replaces' "$out" 'it was approved before by '
has '  in the words of who did, which the repetition left alone' "$out" ': AAA: this replaces it'
has '  show has the newest' "$(bulkhead show "$run")" ': CCC; counts at'
expect 0 'and back' bulkhead approve "$run" publisher --digest "$asks" -o json
same '  says so too' "$(json '["replaces"]')" reject
expect 0 '  for when it is resumed' bulkhead run --resume "$run"
lacks '  without asking' "$errs" 'asking'
same '  nothing is pending then' "$(shown '["gates"][0]["status"]') $(shown '["gates"][0]["pending"]')" 'approved None'
same '  each decision is one line of the audit log' "$(audited gate approve publisher)$(audited gate reject publisher)" 21

sed 's/    gate: approve/    gate: approve\n    timeout: 1s/' one.yaml > late.yaml
expect 1 'nobody decides in time' bulkhead run late.yaml
has '  that is the reason' "$errs" "timeout(gate): gate 'publisher' was not decided within 1"
run=@latest
same '  in show' "$(shown '["failure"]["reason"]')" 'timeout(gate)'
run=$(shown '["run"]')
has '  explain says that one can decide now' "$(bulkhead explain "$run" publisher)" "decide now with 'bulkhead approve $run publisher'"
expect 0 'it may be decided when it is over' bulkhead approve "$run" publisher --digest "$(question publisher)"
expect 0 '  and goes on' bulkhead run --resume "$run"

# --- one question for a stage ---

cat > stage.yaml << 'YAML'
version: 1
name: stage
stages:
  - name: make
    agents:
      - {name: a, run: echo a > out/x, outputs: [x]}
      - {name: b, run: echo b > out/y, outputs: [y]}
  - name: ship
    gate: approve
    agents:
      - {name: c, inputs: [x], run: cp in/x out/z, outputs: [z]}
      - {name: d, inputs: [y, z], run: cp in/.provenance.json out/seen, outputs: [seen]}
YAML
asked stage.yaml ship
same 'a stage is one question' "$(shown '["gates"].__len__()')" 1
same '  about what comes from outside' "$(bulkhead show "$run" -o json | python3 -c 'import json,sys; print(*[a["name"] for a in json.load(sys.stdin)["gates"][0]["artifacts"]])')" 'x y'
expect 0 '  approved by its name' bulkhead approve "$run" ship --digest "$(question ship)"
ends_with 0 '  all of it goes on'
same 'what passed names the stage' "$(provenance y '["passed"][0]["gate"]')" ship
same '  and what was made inside passed no gate' "$(provenance z '.get("passed")')" None

asked stage.yaml ship
expect 0 'rejected by its name' bulkhead reject "$run" ship --digest "$(question ship)"
ends_with 5 '  nothing behind it starts'
has '  the remedy of the run names the stage' "$(shown '["failure"]["remedy"]')" "'bulkhead approve $run ship'"
has '  so does that of an agent' "$(bulkhead explain "$run" c)" "'bulkhead approve $run ship'"
expect 0 '  which does' bulkhead approve "$run" ship --digest "$(question ship)"
expect 0 '    what it says' bulkhead run --resume "$run"

# --- the same is asked once ---

cat > twice.yaml << 'YAML'
version: 1
name: twice
agents:
  - {name: reader, untrusted: true, run: echo data > out/page, outputs: [page]}
  - name: first
    inputs: [page]
    accept: {page: {approve: true}}
    run: cp in/page out/one
    outputs: [one]
  - name: second
    needs: [first]
    inputs: [page]
    accept: {'p*': {approve: true}}
    run: cp in/.provenance.json out/seen
    outputs: [seen]
YAML
asked twice.yaml first
expect 0 'an input is approved' bulkhead approve "$run" first --digest "$(question first)"
ends_with 0 'the same input of another agent is not asked again'
same '  it was approved before' "$(bulkhead show "$run" -o json | python3 -c 'import json,sys; print(next(g["how"] for g in json.load(sys.stdin)["gates"] if g["gate"] == "second"))')" 'approved before'
same 'what an approved input leads to is trusted' "$(bulkhead artifacts "$run" -o json | python3 -c 'import json,sys; print(*sorted(a["name"] + "=" + a["label"] for a in json.load(sys.stdin)))')" 'one=trusted page=tainted seen=trusted'

# --- validated inputs ---

cat > judge.py << 'PY'
import json, os, socket, sys
path = os.environ["BULKHEAD_ARTIFACT"]
print("judge", sorted(os.listdir("/workspace/in")), sorted(os.environ), [i[1] for i in socket.if_nameindex()])
try:
    open(path, "a")
    print("writable")
except OSError:
    print("read-only")
sys.exit(0 if all(json.loads(line)["n"] < int(sys.argv[1]) for line in open(path)) else 9)
PY
cat > valid.yaml << 'YAML'
version: 1
name: valid
params: {text: {type: string}, most: {type: int, default: 5}}
agents:
  - name: reader
    untrusted: true
    env: {TEXT: "{{params.text}}"}
    run: printf '%s\n' "$TEXT" > out/rows.jsonl
    outputs: [rows.jsonl]
  - name: writer
    inputs: [rows.jsonl]
    files: {judge.py: judge.py}
    env: {OWN: variable}
    accept:
      rows.jsonl: {validate: {kind: jsonl, max_size: 1KiB, max_lines: 2, command: [python3, judge.py, "{{params.most}}"]}}
    run: cp in/.provenance.json out/seen; echo begun
    outputs: [seen]
YAML
expect 0 'what is valid passes' bulkhead run valid.yaml -p 'text={"n":1}'
run=$(bulkhead ps --all -o json | field '[0]["run"]')
same '  its provenance says so' "$(provenance rows.jsonl '["passed"][0]["how"]')" validate
same '  the label stays on what is made of it' "$(bulkhead artifacts "$run" -o json | python3 -c 'import json,sys; print(*{a["label"] for a in json.load(sys.stdin)})')" tainted
log=$(bulkhead logs "$run" -a writer --content --no-prefix)
has 'the command sees the artifact alone, with no network and no variable of the agent' "$log" \
  "judge ['.provenance.json', 'rows.jsonl'] ['BULKHEAD_ARTIFACT', 'HOME', 'LANG', 'PATH', 'TMPDIR'] ['lo']"
has '  read-only' "$log" 'read-only'
same '  the audit log has it' "$(audited gate pass writer)" 1
while IFS='|' read -r text why; do
  expect 5 "'$text' does not pass" bulkhead run valid.yaml -p "text=$text"
  has '  and is told why' "$errs" "the gate for input 'rows.jsonl' is shut: $why"
  lacks '  the agent was not begun' "$(bulkhead logs @latest --content --no-prefix)" begun
done << 'TABLE'
{"n":1|line 1 is no JSON value
{"n":7}|its validation exited with code 9
TABLE
expect 5 'nor do too many lines' bulkhead run valid.yaml -p $'text={"n":1}\n{"n":1}\n{"n":1}'
has '  and is told why' "$errs" 'it has 3 lines, more than 2'
lacks 'a refusal quotes nothing of what was refused' "$(bulkhead explain @latest)$errs" '"n"'
run=$(bulkhead ps --all -o json | field '[0]["run"]')
same 'the refusal is in the audit log' "$(audited gate refuse writer)" 1
has 'the remedy names what was asked' "$(bulkhead explain @latest writer)" "what 'accept' asks of it"

sed 's/"{{params.most}}"\]}}/"{{params.most}}"]}, endorse: true}/' valid.yaml > endorse.yaml
expect 0 'what is endorsed' bulkhead run endorse.yaml -p 'text={"n":1}'
run=$(bulkhead ps --all -o json | field '[0]["run"]')
same '  leads to trusted data' "$(bulkhead artifacts "$run" -o json | python3 -c 'import json,sys; print(next(a["label"] for a in json.load(sys.stdin) if a["name"] == "seen"))')" trusted
same '  and is audited as an override' "$(audited override endorse writer)" 1
same '  the agent is trusted' "$(bulkhead show "$run" -o json | field '["agents"][1]["label"]')" trusted
expect 0 '  but what its gate printed of the tainted text' bulkhead logs "$run"
lacks '    is not in its log' "$out$errs" judge
has '    which says so' "$errs" "lines of 'writer' are withheld"
has '    and has its own' "$out" begun
lacks '    nor in that as JSON' "$(bulkhead logs "$run" -o json 2> /dev/null)" judge
has '    which tells with --content whose text it is' "$(bulkhead logs "$run" -a writer --content -o json | grep judge | head -n 1)" '"tainted":true'
has '    from the text of the agent' "$(bulkhead logs "$run" -a writer -o json 2> /dev/null | grep begun)" '"tainted":false'
expect 5 '  nor where the gate is shut' bulkhead run endorse.yaml -p 'text={"n":7}'
lacks '    in what the run says' "$out$errs" judge
lacks '    nor in explain' "$(bulkhead explain @latest writer)$(bulkhead explain @latest writer -o json)" 'judge ['
has '    which says what does show it' "$(bulkhead explain @latest writer)" "what the command of its gate printed is withheld: 'bulkhead logs "

# --- a power behind a gate ---

cat > power.yaml << 'YAML'
version: 1
name: power
secrets: {token: {env: A_TOKEN}}
agents:
  - {name: reader, untrusted: true, run: 'echo "{}" > out/sum.json', outputs: [sum.json]}
  - name: publisher
    inputs: [sum.json]
    accept: {sum.json: {validate: {kind: json, max_size: 4KiB}}}
    secrets: [token]
    run: test "$TOKEN" = 'a value of it'; cp in/sum.json out/pub
    outputs: [pub]
YAML
export A_TOKEN='a value of it'
expect 0 'an agent that holds a secret gets what its gate lets in' bulkhead run power.yaml --grant
has 'provenance tells by which gate' "$(bulkhead provenance @latest pub)" 'sum.json came in by gate publisher: validate by the document at '
sed 's/, accept: .*//; /accept:/d' power.yaml > bare.yaml
expect 5 'and without a gate is refused' bulkhead run bare.yaml --grant

cat > beside.yaml << 'YAML'
version: 1
name: beside
secrets: {token: {env: A_TOKEN}}
boxes: {lab: {}}
agents:
  - {name: reader, untrusted: true, run: 'echo "{}" > out/sum.json', outputs: [sum.json]}
  - {name: admitted, box: lab, inputs: [sum.json], accept: {sum.json: {validate: {kind: json}}}, run: 'cp in/sum.json /workspace/left'}
  - {name: holder, box: lab, needs: [admitted], secrets: [token], run: 'cat left'}
YAML
for verb in lint plan 'run --grant'; do
  # shellcheck disable=SC2086 # two words
  expect 5 "nor does another gate of the box let it in: $verb" bulkhead $verb beside.yaml
  has '  it says for whom it was let in' "$errs" "agent 'admitted' lets 'sum.json' into box 'lab', which it shares and which has a power of agent 'holder': secret token"
  has '  and what to do' "$errs" "'topology' of 'admitted' away, and the plan gives it a box of its own"
done

# --- validated outputs ---

cat > outputs.yaml << 'YAML'
version: 1
name: outputs
params: {patch: {type: string}}
agents:
  - name: fixer
    env: {P: "{{params.patch}}"}
    run: printf '%s\n' "$P" > out/fix.patch; echo fine > out/notes
    outputs: [notes, {name: fix.patch, validate: {kind: patch, paths: ['src/*'], max_files: 1, command: [grep, -q, ok, /workspace/in/fix.patch]}}]
YAML
expect 0 'an output that is valid' bulkhead run outputs.yaml -p $'patch=--- a/src/x\n+++ b/src/x\n@@ -1 +1 @@\n-no\n+ok'
same '  is published' "$(bulkhead artifacts @latest -o json | field '.__len__()')" 2
expect 1 'one that is not' bulkhead run outputs.yaml -p $'patch=--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-no\n+ok'
has '  is output-invalid' "$errs" "output-invalid: output 'fix.patch' is not valid: line 1 of the patch names a path that is not clean"
same '  and nothing is published' "$(bulkhead artifacts @latest -o json | field '.__len__()')" 0
expect 1 'one that its command refuses' bulkhead run outputs.yaml -p $'patch=--- a/src/x\n+++ b/src/x\n@@ -1 +1 @@\n-no\n+no'
has '  says so' "$errs" "output 'fix.patch' is not valid: its validation exited with code 1"
has '  with a remedy' "$(bulkhead explain @latest)" "what 'validate' asks of it"

check 'the chain of the audit log holds' bulkhead audit verify
check 'nothing is left over' wait_for_none
done_testing
