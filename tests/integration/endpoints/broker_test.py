#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""What the endpoint broker lets through, adds, takes away, counts and cuts."""
import os
import socket
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import LINES, SECRET, Broker, Upstream, Wire, fetch, read_head, run, send_request  # noqa: E402


def same(got, want):
    assert got == want, f"got {got!r}, wanted {want!r}"


def has(text, part):
    assert part in text, f"wanted {part!r} in {text!r}"


def header_is_added(upstream, broker):
    """the credential is added outside, and the box's own is replaced"""
    way = broker.open(upstream.url())
    reply = way.get("/v1/messages", "POST", b"{}", {"x-api-key": "unused", "Authorization": "Bearer mine",
                                                       "X_Api_Key": "unused", "X-API-Key": "unused"})
    same(reply.status, 200)
    sent = [(n.lower().replace("_", "-"), v) for n, v in upstream.seen[0]["headers"]]
    same([v for n, v in sent if n == "x-api-key"], [SECRET])
    same([n for n, _ in sent if n == "authorization"], [])
    call = way.call()
    same((call["method"], call["path"], call["status"], call["verdict"]), ("POST", "/v1/messages", 200, "allow"))
    same((call["up"], call["down"], call["tokens_in"], call["tokens_out"]), (2, len(reply.body), 10, 5))
    closed = way.close()
    same((closed["requests"], closed["tokens_in"], closed["tokens_out"]), (1, 10, 5))


# What some service reads in place of the method, path, host or address that it was compared by.
OTHER = ("X-HTTP-Method-Override", "X-HTTP-Method", "x_http_method_override", "X-Method-Override", "X-Original-URL",
         "X-Rewrite-URL", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Prefix", "X-FORWARDED_URI", "Forwarded",
         "X-Original-Host", "X-Host", "X-Real-IP", "True-Client-IP", "X-Envoy-Original-Path", "X-Script-Name")


def what_goes_on(upstream, broker):
    """of a request's headers, its own go on and those of the connection do not"""
    way = broker.open(upstream.url())
    got = way.get("/v1/headers", "POST", b"{}", {"X-Mine": "1", "Cookie": "a=b", "Connection": "keep-alive, x-hop",
                                                 "X-Hop": "1", "Accept-Encoding": "gzip, br", "User-Agent": "sdk/1",
                                                 "Proxy-Authorization": "x", "X-Empty": "", **dict.fromkeys(OTHER, "1")})
    import json
    names = json.loads(got.body)
    same(names["x-mine"], "1")
    same(names["user-agent"], "sdk/1")
    same(names["x-empty"], "")
    same(names["accept-encoding"], "identity")
    same(names["host"], upstream.url().split("//")[1])
    same([n for n in ("cookie", "x-hop", "proxy-authorization", "accept", "expect") if n in names], [])
    same([n for n in OTHER if n.lower() in names], [])


def allow_list(upstream, broker):
    """what is not allowed is refused with what to add, and nothing goes out"""
    way = broker.open(upstream.url(), allow=["POST /v1/messages", "GET /v1/models/*"])
    for method, path in (("GET", "/v1/messages"), ("POST", "/v1/messages/batches"), ("POST", "/v1/../admin"),
                         ("GET", "/v1/models/a/b"), ("POST", "/V1/messages")):
        reply = way.get(path, method, b"")
        same(reply.status, 403)
        has(reply.message, "to permit it, add \"" + method)
        same((way.call()["reason"], reply.headers["connection"]), ("not-allowed", "keep-alive"))
    for path in ("/v1/%2e%2e%2fadmin", "/v1/messages%00", "/v1\\messages", "/..", "http://evil/v1/messages", "*"):
        same(way.get(path, "POST", b"").status, 400)
        same(way.call()["reason"], "bad-request")
    same(upstream.seen, [])
    same(way.get("/v1/x/../%6dessages?beta=true", "POST", b"{}").status, 200)
    same(upstream.seen[0]["path"], "/v1/messages?beta=true")


