# SPDX-License-Identifier: Apache-2.0
"""The rules for the source files that no compiler checks: who may include whom and how, how long files may be, and that each names its
licence."""

import collections
import functools
import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(os.environ.get("VENTRIS_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])

# What the files of a folder may include (docs/dev/architecture.md).
ALLOWED = {
    "backend": {"backend"},
    "model": {"model", "backend"},
    "comm": {"comm", "backend"},
    "data": {"data"},
    "trainer": {"trainer", "model", "comm", "data", "backend"},
    "launch": {"launch", "trainer", "model", "comm", "data", "backend"},
}

# What the rooms of a folder include of it, besides their own headers (docs/dev/architecture.md): rooms, and of some rooms only the
# headers that are named. "" is the folder itself. Where two rooms include each other, the headers that go up are named, with the reason.
ROOMS = {
    "backend": {
        # A context holds the plans of products of its device, and the choice of instructions is the choice of a table of kernels.
        "device": {"cpu/gemm_onednn.h", "cpu/kernel_table.h", "cuda/check.cuh", "cuda/column_sums.cuh", "cuda/gemm_plans.cuh", "cuda/launch.cuh"},
        # Dispatch: an operation calls the kernels of its device, which take the arguments that its header declares.
        "ops": {"device", "cpu/attention.h", "cpu/gemm_onednn.h", "cpu/kernel_table.h", "cuda/attention.h", "cuda/column_sums.h",
                "cuda/gemm_choices.h", "cuda/linear_backward.h"},
        "cpu": {"device", "ops"},
        "cuda": {"device", "ops", "cpu/gemm_onednn.h"},  # the shape of a product, by which both keep plans
    },
    "comm": {
        "": set(),
        "mpi": {""},
        "nccl": {""},
        "no_mpi": {""},
        "no_nccl": {""},
    },
    "launch": {
        "": {"options"},
        "commands": {"command.h", "options", "pages"},
        "options": {"command.h"},  # what is parsed into and described, a table of options among it
        "pages": set(),
    },
    "model": {
        "": set(),
        "search": {""},
    },
    "data": {
        "": {"text", "io"},
        "text": {"io"},
        "io": set(),
        "scores": {"text"},
        "demo_corpus": {"io"},
    },
    "trainer": {
        # The run calls all of them, and they read its options, its progress and what it measures.
        "": {"checkpoint", "exchange/import.h", "observers", "options", "validation"},
        "checkpoint": {"divergence.h", "optimizer.h", "options", "precision.h", "run_environment.h", "train_options.h", "train_options_json.h",
                       "observers/progress.h", "validation/validation_metric.h"},
        "options": {"schedule.h", "train_options.h"},  # what the rows are of
        "validation": {"inference/work_sharing.h", "batch_feed.h", "observer.h", "run_metrics.h", "run_shape.h", "schedule_options.h",
                       "signals.h", "train_options.h", "checkpoint/training_state.h"},
        "observers": {"observer.h", "run_metrics.h", "schedule_options.h", "signals.h", "train_options.h", "train_options_json.h",
                      "train_profile.h", "checkpoint", "exchange/export_limits.h", "options", "validation"},
        "inference": {"checkpoint"},
        "exchange": {"checkpoint"},
        "checks": {"", "validation"},
    },
}  # fmt: skip
# Headers that stand below all rooms of their folder; they and their sources include of it only each other.
COMMON = {
    "data/error.h", "launch/job.h", "launch/output.h", "trainer/json_text.h", "trainer/text.h",
}  # fmt: skip

# The most stems of a folder that stand on one another by their includes; stems that include each other count as one.
FLOORS = {"trainer": 7}

# The most source files of a folder, without those of its rooms.
MOST_FILES = 60

# Names that may not come back, as patterns of whole identifiers, and the terms in their places (docs/dev/architecture.md, Glossary).
# A name that is replaced all over the tree gets a row.
GONE = {
    r"(mini|sub)_?batch\w*": "micro_batch",
    r"\w*ckpt\w*": "checkpoint",
    r"(\w+_)?grads?_?": "gradient",
    r"seq_?len\w*": "length, in tokens",
    r"\w*goes_on": "continues, keep_waiting, heartbeat",
    r"kMost\w+": "kMax...",
    r"rehearse\w*": "warm_up",
    r"told_stop_?": "stop_propagated",
    r'zero_word(?!")': "zero_token",  # the key of files
}

# Headers whose functions are defined in files of other names: which files, and why.
SHARED_HEADERS = {
    "backend/cuda/attention.h": (r"backend/cuda/attention_\w+\.cu", "kernels for forward, backward and tensor cores compile apart"),
    "backend/cpu/kernel_table.h": (r"backend/device/instruction_set\.cc", "which table is in use is chosen with the set of instructions"),
    "backend/cuda/launch.cuh": (r"backend/device/context_cuda\.cu", "the stream is that of the context"),
    "backend/device/device_cuda.h": (r"backend/device/context_cuda\.cu", "the device is a part of the context"),
    "backend/cpu/gemm.h": (r"backend/cpu/gemm_\w+\.cc", "one map of the parts of a product"),
    "comm/communicator.h": (r"comm/(no_)?(mpi|nccl)/\w+\.cc", "the transport is that of the build"),
    "comm/nccl_library.h": (r"comm/(no_)?nccl/\w+\.cc", "likewise"),
    "comm/mpi_environment.h": (r"comm/(no_)?mpi/\w+\.cc", "likewise"),
    "launch/command.h": (r"launch/commands/\w+\.cc", "the commands, each in a file of its own"),
    "trainer/checkpoint/weights.h": (r"trainer/checkpoint/safetensors_model\.cc", "the formats have one contract and each a file of its own"),
    "trainer/exchange/export_formats.h": (r"trainer/exchange/export_\w+\.cc", "the formats have one contract and each a file of its own"),
}

# Headers of libraries and of rooms that one library is needed for, and the only places in the program that may include them.
PLACES = {
    r"(cu|nv)\w*(\.\w+|/.*)|cooperative_groups.*|mma\.h|thrust/.*": r"^backend/cuda/.*\.cuh?$|^backend/device/\w+_cuda\.(cu|h)$|^comm/nccl/",
    r"backend/cuda/.*\.cuh|backend/device/context_cuda\.h": r"^backend/(cuda|device)/.*\.cuh?$|^comm/nccl/",
    r"backend/cuda/.*": r"^backend/|^comm/nccl/",
    r"backend/cpu/.*": r"^backend/|^model/search/sampling\.cc$|^trainer/run_environment\.cc$|^trainer/observers/start_report\.cc$|^launch/main\.cc$",
    r"nccl.*": r"^comm/nccl/",
    r"comm/nccl/.*": r"^comm/nccl/",
    r"(open)?mpi.*": r"^comm/mpi/",
    r"comm/mpi/.*": r"^comm/mpi/",
    r"(hdf5|H5).*": r"^data/io/hdf5_",
    r"sentencepiece.*": r"^data/text/",
    r"dnnl.*|mkldnn.*|oneapi/.*": r"^backend/cpu/gemm_onednn\.cc$",
    r"boost/.*": r"\.cc$",
    r"nlohmann/json\.hpp": r"\.cc$|^launch/",
    r"unicode/.*": r"^data/text/unicode\.cc$",
    r"yaml-cpp/.*": r"^trainer/exchange/marian_config\.cc$",
}

# Headers that are included without their path from the root: by which files, and why.
WITHOUT_PATH = {
    "ventris_commit.h": (r"trainer/program_version\.cc", "the build makes it, in its own folder"),
    "score_cases.h": (r"tests/data/scores/\w+\.cc", "of these tests alone"),
}

ENDINGS = (".cc", ".h", ".cu", ".cuh")
OTHER_ENDINGS = re.compile(r"\.(c|cpp|cxx|c\+\+|cppm|ixx|hh|hpp|hxx|h\+\+|inc|inl|ipp|tpp|txx)", re.IGNORECASE)

# The most lines of a file, by its path; the first that matches counts.
LONGEST = {
    r".*\.cuh|tests/.*\.h": 250,  # they hold code
    r".*\.h": 150,
    r".*": 500,
}

# In the first three lines of each source, and not counted. Files without an ending are sources if they begin with #!.
LICENCE = "SPDX-License-Identifier: Apache-2.0"
LICENSED = r".*\.(cc|css|h|html|js|cuh?|cmake|py|sbatch|sh)|CMakeLists\.txt|[^.]+"


def sources(*more):
    """Paths of all C++ files of the six folders and of `more`, relative to the root, with their lines."""
    for folder in (*ALLOWED, *more):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in ENDINGS:
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8").splitlines()


def included(path, lines):
    """What the lines of a file include: where and how, for messages; the character before the name, the name. These are
    empty if the line has neither of the two plain forms."""
    for number, line in enumerate(lines, 1):
        if re.match(r"\s*#\s*include", line):
            plain = re.fullmatch(r'#include (?:(")([^"]+)"|(<)([^>]+)>)(?: +//.*)?', line)
            mark, name = [part for part in plain.groups() if part] if plain else ("", "")
            yield f"{path}:{number}: {line}", mark, name


def longest_chain(folder):
    """The longest chain of includes between the stems of a folder and its rooms, from above: sets of stems that include each other."""
    below = collections.defaultdict(set)
    for path, lines in sources():
        if path.startswith(f"{folder}/"):
            below[path.rpartition(".")[0]] |= {name.rpartition(".")[0] for _, _, name in included(path, lines) if name.startswith(f"{folder}/")}
    reached = {stem: names & set(below) for stem, names in below.items()}
    for middle in reached:
        for stem in reached:
            if middle in reached[stem]:
                reached[stem] = reached[stem] | reached[middle]
    cycle = {stem: frozenset({stem, *(other for other in reached[stem] if stem in reached[other])}) for stem in reached}

    @functools.cache
    def chain(stems):
        lower = {cycle[name] for stem in stems for name in below[stem] if name in cycle} - {stems}
        return [stems, *max(map(chain, lower), key=len, default=[])]

    return max(map(chain, set(cycle.values())), key=len, default=[])


# Sources of libraries that are compiled each by itself: the kernels of the CPU, without those that are compiled once (backend/CMakeLists.txt).
APART = r"^backend/cpu/(?!gemm_(onednn|reference)\.cc$)"

# Functions of unnamed namespaces that have one name on purpose.
OVERLOADED = {("tests/backend/ops", "name_of")}  # the names of cases, by their type (tests/support/operation_case.h)


def unnamed(lines):
    """Name -> the line that begins its definition, for what stands in the first column of unnamed namespaces, aliases and macros apart."""
    names, inside = {}, False
    for line in lines:
        if line in ("namespace {", "}  // namespace"):
            inside = line == "namespace {"
        elif inside and re.match(r"[a-zA-Z_\[]", line) and not re.match(r"template|namespace|using", line):
            found = re.match(r"(?:struct|class|enum class|enum|union) (\w+)|[^(=]*?[\s&*](\w+)(?:\[.*?\])?(?:\(| = |\{|;)", line)
            if found:
                names[found[1] or found[2]] = line
    names.pop("__launch_bounds__", None)
    return names


def functions(lines, end):
    """The functions at namespace scope that are declared (`end` is ";") or defined ("{"): names with the types of their
    parameters, as overloads have one name. Not those of an unnamed namespace. What begins there begins in the first column."""
    text = re.sub(r"^namespace \{$.*?^\}  // namespace$", "", "\n".join(lines), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"//.*|/\*.*?\*/| = \{[^{}]*\}", "", text)
    name = r"(?:[a-z_]\w*::)*(\w+)"  # perhaps with its namespaces; a class begins with a capital
    tail = r"(?: noexcept)?(?: -> [\w:<>,&* ]+?)?\s*"
    found = rf"^(?! |static |extern |using |return )[\w:<>,&*\[\] ]+[ *&]{name}\(([^;{{}}]*?)\){tail}{re.escape(end)}"
    for function, parameters in re.findall(found, text, re.MULTILINE):
        # Without const, which may differ between declaration and definition.
        parameters = [" ".join(re.sub(r"\s*=.*|\bconst\b", "", part, flags=re.DOTALL).split()) for part in parameters.split(",")]
        yield function, tuple(re.sub(r"(?<=[ &*])\w+$", "", part).replace(" ", "") for part in parameters)


class Sources(unittest.TestCase):
    def test_there_are_sources_in_every_folder(self):
        found = {path.split("/")[0] for path, _ in sources()}
        self.assertEqual(found, set(ALLOWED))
        built = re.findall(r"add_subdirectory\((\w+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
        self.assertEqual(set(built) - {*ALLOWED, "tests", "cmake"}, set(), "these have no dependencies in ALLOWED")

    def test_files_have_the_usual_endings(self):
        paths = (path for folder in (*ALLOWED, "tests", "cmake", "docs") for path in (ROOT / folder).rglob("*"))
        found = {path.relative_to(ROOT).as_posix() for path in paths if OTHER_ENDINGS.fullmatch(path.suffix)}
        self.assertEqual(found, set(), f"the endings are {' '.join(ENDINGS)}")

    def test_files_are_included_by_their_path_from_the_root_and_libraries_in_angles(self):
        wrong, used = [], set()
        for path, lines in sources("tests"):
            for place, mark, name in included(path, lines):
                is_ours = name.split("/")[0] in {*ALLOWED, "tests"}
                is_file = re.fullmatch(r"[\w/]+\.cuh?|[\w/]+\.h", name)
                if mark == '"' and name in WITHOUT_PATH and re.fullmatch(WITHOUT_PATH[name][0], path):
                    used.add(name)
                elif mark == '"' and is_ours and is_file and (ROOT / name).is_file():
                    continue
                elif mark != "<" or is_ours or "./" in name:
                    wrong.append(place)
        self.assertEqual(wrong, [], 'the forms are #include "path/from/the/root.h" of a file that exists, and #include <library.h>')
        self.assertEqual(set(WITHOUT_PATH) - used, set(), "these are included nowhere")

    def test_dependencies_run_one_way(self):
        wrong = []
        for path, lines in sources():
            for place, mark, name in included(path, lines):
                if mark == '"' and "/" in name and name.split("/")[0] not in ALLOWED[path.split("/")[0]]:
                    wrong.append(place)
        self.assertEqual(wrong, [])

    def test_rooms_are_those_of_the_table(self):
        self.assertEqual(set(ROOMS), set(ALLOWED))
        for folder, table in ROOMS.items():
            found = {path.rpartition("/")[0].partition("/")[2] for path, _ in sources() if path.startswith(f"{folder}/")}
            self.assertEqual(found, set(table), f"{folder}/: the rooms of ROOMS")

    def test_rooms_include_what_the_table_says(self):
        wrong, unused = [], {(folder, room, entry) for folder, table in ROOMS.items() for room in table for entry in table[room]}
        for path, lines in sources():
            folder, _, room = path.rpartition("/")[0].partition("/")
            is_common = path.rpartition(".")[0] + ".h" in COMMON
            for place, mark, name in included(path, lines):
                of, _, file = name.partition("/")
                if mark != '"' or of != folder or name in COMMON:
                    continue
                inner = file.rpartition("/")[0]
                entries = {entry for entry in (inner, file) if entry in ROOMS[folder].get(room, ())}
                unused -= {(folder, room, entry) for entry in entries}
                if is_common or (inner != room and not entries):
                    wrong.append(place)
        self.assertEqual(wrong, [])
        self.assertEqual(unused, set(), "no file includes these any more: take them out of ROOMS")

    def test_floors_are_few(self):
        for folder, most in FLOORS.items():
            chain = longest_chain(folder)
            said = "\n".join(" ".join(sorted(stems)) for stems in chain)
            self.assertLessEqual(len(chain), most, f"floors of {folder}/, each on the one below it; stems in one line include each other:\n{said}")

    def test_folders_are_small(self):
        files = collections.Counter(path.rpartition("/")[0] for path, _ in sources("tests"))
        self.assertEqual({folder: count for folder, count in files.items() if count > MOST_FILES}, {}, f"at most {MOST_FILES} files: make a room")

    def test_names_that_are_gone_stay_away(self):
        gone = re.compile("|".join(rf"\b(?:{name})\b" for name in GONE))
        wrong = [f"{path}:{number}: {line.strip()}" for path, lines in sources("tests") for number, line in enumerate(lines, 1) if gone.search(line)]
        self.assertEqual(wrong, [], f"the terms are: {'; '.join(GONE.values())}")

    def test_names_of_unnamed_namespaces_differ_within_a_library(self):
        # cmake/source_groups.cmake. A call that converts its arguments could find another source's function, and no compiler would tell.
        owners, twice = {}, []
        tests = [(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8").splitlines()) for path in sorted((ROOT / "tests").rglob("*.cc"))]
        for path, lines in [*sources(), *tests]:
            ending = path.rpartition(".")[2]
            if ending in ("cc", "cu") and not re.search(rf"{APART}|^tests/(bench|faults)/|/no_\w+/", path):
                words = path.split("/")
                library = "/".join(words[:2] if words[0] == "tests" else words[:1]) + ("/ops" if path.startswith("tests/backend/ops/") else "")
                for name, line in unnamed(lines).items():
                    if (library, name) in OVERLOADED:
                        continue
                    other = owners.setdefault((library, ending, name), path)
                    if other != path:
                        twice.append(f"{path}: {name}, as in {other}: {line}")
        self.assertEqual(twice, [])

    def test_functions_are_defined_in_the_file_of_their_header(self):
        headers, strays, used = {}, [], set()
        for path, lines in sources():
            for function in functions(lines, ";") if path.endswith((".h", ".cuh")) else ():
                headers.setdefault(function, set()).add(path)
        for path, lines in sources():
            stem = path.rpartition(".")[0]
            own = {stem + ".h", stem + ".cuh"}
            for function in functions(lines, "{") if path.endswith((".cc", ".cu")) else ():
                of = headers.get(function, set())
                shared = {header for header in of if header in SHARED_HEADERS and re.fullmatch(SHARED_HEADERS[header][0], path)}
                if of and not of & own:
                    used |= shared
                    if not shared:
                        strays.append(f"{path}: {function[0]}(), which {min(of)} declares")
        self.assertEqual(strays, [])
        self.assertEqual(set(SHARED_HEADERS) - used, set(), "these have no function elsewhere")

    def test_headers_of_libraries_and_their_rooms_stay_where_they_belong(self):
        wrong = []
        for path, lines in sources():
            for place, _, name in included(path, lines):
                if any(re.fullmatch(header, name) and not re.search(where, path) for header, where in PLACES.items()):
                    wrong.append(place)
        self.assertEqual(wrong, [])

    def test_files_are_short(self):
        for path, lines in sources("tests"):
            longest = next(limit for kind, limit in LONGEST.items() if re.fullmatch(kind, path))
            length = len(lines) - (1 if any(LICENCE in line for line in lines[:3]) else 0)
            self.assertLessEqual(length, longest, f"{path}: split it")

    def test_every_source_names_its_licence(self):
        folders = (".ci", *ALLOWED, "cmake", "docs", "tests")
        paths = [*ROOT.glob("*"), *(path for folder in folders for path in sorted((ROOT / folder).rglob("*")))]
        missing = []
        for path in paths:
            if path.is_file() and re.fullmatch(LICENSED, path.name):
                with open(path, "rb") as file:
                    head = file.readline(), file.readline(), file.readline()
                is_source = "." in path.name or head[0].startswith(b"#!")
                if is_source and LICENCE.encode() not in b"".join(head):
                    missing.append(path.relative_to(ROOT).as_posix())
        self.assertEqual(missing, [], f"a comment in the first three lines has to be: {LICENCE}")

    def test_the_race_detector_knows_all_kernels(self):
        kernel = r"__global__ void\s+(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*)?(\w+)\("
        kernels = {name for path, lines in sources() if path.endswith((".cu", ".cuh")) for name in re.findall(kernel, "\n".join(lines))}
        watched = ROOT / "tests/emulation/races_test.cc"
        table = watched.read_text(encoding="utf-8").partition("kWatched[] = {")[2].partition("};")[0] if watched.exists() else ""
        self.assertEqual(set(re.findall(r'^    \{"(\w+)", ', table, re.MULTILINE)), kernels, "the kernels of kWatched in tests/emulation/races_test.cc")

    def test_headers_are_included_once(self):
        for path, lines in sources("tests"):
            if path.endswith((".h", ".cuh")):
                self.assertIn("#pragma once", lines, path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
