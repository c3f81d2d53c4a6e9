#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Everything that a library of ours exports starts with bh_, so it cannot clash with what we link."""
import os
import subprocess

import common

# Written by the compiler beside a global that AddressSanitizer watches.
GENERATED = ("__odr_asan.", "__asan_", "__tsan_", "__ubsan_", "__sanitizer_", "__start_", "__stop_")


def check_listing(listing):
    """`listing` is what nm -A -P prints: "archive[member]: symbol type ..."."""
    complaints = []
    for line in listing.splitlines():
        place, _, rest = line.partition(": ")
        symbol = rest.split(" ", 1)[0]
        if symbol and not symbol.startswith("bh_") and not symbol.startswith(GENERATED):
            complaints.append(f"{place}: '{symbol}' does not start with bh_")
    return complaints


def archives(build):
    found = []
    for folder, folders, files in os.walk(build):
        folders[:] = [f for f in folders if f not in ("tests", "CMakeFiles")]
        found += [os.path.join(folder, f) for f in files if f.endswith(".a")]
    return sorted(found)


if __name__ == "__main__":
    libraries = archives(os.environ.get("BH_BUILD", "build/dev"))
    wrong = []
    for library in libraries:
        nm = subprocess.run(["nm", "-A", "-P", "--defined-only", "--extern-only", library], capture_output=True, text=True,
                            check=True)
        wrong += check_listing(nm.stdout)
    common.verdict(wrong, len(libraries))
