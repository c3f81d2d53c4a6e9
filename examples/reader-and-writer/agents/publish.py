#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Publishes what came through the gate. The blog wants a token; this program never sees it."""
import json, os, urllib.request

with open("/workspace/in/summary.json") as f:
    summary = json.load(f)
request = urllib.request.Request(os.environ["BLOG_URL"] + "/posts", data=json.dumps(summary).encode(), method="POST",
                                 headers={"content-type": "application/json"})
with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as r:
    print("published:", r.read().decode())
# Nobody has added to its instructions, and the token is not here.
for path in ("/workspace/prompt.md", "/workspace/out/prompt.md", "/home/agent/.bashrc", "/etc/profile"):
    if os.path.exists(path):
        with open(path) as f:
            assert "token" not in f.read(), path
assert not [n for n in os.environ if "TOKEN" in n]
print("no orders were found")
