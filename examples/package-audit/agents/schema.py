"""Writes the shape that a package record must have; runs beside the retrieval and needs nothing of it."""
import json
import sys

SCHEMA = {
    "name": "str",
    "version": "str",
    "section": "str",
    "installed_kib": "int",
    "depends": "list",
    "provides": "list",
}

with open(sys.argv[1], "w", encoding="utf-8") as out:
    json.dump({"fields": SCHEMA, "min_records": 100}, out, indent=2)
print(f"{len(SCHEMA)} fields")
