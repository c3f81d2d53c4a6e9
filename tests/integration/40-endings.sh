#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How agents end, and what a run makes of it.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

agent() { # name yaml-flow-map-without-name…
  printf '  - {name: %s, %s}\n' "$1" "$2"
}

pipeline() { # top-level lines on stdin become p.yaml with one agent per further line
  { printf 'version: 1\nname: t\n'; cat; } > p.yaml
}

attempt() { # agent index, field
  bulkhead show @latest -o json | field "[\"agents\"][$1][\"attempts\"][-1][\"$2\"]"
}

status() { bulkhead show @latest -o json | field "[\"agents\"][$1][\"status\"]"; }

# --- one agent, every ending
while IFS='|' read -r command reason code signal; do
  pipeline <<< "agents: [{name: a, run: '$command'}]"
  expect 1 "'$command' fails the run" bulkhead run p.yaml -q
  same '  its reason' "$(attempt 0 reason)" "$reason"
  same '  its exit status' "$(attempt 0 exit_code)" "$code"
  same '  its signal' "$(attempt 0 signal)" "$signal"
done << 'TABLE'
exit 1|exit|1|None
exit 126|exit|126|None
exit 127|exit|127|None
exit 255|exit|255|None
kill -9 $$|signal|None|9
kill -11 $$|signal|None|11
nosuchcommand|exit|127|None
TABLE

pipeline <<< 'agents: [{name: a, run: [nosuchcommand, x]}]'
expect 1 'a list command that does not exist' bulkhead run p.yaml -q
same 'is 127' "$(attempt 0 exit_code)" 127
has 'and named' "$(attempt 0 detail)" nosuchcommand
pipeline <<< 'agents: [{name: a, run: [/usr]}]'
expect 1 'a command that is a directory' bulkhead run p.yaml -q
same 'is 126' "$(attempt 0 exit_code)" 126
expect 0 'explain' bulkhead explain @latest a
has 'sends to the command' "$out" 'check the command, its path and the working directory'

# --- what explain tells of a failure
pipeline << 'YAML'
agents:
  - name: a
    run: |
      for i in 1 2 3 4 5 6; do echo line$i; done
      printf '\033[1mCould not resolve host: example.org\n' >&2
      exit 6
YAML
expect 1 'a failure with lines' bulkhead run p.yaml -q
expect 1 'and once more' bulkhead run --resume @latest -q
expect 0 'explain' bulkhead explain @latest a
has 'shows the last lines' "$out" '| line6'
lacks 'not all of them' "$out" '| line1'
has 'escaped' "$out" '\x1B[1mCould not'
has 'and why there is no such host' "$out" 'boxes have no network'
same 'one remedy, of the last attempt' "$(printf '%s\n' "$out" | grep -c 'remedy:')" 1
pipeline << 'YAML'
boxes: {b: {setup: 'echo broken pipes >&2; exit 9'}}
agents: [{name: a, box: b, run: 'true'}]
YAML
expect 1 'a box whose setup fails' bulkhead run p.yaml -q
expect 0 'explain' bulkhead explain @latest a
has 'shows what the setup printed' "$out" '| broken pipes'

pipeline <<< "agents: [{name: a, timeout: {run: 1s, grace: 500ms}, run: 'trap \"\" TERM; setsid sleep 86397 & while :; do sleep 86397; done'}]"
expect 1 'a timeout' bulkhead run p.yaml -q
same 'is said with its phase' "$(attempt 0 reason)" 'timeout(run)'
check 'everything of it is dead' wait_for_none
pipeline <<< "agents: [{name: a, timeout: {setup: 1s, grace: 100ms}, setup: 'sleep 86397', run: 'true'}]"
expect 1 'a setup that hangs' bulkhead run p.yaml -q
same 'is a timeout of the setup' "$(attempt 0 reason)" 'timeout(setup)'
pipeline <<< "agents: [{name: a, setup: 'exit 3', run: 'true'}]"
expect 1 'a setup that fails' bulkhead run p.yaml -q
has 'is said to be the setup' "$(attempt 0 detail)" setup
started=$(date +%s)
pipeline <<< "agents: [{name: a, run: 'setsid sleep 86397 & echo hi'}]"
expect 0 'a grandchild that holds the pipe does not delay the end' bulkhead run p.yaml -q
check 'it took less than 5 s' test $(($(date +%s) - started)) -lt 5
expect 0 'and its line is kept' bulkhead logs @latest --no-prefix
same 'hi' "$out" hi

