#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Every C file is as clang-format 14 leaves it. Another version formats otherwise and proves nothing."""
import re
import shutil
import subprocess

import common

VERSION = "14"


def tool():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if shutil.which(name):
            said = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout
            if f"version {VERSION}." in said:
                return name
    return None


def check(root, names, clang_format):
    """One complaint for each file, at its first difference."""
    run = subprocess.run([clang_format, "--dry-run", *names], cwd=root, capture_output=True, text=True, check=False)
    first = {}
    for place in re.findall(r"^(.+?:\d+:\d+): warning: code should be clang-formatted", run.stderr, re.M):
        first.setdefault(place.split(":", 1)[0], place)
    if run.returncode != 0:
        return [f"{clang_format} failed: {run.stderr[:2000]}"]
    return [f"{place}: run clang-format -i on it" for place in first.values()]


if __name__ == "__main__":
    found = tool()
    if not found:
        common.skip("clang-format", f"there is no clang-format {VERSION}")
    top = common.source_root()
    files = common.tracked(top, ".c", ".h")
    common.verdict(check(top, files, found), len(files))
