#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs of many small boxes in which something is killed at a random moment: bulkhead, its launcher, the process that
boxes are cloned from, the init of a box, an agent. Usage: reclaim_chaos.py BULKHEAD SEED BOXES FILE…

Goes on until BOXES boxes have been made; `bulkhead gc` runs over and over meanwhile. Every run must end by itself with a
status that fits, and one in three that did not succeed is resumed, which must succeed. Prints what went wrong, then one
line of counts.
"""
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time

PATIENCE_S = 60
VICTIMS = ["bulkhead", "launcher", "spawner", "init", "init", "agent", "agent", "interrupt", "nobody"]


def status_of(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
    except (OSError, ProcessLookupError):
        return {}


def children():
    """Of each process its children, as /proc shows them now."""
    tree = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            parent = status_of(name).get("PPid", "").strip()
            tree.setdefault(parent, []).append((int(name), status_of(name)))
    return tree


def depth(status):
    return len(status.get("NSpid", "").split())


class Chaos:
    def __init__(self, bulkhead, seed, target, files):
        self.bulkhead, self.random, self.target, self.files = bulkhead, random.Random(seed), target, files
        self.problems, self.counts, self.boxes, self.collections = [], {}, 0, 0
        self.stop = threading.Event()

    def problem(self, text):
        self.problems.append(text)

    def call(self, *args):
        return subprocess.run([self.bulkhead, *args], capture_output=True, text=True, timeout=PATIENCE_S)

    def json(self, *args):
        done = self.call(*args, "-o", "json")
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(args)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def collect(self):
        while not self.stop.wait(0.05):
            done = self.call("gc", "-o", "json")
            self.collections += 1
            if done.returncode != 0:
                self.problem(f"gc ended with {done.returncode}: {done.stdout}{done.stderr}")

    def wait(self, process, seconds):
        """Whether it has ended in that time."""
        fd = os.pidfd_open(process.pid)
        try:
            return bool(select.select([fd], [], [], seconds)[0])
        finally:
            os.close(fd)

    def find(self, what, root):
        tree = children()
        launchers = [pid for pid, _ in tree.get(str(root), [])]
        below = [entry for pid in launchers for entry in tree.get(str(pid), [])]
        inits = [pid for pid, status in below if depth(status) > 1]
        choice = {
            "bulkhead": [root],
            "launcher": launchers,
            "spawner": [pid for pid, status in below if depth(status) == 1],
            "init": inits,
            "agent": [pid for init in inits for pid, _ in tree.get(str(init), [])],
        }[what]
        return self.random.choice(choice) if choice else None

    def strike(self, what, process):
        if what == "nobody":
            return True
        if what == "interrupt":
            process.send_signal(signal.SIGINT)
            return True
        victim = self.find(what, process.pid)
        try:
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
                return True
        except ProcessLookupError:
            pass
        return False

    def finish(self, process, name):
        if not self.wait(process, PATIENCE_S):
            self.problem(f"{name}: did not end")
            process.kill()
        process.wait()
        return process.returncode

    def start(self, *args):
        return subprocess.Popen([self.bulkhead, *args, "-q"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def newest(self):
        runs = self.json("ps", "--all")
        return runs[0]["run"] if runs else None

    def count_boxes(self, run):
        shown = self.json("show", run)
        boxes = {a["box"] or a["instance"] for agent in shown["agents"] for a in agent["attempts"]}
        return len(boxes), shown["status"]

    def round(self, number, seconds):
        what, before = self.random.choice(VICTIMS), self.newest()
        name = f"round {number}, {what}"
        process = self.start("run", self.random.choice(self.files))
        hit = not self.wait(process, self.random.random() * seconds) and self.strike(what, process)
        status = self.finish(process, name)
        self.counts[what] = self.counts.get(what, 0) + hit
        fits = {"bulkhead": [-9, 0], "interrupt": [130, -2, 0, 1, 7], "nobody": [0]}.get(what, [0, 1, 7]) if hit else [0]
        if status not in fits:
            self.problem(f"{name}: ended with {status}: {process.stdout.read()}")
        process.stdout.close()
        run = self.newest()
        if run == before:
            return
        if status != 0 and self.random.random() < 0.34:
            done = self.call("run", "--resume", run, "-q")
            if done.returncode != 0:
                self.problem(f"{name}: resume of {run} ended with {done.returncode}: {done.stdout}{done.stderr}")
        boxes, state = self.count_boxes(run)
        self.boxes += boxes
        if status == 0 and state != "succeeded":
            self.problem(f"{name}: {run} is {state}")

    def run(self):
        began = time.monotonic()
        for path in self.files:
            done = self.call("run", path, "-q")
            if done.returncode != 0:
                self.problem(f"undisturbed: {done.returncode}: {done.stdout}{done.stderr}")
                return
        seconds = (time.monotonic() - began) / len(self.files) * 1.1
        collector = threading.Thread(target=self.collect)
        collector.start()
        number = 0
        try:
            while self.boxes < self.target and len(self.problems) < 5:
                number += 1
                self.round(number, seconds)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            self.problem(f"round {number}: {error}")
        finally:
            self.stop.set()
            collector.join()
        kills = ", ".join(f"{what} {n}" for what, n in sorted(self.counts.items()))
        print(f"{self.boxes} boxes in {number} runs, gc {self.collections} times; struck: {kills}")


def main():
    chaos = Chaos(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    chaos.run()
    for text in chaos.problems:
        print(text)
    return 1 if chaos.problems else 0


if __name__ == "__main__":
    sys.exit(main())
