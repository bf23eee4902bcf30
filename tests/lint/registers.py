#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each CUDA kernel takes of the device, as ptxas reported it (cmake/ptxas_report.sh), against registers.txt.

    tests/lint/registers.py BUILD [--write]

BUILD is a folder like build/release. A kernel is all of its instances; the greatest of them counts. Ends with 1, and a line
that starts with file and line of the table for each finding, where a kernel takes more than its row allows, has no row,
or a row has no kernel. Another nvcc than that of the table shares out registers otherwise: nothing is compared then.
--write makes the table anew, of what there is; rows of architectures that the folder was not built for stay.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = pathlib.Path(__file__).with_name("registers.txt")
COLUMNS = ("registers", "stack", "spilled", "shared")
HEAD = """\
# What a kernel may take at most for each architecture that it is compiled for: registers of a thread, bytes of its stack,
# bytes that it spills, bytes of shared memory that a block declares. tests/lint.sh registers compares the build with it.
# A row grows by intention alone: occupancy falls with registers (65,536 for the threads of a multiprocessor), and stack
# is slow memory. Anew: tests/lint/registers.py build/release --write.
# file  kernel  architecture  registers  stack  spilled  shared
"""


def instances(names):
    """Mangled names of kernels -> their names with template arguments, without namespaces, parameters and results."""
    names = list(names)
    result = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    short = {}
    for mangled, name in zip(names, result.stdout.splitlines()):
        name = name.replace("(anonymous namespace)::", "").replace("ventris::", "")
        found = re.match(r"(?:[^<( ]+ )?([^<(]+(?:<[^(]*>)?)\(", name)
        short[mangled] = found[1] if found else name
    return short


def nvcc_of(build):
    """The version of the nvcc that a folder was configured with, to two numbers."""
    for file in build.glob("CMakeFiles/*/CMakeCUDACompiler.cmake"):
        version = re.search(r'CMAKE_CUDA_COMPILER_VERSION "(\d+\.\d+)', file.read_text(encoding="utf-8"))
        if version:
            return version[1]
    sys.exit(f"{build}: not a folder that was configured with nvcc; configure with: cmake --preset release -DVENTRIS_CUDA=ON")


def source_of(kernel, source):
    """The file name of the source that a kernel stands in: of those that a group includes, or of a header of theirs."""
    define = re.compile(rf"__global__[^;{{]*\b{kernel.rpartition('::')[2]}\(")
    include = re.compile(r'^#include "(.*\.cuh?)"$', re.MULTILINE)
    left = [source]
    while left:
        file = left.pop(0)
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if define.search(text):
            return file.name
        left += [ROOT / name for name in include.findall(text)]
    return source.name


def reports(build):
    """[(source, name of the instance, architecture, object file, the numbers of COLUMNS)] of the reports of a build."""
    found = []
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        compiled = re.search(r" -o (\S+\.cu\.o)( |$)", entry["command"])
        object_file = pathlib.Path(entry["directory"], compiled[1]) if compiled else None
        report = object_file.with_name(object_file.name + ".ptxas") if object_file else None
        if not report or not report.exists():
            continue
        current = None
        for line in report.read_text(encoding="utf-8").splitlines():
            kernel = re.search(r"Compiling entry function '(\S+)' for '(\S+)'", line)
            if kernel:
                current = [pathlib.Path(entry["directory"], entry["file"]), *kernel.groups(), object_file, [0, 0, 0, 0]]
                found.append(current)
            elif current:
                taken = current[4]
                stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)
                if stack:
                    taken[1:3] = int(stack[1]), max(int(stack[2]), int(stack[3]))
                if "Used" in line:
                    taken[0] = int(re.search(r"Used (\d+) registers", line)[1])
                    shared = re.search(r"(\d+) bytes smem", line)
                    taken[3] = int(shared[1]) if shared else 0
    names = instances(mangled for _, mangled, *_ in found)
    sources = {}
    for source, mangled, *_ in found:
        key = (source, names[mangled].split("<")[0])
        if key not in sources:
            sources[key] = source_of(key[1], source)
    return [(sources[source, names[mangled].split("<")[0]], names[mangled], *rest) for source, mangled, *rest in found]


