#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds topologies/pipeline.schema.json and the loader to each other.

- every key of the loader's tables is in the schema and the other way round, required where the other requires it;
- every good document passes both; every bad one fails the loader as its first line says, and fails the schema too where
  its fault is one of structure;
- every good document is then spoilt in every place, in a few ways each, and both must agree on the result.

The documents reach the schema as the loader reads them: `no` is a text where a text is expected.
"""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

STRUCTURE = {"unknown-key", "missing-key", "wrong-type"}
HERE = pathlib.Path(__file__).resolve().parent
TOOL = sys.argv[1]
failures = []


def skip(reason):
    must = os.environ.get("BH_MUST_RUN", "").split(",")
    if "jsonschema" in must or "all" in must:
        print(f"must run here, but 'jsonschema' is missing: {reason}")
        sys.exit(1)
    print(f"SKIP jsonschema: {reason}")
    sys.exit(77)


try:
    from jsonschema import Draft202012Validator
except ImportError as why:
    skip(f"python3-jsonschema cannot be imported: {why}")


def fail(text):
    failures.append(text)
    print("FAIL", text)


def tool(*args):
    out = subprocess.run([TOOL, *args], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in out.stdout.decode().splitlines()]


def codes(answer):
    return [e["code"] for e in answer["errors"]]


def check_tables(schema):
    tables = tool("tables")[0]
    closed = {name for name, d in schema["$defs"].items() if "additionalProperties" in d and "properties" in d
              and d["additionalProperties"] is False}
    for name in closed ^ tables.keys():
        fail(f"the table '{name}' is only in the {'schema' if name in closed else 'loader'}")
    for name, keys in tables.items():
        d = schema["$defs"].get(name, {"properties": {}})
        for key in d["properties"].keys() ^ keys.keys():
            fail(f"the key '{key}' of '{name}' is only in the {'loader' if key in keys else 'schema'}")
        if set(d.get("required", [])) != {key for key, required in keys.items() if required}:
            fail(f"'{name}' requires other keys in the schema")
        for key, value in d["properties"].items():
            text = value.get("description") or schema["$defs"].get(value.get("$ref", "/").split("/")[-1], {})
            if not text and not value.get("$ref", "").startswith("#/$defs/agent/"):
                fail(f"the key '{key}' of '{name}' has no description")
    return tables


def keys_of(value):
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from keys_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from keys_of(item)


def check_good(paths, validator, tables):
    documents = tool("json", *paths)
    for path, answer, document in zip(paths, tool("check", *paths), documents):
        for e in answer["errors"]:
            fail(f"{path}: the loader refuses it: {e['line']}:{e['column']}: {e['message']}")
        for e in validator.iter_errors(document):
            fail(f"{path}: the schema refuses it: {e.json_path}: {e.message}")
    seen = {key for document in documents for key in keys_of(document)}
    for key in {key for keys in tables.values() for key in keys} - seen:
        fail(f"no good document has the key '{key}'")
    return documents


def check_bad(paths, validator):
    for path, answer, document in zip(paths, tool("check", *paths), tool("json", *paths)):
        want = pathlib.Path(path).read_text().splitlines()[0].removeprefix("# expect: ")
        got = codes(answer)
        if want not in got:
            fail(f"{path}: the loader gives {got} and not '{want}'")
        if STRUCTURE & set(got) and validator.is_valid(document):
            fail(f"{path}: the schema takes it, the loader gives {got}")


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if not str(key).startswith("x-"):
            yield from places(item, path + (key,))


def spoil(document, path, change):
    spoilt = copy.deepcopy(document)
    at = spoilt
    for key in path[:-1]:
        at = at[key]
    change(at, path[-1])
    return spoilt


def unknown_key(at, key):
    at[key]["zzz"] = "x"


def remove(at, key):
    del at[key]


def put(value):
    def change(at, key):
        at[key] = copy.deepcopy(value)
    return change


def spoilt_ones(document, seen):
    """Places that are alike (items of one list, agents of two stages) are spoilt once."""
    for path in places(document):
        alike = tuple("*" if isinstance(key, int) else key for key in path if key not in ("stages", "agents", "finally"))
        if not path or (len(path) > 1 and alike in seen):
            continue
        seen.add(alike)
        value = document
        for key in path:
            value = value[key]
        changes = [remove] + [put(v) for v in ("x", 7, True, ["x"], {"x": "y"}, [], {}, "") if v != value]
        if isinstance(value, dict):
            changes.append(unknown_key)
        for change in changes:
            yield path, spoil(document, path, change)


def check_spoilt(documents, validator):
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        seen = set()
        spoilt = [one for document in documents for one in spoilt_ones(document, seen)]
        paths = []
        for number, (_, document) in enumerate(spoilt):
            paths.append(f"{folder}/{number}.yaml")
            pathlib.Path(paths[-1]).write_text(json.dumps(document))
        for start in range(0, len(paths), 500):
            part = paths[start:start + 500]
            for (place, document), answer in zip(spoilt[start:start + 500], tool("check", *part)):
                total += 1
                compare(place, document, answer, validator)
    return total


def compare(place, document, answer, validator):
    valid, got = validator.is_valid(document), codes(answer)
    where = ".".join(map(str, place))
    if not valid and not got:
        errors = [f"{e.json_path}: {e.message}" for e in validator.iter_errors(document)]
        fail(f"spoilt at {where}: only the schema refuses it: {errors[0][:300]}")
    if valid and STRUCTURE & set(got):
        messages = [e["message"] for e in answer["errors"]]
        fail(f"spoilt at {where}: only the loader refuses it: {messages}")


def main():
    schema = json.loads((HERE.parents[2] / "topologies" / "pipeline.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    tables = check_tables(schema)
    own = sorted(str(p) for p in (HERE / "documents/good").glob("*.yaml"))
    good = own + sorted(str(p) for p in (HERE / "crews").glob("*.yaml"))
    bad = sorted(str(p) for p in (HERE / "documents/bad").glob("*.yaml"))
    if not own or not bad:
        fail("there are no documents to test with")
    documents = check_good(good, validator, tables)
    check_bad(bad, validator)
    total = check_spoilt(documents[:len(own)], validator)
    print(f"{len(tables)} tables, {len(good)} good, {len(bad)} bad, {total} spoilt documents, {len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
