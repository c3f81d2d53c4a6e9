#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is outside, for the example: a model that wants a key, a blog that wants a token, and a collector that waits for
stolen goods. Says what each got, one line a request, and "ready" when all listen."""
import json, os, re, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self):
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def say(self, what):
        print(f"{self.server.name}: {what}", flush=True)

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.server.serve(self, self.body())

    do_GET = do_POST


def model(h, body):
    if h.headers.get("x-api-key") != os.environ["MODEL_KEY"]:
        return h.say("refused: no key") or h.answer(401, {"error": "no key"})
    h.say(f"{h.command} {h.path}")
    facts = re.findall(r"FACT: ([^.<()]+\.)", json.loads(body or b"{}").get("prompt", ""))
    h.answer(200, {"points": facts, "usage": {"input_tokens": len(body) // 4, "output_tokens": 12 * len(facts)}})


def blog(h, body):
    if h.headers.get("authorization") != "Bearer " + os.environ["BLOG_TOKEN"]:
        return h.say("refused: no token") or h.answer(401, {"error": "no token"})
    h.say(f"{h.command} {h.path} {body.decode()}")
    h.answer(200, {"id": 1})


def collector(h, body):
    h.say(f"STOLEN: {len(body)} bytes")
    h.answer(200, {})


for name, port, serve in (("model", 48101, model), ("blog", 48102, blog), ("collector", 48103, collector)):
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.name, server.serve = name, serve
    threading.Thread(target=server.serve_forever).start()
print("ready", flush=True)
