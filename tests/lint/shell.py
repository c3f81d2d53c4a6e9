#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Shell scripts pass shellcheck (warnings and errors)."""
import os
import re
import shutil
import subprocess

import common

# SC1010: an argument may be the word done (it is a state of ours).
OPTIONS = ["-x", "-P", "SCRIPTDIR", "-S", "warning", "-e", "SC1010", "-f", "gcc"]


def is_shell(root, name):
    if name.endswith((".sh", ".bash")):
        return True
    if "." in os.path.basename(name):
        return False
    return bool(re.match(r"#!.*\b(ba|da)?sh\b", common.read(root, name)[:80]))


def check(root, names):
    complaints = []
    for name in names:
        run = subprocess.run(["shellcheck", *OPTIONS, name], cwd=root, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            complaints.append((run.stdout or run.stderr).strip())
    return complaints


if __name__ == "__main__":
    if not shutil.which("shellcheck"):
        common.skip("shellcheck", "there is no shellcheck")
    top = common.source_root()
    scripts = [name for name in common.tracked(top) if is_shell(top, name)]
    common.verdict(check(top, scripts), len(scripts))
