#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `network: host`, from the leave of the site to the audit log: who has it and who beside it has not, phase by phase, and that it is a
# network and nothing else. As root and in a user namespace all of it happens in a network namespace of its own, which is the host's
# then; as an ordinary user in that of the machine.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
script=$(readlink -f "$0")
begin "$1" "$0" "$@"
own_network "$script" "$@"
[ -x /usr/bin/curl ] || skip_all curl "boxes find no curl"
[ -x /usr/bin/python3 ] || skip_all python3 "boxes find no python3"
umask 022

# --- the host: an interface beside loopback, a service at its loopback alone, and a resolver of its own
if [ -n "${BH_PRIVATE:-}" ]; then
  ip link set lo up
  ip link add bhhost0 type veth peer name bhhost1 2> /dev/null || true
  printf 'nameserver 192.0.2.53\noptions attempts:1 timeout:1\n' > resolv.conf
  mount --bind resolv.conf /etc/resolv.conf
fi
interfaces() { tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort | tr '\n' ' '; }
host_has=$(interfaces)
host_net=$(readlink /proc/self/ns/net)
cat > web.py << 'PY'
import http.server
class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"hello\n")
    def log_message(self, *args):
        pass
web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
web.daemon_threads = True
print(web.server_port, flush=True)
web.serve_forever()
PY
python3 web.py > web.out 2> web.err &
web=$!
end_web() { kill "$web" 2> /dev/null || true; }
trap 'end_web; cleanup' EXIT
wait_until test -s web.out || skip_all python3 "$(tail -n 1 web.err)"
port=$(cat web.out)

