# SPDX-License-Identifier: Apache-2.0
"""The HTTPS service of the rig alone: its certificate is FOLDER/cert.pem, its URL is printed; it wants the key of the file KEY, and
goes on with what hangs at SIGUSR1. Usage: service.py FOLDER [KEY]"""
import json
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rig  # noqa: E402

folder = sys.argv[1]
if len(sys.argv) > 2:
    with open(sys.argv[2], encoding="ascii") as key:
        rig.SECRET = key.read().strip()
rig.make_certificate(folder)
upstream = rig.Upstream(folder)
signal.signal(signal.SIGUSR1, lambda *_: upstream.let_go.set())

MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
           "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
WORDS = ["four", " words", " one", " by one"]


def event(data):
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


upstream.message = {**MESSAGE, "content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn",
                    "usage": {"input_tokens": 10, "output_tokens": 5}}
upstream.events = [event({"type": "message_start", "message": MESSAGE}),
                   event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                   *(event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": w}})
                     for w in WORDS),
                   event({"type": "content_block_stop", "index": 0}),
                   event({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                          "usage": {"output_tokens": 4}}),
                   event({"type": "message_stop"})]

CHAT = {"id": "c1", "created": 1, "model": "m"}
upstream.completion = {**CHAT, "object": "chat.completion", "usage": {"prompt_tokens": 7, "completion_tokens": 2,
                                                                      "total_tokens": 9},
                       "choices": [{"index": 0, "finish_reason": "stop",
                                    "message": {"role": "assistant", "content": "hello"}}]}
upstream.chunks = [*(b"data: %s\n\n" % json.dumps(
    {**CHAT, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": w}}]}).encode()
    for w in WORDS),
    b"data: %s\n\n" % json.dumps({**CHAT, "object": "chat.completion.chunk", "choices": [],
                                  "usage": {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}}).encode(),
    b"data: [DONE]\n\n"]
print(upstream.url(), flush=True)
threading.Event().wait()
