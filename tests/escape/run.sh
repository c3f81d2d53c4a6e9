#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh MODE: every attempt of `escape` in boxes of its own, as agent and as root of the box, and all of them in one shared box; none may
# get through. MODE is root, user, userns, or hostroot (`unshare -r` of the host's root). outside: the same attempts without a box, as
# root, where each must get through: one that fails there too would prove nothing.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/../integration/lib.sh"

mode=$1
canary=bh-canary-$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
case "$mode" in
  hostroot)
    if [ -z "${BH_HOSTROOT:-}" ]; then
      [ "$(id -u)" -eq 0 ] || skip_all root "needs root"
      unshare -r true 2> /dev/null || skip_all userns "unshare -r does not work"
      exec env BH_HOSTROOT=1 unshare -r "$0" hostroot
    fi
    begin root "$0" "$@"
    ;;
  outside) begin root "$0" "$@" ;;
  *) begin "$mode" "$0" "$@" ;;
esac
[ -x "$work/bin/escape" ] || cp "$BH_ESCAPE" "$work/bin/escape"

# --- what they aim at
mkdir -p project/.git/hooks project/in target
done_bombs=
cd project
printf 'the truth\n' > in/data
cp "$work/bin/escape" escape
coproc HOST { BH_CANARY=$canary exec "$work/bin/escape" host "$work/target" "$canary"; }
# shellcheck disable=SC2034 # the line only says that it listens
read -r line <&"${HOST[0]}" || { echo 'Bail out! nothing to aim at'; exit 1; }
{
  cat "$work/target/targets"
  printf 'home=%s\n' "$BULKHEAD_HOME"
} > targets
quiet() { # what may have been reached
  same "the host's listeners and its resolver: nothing came from $1" "$(cat "$work/target/hits")" ''
}

if [ "$mode" = outside ]; then
  mkdir -p "$BULKHEAD_HOME/cas"
  mapfile -t names < <(./escape list all)
  export BH_SECRET=$canary
  mkdir try && cp -r in targets escape try/
  printf '{}' > try/prompt.md
  while read -r name verdict rest; do
    case "$verdict" in
      works:) ok "$name works outside" ;;
      absent:) ok "$name: this host is without it: $rest # SKIP $rest" ;;
      skipped:) ok "$name: not outside: $rest # SKIP $rest" ;;
      *) not_ok "$name fails outside too" "$rest" ;;
    esac
  done < <(for name in "${names[@]}"; do
    rm -rf again && cp -r try again
    (cd again && chown 65534:65534 . && ./escape outside "$name" 2>&1 < /dev/null | tail -n 1)
  done)
  same 'every attempt was tried' "$n" "${#names[@]}"
  check 'what listens was reached' grep -q connection "$work/target/hits"
  check "the resolver was reached" grep -q data "$work/target/hits"
  done_testing
  exit
fi

# --- boxes
agent() { # name attempt more…
  printf '  - name: %s\n    files: {escape: ./escape, targets: ./targets}\n    run: [./escape, inside, %s]\n    timeout: 60s\n' "$1" "$2"
  printf '    on_failure: continue\n'
  shift 2
  [ $# -eq 0 ] || printf '    %s\n' "$@"
}

head_of() { # topology lines…
  printf 'version: 1\nname: escape\ntopology: %s\n' "$1"
  shift
  printf '%s\n' "$@" 'sources: {data: {file: ./in/data}}' 'agents:'
}

# Each of these names has one line that says that it was held.
judge() { # what names…
  local what=$1 name line
  shift
  bulkhead logs @latest --no-prefix > ../log 2>&1 || true
  for name in "$@"; do
    line=$(grep "^$name " ../log || true)
    case "$line" in
      "$name held: "*) ok "$what: $line" ;;
      '') not_ok "$what: $name said nothing" "$(bulkhead explain @latest "$name" 2>&1 | head -n 5)" ;;
      *) not_ok "$what: $line" ;;
    esac
  done
}

