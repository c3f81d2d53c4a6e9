#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Plants one fault for each rule and sees that it is found; and that what is right is left in peace."""
import os
import subprocess
import sys
import tempfile
import unittest

import cmake_rules
import common
import format as formatting
import headers
import layering
import shell
import sources
import symbols

LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"
HERE = os.path.dirname(os.path.abspath(__file__))


class Planted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def put(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def one(self, complaints, part):
        self.assertEqual(len(complaints), 1, complaints)
        self.assertIn(part, complaints[0])


class Layering(Planted):
    def include(self, name, what):
        return layering.check(self.root, [self.put(name, f"#include {what}\n")])

    def test_floors(self):
        self.assertEqual(self.include("cli/a.c", '"scheduler/serve.h"'), [])
        self.assertEqual(self.include("scheduler/a.c", '"scheduler/core/run.h"'), [])
        self.one(self.include("base/a.c", '"topologies/model.h"'), "higher floor")
        self.one(self.include("workers/a.h", '"scheduler/store/store.h"'), "higher floor")
        self.one(self.include("base/a.c", '"err.h"'), "not named from the root")
        self.one(self.include("base/a.c", '"../base/err.h"'), "not named from the root")
        self.one(self.include("base/a.c", '"tests/support/t.h"'), "the product includes")
        self.one(self.include("base/a.c", '"web/x.h"'), "in no room")
        self.assertEqual(self.include("tests/unit/base/a.c", '"scheduler/core/run.h"'), [])

    def test_private_headers(self):
        self.assertEqual(self.include("workers/box/a.c", '"workers/box/ns_priv.h"'), [])
        self.one(self.include("workers/a.c", '"workers/box/ns_priv.h"'), "private to its folder")

    def test_launcher_and_init(self):
        self.one(self.include("workers/launcher/a.c", '"artifact-bus/wire.h"'), "may not be used in workers/launcher/")
        self.one(self.include("workers/init/a.c", '"base/json.h"'), "may not be used in workers/init/")
        self.one(self.include("workers/launcher/a.c", "<event2/event.h>"), "may be included in")
        self.assertEqual(self.include("workers/launcher/a.c", "<seccomp.h>"), [])

    def test_libraries(self):
        for header, place in {"nng/nng.h": "artifact-bus/transport.c", "msgpack.h": "artifact-bus/wire.c",
                              "libfyaml.h": "topologies/yaml_tree.c", "sqlite3.h": "scheduler/store/db_sqlite.c",
                              "jansson.h": "base/json.c", "openssl/evp.h": "artifact-bus/digest.c",
                              "event2/event.h": "workers/worker.c"}.items():
            self.assertEqual(self.include(place, f"<{header}>"), [])
            self.one(self.include("policies/other.c", f"<{header}>"), "may be included in")
            self.one(self.include(place.replace(".c", ".h"), f"<{header}>"), "may be included in")
        self.one(self.include("base/a.c", "<zlib.h>"), "belongs to no library")
        self.assertEqual(self.include("base/a.c", "<sys/stat.h>"), [])


class Sources(Planted):
    def complaints(self, name, text):
        return sources.check(self.root, [self.put(name, text)])

    def test_licence_and_debts(self):
        self.one(self.complaints("base/a.c", "int x;\n"), "no SPDX line")
        self.assertEqual(self.complaints("tests/a.sh", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"), [])
        self.one(self.complaints("base/a.c", LICENCE + "/* TO" "DO: later */\n"), "a debt")
        self.one(self.complaints("base/a.h", LICENCE + "// FIX" "ME\n"), "a debt")

    def test_file_sizes(self):
        self.assertEqual(self.complaints("base/a.c", LICENCE + "int x;\n" * 1199), [])
        self.one(self.complaints("base/a.c", LICENCE + "int x;\n" * 1200), "1201 lines")
        self.assertEqual(len(sources.sizes("a.c", "\n" * 801)[1]), 1)

    def test_function_sizes(self):
        def body(n):
            return "static int\nlong_one(int a,\n         int b)\n{\n" + "    a++;\n" * n + "}\n"
        self.assertEqual(sources.functions("int x;\n\n" + body(1)), [("long_one", 3, 6)])
        self.assertEqual(self.complaints("base/a.c", LICENCE + body(115)), [])
        self.one(self.complaints("base/a.c", LICENCE + body(116)), "long_one has 121 lines")
        self.assertEqual(len(sources.sizes("a.c", body(56))[1]), 1)
        self.assertEqual(sources.functions("struct s {\n    int a;\n};\n"), [])

    def test_sleeps(self):
        for call in ("sleep(1)", "usleep (1)", "nanosleep(&t, NULL)"):
            self.one(self.complaints("tests/a.c", LICENCE + f"    {call};\n"), "sleeps")
        self.assertEqual(self.complaints("tests/a.c", LICENCE + "/* never sleep(1) */\n"), [])
        shell_start = "# SPDX-License-Identifier: Apache-2.0\n"
        self.one(self.complaints("tests/a.sh", shell_start + "  sleep 1\n"), "sleeps")
        self.assertEqual(self.complaints("tests/a.sh", shell_start + "run: 'sleep 10'\n"), [])

    def test_close(self):
        self.one(self.complaints("base/a.c", LICENCE + "while (close(fd) < 0 && errno == EINTR)\n    ;\n"), "never retried")
        self.one(self.complaints("base/a.c", LICENCE + "TEMP_FAILURE_RETRY(close(fd));\n"), "never retried")
        self.assertEqual(self.complaints("base/a.c", LICENCE + "close(fd);\nif (errno == EINTR)\n"), [])

    def test_messages(self):
        def said(text):
            return self.complaints("base/a.c", LICENCE + f'    return bh_err_set(err, BH_E_IO, 0, {text}, "A b.");\n')
        self.assertEqual(said('"cannot read \'%s\'"'), [])
        self.assertEqual(said('"YAML is no JSON"'), [])
        self.one(said('"Cannot read"'), "starts with a capital")
        self.one(said('"cannot read" " it."'), "ends with a full stop")
        self.one(said('"one\\ntwo"'), "more than one line")
        self.one(said('"cannot read \\"%s\\""'), "quotes its subject")
        self.one(self.complaints("base/a.c", LICENCE + 'bh_err_hint(err,\n  "Do it.");\n'), "a.c:2: 'Do it.'")


class Headers(Planted):
    def test_alone(self):
        self.put("base/good.h", "#pragma once\n#include <stddef.h>\nstruct s {\n    size_t n;\n};\n")
        self.put("base/bad.h", "#pragma once\nsize_t f(void);\n")
        self.put("base/twice.h", "struct s {\n    int n;\n};\n")
        self.assertEqual(headers.check(self.root, ["base/good.h"]), [])
        self.one(headers.check(self.root, ["base/bad.h"]), "does not compile alone")
        self.one(headers.check(self.root, ["base/twice.h"]), "does not compile alone")

    def test_bans(self):
        self.put("base/banned.h", "#include <string.h>\n#pragma GCC poison strcpy\n")
        self.assertEqual(headers.bans(self.root), [])
        self.put("base/banned.h", "#include <string.h>\n")
        self.one(headers.bans(self.root), "nothing is banned")


class Symbols(unittest.TestCase):
    def test_prefix(self):
        good = "libbh_base.a[err.c.o]: bh_err_set T 0 10\nlibbh_base.a[err.c.o]: __odr_asan.bh_x B 0 1\n"
        self.assertEqual(symbols.check_listing(good), [])
        bad = symbols.check_listing(good + "libbh_base.a[err.c.o]: helper T 0 10\n")
        self.assertEqual(bad, ["libbh_base.a[err.c.o]: 'helper' does not start with bh_"])


class Cmake(Planted):
    def complaints(self, text, name="base/CMakeLists.txt"):
        return cmake_rules.check(self.root, [self.put(name, text)])

    def test_rules(self):
        self.assertEqual(self.complaints("bh_library(bh_x SOURCES a.c) # no file(GLOB here\n"), [])
        self.one(self.complaints("file(GLOB all *.c)\n"), "never globbed")
        self.one(self.complaints("add_definitions(-DX)\n"), "flags belong to targets")
        self.one(self.complaints("include_directories(x)\n"), "target_ form")
        self.one(self.complaints('set(CMAKE_C_FLAGS "-O3")\n'), "not edited")
        release = 'set(CMAKE_C_FLAGS_RELEASE "-O2 -g")\n'
        self.one(self.complaints(release), "not edited")
        self.assertEqual(self.complaints(release, "cmake/Flags.cmake"), [])
        self.one(self.complaints("add_test(NAME x COMMAND x)\n"), "no label and no timeout")
        self.assertEqual(self.complaints("add_test(NAME x COMMAND x)\nbh_test_properties(x unit 10)\n"), [])

    def test_unbuilt(self):
        compiled = [os.path.join(self.root, "base/../base/a.c")]
        self.assertEqual(cmake_rules.unbuilt(self.root, compiled, ["base/a.c"]), [])
        self.one(cmake_rules.unbuilt(self.root, compiled, ["base/a.c", "base/b.c"]), "base/b.c: listed in no CMakeLists.txt")


class Tools(Planted):
    def test_format(self):
        tool = formatting.tool()
        if not tool:
            self.skipTest("no clang-format")
        self.put(".clang-format", "BasedOnStyle: LLVM\nIndentWidth: 4\n")
        self.put("good.c", "int x;\n")
        self.put("bad.c", "int  x ;\n")
        self.assertEqual(formatting.check(self.root, ["good.c"], tool), [])
        self.one(formatting.check(self.root, ["bad.c"], tool), "bad.c")

    def test_shell(self):
        self.assertTrue(shell.is_shell(self.root, self.put("bootstrap", "#!/usr/bin/env bash\n")))
        self.assertTrue(shell.is_shell(self.root, self.put("a.sh", "")))
        self.assertFalse(shell.is_shell(self.root, self.put("tool", "#!/usr/bin/env python3\n")))
        if shell.shutil.which("shellcheck"):
            self.one(shell.check(self.root, [self.put("b.sh", "#!/bin/sh\ncd /nowhere\nif [ a = b ]\n")]), "b.sh")

    def test_skips_fail_where_they_must_run(self):
        code = "import common; common.skip('shellcheck', 'none')"
        for must, status in {"": 77, "other": 77, "a,shellcheck": 1, "all": 1}.items():
            run = subprocess.run([sys.executable, "-B", "-c", code], cwd=HERE, env={**os.environ, "BH_MUST_RUN": must},
                                 capture_output=True, check=False)
            self.assertEqual(run.returncode, status)

    def test_nothing_checked_fails(self):
        run = subprocess.run([sys.executable, "-B", "-c", "import common; common.verdict([], 0)"], cwd=HERE, capture_output=True,
                             check=False)
        self.assertEqual(run.returncode, 1)

    def test_files_without_git(self):
        self.put("base/a.c", "")
        self.put("build/b.c", "")
        self.put("base/c.h", "")
        self.assertEqual(common.tracked(self.root, ".c"), ["base/a.c"])


if __name__ == "__main__":
    unittest.main()
