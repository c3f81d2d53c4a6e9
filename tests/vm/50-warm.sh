#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Forks of a warm process under another kernel, with version 2 of control groups. MODE root, delegated or user, as in 15-runs.sh.
# shellcheck source=tests/integration/lib.sh
mode=$1
source /test/tests/integration/lib.sh
if [ "$mode" = delegated ]; then
  begin root "$0" root
  chown -R 65534:65534 "$work"
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
cp /test/build/tests/warm_server native
cat > p.yaml << 'END'
version: 1
name: warm
agents:
  - name: worker
    files: {native: ./native}
    prepare: {run: [/workspace/native], warm: true}
    attempts: {count: 3, select: all}
    run: [native, "--n", "{{attempt}}"]
    outputs: [result]
END
expect 0 'three attempts from one warm process' bulkhead run p.yaml -q
logs=$(bulkhead logs @latest --no-prefix)
same '  which is prepared once' "$(grep -c 'prepared in C' <<< "$logs")" 1
same '  all of them forks' "$(grep -c 'fork in C: [123] native --n [123] /home/agent 42' <<< "$logs")" 3
same '  with random numbers of their own' "$(grep -c random <<< "$(grep random <<< "$logs" | sort -u)")" 3
lacks '  none from the disk' "$(bulkhead explain @latest worker)" 'started from the disk'
check 'no process is left' wait_for_none
done_testing
