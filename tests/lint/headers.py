#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Each header compiles alone, and base/banned.h refuses what docs/adr/0003 says."""
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import common

FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", '-DBH_VERSION="0"', "-Wall", "-Wextra", "-Werror",
         "-fsyntax-only", "-x", "c", "-"]


def compiles(root, source, *more):
    """"" or the first lines of what the compiler says."""
    cc = os.environ.get("CC", "cc")
    run = subprocess.run([cc, "-I", root, *more, *FLAGS], input=source, capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else run.stderr or f"{cc} failed"


def alone(root, name):
    # Twice, so that a missing include guard is found as well.
    said = compiles(root, f'#include "{name}"\n#include "{name}"\n')
    return [f"{name} does not compile alone:\n{said[:2000]}"] if said else []


def banned_words(root):
    pragmas = re.findall(r"^#pragma GCC poison (.*)$", common.read(root, "base/banned.h"), re.M)
    return " ".join(pragmas).split()


def bans(root):
    banned = os.path.join(root, "base/banned.h")
    words = banned_words(root)
    wrong = [f"'{word}' compiles although it is banned" for word in words
             if not compiles(root, f"void *f(void);\nvoid *f(void)\n{{\n    return (void *){word};\n}}\n", "-include", banned)]
    said = compiles(root, "int f(void);\nint f(void)\n{\n    return 0;\n}\n", "-include", banned)
    return wrong + ([f"harmless code is refused: {said}"] if said else []) + ([] if words else ["nothing is banned"])


def check(root, names):
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return [c for found in pool.map(lambda name: alone(root, name), names) for c in found]


if __name__ == "__main__":
    top = common.source_root()
    headers = common.tracked(top, ".h")
    common.verdict(check(top, headers) + bans(top), len(headers))
