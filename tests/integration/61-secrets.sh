#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Secrets: `run` has them and nobody else. Values are planted in a variable, a file and what a command prints, and looked for everywhere
# while an agent holds them and afterwards. Then what is granted, and the audit log. Usage: 61-secrets.sh MODE.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

# Never written down here: what looks for one must not find itself.
canary=canary-$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
mkdir project
cd project
printf '%s-file\n' "$canary" > secret.txt
export BH_CANARY=$canary-env
pattern='cana[r]y-[0-9a-f]'
sum() { printf '%s' "$1" | sha256sum | cut -d ' ' -f 1; }

# --- who has it

# Everything that an agent can look into: what it finds is its output. `itself`: that it would find something.
cat > hunt.sh << 'SH'
pattern='cana[r]y-[0-9a-f]'
[ "${1:-}" != itself ] || pattern='itsel[f]-[0-9]'
{
  env | grep "$pattern" | sed 's/=.*//; s/^/env /'
  python3 - "$$" "$pattern" << 'PY'
import os, re, stat, sys
pattern = re.compile(sys.argv[2].encode())
def memory(p):
    for line in open(p + "/maps"):
        start, end = (int(x, 16) for x in line.split()[0].split("-"))
        with open(p + "/mem", "rb", 0) as mem:
            try:
                mem.seek(start)
                yield mem.read(min(end - start, 1 << 24))
            except (OSError, ValueError, OverflowError):
                pass
def contents(p):
    for name in ["environ", "cmdline", "root/secret.txt"] + ["fd/" + f for f in os.listdir(p + "/fd")]:
        try:
            if stat.S_ISREG(os.stat(p + "/" + name).st_mode):
                yield open(p + "/" + name, "rb").read(1 << 24)
        except OSError:
            pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) in (int(sys.argv[1]), os.getpid()):
        continue # they know what they look for
    for what, texts in ("memory", memory), ("files", contents):
        try:
            if any(pattern.search(text) for text in texts("/proc/" + pid)):
                print(what, "of", pid)
        except OSError:
            pass
PY
  find / -xdev \( -path /proc -o -path /sys -o -path /usr \) -prune -o -type f -size -1024k -print0 2> /dev/null |
    xargs -0 grep -la "$pattern" 2> /dev/null | sed 's/^/file /'
} | sort -u
SH

cat > p.yaml << 'EOP'
version: 1
name: secrets
secrets:
  by-env: {env: BH_CANARY}
  by-file: {file: ./secret.txt}
  by-command: {command: [sh, -c, "sed s/file/command/ secret.txt"]}
defaults: {files: {hunt.sh: ./hunt.sh}}
agents:
  - name: holder
    setup: "sh /workspace/hunt.sh > /home/agent/in-setup"
    prepare: "sh hunt.sh > in-prepare; env > prepare.env"
    secrets: {BY_ENV: by-env, BY_FILE: by-file, BY_COMMAND: by-command}
    run: |
      for v in "$BY_ENV" "$BY_FILE" "$BY_COMMAND"; do printf '%s' "$v" | sha256sum; done > out/sums
      cat /home/agent/in-setup in-prepare > out/before
      echo "plain $BY_ENV" >&2
      printf 'pieces %s\n%s\n' "$(printf %s "$BY_FILE" | cut -c 1-12)" "$(printf %s "$BY_FILE" | cut -c 13-)"
      printf '%s' "$BY_COMMAND" | base64
      printf 'x%s' "$BY_COMMAND" | base64 -w 9
      printf 'xy%s' "$BY_ENV" | base64
      echo holding
      until [ -e go ]; do sleep 0.05; done
    check: {run: "test -z \"$(sh hunt.sh)\"", box: same, files: {hunt.sh: ./hunt.sh}}
    keep: always
    outputs: [sums, before]
  - name: seeker
    needs: []
    topology: per-agent
    run: sh hunt.sh > out/found; sh -c 'X=itself-1 exec sh hunt.sh itself' > out/itself; echo looked
    outputs: [found, itself]
EOP

expect 5 'what it asks for must be granted' bulkhead run p.yaml
has 'the variable' "$errs" 'variable BH_CANARY'
has 'the file' "$errs" 'file ./secret.txt'
has 'and where a value goes' "$errs" 'secret by-file in agent holder'
expect 0 'the plan opens with it' bulkhead plan p.yaml
has 'names what it asks for' "$out" 'command sh -c sed s/file/command/ secret.txt'
lacks 'and no value' "$out" "$canary"

