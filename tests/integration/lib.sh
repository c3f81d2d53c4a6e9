# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The house's way to write an integration test: TAP lines, a folder of its own with its own copy of the programs, and three ways to
# run: as root, as an ordinary user, and as root of a user namespace. Usage: source lib.sh; begin MODE "$@"; …; done_testing.
# Tests wait on events (a line of output, the end of a process); none sleeps.
set -euo pipefail

n=0 bad=0

skip_all() { # capability reason
  case ",${BH_MUST_RUN:-}," in
    *",$1,"* | *,all,*)
      printf 'Bail out! must run here, but %s is missing: %s\n' "$1" "$2"
      exit 1
      ;;
  esac
  printf '1..0 # SKIP %s: %s\n' "$1" "$2"
  exit 77
}

skip_some() { # capability reason: the checks that would follow; the others of the script stand
  case ",${BH_MUST_RUN:-}," in
    *",$1,"* | *,all,*) not_ok "must run here, but $1 is missing: $2" ;;
    *) ok "the rest # SKIP $1: $2" ;;
  esac
}

# As root the script goes on as another process, in a network and a mount namespace of its own: BH_PRIVATE is set there.
own_network() { # script, absolute; its arguments
  local status=0
  [ "$(id -u)" -eq 0 ] && [ -z "${BH_PRIVATE:-}" ] || return 0
  export BH_PRIVATE=1 BH_WORK=$work BH_ENTERED=1
  unshare -n -m true 2> /dev/null || skip_all netns "no network namespace can be made here"
  unshare -n -m bash "$@" || status=$?
  exit "$status"
}

ok() { # description; judges the status of the command before it when called as: cmd && ok x || not_ok x
  n=$((n + 1))
  printf 'ok %d - %s\n' "$n" "$1"
}

not_ok() { # description [detail…]
  n=$((n + 1)) bad=$((bad + 1))
  printf 'not ok %d - %s\n' "$n" "$1"
  shift
  printf '%s\n' "$@" | sed 's/^/# /'
}

check() { # description command…
  local what=$1
  shift
  if "$@"; then ok "$what"; else not_ok "$what" "failed: $*"; fi
}

# Runs a command; its status must be exactly this. Output is in $out, $errs.
expect() { # status description command…
  local want=$1 what=$2 got=0
  shift 2
  "$@" > "$work/stdout" 2> "$work/stderr" || got=$?
  out=$(cat "$work/stdout" | tr -d '\0')
  errs=$(cat "$work/stderr" | tr -d '\0')
  if [ "$got" -eq "$want" ]; then
    ok "$what"
  else
    not_ok "$what" "exit status $got, wanted $want: $*" "stdout: $out" "stderr: $errs"
  fi
}

has() { # description text part
  case "$2" in
    *"$3"*) ok "$1" ;;
    *) not_ok "$1" "wanted to find: $3" "in: $2" ;;
  esac
}

lacks() { # description text part
  case "$2" in
    *"$3"*) not_ok "$1" "did not want: $3" "in: $2" ;;
    *) ok "$1" ;;
  esac
}

same() { # description got want
  if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "got:  $2" "want: $3"; fi
}

done_testing() {
  printf '1..%d\n' "$n"
  [ "$bad" -eq 0 ] && [ "$n" -gt 0 ]
}

# One field of JSON on stdin: field '["agents"][0]["name"]'.
field() {
  python3 -c 'import json,sys; v=json.load(sys.stdin); print(eval("v"+sys.argv[1]))' "$1"
}

# The same of what was printed last.
json() { printf '%s' "$out" | field "$1"; }

# A timed wait for nothing, between two looks at what is waited for.
pause() { read -r -t 0.02 -u 9 _ || [ $? -gt 128 ]; }

# Until the command succeeds; gives up after 20 s.
wait_until() { # command…
  local end=$((SECONDS + 20))
  until "$@" > /dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    pause
  done
}

last_line_is() { # run agent line
  [ "$(bulkhead logs "$1" -a "$2" --no-prefix 2> /dev/null | tail -n 1)" = "$3" ]
}

# Starts a run in the background, of which it waits for the name: $pid, $run. What it prints is in run.out and run.err.
start_run() { # document [option…]
  local alive=true
  : > run.err # or the run before is taken for this one
  "$work/bin/bulkhead" run "$@" > run.out 2> run.err &
  pid=$!
  run=
  while [ -z "$run" ] && $alive; do
    kill -0 "$pid" 2> /dev/null || alive=false # one look more
    run=$(sed -n 's/^run \([^:]*\):.*/\1/p' run.err)
    pause
  done
  [ -n "$run" ] || not_ok "'$1' begins" "$(cat run.err)"
}

kill_run() { # the one that start_run has started
  kill -s KILL "$pid"
  wait "$pid" 2> /dev/null || [ $? -eq 137 ]
}

