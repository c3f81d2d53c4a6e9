#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Container runtimes and old kernels: calls that are answered with EPERM or ENOSYS.
# shellcheck source=tests/matrix/lib.sh
source "$(dirname "$0")/lib.sh"
matrix_begin "$1" "$0" "$@"
deny=("$work/bin/deny_syscall")
"${deny[@]}" getcpu -- true || skip_all seccomp "no filter can be installed here"

works 'this host as it is' env
# --- calls that boxes cannot do without
while read -r call missing; do
  for answer in EPERM ENOSYS; do
    [ "$answer" = EPERM ] || [ "$1" = root ] || continue
    refused "$call=$answer" "$missing" 'seccomp' "${deny[@]}" "$call=$answer" --
  done
done << 'TABLE'
fsopen mount calls
fsmount mount calls
move_mount mount calls
open_tree mount calls
mount_setattr mount calls
mount mount calls
pivot_root change of root
unshare process calls
setns process calls
close_range process calls
signalfd4 process calls
seccomp seccomp filter
TABLE
refused 'clone3=ENOSYS' 'user namespace' 'seccomp' "${deny[@]}" clone3=ENOSYS --
# --- an old kernel, all at once
refused 'before 5.2' 'mount calls' 'seccomp' "${deny[@]}" fsopen fsconfig fsmount move_mount open_tree openat2 pidfd_open close_range mount_setattr \
  landlock_create_ruleset --
# --- calls that there are other ways for
for call in openat2 pidfd_open pidfd_send_signal statx io_uring_setup landlock_create_ruleset copy_file_range memfd_secret; do
  works "$call=ENOSYS" "${deny[@]}" "$call" --
done
works_or_refused 'memfd_create=EPERM' "${deny[@]}" memfd_create=EPERM --
works_or_refused 'prctl=EPERM' "${deny[@]}" prctl=EPERM --
# --- no new process at all: nothing to try, and still a remedy
fresh_home
expect 7 'clone3=EPERM: doctor' "${deny[@]}" clone3=EPERM -- "$work/bin/bulkhead" doctor
has '  names it' "$out" 'cannot start'
has '  and the remedy' "$out" 'clone3'
expect 7 'clone3=EPERM: a run is refused' "${deny[@]}" clone3=EPERM -- "$work/bin/bulkhead" run p.yaml
has '  with the remedy' "$errs" 'clone3'
nothing_left
done_testing