# --- outputs
pipeline <<< "agents: [{name: a, run: 'echo x > out/b.txt', outputs: [a.txt]}]"
expect 1 'a missing output' bulkhead run p.yaml -q
same 'is output-missing' "$(attempt 0 reason)" output-missing
has 'and says what is there' "$(attempt 0 detail)" b.txt
pipeline <<< "agents: [{name: a, run: 'ln -s /etc/passwd out/a.txt', outputs: [a.txt]}]"
expect 1 'an output that is a symlink' bulkhead run p.yaml -q
same 'is output-invalid' "$(attempt 0 reason)" output-invalid
pipeline <<< "agents: [{name: a, run: 'mkfifo out/a.txt', outputs: [a.txt]}]"
expect 1 'an output that is a FIFO' timeout 30 "$work/bin/bulkhead" run p.yaml -q
same 'is output-invalid' "$(attempt 0 reason)" output-invalid
pipeline <<< "agents: [{name: a, run: 'head -c 5000 /dev/zero > out/a.txt', outputs: [{name: a.txt, max_size: 4KiB}]}]"
expect 1 'an output that is too large' bulkhead run p.yaml -q
same 'is output-invalid' "$(attempt 0 reason)" output-invalid
pipeline <<< "agents: [{name: a, run: 'touch \"out/a b.txt\"', outputs: [{glob: \"*.txt\"}]}]"
expect 1 'a glob that finds a bad name' bulkhead run p.yaml -q
same 'is output-invalid' "$(attempt 0 reason)" output-invalid
pipeline <<< "agents: [{name: a, run: 'true', outputs: [{glob: \"*.txt\"}]}]"
expect 1 'a glob that finds nothing' bulkhead run p.yaml -q
same 'is output-missing' "$(attempt 0 reason)" output-missing
pipeline <<< "agents: [{name: a, run: 'true', outputs: [{glob: \"*.txt\", optional: true}, {name: x, optional: true}]}]"
expect 0 'optional ones may be absent' bulkhead run p.yaml -q

expect 0 'explain of an output that is none' bulkhead explain "$(bulkhead ps --all -o json | field '[3]["run"]')" a
has 'has a remedy' "$out" 'declare a regular file that the agent writes itself'

# --- two that publish the same
pipeline << 'YAML'
agents:
  - {name: a, run: 'echo 1 > out/x.txt', outputs: [{glob: "*.txt"}]}
  - {name: b, needs: [a], topology: per-agent, run: 'echo 2 > out/x.txt', outputs: [{glob: "*.txt"}]}
YAML
expect 6 'a collision at publish' bulkhead run p.yaml
has 'names both agents' "$errs" "'x.txt' of agent 'b' (attempt 1) is the same name as 'x.txt' of agent 'a' (attempt 1)"
lacks 'in one line' "$errs" '\x0A'
detail=$(attempt 1 detail)
same 'and says the digests once' "$(printf '%s' "$detail" | grep -o 'sha256:[0-9a-f]*' | wc -l) $(printf '%s\n' "$detail" | wc -l)" '2 1'

# --- what a failure does to others
pipeline << 'YAML'
agents:
  - {name: bad, run: 'exit 1', outputs: [x]}
  - {name: user, inputs: [x], run: 'true'}
  - {name: later, needs: [bad], run: 'true'}
