#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""The rules of the build: targets only, nothing globbed, flags in one place, and no source that is built by nobody."""
import json
import os
import re

import common

BANNED = [
    (re.compile(r"\bfile\s*\(\s*GLOB", re.I), "sources are listed, never globbed"),
    (re.compile(r"\b(add_definitions|add_compile_definitions|add_compile_options|add_link_options)\s*\(", re.I),
     "flags belong to targets (cmake/Flags.cmake)"),
    (re.compile(r"\b(include_directories|link_directories|link_libraries)\s*\(", re.I), "use the target_ form"),
    (re.compile(r"\bCMAKE_(C|EXE_LINKER|SHARED_LINKER)_FLAGS\w*"), "flags are not edited (cmake/Flags.cmake)"),
]
# Release keeps its assertions: the one edit that no target can make.
ALLOWED = {("cmake/Flags.cmake", 'set(CMAKE_C_FLAGS_RELEASE "-O2 -g")')}


def check_text(name, text):
    complaints = []
    for number, line in enumerate(text.split("\n"), 1):
        code = line.split("#", 1)[0]
        if (name, code.strip()) in ALLOWED:
            continue
        complaints += [f"{name}:{number}: {why}" for pattern, why in BANNED if pattern.search(code)]
        test = re.search(r"\badd_test\s*\(\s*NAME\s+(\S+)", code)
        if test and f"bh_test_properties({test[1]} " not in text:
            complaints.append(f"{name}:{number}: '{test[1]}' has no label and no timeout (bh_test_properties)")
    return complaints


def check(root, names):
    return [c for name in names for c in check_text(name, common.read(root, name))]


# Stands in for libFuzzer, so a build that has libFuzzer leaves it out.
SOMETIMES = {"tests/support/fuzz_main.c"}


def unbuilt(root, compiled, names):
    """Sources that no target of this build compiles."""
    built = SOMETIMES | {os.path.relpath(os.path.realpath(f), os.path.realpath(root)) for f in compiled}
    return [f"{name}: listed in no CMakeLists.txt" for name in names if name not in built]


def compile_commands(build):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        return [os.path.join(entry["directory"], entry["file"]) for entry in json.load(file)]


if __name__ == "__main__":
    top = common.source_root()
    rules = common.tracked(top, "CMakeLists.txt", ".cmake")
    commands = compile_commands(os.environ.get("BH_BUILD", "build/dev"))
    wrong = check(top, rules) + unbuilt(top, commands, common.tracked(top, ".c"))
    common.verdict(wrong, len(rules))
