#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every verb as the contract fixes it: what goes to stdout, what to stderr, exit statuses, JSON.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

# --- init, lint, plan
expect 0 'init writes a starter' bulkhead init first
check 'the file is there' test -f first/pipeline.yaml
expect 2 'and never overwrites it' bulkhead init first
mkdir 'no name'
expect 0 'init as JSON' bulkhead init 'no name' -o json -q
same 'names the file' "$(json '["file"]')" 'no name/pipeline.yaml'
check 'a folder whose name cannot be one gives a starter' grep -q '^name: starter$' 'no name/pipeline.yaml'
expect 2 'init never overwrites' bulkhead init first
has 'says that it exists' "$errs" 'exists'
expect 0 'the starter lints' bulkhead lint first/pipeline.yaml
expect 0 'lint as JSON' bulkhead lint first/pipeline.yaml -o json
same 'without errors' "$(json '["errors"]')" '[]'
expect 0 'plan as text' bulkhead plan first/pipeline.yaml
has 'shows the box and why' "$out" 'why:'
expect 0 'plan as dot' bulkhead plan first/pipeline.yaml --format dot
has 'is a digraph' "$out" 'digraph'
expect 0 'plan as mermaid' bulkhead plan first/pipeline.yaml --format mermaid
has 'is a flowchart' "$out" 'flowchart'
expect 0 'plan as JSON' bulkhead plan first/pipeline.yaml -o json
for key in name asks boxes agents warnings; do has "plan has '$key'" "$out" "\"$key\""; done
same 'an agent runs after the other' "$(json '["agents"][1]["after"]')" "['researcher']"
expect 0 'a dry run is a plan' bulkhead run first/pipeline.yaml -n
has 'with boxes' "$out" 'boxes:'
expect 0 'and leaves no run' bulkhead ps --all -o json
same 'none' "$out" '[]'

# --- run and its readers
expect 0 'run with JSON' bulkhead run first/pipeline.yaml -o json -p topic=walls
last=$(printf '%s\n' "$out" | tail -n 1)
run=$(printf '%s' "$last" | field '["run"]')
same 'the last line says the status' "$(printf '%s' "$last" | field '["status"]')" succeeded
has 'progress goes to stderr' "$errs" 'researcher'
expect 0 'a unique prefix names the run' bulkhead show "${run:0:20}" -o json
same 'the same run' "$(json '["run"]')" "$run"
for key in run name status created started ended params usage agents failure; do has "show has '$key'" "$out" "\"$key\""; done
same 'params are there' "$(json '["params"]["topic"]')" walls
for key in attempt try instance status reason exit_code signal started ended duration_ms box selected usage; do
  has "an attempt has '$key'" "$(json '["agents"][0]["attempts"][0]')" "'$key'"
