#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh MODE: every attempt of `escape` in boxes of its own, as agent and as root of the box, and all of them in one shared box; none may
# get through. MODE is root, user, userns, or hostroot (`unshare -r` of the host's root). outside: the same attempts without a box, as
# root, where each must get through: one that fails there too would prove nothing.
# $BH_ESCAPE_PARTS: some of own,shared,outputs,bombs; on a machine that is slow `one`: all attempts by one agent.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/../integration/lib.sh"

mode=$1
parts=${BH_ESCAPE_PARTS:-own,shared,outputs,bombs}
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

  # Two agents without a box: a namespace of processes keeps the signals to all from the host.
  rm -rf again && cp -r try again
  printf 'mine alone\n' > again/prompt.md
  # shellcheck disable=SC2016 # for the shell within
  BH_MINE=sibling-secret unshare -mpf --mount-proc bash -c 'cd again
    setsid ./escape inside sibling-victim > victim < /dev/null &
    for name in $(./escape list sibling); do
      [ "$name" = sibling-victim ] || setsid ./escape inside "$name" < /dev/null
    done
    touch sibling-over
    wait' > siblings 2>&1 || true
  for name in processes prompt inputs environment files; do
    check "sibling-$name works outside" grep -q "^sibling-$name REACHED" siblings
  done
  check 'sibling-signals works outside' grep -q '^sibling-victim REACHED' again/victim
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

before() { find . -type f -not -name '*.yaml' -exec sha256sum {} + | sort; find "$HOME" -maxdepth 1 ! -name 'std*' ! -name log ! -name site.yaml | sort; }
was=$(before)
programs() { find /usr/bin/base64 /usr/local/bin /usr/bh-escape -printf '%p %s %m %T@\n' 2> /dev/null | sort | sha256sum || true; }
usr_was=$(programs)

mapfile -t plain < <(./escape list plain)

own() {
  local user name names
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
}

one() {
  local names
  names=$(printf ', %s' "${plain[@]}")
  {
    head_of per-agent 'defaults: {inputs: [data], timeout: 120s}'
    printf '  - name: one\n    files: {escape: ./escape, targets: ./targets}\n    run: [./escape, inside%s]\n' "$names"
  } > one.yaml
  expect 0 'one box, one agent' env BH_SECRET="$canary" "$work/bin/bulkhead" run one.yaml -q
  judge 'one agent' "${plain[@]}"
  quiet 'one box'
}

# One box for all, and somebody else in it.
shared() {
  local name siblings
  mapfile -t siblings < <(./escape list sibling)
  {
    head_of shared-box
    agent sibling-victim sibling-victim 'inputs: [data]' 'prompt: mine alone' 'env: {BH_MINE: sibling-secret}'
    for name in "${siblings[@]}"; do
      [ "$name" = sibling-victim ] || agent "$name" "$name"
    done
    for name in "${plain[@]}"; do agent "$name" "$name" 'inputs: [data]'; done
    printf '  - name: over\n    run: touch sibling-over\n    needs: ['
    for name in "${siblings[@]}"; do
      [ "$name" = sibling-victim ] || printf '%s, ' "$name"
    done
    printf 'key-list]\n'
  } > shared.yaml
  expect 0 'one box for all' env BH_SECRET="$canary" "$work/bin/bulkhead" run shared.yaml -q --max-parallel 3
  judge 'shared box' "${siblings[@]}" "${plain[@]}"
  quiet 'a shared box'
}

