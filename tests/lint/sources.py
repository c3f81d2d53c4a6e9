#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Rules about the text of sources: sizes, licence lines, debts, sleeps, close, and the wording of messages."""
import re

import common

FILE_HARD, FILE_SOFT = 1200, 800
FUNCTION_HARD, FUNCTION_SOFT = 120, 60
CODE = (".c", ".h", ".def")
LICENCED = CODE + (".py", ".sh", ".cmake", "CMakeLists.txt")

DEBT = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
SLEEP = re.compile(r"\b(sleep|usleep|nanosleep|clock_nanosleep|thrd_sleep)\s*\(")
SHELL_SLEEP = re.compile(r"^\s*(sleep|usleep)\s", re.M)
CLOSE_RETRY = re.compile(r"TEMP_FAILURE_RETRY\s*\(\s*close\b|\bclose\s*\([^;{}]*\)[^;{}]*EINTR")


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def functions(text):
    """(name, first line, length) of each function. clang-format puts only the brace of a function at column 0."""
    lines, found, start = text.split("\n"), [], None
    for i, line in enumerate(lines):
        if line == "{":
            start = i
            while start > 0 and lines[start - 1].strip() and not lines[start - 1].endswith((";", "}", "*/")):
                start -= 1
        elif line.startswith("}") and start is not None:
            name = re.search(r"(\w+)\s*\(", " ".join(lines[start:i]))
            found.append((name.group(1) if name else "?", start + 1, i - start + 1))
            start = None
    return found


def sizes(name, text):
    """Complaints, and warnings that fail nothing."""
    bad, soft = [], []
    count = text.count("\n")
    if count > FILE_SOFT:
        (bad if count > FILE_HARD else soft).append(f"{name}: {count} lines (at most {FILE_HARD}, better {FILE_SOFT})")
    for function, line, length in functions(text):
        if length > FUNCTION_SOFT:
            (bad if length > FUNCTION_HARD else soft).append(
                f"{name}:{line}: {function} has {length} lines (at most {FUNCTION_HARD}, better {FUNCTION_SOFT})")
    return bad, soft


def strip_comments(text):
    """Comments blanked, lines and literals kept."""
    token = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)
    return token.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0][0] == "/" else m[0], text)


def first_literal(text, start):
    """The first string literal of the call whose bracket opens at `start`, neighbours joined, escapes kept."""
    depth, i, said = 0, start, None
    while i < len(text):
        if text[i] == '"':
            piece = re.match(r'"((?:\\.|[^"\\])*)"', text[i:])
            said = (said or "") + piece[1]
            i += piece.end()
            continue
        if said is not None and not text[i].isspace():
            return said
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return said
        i += 1
    return said


def message_fault(kind, said):
    if "\\n" in said and kind != "detail":
        return "has more than one line"
    if kind != "detail" and re.search(r"[^.]\.$", said):
        return "ends with a full stop"
    if kind != "detail" and re.match(r"[A-Z][a-z]", said):
        return "starts with a capital"
    if '\\"%' in said:
        return "quotes its subject with \" and not with '"
    return None


def messages(name, text):
    complaints = []
    for call in re.finditer(r"\bbh_err_(set|wrap|hint|detail)\s*\(", text):
        said = first_literal(text, call.end() - 1)
        fault = message_fault(call[1], said) if said else None
        if fault:
            complaints.append(f"{name}:{line_of(text, call.start())}: '{said}' {fault}")
    return complaints


def every(pattern, name, text, what):
    return [f"{name}:{line_of(text, m.start())}: {what}" for m in pattern.finditer(text)]


def check_text(name, text):
    complaints = []
    # Examples are for copying: whoever does so need not carry our line along.
    if name.endswith(LICENCED) and not name.startswith("examples/") and "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text.split("\n")[:2]):
        complaints.append(f"{name}:1: no SPDX line")
    if not name.endswith(".md"):
        complaints += every(DEBT, name, text, "a debt in a comment: mend it or write an ADR")
    if name.startswith("tests/") and name.endswith(".sh"):
        complaints += every(SHELL_SLEEP, name, text, "a test that sleeps: wait for the event")
    if name.endswith(CODE):
        code = strip_comments(text)
        complaints += every(CLOSE_RETRY, name, code, "close is never retried: Linux has closed it even on EINTR")
        complaints += sizes(name, text)[0]
        if name.startswith("tests/"):
            complaints += every(SLEEP, name, code, "a test that sleeps: wait for the event, or drive a clock")
        else:
            complaints += messages(name, code)
    return complaints


def check(root, names):
    return [c for name in names for c in check_text(name, common.read(root, name))]


if __name__ == "__main__":
    top = common.source_root()
    files = common.tracked(top, *LICENCED, ".sql", ".json", ".yaml", ".md")
    for file in files:
        for warning in sizes(file, common.read(top, file))[1] if file.endswith(CODE) else []:
            print("long:", warning)
    common.verdict(check(top, files), len(files))
