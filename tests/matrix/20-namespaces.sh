#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Namespaces that are switched off, one kind after the other; a /proc with parts covered; user namespaces in user namespaces.
# shellcheck source=tests/matrix/lib.sh
source "$(dirname "$0")/lib.sh"
matrix_begin "$1" "$0" "$@"
unshare -r true 2>/dev/null || skip_all userns "unshare -r does not work"

works 'inside unshare -r' unshare -r
works 'inside two of them' unshare -r unshare -r
works 'with mounts of its own' unshare -rm
works 'with processes of its own' unshare -rmpf --mount-proc

off=(unshare -r bash -c 'kind=$1; shift; echo 0 > "/proc/sys/user/max_${kind}_namespaces"; exec "$@"' -)
while read -r kind missing; do
  refused "max_${kind}_namespaces=0" "$missing" "sysctl -w user.max_${kind}_namespaces" "${off[@]}" "$kind"
done << 'TABLE'
user user namespace
mnt mount namespace
pid pid namespace
net network namespace
ipc ipc namespace
uts uts namespace
cgroup cgroup namespace
TABLE
few=(unshare -r bash -c 'echo 2 > /proc/sys/user/max_user_namespaces; exec "$@"' -)
# More than a box needs for a try and less than it needs to live: the limit is met later, and said.
got=0
fresh_home
"${few[@]}" "$work/bin/bulkhead" run p.yaml > run.out 2> run.err || got=$?
[ "$got" -eq 0 ] || same 'two user namespaces and no more: the host lacks them' "$got" 7
[ "$got" -eq 0 ] || has '  which is said' "$(cat run.err)" 'namespaces: No space left on device'
nothing_left

# --- what container runtimes do to /proc
covered=(unshare -rm bash -ec 'mount --bind /dev/null /proc/kallsyms; exec "$@"' -)
refused 'a covered file of /proc' 'fresh /proc' 'systempaths=unconfined' "${covered[@]}"
has '  and says which' "$(missing_of doctor.json)" '/proc/kallsyms'
covered=(unshare -rm bash -ec 'mount -t tmpfs none /proc/irq; mount -o bind,ro /proc/sys /proc/sys; exec "$@"' -)
refused 'covered folders of /proc' 'fresh /proc' 'procMount: Unmasked' "${covered[@]}"

# --- a chroot
if [ "$(id -u)" -eq 0 ] && [ "$1" = root ]; then
  mkdir -p jail
  jail=(unshare -m bash -ec 'mount --rbind / jail; exec chroot jail env -C "$PWD" "$@"' -)
  if need chroot "${jail[@]}" true; then
    refused 'a chroot' 'user namespace' 'chroot' "${jail[@]}"
  fi
fi
done_testing