run() { expect "$1" "$2" bulkhead run "$3" --grant; }
logs() { bulkhead logs @latest --no-prefix "$@"; }
# PHASE of every line of the newest run that says who had the network of the host, by agent.
had() { bulkhead audit --run @latest --kind egress -o json | python3 -c '
import json, sys
for line in sys.stdin:
    d = json.loads(line)
    if d["reason"] == "host-network":
        print(d["agent"], d["phase"], d["verdict"])' | sort; }
# The lines of $net, with one of two words for the number, all in one line.
where() { sed "s|${host_net//[][]/.}|host|; s|^net net:.*|net own|" | tr '\n' ' '; }
net='echo "net $(readlink /proc/self/ns/net)"'
seen='echo "sees $(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " " | sort | tr "\n" " ")"'
get="echo \"got \$(curl -sS -m 5 --noproxy 127.0.0.1 http://127.0.0.1:$port/ 2> /dev/null || echo nothing)\""

# --- leave
cat > one.yaml << YAML
version: 1
name: one
agents: [{name: a, network: host, run: '$get'}]
YAML
run 5 'without the leave of the site it is refused' one.yaml
has '  for what it is' "$errs" "the site does not allow the host's network (network: host)"
has '  with what would allow it' "$errs" "'allow: {host_network: true}' in "
expect 0 '  no run was made' bulkhead ps --all -o json
same '  at all' "$out" '[]'
printf 'allow: {host_network: false}\n' > no.yaml
expect 5 'a site that forbids it' bulkhead lint --policy no.yaml one.yaml
has '  is named' "$errs" 'no.yaml:1'
printf 'allow: {host_network: true, ranges: [127.0.0.0/8, "::1/128"]}\n' > site.yaml
export BULKHEAD_SITE=$work/site.yaml
expect 0 'one that allows it' bulkhead lint --policy site.yaml one.yaml
same '  says nothing' "$(printf '%s' "$errs" | grep -c warning || true)" 0
expect 5 'the person who runs it is asked' bulkhead run one.yaml
has '  for that very thing' "$out$errs" 'network host'
run 0 'and then it is had' one.yaml
has '  a service on the loopback of the host is reached' "$(logs)" 'got hello'
has 'the audit log has what was granted' "$(bulkhead audit --kind grant)" 'network host'
same '  and who had it' "$(had)" 'a run allow'
expect 0 'show' bulkhead show @latest
expect 0 'plan' bulkhead plan one.yaml
has '  calls it a power' "$out" 'network host'

# --- trust
cat > tainted.yaml << YAML
version: 1
name: tainted
agents: [{name: a, network: host, untrusted: true, run: "true"}]
YAML
run 5 'a tainted box does not have it' tainted.yaml
has '  as no other power' "$errs" "agent 'a' is tainted and has a power: network host"
cat > endpoint.yaml << YAML
version: 1
name: endpoint
endpoints: {e: {upstream: 'https://example.org', allow: ['GET /x']}}
agents: [{name: a, network: host, endpoints: [e], run: "true"}]
YAML
run 3 'nor does an agent with an endpoint, which all of the host could use' endpoint.yaml
has '  which it says' "$errs" "agent 'a' has endpoint 'e', and its 'run' has the host's network"

# --- two boxes side by side, and what the one that has it does not get with it
cat > two.yaml << YAML
version: 1
name: two
topology: per-agent
agents:
  - name: with
    network: host
    run: |
      set +e
      $net; $seen; $get
      env | grep -ci _proxy
      cat /etc/resolv.conf
  - name: without
    run: '$net; $seen; $get; cat /etc/resolv.conf'
  - name: attempts
    network: host
    attempts: {count: 3, select: all}
    run: '$get'
YAML
run 0 'boxes with and without' two.yaml
out=$(logs -a with)
has '  the one is in the network of the host' "$out" "net $host_net"
has '  sees its interfaces' "$out" "sees $host_has"
has '  reaches what is there' "$out" 'got hello'
has '  has no proxy' "$out" "$(printf '\n0\n')"
has '  asks the resolver of the host' "$out" "$(head -n 1 /etc/resolv.conf)"
out=$(logs -a without)
has '  the other sees loopback alone' "$out" 'sees lo'
lacks '  in a network of its own' "$out" "$host_net"
has '  and reaches nothing' "$out" 'got nothing'
lacks '  nor is told of the resolver' "$out" "$(head -n 1 /etc/resolv.conf)"
same '  each attempt has it' "$(logs -a attempts | grep -c 'got hello')" 3
same '  and its line' "$(had | grep -c 'attempts run allow')" 3
lacks '  who has none has none' "$(had)" without

cat > probes.py << 'PY'
import os, socket, subprocess
def tries(name, what):
    try:
        what()
        print("did", name)
    except OSError as e:
        print("no", name, e.errno)
def command(*argv):
    def go():
        if subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            raise OSError(1, "failed")
    return go
def low():
    s = socket.socket()
    s.bind(("127.0.0.1", 81))
tries("down", command("ip", "link", "set", "lo", "down"))
tries("address", command("ip", "addr", "add", "192.0.2.7/32", "dev", "lo"))
tries("route", command("ip", "route", "add", "blackhole", "192.0.2.9/32"))
tries("setting", lambda: open("/proc/sys/net/ipv4/ip_forward", "w"))
tries("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
tries("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
tries("filter", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12))
tries("namespace", command("unshare", "-n", "true"))
tries("user namespace", command("unshare", "-U", "true"))
tries("init", lambda: os.open("/proc/1/ns/net", os.O_RDONLY))
tries("mount", command("mount", "-t", "sysfs", "none", "/mnt"))
if int(open("/proc/sys/net/ipv4/ip_unprivileged_port_start").read()) > 81:
    tries("low port", low)
print("caps", [l.split()[1] for l in open("/proc/self/status") if l.startswith("Cap")])
print("sys", os.listdir("/sys"))
print("end")
PY
for user in agent root; do
  cat > probes.yaml << YAML
version: 1
name: probes
agents: [{name: a, user: $user, network: host, files: {probes.py: probes.py}, run: [python3, probes.py]}]
YAML
  run 0 "what it does not get, as $user" probes.yaml
  out=$(logs)
  lacks '  nothing of it can be changed or looked into' "$out" 'did '
  same '  no capability' "$(printf '%s\n' "$out" | sed -n "s/^caps //p" | tr -d "0 ',[]")" ''
  has '  no /sys' "$out" 'sys []'
  has '  and all was tried' "$out" end
done
same 'the interfaces of the host are what they were' "$(interfaces)" "$host_has"

# --- phases
cat > phases.yaml << YAML
version: 1
name: phases
topology: per-agent
agents:
  - name: a
    network: {setup: host, prepare: host}
    setup: '{ $get; $net; } > /workspace/s'
    prepare: '{ $get; $net; } > p'
    run: 'cat s p; echo run; $get; $net; echo x > out/out.txt'
    outputs: [out.txt]
    check: {run: 'echo check; $get', box: fresh, network: host}
  - name: b
    network: {run: host}
    run: '$get; echo x > out/more.txt'
    outputs: [more.txt]
    check: 'echo check; $get'
YAML
run 0 'the network of the host by phase' phases.yaml
same '  setup, prepare and check have it, run has not' \
  "$(logs -a a | where)" \
  'got hello net host got hello net host run got nothing net own check got hello '
same '  run has it, its check has not' "$(logs -a b | tr '\n' ' ')" 'got hello check got nothing '
same '  each is written down' "$(had | tr '\n' ';')" 'a check allow;a prepare allow;a setup allow;b run allow;'
run 0 'the same again' phases.yaml
same '  finds what was prepared, and needs it no more for that' "$(had | tr '\n' ';')" 'a check allow;b run allow;'
same '  with what it made then' "$(logs -a a | grep -c 'got hello')" 3

cat > shared.yaml << YAML
version: 1
name: shared
boxes:
  lab: {network: {setup: host, run: {allow: ["localhost:$port"]}}, setup: '{ $net; $get; } > /workspace/box'}
agents:
  - name: a
    box: lab
    setup: '$net; $get; env | grep -ci _proxy || true'
    run: 'cat box; echo run; $net; $get; curl -sS --noproxy "" http://localhost:$port/; env | grep -c _PROXY'
  - {name: b, box: lab, needs: [a], run: '$seen; $get'}
YAML
run 0 'phases in one shared box' shared.yaml
same '  its setup and that of an agent have it, and run has a proxy' \
  "$(logs -a a | where)" \
  'net host got hello 0 net host got hello run net own got nothing hello 5 '
same '  as for all in it' "$(logs -a b | tr '\n' ' ')" 'sees lo  got nothing '
has '  written down for the box' "$(had)" 'a setup allow'
cat > shared-run.yaml << YAML
version: 1
name: shared-run
boxes: {lab: {network: {run: host}, setup: '$get'}}
agents:
  - {name: a, box: lab, setup: '$get; $net', run: '$get'}
  - {name: b, box: lab, run: '$get'}
YAML
run 0 'a shared box with it in run' shared-run.yaml
same '  not in its setups' "$(logs -a a | grep -c 'got nothing')" 2
lacks '  which are not there' "$(logs -a a)" "$host_net"
same '  but in run' "$(logs -a b)" 'got hello'

# --- what is said of a service that is not there
cat > refused.yaml << YAML
version: 1
name: refused
topology: per-agent
agents:
  - {name: with, network: host, run: 'curl -sS -m 5 http://localhost:1/'}
  - {name: without, run: 'curl -sS -m 5 --proxy "" http://host.invalid/'}
YAML
run 1 'services that are not there' refused.yaml
expect 0 'explain' bulkhead explain @latest with
has '  says where it was' "$out" "it had the host's network in run"
lacks '  and not that boxes have no network' "$out" 'boxes have no network'
expect 0 'explain' bulkhead explain @latest without
has '  as it says of the other' "$out" 'boxes have no network'

# --- an end by force
cat > hangs.yaml << YAML
version: 1
name: hangs
agents: [{name: a, network: host, run: '$get; exec sleep 86392'}]
YAML
start_run hangs.yaml --grant
check 'a run is killed' wait_until last_line_is "$run" a 'got hello'
kill_run
check '  and nobody is left in the network of the host' wait_for_none
done_testing
