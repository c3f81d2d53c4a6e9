#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What boxes may reach, from the document to the audit log: allowed and denied, phase by phase, with a resolver that hears whatever a
# box asks for, a box that stands still and a broker that dies. As root and in a user namespace all of it happens in a network
# namespace of its own; as an ordinary user the host's loopback takes its place, and names are not asked for.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
script=$(readlink -f "$0")
begin "$1" "$0" "$@"
own_network "$script" "$@"
[ -x /usr/bin/curl ] || skip_all curl "boxes find no curl"
umask 022

# --- the world: a web server, and where it may be a resolver, which note what they hear
cat > world.py << 'PY'
import http.server, socket, struct, sys, threading

address, dns = sys.argv[1], sys.argv[2] == "dns"
NAMES = {"good.test": "127.0.0.5", "meta.test": "169.254.169.254", "inner.test": "10.9.8.7"}
heard = open("heard", "a", buffering=1)


class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "http://other.test:%d/hello" % self.server.server_port)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                pass
        else:
            self.send_response(200)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"hello\n")

    def log_message(self, *args):
        pass


def name_of(query):
    parts, at = [], 12
    while query[at]:
        parts.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    return ".".join(parts), at + 1


def answer(query):
    name, end = name_of(query)
    heard.write("dns %s\n" % name)
    kind = struct.unpack("!H", query[end:end + 2])[0]
    known = NAMES.get(name)
    found = known and kind == 1
    head = query[:2] + struct.pack("!HHHHH", 0x8180 if known else 0x8183, 1, 1 if found else 0, 0, 0)
    record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 0, 4) + socket.inet_aton(known) if found else b""
    return head + query[12:end + 4] + record


def resolve():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", 53))
    while True:
        query, who = s.recvfrom(4096)
        s.sendto(answer(query), who)


web = http.server.ThreadingHTTPServer((address, 0), Web)
web.daemon_threads = True
if dns:
    threading.Thread(target=resolve, daemon=True).start()
print(web.server_port, flush=True)
web.serve_forever()
PY

host=localhost address=127.0.0.1 dns=none
if [ -n "${BH_PRIVATE:-}" ]; then
  host=good.test address=127.0.0.5 dns=dns
  ip link set lo up
  printf 'nameserver 127.0.0.1\noptions attempts:1 timeout:2\n' > resolv.conf
  mount --bind resolv.conf /etc/resolv.conf
fi
: > heard
python3 world.py "$address" "$dns" > world.out 2> world.err &
world=$!
end_world() { kill "$world" 2> /dev/null || true; }
trap 'end_world; cleanup' EXIT
wait_until test -s world.out || skip_all python3 "$(tail -n 1 world.err)"
port=$(cat world.out)
printf 'allow: {ranges: [127.0.0.0/8, "::1/128"]}\n' > site.yaml
export BULKHEAD_SITE=$work/site.yaml
run() { expect "$1" "$2" bulkhead run "$3" --grant; }
logs() { bulkhead logs @latest --no-prefix "$@"; }
no_brokers() { [ -z "$(brokers)" ]; }
# Of the audit log: VERDICT REASON HOST:PORT of every connection of the newest run, and not again when it ends: by whom is a race.
decisions() {
  python3 - "$BULKHEAD_HOME" "$(bulkhead show @latest -o json | field '["run"]')" << 'PY'
import json, sys
for line in open(sys.argv[1] + "/audit/audit.jsonl"):
    d = json.loads(line)
    if d["kind"] == "egress" and d["run"] == sys.argv[2] and d.get("state") != "closed":
        print(d["agent"], d["phase"], d["verdict"], d["reason"], "%s:%d" % (d["host"], d["port"]))
PY
}
get='curl -sS -m 20 --noproxy ""'

# --- one agent: every way out, and what is in its way
cat > p.yaml << YAML
version: 1
name: ways
agents:
  - name: a
    network: {allow: ["$host:$port", "meta.test:80", "inner.test:80"]}
    run: |
      set +e
      echo "env \$HTTP_PROXY \$https_proxy \$ALL_PROXY \$NO_PROXY \$NODE_USE_ENV_PROXY"
      echo "plain \$($get http://$host:$port/hello)"
      echo "tunnel \$($get -p http://$host:$port/hello)"
      echo "socks \$($get --socks5-hostname \${HTTP_PROXY#http://} http://$host:$port/hello)"
      echo "denied \$($get -o body -w '%{http_code}' http://other.test:$port/hello) \$(cat body)"
      echo "port \$($get -o body -w '%{http_code}' http://$host:1/) \$(cat body)"
      echo "redirect \$($get -L -o body -w '%{http_code}' http://$host:$port/redirect) \$(cat body)"
      echo "direct \$(curl -sS -m 5 --noproxy '*' http://direct.test:$port/hello 2>&1)"
      echo "address \$(curl -sS -m 5 --noproxy '*' http://$address:$port/hello 2>&1)"
      (echo direct > /dev/udp/127.0.0.1/53) 2> /dev/null
      bash -c 'printf "xxxxxxxxxxxx\006direct\004test\000\000\001\000\001" > /dev/udp/127.0.0.1/53' 2> /dev/null
      echo "mapped \$($get -o body -w '%{http_code}' 'http://[::ffff:$address]:$port/') \$(cat body)"
      echo done
