# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Rows of the host matrix, on top of tests/integration/lib.sh. On each host that is imitated a run either works with all of its
# isolation, or is refused before anything of it runs: exit 7, the kind of error, and a remedy that names the thing. `doctor` says the
# same. Nothing is left over.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/../integration/lib.sh"

matrix_begin() { # mode script args…
  begin "$@"
  [ -x "$work/bin/deny_syscall" ] || cp "$BH_BUILD/bin/deny_syscall" "$work/bin/" 2>/dev/null || true
  cat > inside.sh << 'SH'
# What must be true of every box, whatever host it is on. Prints nothing but what is not.
id=$(id -u)
[ "$id" = 1000 ] || echo "uid $id"
field() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status; }
for set in CapEff CapPrm CapInh CapBnd CapAmb; do
  [ "$(field $set)" = 0000000000000000 ] || echo "$set $(field $set)"
done
[ "$(field NoNewPrivs)" = 1 ] || echo "new privileges"
[ "$(field Seccomp)" = 2 ] || echo "no filter"
[ "$(ls /proc | grep -c '^[0-9]')" -lt 10 ] || echo "processes of the host"
[ "$(grep -c ':' /proc/net/dev)" = 1 ] || echo "network interfaces"
[ ! -e /boot ] && [ ! -e /root/.profile ] && [ -z "$(ls -A /home/agent)" ] || echo "files of the host"
unshare -U true 2>/dev/null && echo "a user namespace of its own"
( : > /usr/written ) 2>/dev/null && echo "/usr can be written"
echo seen > out/seen
SH
  printf 'version: 1\nname: t\nagents:\n  - {name: a, files: {inside.sh: ./inside.sh}, run: ". ./inside.sh", outputs: [seen]}\n' > p.yaml
}

fresh_home() {
  rm -rf home
  mkdir -p home
}

left_over() { # what a run must not leave below the state directory, besides its records
  find "$BULKHEAD_HOME" -path '*/boxes/*' -prune -print -o -name 'probe-*' -print 2>/dev/null | head -n 3
}

nothing_left() {
  check '  no process is left' wait_for_none
  same '  nor a box' "$(left_over)" ''
}

# A run works, with everything that isolates its agents.
works() { # name wrapper…
  local name=$1
  shift
  [ -n "${KEEP_HOME:-}" ] || fresh_home
  expect 0 "$name: doctor" "$@" "$work/bin/bulkhead" doctor
  expect 0 "$name: a run works" timeout 60 "$@" "$work/bin/bulkhead" run p.yaml -q
  expect 0 "  its lines" "$@" "$work/bin/bulkhead" logs @latest --no-prefix
  same '  it is isolated' "$out" ''
  nothing_left
}

missing_of() { # file: the required checks that failed and were tried
  python3 -c '
import json, sys
for c in json.load(open(sys.argv[1]))["checks"]:
    if c["required"] and not c["ok"] and not c["found"].startswith("not tried"):
        print(c["name"] + "|" + c["found"] + "|" + (c["remedy"] or ""))' "$1"
}

# A run is refused: doctor has the check `missing`, run the words of the remedy.
refused() { # name missing remedy wrapper…
  local name=$1 missing=$2 remedy=$3
  shift 3
  [ -n "${KEEP_HOME:-}" ] || fresh_home
  expect 7 "$name: doctor" "$@" "$work/bin/bulkhead" doctor -o json
  printf '%s' "$out" > doctor.json
  has "  names it" "$(missing_of doctor.json 2>&1)" "$missing"
  has "  and the remedy" "$(missing_of doctor.json 2>&1)" "$remedy"
  expect 7 "$name: a run is refused" timeout 60 "$@" "$work/bin/bulkhead" run p.yaml -o json
  lacks '  before anything ran' "$errs" 'running'
  has '  by kind' "$out$errs" 'host'
  has '  with the remedy' "$out$errs" "$remedy"
  nothing_left
}

# It depends on what the host has otherwise: either is right, anything else is not.
works_or_refused() { # name wrapper…
  local name=$1 got=0
  shift
  fresh_home
  timeout 60 "$@" "$work/bin/bulkhead" run p.yaml > run.out 2> run.err || got=$?
  if [ "$got" -eq 0 ]; then
    works "$name" "$@"
  else
    refused "$name" '' '' "$@"
  fi
}

need() { # capability command…: a row that this host cannot imitate is said, not counted
  local what=$1
  shift
  "$@" > /dev/null 2>&1 && return 0
  case ",${BH_MUST_RUN:-}," in
    *",$what,"*) not_ok "must run here, but $what is missing" "$*" ;;
    *) printf '# SKIP %s: %s\n' "$what" "$*" ;;
  esac
  return 1
}
