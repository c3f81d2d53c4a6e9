#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What agents print comes back byte by byte: binary, both streams, from many at once, and beyond the limit the head, the tail and the
# exact number of bytes between them. Usage: 65-output.sh MODE [big]; big: 50 agents that print 20 MB/s each for 10 s.
# shellcheck source=tests/integration/lib.sh
source "$(dirname "$0")/lib.sh"
begin "$1" "$0" "$@"
size=${2:-small}

# A stream that anybody can make again: `gen.py SEED BYTES [RATE]` prints it, on stdout and on stderr in turn. Random bytes, NULs, line
# ends; every chunk says whose it is.
cat > gen.py << 'PY'
import os, random, sys, time

def pool():
    data = bytearray(random.Random(7).randbytes(1 << 20).replace(b"\n", b"\0"))
    data[5000:30000] = bytes(25000)
    for at in range(0, 1 << 20, 701):
        data[at] = 10
    return bytes(data[:30000] + data[31000:40000].replace(b"\n", b"\r\n") + data[40000:])

def chunks(seed, total):
    """(stream, bytes) until `total` bytes were given"""
    data, i = pool(), 0
    while total > 0:
        size, at = 1 + (i * 7919 + seed * 31) % 65536, (i * 104729 + seed * 7907) % 900000
        chunk = (b"%d:%d\n" % (seed, i) + data[at:at + size])[:total]
        total -= len(chunk)
        yield (1 if i % 3 == 2 else 0), chunk
        i += 1

def write(fd, data):
    while data:
        data = data[os.write(fd, data):]

if __name__ == "__main__":
    seed, total = int(sys.argv[1]), int(sys.argv[2])
    rate, start, done = float(sys.argv[3]) if len(sys.argv) > 3 else 0, time.monotonic(), 0
    for stream, chunk in chunks(seed, total):
        write(1 + stream, chunk)
        done += len(chunk)
        if rate:
            time.sleep(max(done / rate - (time.monotonic() - start), 0))
PY

# `verify.py SEED BYTES LIMIT` reads `logs -o json` of one execution: what is there is what was printed, and what is missing is counted.
cat > verify.py << 'PY'
import base64, json, sys
from gen import chunks

seed, total, limit = map(int, sys.argv[1:])
front, run, gaps, missing, seq = None, [[], []], 0, 0, 1
for text in sys.stdin:
    line = json.loads(text)
    assert line["seq"] == seq, (seq, text[:300])
    if line.get("gap"):
        gaps += 1
        missing += line["dropped_bytes"]
        seq += line["dropped_lines"]
        front, run = [b"".join(r) for r in run], [[], []]
        continue
    seq += 1
    data = base64.b64decode(line["text"]) if line.get("base64") else line["text"].encode()
    run[line["stream"] == "stderr"].append(data + (b"" if line.get("eol") is False else b"\n"))
end = [b"".join(r) for r in run]
front = front or [b"", b""]
kept = sum(map(len, front + end))
assert kept + missing == total, f"{kept} kept, {missing} missing, {total} written"
assert kept <= limit and gaps == (total > limit), f"{kept} kept, {gaps} gaps"
if gaps:
    assert sum(map(len, front)) >= limit * 7 // 16 and sum(map(len, end)) >= limit // 4, (list(map(len, front)), list(map(len, end)))
written = [0, 0]
for stream, chunk in chunks(seed, total):
    written[stream] += len(chunk)
at = [0, 0]
for stream, chunk in chunks(seed, total):
    begin, stop = at[stream], at[stream] + len(chunk)
    first = front[stream][begin:stop]
    assert chunk.startswith(first), f"stream {stream}: not the head, near {begin}"
    tail = written[stream] - len(end[stream])
    if stop > tail:
        assert chunk[max(tail - begin, 0):] == end[stream][max(begin - tail, 0):stop - tail], f"stream {stream}: not the tail, near {begin}"
    at[stream] = stop
print(missing)
PY

dropped() { # agent index: what show says
  bulkhead show @latest -o json | field "[\"agents\"][$1][\"attempts\"][-1][\"output_dropped\"]"
}

duration() { bulkhead show @latest -o json | field '["agents"][0]["attempts"][-1]["duration_ms"]'; }

verify() { # what agent seed bytes limit: $missing
  missing=
  if missing=$(bulkhead logs @latest -a "$2" -o json | python3 verify.py "$3" "$4" "$5" 2>&1); then ok "$1"; else not_ok "$1" "$missing"; fi
}

# The largest resident set, in KiB, of a command and its children; its output is thrown away.
resident() {
  python3 -c '
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$@"
}

crew() { # topology number bytes limit [rate] > p.yaml
  local i
  printf 'version: 1\nname: crew\ntopology: %s\nmax_parallel: %d\nagents:\n' "$1" "$2"
  for ((i = 1; i <= $2; i++)); do
    printf '  - {name: a%d, files: {gen.py: ./gen.py}, limits: {output: %s}, run: [python3, gen.py, "%d", "%d"%s]}\n' \
      "$i" "$4" "$i" "$3" "${5:+, \"$5\"}"
  done
}

