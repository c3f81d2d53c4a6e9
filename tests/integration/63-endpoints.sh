#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Services that boxes call with credentials they never see, from the document to the record: what is added and replaced, what is
# refused, phases, limits of calls and tokens, a secret in a reply, a secret that is not there.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
rig=$(dirname "$(readlink -f "$0")")/endpoints
begin "$1" "$0" "$@"
command -v python3 > /dev/null || skip_all python3 "the service needs python3"
command -v openssl > /dev/null || skip_all openssl "the service needs openssl"
[ -x /usr/bin/curl ] || skip_all curl "boxes find no curl"
umask 022

# Of this run alone: whatever else runs here does not have it.
CANARY=sk-canary-$(head -c 18 /dev/urandom | base64 | tr -dc a-zA-Z0-9)x
export CANARY
printf '%s\n' "$CANARY" > key
top_allow='"POST /v1/messages", "POST /v1/hang", "GET /v1/*"'
env -u CANARY python3 -B "$rig/service.py" "$work" key > service.out 2> service.err &
service=$!
trap 'kill "$service" 2> /dev/null || true; cleanup' EXIT
wait_until test -s service.out || skip_all openssl "$(tail -n 1 service.err)"
url=$(cat service.out)
export SSL_CERT_FILE=$work/cert.pem
printf 'allow: {ranges: [127.0.0.0/8, "::1/128"]}\n' > site.yaml
export BULKHEAD_SITE=$work/site.yaml

