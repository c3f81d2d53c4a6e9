# SPDX-License-Identifier: Apache-2.0
"""What the lint scripts share: which files there are, and how a verdict is given.

A rule is a function from (root, list of relative names) to a list of complaints; nothing else decides.
selftest.py gives each rule a planted fault, so a rule that cannot fail is found out.
"""
import os
import subprocess
import sys


def source_root():
    return os.environ.get("BH_SOURCE") or os.getcwd()


def tracked(root, *endings):
    """The files under version control with one of these endings; all files where there is no git."""
    git = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=False)
    if git.returncode == 0 and git.stdout:
        names = git.stdout.decode().split("\0")
    else:
        names = []
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if not f.startswith(".") and f != "build"]
            names += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    names = [n for n in names if n and os.path.isfile(os.path.join(root, n))]
    return sorted(n for n in names if not endings or n.endswith(endings))


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def room(name):
    return name.split("/", 1)[0]


def verdict(complaints, checked):
    """Ends the script. Nothing to look at is a failure too: a rule that sees no files proves nothing."""
    for complaint in complaints:
        print(complaint)
    if not checked:
        print("nothing was checked")
    print(f"{checked} checked, {len(complaints)} wrong")
    sys.exit(1 if complaints or not checked else 0)


def skip(capability, reason):
    must = os.environ.get("BH_MUST_RUN", "").split(",")
    if capability in must or "all" in must:
        print(f"must run here, but '{capability}' is missing: {reason}")
        sys.exit(1)
    print(f"SKIP {capability}: {reason}")
    sys.exit(77)