start_run p.yaml --grant
check 'the agent has what it needs' wait_until last_line_is "$run" holder holding
check 'the other one has looked' wait_until last_line_is "$run" seeker looked

# --- while it is held
holders() { # file of /proc: processes of this test in which it is, but for the agent's own
  local p
  for p in $(own_processes); do
    ! tr '\0' '\n' < "/proc/$p/$1" 2> /dev/null | grep -q "$pattern" || printf '%s ' "$(basename "$(readlink "/proc/$p/exe")")"
  done
}
same 'no argument list of ours holds one' "$(holders cmdline)" ''
# The variable is the caller's, so bulkhead itself has that one.
same 'no environment of ours holds one but the caller'"'"'s' "$(holders environ)" 'bulkhead '
in_memory() { # which programs of ours hold it in memory, but for bulkhead, which masks by it
  local p exe
  for p in $(own_processes); do
    exe=$(basename "$(readlink "/proc/$p/exe")")
    [ "$exe" = bulkhead ] || python3 - "$p" "$pattern" << 'PY' || printf '%s ' "$exe"
import re, sys
for line in open(f"/proc/{sys.argv[1]}/maps"):
    start, end = (int(x, 16) for x in line.split()[0].split("-"))
    try:
        with open(f"/proc/{sys.argv[1]}/mem", "rb", 0) as mem:
            mem.seek(start)
            if re.search(sys.argv[2].encode(), mem.read(min(end - start, 1 << 26))):
                print("#", line.strip())
                sys.exit(1)
    except (OSError, ValueError, OverflowError):
        pass
PY
  done
}
if [ "$1" = root ]; then
  same 'no launcher and no init has one in memory' "$(in_memory)" ''
fi
core=$(awk '/^Max core file size/ {print $5}' "/proc/$pid/limits")
check 'bulkhead dumps no core while it holds values' test "$core" -le 1
expect 0 'a shell beside the agent' bulkhead shell "$run" holder -- env
lacks 'has none' "$out" "$canary"
# Its end is that of the box, too.
bulkhead shell "$run" holder -- touch /workspace/go 2> /dev/null || true
status=0
wait "$pid" || status=$?
same 'the run succeeds' "$status" 0
mkdir got
bulkhead get "$run" sums --to got/sums 2> /dev/null
same 'run had the values' "$(cut -d ' ' -f 1 got/sums | tr '\n' ' ')" \
  "$(sum "$canary-env") $(sum "$canary-file") $(sum "$canary-command") "
for name in before found itself; do bulkhead get "$run" "$name" --to "got/$name" 2> /dev/null; done
same 'setup and preparation had none' "$(cat got/before)" ''
same 'an agent in another box finds none' "$(cat got/found)" ''
has 'and would have found one of its own' "$(cat got/itself)" 'env X'

