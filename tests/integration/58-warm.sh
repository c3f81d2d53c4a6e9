#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Warm attempts from end to end: forks of a prepared process, and what comes of preparations that are none, die, or lie.
# Usage: 58-warm.sh MODE
source "$(dirname "$0")/lib.sh"
begin "${1:-root}" "$0" "$@"
python3 -c '' 2> /dev/null && [ -x /usr/bin/python3 ] || skip_all python3 "there is none below /usr"
bulkhead doctor > /dev/null 2>&1 || skip_all boxes "this host cannot make boxes"

mkdir p && cd p
# A server whose memory tells how often it was prepared, and by whom.
cat > server.py << 'END'
import os, random, sys, json, sqlite3
import bulkhead
print("prepared", flush=True)
open("/workspace/state", "w").write("on disk")
token = os.urandom(8).hex()
attempt = bulkhead.warm()
attempt.run()
END
cat > try.py << 'END'
import os, random, sys
warm = "sqlite3" in sys.modules
token = getattr(sys.modules["bulkhead"], "os", None) and sys.modules.get("__main__") is not None and warm
print("attempt", os.environ["BULKHEAD_ATTEMPT"], sys.argv[1:], "warm" if warm else "cold", open("/workspace/state").read(),
      random.random(), flush=True)
open("out/result", "w").write(os.environ["BULKHEAD_ATTEMPT"])
sys.exit(int(os.environ.get("FAIL", "0")))
END
sed -i '/^token = /d' try.py

document() { # prepare, more lines of the agent
  cat << END
version: 1
name: warm
agents:
  - name: worker
    files: {server.py: ./server.py, try.py: ./try.py, bad.py: ./bad.py, native: ./native}
    prepare: {run: $1, warm: true}
    attempts: {count: 5, select: all}
    timeout: {prepare: 20s, run: 30s}
    run: [/usr/bin/python3, try.py, "--n", "{{attempt}}"]
    outputs: [result]
END
  shift
  printf '    %s\n' "$@"
}
lines() { # how many lines of the logs hold this
  bulkhead logs @latest | grep -c -- "$1" || true
}
printf 'pass\n' > bad.py
if [ -x "$BH_BUILD/tests/warm_server" ]; then cp "$BH_BUILD/tests/warm_server" native; else printf '#!/bin/sh\n' > native && chmod 755 native; fi

document '[/usr/bin/python3, server.py]' > p.yaml
expect 0 "five attempts from one warm process" bulkhead run p.yaml
same "it is prepared once" "$(lines prepared)" 1
same "and all are forks of it" "$(lines ' warm on disk ')" 5
has "which get their arguments" "$(bulkhead logs @latest --attempt 3)" "attempt 3 ['--n', '3'] warm"
has "and say so" "$(bulkhead explain @latest worker)" "5 of 5 attempts were forked from the warm process"
lacks "not all too often" "$(bulkhead show @latest)$(bulkhead explain @latest)" "warm process"
same "and random numbers of their own" "$(bulkhead logs @latest | awk '/ warm /{print $NF}' | sort -u | wc -l)" 5
same "their outputs are told apart" "$(bulkhead get @latest result@4 --to - 2> /dev/null)" 4
expect 0 "a second run prepares it again: a disk holds no process" bulkhead run p.yaml
same "which is warm as well" "$(lines prepared)-$(lines ' warm on disk ')" 1-5

document '[/usr/bin/python3, server.py]' 'env: {FAIL: "3"}' > p.yaml
expect 1 "attempts that fail fail" bulkhead run p.yaml
has "with their own status" "$(bulkhead show @latest -o json)" '"exit_code":3'

document '"echo prepared; echo on disk > state; truncate -s -1 state"' > p.yaml
expect 0 "a process that does not cooperate is a preparation like any other" bulkhead run p.yaml
same "its attempts start from the disk" "$(lines ' cold on disk ')" 5

document '"exit 3"' > p.yaml
expect 1 "a preparation that fails is reported" bulkhead run p.yaml
same "and no attempt starts" "$(lines '^.*attempt [0-9]')" 0

cat > bad.py << 'END'
import os, time
os.write(3, b"hello")
time.sleep(60)
END
document '[/usr/bin/python3, bad.py]' > p.yaml
expect 1 "one that says nonsense is refused" bulkhead run p.yaml
has "with the reason" "$errs" "BULKHEAD_WARM_FD"

cat > bad.py << 'END'
import bulkhead
f = open("/workspace/open", "w")
bulkhead.warm()
END
document '[/usr/bin/python3, bad.py]' > p.yaml
expect 1 "one that still writes is refused" bulkhead run p.yaml
has "with the reason" "$errs" "open for writing"

