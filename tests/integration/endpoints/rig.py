# SPDX-License-Identifier: Apache-2.0
"""The endpoint broker alone, over real sockets: it is started as the worker starts it, with listening sockets of this
process, and calls an HTTPS service of this process, whose certificate it is told to believe by SSL_CERT_FILE."""
import array
import base64
import gzip
import http.server
import json
import os
import resource
import select
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

SECRET = "sk-canary-7Qv1xWz93bKd0LmNpR"
LINES = b"a line of text\n" * 600_000
PATIENCE = 20  # seconds that any one thing may take before the test says what did not come


def skip(capability, reason):
    must = os.environ.get("BH_MUST_RUN", "").split(",")
    if capability in must or "all" in must:
        print(f"Bail out! must run here, but {capability} is missing: {reason}")
        sys.exit(1)
    print(f"1..0 # SKIP {capability}: {reason}")
    sys.exit(77)


class Service(http.server.BaseHTTPRequestHandler):
    """What the paths below /v1 do; every request is kept in server.seen."""
    protocol_version = "HTTP/1.1"
    wbufsize = 0

    def log_message(self, *_):
        pass

    def body(self):
        if "chunked" in self.headers.get("transfer-encoding", ""):
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def answer(self, body, status=200, **headers):
        if isinstance(body, dict):
            body, headers["content_type"] = json.dumps(body).encode(), "application/json"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def begin_stream(self, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def any_method(self):
        path = self.path.split("?")[0].rsplit("/", 1)[-1]
        with self.server.lock:
            self.server.seen.append({"method": self.command, "path": self.path, "headers": self.headers.items()})
        try:
            getattr(self, "on_" + path.replace("-", "_"), self.on_messages)()
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.server.cut.set()
            self.close_connection = True

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = any_method

    def on_messages(self):
        text = self.body()
        if self.headers.get("x-api-key") != SECRET:
            self.answer({"error": "who are you?"}, 401)
        elif b'"stream":true' in text.replace(b" ", b""):
            self.begin_stream("text/event-stream")
            for event in self.server.events:
                self.chunk(event)
            self.chunk(b"")
        else:
            self.answer(self.server.message)

    def on_completions(self):
        """The chat of OpenAI: another header, another form of events."""
        text = self.body()
        if self.headers.get("authorization") != "Bearer " + SECRET or self.headers.get("x-api-key"):
            self.answer({"error": {"message": "who are you?"}}, 401)
        elif b'"stream":true' in text.replace(b" ", b""):
            self.begin_stream("text/event-stream")
            for event in self.server.chunks:
                self.chunk(event)
            self.chunk(b"")
        else:
            self.answer(self.server.completion)

    def on_small(self):
        self.body()
        self.answer(b"ok")

    def on_size(self):
        self.answer({"got": len(self.body())})

    def on_headers(self):
        self.body()
        self.answer({name.lower(): value for name, value in self.headers.items() if value != SECRET})

    def on_leak(self):
        self.answer(b"you said " + SECRET.encode() + b", did you not?")

    def on_leak_header(self):
        self.answer(b"look above", x_debug="key=" + SECRET)

    def on_leak_base64(self):
        self.answer(b"basic: " + base64.b64encode(b"user:" + SECRET.encode() + b"\n"))

    def on_leak_slowly(self):
        self.begin_stream("text/plain")
        for i in range(len(SECRET)):
            self.chunk(SECRET[i:i + 1].encode())
        self.chunk(b" and more")
        self.chunk(b"")

    def on_leak_gzip(self):
        self.answer(gzip.compress(b"packed: " + SECRET.encode()), content_encoding="gzip")

    def on_leak_late(self):
        """More than a box takes that reads slowly; to be packed to next to nothing."""
        if self.path.endswith("?packed"):
            self.answer(gzip.compress(LINES + SECRET.encode()), content_encoding="gzip")
            return
        self.begin_stream("text/plain")
        for at in range(0, len(LINES), 50_000):
            self.chunk(LINES[at:at + 50_000])
        self.chunk(SECRET.encode())
        self.chunk(b"")

    def on_nearly(self):
        self.begin_stream("text/plain")
        self.chunk(b"begin " + SECRET[:10].encode())
        self.chunk(b"... no")
        self.chunk(b"")

    def on_guess(self):
        """Says what stands behind the question mark on a line of its own, and when that was looked at, the rest."""
        self.begin_stream("text/plain")
        self.chunk(b"\n" + self.path.split("?")[1].encode())
        if self.server.step.wait(PATIENCE):
            self.server.step.clear()
            self.chunk(b" end\n")
            self.chunk(b"")

    def on_cookie(self):
        self.answer(b"have one", set_cookie="id=1", alt_svc='h3=":443"', x_kept="yes")

    def on_redirect(self):
        self.answer(b"", 302, location="http://169.254.169.254/latest/meta-data/")

    def on_too_many(self):
        self.body()
        self.answer({"error": "slow down"}, 429, retry_after="1")

    def on_step(self):
        """Sends what follows when the test has seen what went before."""
        self.body()
        self.begin_stream("text/event-stream")
        for i in range(3):
            self.chunk(b"data: %d\n\n" % i)
            if not self.server.step.wait(PATIENCE):
                return
            self.server.step.clear()
        self.chunk(b"")

    def on_late_count(self):
        """Says what it cost when the test wants it to."""
        self.body()
        self.begin_stream("text/event-stream")
        self.chunk(b'data: {"message":{"usage":{"input_tokens":10,"output_tokens":1}}}\n\n')
        if self.server.step.wait(PATIENCE):
            self.server.step.clear()
            self.chunk(b'data: {"usage":{"output_tokens":5000}}\n\n')
            self.chunk(b"")

    def on_hang(self):
        self.body()
        self.server.hanging.release()
        print("hanging", file=sys.stderr, flush=True)
        self.server.let_go.wait(PATIENCE)
        self.answer(b"late")

    def on_hang_message(self):
        self.body()
        self.server.hanging.release()
        self.server.let_go.wait(PATIENCE)
        self.answer(self.server.message)

    def on_forever(self):
        self.begin_stream("application/octet-stream")
        while True:
            self.chunk(b"x" * 65536)

    def on_cut(self):
        self.send_response(200)
        self.send_header("content-length", "100")
        self.end_headers()
        self.wfile.write(b"half\nand")
        self.close_connection = True

    def on_long_header(self):
        self.send_response(200)
        while True:
            self.wfile.write(b"x-long: " + b"a" * 4096 + b"\r\n")


class Upstream(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, folder, tls=True, address="127.0.0.1"):
        super().__init__((address, 0), Service)
        self.seen, self.lock, self.folder = [], threading.Lock(), folder
        self.step, self.cut, self.let_go = threading.Event(), threading.Event(), threading.Event()
        self.hanging = threading.Semaphore(0)
        self.message = {"content": [], "usage": {"input_tokens": 10, "output_tokens": 5}}
        self.events = [b"data: {}\n\n"]
        self.scheme = "https" if tls else "http"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f"{folder}/cert.pem", f"{folder}/key.pem")
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, *_):
        pass

    def url(self, host="localhost"):
        return f"{self.scheme}://{host}:{self.server_address[1]}"