YAML
expect 1 'a failure' bulkhead run p.yaml -q
same 'skips who reads it' "$(status 1)" skipped
same 'and who needs it' "$(status 2)" skipped
expect 0 'explain' bulkhead explain @latest user
has 'says because of whom' "$out" "because 'bad' failed"
pipeline << 'YAML'
agents:
  - {name: bad, run: 'exit 1', outputs: [x], on_failure: continue}
  - {name: user, inputs: [{name: x, optional: true}], run: 'test ! -e in/x'}
  - {name: strict, inputs: [x], run: 'true'}
YAML
expect 0 'on_failure: continue lets the run succeed' bulkhead run p.yaml
has 'but says that not all did' "$errs" '2 of 3 agents did not finish'
run=$(printf '%s\n' "$out" | tail -n 1)
expect 0 'resuming it starts nothing' bulkhead run --resume "${run%% *}"
has 'and says why' "$errs" 'had succeeded, so nothing was started'
same 'an optional reader runs' "$(status 1)" done
same 'a strict one is skipped' "$(status 2)" skipped
pipeline << 'YAML'
max_failures: 1
max_parallel: 1
agents:
  - {name: a, run: 'exit 1'}
  - {name: b, run: 'true'}
  - {name: c, run: 'exit 1'}
  - {name: d, needs: [b], run: 'true'}
YAML
expect 1 'one failure is tolerated, the second is not' bulkhead run p.yaml -q
same 'the second agent still ran' "$(status 1)" done
pipeline << 'YAML'
deadline: 1s
agents: [{name: a, timeout: {run: 1h, grace: 100ms}, run: 'sleep 86397'}]
YAML
expect 1 'a deadline ends the run' timeout 30 "$work/bin/bulkhead" run p.yaml
has 'the last line of progress names it' "$errs" "the run's deadline passed"
expect 0 'show says so' bulkhead show @latest -o json
same '  of the run, not of an agent' "$(printf '%s' "$out" | field '["failure"]["agent"]')" None
same '  with the limit' "$(printf '%s' "$out" | field '["failure"]["detail"]')" "the run's deadline of 1s passed"
has '  and the remedy' "$out" "raise 'deadline'"
expect 0 'explain says so too' bulkhead explain @latest
has '  of the run' "$out" "failed because the run's deadline of 1s passed"
lacks '  and not that a running agent was not started' "$out" 'not started'

# --- only some of them
pipeline << 'YAML'
stages:
  - {name: one, agents: [{name: a, run: 'echo 1 > out/a', outputs: [a]}, {name: x, run: 'exit 1'}]}
  - {name: two, agents: [{name: b, inputs: [a], run: 'cat in/a > out/b', outputs: [b]}, {name: c, inputs: [a], run: 'exit 1'}]}
YAML
expect 0 '--only runs one agent and what it needs' bulkhead run p.yaml -q --only b
expect 0 'explain of one that was left out' bulkhead explain @latest x
has 'says so' "$out" 'left out by --only'
same 'what it needs' "$(status 0)" done
same 'itself' "$(status 2)" done
same 'nothing else' "$(status 1)$(status 3)" skippedskipped
expect 2 'an agent that is not there' bulkhead run p.yaml -q --only bb
has 'is named' "$errs" "no agent 'bb'"

# --- what an agent finds
pipeline << 'YAML'
params: {topic: {type: string, default: "a 'b' $(c) {{"}, n: {type: int, default: 007}}
YAML
expect 3 'an integer that is none' bulkhead run p.yaml -q
pipeline << 'YAML'
params: {topic: {type: string}, n: {type: int, default: 7}}
sources: {src: {file: ./src.txt}}
agents:
  - name: a
    labels: {team: x}
    env: {MINE: "{{params.topic}}", LANG: C}
    prompt: "Say {{params.topic}}"
    files: {tool/run.sh: ./run.sh}
    inputs: [src]
    workdir: /workspace/tool
    run: [./run.sh, "{{params.topic}}", "{{attempt}}"]
    outputs: [{name: report.txt, path: kept/report.txt}]
