"""The rules for the source files that no compiler checks: who may include whom, how long headers may be."""

import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(os.environ["VENTRIS_SOURCE_DIR"])

# What the files of a folder may include (docs/architecture.md).
ALLOWED = {
    "backend": {"backend"},
    "model": {"model", "backend"},
    "comm": {"comm", "backend"},
    "data": {"data"},
    "trainer": {"trainer", "model", "comm", "data", "backend"},
    "launch": {"launch", "trainer", "model", "comm", "data", "backend"},
}

# What the rooms of a folder may include of it, besides their own headers (docs/architecture.md). "" is the folder itself.
ROOMS = {
    "model": {
        "": set(),
        "search": {""},
    },
    "data": {
        "": {"text", "files"},
        "text": {"files"},
        "files": set(),
        "scores": {"text"},
        "demo_corpus": {"files"},
    },
    "trainer": {
        "": {"inference", "files"},
        "inference": {"files"},
        "files": set(),
        "exchange": {"files"},
        "checks": {"", "inference", "files"},
    },
}
# Headers that stand below all rooms of their folder.
COMMON = {"data/error.h", "trainer/text.h"}

# Headers whose functions are defined in files of other names, and why.
SHARED_HEADERS = {
    "backend/cpu_kernels.h": "which table is in use is chosen with the set of instructions",
    "backend/kernels_cpu.h": "the kernels of all operations, which one table holds",
    "comm/communicator.h": "the transport is that of the build, in mpi, nccl, no_mpi and no_nccl",
    "comm/mpi_environment.h": "likewise",
    "launch/command.h": "the commands, each in a file of its own",
    "trainer/exchange/export_formats.h": "the formats, which have one contract and each a file of its own",
}

# Headers of libraries, and the only places that may include them.
LIBRARIES = {
    r"cuda\w*\.h|cublas\w*\.h": r"\.cuh?$|_cuda\.h$",
    r"nccl\.h": r"^comm/nccl/",
    r"mpi\.h": r"^comm/mpi/",
    r"hdf5\.h": r"^data/files/hdf5_",
    r"sentencepiece_\w+\.h": r"^data/",
    r"dnnl\.hpp|oneapi/.*": r"^backend/",
    r"(spdlog|boost)/.*": r"\.cc$",
    r"nlohmann/json\.hpp": r"\.cc$|^launch/",
}


def sources():
    """Paths of all C++ files of the six folders, relative to the root, with their lines."""
    for folder in ALLOWED:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cc", ".h", ".cu", ".cuh"):
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8").splitlines()


def functions(lines, end):
    """The functions at namespace scope that are declared (`end` is ";") or defined ("{"): names with the types of their
    parameters, as overloads have one name. Not those of an unnamed namespace. What begins there begins in the first column."""
    text = re.sub(r"^namespace \{$.*?^\}  // namespace$", "", "\n".join(lines), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"//.*|/\*.*?\*/| = \{[^{}]*\}", "", text)
    found = rf"^(?! |static |extern |using |return )[\w:<>,&*\[\] ]+[ *&](\w+)\(([^;{{}}]*)\)(?: noexcept)?\s*{re.escape(end)}"
    for name, parameters in re.findall(found, text, re.MULTILINE):
        parameters = [re.sub(r"\s*=.*", "", " ".join(parameter.split())) for parameter in parameters.split(",")]
        yield name, tuple(re.sub(r"(?<=[ &*])\w+$", "", parameter).strip() for parameter in parameters)


class Sources(unittest.TestCase):
    def test_there_are_sources_in_every_folder(self):
        found = {path.split("/")[0] for path, _ in sources()}
        self.assertEqual(found, set(ALLOWED))

    def test_dependencies_run_one_way(self):
        for path, lines in sources():
            for line in lines:
                included = re.match(r'#include "(\w+)/', line)
                if included:
                    self.assertIn(included[1], ALLOWED[path.split("/")[0]], f"{path}: {line}")

    def test_rooms_are_those_of_the_table(self):
        for folder, table in ROOMS.items():
            found = {path.rpartition("/")[0].partition("/")[2] for path, _ in sources() if path.startswith(f"{folder}/")}
            self.assertEqual(found, set(table), folder)

    def test_rooms_depend_one_way(self):
        found = set()
        for path, lines in sources():
            folder, _, room = path.rpartition("/")[0].partition("/")
            for line in lines:
                included = re.match(r'#include "((\w+)/(?:(.+)/)?[^/"]+)"', line)
                if not included or included[2] != folder or folder not in ROOMS or included[1] in COMMON:
                    continue
                if (included[3] or "") not in ROOMS[folder][room] | {room}:
                    found.add((path, included[1]))
        self.assertEqual(found, set())

    def test_no_file_has_marks_of_a_merge(self):
        kinds = (".cc", ".h", ".cu", ".cuh", ".py", ".sh", ".md", ".txt", ".json", ".ini")
        for folder in (*ALLOWED, "tests", "docs"):
            for path in (ROOT / folder).rglob("*"):
                if path.suffix in kinds and path.is_file():
                    text = path.read_text(encoding="utf-8", errors="replace")
                    self.assertIsNone(re.search(r"^(<{7}|>{7}) ", text, re.MULTILINE), path)

    def test_functions_are_defined_in_the_file_of_their_header(self):
        headers, strays = {}, {}
        for path, lines in sources():
            for function in functions(lines, ";") if path.endswith(".h") else ():
                headers.setdefault(function, set()).add(path)
        for path, lines in sources():
            for function in functions(lines, "{") if path.endswith(".cc") else ():
                of = headers.get(function, set())
                if of and path[:-3] + ".h" not in of:
                    strays.setdefault(min(of), []).append(f"{function[0]}() in {path}")
        self.assertEqual({header: found for header, found in strays.items() if header not in SHARED_HEADERS}, {})
        self.assertEqual(set(SHARED_HEADERS) - set(strays), set(), "these have no function elsewhere")

    def test_libraries_stay_where_they_belong(self):
        for path, lines in sources():
            for line in lines:
                included = re.match(r"#include <(.+)>", line)
                for header, place in LIBRARIES.items():
                    if included and re.fullmatch(header, included[1]):
                        self.assertRegex(path, place, line)

    def test_headers_are_short(self):
        for path, lines in sources():
            if path.endswith(".h"):
                self.assertLessEqual(len(lines), 150, path)
                self.assertIn("#pragma once", lines, path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