run() { expect "$1" "$2" bulkhead run "$3" --grant; }
logs() { bulkhead logs @latest --no-prefix "$@"; }
# Of the audit log: VERDICT REASON METHOD PATH of every call of the newest run.
calls() {
  python3 - "$BULKHEAD_HOME" "$(bulkhead show @latest -o json | field '["run"]')" << 'PY'
import json, sys
for line in open(sys.argv[1] + "/audit/audit.jsonl"):
    d = json.loads(line)
    if d["kind"] == "call" and d["run"] == sys.argv[2]:
        print(*(d.get(k) for k in "agent endpoint verdict reason method path status".split()))
PY
}
top="version: 1
name: calls
secrets: {key: {env: CANARY}}
endpoints:
  model:
    upstream: $url
    headers: {x-api-key: \"{{ secrets.key }}\"}
    allow: [$top_allow]
    env: {MODEL_URL: \"{{ url }}/v1\", MODEL_KEY: unused}
    tainted: true
"
post='curl -sS -m 20 -H x-api-key:$MODEL_KEY -d {}'

printf '%sagents: [{name: a, endpoints: [model], run: "true"}]\n' "$top" > plain.yaml
expect 5 'what the document asks for needs a grant' bulkhead run plain.yaml
has 'which names the upstream' "$out$errs" "$url"

# --- one agent
cat > p.yaml << YAML
${top}agents:
  - name: a
    endpoints: [model]
    run: |
      echo "url \$MODEL_URL \$MODEL_KEY"
      echo "answer \$($post \$MODEL_URL/messages)"
      echo "refused \$($post -o body -w '%{http_code}' \$MODEL_URL/admin) \$(cat body)"
      echo "cut \$(curl -sS -m 20 \$MODEL_URL/leak 2>&1)"
      curl -sS -m 5 $url/v1/small && exit 1
      env > out/env.txt
    outputs: [env.txt]
YAML
run 0 'an agent calls a service' p.yaml
out=$(logs)
has 'at a local URL' "$out" 'url http://127.0.0.1:4101/v1 unused'
has 'with a key that is added outside' "$out" '"content": [{"type": "text", "text": "hello"}]'
has 'what is not allowed is refused, with what to add' "$out" 'refused 403 {"error":{"type":"bulkhead","message":"endpoint '\''model'\'' does not allow this call: to permit it, add \"POST /v1/admin\"'
has 'a reply that holds the secret is cut' "$out" 'cut curl: ('
lacks 'and the secret is in no log' "$out" sk-canary
out=$(calls)
has 'the audit log has the call' "$out" 'a model allow  POST /v1/messages 200'
has 'the refusal' "$out" 'a model deny not-allowed POST /v1/admin 403'
has 'and the leak' "$out" 'a model deny leak GET /v1/leak'
has 'both are told once' "$(bulkhead explain @latest a)" '2 connections or calls were denied'
expect 0 'the audit log holds together' bulkhead audit verify
same 'the secret is nowhere in the state directory' "$(grep -rlF sk-canary "$BULKHEAD_HOME" || true)" ''
out=$(bulkhead show @latest -o json)
has 'the record counts the calls' "$out" '"requests":3'
has 'and the tokens' "$out" '"tokens_in":10'

# --- while a call is under way the value is in no process that somebody could look into
cat > hunt.yaml << YAML
${top/env: CANARY/file: key}agents:
  - name: a
    endpoints: [model]
    run: |
      grep -lF sk-can''ary /proc/[0-9]*/environ /proc/[0-9]*/cmdline && echo found
      env | grep -F sk-can''ary && echo found
      echo hunting
      $post -m 60 \$MODEL_URL/hang
YAML
(unset CANARY && bulkhead run hunt.yaml --grant > hunt.out 2>&1) &
hunt=$!
hangs() { bulkhead logs @latest --no-prefix | grep -q hunting; }
check 'the agent hunts' wait_until hangs
check 'its call is under way' wait_until grep -q hanging service.err
lacks 'the agent finds it in nobody' "$(bulkhead logs @latest --no-prefix)" found
found=''
for process in /proc/[0-9]*; do
  found+=$(cat "$process/environ" "$process/cmdline" 2> /dev/null | tr -d '\0' | grep -cF -f key || true)
done
same 'it is in no environment and no argument list of the host' "$(printf '%s' "$found" | tr -d 0)" ''
if [ "$1" = user ]; then
  opened=''
  holder=$(brokers endpoints)
  check 'one process has it' test -n "$holder"
  for broker in $holder; do
    for file in environ mem maps fd/3 root/; do
      (: < "/proc/$broker/$file") 2> /dev/null && opened+=" $file"
    done
  done
  same 'and the one that has it cannot be looked into by its own user' "$opened" ''
fi
kill -USR1 "$service"
wait "$hunt" || true
has 'that call was carried out' "$(cat hunt.out)" succeeded

# --- limits
cat > limits.yaml << YAML
${top}agents:
  - name: calls
    endpoints: [model]
    limits: {requests: 2}
    retries: 0
    run: for i in 1 2 3 4; do $post \$MODEL_URL/messages; done; sleep 60
  - name: tokens
    endpoints: [model]
    limits: {tokens: 20}
    run: for i in 1 2 3 4; do $post \$MODEL_URL/messages; done; sleep 60
YAML
run 1 'beyond its limits on calls and tokens an attempt ends' limits.yaml
out=$(bulkhead show @latest -o json)
has 'with the reason' "$out" '"reason":"budget"'
out=$(bulkhead explain @latest calls)
has 'explain names the limit on calls' "$out" 'limits.requests'
out=$(bulkhead explain @latest tokens)
has 'and the one on tokens' "$out" 'limits.tokens'

# --- phases
cat > phases.yaml << YAML
${top}agents:
  - name: a
    endpoints: [model]
    prepare: $post \$MODEL_URL/messages > made
    run: grep -q tokens made && $post \$MODEL_URL/messages
    check: test -z "\${MODEL_URL:-}" && ! curl -sS -m 5 http://127.0.0.1:4101/v1/small
YAML
run 0 'a preparation may call it, a check may not' phases.yaml

# --- two agents in one box have each their own, and only who lists it
cat > shared.yaml << YAML
${top}agents:
  - name: a
    box: both
    endpoints: [model]
    run: $post \$MODEL_URL/messages > shared && echo "url \$MODEL_URL"
  - name: b
    box: both
    needs: [a]
    run: echo "none \${MODEL_URL:-}"
boxes: {both: {}}
YAML
run 0 'agents of a shared box' shared.yaml
has 'only who lists it is told where it is' "$(logs -a b)" 'none '

# --- what cannot be
without_key() { (unset CANARY && bulkhead "$@"); }
without_leave() { BULKHEAD_SITE=$work/none.yaml bulkhead "$@"; }
: > none.yaml
expect 7 'a secret that is not there stops the run before it begins' without_key run plain.yaml --grant
has 'and is named' "$errs" CANARY
expect 5 'an upstream on loopback needs the leave of the site' without_leave lint plain.yaml
has 'which it says' "$errs" ranges

done_testing