verify_crew() { # what number bytes limit
  local i bad=0 why=
  for ((i = 1; i <= $2; i++)); do
    why+=$(bulkhead logs @latest -a "a$i" -o json | python3 verify.py "$i" "$3" "$4" 2>&1 > /dev/null | tail -n 1) || bad=$((bad + 1))
  done
  same "$1" "$bad $why" '0 '
}

if [ "$size" = big ]; then
  crew per-agent 50 200000000 64MiB 20000000 > p.yaml
  expect 0 '50 agents print 20 MB/s each for 10 s' bulkhead run p.yaml -q
  printf '# the slowest took %s ms\n' "$(bulkhead show @latest -o json |
    python3 -c 'import json,sys; print(max(a["attempts"][-1]["duration_ms"] for a in json.load(sys.stdin)["agents"]))')"
  verify_crew 'nothing of it is mixed, and what is missing is counted' 50 200000000 67108864
  cat > p.yaml << 'YAML'
version: 1
name: all
agents: [{name: a, files: {gen.py: ./gen.py}, limits: {output: 2GiB}, run: [python3, gen.py, '1', '1073741824']}]
YAML
  expect 0 '1 GiB below its limit' bulkhead run p.yaml -q
  verify 'all of it is there' a 1 1073741824 2147483648
  done_testing
  exit
fi

# --- one agent
cat > p.yaml << 'YAML'
version: 1
name: big
agents: [{name: a, files: {gen.py: ./gen.py}, run: [python3, gen.py, '1', '1073741824']}]
YAML
check '1 GiB is no failure, and does not lie in memory' test "$(resident "$work/bin/bulkhead" run p.yaml -q)" -lt 65536
verify 'the head and the tail of 64 MiB are kept' a 1 1073741824 67108864
same 'show says how much is missing' "$(dropped 0)" "$missing"
check 'the disk holds no more than the limit' test "$(du -sm "$BULKHEAD_HOME"/runs/*/logs | cut -f 1)" -le 66
check 'its log is read without it being in memory' test "$(resident "$work/bin/bulkhead" logs @latest)" -lt 32768
expect 0 'as text' bulkhead logs @latest --grep '^no such line$'
has 'the gap is one line, whatever is looked for' "$out" "a~ $missing bytes of output ("
same 'and only one' "$(printf '%s\n' "$out" | wc -l)" 1
expect 0 'without a prefix' bulkhead logs @latest --no-prefix --grep '^no such line$'
same 'it is no line of the agent' "$out" ''
has 'but said' "$errs" "bulkhead: a: $missing bytes of output ("
expect 0 'the last lines' bulkhead logs @latest --tail 3
same 'are of the tail' "$(printf '%s\n' "$out" | grep -c ' a~ ')" 0
rm -rf "$BULKHEAD_HOME"/runs

text() { # what remains of logs -o json when all texts are put together, "|" where a line ends, "/" where a piece does
  bulkhead logs @latest --stream "$1" -o json | python3 -c '
import base64, json, sys
for text in sys.stdin:
    line = json.loads(text)
    data = base64.b64decode(line["text"]) if line.get("base64") else line["text"].encode()
    print(repr(data)[2:-1] if len(data) < 99 else len(data), end="/" if line.get("eol") is False else "|")'
}

cat > p.yaml << 'YAML'
version: 1
name: odd
agents:
  - name: a
    run: |
      printf 'one\r\ntwo\0\200\n\nlast'
      printf 'err' >&2
      head -c 10485760 /dev/zero | tr '\0' x >&2
      echo >&2
YAML
expect 0 'bytes of all kinds' bulkhead run p.yaml -q
same 'come back as they were' "$(text stdout)" 'one\r|two\x00\x80||last/'
same 'a line of 10 MB in pieces' "$(text stderr)" '1048576/1048576/1048576/1048576/1048576/1048576/1048576/1048576/1048576/1048576/xxx|'

cat > p.yaml << 'YAML'
version: 1
name: edges
topology: per-agent
defaults: {files: {gen.py: ./gen.py}, limits: {output: 64KiB}}
agents:
  - {name: a, run: [python3, gen.py, '1', '65536']}
  - {name: b, run: [python3, gen.py, '1', '65537']}
  - {name: c, setup: python3 gen.py 1 40000, run: 'head -c 30000 gen.py /dev/zero | head -c 30000'}
  - {name: d, limits: {output: 1KiB}, run: [python3, gen.py, '1', '3000000']}
YAML
expect 0 'around the limit' bulkhead run p.yaml -q
verify 'exactly the limit is kept' a 1 65536 65536
same '  none is missing' "$(dropped 0)" 0
verify 'one byte more is too many' b 1 65537 65536
same '  and some is missing' "$(dropped 1)" "$missing"
same 'a setup counts for itself' "$(dropped 2)" 0
verify 'the least limit has a head and a tail' d 1 3000000 1024
same '  and show says the same' "$(dropped 3)" "$missing"