# What an agent leaves as its output, to be read outside.
outputs() {
  local name want command got
  cat > tricks << 'TRICKS'
fifo output-invalid mkfifo out/x
link-absolute output-invalid ln -s /etc/passwd out/x
link-upwards output-invalid ln -s ../../etc/passwd out/x
link-process output-invalid ln -s /proc/self/environ out/x
link-device output-invalid ln -s /dev/zero out/x
folder-link output-invalid rmdir out; ln -s /etc out; cp /etc/passwd /tmp/x
other-folder output-missing mkdir out2; cp /etc/passwd out2/x
input-link output-missing ln in/data out/x || rm -f out/x
dir-for-file output-invalid mkdir out/x
set-user-id - cp /bin/true out/x; chmod 6755 out/x
unreadable - echo x > out/x; chmod 000 out/x
swap-race * (while :; do ln -sfn /etc/passwd out/x; rm -f out/x; echo mine > out/x; done) & i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done
TRICKS
  {
    head_of per-agent 'defaults: {inputs: [data], on_failure: continue, timeout: 60s}'
    while read -r name want command; do
      printf '  - name: %s\n    outputs: [{name: %s, path: out/x}]\n    run: |\n      %s\n' "$name" "$name" "$command"
    done < tricks
  } > outputs.yaml
  expect 0 'agents that leave tricks' bulkhead run outputs.yaml -q
  bulkhead show @latest -o json > ../log
  while read -r name want command; do
    got=$(field "[\"agents\"][[a[\"name\"] for a in v[\"agents\"]].index(\"$name\")][\"attempts\"][0][\"reason\"] or \"-\"" < ../log)
    case "$want" in
      '*') ok "output: $name: $got" ;;
      *) same "output: $name" "$got" "$want" ;;
    esac
    rm -rf got
    bulkhead get @latest "$name" --to got --force -q 2> /dev/null || continue
    check "output: $name brings nothing of the box's /etc" test -z "$(grep -rl root: got)"
    check "output: $name has no bits of rights, links or nodes" test -z "$(find got -perm /6000 -o ! -type f ! -type d)"
  done < tricks
  rm -rf got tricks
}

# All there is of something, in boxes with limits.
bombs() {
  local name names line reason status=0 n_done=0
  mapfile -t names < <(./escape list bomb)
  {
    head_of per-agent 'defaults: {limits: {memory: 256MiB, pids: 64, nofile: 256, disk: 64MiB, inodes: 4000}}'
    for name in "${names[@]}"; do agent "$name" "$name"; done
  } > bombs.yaml
  bulkhead run bombs.yaml -q > ../log 2>&1 || status=$?
  if [ "$status" -eq 7 ]; then # without control groups: refused, unless the site says that less will do
    has 'a limit that cannot be held is refused, with the reason' "$(cat ../log)" 'cannot enforce'
    printf 'limits: best-effort\n' > ../site.yaml
    expect 0 'limits are watched where the site says so' env BULKHEAD_SITE="$work/site.yaml" "$work/bin/bulkhead" run bombs.yaml -q
  else
    same 'boxes with limits' "$status" 0
  fi
  bulkhead logs @latest --no-prefix > ../log 2>&1 || true
  for name in "${names[@]}"; do # it says itself how far it came, or was ended for its limit
    line=$(grep "^$name " ../log || true)
    reason=$(bulkhead show @latest -o json | field "[\"agents\"][$n_done][\"attempts\"][0][\"reason\"]")
    n_done=$((n_done + 1))
    case "$line $reason" in
      "$name held: "* | *' pids' | *' oom' | *' disk-full') ok "bombs: $name: ${line:-$reason}" ;;
      *) not_ok "bombs: $line $reason" ;;
    esac
  done
  printf 'version: 1\nname: t\nagents: [{name: a, run: "true"}]\n' > after.yaml
  expect 0 'the host goes on' "$work/bin/bulkhead" run after.yaml -q
}

for part in ${parts//,/ }; do "$part"; done

same 'the folder of the pipeline and the home are as they were' "$(before)" "$was"
same "the host's programs are as they were" "$(programs)" "$usr_was"
check 'no secret is in the logs, the store or the journal' test -z "$(grep -rl "$canary" "$BULKHEAD_HOME" | head -n 3)"
hosts_input=${HOST[1]}
exec {hosts_input}>&-
check 'nothing is left running' wait_for_none
done_testing
