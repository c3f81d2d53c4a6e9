#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The clients that agents really use, unmodified, from inside a box: @anthropic-ai/sdk and openai of npm, whole replies and streamed
# ones, against an HTTPS service that wants the credential which the box does not have.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
rig=$(dirname "$(readlink -f "$0")")/endpoints
begin "$1" "$0" "$@"
command -v python3 > /dev/null || skip_all python3 "the service needs python3"
command -v openssl > /dev/null || skip_all openssl "the service needs openssl"
case $(command -v node) in /usr/*/node) ;; *) skip_all npm "boxes find no node below /usr" ;; esac
umask 022
npm install --no-audit --no-fund --ignore-scripts @anthropic-ai/sdk openai > npm.out 2>&1 ||
  skip_all npm "the clients cannot be had: $(tail -n 1 npm.out)"
# What runs, without the sources and types that come with it.
find node_modules -type f ! -name '*.mjs' ! -name '*.js' ! -name package.json -delete
rm -rf node_modules/.bin node_modules/*/src node_modules/@*/*/src

export CANARY=sk-canary-7Qv1xWz93bKd0LmNpR
python3 -B "$rig/service.py" "$work" > service.out 2> service.err &
service=$!
trap 'kill "$service" 2> /dev/null || true; cleanup' EXIT
wait_until test -s service.out || skip_all openssl "$(tail -n 1 service.err)"
url=$(cat service.out)
export SSL_CERT_FILE=$work/cert.pem
printf 'allow: {ranges: [127.0.0.0/8, "::1/128"]}\n' > site.yaml
export BULKHEAD_SITE=$work/site.yaml

cat > agent.mjs << 'JS'
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const anthropic = new Anthropic(), openai = new OpenAI();
const question = {model: "m", max_tokens: 10, messages: [{role: "user", content: "hello?"}]};

const whole = await anthropic.messages.create(question);
console.log("anthropic whole", whole.content[0].text, whole.usage.output_tokens);
let parts = [];
for await (const e of await anthropic.messages.create({...question, stream: true}))
  if (e.type === "content_block_delta") parts.push(e.delta.text);
console.log("anthropic stream", parts.join("|"));
const helper = anthropic.messages.stream(question);
console.log("anthropic helper", (await helper.finalMessage()).content[0].text);

const chat = await openai.chat.completions.create({model: "m", messages: question.messages});
console.log("openai whole", chat.choices[0].message.content, chat.usage.completion_tokens);
parts = [];
for await (const c of await openai.chat.completions.create({model: "m", messages: question.messages, stream: true}))
  if (c.choices[0]) parts.push(c.choices[0].delta.content);
console.log("openai stream", parts.join("|"));
try {
  await openai.models.list();
} catch (e) {
  console.log("openai refused", e.status, e.message);
}
JS
cat > p.yaml << YAML
version: 1
name: sdks
secrets: {key: {env: CANARY}}
endpoints:
  anthropic:
    upstream: $url
    headers: {x-api-key: "{{secrets.key}}"}
    allow: ["POST /v1/messages"]
    env: {ANTHROPIC_BASE_URL: "{{url}}", ANTHROPIC_API_KEY: unused}
  openai:
    upstream: $url
    headers: {authorization: "Bearer {{secrets.key}}"}
    allow: ["POST /v1/chat/completions"]
    env: {OPENAI_BASE_URL: "{{url}}/v1", OPENAI_API_KEY: unused}
agents:
  - name: a
    endpoints: [anthropic, openai]
    files: {agent.mjs: agent.mjs, node_modules: node_modules}
    run: node agent.mjs
YAML
expect 0 'both clients run in a box' bulkhead run p.yaml --grant
out=$(bulkhead logs @latest --no-prefix)
has 'a whole message' "$out" 'anthropic whole hello 5'
has 'a streamed one, piece by piece' "$out" 'anthropic stream four| words| one| by one'
has 'through the helper' "$out" 'anthropic helper four words one by one'
has 'a whole completion' "$out" 'openai whole hello 2'
has 'a streamed one' "$out" 'openai stream four| words| one| by one'
has 'what is not allowed is an error that says what to add' "$out" 'openai refused 403'
has '  in the client too' "$out" "to permit it, add \"GET /v1/models\""
out=$(bulkhead show @latest -o json)
has 'calls are counted' "$out" '"requests":6'
has 'tokens that went in' "$out" '"tokens_in":44'
has 'and that came out' "$out" '"tokens_out":19'

done_testing
