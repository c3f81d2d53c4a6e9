#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# State directories: read-only, full, noexec, in memory, on an overlay; no device nodes; few files, few processes, no capabilities.
# shellcheck source=tests/matrix/lib.sh
source "$(dirname "$0")/lib.sh"
matrix_begin "$1" "$0" "$@"
unshare -rm true 2>/dev/null || skip_all userns "unshare -rm does not work"
own=(unshare -rm)
[ "$1" != root ] || own=(unshare -m)
mkdir -p place
export KEEP_HOME=1

at() { # mount-options…: a command line that starts with the state directory being that
  where=("${own[@]}" bash -ec "$1; export BULKHEAD_HOME=$work/place; exec \"\$@\"" -)
}

at 'mount -t tmpfs -o size=64m none place'
expect 0 'in memory: a run works' "${where[@]}" bash -ec '"$@" run p.yaml -q > /dev/null; "$@" logs @latest --no-prefix' - "$work/bin/bulkhead"
same '  it is isolated' "$out" ''
has '  which doctor says' "$("${where[@]}" "$work/bin/bulkhead" doctor)" 'gone after the next boot'
at 'mount -t tmpfs -o size=64m,noexec none place'
fresh_home
expect 0 'noexec: doctor can live with it' "${where[@]}" "$work/bin/bulkhead" doctor
has '  but says what follows' "$out" 'agents cannot start programs'
at 'mount -t tmpfs -o ro none place'
expect 7 'read-only: doctor' "${where[@]}" "$work/bin/bulkhead" doctor
has '  names it' "$out" 'state directory'
got=0
"${where[@]}" "$work/bin/bulkhead" run p.yaml > run.out 2> run.err || got=$?
check '  a run is refused' test "$got" -ne 0
has '  for that' "$(cat run.err)" 'Read-only file system'
at 'mount -t tmpfs -o size=1m none place; head -c 2000000 /dev/zero > place/full 2>/dev/null || true'
got=0
"${where[@]}" "$work/bin/bulkhead" run p.yaml > run.out 2> run.err || got=$?
check 'full: a run is refused' test "$got" -ne 0
has '  for that' "$(cat run.err)" 'No space left on device'
mkdir -p low
at 'mount -t tmpfs none low; mkdir low/l low/u low/w; mount -t overlay -o lowerdir=low/l,upperdir=low/u,workdir=low/w,userxattr none place || mount -t overlay -o lowerdir=low/l,upperdir=low/u,workdir=low/w none place'
if need overlay "${where[@]}" true; then
  refused 'on an overlay' 'overlay in a user namespace' '--home' "${where[@]}"
fi

# --- devices
unset KEEP_HOME
own=(unshare -rm)
refused 'a /dev without tty' 'set-up of boxes' '/dev' "${own[@]}" bash -ec \
  'mkdir -p d; for n in null zero full random urandom; do : > d/$n; done; for n in null zero full random urandom; do mount --bind /dev/$n d/$n; done; mount --rbind d /dev; exec "$@"' -
rm -rf d 2>/dev/null || true
fresh_home
expect 7 'an empty /dev: doctor' "${own[@]}" bash -ec 'mount -t tmpfs none /dev; exec "$@"' - "$work/bin/bulkhead" doctor
has '  names it' "$out" '/dev/null'
expect 7 'an empty /dev: a run' "${own[@]}" bash -ec 'mount -t tmpfs none /dev; exec "$@"' - "$work/bin/bulkhead" run p.yaml
has '  with the remedy' "$errs" '/dev/null'

# --- what a process may have
works '64 open files' prlimit --nofile=64:64
for files in 12 18 19 20 34 63; do # at each of them another step has no descriptor left; `doctor` may have none for its answer
  fresh_home
  got=0
  timeout 60 prlimit --nofile=$files:$files "$work/bin/bulkhead" doctor > /dev/null 2>&1 || got=$?
  same "$files open files: doctor" "$got" 7
  got=0
  timeout 60 prlimit --nofile=$files:$files "$work/bin/bulkhead" run p.yaml > run.out 2> run.err || got=$?
  same '  a run is refused' "$got" 7
  nothing_left
done
refused '20 open files' 'set-up of boxes' 'ulimit -n' prlimit --nofile=20:20
refused '63 open files' 'set-up of boxes' 'ulimit -n' prlimit --nofile=63:63
works 'no new privileges' setpriv --no-new-privs
if [ "$1" = root ]; then
  refused 'root without CAP_SYS_ADMIN' 'set-up of boxes' 'CAP_SYS_ADMIN' setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin
  refused 'root without any capability' 'set-up of boxes' 'CAP_SYS_ADMIN' setpriv --bounding-set=-all --inh-caps=-all
  refused 'root without CAP_SETUID' 'set-up of boxes' 'CAP_SETUID' setpriv --bounding-set=-setuid --inh-caps=-setuid
else
  fresh_home
  got=0
  timeout 60 prlimit --nproc=12:12 "$work/bin/bulkhead" run p.yaml > run.out 2> run.err || got=$?
  same '12 processes: a run is refused' "$got" 7
  has '  with the remedy' "$(cat run.err)" 'ulimit -u'
fi
BULKHEAD_CGROUP=off works 'without control groups' env
BULKHEAD_CGROUP=off expect 0 '  doctor says so' bulkhead doctor
has '  and what follows' "$out" 'control groups'
printf 'version: 1\nname: t\ndefaults: {limits: {memory: 64MiB}}\nagents: [{name: a, run: "true"}]\n' > limits.yaml
BULKHEAD_CGROUP=off expect 7 'a limit of memory without them is refused' bulkhead run limits.yaml
has '  by name' "$errs" memory
nothing_left
done_testing