def make_certificate(folder):
    if not shutil.which("openssl"):
        skip("openssl", "there is no certificate without it")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"], check=True, capture_output=True)


class Broker:
    def __init__(self, env=None, stack=None, files=None):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = os.path.join(os.environ["BH_BIN"], "bulkhead-broker")

        def place():
            os.dup2(theirs.fileno(), 3)
            if stack:
                resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        self.control, self.id, self.kept = ours, 0, []
        self.process = subprocess.Popen([program, "endpoints", str(os.getpid())], preexec_fn=place, close_fds=False,
                                        env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
        theirs.close()

    def send(self, fd=None, **message):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd is not None else []
        self.control.sendmsg([json.dumps(message).encode()], rights)

    def next(self, *ops, id=None):
        """The next message of one of these kinds (of this endpoint); others are kept for later."""
        def fits(m):
            return m["op"] in ops and id in (None, m["id"])
        for i, m in enumerate(self.kept):
            if fits(m):
                return self.kept.pop(i)
        while True:
            if not select.select([self.control], [], [], PATIENCE)[0]:
                raise AssertionError(f"no {ops} came; kept: {self.kept}")
            packet = self.control.recv(65536)
            if not packet:
                raise AssertionError(f"the broker has ended while {ops} was waited for")
            m = json.loads(packet)
            if fits(m):
                return m
            self.kept.append(m)

    def open(self, upstream, allow=("* /**",), headers=None, secrets=None, name="model", instance="i1", limits=None,
             ranges=("127.0.0.0/8", "::1"), wait=True, **more):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        self.id += 1
        endpoint = {"name": name, "upstream": upstream, "allow": list(allow),
                    "headers": [{"name": n, "value": v} for n, v in
                                (headers if headers is not None else {"x-api-key": "{{secrets.key}}"}).items()],
                    "secrets": secrets if secrets is not None else {"key": {"env": "CANARY"}}, **more}
        self.send(listener.fileno(), op="open", id=self.id, run="r1", agent="a", instance=instance, attempt=1,
                  endpoint=endpoint, ranges=list(ranges), limits=limits or {})
        way = Way(self, self.id, listener.getsockname()[1])
        listener.close()
        if wait:
            answer = self.next("ready", "failed", id=way.id)
            assert answer["op"] == "ready", answer
        return way

    def end(self):
        self.control.close()
        return self.process.wait(PATIENCE)


class Way:
    """An endpoint as a box sees it."""

    def __init__(self, broker, id, port):
        self.broker, self.id, self.port = broker, id, port

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def get(self, path, method="GET", body=None, headers=None, sock=None):
        return fetch(sock or self.connect(), path, method, body, headers)

    def call(self):
        return self.broker.next("call", id=self.id)

    def close(self):
        self.broker.send(op="close", id=self.id)
        return self.broker.next("closed", id=self.id)


class Reply:
    def __init__(self, status, headers, body, whole):
        self.status, self.headers, self.body, self.whole = status, headers, body, whole

    @property
    def message(self):
        return json.loads(self.body)["error"]["message"]


class Wire:
    def __init__(self, sock):
        self.sock, self.data = sock, b""

    def more(self):
        try:
            got = self.sock.recv(65536)
        except ConnectionResetError:
            got = b""
        self.data += got
        return bool(got)

    def until(self, end):
        while end not in self.data:
            if not self.more():
                return None
        part, self.data = self.data.split(end, 1)
        return part

    def take(self, n):
        while len(self.data) < n and self.more():
            pass
        part, self.data = self.data[:n], self.data[n:]
        return part


def read_head(wire):
    head = wire.until(b"\r\n\r\n")
    if head is None:
        return 0, {}
    first, *lines = head.decode().split("\r\n")
    return int(first.split(" ")[1]), {n.lower(): v.strip() for n, v in (line.split(":", 1) for line in lines)}


def read_body(wire, headers):
    if "content-length" in headers:
        body = wire.take(int(headers["content-length"]))
        return body, len(body) == int(headers["content-length"])
    if headers.get("transfer-encoding") != "chunked":
        while wire.more():
            pass
        return wire.data, True
    body = b""
    while (size := wire.until(b"\r\n")) is not None:
        n = int(size, 16)
        body += wire.take(n)
        wire.until(b"\r\n")
        if n == 0:
            return body, True
    return body, False


def send_request(sock, path, method="GET", body=None, headers=None):
    lines = {"host": "localhost", **({"content-length": str(len(body))} if body is not None else {}), **(headers or {})}
    sock.sendall(f"{method} {path} HTTP/1.1\r\n".encode() +
                 b"".join(f"{n}: {v}\r\n".encode() for n, v in lines.items()) + b"\r\n" + (body or b""))


def fetch(sock, path, method="GET", body=None, headers=None):
    send_request(sock, path, method, body, headers)
    wire = Wire(sock)
    status, got = read_head(wire)
    content, whole = (b"", True) if method == "HEAD" or status in (204, 304) else read_body(wire, got)
    return Reply(status, got, content, whole)


def run(tests):
    """Each test gets (upstream, broker): TAP lines, 1 where one failed."""
    bad = 0
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        make_certificate(folder)
        for i, test in enumerate(tests, 1):
            upstream = Upstream(folder)
            broker = Broker({"SSL_CERT_FILE": f"{folder}/cert.pem", "CANARY": SECRET})
            try:
                test(upstream, broker)
                assert broker.end() == 0, "the broker did not end well"
                print(f"ok {i} - {test.__doc__}", flush=True)
            except Exception as problem:  # every kind of it is a failure of this test, and the others go on
                bad += 1
                print(f"not ok {i} - {test.__doc__}\n# {type(problem).__name__}: {problem}", flush=True)
                broker.process.kill()
                broker.process.wait()
            upstream.let_go.set()
            upstream.shutdown()
            upstream.server_close()
    print(f"1..{len(tests)}")
    return 1 if bad else 0