before() { find . -type f -not -name '*.yaml' -exec sha256sum {} + | sort; find "$HOME" -maxdepth 1 ! -name std* ! -name log ! -name site.yaml | sort; }
was=$(before)
programs() { find /usr/bin/base64 /usr/local/bin /usr/bh-escape -printf '%p %s %m %T@\n' 2> /dev/null | sort | sha256sum || true; }
usr_was=$(programs)

mapfile -t plain < <(./escape list plain)
for user in agent root; do
  names=("${plain[@]}")
  if [ "$user" = root ]; then # may change its own view of /usr; the host's is compared below
    names=()
    for name in "${plain[@]}"; do
      case "$name" in usr-write | usr-create | path-shim) ;; *) names+=("$name") ;; esac
    done
  fi
  {
    head_of per-agent 'defaults: {inputs: [data]}'
    for name in "${names[@]}"; do
      if [ "$user" = root ]; then agent "$name" "$name" 'user: root'; else agent "$name" "$name"; fi
    done
  } > "own-$user.yaml"
  expect 0 "boxes of their own, as $user" env BH_SECRET="$canary" "$work/bin/bulkhead" run "own-$user.yaml" -q
  judge "own box, $user" "${names[@]}"
  quiet "own boxes, $user"
done

# --- one box, and somebody else in it
mapfile -t siblings < <(./escape list sibling)
{
  head_of shared-box
  agent sibling-victim sibling-victim 'inputs: [data]' 'prompt: mine alone' 'env: {BH_MINE: sibling-secret}'
  for name in "${siblings[@]}"; do
    [ "$name" = sibling-victim ] || agent "$name" "$name"
  done
  for name in "${plain[@]}"; do agent "$name" "$name" 'inputs: [data]'; done
  printf '  - name: over\n    run: touch sibling-over\n    needs: [%s]\n' \
    "$(printf '%s, ' "${siblings[@]/sibling-victim/sibling-files}" | sed 's/, $//; s/sibling-files, \(.*sibling-files\)/\1/')"
} > shared.yaml
expect 0 'one box for all' env BH_SECRET="$canary" "$work/bin/bulkhead" run shared.yaml -q --max-parallel 3
judge 'shared box' "${siblings[@]}" "${plain[@]}"
quiet 'a shared box'

# --- all there is of something, in boxes with limits
mapfile -t bombs < <(./escape list bomb)
{
  head_of per-agent 'defaults: {limits: {memory: 256MiB, pids: 64, nofile: 256, disk: 64MiB, inodes: 4000}}'
  for name in "${bombs[@]}"; do agent "$name" "$name"; done
} > bombs.yaml
status=0
bulkhead run bombs.yaml -q > ../log 2>&1 || status=$?
if [ "$status" -eq 7 ]; then # without control groups: refused, unless the site says that less will do
  has 'a limit that cannot be held is refused, with the reason' "$(cat ../log)" 'cannot enforce'
  printf 'limits: best-effort\n' > site.yaml
  expect 0 'limits are watched where the site says so' env BULKHEAD_SITE="$PWD/site.yaml" "$work/bin/bulkhead" run bombs.yaml -q
else
  same 'boxes with limits' "$status" 0
fi
bulkhead logs @latest --no-prefix > ../log 2>&1 || true
for name in "${bombs[@]}"; do # it says itself how far it came, or was ended for its limit
  line=$(grep "^$name " ../log || true)
  reason=$(bulkhead show @latest -o json | field "[\"agents\"][${#done_bombs}][\"attempts\"][0][\"reason\"]")
  done_bombs+=x
  case "$line $reason" in
    "$name held: "* | *' pids' | *' oom' | *' disk-full') ok "bombs: $name: ${line:-$reason}" ;;
    *) not_ok "bombs: $line $reason" ;;
  esac
done
expect 0 'the host goes on' "$work/bin/bulkhead" run own-agent.yaml -q --only key-list

same 'the folder of the pipeline and the home are as they were' "$(before)" "$was"
same "the host's programs are as they were" "$(programs)" "$usr_was"
check 'no secret is in the logs, the store or the journal' test -z "$(grep -rl "$canary" "$BULKHEAD_HOME" | head -n 3)"
exec {HOST[1]}>&-
check 'nothing is left running' wait_for_none
done_testing