done
expect 0 'show as text' bulkhead show @latest
has 'lists the writer' "$out" writer
expect 0 '@latest:NAME, of the folder' bulkhead show @latest:first -o json
same 'is that run' "$(json '["run"]')" "$run"
expect 2 '@latest of another name' bulkhead show @latest:nobody
expect 0 'ps --all' bulkhead ps --all -o json
same 'one run' "$(json '.__len__()')" 1
expect 0 'logs as JSON' bulkhead logs @latest -o json
for key in time run stage agent attempt try instance box stream seq text; do has "a line has '$key'" "$out" "\"$key\""; done
expect 0 'the writer prints something' bulkhead logs "$run" -a writer
has 'with its name' "$out" 'writer: wrote 3 lines of notes'
lacks 'and without the date of today' "$out" "$(date -u +%Y)-"
expect 2 'logs of a stage that is not there' bulkhead logs "$run" --stage writ
has 'suggests the nearest' "$errs" "did you mean 'write'"
expect 2 'logs of a box that is not there' bulkhead logs "$run" --box elsewhere
has 'says where the names are' "$errs" "bulkhead show $run"
expect 0 'logs chosen by regular expression' bulkhead logs @latest --grep 'looking for w' --no-prefix
same 'the line alone' "$out" 'looking for walls'
expect 0 'logs of the other stream' bulkhead logs @latest --stream stderr
same 'none' "$out" ''
expect 0 'tail' bulkhead logs @latest --tail 0
same 'of nothing' "$out" ''
expect 0 'logs since a duration' bulkhead logs @latest --since 1h
has 'finds it' "$out" 'looking for walls'
expect 0 'logs of the future' bulkhead logs @latest --since 2099-01-01T00:00:00+02:00
same 'are empty' "$out" ''
expect 0 'following an ended run ends' timeout 20 "$work/bin/bulkhead" logs @latest -f
expect 0 'artifacts as JSON' bulkhead artifacts @latest -o json
for key in name digest size kind agent attempt instance label private published; do has "an artifact has '$key'" "$out" "\"$key\""; done
expect 0 'get' bulkhead get @latest notes.md
same 'the bytes are those' "$(sha256sum < notes.md | cut -d' ' -f1)" "$(bulkhead artifacts @latest -o json | field '[1]["digest"][7:]')"
expect 2 'get never overwrites' bulkhead get @latest notes.md
has 'and says how' "$errs" '--force'
expect 0 'unless forced' bulkhead get @latest notes.md --force
expect 2 'get into a folder that is not there' bulkhead get @latest notes.md --to nodir/x
has 'names it as it was given' "$errs" "cannot write to 'nodir/x'"
has 'and says what to do' "$errs" 'make the folder first'
expect 2 'get to a folder that is not there' bulkhead get @latest notes.md --to nodir/
check 'makes none' test ! -e nodir
expect 0 'get as JSON' bulkhead get @latest notes.md --to got.md -o json
for key in name to size digest label; do has "has '$key'" "$out" "\"$key\""; done
expect 2 'an artifact that is not there' bulkhead get @latest note.md
has 'suggests the nearest' "$errs" 'notes.md'
has 'a command of several lines is cut, and says so' "$(bulkhead provenance @latest notes.md)" ' …'
expect 0 'provenance as JSON' bulkhead provenance @latest notes.md -o json
same 'begins with the artifact' "$(json '[0]["name"]')" notes.md
same 'and goes back' "$(json '[1]["name"]')" facts.txt
for key in digest size run agent stage attempt try instance box base command inputs files label started ended exit_code; do
  has "provenance has '$key'" "$out" "\"$key\""
done
expect 0 'explain an agent' bulkhead explain @latest writer
has 'tells where it ran and why' "$out" 'box crew'
expect 2 'explain an agent that is not there' bulkhead explain @latest write
has 'suggests' "$errs" "did you mean 'writer'"
expect 0 'resume of a run that succeeded starts nothing' bulkhead run --resume "$run" -o json
same 'and is the same run' "$(json '["run"]')" "$run"
expect 2 'resume with another document is refused' bulkhead run examples/writers-room/pipeline.yaml --resume "$run"
expect 2 'resume of an unknown run' bulkhead run --resume 0000000000
has 'says no run' "$errs" "no run '0000000000'"

cat > typed.yaml << 'YAML'
version: 1
name: typed
params: {n: {type: int, default: 7}, x: {type: number, default: 0.5}, b: {type: bool, default: true}, s: {type: string, default: "7"}}
agents: [{name: a, run: 'true'}]
YAML
expect 0 'parameters of every type' bulkhead run typed.yaml -q
expect 0 'show' bulkhead show @latest:typed -o json
same 'has them with their types' "$(json '["params"]')" "{'n': 7, 'x': 0.5, 'b': True, 's': '7'}"

# --- what has changed on disk since
mkdir changed
cat > changed/p.yaml << 'YAML'
version: 1
name: changed
agents:
  - {name: good, run: 'true'}
  - {name: bad, files: {model.sh: ./model.sh}, prompt: {file: ./prompt.md}, run: 'sh model.sh'}
YAML
echo 'exit 3' > changed/model.sh
echo 'say' > changed/prompt.md
expect 1 'a run that fails' bulkhead run changed/p.yaml
has 'says that the files stay as they were' "$errs" 'goes on with the files as they were submitted'
expect 1 'resumed with nothing changed' bulkhead run --resume @latest
lacks 'says nothing of changes' "$errs" 'note:'
has 'counts what was done before' "$errs" '1 done before'
has 'to the end' "$errs" 'failed: 1 done, 1 failed'
echo 'exit 0' > changed/model.sh
expect 1 'resumed with a mended script still runs the old one' bulkhead run --resume @latest
has 'and says so' "$errs" "note: 'model.sh' has changed since this run was submitted; the run keeps the old one; to use the new one: bulkhead run changed/p.yaml"
lacks 'not of what is the same' "$errs" 'prompt.md'
expect 0 'explain' bulkhead explain @latest
has 'says so as well' "$out" 'goes on with the files as they were submitted'
cd changed
rm prompt.md
expect 1 'from another folder' bulkhead run --resume @latest
has 'what is gone has changed' "$errs" "note: 'prompt.md' has changed"
cd ..
expect 2 'what does not go with --resume' bulkhead run --resume @latest --keep-going
has 'is named' "$errs" "'--keep-going' does not go with --resume"