def smuggling(upstream, broker):
    """two requests in one, folded lines, CR LF in headers, long heads: refused, and the connection is closed"""
    way = broker.open(upstream.url())
    for text, status in ((b"POST /v1/small HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
                         (b"GET /v1/small HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\r\n", 400),
                         (b"GET /v1/small HTTP/1.1\r\nHost: a\r\nX: 1\rY: 2\r\n\r\n", 400),
                         (b"GET /v1/small HTTP/1.1\nHost: a\n\n", 400),
                         (b"GET /v1/small HTTP/1.1\r\n\r\n", 400),
                         (b"GET /v1/small HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 70000, 431),
                         (b"\x05\x01\x00", None)):
        sock = way.connect()
        sock.sendall(text)
        if status is None:
            sock.close()
            continue
        wire = Wire(sock)
        same(read_head(wire)[0], status)
        while wire.more():
            pass
        same(way.call()["reason"], "bad-request")
    same(upstream.seen, [])


def hundred_megabytes(upstream, broker):
    """a head of 100 MB is refused after 64 KiB of it"""
    way = broker.open(upstream.url())
    sock = way.connect()
    sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
    sent = 0
    try:
        while sent < 100 << 20:
            sent += sock.send(b"a" * 65536)
    except OSError:
        pass
    assert sent < 60 << 20, f"{sent} bytes were taken"
    same(way.call()["status"], 431)


def many_connections(upstream, broker):
    """a box with a thousand connections takes no more memory than one with a few"""
    way, other = broker.open(upstream.url()), broker.open(upstream.url(), instance="i2")
    socks = [way.connect() for _ in range(1100)]  # a hundred of them are not accepted
    for sock in socks:
        sock.setblocking(False)
        try:
            sock.send(b"POST /v1/size HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 15000)
        except BlockingIOError:
            pass
    same(other.get("/v1/small").body, b"ok")
    sock = socks[500]
    sock.setblocking(True)
    sock.sendall(b"a" * 2000)
    same(read_head(Wire(sock))[0], 431)
    with open(f"/proc/{broker.process.pid}/statm", encoding="ascii") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    if not os.environ.get("BH_SANITIZE"):
        assert resident < 50 << 20, f"{resident >> 20} MiB"
    for sock in socks[:200]:
        sock.close()
    same(way.get("/v1/small", sock=way.connect()).body, b"ok")
    for sock in socks:
        sock.close()


def many_boxes(upstream, broker):
    """boxes with a thousand connections each share one memory, and another has its own part of it"""
    ways = [broker.open(upstream.url(), instance=f"i{i}") for i in range(4)]
    other, socks = broker.open(upstream.url(), instance="i9"), []
    for way in ways:
        for _ in range(950):
            socks.append(way.connect())
            socks[-1].setblocking(False)
            try:
                socks[-1].send(b"POST /v1/size HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 65000)
            except BlockingIOError:
                pass
    import json
    same(json.loads(other.get("/v1/size", "POST", b"x" * 1_000_000, {"X-Long": "a" * 40000}).body)["got"], 1_000_000)
    with open(f"/proc/{broker.process.pid}/statm", encoding="ascii") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    if not os.environ.get("BH_SANITIZE"):
        assert resident < 80 << 20, f"{resident >> 20} MiB"
    for sock in socks:
        sock.close()
    for way in ways:
        same(json.loads(way.get("/v1/size", "POST", b"x" * 300_000).body)["got"], 300_000)


def few_descriptors(upstream, broker):
    """a box that takes all connections that it gets leaves some to the others"""
    tight = Broker({"SSL_CERT_FILE": f"{upstream.folder}/cert.pem", "CANARY": SECRET}, files=256)
    way, other = (tight.open(upstream.url(), instance=i) for i in ("i1", "i2"))
    socks = [way.connect() for _ in range(300)]
    for sock in socks:
        sock.sendall(b"POST /v1/size HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
    same([other.get("/v1/small").body for _ in range(3)], [b"ok"] * 3)
    for sock in socks:
        sock.close()
    same(tight.end(), 0)


def keep_alive(upstream, broker):
    """one connection serves many requests, pipelined ones too, also after refusals with bodies"""
    way = broker.open(upstream.url(), allow=["* /v1/*"])
    sock = way.connect()
    for i in range(3):
        same(fetch(sock, "/v1/small").body, b"ok")
        same(fetch(sock, "/no", "POST", b"x" * 200000).status, 403)
    sock.sendall(b"GET /v1/small HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
    wire = Wire(sock)
    for _ in range(3):
        same(read_head(wire)[0], 200)
        same(wire.take(2), b"ok")


def bodies(upstream, broker):
    """bodies go on with their length, chunked or not at all; a HEAD has none"""
    way = broker.open(upstream.url())
    import json
    for n in (0, 1, 70000, 3_000_000):
        same(json.loads(way.get("/v1/size", "POST", b"x" * n).body)["got"], n)
    sock = way.connect()
    sock.sendall(b"PUT /v1/size HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
    wire = Wire(sock)
    same(read_head(wire)[0], 100)
    for _ in range(40):
        sock.sendall(b"2710\r\n" + b"y" * 10000 + b"\r\n")
    sock.sendall(b"0\r\n\r\n")
    status, headers = read_head(wire)
    same((status, json.loads(wire.take(int(headers["content-length"])))["got"]), (200, 400000))
    reply = way.get("/v1/small", "HEAD")
    same((reply.status, reply.headers["content-length"]), (200, "2"))
    same(way.get("/v1/small", "DELETE").body, b"ok")


def bad_chunks(upstream, broker):
    """a body that is not framed as it says ends the call"""
    way = broker.open(upstream.url())
    sock = way.connect()
    sock.sendall(b"POST /v1/size HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcXX")
    same(read_head(Wire(sock))[0], 400)
    same(way.call()["reason"], "bad-request")


def events_are_not_buffered(upstream, broker):
    """server-sent events arrive one by one"""
    way = broker.open(upstream.url())
    sock = way.connect()
    send_request(sock, "/v1/step", "POST", b"{}")
    wire = Wire(sock)
    same(read_head(wire)[1]["transfer-encoding"], "chunked")
    for i in range(3):
        has(wire.until(b"\n\n"), b"data: %d" % i)
        upstream.step.set()
    same(wire.until(b"0\r\n\r\n") is not None, True)


def leaks_are_cut(upstream, broker):
    """the secret in a reply, in base64, in pieces, packed or in a header, is cut and told of"""
    way = broker.open(upstream.url())
    for path in ("leak", "leak-base64", "leak-slowly", "leak-gzip", "leak-header"):
        reply = way.get("/v1/" + path)
        same(reply.whole and reply.status == 200, False)
        for i in range(len(SECRET) - 8):
            same(SECRET[i:i + 9].encode() in reply.body, False)
        call = way.call()
        same((call["verdict"], call["reason"], call["leaked"], call["path"]), ("deny", "leak", "key", "/v1/" + path))
        same(SECRET in str(call), False)
    same(way.get("/v1/nearly").body, b"begin " + SECRET[:10].encode() + b"... no")


def late_leaks_are_cut(upstream, broker):
    """a long reply that is read slowly, packed or not, over TLS or not, comes whole up to the secret at its end"""
    for service in (upstream, Upstream(upstream.folder, tls=False)):
        way = broker.open(service.url())
        for path in ("/v1/leak-late", "/v1/leak-late?packed"):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", way.port))
            reply = way.get(path, sock=sock)
            same((reply.status, reply.body == LINES, reply.whole), (200, True, False))
            same(way.call()["reason"], "leak")


def guesses_look_alike(upstream, broker):
    """in what pieces a reply comes does not tell whether it holds the beginning of the secret"""
    way = broker.open(upstream.url())
    for n in range(1, len(SECRET)):
        for guess in (SECRET[:n], SECRET[:n - 1] + "_", "_" * n):
            sock = way.connect()
            send_request(sock, "/v1/guess?" + guess)
            wire, pieces = Wire(sock), []
            read_head(wire)
            while size := int(wire.until(b"\r\n"), 16):
                pieces.append(wire.take(size + 2)[:-2])
                if len(pieces) == 1:
                    upstream.step.set()
            same(pieces, [b"\n", guess.encode() + b" end\n"])


def what_comes_back(upstream, broker):
    """no cookies come back, redirects are not followed"""
    way = broker.open(upstream.url())
    reply = way.get("/v1/cookie")
    same((reply.headers.get("set-cookie"), reply.headers.get("alt-svc"), reply.headers["x-kept"]), (None, None, "yes"))
    reply = way.get("/v1/redirect")
    same((reply.status, reply.headers["location"]), (302, "http://169.254.169.254/latest/meta-data/"))
    same(len(upstream.seen), 2)


def nothing_is_retried(upstream, broker):
    """a reply that is cut short is cut short for the box, and nothing is sent twice"""
    way = broker.open(upstream.url())
    reply = way.get("/v1/cut")
    same((reply.status, reply.body, reply.whole), (200, b"half\n", False))
    same(way.call()["reason"], "upstream")
    same(len(upstream.seen), 1)


def long_answers(upstream, broker):
    """a head of an answer without an end is refused"""
    way = broker.open(upstream.url())
    same(way.get("/v1/long-header").status, 502)
    same(way.call()["reason"], "upstream")


def tls_is_verified(upstream, broker):
    """a certificate that nobody vouches for, or of another name, is refused"""
    stranger = Broker({"CANARY": SECRET, "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt"})
    way = stranger.open(upstream.url())
    reply = way.get("/v1/small")
    same(reply.status, 502)
    has(reply.message, "certificate")
    stranger.end()
    way = broker.open(upstream.url("127.0.0.2"))
    same(way.get("/v1/small").status, 502)
    same(upstream.seen, [])


def addresses(upstream, broker):
    """an upstream on an address that is not public needs the site's leave, whatever its name"""
    for host in ("localhost", "127.0.0.1", "[::ffff:127.0.0.1]"):
        way = broker.open(upstream.url(host), ranges=[], name=host)
        reply = way.get("/v1/small")
        same(reply.status, 403)
        has(reply.message, "is not public, and the site's policy")
        same(way.call()["reason"], "address")
    same(upstream.seen, [])


def secrets_that_fail(upstream, broker):
    """a secret that is not there, or cannot be a header, fails the opening and says why"""
    for secrets, part in (({"key": {"env": "NOT_THERE"}}, "NOT_THERE"), ({}, "'key'"),
                          ({"key": {"file": "/nowhere/at-all"}}, "/nowhere/at-all"),
                          ({"key": {"command": ["printf", "a\\nb"]}}, "control characters")):
        way = broker.open(upstream.url(), secrets=secrets, wait=False)
        failed = broker.next("ready", "failed", id=way.id)
        same(failed["op"], "failed")
        has(failed["message"], part)
    way = broker.open(upstream.url(), headers={"x-api-key": "{{ secrets.key }}"},
                      secrets={"key": {"command": ["printf", SECRET]}})
    same(way.get("/v1/messages", "POST", b"{}").status, 200)


def slow_secrets(upstream, broker):
    """a command is run once for all boxes that open its service, and nobody else waits for it"""
    other = broker.open(upstream.url(), name="other")
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(f"{folder}/key")
        secrets = {"key": {"command": ["sh", "-c", f"echo run >> {folder}/runs; cat {folder}/key"]}}
        ways = [broker.open(upstream.url(), secrets=secrets, instance=f"i{i}", wait=False) for i in range(3)]
        same(other.get("/v1/messages", "POST", b"{}").status, 200)
        same(ways[2].close()["requests"], 0)
        same([m for m in broker.kept if m["op"] in ("ready", "failed")], [])
        with open(f"{folder}/key", "w", encoding="ascii") as key:
            key.write(SECRET + "\n")
        for way in ways[:2]:
            same(broker.next("ready", "failed", id=way.id)["op"], "ready")
            same(way.get("/v1/messages", "POST", b"{}").status, 200)
        same(open(f"{folder}/runs", encoding="ascii").read(), "run\n")
        # Nobody waits for a command at the end.
        broker.open(upstream.url(), secrets=secrets, name="late", wait=False)
        same(broker.end(), 0)


def requests_are_limited(upstream, broker):
    """limits.requests counts over all endpoints of an execution, and tells once"""
    limits = {"requests": 3, "tokens": 0}
    one, two = (broker.open(upstream.url(), name=n, limits=limits) for n in ("one", "two"))
    other = broker.open(upstream.url(), name="one", instance="i2", limits=limits)
    same([one.get("/v1/small").status, two.get("/v1/small").status, one.get("/v1/small").status], [200, 200, 200])
    same(two.get("/v1/small").status, 403)
    same(one.get("/v1/small").status, 403)
    told = broker.next("budget")
    same((told["id"], told["what"]), (two.id, "requests"))
    same(other.get("/v1/small").status, 200)
    same([m for m in broker.kept if m["op"] == "budget"], [])
    same((one.close()["requests"], two.close()["requests"]), (2, 1))


def refused_calls_count(upstream, broker):
    """what is refused, or is no request at all, counts against limits.requests"""
    way = broker.open(upstream.url(), allow=["GET /v1/small"], limits={"requests": 3})
    same(way.get("/no").status, 403)
    same(way.get("/v1/%2e%2e%2fadmin").status, 400)
    sock = way.connect()
    sock.sendall(b"nothing of the kind\r\n\r\n")
    same(read_head(Wire(sock))[0], 400)
    has(way.get("/v1/small").message, "is spent")
    same(broker.next("budget")["what"], "requests")
    same(way.close()["requests"], 3)


def pipelined_refusals(upstream, broker):
    """thousands of requests at a stroke need no more stack than one, and are told of in sum"""
    small = Broker({"CANARY": SECRET}, stack=256 << 10)
    way = small.open(upstream.url(), allow=["GET /v1/small"], limits={"refusals": 100000})
    sock = way.connect()
    sender = threading.Thread(target=sock.sendall, args=(b"G / HTTP/1.1\r\nHost:\r\n\r\n" * 8000,))
    sender.start()
    wire = Wire(sock)
    for _ in range(8000):
        status, headers = read_head(wire)
        same(status, 403)
        wire.take(int(headers["content-length"]))
    sender.join()
    same(way.close()["requests"], 8000)
    calls = [m for m in small.kept if m["op"] == "call"]
    same(sum(m.get("times", 1) for m in calls), 8000)
    same({m["reason"] for m in calls if "times" in m}, {"many"})
    assert len(calls) < 1000, f"{len(calls)} messages"
    same(small.end(), 0)


def refusals_hold_nobody_up(upstream, broker):
    """a box that asks for what it may not is answered so many times a second, and others at once"""
    import time
    way, other = (broker.open(upstream.url(), allow=["GET /v1/small"], instance=i) for i in ("i1", "i2"))
    socks = [way.connect() for _ in range(4)]
    for sock in socks:
        sock.setblocking(False)
        try:
            while sock.send(b"GET /no HTTP/1.1\r\nHost: x\r\n\r\n" * 400):
                pass
        except BlockingIOError:
            pass
    began = time.monotonic()
    same([other.get("/no").status for _ in range(5)], [403] * 5)
    same(other.get("/v1/small").body, b"ok")
    for sock in socks:
        sock.setblocking(True)
        same(read_head(Wire(sock))[0], 403)
    most = (2 + time.monotonic() - began + 1) * 100
    n = way.close()["requests"]
    assert n <= most, f"{n} were answered, of at most {most}"


def tokens_are_limited(upstream, broker):
    """limits.tokens is told of as soon as a reply says that it is spent"""
    way = broker.open(upstream.url(), limits={"tokens": 29})
    same(way.get("/v1/messages", "POST", b"{}").status, 200)
    upstream.events = [b'data: {"message":{"usage":{"input_tokens":10,"output_tokens":1}}}\n\n',
                       b'data: {"usage":{"output_tokens":5}}\n\n']
    same(way.get("/v1/messages", "POST", b'{"stream": true}').status, 200)
    same(broker.next("budget")["what"], "tokens")
    same(way.get("/v1/messages", "POST", b"{}").status, 403)
    same(way.close()["tokens_out"], 10)


def tokens_are_counted_to_the_end(upstream, broker):
    """who hangs up before a reply says what it cost has it counted all the same, also where it had not begun"""
    way = broker.open(upstream.url(), limits={"tokens": 1000})
    sock = way.connect()
    send_request(sock, "/v1/late-count", "POST", b"{}")
    same(Wire(sock).until(b"}\n\n") is not None, True)
    sock.close()
    same(way.get("/v1/small").status, 200)  # the broker has seen that it is gone
    upstream.step.set()
    same(broker.next("budget")["what"], "tokens")
    same([way.call()["path"]], ["/v1/small"])
    call = way.call()
    same((call["path"], call["reason"], call["tokens_out"]), ("/v1/late-count", "gone", 5000))
    # Before the head.
    upstream.message = {"usage": {"input_tokens": 10, "output_tokens": 5000}}
    other = broker.open(upstream.url(), instance="i2", limits={"tokens": 1000})
    sock = other.connect()
    send_request(sock, "/v1/hang-message", "POST", b"{}")
    same(upstream.hanging.acquire(timeout=20), True)
    sock.close()
    same(other.get("/v1/small").status, 200)
    upstream.let_go.set()
    same(broker.next("budget", id=other.id)["what"], "tokens")
    # An endpoint that is closed waits for no count.
    last = broker.open(upstream.url(), instance="i3", limits={"tokens": 1000})
    sock = last.connect()
    send_request(sock, "/v1/late-count", "POST", b"{}")
    same(Wire(sock).until(b"\n\n") is not None, True)
    sock.close()
    same(last.get("/v1/small").status, 200)
    same(last.close()["tokens_out"], 1)


def few_are_counted_at_once(upstream, broker):
    """with a limit on tokens four calls run at once, and those that waited when it is spent are refused"""
    way = broker.open(upstream.url(), limits={"tokens": 1000})
    socks = [way.connect() for _ in range(10)]
    upstream.message = {"usage": {"input_tokens": 10, "output_tokens": 5000}}
    for sock in socks:
        send_request(sock, "/v1/hang-message", "POST", b"{}")
    for _ in range(4):
        same(upstream.hanging.acquire(timeout=20), True)
    socks.pop().close()  # one of those that wait
    upstream.let_go.set()
    same(sorted(read_head(Wire(sock))[0] for sock in socks), [200] * 4 + [403] * 5)
    same(len(upstream.seen), 4)


def at_most_at_once(upstream, broker):
    """max_parallel holds over all boxes of a run"""
    ways = [broker.open(upstream.url(), max_parallel=2, instance=f"i{i}") for i in range(5)]
    socks = [way.connect() for way in ways]
    for sock in socks:
        send_request(sock, "/v1/hang", "POST", b"{}")
    for _ in range(2):
        same(upstream.hanging.acquire(timeout=20), True)
    same(len(upstream.seen), 2)
    upstream.let_go.set()
    for sock in socks:
        same(read_head(Wire(sock))[0], 200)
    same(len(upstream.seen), 5)


def all_wait_on_429(upstream, broker):
    """a 429 reaches who got it, and makes the others wait"""
    import time
    ways = [broker.open(upstream.url(), instance=f"i{i}") for i in range(4)]
    reply = ways[0].get("/v1/too-many", "POST", b"{}")
    same((reply.status, reply.headers["retry-after"]), (429, "1"))
    began = time.monotonic()
    results = []
    threads = [threading.Thread(target=lambda w=way: results.append(w.get("/v1/small").status)) for way in ways]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    same(results, [200] * 4)
    assert time.monotonic() - began > 0.9, "nobody waited"


def standing_calls_give_way(upstream, broker):
    """calls that a box lets stand keep others neither behind a 429 nor out of max_parallel"""
    head = b"POST /v1/size HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nx"
    way, other = (broker.open(upstream.url(), instance=i) for i in ("i1", "i2"))
    same(way.get("/v1/too-many", "POST", b"{}").status, 429)
    stands = way.connect()
    stands.sendall(head)
    same(other.get("/v1/small").body, b"ok")
    way, other = (broker.open(upstream.url(), name="two", max_parallel=2, instance=i) for i in ("i1", "i2"))
    socks = [way.connect() for _ in range(2)]
    for sock in socks:
        sock.sendall(head)
    same(other.get("/v1/small").body, b"ok")
    statuses = {read_head(Wire(sock))[0] for sock in socks[:1]}
    same((statuses, way.call()["reason"]), ({408}, "slow"))


def the_box_goes(upstream, broker):
    """when a box closes its connection, so does the broker"""
    way = broker.open(upstream.url())
    sock = way.connect()
    send_request(sock, "/v1/forever")
    same(read_head(Wire(sock))[0], 200)
    sock.close()
    same(upstream.cut.wait(20), True)
    same(way.call()["reason"], "gone")


def a_box_that_reads_nothing(upstream, broker):
    """a frozen box holds nobody else up, and its reply waits outside the broker's memory"""
    way, other = broker.open(upstream.url()), broker.open(upstream.url(), instance="i2")
    frozen = []
    for _ in range(30):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", way.port))
        send_request(sock, "/v1/forever")
        frozen.append(sock)
    for _ in range(10):
        same(other.get("/v1/small").body, b"ok")
    with open(f"/proc/{broker.process.pid}/statm", encoding="ascii") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    if not os.environ.get("BH_SANITIZE"):
        assert resident < 64 << 20, f"{resident >> 20} MiB"
    closed = way.close()
    same(closed["requests"], 30)


def an_answer_without_end(upstream, broker):
    """a reply that never ends, and one that never comes, are cut by the limits on time"""
    way = broker.open(upstream.url(), limits={"total_s": 1})
    sock = way.connect()
    send_request(sock, "/v1/forever")
    last = b""
    while got := sock.recv(1 << 20):
        last = (last + got)[-7:]
    same(last == b"\r\n0\r\n\r\n", False)
    same(way.call()["reason"], "timeout")
    silent = broker.open(upstream.url(), instance="i2", limits={"idle_s": 1})
    reply = silent.get("/v1/hang", "POST", b"{}")
    same((reply.status, silent.call()["reason"]), (504, "timeout"))


def closing_cuts(upstream, broker):
    """an endpoint that is closed cuts what is under way, and says what it counted"""
    way = broker.open(upstream.url())
    sock = way.connect()
    send_request(sock, "/v1/hang", "POST", b"{}")
    same(upstream.hanging.acquire(timeout=20), True)
    same(way.close()["requests"], 1)
    same(Wire(sock).more(), False)
    try:
        way.connect()
        raise AssertionError("it still listens")
    except ConnectionRefusedError:
        pass


def nobody_looks_in(upstream, broker):
    """the process cannot be looked into, dumps no core, and gained nothing"""
    broker.open(upstream.url())
    status = open(f"/proc/{broker.process.pid}/status", encoding="ascii").read()
    has(status, "NoNewPrivs:\t1")
    has(open(f"/proc/{broker.process.pid}/limits", encoding="ascii").read(), "Max core file size        0 ")
    same(SECRET in open(f"/proc/{broker.process.pid}/cmdline", encoding="ascii").read(), False)


TESTS = [header_is_added, what_goes_on, allow_list, smuggling, hundred_megabytes, many_connections, many_boxes, few_descriptors, keep_alive, bodies, bad_chunks,
         events_are_not_buffered, leaks_are_cut, late_leaks_are_cut, guesses_look_alike, what_comes_back, nothing_is_retried, long_answers, tls_is_verified,
         addresses, secrets_that_fail, slow_secrets, requests_are_limited, refused_calls_count,
         pipelined_refusals, refusals_hold_nobody_up, tokens_are_limited,
         tokens_are_counted_to_the_end, few_are_counted_at_once, at_most_at_once, all_wait_on_429,
         standing_calls_give_way,
         the_box_goes, a_box_that_reads_nothing, an_answer_without_end, closing_cuts, nobody_looks_in]

if __name__ == "__main__":
    names = sys.argv[1:]
    sys.exit(run([t for t in TESTS if not names or t.__name__ in names]))
