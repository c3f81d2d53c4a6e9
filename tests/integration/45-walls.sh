#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What agents try against the walls, as whole pipelines: the host's files, sockets, processes; each other's own files in a shared box; the
# content store through their inputs; the disk through their outputs.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"

# --- a socket and a FIFO of the host below /opt (only root can put them there)
if [ "$1" = root ]; then
  sock=/opt/bulkhead-test-$$.sock fifo=/opt/bulkhead-test-$$.fifo
  trap 'rm -f "$sock" "$fifo"; cleanup' EXIT
  mkfifo -m 666 "$fifo"
  coproc python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
s.listen()
print("up", flush=True)
s.settimeout(60)
c, _ = s.accept()
c.sendall(b"hello from the host")
' "$sock"
  # shellcheck disable=SC2034 # the line only says that the daemon listens
  read -r line <&"${COPROC[0]}"
  daemon=$COPROC_PID
  exec 8<> "$fifo"
  cat > p.yaml << YAML
version: 1
name: t
topology: per-agent
agents:
  - name: a
    files: {try.py: ./try.py}
    run: [python3, try.py, "$sock", "$fifo"]
    outputs: [said]
YAML
  cat > try.py << 'PY'
import os, socket, sys
said = []
try:
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(3)
    s.connect(sys.argv[1])
    said.append("socket: " + s.recv(99).decode())
except OSError as e:
    said.append("socket refused")
try:
    fd = os.open(sys.argv[2], os.O_WRONLY | os.O_NONBLOCK)
    os.write(fd, b"x")
    said.append("fifo written")
except OSError as e:
    said.append("fifo refused")
open("out/said", "w").write("\n".join(said))
PY
  expect 0 'an agent tries a socket and a FIFO of the host' bulkhead run p.yaml -q
  bulkhead get @latest said --to said --force -q
  same 'both are walled off' "$(cat said)" $'socket refused\nfifo refused'
  kill "$daemon" 2> /dev/null || [ $? -eq 1 ]
  exec 8>&-
fi

# --- in a shared box, what is another agent's own
cat > p.yaml << 'YAML'
version: 1
name: t
agents:
  - name: victim
    prompt: mine
    run: |
      echo > ready; while [ ! -e done ]; do :; done
      cat prompt.md params.json needs.json > out/v; ls in >> out/v
    outputs: [v]
    timeout: 60s
  - name: thief
    run: |
      while [ ! -e ready ]; do :; done
      for f in prompt.md params.json needs.json; do rm -f $f; mv $f $f.old; echo EVIL > $f; ln -sf /etc/passwd $f; done 2> /dev/null || echo tried
      rm -rf in 2> /dev/null || echo tried; mkdir in 2> /dev/null || echo tried
      echo > done
    timeout: 60s
YAML
expect 0 'one agent of a shared box attacks what is the own of another' bulkhead run p.yaml -q --max-parallel 2
bulkhead get @latest v --to v --force -q
same 'who finds it as it was' "$(cat v)" 'mine{}[]'

# --- inputs are hard links into the content store
cat > p.yaml << 'YAML'
version: 1
name: t
topology: per-agent
agents:
  - {name: a, run: 'echo truth > out/x', outputs: [x]}
  - name: b
    inputs: [x]
    run: |
      (echo lie > in/x) 2> /dev/null || echo no
      (chmod 777 in/x; echo lie > in/x) 2> /dev/null || echo no
      (rm in/x; truncate -s 0 in/x; mv in/x in/y; touch -d 1999-01-01 in/x) 2> /dev/null || echo no
      (exec 3< in/x; echo lie > /proc/self/fd/3) 2> /dev/null || echo no
  - {name: c, inputs: [x], needs: [b], run: 'cat in/x > out/y', outputs: [y]}
YAML
expect 0 'an agent tries to change its input' bulkhead run p.yaml -q
expect 0 'what comes after' bulkhead get @latest y --to - -q
same 'reads the truth' "$out" truth

# --- a terabyte of nothing
cat > p.yaml << 'YAML'
version: 1
name: t
topology: per-agent
agents:
  - {name: big, run: 'exec truncate -s 1T out/o', outputs: [o], on_failure: continue}
  - {name: holes, run: 'truncate -s 1G out/h; echo end >> out/h', outputs: [h]}
YAML
expect 0 'outputs that are mostly holes' timeout 120 "$work/bin/bulkhead" run p.yaml -q
same 'more than its disk may hold cannot even be made' "$(bulkhead show @latest -o json | field '["agents"][0]["attempts"][0]["reason"]')" disk-full
digest=$(bulkhead artifacts @latest -o json | field '[0]["digest"][7:]')
check 'holes stay holes in the store' test "$(du -k "home/cas/sha256/${digest:0:2}/${digest:2}" | cut -f1)" -lt 1000

# --- the host's view
cat > p.yaml << 'YAML'
version: 1
name: t
topology: per-agent
agents:
  - name: a
    files: {try.sh: ./try.sh}
    run: [sh, try.sh]
YAML
cat > try.sh << 'SH'
bad() { echo "REACHED $*"; }
ls /home/* /root /var/lib/dpkg /var/log/* /boot > /dev/null 2>&1 && bad host files
cat /etc/shadow > /dev/null 2>&1 && bad shadow
for p in root cwd mem environ fd/0 exe; do [ -r /proc/1/$p ] && cat /proc/1/$p > /dev/null 2>&1 && bad init $p; done
kill -9 1 2> /dev/null; kill -STOP 1 2> /dev/null
mount -t tmpfs none /mnt 2> /dev/null && bad mount
umount /workspace/in 2> /dev/null && bad umount
unshare -Ur true 2> /dev/null && bad a user namespace
mknod /tmp/sda b 8 0 2> /dev/null && bad a device
(echo x > /proc/sys/kernel/hostname) 2> /dev/null && bad a sysctl
(echo x > /usr/bin/x) 2> /dev/null && bad /usr
python3 - << 'PY'
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
for name, nr in {"ptrace": 101, "bpf": 321, "keyctl": 250, "perf_event_open": 298, "io_uring_setup": 425, "userfaultfd": 323, "setns": 308, "unshare": 272, "fsopen": 430, "open_by_handle_at": 304}.items():
    if libc.syscall(nr, 0, 0, 0, 0, 0) >= 0:
        print("REACHED", name)
for family, kind in ((17, 3), (40, 1), (38, 5), (2, 3)):
    try:
        socket.socket(family, kind)
        print("REACHED socket", family, kind)
    except OSError:
        pass
for address in ("127.0.0.1", "169.254.169.254"):
    s = socket.socket()
    s.settimeout(1)
    if s.connect_ex((address, 22)) == 0:
        print("REACHED", address)
PY
echo over
SH
expect 0 'an agent looks for ways out' bulkhead run p.yaml -q
expect 0 'what it reached' bulkhead logs @latest --no-prefix
same 'nothing' "$out" over
check 'nothing is left running' wait_for_none
done_testing