# --- usage
expect 2 'an unknown verb' bulkhead lnt
has 'suggests the nearest' "$errs" "did you mean 'bulkhead lint'"
expect 2 'an unknown option' bulkhead run first/pipeline.yaml --parm a=b
has 'suggests the nearest' "$errs" "did you mean '--param'"
expect 2 'no verb' bulkhead
expect 3 'a verb of a later version' bulkhead serve
has 'says so' "$errs" 'does not exist yet'
expect 2 'the empty run id' bulkhead show ''
expect 2 'an empty home' bulkhead --home '' ps
has 'is named' "$errs" "'--home' is empty"
expect 2 'an operand too many' bulkhead ps x
lacks 'the usage line does not end in a space' "$errs" 'bulkhead ps '
expect 3 'what this version lacks' bulkhead run first/pipeline.yaml --detach
has 'says what to do instead' "$errs" nohup
expect 0 'ps without a run that goes on' bulkhead ps
same 'prints no table' "$out" ''
has 'and says so' "$errs" 'no runs that have not ended'
expect 7 'an answer that cannot be written' bash -c '"$0" ps --all > /dev/full' "$work/bin/bulkhead"
has 'is about standard output' "$errs" 'standard output'
lacks 'not about a run' "$errs" '--resume'
printf 'version: 1\nname: z\nagents: [{name: a}]\nfoo: 1\n' > z.yaml
printf 'version: 1\nnam: a\nagents: []\n' > a.yaml
expect 3 'lint of several files' bulkhead lint z.yaml a.yaml
same 'keeps them in order' "$(printf '%s\n' "$errs" | sed -n 's/^\([az]\)\.yaml:.*/\1/p' | uniq | tr -d '\n')" za
expect 2 'an ill time' bulkhead logs @latest --since yesterday
expect 3 'a parameter that is not there' bulkhead run first/pipeline.yaml -p topc=x
has 'suggests the nearest' "$errs" topic
expect 2 'a file that is not there' bulkhead lint nothing.yaml
expect 2 'an error as JSON' bulkhead show nope -o json
for key in code message detail hint file line column path; do has "an error has '$key'" "$out" "\"$key\""; done
for verb in init lint plan run ps show explain logs artifacts get provenance audit gc doctor version completion; do
  expect 0 "$verb --help" bulkhead "$verb" --help
  has 'with an example' "$out" 'example:'