# --- who holds the pipes
cat > p.yaml << 'YAML'
version: 1
name: held
agents: [{name: a, run: "setsid sleep 86393 & (setsid sh -c 'while :; do echo x; done' > /dev/null &) ; echo hi"}]
YAML
for topology in per-agent shared-box; do
  sed -i "s/^name: .*/&\ntopology: $topology/" p.yaml
  expect 0 "$topology: grandchildren that hold the pipes" bulkhead run p.yaml -q
  check '  delay the result by less than a second' test "$(duration)" -lt 1000
  same '  and what was said before is there' "$(bulkhead logs @latest --no-prefix)" hi
  check '  nothing is left of them' wait_for_none
  sed -i '/^topology/d' p.yaml
done
cat > p.yaml << 'YAML'
version: 1
name: flood
agents: [{name: a, run: "(setsid sh -c 'while :; do echo flood; done' &); echo begun >&2; read -r x < /dev/null || true"}]
YAML
expect 0 'a grandchild that goes on printing' bulkhead run p.yaml -q
check '  delays the result by less than a second' test "$(duration)" -lt 1000
same '  and has cut no line but its last' "$(bulkhead logs @latest --stream stdout --no-prefix | sed '$d' | sort -u | grep -vc '^flood$')" 0
cat > p.yaml << 'YAML'
version: 1
name: closed
agents: [{name: a, run: 'echo out; exec 1>&-; echo err >&2; exec 2>&-; (echo lost) || true; exit 0'}]
YAML
expect 0 'an agent that closes its streams' bulkhead run p.yaml -q
same 'has what it said before' "$(bulkhead logs @latest --no-prefix)" $'out\nerr'

# --- many at once
each=2000000
crew per-agent 50 $each 64MiB > p.yaml
expect 0 '50 agents in boxes of their own' bulkhead run p.yaml -q
verify_crew 'print as fast as they can, and nothing is mixed or lost' 50 $each 67108864
crew shared-box 50 $each 64MiB > p.yaml
expect 0 '50 agents in one box' bulkhead run p.yaml -q
verify_crew 'the same' 50 $each 67108864
rm -rf "$BULKHEAD_HOME"/runs

# --- readers that do not read, and one that does
crew per-agent 4 20000000 1MiB 10000000 > p.yaml
start_run p.yaml
"$work/bin/bulkhead" logs "$run" -f > /dev/null &
frozen=$!
kill -STOP "$frozen"
mkfifo stuck
exec 8<> stuck
"$work/bin/bulkhead" logs "$run" -f > stuck &
clogged=$!
"$work/bin/bulkhead" logs "$run" -f -o json > followed &
follower=$!
check 'a run whose readers hang' wait "$pid"
check 'its follower ends with it' wait "$follower"
kill -KILL "$frozen" "$clogged"
wait "$frozen" "$clogged" 2> /dev/null || true
exec 8>&-
same 'and has every byte, or was told' "$(python3 -c '
import base64, json
sums = {}
for text in open("followed"):
    line = json.loads(text)
    data = line["text"] and (base64.b64decode(line["text"]) if line.get("base64") else line["text"].encode())
    n = line["dropped_bytes"] if line.get("gap") else len(data) + (line.get("eol") is not False)
    sums[line["agent"]] = sums.get(line["agent"], 0) + n
print(sorted(sums.items()))')" "[('a1', 20000000), ('a2', 20000000), ('a3', 20000000), ('a4', 20000000)]"

# --- killed while they print
{
  printf 'version: 1\nname: killed\ntopology: per-agent\nmax_parallel: 5\nagents:\n'
  for a in a b c d e; do
    printf '  - name: %s\n' "$a"
    cat << 'YAML'
    limits: {output: 1MiB}
    run: |
      i=0; while [ $i -lt 90000 ]; do i=$((i+1)); echo "line $i of $BULKHEAD_AGENT $i."; done
YAML
  done
} > p.yaml
start_run p.yaml
until bulkhead logs "$run" -a e --no-prefix 2> /dev/null | grep -q '^line 3000 '; do pause; done
kill_run
torn() { # lines of the run that are no lines of an agent
  bulkhead logs "$1" -o json | python3 -c '
import json, sys
n, bad = 0, 0
for text in sys.stdin:
    line = json.loads(text)
    n += 1
    words = (line["text"] or "").split()
    whole = len(words) == 5 and words[1] + "." == words[4] and words[3] == line["agent"] and "eol" not in line
    bad += not whole and not line.get("gap")
print(bad if n > 3000 else "too few lines: %d" % n)'
}
same 'killed at once, no torn line is shown' "$(torn "$run")" 0
expect 0 'resumed' bulkhead run --resume "$run" -q
same 'still none' "$(torn "$run")" 0
check 'the tries have logs of their own' test "$(find "$BULKHEAD_HOME/runs/$run/logs" -name '*.log' | wc -l)" -gt 5
for a in a e; do
  same "the last line of $a" "$(bulkhead logs "$run" -a $a --tail 1 --no-prefix)" "line 90000 of $a 90000."
done
done_testing
