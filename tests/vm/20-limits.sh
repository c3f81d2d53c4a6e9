#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Limits on cgroup v2. MODE groups: control groups by themselves; root: boxes below the root group; user: not delegated, so by rlimits alone; delegated: an ordinary user
# whose own group is given to it, as `systemd-run --user --scope -p Delegate=yes` does.
set -u
mode=$1 tests=/test/build/tests boxes=/test/tests/integration/boxes/in_mode.sh
export BH_MUST_RUN=boxes TMPDIR=/state
status=0
run() {
  printf '# %s\n' "$*"
  "$@" || { status=1; printf 'not ok - %s\n' "$*"; }
}
case "$mode" in
  groups)
    export BH_MUST_RUN=$BH_MUST_RUN,cgroup,freezer
    run "$tests/test_cgroup"
    ;;
  root) run "$boxes" root "$tests/test_boxes_limits" ;;
  user) run "$boxes" user "$tests/test_boxes_limits" ;;
  delegated)
    export BH_MUST_RUN=$BH_MUST_RUN,cgroup,freezer
    own=/sys/fs/cgroup/test.slice/own.scope
    in_own() { # each program in a delegated group of its own, alone
      mkdir "$own" && chown 1000:1000 "$own" "$own"/cgroup.{procs,subtree_control,threads}
      # shellcheck disable=SC2016 # for the shell within
      run bash -c 'echo 0 > "$1/cgroup.procs"; shift; exec setpriv --reuid=1000 --regid=1000 --clear-groups "$@"' - "$own" "$@"
      printf '# left: %s\n' "$(cd "$own" && find . -mindepth 1 -type d | tr '\n' ' ')"
      find "$own" -depth -type d -exec rmdir {} \;
    }
    work=$(mktemp -d)
    cp "$BH_BIN"/bulkhead-{launcher,init} "$tests"/test_{cgroup,boxes_limits} "$work/"
    mkdir -m 1777 "$work/tmp"
    chmod 0755 "$work"
    export BH_BIN=$work TMPDIR=$work/tmp
    in_own "$work/test_cgroup"
    in_own "$work/test_boxes_limits"
    ;;
esac
find /sys/fs/cgroup -name 'bulkhead*' -type d | sed 's/^/# still there: /'
[ -z "$(find /sys/fs/cgroup -name 'l-*' -type d)" ] || status=1
exit "$status"