done
expect 0 'version' bulkhead version
has 'says it' "$out" 'bulkhead 0.'
for shell in bash zsh fish; do expect 0 "completion for $shell" bulkhead completion "$shell"; done
expect 0 'the bash completion is bash' bash -n <(bulkhead completion bash)
complete() { # words…: what bash offers for the last one
  bash -c 'source <("$0" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bulkhead; echo "${COMPREPLY[*]}"' "$work/bin/bulkhead" "$@"
}
same 'it completes verbs' "$(complete bulkhead he)" help
same 'values of options' "$(complete bulkhead plan --format '')" 'text json dot mermaid'
same 'of options of every verb, by their letter' "$(complete bulkhead ps -o '')" 'text json'
same 'runs' "$(complete bulkhead show '')" @latest
same 'shells' "$(complete bulkhead completion z)" zsh
same 'what the audit log can be asked' "$(complete bulkhead audit v)" verify
same 'and its kinds' "$(complete bulkhead audit --kind e)" egress
expect 0 'doctor' bulkhead doctor
has 'finds the user namespace' "$out" 'user namespace'
expect 0 'doctor as JSON' bulkhead doctor -o json
same 'all well' "$(json '["ok"]')" True
names='{c["name"] for c in v["checks"]}'
good=$(printf '%s' "$out" | python3 -c "import json,sys; v=json.load(sys.stdin); print(sorted($names))")
expect 7 'doctor of a state directory that cannot be' bulkhead doctor --home /proc/x -o json
same 'has the same checks' "$(printf '%s' "$out" | python3 -c "import json,sys; v=json.load(sys.stdin); print(sorted($names))")" "$good"
same 'none of boxes tried' "$(printf '%s' "$out" | python3 -c 'import json,sys; print([c["found"][:9] for c in json.load(sys.stdin)["checks"] if c["name"] in ("user namespace", "store")])')" "['not tried', 'not tried']"
expect 7 'in words' bulkhead doctor --home /proc/x
has 'with a verdict' "$out" 'this host cannot run pipelines: 1 required thing is missing'
expect 0 'doctor of a state directory that is not there yet' bulkhead doctor --home "$work/yet/to/come"
has 'says so' "$out" "$work/yet/to/come, not there yet, "
check 'and makes none' test ! -e "$work/yet"
same 'nor leaves anything' "$(find "$work" -maxdepth 1 -name '.bh-tmp-*')" ''
has 'no site policy' "$out" 'none'
printf 'limits: best-effort\n' > site.yaml; chmod 0644 site.yaml
BULKHEAD_SITE=$work/site.yaml expect 0 'doctor with a site policy' bulkhead doctor
has 'which it names' "$out" "$work/site.yaml, limits: best-effort"
printf 'allow:\n  root: false\n' > strict.yaml; chmod 0644 strict.yaml
printf 'version: 1\nname: t\nagents: [{name: a, run: "true", user: root}]\n' > asroot.yaml
expect 0 'no policy, no rule' bulkhead lint asroot.yaml
expect 5 'lint with a policy' bulkhead lint asroot.yaml --policy strict.yaml
has 'says what, and where' "$errs" "asroot.yaml:3:17: agents[0]: the site does not allow agent 'a' to be root in its box (user: root)"
has 'and the rule' "$errs" 'rule: strict.yaml:2'
expect 5 'lint with a policy that is not there' bulkhead lint asroot.yaml --policy none.yaml
mkdir closed; chmod 000 closed
HOME=$work/closed expect 0 'a home that is closed holds no policy of ours' bulkhead plan asroot.yaml
rmdir closed
BULKHEAD_SITE=strict.yaml expect 5 'plan is held to it' bulkhead plan asroot.yaml
BULKHEAD_SITE=strict.yaml expect 5 'run is held to it' bulkhead run asroot.yaml
has 'and runs nothing' "$errs" 'does not allow'
lacks 'at all' "$errs" 'running'
chmod 0666 site.yaml
BULKHEAD_SITE=$work/site.yaml expect 7 'and with one that others can write' bulkhead doctor
has 'says what follows' "$out" 'every run is refused'
has 'and counts it' "$out" 'cannot run pipelines: 1 required'

# --- what may be removed by hand
cat > keep.yaml << 'YAML'
version: 1
name: keep
agents: [{name: a, topology: per-agent, keep: always, run: 'echo hi'}]
YAML
expect 0 'a run that keeps its box' bulkhead run keep.yaml -q
expect 0 'show' bulkhead show @latest:keep -o json
run=$(json '["run"]')
kept=$(json '["agents"][0]["attempts"][0]["kept_box"]')
check 'says where it lies' test -e "$kept"
rm -rf "$BULKHEAD_HOME/runs/$run/logs"
expect 0 'its logs may go' bulkhead logs "$run" -f
same 'and are gone' "$out" ''
mv "$BULKHEAD_HOME/runs/$run/boxes" elsewhere
expect 0 'and its box' bulkhead explain "$run" a
has 'which explain says' "$out" 'gone since'
mv "$BULKHEAD_HOME/runs/$run/head" "$BULKHEAD_HOME/runs/$run/head.away"
expect 7 'not its head' bulkhead show "$run"
expect 0 'other runs go on' bulkhead show @latest:first
mv "$BULKHEAD_HOME/runs/$run/head.away" "$BULKHEAD_HOME/runs/$run/head"
expect 0 'with it the run is whole' bulkhead show "$run"

# --- a shared box that is kept, and what a quiet run that fails says
cat > crew.yaml << 'YAML'
version: 1
name: crew
agents:
  - {name: a, run: 'echo hi > scratch; exit 3'}