cat > bad.py << 'END'
import time
time.sleep(60)
END
document '[/usr/bin/python3, bad.py]' > p.yaml
sed -i 's/prepare: 20s/prepare: 1s/' p.yaml
expect 1 "one that is never ready is late" bulkhead run p.yaml
has "with the reason" "$(bulkhead show @latest -o json)" 'timeout'

# What `run` may be, and what of the memory it then has.
cat > server2.py << 'END'
import bulkhead
model = ["of the server"]
def ask(): return model[0]
bulkhead.warm().run()
END
printf 'print("has", model, ask(), __name__, flush=True)\n' > mine.py
cp mine.py bare.py
one() { # run
  cat << END
version: 1
name: one
agents:
  - name: worker
    files: {server2.py: ./server2.py, mine.py: ./mine.py, bare.py: ./bare.py}
    prepare: {run: [/usr/bin/python3, server2.py], warm: true}
    attempts: 2
    run: $1
END
}
for what in '[python3, mine.py]' '[python3, -u, mine.py]' '[/usr/bin/python3, -uB, -q, mine.py, x]' '[python3, -m, mine]'; do
  one "$what" > p.yaml
  expect 0 "$what" bulkhead run p.yaml
  same "has the names of its server" "$(lines "has \['of the server'\] of the server __main__")" 2
done
while read -r status what; do
  one "$what" > p.yaml
  expect 1 "$what" bulkhead run p.yaml
  same "ends with $status" "$(bulkhead show @latest -o json | grep -o '"exit_code":[0-9]*' | sort -u | tail -n 1)" "\"exit_code\":$status"
  same "and no trace of a program" "$(lines Traceback)" 0
done << 'END'
127 [./no-such-program]
126 [./bare.py]
126 [/workspace]
2 [python3, no-such-script.py]
END
one 'python3 mine.py' > p.yaml
expect 0 "a text is good" bulkhead lint p.yaml
has "but a shell's, which is said" "$errs$out" "'run' of agent 'worker' is a text"

never=''
[ "$1" != root ] || never='while True: time.sleep(60) # and never answers' # ten seconds, once
for what in "$never" 'os._exit(1)' 'os.write(fds[0], b"nonsense")' '[os.close(f) for f in fds]' 'fork_twice()'; do
  [ -n "$what" ] || continue
  cat > bad.py << END
import os, socket, time
import bulkhead as B
open("/workspace/state", "w").write("on disk")
sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=3)
def fork_twice():
    if os.fork() == 0:
        parent = B._enter(fds, spaces)
        if os.fork() != 0: os._exit(0)
        B._become_new(fds, parent)
        if os.fork() == 0: time.sleep(60)
        os.write(3, b"here\n"); B._hear(); os._exit(0)
    for f in fds: os.close(f)
sock.send(b"ready 1\n")
while True:
    text, fds, _, _ = socket.recv_fds(sock, 128, 32)
    if not text: os._exit(0)
    spaces = int(text.split()[2])
    $what
END
  document '[/usr/bin/python3, bad.py]' > p.yaml
  expect 0 "a server that does $what ends nobody" bulkhead run p.yaml
  same "its attempts start from the disk" "$(lines ' cold on disk ')" 5
  same "and say so" "$(bulkhead explain @latest worker | grep -c 'it started from the disk: ')" 5
  has "which is told of the agent" "$(bulkhead show @latest)" "5 of 5 attempts started from the disk, not from the warm process: "
  has "and of the run" "$(bulkhead explain @latest)" "'worker' is done, but 5 of 5 attempts started from the disk"
  same "with no other try" "$(bulkhead show @latest -o json | grep -o '"try":[0-9]*' | sort -u)" '"try":1'
done

if [ -s native ] && [ -x "$BH_BUILD/tests/warm_server" ]; then
  document '[/workspace/native]' > p.yaml
  sed -i 's|run: \[/usr/bin/python3, try.py|run: [native|' p.yaml
  expect 0 "a server in C" bulkhead run p.yaml
  same "is prepared once" "$(lines 'prepared in C')" 1
  same "and forks five attempts" "$(lines 'fork in C')" 5
  has "which get their arguments and their environment" "$(bulkhead logs @latest --attempt 2)" "fork in C: 2 native --n 2 /home/agent 42"
  same "and random numbers of their own" "$(bulkhead logs @latest | awk '/random/{print $NF}' | sort -u | wc -l)" 5
fi

document '[/usr/bin/python3, server.py]' 'check: {run: "test -f /workspace/in/result && ! python3 -c \"import sys; sys.exit(0 if len(sys.modules) > 500 else 1)\"", box: fresh}' > p.yaml
expect 0 "a check in a fresh box has nothing of the process" bulkhead run p.yaml
check "nothing is left running" wait_for_none
done_testing
