#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pipelines with limits on cgroup v2, from the command line. MODE root; delegated: an ordinary user in a group that is given to it;
# user: one in a group that is not, and who is refused what cannot be held.
# shellcheck source=tests/integration/lib.sh
mode=$1
source /test/tests/integration/lib.sh
if [ "$mode" = delegated ]; then
  begin root "$0" root
  chown -R 65534:65534 "$work"
  # Alone in a new group each time, as systemd-run starts it: no controller is given on from a group that holds other processes.
  bulkhead() {
    local own
    own=$(mktemp -d /sys/fs/cgroup/test.slice/own-XXXXXX)
    chown 65534:65534 "$own" "$own"/cgroup.{procs,subtree_control,threads}
    # shellcheck disable=SC2016 # for the shell within
    bash -c 'echo 0 > "$0/cgroup.procs"; exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"' "$own" "$work/bin/bulkhead" "$@"
  }
else
  begin "$mode" "$0" "$@"
fi

# Of the one attempt that there is; python takes seconds here.
attempt() {
  "$work/bin/bulkhead" show @latest -o json | tr ',{}' '\n\n\n' | sed -n "s/^\"$1\":\"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" | grep -v '^null$' | head -n 1
}
groups_left() { find /sys/fs/cgroup -type d -name 'b[0-9]*' -path '*bulkhead*' | head -n 3; }

printf 'version: 1\nname: t\nagents: [{name: a, run: "echo hi"}]\n' > p.yaml
expect 0 'a run' bulkhead run p.yaml -q
expect 0 'doctor' bulkhead doctor -o json
groups=$(printf '%s' "$out" | tr '{' '\n' | grep '"name":"control groups"')
printf '# %s\n' "$groups"
printf 'version: 1\nname: t\ndefaults: {limits: {memory: 48MiB}}\nagents: [{name: a, run: "exec tail /dev/zero"}]\n' > memory.yaml
if [ "$mode" = user ]; then
  has 'doctor says that control groups are not to be had' "$groups" '"ok":false'
  expect 7 'a limit of memory is refused' bulkhead run memory.yaml
  has '  by name' "$errs" 'memory'
  has '  with a remedy' "$errs" 'hint:'
  lacks '  before anything ran' "$errs" 'running'
  check 'nothing is left' wait_for_none
  done_testing
  exit
fi
has 'doctor says cgroup v2' "$groups" 'v2'
expect 1 'more memory than allowed' bulkhead run memory.yaml -q
same '  is oom' "$(attempt reason)" oom
printf 'version: 1\nname: t\ndefaults: {limits: {pids: 12}}\nagents: [{name: a, run: "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do sleep 97 & done; wait"}]\n' > pids.yaml
expect 1 'more processes than allowed' bulkhead run pids.yaml -q
same '  is pids' "$(attempt reason)" pids
printf 'version: 1\nname: t\nagents: [{name: a, timeout: {run: 2s, grace: 200ms}, run: "trap \\"\\" TERM; setsid sleep 86397 & while :; do :; done"}]\n' > time.yaml
expect 1 'one that ignores the signal' bulkhead run time.yaml -q
same '  is timeout' "$(attempt reason)" 'timeout(run)'
printf 'version: 1\nname: t\nagents: [{name: a, run: "setsid sleep 86397 & exit 3"}]\n' > exit.yaml
expect 1 'an exit status' bulkhead run exit.yaml -q
same '  is exact' "$(attempt reason) $(attempt exit_code)" 'exit 3'
check 'no process is left' wait_for_none
same 'no group of a box is left' "$(groups_left)" ''
done_testing
