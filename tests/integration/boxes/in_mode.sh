#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# in_mode.sh MODE PROGRAM: runs a test program of boxes as root, as an ordinary user, or as root of a user namespace, with its own
# copy of the programs where everybody can reach them; root-submounts and user-submounts: on a host with mounts below /opt;
# root-nocgroup: without control groups. Exit 77 is a skip.
set -u
mode=$1 program=$2

skip() { # capability reason
  case ",${BH_MUST_RUN:-}," in
    *",$1,"* | *,all,*)
      echo "must run here, but $1 is missing: $2" >&2
      exit 1
      ;;
  esac
  echo "SKIP $1: $2"
  exit 77
}

work=$(mktemp -d "${TMPDIR:-/tmp}/bh-boxes-XXXXXX") || exit 1
trap 'chmod -R u+rwX "$work" 2>/dev/null; rm -rf "$work"' EXIT
cp "$BH_BIN/bulkhead-launcher" "$BH_BIN/bulkhead-init" "$program" "$work/" || exit 1
mkdir "$work/tmp"
chmod -R a+rX "$work"
export BH_BIN=$work TMPDIR=$work/tmp BH_MODE=$mode
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
[ "$(id -u)" -eq 0 ] || nobody=()
case "$mode" in
  root | root-submounts | root-nocgroup | userns-root) ;;
  *) [ "$(id -u)" -ne 0 ] || chown 65534:65534 "$work/tmp" ;;
esac
case "$mode" in
  *-submounts)
    [ "$(id -u)" -eq 0 ] || skip root "needs root"
    unshare -m true 2>/dev/null || skip mount "unshare -m does not work"
    [ "$mode" = root-submounts ] && nobody=()
    BH_SUBMOUNTS=1 BH_MODE=${mode%-submounts} unshare -m bash -ec 'mount -t tmpfs opt /opt
      mkdir /opt/sub /opt/plain
      echo top > /opt/plain/f
      mount -t tmpfs sub /opt/sub
      echo below > /opt/sub/f
      exec "$@"' - "${nobody[@]}" "$work/$(basename "$program")"
    ;;
  root-nocgroup)
    [ "$(id -u)" -eq 0 ] || skip root "needs root"
    BULKHEAD_CGROUP=off "$work/$(basename "$program")"
    ;;
  root)
    [ "$(id -u)" -eq 0 ] || skip root "needs root"
    "$work/$(basename "$program")"
    ;;
  user)
    "${nobody[@]}" "$work/$(basename "$program")"
    ;;
  userns-root) # root of the host as root of a user namespace with one id: it owns half of /proc without any capability
    [ "$(id -u)" -eq 0 ] || skip root "needs root"
    unshare -r "$work/$(basename "$program")"
    ;;
  userns)
    "${nobody[@]}" unshare -r true 2>/dev/null || skip userns "unshare -r does not work"
    "${nobody[@]}" unshare -r "$work/$(basename "$program")"
    ;;
  *)
    echo "unknown mode $mode" >&2
    exit 1
    ;;
esac
