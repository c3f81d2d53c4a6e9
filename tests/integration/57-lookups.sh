#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Looking into boxes: `bulkhead diff`, `bulkhead shell` (a fork of a finished box, a command beside a live agent), and what `gc` keeps
# and removes of all that. Usage: 57-lookups.sh MODE.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

has_fork() { [ -e "$(echo home/shells/*/boxes/box)" ]; }

printf 'one\ntwo\nthree\n' > text.txt
cat > p.yaml << 'YAML'
version: 1
name: looks
agents:
  - name: a
    topology: per-agent
    files: {text.txt: ./text.txt}
    env: {COLOUR: green}
    run: |
      printf 'one\nTWO\nthree\n' > text.txt
      mkdir -p deep/er empty; echo x > deep/er/file
      ln -s text.txt link
      printf 'a\0b' > binary
      printf 'bad \033[31mname\n' > "$(printf 'esc\033[0m')"
      exit 3
    outputs: [never]
  - name: usr
    topology: per-agent
    setup: echo tool > /usr/local/tool; rm -r /usr/share/doc/bash; echo changed > /etc/hostname
    run: touch after; exit 1
    outputs: [never2]
  - {name: good, topology: per-agent, run: echo fine > kept.txt, keep: always}
  - {name: nested, topology: per-agent, run: 'mkdir -p $(printf "d/%.0s" $(seq 600)); echo x > e', keep: always}
  - {name: gone, topology: per-agent, run: echo fine > gone.txt}
  - {name: c, box: both, run: echo one > shared.txt}
  - {name: d, box: both, needs: [c], run: echo two >> shared.txt; exit 4}
boxes: {both: {}}
max_failures: 10
YAML
expect 0 'a run with boxes to look into' bulkhead run p.yaml -q

