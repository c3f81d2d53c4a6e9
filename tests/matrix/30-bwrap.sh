#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inside bubblewrap, as agents' harnesses start their tools.
# shellcheck source=tests/matrix/lib.sh
source "$(dirname "$0")/lib.sh"
matrix_begin "$1" "$0" "$@"
bwrap --dev-bind / / true 2>/dev/null || skip_all bwrap "bubblewrap does not work here"

works 'user namespace' bwrap --dev-bind / / --unshare-user
works 'user, pid and the host'\''s /proc' bwrap --dev-bind / / --unshare-user --unshare-ipc --unshare-uts
works 'no network' bwrap --dev-bind / / --unshare-user --unshare-net
works 'another id' bwrap --dev-bind / / --unshare-user --uid 4711 --gid 4711
works 'its own /dev' bwrap --bind / / --dev /dev --unshare-user
# As root it covers what it thinks dangerous of a /proc of its own; as an ordinary user it does not.
[ "$1" != root ] || refused 'all, and its /proc' 'fresh /proc' 'bubblewrap' bwrap --bind / / --dev /dev --proc /proc --unshare-all
[ "$1" = root ] || works 'all, and its /proc' bwrap --bind / / --dev /dev --proc /proc --unshare-all
refused 'a /proc of other processes' '' '' bwrap --dev-bind / / --unshare-all
expect 7 'no /proc: a run is refused' bwrap --dev-bind / / --unshare-user --tmpfs /proc "$work/bin/bulkhead" run p.yaml
has '  for that' "$errs" '/proc'
refused 'a covered /proc' 'fresh /proc' '/proc/kallsyms' bwrap --dev-bind / / --unshare-user --ro-bind /dev/null /proc/kallsyms
refused 'no user namespaces in it' 'user namespace' 'user.max_user_namespaces' bwrap --dev-bind / / --unshare-user --disable-userns
state=(--ro-bind / / --dev-bind /dev /dev --bind "$work" "$work")
refused 'a read-only host and /proc' 'user namespace' '/proc is read-only' bwrap "${state[@]}" --unshare-user
works 'a read-only host with a writable state' bwrap "${state[@]}" --bind /proc /proc --unshare-user
done_testing
