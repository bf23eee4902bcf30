# SPDX-License-Identifier: Apache-2.0
"""Each check of tests/lint.sh finds a fault that is planted in a small tree, names file and line, and passes without it."""

import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CARRIED = (
    ".clang-format", ".clang-tidy", "ruff.toml", "launch/setup.sh", "tests/lint.sh",
    "tests/lint/tidy.py", "tests/lint/budget.py", "tests/lint/registers.py",
)

HEADER = "#pragma once\n\n#include <string>\n\nint length_of(const std::string& text);\n"
SOURCE = '#include "data/sum.h"\n\nint length_of(const std::string& text) {\n  return static_cast<int>(text.size());\n}\n'

# The ruff that tests/lint.sh installed in this tree, if it did.
PATH = f"{ROOT / 'build/lint/bin'}{os.pathsep}{os.environ['PATH']}"

# Of ptxas, for one kernel.
REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN7ventris3addEPf' for 'sm_90a'
ptxas info    : Function properties for _ZN7ventris3addEPf
    {spilled} bytes stack frame, {spilled} bytes spill stores, {spilled} bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers, 64 bytes smem
"""
TABLE = "# a table\nnvcc 13.0\nadd.cu add sm_90a 32 0 0 64\n"


class LintTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ventris-lint-")
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name).resolve()
        for name in CARRIED:
            self.write(name, (ROOT / name).read_text(encoding="utf-8"))
            shutil.copymode(ROOT / name, self.tree / name)

    def write(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def git(self, *words):
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        subprocess.run(command, cwd=self.tree, env=environment, check=True, capture_output=True)

    def lint(self, *arguments):
        """The exit status, and what was printed."""
        done = subprocess.run([self.tree / "tests/lint.sh", "--if-there", *arguments], cwd=self.tree, env={**os.environ, "PATH": PATH},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        if ": skipped," in done.stdout:
            self.skipTest(next(line for line in done.stdout.splitlines() if ": skipped," in line))
        return done.returncode, done.stdout

    def assert_finds(self, check, *expected):
        status, said = self.lint(check)
        self.assertEqual(status, 1, said)
        for text in (*expected, f"fix the errors above: {check}"):
            self.assertIn(text, said)

    def assert_passes(self, check):
        status, said = self.lint(check)
        self.assertEqual(status, 0, said)

    def test_format(self):
        self.write("data/sum.cc", SOURCE)
        self.write("backend/cuda/add.cu", "int a = 1;\n")
        self.assert_passes("format")
        self.write("backend/cuda/add.cu", "int a = 1;\nint b=2;\n")
        self.assert_finds("format", "backend/cuda/add.cu:2:")

    def test_files_that_git_knows_and_new_ones_are_looked_at_and_ignored_ones_are_not(self):
        self.git("init", "-q")
        self.write(".gitignore", "/build/\n")
        self.write("build/made.cc", "int  a;\n")
        self.write("data/sum.cc", SOURCE)
        self.git("add", ".")
        self.git("commit", "-qm", "first")
        self.assert_passes("format")
        self.write("data/new.cc", "int  a;\n")
        self.assert_finds("format", "data/new.cc:1:")

    def test_shell(self):
        self.write("tests/a.sh", "#!/usr/bin/env bash\nrm \"$1\"\n")
        self.assert_passes("shell")
        self.write("tests/a.sh", "#!/usr/bin/env bash\nrm $1\n")
        self.assert_finds("shell", "tests/a.sh:2:")
        self.write("tests/a.sh", "#!/usr/bin/env bash\n")
        for first in ("#!/usr/bin/env bash", "#!/bin/sh", "#!/bin/bash -e"):
            self.write(".ci/run", f"{first}\nrm $1\n")
            self.assert_finds("shell", ".ci/run:2:")
        self.write(".ci/run", "#!/usr/bin/env python3\nrm = $1\n")
        self.assert_passes("shell")

    def test_python(self):
        self.write("tests/a.py", "import os\n\nprint(os.name)\n")
        self.assert_passes("python")
        self.write("tests/a.py", "import os\n\nprint(name)\n")
        self.assert_finds("python", "tests/a.py:1:", "tests/a.py:3:")

    def write_sources(self):
        """A tree that fulfills the rules of tests/cli/sources_test.py, but for its tables."""
        test = (ROOT / "tests/cli/sources_test.py").read_text(encoding="utf-8")
        for table in ("SHARED_HEADERS", "WITHOUT_PATH"):
            test, count = re.subn(rf"^{table} = \{{.*?\}}$", f"{table} = {{}}", test, flags=re.MULTILINE | re.DOTALL)
            self.assertEqual(count, 1, table)
        # The files of these tests have no licence, except those of this name.
        test, count = re.subn("^LICENSED = .*$", r'LICENSED = r"licensed\\.\\w+"', test, flags=re.MULTILINE)
        self.assertEqual(count, 1)
        self.write("tests/cli/sources_test.py", test)
        self.write("CMakeLists.txt", "add_subdirectory(data)\nadd_subdirectory(tests)\n")
        self.write("tests/CMakeLists.txt", (ROOT / "tests/CMakeLists.txt").read_text(encoding="utf-8"))
        tables = runpy.run_path(self.tree / "tests/cli/sources_test.py")
        self.write("tests/here.h", "#pragma once\n")
        for folder, table in tables["ROOMS"].items():
            for room, entries in table.items():
                self.write(f"{folder}/{room}/here.h", "#pragma once\n")
                below = [str(pathlib.PurePath(folder, entry, "" if "." in entry else "here.h")) for entry in sorted(entries)]
                for name in below:
                    self.write(name, "#pragma once\n")
                self.write(f"{folder}/{room}/here.cu", "".join(f'#include "{name}"\n' for name in below))
        self.write("data/sum.h", HEADER)
        self.write("data/sum.cc", SOURCE)

    def test_sources(self):
        """One fault for each rule."""
        self.write_sources()
        self.assert_passes("sources")
        long_header = "#pragma once\n" + 150 * "//\n"
        body = "namespace ventris {\nnamespace {\n\nint f(double a) {}\n\n}  // namespace\n}  // namespace ventris\n"
        self.write("data/f.cc", body.replace("double", "int"))
        kernel = "template <typename T>\n__global__ void __launch_bounds__(f(1) * 2, 3)\n    second(T a) {}\n"
        for path, text, expected in (
            ("model/a.cc", '#include "../data/sum.h"', "model/a.cc:1: "),
            ("model/a.cc", "#include <data/sum.h>", "model/a.cc:1: "),
            ("model/a.cc", '# include "data/sum.h"', "model/a.cc:1: "),
            ("model/a.cc", '#include "model/none.h"', "model/a.cc:1: "),
            ("model/a.cc", '#include "data/sum.h"', "model/a.cc:1: "),
            ("model/a.cc", "#include <mpi-ext.h>", "model/a.cc:1: "),
            ("model/a.cc", '#include "backend/cuda/here.h"', "model/a.cc:1: "),
            ("comm/nccl/a.cc", '#include "comm/mpi/here.h"', "comm/nccl/a.cc:1: "),
            ("data/io/a.cc", '#include "data/scores/here.h"', "data/io/a.cc:1: "),
            ("model/a.hpp", "#pragma once", "'model/a.hpp'"),
            ("model/a.h", long_header, "model/a.h: split it"),
            ("tests/a.cc", 501 * "//\n", "tests/a.cc: split it"),
            ("launch/shells/a.cc", "", "'shells'"),
            ("data/licensed.cc", "\n\n\n// SPDX-License-Identifier: Apache-2.0", "'data/licensed.cc'"),
            ("data/a.cc", "int length_of(const std::string& words) {}", "data/a.cc: length_of(), which data/sum.h declares"),
            ("backend/cuda/a.cu", kernel, "the kernels of kWatched in tests/emulation/races_test.cc"),
            ("data/g.cc", body, "as in data/f.cc: int f(double a) {}"),
            ("data/io/a.cc", '#include "data/sum.h"', "data/io/a.cc:1: "),
            ("data/a.cc", "int minibatch = 1;", "data/a.cc:1: int minibatch"),
        ):
            with self.subTest(path=path, text=text[:80]):
                self.write(path, text + "\n")
                self.assert_finds("sources", expected)
                (self.tree / path).unlink()
        for path in ("model/a.h", "tests/a.cc"):
            self.write(path, "#pragma once\n" + 149 * "//\n")
        (self.tree / "launch/shells").rmdir()
        self.assert_passes("sources")
        for number in range(30):
            self.write(f"trainer/floor{number}.h", f'#pragma once\n#include "trainer/floor{number + 1}.h"\n')
            self.write(f"model/many{number}.h", "#pragma once\n")
            self.write(f"model/many{number}.cc", "")
        self.write("trainer/floor30.h", "#pragma once\n")
        self.write("data/text/here.cu", "")
        self.assert_finds("sources", "trainer/floor29\n", "{'model': 63}", "('data', 'text', 'io')")

    def write_build(self, registers=32, spilled=0, nvcc="13.0.88"):
        folder = self.tree / "build/release"
        object_file = "backend/CMakeFiles/ventris_cuda_kernels.dir/cuda/add.cu.o"
        entry = {"directory": str(folder), "file": "backend/cuda/add.cu", "command": f"nvcc -c add.cu -o {object_file}"}
        self.write("build/release/compile_commands.json", json.dumps([entry]))
        self.write("build/release/CMakeFiles/3.25.1/CMakeCUDACompiler.cmake", f'set(CMAKE_CUDA_COMPILER_VERSION "{nvcc}")\n')
        self.write(f"build/release/{object_file}.ptxas", REPORT.format(registers=registers, spilled=spilled))

    def test_registers(self):
        self.write("tests/lint/registers.txt", TABLE)
        self.write_build()
        self.assert_passes("registers")
        self.write_build(registers=33)
        self.assert_finds("registers", "registers.txt:3: add of add.cu for sm_90a: registers 33, at most 32 expected")
        self.write_build(spilled=4)
        self.assert_finds("registers", "registers.txt:3: add of add.cu for sm_90a: spilled 4, at most 0 expected")

    @unittest.skipUnless(shutil.which("node"), "without node")
    def test_pages_names_the_line_of_a_script_that_is_none(self):
        self.write("launch/pages/good.js", "const a = 1;\n")
        self.assertEqual(self.lint("pages")[0], 0)
        self.write("launch/pages/bad.js", "const a = 1;\nlet (;\n")
        status, said = self.lint("pages")
        self.assertEqual(status, 1, said)
        self.assertIn("launch/pages/bad.js:2", said)

    def test_a_check_without_its_tool_is_skipped_by_name_where_that_is_asked_for(self):
        self.write("tests/a.sh", "#!/usr/bin/env bash\nrm $1\n")
        programs = self.tree / "programs"
        programs.mkdir()
        for name in ("bash", "dirname", "env", "git", "mkdir", "sed"):
            (programs / name).symlink_to(shutil.which(name))
        done = subprocess.run([self.tree / "tests/lint.sh", "--if-there", "shell"],
                              env={"PATH": str(programs)}, capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("shell: skipped, there is no shellcheck", done.stdout)

    def test_a_check_that_is_not_known_is_refused(self):
        status, said = self.lint("formats")
        self.assertEqual(status, 1, said)
        self.assertIn("no check is named formats", said)


class LauncherTest(unittest.TestCase):
    """cmake/ptxas_report.sh."""

    def run_launcher(self, script):
        with tempfile.TemporaryDirectory(prefix="ventris-lint-") as folder:
            object_file = pathlib.Path(folder, "a.o")
            done = subprocess.run([ROOT / "cmake/ptxas_report.sh", "bash", "-c", script, "nvcc", "-o", object_file],
                                  capture_output=True, text=True, check=False)  # fmt: skip
            report = object_file.with_name("a.o.ptxas")
            return done, report.read_text(encoding="utf-8") if report.exists() else None

    def test_reports_are_kept_and_the_rest_is_passed_on(self):
        done, report = self.run_launcher("printf 'ptxas info    : Used 3 registers\\n    8 bytes stack frame\\na warning\\n' >&2")
        self.assertEqual((done.returncode, done.stderr), (0, "a warning\n"))
        self.assertEqual(report, "ptxas info    : Used 3 registers\n    8 bytes stack frame\n")

    def test_failures_are_passed_on(self):
        done, report = self.run_launcher("echo 'an error' >&2; exit 3")
        self.assertEqual((done.returncode, done.stderr, report), (3, "an error\n", None))


if __name__ == "__main__":
    unittest.main(verbosity=2)