# --- diff
expect 0 'diff of a box' bulkhead diff @latest a
same 'tells what changed, escaped, without what bulkhead put there' "$out" 'A /workspace/binary
A /workspace/deep/er/file
A /workspace/empty/
A /workspace/esc\x1B[0m
A /workspace/link -> text.txt
A /workspace/text.txt'
expect 0 'diff with contents' bulkhead diff @latest a --content
has 'a unified diff' "$out" '+TWO'
has 'nothing of what is binary' "$out" '  (binary)'
has 'contents are escaped' "$out" '+bad \x1B[31mname'
lacks 'no escape reaches the terminal' "$out" $'\033'
expect 0 'as JSON' bulkhead diff @latest a --content -o json
same 'counted' "$(json '["added"]') $(json '["changed"]') $(json '["removed"]') $(json '["withheld"]')" '6 0 0 False'
same 'with kinds and targets' "$(json '["changes"][4]["after"]["target"]')" text.txt
same 'a binary file has no lines' "$(json '["changes"][0]["no_diff"]') $(json '["changes"][0]["diff"]')" 'binary None'
expect 0 'diff of a box that had a setup' bulkhead diff @latest usr
same 'is about what came after it' "$out" 'A /workspace/after'
expect 0 'diff from the base' bulkhead diff @latest usr --from-base
has 'sees what is new' "$out" 'A /usr/local/tool'
has 'a directory that is gone as one' "$out" 'D /usr/share/doc/bash/'
has 'and what differs from the base' "$out" 'M /etc/hostname'
expect 0 'diff of a box that was kept on purpose' bulkhead diff @latest good
same 'the same' "$out" 'A /workspace/kept.txt'
expect 0 'diff of a box with folders in folders' bulkhead diff @latest nested
has 'what is nested too deep is told of' "$out" '/d/ (nested too deep: what is in it was not looked at)'
has 'and hides nothing else' "$out" 'A /workspace/e'
expect 2 'diff of a box that was not kept' bulkhead diff @latest gone
has 'says why' "$errs" 'was not kept'
has 'and how to have it' "$errs" 'keep: always'
expect 0 'diff of a shared box' bulkhead diff @latest d --content
has 'goes back to the start of the box' "$out" '+one'
has 'to its end' "$out" '+two'
has 'and says whose work it is' "$errs" 'shared by 2 agents'
expect 2 'an agent that is not there' bulkhead diff @latest goood
has 'the nearest is suggested' "$errs" "did you mean 'good'?"
expect 2 'an attempt that is not there' bulkhead diff @latest a --attempt 2
has 'is named' "$errs" "'a' has no attempt 2"
expect 2 'no number' bulkhead diff @latest a --attempt two
expect 2 'two without --attempt' bulkhead diff @latest a 2
expect 0 'an attempt with itself' bulkhead diff @latest a --attempt 1 1
same 'does not differ' "$out" ''

# --- attempts
cat > attempts.yaml << 'YAML'
version: 1
name: attempts
agents:
  - name: f
    setup: echo tool > /usr/local/tool
    prepare: echo prepared > state.txt
    attempts: {each: [{N: "1"}, {N: "2"}], select: first-pass}
    run: 'echo "line $N" >> state.txt; echo "$N" > "only$N"; echo "$N" > out/x'
    check: 'test "$(cat out/x)" = 2'
    keep: always
    outputs: [x]
YAML
expect 0 'a run of two attempts' bulkhead run attempts.yaml -q
expect 0 'diff without a number' bulkhead diff @latest f
same 'is of the selected one, against what it started from' "$out" 'A /workspace/only2
A /workspace/out/x
M /workspace/state.txt'
has 'and says so' "$errs" 'this is attempt 2'
expect 0 'diff of one attempt with another' bulkhead diff @latest f --attempt 1 2 --content
has 'what the other lacks' "$out" 'D /workspace/only1'
has 'what it has' "$out" 'A /workspace/only2'
has 'what differs' "$out" '+line 2'
lacks 'nothing of what they started from' "$out" /usr/local
expect 0 'as JSON' bulkhead diff @latest f --attempt 1 2 -o json
same 'names both' "$(json '["attempt"]') $(json '["with"]')" '1 2'
expect 0 'diff from the base' bulkhead diff @latest f --attempt 1 --from-base
has 'goes back beyond setup' "$out" 'A /usr/local/tool'
has 'and preparation' "$out" 'A /workspace/state.txt'
expect 0 'a shell in one attempt' bulkhead shell @latest f --attempt 1 -- sh -c 'cat state.txt /usr/local/tool; echo "$N $BULKHEAD_ATTEMPT"'
same 'finds what it had' "$out" $'prepared\nline 1\ntool\n1 1'

# --- shell: a fork of a finished box
expect 0 'the first run again' bulkhead run p.yaml -q
box=$(echo home/runs/"$(bulkhead show @latest -o json | field '["run"]')"/boxes/*/upper/root/workspace/text.txt)
expect 7 'a command in a fork' bulkhead shell @latest a -- sh -c 'cat text.txt; echo "$COLOUR $BULKHEAD_AGENT"; id -un; exit 7'
same 'finds the files, the environment, the user' "$out" $'one\nTWO\nthree\ngreen a\nagent'
expect 0 'what it writes' bulkhead shell @latest a -- sh -c 'echo mine > text.txt; cat text.txt; rm link'
same 'it sees' "$out" mine
expect 0 'the next fork' bulkhead shell @latest a -- sh -c 'cat text.txt; readlink link'
same 'does not' "$out" $'one\nTWO\nthree\ntext.txt'
if [ -r "$box" ]; then same 'the box that was kept is as it was' "$(cat "$box")" $'one\nTWO\nthree'; fi
expect 0 'a fork of a box with its own /usr' bulkhead shell @latest usr -- sh -c 'cat /usr/local/tool /etc/hostname; test ! -e /usr/share/doc/bash'
same 'has it' "$out" $'tool\nchanged'
expect 0 'a fork of a shared box' bulkhead shell @latest d -- cat shared.txt
same 'has all of it' "$out" $'one\ntwo'
expect 127 'a program that is not there' bulkhead shell @latest a -- nonesuch
has 'is named' "$errs" "cannot start 'nonesuch'"
expect 137 'a command that is killed' bulkhead shell @latest a -- sh -c 'kill -9 $$'
expect 0 'no command: a shell' bash -c 'echo "cat link; echo \$((6*7))" | "$0" shell @latest a' "$work/bin/bulkhead"
same 'reads its commands' "$out" $'one\nTWO\nthree\n42'
expect 0 'bytes' bash -c 'head -c 3000000 /dev/urandom > bytes; "$0" shell @latest a -- cat < bytes > copy; cmp bytes copy' "$work/bin/bulkhead"
expect 0 'the walls are those of the agent' bulkhead shell @latest a -- sh -c 'test ! -e /home/agent/../../root/.ssh; ! ls /proc/1/root 2> /dev/null; ! unshare -r true 2> /dev/null; ls /sys 2> /dev/null | head -n 1'
expect 2 'an agent that is not there' bulkhead shell @latest nobody -- true
expect 2 'a box that was not kept' bulkhead shell @latest gone -- true
has 'says so' "$errs" 'was not kept'
expect 0 'nothing is left of the forks' find home/shells -mindepth 1
same 'at all' "$out" ''
check 'no process' wait_for_none

cat > fails.yaml << 'YAML'
version: 1
name: fails
agents: [{name: a, run: 'touch trace; exit 1', outputs: [never]}]
YAML

# --- shell: terminals
cat > person.py << 'PY'
import os, pty, select, sys
def run(words, talk):
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(words[0], words)
    seen = b""
    for send, token in talk:
        start = len(seen)
        if send:
            os.write(fd, send)
        while token not in seen[start:]:
            ready, _, _ = select.select([fd], [], [], 20)
            try:
                data = os.read(fd, 65536) if ready else b""
            except OSError:
                data = b""
            if not data:
                print("waited for", token, "in", seen, file=sys.stderr)
                return seen, None
            seen += data
    try:
        while True:
            data = os.read(fd, 65536)
            if not data:
                break
            seen += data
    except OSError:
        pass
    return seen, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
program, run_id, agent = sys.argv[1:4]
sti = """
import fcntl, termios
try:
    fcntl.ioctl(0, termios.TIOCSTI, b"x")
    print("typed")
except OSError as e:
    print("refused", e.errno)
print("\\033[1mbold", end="")
"""
base = [program, "shell", run_id, agent]
seen, status = run(base, [(None, b"$ "), (b"test -t 0 && echo ter''minal\n", b"terminal"), (b"sh -c 'echo as''leep; exec sleep 100'\n", b"asleep"), (b"\x03", b"$ "),
                          (b"printf '\\033[31m''red\\n'\n", b"\\x1B[31mred"), (b"exit 9\n", b"exit")])
print("interactive", status, b"\x1b" in seen)
seen, status = run(base + ["--", "python3", "-c", sti], [(None, b"bold")])
print("escaped", status, b"refused 1" in seen, b"\x1b" in seen)
seen, status = run(base + ["--raw", "--", "python3", "-c", sti], [(None, b"bold")])
print("raw", status, b"refused 1" in seen, b"\x1b[1mbold" in seen)
PY
expect 0 'a person at a terminal' python3 person.py "$work/bin/bulkhead" @latest a
same 'has one in the box, escaped unless raw, that cannot type into hers' "$out" 'interactive 9 False
escaped 0 True False
raw 0 True True'
same 'with nothing waited for in vain' "$errs" ''

# --- shell: beside a live agent
cat > live.yaml << 'YAML'
version: 1
name: live
agents:
  - {name: a, topology: per-agent, run: 'echo hi > made.txt; echo up; while [ ! -e go ]; do sleep 0.05; done; cat seen', keep: always}
  - {name: c, box: both, run: 'echo one > shared.txt; echo up; while [ ! -e go ]; do sleep 0.05; done'}
boxes: {both: {}}
YAML
"$work/bin/bulkhead" run live.yaml -q > live.out 2> live.err &
pid=$!
check 'a run that goes on' wait_until bulkhead show @latest:live
check 'the agents are at work' wait_until last_line_is @latest a up
check 'both' wait_until last_line_is @latest c up
expect 5 'a command beside an agent' bulkhead shell @latest a -- sh -c 'cat made.txt; echo "$BULKHEAD_AGENT"; echo seen > seen; exit 5'
same 'is in its box' "$out" $'hi\na'
has 'which is named' "$errs" "beside attempt 1 of 'a', in its live box"
expect 0 'a command in a shared box' bulkhead shell @latest c -- cat shared.txt
same 'too' "$out" one
expect 127 'what is not there' bulkhead shell @latest c -- nonesuch
expect 0 'with our input' bash -c 'echo "cat made.txt" | "$0" shell @latest a' "$work/bin/bulkhead"
same 'read' "$out" hi
expect 130 'a signal' timeout --preserve-status -s INT 1 "$work/bin/bulkhead" shell @latest a -- sleep 100
check 'the agent is still there' wait_until last_line_is @latest a up
expect 2 'diff of a box in use' bulkhead diff @latest a
has 'says so' "$errs" 'is still at work in its box'
expect 0 'gc' bulkhead gc -o json
same 'leaves what runs share alone' "$(json '["shared_in_use"]')" True
lacks 'and what is the run' "$(json '["removed"]')" runs/
bulkhead shell @latest a -- touch go || true # its end and the box's are a race
bulkhead shell @latest c -- touch go || true
wait "$pid" || true
expect 0 'the run' bulkhead show @latest
has 'has succeeded' "$out" succeeded
same 'the agent saw what we left' "$(bulkhead logs @latest -a a --no-prefix)" $'up\nseen'
has 'who asked is noted, and in which box' "$(cat home/runs/*/shells.jsonl)" '"agent":"a","attempt":1,"instance":"'
has 'whose name it has' "$(cat home/runs/*/shells.jsonl)" '"box":"both","uid":'
check 'no socket is left' test -z "$(find home -type s 2> /dev/null)"
expect 0 'its box can be entered as a fork now' bulkhead shell @latest a -- cat seen
same 'with all of it' "$out" seen

# --- shell: not where what others start from is made
cat > making.yaml << 'YAML'
version: 1
name: making
agents:
  - name: a
    prepare: 'echo "prep up"; i=0; while [ ! -e /tmp/go ] && [ $i -lt 40 ]; do sleep 0.05; i=$((i + 1)); done; echo made > made'
    attempts: 2
    run: 'echo *a*e *u*; test ! -e intruder'
YAML
"$work/bin/bulkhead" run making.yaml -q > making.out 2> making.err &
pid=$!
check 'a preparation that goes on' wait_until bulkhead show @latest:making
check 'it is at work' wait_until last_line_is @latest a 'prep up'
expect 2 'a command beside a preparation' bulkhead shell @latest:making a -- touch intruder
has 'is refused' "$errs" 'the box in use is that of a preparation, whose state attempts and later runs start from'
has 'with what to do' "$errs" 'enter the box of an attempt'
check 'and nothing is noted' test ! -e "home/runs/$(bulkhead show @latest:making -o json | field '["run"]')/shells.jsonl"
check 'the run ends well' wait "$pid"
expect 0 'a later run, from the same state' bulkhead run making.yaml -q
has 'finds it' "$(bulkhead show @latest | tr -s ' ')" 'prepare found'
same 'without a trace of us' "$(bulkhead logs @latest -a a --no-prefix | sort -u)" 'made out'

# --- the box of a setup or preparation that failed
cat > unmade.yaml << 'YAML'
version: 1
name: unmade
agents:
  - {name: p, prepare: 'echo half > half-made; exit 6', attempts: 2, run: 'true'}
  - {name: s, setup: 'echo half > /workspace/half-set; exit 6', attempts: 2, run: 'true'}
  - {name: n, prepare: 'echo half > half-made; exit 7', attempts: 2, run: 'true', keep: never}
max_failures: 10
YAML
expect 0 'preparations that fail' bulkhead run unmade.yaml -q
expect 0 'the box of one is kept' bulkhead shell @latest p --attempt 0 -- cat half-made
same 'as it was' "$out" half
has 'and we are told which it is' "$errs" "a fork of the box of the preparation of 'p'"
expect 0 'of a setup too' bulkhead shell @latest s -- cat half-set
has 'and told' "$errs" "the setup of 's'"
expect 0 'diff of it' bulkhead diff @latest p --attempt 0
has 'lists what it left' "$out" half-made
expect 2 'not where it says never' bulkhead shell @latest n --attempt 0 -- true
has 'which the message says' "$errs" "unless the agent says 'keep: never'"
has 'of the preparation' "$errs" "the box of the preparation of 'n' was not kept"

# --- gc: a run whose box somebody is in, and what goes with a run
run=$(bulkhead show @latest:live -o json | field '["run"]')
mkfifo talk
"$work/bin/bulkhead" shell "$run" a -- cat < ./talk > /dev/null 2>&1 &
pid=$!
exec 8> ./talk
check 'somebody is in a box' wait_until has_fork
expect 0 'gc of old runs' bulkhead gc --older-than 0s -o json
same 'leaves the one that somebody is in' "$(json '["in_shells"]')" 1
check 'it is there' test -d "home/runs/$run"
expect 0 'the others are gone' bulkhead ps --all -o json
same 'from the records' "$(json '.__len__()')" 1
exec 8>&-
wait "$pid"
expect 0 'gc when nobody is in it' bulkhead gc --older-than 0s -q
expect 0 'ps' bulkhead ps --all -o json
same 'knows no run' "$out" '[]'
same 'no object is left' "$(find home/cas -type f)" ''
same 'no snapshot' "$(ls home/snapshots)" ''
same 'no run' "$(ls home/runs)" ''
expect 0 'a new run all the same' bulkhead run p.yaml -q

# --- explain
expect 1 'a run that fails' bulkhead run fails.yaml -q
expect 0 'explain' bulkhead explain @latest a
has 'has a remedy' "$out" 'remedy: '
has 'the box' "$out" 'its box is kept'
has 'and how to look into it' "$out" "'bulkhead shell"

# --- a disk budget
expect 2 'a budget that is no size' env BULKHEAD_DISK_BUDGET=much "$work/bin/bulkhead" run p.yaml
has 'is named' "$errs" 'BULKHEAD_DISK_BUDGET=much'
head -c 3000000 /dev/urandom > home/runs/big
before=$(bulkhead ps --all -o json | field '.__len__()')
expect 7 'a run in a state directory that holds too much' env BULKHEAD_DISK_BUDGET=2MiB "$work/bin/bulkhead" run p.yaml
has 'is refused' "$errs" 'and its disk budget is 2.0 MiB (BULKHEAD_DISK_BUDGET)'
has 'with a remedy' "$errs" 'bulkhead gc --dry-run'
same 'before it is recorded' "$(bulkhead ps --all -o json | field '.__len__()')" "$before"
printf 'disk_budget: 2MiB\n' > site.yaml
expect 7 'the same by the site' env BULKHEAD_SITE="$work/site.yaml" "$work/bin/bulkhead" run p.yaml
has 'which is named' "$errs" 'site.yaml'
expect 7 'a larger one of the caller' env BULKHEAD_SITE="$work/site.yaml" BULKHEAD_DISK_BUDGET=1TiB "$work/bin/bulkhead" run p.yaml
expect 7 'a run that is resumed' env BULKHEAD_DISK_BUDGET=2MiB "$work/bin/bulkhead" run --resume @latest
rm home/runs/big
expect 0 'with room' env BULKHEAD_DISK_BUDGET=10GiB "$work/bin/bulkhead" run p.yaml -q
expect 1 'what was refused can be resumed' bulkhead run --resume @latest:fails -q

# --- a shell that was killed
"$work/bin/bulkhead" shell @latest:looks a -- cat < ./talk > /dev/null 2>&1 &
pid=$!
exec 8> ./talk
check 'again' wait_until has_fork
kill -s KILL "$pid"
{ wait "$pid"; } 2> /dev/null || true
exec 8>&-
check 'its box dies with it' wait_for_none
expect 0 'gc' bulkhead gc -o json
has 'removes its fork' "$(json '["removed"]')" "'kind': 'shell'"
same 'all of it' "$(find home/shells -mindepth 1)" ''

done_testing
