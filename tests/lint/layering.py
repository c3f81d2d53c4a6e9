#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""The floors of the house: includes go down only, and each library stays in the file that is meant for it."""
import re

import common

FLOORS = {"base": 1, "topologies": 2, "artifact-bus": 3, "policies": 4, "workers": 5, "scheduler": 6, "cli": 7}

# Where the header of a library may be included. The first row that fits a header decides.
LIBRARIES = [
    (r"nng/", r"artifact-bus/transport\.c"),
    (r"msgpack", r"artifact-bus/wire\.c"),
    (r"libfyaml\.h", r"topologies/yaml_tree\.c"),
    (r"sqlite3\.h", r"scheduler/store/db_sqlite\.c"),
    (r"libpq-fe\.h", r"scheduler/store/db_postgres\.c"),
    (r"jansson\.h", r"base/json\.c"),
    (r"openssl/", r"artifact-bus/digest\.c"),
    (r"archive(_entry)?\.h", r"(artifact-bus|workers/unpack)/\w+\.c"),
    (r"idn2\.h", r"policies/host_name\.c"),
    (r"curl/", r"policies/broker/\w+\.c"),
    (r"seccomp\.h", r"workers/launcher/\w+\.c"),
    (r"sys/capability\.h", r"workers/(launcher|init)/\w+\.c"),
    (r"event2/", r"(workers/(?!launcher/|init/)|scheduler/|cli/|policies/broker/)[\w/]+\.c"),
]

# What comes with the C library and the kernel; anything else is a library that LIBRARIES does not know.
SYSTEM = re.compile(
    r"^((sys|linux|asm|net|netinet|arpa)/[\w/.-]+|(assert|ctype|dirent|dlfcn|elf|endian|errno|fcntl|float|fnmatch|getopt|glob|grp|"
    r"inttypes|langinfo|libgen|limits|locale|malloc|math|mntent|netdb|poll|pthread|pty|pwd|regex|sched|semaphore|setjmp|"
    r"signal|spawn|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string|strings|sysexits|syslog|termios|"
    r"threads|time|ucontext|uchar|ulimit|unistd|utime|wchar|wctype)\.h)$"
)

# The launcher clones from a single thread and init is static: neither may reach a floor that brings a library or threads.
CONFINED = {
    "workers/launcher/": r"(base/(?!json\.h)|workers/)[\w/.-]+",
    "workers/init/": r"(base/(?!json\.h)|workers/)[\w/.-]+",
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def library_complaint(name, header):
    for pattern, place in LIBRARIES:
        if re.match(pattern, header):
            if re.fullmatch(place, name):
                return None
            return f"{name}: <{header}> may be included in {place} only"
    return None if SYSTEM.match(header) else f"{name}: <{header}> belongs to no library that tests/lint/layering.py knows"


def floor_complaint(name, header, generated):
    if header in generated:
        return None
    if "/" not in header or header.startswith((".", "/")):
        return f'{name}: "{header}" is not named from the root of the repository'
    if room(header) == "tests":
        return f'{name}: the product includes "{header}"'
    if room(header) not in FLOORS:
        return f'{name}: "{header}" is in no room'
    if FLOORS[room(header)] > FLOORS[room(name)]:
        return f'{name}: "{header}" is on a higher floor'
    if header.endswith("_priv.h") and header.rsplit("/", 1)[0] != name.rsplit("/", 1)[0]:
        return f'{name}: "{header}" is private to its folder'
    for folder, allowed in CONFINED.items():
        if name.startswith(folder) and not re.fullmatch(allowed, header):
            return f'{name}: "{header}" may not be used in {folder}'
    return None


def room(name):
    return common.room(name)


def check(root, names):
    complaints = []
    for name in names:
        if room(name) not in FLOORS:
            continue
        for kind, header in INCLUDE.findall(common.read(root, name)):
            # The build writes the migrations as C; it is the one file that no folder holds.
            found = (library_complaint(name, header) if kind == "<"
                     else floor_complaint(name, header, {"store_migrations.inc"}))
            if found:
                complaints.append(found)
    return complaints


if __name__ == "__main__":
    files = common.tracked(common.source_root(), ".c", ".h", ".def")
    common.verdict(check(common.source_root(), files), len(files))
