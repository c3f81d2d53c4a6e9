#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gate's own judgement, in a box with no network and nothing but the artifact: is this a summary, and nothing more?"""
import json, re, sys

with open(sys.argv[1]) as f:
    summary = json.load(f)
assert set(summary) == {"title", "points"}, "a summary has a title and points"
assert 1 <= len(summary["points"]) <= 20, "1 to 20 points"
for text in [summary["title"], *summary["points"]]:
    assert isinstance(text, str) and re.fullmatch(r"[\w ,.;:'()-]{1,200}", text), "plain sentences, no markup"