def reported(build):
    """(source, kernel, architecture) -> the greatest of COLUMNS in the reports of a build, over all instances."""
    kernels = {}
    for source, instance, architecture, _, taken in reports(build):
        key = (source, instance.split("<")[0], architecture)
        kernels[key] = tuple(map(max, zip(taken, kernels.get(key, taken))))
    return kernels


def lines_of(file):
    """The version of nvcc that a table names, and [(line number, words)] of its rows."""
    rows, nvcc = [], None
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if words[0] == "nvcc":
            nvcc = words[1]
        else:
            rows.append((number, words))
    return nvcc, rows


def table_of(file):
    """The version of nvcc, and (source, kernel, architecture) -> (line, limits)."""
    rows = {}
    nvcc, lines = lines_of(file)
    for number, words in lines:
        if len(words) != 7 or not all(word.isdecimal() for word in words[3:]):
            sys.exit(f"{file}:{number}: source, kernel, architecture and four numbers are expected: {' '.join(words)}")
        rows[tuple(words[:3])] = (number, tuple(map(int, words[3:])))
    return nvcc, rows


def compare(kernels, rows, file):
    """Lines that say what is wrong."""
    built = {architecture for _, _, architecture in kernels}
    wrong = []
    for key, taken in sorted(kernels.items()):
        source, kernel, architecture = key
        if key not in rows:
            # An architecture without any was chosen by -DCMAKE_CUDA_ARCHITECTURES.
            if any(known == architecture for _, _, known in rows):
                wrong.append(f"{file}:1: no row for {kernel} of {source} for {architecture}; it takes "
                             + ", ".join(f"{value} {name}" for name, value in zip(COLUMNS, taken)))  # fmt: skip
            continue
        number, limits = rows[key]
        for name, value, limit in zip(COLUMNS, taken, limits):
            if value > limit:
                wrong.append(f"{file}:{number}: {kernel} of {source} for {architecture}: {name} {value}, at most {limit} expected")
    for key, (number, _) in rows.items():
        if key not in kernels and key[2] in built:
            wrong.append(f"{file}:{number}: there is no kernel {key[1]} in {key[0]} for {key[2]}; take the row out")
    return wrong


def write(kernels, nvcc, file):
    """Makes the table anew. Rows of architectures that were not built stay."""
    rows = dict(kernels)
    built = {architecture for _, _, architecture in kernels}
    if file.exists():
        nvcc_of_table, old = table_of(file)
        kept = {key: limits for key, (_, limits) in old.items() if key[2] not in built}
        if kept and nvcc_of_table != nvcc:
            others = " ".join(sorted({architecture for _, _, architecture in kept}))
            sys.exit(f"{file}: its rows of {others} are of nvcc {nvcc_of_table}, the build is of {nvcc}; build for these too")
        rows.update(kept)
    lines = (" ".join(map(str, (*key, *taken))) + "\n" for key, taken in sorted(rows.items()))
    file.write_text(f"{HEAD}nvcc {nvcc}\n" + "".join(lines), encoding="utf-8")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    kernels = reported(arguments.build)
    if not kernels:
        sys.exit(f"{arguments.build}: no kernel was built; build them with: cmake --build {arguments.build}")
    nvcc = nvcc_of(arguments.build)
    if arguments.write:
        return write(kernels, nvcc, TABLE)
    nvcc_of_table, rows = table_of(TABLE)
    if nvcc != nvcc_of_table:
        print(f"not compared: {TABLE.name} is of nvcc {nvcc_of_table}, the build of {nvcc}")
        return 0
    wrong = compare(kernels, rows, TABLE)
    print("\n".join(wrong) if wrong else f"{len(kernels)} kernels, each within its row of {TABLE.name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