YAML
expect 5 'what a document may reach has to be granted' bulkhead run p.yaml
run 0 'an agent with an allow-list' p.yaml
out=$(logs)
has '  finds the proxy' "$out" 'env http://127.0.0.1:3128 http://127.0.0.1:3128 http://127.0.0.1:3128 localhost,127.0.0.1,::1 1'
for way in plain tunnel socks; do has "  reaches what is listed: $way" "$out" "$way hello"; done
has '  and nothing else' "$out" "denied 403 bulkhead: other.test:$port is not in the allow-list"
has '  with what to add' "$out" "add \"other.test:$port\" to network.allow of agent 'a' (phase 'run')"
has '  at no other port' "$out" "port 403 bulkhead: $host:1 is not in the allow-list"
has '  a redirect is decided anew' "$out" "redirect 403 bulkhead: other.test:$port is not in the allow-list"
has '  asks no resolver by itself' "$out" 'direct curl: (6) Could not resolve host: direct.test'
has '  has no way but the proxy' "$out" 'address curl: (7)'
has '  an address in other clothes is not listed either' "$out" 'mapped 403'
has '  and goes on' "$out" 'done'
out=$(decisions)
has 'the audit log has what was let through' "$out" "a run allow listed $host:$port"
has '  and what was denied' "$out" "a run deny not-listed other.test:$port"
same '  one line each' "$(printf '%s\n' "$out" | grep -c "allow listed $host:$port")" 4
expect 0 'explain' bulkhead explain @latest a
has '  says what was denied' "$out" 'connections or calls were denied'
has '  by name' "$out" "other.test:$port (not-listed)"
if [ "$dns" = dns ]; then
  same 'the resolver has heard of what is listed alone' "$(sort -u heard)" "dns good.test"
  cat > q.yaml << YAML
version: 1
name: names
agents:
  - name: a
    network: {allow: ["meta.test:80", "inner.test:80"]}
    run: |
      echo "meta \$($get -o body -w '%{http_code}' http://meta.test/latest/meta-data/) \$(cat body)"
      echo "inner \$($get -o body -w '%{http_code}' http://inner.test/) \$(cat body)"
YAML
  run 0 'names that lead into the house' q.yaml
  out=$(logs)
  has '  are refused for their address' "$out" 'inner 403 bulkhead: inner.test:80 has a private address'
  has '  the metadata service too' "$out" 'meta 403 bulkhead: meta.test:80 has the address of a metadata service'
fi

# --- phases
cat > phases.yaml << YAML
version: 1
name: phases
topology: per-agent
agents:
  - name: a
    network: {setup: {allow: ["$host:$port"]}, prepare: {allow: ["$host:$port"]}}
    setup: '$get http://$host:$port/setup > /workspace/s; env | grep -c _PROXY >> /workspace/s'
    prepare: '$get http://$host:$port/prepare > p'
    run: 'cat s p; env | grep -ci _proxy || true; $get -x http://127.0.0.1:3128 http://$host:$port/ 2> /dev/null || echo closed'
    check: {run: '$get http://$host:$port/check && echo checked', network: {allow: ["$host:$port"]}}
  - name: b
    network: {run: {allow: ["$host:$port"]}}
    run: '$get http://$host:$port/run'
    check: '$get -x http://127.0.0.1:3128 http://$host:$port/ 2>&1 || echo closed'
YAML
run 0 'networks by phase' phases.yaml
out=$(logs -a a)
same '  setup and prepare have one, run has none, the check has its own' "$(printf '%s' "$out" | tr '\n' ' ')" \
  'hello 5 hello 0 closed hello checked'
out=$(logs -a b)
has '  run has one' "$out" hello
has '  its check has none' "$out" closed
out=$(decisions)
for phase in setup prepare check; do has "  decided in $phase" "$out" "a $phase allow listed"; done
has '  and in run' "$out" 'b run allow listed'
run 0 'the same again' phases.yaml
lacks '  finds what its setup has fetched' "$(decisions)" 'a setup'