YAML
printf 'source bytes' > src.txt
cat > run.sh << 'SH'
#!/bin/sh
set -eu
cd /workspace
mkdir -p kept
{
  printf 'arg=%s\nattempt=%s\nparam=%s\nmine=%s\nlang=%s\n' "$1" "$2" "$BULKHEAD_PARAM_TOPIC" "$MINE" "$LANG"
  printf 'stdin=%s\nprompt=%s\nsource=%s\nparams=%s\n' "$(cat)" "$(cat "$BULKHEAD_PROMPT_FILE")" "$(cat in/src)" "$(cat params.json)"
  printf 'uid=%s\nhome=%s\ncaps=%s\n' "$(id -u)" "$HOME" "$(sed -n 's/^CapEff:\t//p' /proc/self/status)"
  printf 'nnp=%s\n' "$(sed -n 's/^NoNewPrivs:\t//p' /proc/self/status)"
  printf 'links=%s\n' "$(ls /sys/class/net 2>/dev/null || sed -n 's/^ *\([a-z0-9]*\):.*/\1/p' /proc/net/dev | tr '\n' ' ')"
  printf 'secret=%s\n' "${CANARY:-none}"
  printf 'root=%s\n' "$(ls /)"
} > kept/report.txt
SH
chmod +x run.sh
topic=$'a \'b\' "c" $(touch /tmp/x) {{x}} -n\nsecond'
CANARY=leak expect 0 'a full environment' bulkhead run p.yaml -q -p "topic=$topic"
bulkhead get @latest report.txt --to report.txt --force -q
report=$(cat report.txt)
has 'the argument is untouched' "$report" "arg=$topic"
has 'the attempt' "$report" 'attempt=1'
has 'the parameter in the environment' "$report" "param=$topic"
has 'own env expanded' "$report" "mine=$topic"
has 'own env wins' "$report" 'lang=C'
has 'the prompt on stdin' "$report" "stdin=Say $topic"
has 'the source' "$report" 'source=source bytes'
has 'typed parameters' "$report" '"n":7'
has 'uid 1000' "$report" 'uid=1000'
has 'its home' "$report" 'home=/home/agent'
has 'no capabilities' "$report" 'caps=0000000000000000'
has 'no new privileges' "$report" 'nnp=1'
has 'nothing of the caller' "$report" 'secret=none'
lacks 'no folder of the host' "$report" 'boot'

# --- shared and own boxes
pipeline << 'YAML'
stages:
  - {name: one, agents: [{name: a, run: 'echo left > scratch; echo 1 > out/a', outputs: [a]}]}
  - {name: two, agents: [{name: b, run: 'cat scratch > out/b; test ! -e in/zz', outputs: [b]}]}
YAML
expect 0 'a shared box keeps what is not declared over stages' bulkhead run p.yaml -q
sed -i '2a topology: per-agent' p.yaml
expect 1 'a box of its own does not' bulkhead run p.yaml -q
pipeline << 'YAML'
agents:
  - {name: a, setup: 'id -u > /workspace/who; echo 1 > /home/agent/h; mkdir -p /usr/local/made && touch /usr/local/made/x || touch /workspace/rootless', run: 'cat who; echo more >> who; echo 2 >> ~/h; test -e /usr/local/made/x || test -e rootless'}
YAML
expect 0 'setup runs as root and gives to the agent' bulkhead run p.yaml -q
expect 0 'its uid' bulkhead logs @latest --no-prefix
has 'was 0' "$out" 0
pipeline <<< "agents: [{name: a, user: root, run: 'id -u; sed -n s/^CapEff:.//p /proc/self/status'}]"
expect 0 'user: root' bulkhead run p.yaml -q
expect 0 'is uid 0 without capabilities' bulkhead logs @latest --no-prefix
same 'both' "$out" $'0\n0000000000000000'
check 'nothing is left running' wait_for_none

done_testing