YAML
expect 1 'a quiet run that fails' bulkhead run crew.yaml -q
same 'says in one line why' "$(printf '%s\n' "$errs" | grep -c .)" 1
has 'who, by what, and how' "$errs" 'exit: run exited with code 3'
has 'with the name' "$errs" 'failed    a '
expect 0 'show of the kept shared box' bulkhead show @latest:crew -o json
kept=$(json '["agents"][0]["attempts"][-1]["kept_box"]')
check 'it is where show says' test -e "$kept/upper/root/workspace/scratch"
expect 0 'explain' bulkhead explain @latest:crew
has 'names it' "$out" "its box is kept: $kept"
expect 0 'show as text' bulkhead show @latest:crew
has 'names it too' "$out" "kept box  a: $kept"
sed -i 's/name: a,/name: a, keep: never,/; s/name: crew/name: gone/' crew.yaml
expect 1 'nobody wants to keep it' bulkhead run crew.yaml -q
expect 0 'show' bulkhead show @latest:gone -o json
same 'it is not kept' "$(json '["agents"][0]["attempts"][-1]["kept_box"]')" None
cat > loud.yaml << 'YAML'
version: 1
name: loud
agents: [{name: a, limits: {output: 4KiB}, run: 'head -c 100000 /dev/zero'}]
YAML
expect 0 'who writes too much' bulkhead run loud.yaml -q
same 'and says nothing of it' "$errs" ''
expect 0 'show' bulkhead show @latest:loud
has 'says how much is missing' "$out" 'bytes of its output (limits.output)'

mkdir alone
cp bin/bulkhead alone/
expect 7 'bulkhead without its other programs' alone/bulkhead run first/pipeline.yaml
has 'says which it lacks' "$errs" "cannot find 'bulkhead-launcher'"
has 'where it looked' "$errs" "looked in '$work/alone' and '$work/alone/../libexec/bulkhead'"
mkdir -p libexec/bulkhead
ln bin/bulkhead-launcher bin/bulkhead-init libexec/bulkhead/
expect 0 'it finds them as they are installed' alone/bulkhead run first/pipeline.yaml -q

# --- the live block keeps within the window
cat > wide.yaml << 'YAML'
version: 1
name: wide
max_parallel: 12
topology: per-agent
agents:
YAML
for i in 1 2 3 4 5 6 7 8 9 10; do
  printf '  - {name: an-agent-with-a-rather-long-name-%d, run: "while [ ! -e /workspace/in/never ]; do sleep 1; done"}\n' "$i"
done >> wide.yaml
cat > live.py << 'PY'
import fcntl, os, pty, re, signal, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 6, 40, 0, 0))
    os.environ["TERM"] = "xterm"
    os.environ.pop("NO_COLOR", None)
    os.execv(sys.argv[1], [sys.argv[1], "run", "wide.yaml"])
seen = b""
told = False
while True:
    try:
        data = os.read(fd, 4096)
    except OSError:
        break
    if not data:
        break
    seen += data
    if not told and b"more\r\n" in seen:
        os.kill(pid, signal.SIGINT)
        told = True
status = os.waitpid(pid, 0)[1]
text = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", seen).decode()
rows = [r for r in re.split(r"[\r\n]+", text) if r.startswith("  ")]
print("status", os.WEXITSTATUS(status))
print("widest", max(map(len, rows)))
print("up", max(int(n) for n in re.findall(rb"\x1b\[(\d+)A", seen)))
print("more", "\u2026 and 7 more" in text)
print("asked", "cancelling; Ctrl-C again kills" in text, "cancelling, 0 of 10" in text)
PY
expect 0 'a run in a small terminal' timeout 60 python3 live.py "$work/bin/bulkhead"
has 'ends as interrupted' "$out" 'status 130'
has 'no row is wider than the window' "$out" 'widest 39'
has 'nor the block higher' "$out" 'up 5'
has 'who has no row is counted' "$out" 'more True'
has 'an interrupt is answered' "$out" 'asked True True'

# --- the first pipeline of the README, as it is written there
mkdir readme
cd readme
commands=0
while read -r command; do
  commands=$((commands + 1))
  expect 0 "README: $command" env PATH="$work/bin:$PATH" sh -c "$command" < /dev/null
done < <(sed -n '/^bulkhead init demo/,/^```/p' "$BH_SOURCE/README.md" | sed 's/ *#.*//; /^```/d')
check 'all of them' test "$commands" -ge 12
cd ..

done_testing
