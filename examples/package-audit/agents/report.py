"""Turns the scores into a page for people."""
import csv
import sys


def main(scores, out, top):
    with open(scores, encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    size = sum(int(r["installed_kib"]) for r in rows)
    with open(out, "w", encoding="utf-8") as page:
        page.write("# Packages that the system leans on\n\n")
        page.write(f"{len(rows)} installed packages, {size / 1024:.0f} MiB. Score: PageRank over Depends and Pre-Depends.\n\n")
        page.write("| rank | package | score | used by | depends on | section |\n|---|---|---|---|---|---|\n")
        for i, r in enumerate(rows[:top], 1):
            page.write(f"| {i} | {r['package']} | {float(r['score']):.5f} | {r['used_by']} | {r['depends_on']} | {r['section']} |\n")
        leaves = sum(1 for r in rows if r["used_by"] == "0")
        page.write(f"\n{leaves} packages are used by no other.\n")
    print(f"report of {min(top, len(rows))} packages")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
