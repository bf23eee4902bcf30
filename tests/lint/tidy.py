#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy, with the checks of .clang-tidy, on the sources that a build without groups of sources compiles.

    tests/lint/tidy.py [--all] [--jobs N] [--limit SECONDS] [--build FOLDER]

Those that changed since the last merge, or since the commit before where there was none, with one source for each changed
header, until the time is over. --all: every source, without an end. Ends with 1 where clang-tidy found something.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def git(*words):
    """What git prints, without the end of line; empty where it fails, as in an unpacked archive."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.rstrip("\n")


def base():
    """The commit that the changes are counted from."""
    head = git("rev-parse", "HEAD")
    for name in ("origin/main", "main"):
        commit = git("merge-base", "HEAD", name)
        if commit and commit != head:
            return commit
    return git("rev-parse", "--verify", "--quiet", "HEAD~1")


def changed():
    """Paths of what differs from the base, what is not committed yet among it."""
    commit = base()
    names = git("diff", "--name-only", commit, "--").splitlines() if commit else []
    return sorted({*names, *git("ls-files", "--others", "--exclude-standard").splitlines()})


def sources_of(build):
    """Path relative to the root -> its command, without options that g++ alone knows; of a file that is compiled several times the first."""
    sources = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.is_relative_to(ROOT) and not path.is_relative_to(build):
            command = re.sub(r" -m(?:move|store)-max=\d+", "", entry["command"])
            sources.setdefault(path.relative_to(ROOT).as_posix(), entry | {"command": command})
    return sources


def includer(header, sources):
    """A source that includes a header: that of its name, else the shortest; None where only headers do."""
    stem = header.rpartition(".")[0]
    if stem + ".cc" in sources:
        return stem + ".cc"
    line = re.compile(rf'^#include "{re.escape(header)}"', re.MULTILINE)
    found = [path for path in sources if line.search((ROOT / path).read_text(encoding="utf-8"))]
    return min(found, key=lambda path: (ROOT / path).stat().st_size, default=None)


def plan(sources, everything):
    """The sources to look at."""
    if everything:
        return sorted(sources)
    first = []
    for path in changed():
        source = includer(path, sources) if path.endswith((".h", ".cuh")) else path
        if source in sources and source not in first:
            first.append(source)
    return first


def look_at(path, folder):
    """What clang-tidy says of a source, or "" where that is nothing."""
    # Names of warnings that GCC alone has are on the command line.
    result = subprocess.run(
        ["clang-tidy", "--quiet", "-p", str(folder), "--extra-arg=-Wno-unknown-warning-option", str(ROOT / path)],
        cwd=ROOT, capture_output=True, text=True, check=False)  # fmt: skip
    said = result.stdout.replace(f"{ROOT}/", "")
    return "" if result.returncode == 0 else said or f"{path}:1: clang-tidy ended with {result.returncode}: {result.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=120, help="seconds after which no further source is begun")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/tidy")
    arguments = parser.parse_args()
    sources = sources_of(arguments.build.resolve())
    chosen = plan(sources, arguments.all)
    # One command for each file: clang-tidy takes a file once for each command that it has.
    folder = arguments.build / "lint"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(list(sources.values())), encoding="utf-8")

    begin = time.monotonic()
    left_out = []

    def in_time(path):
        if not arguments.all and time.monotonic() - begin > arguments.limit:
            left_out.append(path)
            return ""
        return look_at(path, folder)

    found = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for said in pool.map(in_time, chosen):
            if said:
                found += 1
                print(said, flush=True)
    print(f"{len(chosen) - len(left_out)} of {len(sources)} sources looked at; {found} with findings")
    if left_out:
        print(f"not looked at within {arguments.limit:.0f} s: {len(left_out)}, tests/lint.sh --all tidy does: {' '.join(left_out[:8])}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
