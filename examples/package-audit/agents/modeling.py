"""Scores packages by how much of the system leans on them: PageRank over the dependency graph."""
import csv
import json
import sys

DAMPING = 0.85
ROUNDS = 60


def read(packages, schema):
    with open(schema, encoding="utf-8") as f:
        rules = json.load(f)
    records = {}
    with open(packages, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            record = json.loads(line)
            for field, kind in rules["fields"].items():
                if type(record.get(field)).__name__ != kind:
                    sys.exit(f"line {number}: '{field}' is no {kind}")
            records[record["name"]] = record
    if len(records) < rules["min_records"]:
        sys.exit(f"{len(records)} packages are fewer than {rules['min_records']}: is this a dpkg status file?")
    return records


def edges(records):
    """package -> the installed packages that it depends on, virtual names resolved."""
    provider = {}
    for name, record in records.items():
        for virtual in record["provides"]:
            provider.setdefault(virtual, name)
    graph = {}
    for name, record in records.items():
        targets = (d if d in records else provider.get(d) for d in record["depends"])
        graph[name] = sorted({t for t in targets if t and t != name})
    return graph


def rank(graph):
    n = len(graph)
    score = {name: 1.0 / n for name in graph}
    for _ in range(ROUNDS):
        loose = sum(score[name] for name, out in graph.items() if not out)
        nxt = {name: (1.0 - DAMPING) / n + DAMPING * loose / n for name in graph}
        for name, out in graph.items():
            for target in out:
                nxt[target] += DAMPING * score[name] / len(out)
        score = nxt
    return score


def main(packages, schema, out):
    records = read(packages, schema)
    graph = edges(records)
    score = rank(graph)
    used_by = {name: 0 for name in graph}
    for targets in graph.values():
        for target in targets:
            used_by[target] += 1
    with open(out, "w", encoding="utf-8", newline="") as f:
        rows = csv.writer(f, lineterminator="\n")
        rows.writerow(["package", "score", "used_by", "depends_on", "installed_kib", "section"])
        for name in sorted(graph, key=lambda p: (-score[p], p)):
            record = records[name]
            rows.writerow([name, f"{score[name]:.8f}", used_by[name], len(graph[name]), record["installed_kib"], record["section"]])
    print(f"{len(graph)} packages, {sum(map(len, graph.values()))} dependencies scored")


if __name__ == "__main__":
    main(*sys.argv[1:4])
