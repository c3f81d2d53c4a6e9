"""Reads a dpkg status file and writes one JSON line per installed package."""
import json
import re
import sys

# "libc6 (>= 2.36) [amd64] | libc6.1" -> libc6, libc6.1
NAME = re.compile(r"^\s*([a-z0-9][a-z0-9+.-]*)")


def stanzas(path):
    """Yields the fields of each stanza; continuation lines are dropped, no field of ours has them."""
    fields = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip():
                if fields:
                    yield fields
                fields = {}
            elif not line[0].isspace() and ":" in line:
                key, value = line.split(":", 1)
                fields[key] = value.strip()
    if fields:
        yield fields


def names(text):
    """The first alternative of each comma-separated dependency."""
    found = (NAME.match(part.split("|")[0]) for part in text.split(","))
    return sorted({m.group(1) for m in found if m})


def main(status, out):
    count = 0
    with open(out, "w", encoding="utf-8") as lines:
        for fields in stanzas(status):
            if not fields.get("Status", "").endswith(" installed"):
                continue
            depends = names(fields.get("Pre-Depends", "") + "," + fields.get("Depends", ""))
            record = {
                "name": fields["Package"],
                "version": fields.get("Version", ""),
                "section": fields.get("Section", "unknown"),
                "installed_kib": int(fields.get("Installed-Size", "0") or 0),
                "depends": depends,
                "provides": names(fields.get("Provides", "")),
            }
            lines.write(json.dumps(record) + "\n")
            count += 1
    print(f"{count} installed packages")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