# Processes that run one of this test's own programs, whatever namespace they are in.
own_processes() {
  local p exe
  for p in /proc/[0-9]*; do
    exe=$(readlink "$p/exe" 2>/dev/null) || continue
    case "$exe" in "$work/bin/"*) printf '%s\n' "${p#/proc/}" ;; esac
  done
}

# The brokers of this test; they let nobody but root look at their program.
brokers() { # [mode]
  local p
  for p in /proc/[0-9]*; do
    case "$({ tr '\0' ' ' < "$p/cmdline"; } 2> /dev/null)" in
      "$work/bin/bulkhead-broker ${1:-}"*) printf '%s\n' "${p#/proc/}" ;;
    esac
  done
}

# Waits until none is left; the kernel ends a dead launcher's boxes on its own time. Gives up after 10 s.
wait_for_none() {
  local end=$((SECONDS + 10))
  while [ -n "$(own_processes)" ]; do
    [ "$SECONDS" -lt "$end" ] || return 1
    pause
  done
}

bulkhead() {
  "$work/bin/bulkhead" "$@"
}

enter_mode() { # mode script args…
  local mode=$1
  shift
  if [ ! -f "${1:-}" ]; then
    echo 'Bail out! a test begins with: begin "$1" "$0" "$@"'
    exit 1
  fi
  case "$mode" in
    root)
      [ "$(id -u)" -eq 0 ] || skip_all root "needs root"
      ;;
    user)
      if [ "$(id -u)" -eq 0 ] && [ -z "${BH_ENTERED:-}" ]; then
        chown -R 65534:65534 "$work"
        export BH_ENTERED=1 BH_WORK=$work
        local status=0
        setpriv --reuid=65534 --regid=65534 --clear-groups bash "$@" || status=$?
        cleanup
        exit "$status"
      fi
      ;;
    subids) # an ordinary user with subordinate ids, which are lent to it in a mount namespace of ours
      if [ -z "${BH_ENTERED:-}" ]; then
        [ "$(id -u)" -eq 0 ] || skip_all root "needs root"
        [ -x /usr/bin/newuidmap ] || skip_all subids "newuidmap is not installed"
        chown -R 65534:65534 "$work"
        printf '65534:300000:65536\n' > "$work/subids"
        export BH_ENTERED=1 BH_WORK=$work
        local status=0
        unshare -m bash -c 'mount --bind "$BH_WORK/subids" /etc/subuid && mount --bind "$BH_WORK/subids" /etc/subgid || exit 78
          exec setpriv --reuid=65534 --regid=65534 --clear-groups bash "$@"' bash "$@" || status=$?
        [ "$status" -ne 78 ] || { cleanup; skip_all mount "nothing can be mounted over /etc/subuid"; }
        cleanup
        exit "$status"
      fi
      ;;
    userns)
      if [ -z "${BH_ENTERED:-}" ]; then
        export BH_ENTERED=1 BH_WORK=$work
        local status=0
        [ "$(id -u)" -ne 0 ] || chown -R 65534:65534 "$work"
        if [ "$(id -u)" -eq 0 ]; then
          setpriv --reuid=65534 --regid=65534 --clear-groups unshare -r true 2>/dev/null || skip_all userns "unshare -r does not work"
          setpriv --reuid=65534 --regid=65534 --clear-groups unshare -r bash "$@" || status=$?
        else
          unshare -r true 2>/dev/null || skip_all userns "unshare -r does not work"
          unshare -r bash "$@" || status=$?
        fi
        cleanup
        exit "$status"
      fi
      ;;
    *)
      printf 'Bail out! unknown mode %s\n' "$mode"
      exit 1
      ;;
  esac
}

cleanup() {
  [ -n "${BH_ENTERED:-}" ] && [ "$(id -u)" -ne 0 ] || rm -rf "$work" 2>/dev/null || true
}

begin() { # mode script args…
  if [ -n "${BH_WORK:-}" ]; then
    work=$BH_WORK
  else
    work=$(mktemp -d "${TMPDIR:-/tmp}/bh-it-XXXXXX")
    chmod 0755 "$work"
    mkdir -p "$work/bin" "$work/home"
    cp "$BH_BIN"/bulkhead "$BH_BIN"/bulkhead-launcher "$BH_BIN"/bulkhead-init "$BH_BIN"/bulkhead-unpack \
      "$BH_BIN"/bulkhead-broker "$work/bin/"
    cp -r "$BH_SOURCE/examples" "$work/examples"
    mkfifo "$work/never"
  fi
  enter_mode "$@"
  trap cleanup EXIT
  exec 9<> "$work/never"
  export BULKHEAD_HOME=$work/home HOME=$work TMPDIR=$work
  unset BULKHEAD_SERVER BULKHEAD_LOG
  cd "$work"
}
