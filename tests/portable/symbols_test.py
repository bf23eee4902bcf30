# SPDX-License-Identifier: Apache-2.0
"""Nothing that is compiled for AVX-512 can be taken for the rest of the program.

The kernels of each set of instructions are one object that exports its table alone; in no other object of our libraries, and in no
function of the program that has a global name, are registers of AVX-512. Ends with 1 and what is wrong.
"""

import argparse
import collections
import os
import re
import subprocess
import sys

AVX512 = re.compile(r"%zmm|%[xy]mm(?:1[6-9]|2[0-9]|3[01])\b|%k[0-7]\b")


def lines_of(*command):
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        yield from process.stdout
    if process.returncode != 0:
        sys.exit(f"error: {' '.join(command)} ended with {process.returncode}")


def exported(nm, path):
    """Names that an object defines for others."""
    return {line.split()[-1] for line in lines_of(nm, "--extern-only", "--defined-only", path) if len(line.split()) == 3}


def table_of(path):
    return "ventris_" + os.path.basename(path).removesuffix(".o")


def is_for_avx512(path):
    return "avx512" in os.path.basename(path)


def members_with_avx512(objdump, library):
    """How many lines of the disassembly of each object in a library have such registers, where any has."""
    found = collections.Counter()
    member = None
    for line in lines_of(objdump, "-d", "--no-show-raw-insn", library):
        if ":     file format" in line:
            member = line.split(":")[0]
        elif AVX512.search(line):
            found[member] += 1
    return found


def functions_with_avx512(objdump, program):
    """Addresses and names of functions with such registers."""
    found = set()
    function = None
    for line in lines_of(objdump, "-d", "--no-show-raw-insn", program):
        start = re.match(r"([0-9a-f]+) <(.*)>:", line)
        if start:
            function = (int(start[1], 16), start[2])
        elif AVX512.search(line):
            found.add(function)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", required=True)
    parser.add_argument("--objdump", required=True)
    parser.add_argument("--program")
    parser.add_argument("--kernels", nargs="+", required=True)
    parser.add_argument("--libraries", nargs="*", default=[])
    arguments = parser.parse_args()
    wrong = []

    for path in arguments.kernels:
        names = exported(arguments.nm, path)
        if names != {table_of(path)}:
            more = sorted(names - {table_of(path)})
            wrong.append(f"{path} exports {len(names)} names, not {table_of(path)} alone; among them {more[:3]}")

    seen = set()
    for library in arguments.libraries:
        for member, count in members_with_avx512(arguments.objdump, library).items():
            seen.add(member)
            if not is_for_avx512(member):
                wrong.append(f"{library}: {member} has {count} lines with registers of AVX-512")
    if arguments.libraries:
        for path in filter(is_for_avx512, arguments.kernels):
            if os.path.basename(path) not in seen:
                wrong.append(f"{os.path.basename(path)} is in no library, or has no registers of AVX-512: the test sees nothing")

    functions = set()
    if arguments.program:
        functions = functions_with_avx512(arguments.objdump, arguments.program)
        if not functions:
            wrong.append(f"{arguments.program} has no function with registers of AVX-512: the test sees nothing")
        shared = {int(line.split()[0], 16) for line in lines_of(arguments.nm, "--extern-only", "--defined-only", arguments.program)
                  if len(line.split()) == 3}  # fmt: skip
        for address, name in sorted(functions):
            if address in shared:
                wrong.append(f"{arguments.program}: {name}, a global name, has registers of AVX-512")

    for line in wrong:
        print(line)
    print(f"{len(arguments.kernels)} objects of kernels, {len(arguments.libraries)} libraries, {len(functions)} functions with "
          f"registers of AVX-512: {len(wrong)} are wrong")  # fmt: skip
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