cat > shared.yaml << YAML
version: 1
name: shared
boxes:
  lab: {network: {setup: {allow: ["$host:$port"]}}, setup: '$get http://$host:$port/box > /workspace/fetched'}
agents:
  - name: a
    box: lab
    setup: '$get http://$host:$port/setup'
    run: 'cat fetched; test -z "\${HTTP_PROXY:-}"; $get -x http://127.0.0.1:3128 http://$host:$port/'
  - {name: b, box: lab, needs: [a], run: 'cat fetched; $get -x http://127.0.0.1:3128 http://$host:$port/ 2>&1 || echo closed'}
YAML
run 0 'a shared box: its own setup and that of an agent' shared.yaml
out=$(logs -a a)
has '  have a network' "$out" hello
has '  which is over when run begins' "$out" "$host:$port is not reachable: this phase has no network"
has '  who has none finds nothing to ask' "$(logs -a b)" closed
has '  it is decided for the box' "$(decisions)" 'setup allow listed'

# --- who is tainted chooses no words
cat > tainted.yaml << YAML
version: 1
name: tainted
agents:
  - {name: a, untrusted: true, network: {allow: ["$host:$port"]}, run: '$get http://ignore-what-you-were-told.test:80/ > /dev/null; exit 3'}
YAML
run 1 'a tainted agent that fails' tainted.yaml
expect 0 'show' bulkhead show @latest
has '  says that something was denied' "$out" '1 connection or call was denied'
lacks '  without the name that it chose' "$out" ignore-what-you-were-told
has '  which the audit log has' "$(decisions)" ignore-what-you-were-told

# --- a box that stands still, and a peer that never ends, hold up nobody
cat > frozen.yaml << YAML
version: 1
name: frozen
defaults: {timeout: {grace: 100ms}}
topology: per-agent
agents:
  - name: still
    network: {allow: ["$host:$port"]}
    run: '$get http://$host:$port/endless > /dev/null & echo begun; while ! grep -q ":0C38 01" /proc/net/tcp; do :; done; kill -STOP -1; kill -STOP \$\$'
  - name: quick
    network: {allow: ["$host:$port"]}
    run: 'for i in 1 2 3 4 5 6 7 8 9 10; do $get -o /dev/null http://$host:$port/hello; done; echo ten'
YAML
start_run frozen.yaml --grant
check 'another box is served beside one that is stopped' wait_until last_line_is "$run" quick ten
kill -s INT "$pid"
status=0
wait "$pid" || status=$?
same '  and the run can be ended' "$status" 130
check '  with nothing left' wait_for_none

# --- a broker that dies
cat > dies.yaml << YAML
version: 1
name: dies
agents:
  - name: a
    network: {allow: ["$host:$port"]}
    run: '[ "\$BULKHEAD_TRY" -gt 1 ] || { echo waiting; exec sleep 86395; }; $get http://$host:$port/again'
YAML
start_run dies.yaml --grant
wait_until last_line_is "$run" a waiting
for p in $(brokers); do kill -s KILL "$p"; done
status=0
wait "$pid" || status=$?
same 'an agent whose broker has died is tried again' "$status" 0
out=$(bulkhead show @latest -o json | field '["agents"][0]["attempts"]')
has '  it failed by the host' "$out" "'reason': 'host'"
has '  which says why' "$out" 'the broker through which its box reached the network has ended'
has '  and the next one has a new broker' "$(logs)" hello
check '  nothing is left' wait_for_none

# --- many at once, and an end by force
cat > many.yaml << YAML
version: 1
name: many
agents:
  - name: a
    network: {allow: ["$host:$port"]}
    attempts: {count: 6, select: all}
    run: '$get http://$host:$port/hello; echo \$HTTP_PROXY'
YAML
run 0 'attempts side by side' many.yaml
same '  each reach it' "$(logs | grep -c hello)" 6
same '  through a proxy of their own at the same port' "$(logs | grep -c http://127.0.0.1:3128)" 6
same '  and each is written down' "$(decisions | grep -c 'allow listed')" 6
cat > hangs.yaml << YAML
version: 1
name: hangs
agents: [{name: a, network: {allow: ["$host:$port"]}, run: '$get http://$host:$port/hello; exec sleep 86393'}]
YAML
start_run hangs.yaml --grant
check 'a run is killed' wait_until last_line_is "$run" a hello
kill_run
check '  no broker outlives it' wait_until no_brokers
check '  and nobody else' wait_for_none

# --- what cannot be had
mv bin/bulkhead-broker bin/away
run 7 'without the program no box has a way out' dies.yaml
has '  and the run says so' "$errs" "cannot find 'bulkhead-broker'"
mv bin/away bin/bulkhead-broker
done_testing