# --- what is left of it
nowhere() { # description folder…: neither the values nor their base64
  local what=$1 left
  shift
  left=$(grep -rlaE "$pattern|$(printf '%s' "$canary" | base64 | cut -c 1-24)" "$@" 2> /dev/null | grep -v '/secret.txt$' || true)
  same "$what" "$left" ''
}
nowhere 'nothing of the state directory holds one: store, logs, objects, snapshots, kept boxes, audit' "$BULKHEAD_HOME"
nowhere 'nor does the folder' .
expect 0 'the log' bulkhead logs "$run" -a holder --no-prefix
has 'is masked' "$out" 'plain ***'
lacks 'in full' "$out" "$canary"
same 'and over two lines' "$(printf '%s\n' "$out" | grep -A 1 '^pieces')" $'pieces ***\n***'
lacks 'and in base64' "$out" "$(printf '%s' "$canary" | base64 | cut -c 1-16)"
lacks 'at each alignment' "$out" "$(printf 'xy%s' "$canary" | base64 | cut -c 5-16)"
for verb in 'show -o json' 'explain' 'provenance -o json' 'plan p.yaml -o json'; do
  # shellcheck disable=SC2086 # words
  case "$verb" in
    plan*) bulkhead $verb > got/text ;;
    provenance*) bulkhead provenance "$run" sums -o json > got/text ;;
    *) bulkhead ${verb%% *} "$run" ${verb#"${verb%% *}"} > got/text ;;
  esac
  lacks "${verb%% *} tells none" "$(cat got/text)" "$canary"
done
expect 0 'a kept box' bulkhead shell "$run" holder -- sh -c 'env; cat prepare.env'
lacks 'has none either' "$out" "$canary"

# --- what goes wrong with it
cat > wrong.yaml << 'EOP'
version: 1
name: wrong
secrets: {key: {file: secret.txt}, bad: {command: [sh, -c, "cat secret.txt; exit 3"]}}
agents:
  - {name: namer, secrets: [key], keep: never, run: 'touch "out/$KEY"', outputs: [wanted]}
  - {name: leaky, secrets: [key], keep: never, run: 'echo "{token: $KEY}" > out/config', outputs: [config]}
  - {name: wrapped, secrets: [key], keep: never, run: 'printf "user:%s" "$KEY" | base64 -w 0 > out/auth', outputs: [auth]}
  - {name: named, secrets: [key], keep: never, run: 'echo x > "out/$KEY"', outputs: [{glob: "*"}]}
  - {name: failing, secrets: {KEY: bad}, run: 'true'}
EOP
expect 1 'a name is told, a value is not' bulkhead run --grant wrong.yaml --only namer -o json
run=$(json '["run"]')
lacks 'not in what is printed' "$out$errs" "$canary"
bulkhead explain "$run" > got/text
has 'the name that is a value is masked' "$(cat got/text)" '***'
lacks 'wherever it is told' "$(cat got/text)" "$canary"
expect 1 'an output that holds a value' bulkhead run --grant wrong.yaml --only leaky
has 'is not taken' "$errs" "output 'config' holds the value of the secret 'key'"
expect 1 'nor one that holds its base64' bulkhead run --grant wrong.yaml --only wrapped
has 'which is told' "$errs" "output 'auth' holds the value of the secret 'key'"
expect 1 'nor one of that name' bulkhead run --grant wrong.yaml --only named
has 'which is told without it' "$errs" "the name of output '***' holds the value of a secret"
expect 7 'a command that fails' bulkhead run --grant wrong.yaml --only failing
has 'says which secret and why' "$errs" "secret 'bad' cannot be had: command 'sh' failed with exit status 3"
lacks 'and nothing of what it printed' "$errs" "$canary"
expect 0 'why' bulkhead explain @latest failing
has 'tells what mends it' "$out" 'remedy: run the command by hand: it must print the value and end with 0'
lacks 'and of no box, because nothing started' "$out" 'its box is kept'
printf 'version: 1\nname: x\nsecrets: {key: {command: [bh-no-such-program]}}\nagents: [{name: a, secrets: [key], run: "true"}]\n' > missing.yaml
expect 7 'a command that is not there' bulkhead run --grant missing.yaml
has 'is told at its place' "$errs" "missing.yaml:3:11: secret 'key' cannot be had: command 'bh-no-such-program' was not found in PATH"
printf 'version: 1\nname: x\nsecrets: {key: {env: BH_NOT_SET}}\nagents: [{name: a, secrets: [key], run: "true"}]\n' > unset.yaml
expect 7 'a variable that is not set' bulkhead run --grant unset.yaml
has 'is told at its place' "$errs" "unset.yaml:3:11: secret 'key' cannot be had: variable 'BH_NOT_SET' is not set"
lacks 'before the run is recorded' "$(bulkhead ps --all)" ' x '
printf 'version: 1\nname: x\nsecrets: {k: {env: BH_CANARY}}\nagents: [{name: a, untrusted: true, secrets: [k], run: env}]\n' > tainted.yaml
expect 5 'a tainted agent gets none' bulkhead run --grant tainted.yaml
has 'for the reason of trust' "$errs" "agent 'a' is tainted and has a power: secret k"
nowhere 'after all of this nothing holds one' "$BULKHEAD_HOME" .

# --- grants
printf 'version: 1\nname: g\nsecrets: {k: {env: BH_CANARY}}\nagents: [{name: a, secrets: [k], run: "true"}, {name: b, run: "true"}]\n' > g.yaml
expect 5 'a new list is refused where nobody can be asked' bulkhead run -q g.yaml
has 'and says how' "$errs" 'run it with --grant'
expect 0 'granted' bulkhead run -q --grant g.yaml
expect 0 'and remembered' bulkhead run -q g.yaml
sed -i 's/run: "true"}]/run: "exit 0"}]/' g.yaml
expect 0 'a change that asks for nothing new needs nothing' bulkhead run -q g.yaml
mkdir elsewhere
cp g.yaml elsewhere/
expect 5 'another file with the same list does' bulkhead run -q elsewhere/g.yaml
sed -i 's/name: b, run/name: b, secrets: [k], run/' g.yaml
expect 5 'and so does a value that goes elsewhere' bulkhead run -q g.yaml
has 'which is named' "$errs" 'secret k in agent b'
python3 - "$work/bin/bulkhead" << 'PY' > got/terminal
import os, pty, sys
def read(fd):
    data = os.read(fd, 1024)
    if b"[y/N]" in data:
        os.write(fd, b"y\n")
    return data
sys.exit(os.waitstatus_to_exitcode(pty.spawn([sys.argv[1], "run", "-q", "g.yaml"], read, lambda fd: b"")))
PY
has 'on a terminal it asks' "$(cat got/terminal)" 'grant this, now and whenever it asks for the same?'
expect 0 'once' bulkhead run -q g.yaml

# --- audit
expect 0 'the audit log' bulkhead audit --kind secret -a holder -o json
same 'has each use by its name, and where it went' \
  "$(printf '%s\n' "$out" | python3 -c 'import json,sys
for l in sys.stdin: v = json.loads(l); print(v["secret"], v["from"], v["variable"], v["attempt"])' | sort)" \
  $'by-command command BY_COMMAND 1\nby-env env BY_ENV 1\nby-file file BY_FILE 1'
expect 0 'grants' bulkhead audit --kind grant
has 'by whom' "$out" 'how=--grant'
has 'remembered' "$out" 'how=remembered'
has 'and on a terminal' "$out" 'how=terminal'
expect 0 'who stepped beside an agent' bulkhead audit --kind override -a holder
has 'is noted' "$out" 'what=shell'
has 'with the program' "$out" 'program=env'
expect 0 'denials' bulkhead audit --kind denial
has 'of the policy' "$out" 'code=policy'
has 'and of trust' "$out" 'code=trust'
expect 2 'a slip' bulkhead audit --kind grnat
has 'is told' "$errs" "did you mean 'grant'?"
expect 0 'it is whole' bulkhead audit verify
has 'and says so' "$out" 'none changed, missing or moved'
log=$BULKHEAD_HOME/audit/audit.jsonl
cp "$log" got/log
none=sha256:$(printf '0%.0s' {1..64})
long=$(printf 'x%.0s' {1..100})
printf '{"seq":0,"time":"2026-01-01T00:00:00Z","kind":"call","agent":"a","method":"SAY","path":"/v1/send it \\u001b[2J\\u00e9","host":"%s.example","prev":"%s","hash":"%s"}\n' \
  "$long" "$none" "$none" >> "$log"
expect 0 'words that a box chose' bulkhead audit --kind call
has 'are shown as in a URL' "$out" 'method=SAY path=/v1/send%20it%20%1B[2J%C3%A9 host=x'
lacks 'and not at length' "$out" "${long:0:65}"
has 'which is said' "$out" '…(108 bytes)'
has 'but as they are for programs' "$(bulkhead audit --kind call -o json)" "$long.example"
cp got/log "$log"
sed -i '2s/"kind":"/&x/' "$log"
expect 7 'a line that was changed' bulkhead audit verify
has 'is named' "$out" 'line 2 was changed'
sed '2d' got/log > "$log"
expect 7 'a line that is missing' bulkhead audit verify -o json
same 'too' "$(json '["problems"][0]["line"]')" 2
awk 'NR == 1 {first = $0; next} {print} NR == 2 {print first}' got/log > "$log"
expect 7 'two that have changed places' bulkhead audit verify
has 'as well' "$out" 'stands in the wrong place'
sed '$d' got/log > "$log"
expect 7 'and the last one' bulkhead audit verify
has 'which the mark of the end knows of' "$out" '1 lines are missing at its end'
done_testing
