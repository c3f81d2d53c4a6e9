#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Groups of cgroup v2 that a killed bulkhead leaves: gone after gc, and a second gc finds nothing.
# shellcheck source=tests/integration/lib.sh
source /test/tests/integration/lib.sh
begin "$1" "$0" "$@"
groups_left() { find /sys/fs/cgroup -type d -name 'l-*' -path '*bulkhead*' | head -n 3; }
printf 'version: 1\nname: t\nagents: [{name: a, run: "echo ready; setsid sleep 86397 & exec sleep 86397"}]\n' > p.yaml
"$work/bin/bulkhead" run p.yaml -q > run.out 2> run.err &
pid=$!
ready() {
  local end=$((SECONDS + 60))
  until "$work/bin/bulkhead" logs @latest --no-prefix 2>/dev/null | grep -q ready; do
    [ "$SECONDS" -lt "$end" ] || return 1
  done
}
check 'an agent runs' ready
check 'in a group' test -n "$(groups_left)"
kill -9 "$pid"
wait "$pid" 2>/dev/null || true
expect 0 'gc' bulkhead gc
check 'no process is left' wait_for_none
expect 0 'gc once more' bulkhead gc -o json
same 'no group is left' "$(groups_left)" ''
expect 0 'a third finds nothing' bulkhead gc -o json
has '  to remove' "$out" '"removed":[]'
done_testing
