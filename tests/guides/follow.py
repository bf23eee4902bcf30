#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows the guides of docs/dev/extending.md literally, in their order, in a copy of the tree.

    tests/guides/follow.py [--from BUILD]   with the objects of a build (build/release); compiled are the sources that the guides
                                            make or change, and what includes a header of GROWN. To other headers they only add, to structs
                                            and lists at the end: other objects fit.
                                            What is for nvcc is left out: it takes minutes.

A block of the page is an instruction, and the end of the text before it says which:
    New file `PATH`:                                       its contents
    In `PATH`, (after|before|in place of) the [first|last] line [that begins with] `TEXT`:   lines to put there; spaces around a
                                                           line do not count for finding it
    Run:   Run, where PROGRAM is:                          commands of bash, in the root of the tree
    It prints:                                             all that the commands before wrote to the standard output, where ...
                                                           stands for anything

Ends with 1 and one error, naming guide, step and line, where that cannot be done: the page or the tree must follow the other.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mutants"))
from tree import tracked_files

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = "docs/dev/extending.md"
PRESET_FOLDER = "build/release"  # of the commands in the page
LONGEST = 3600  # seconds of one block of commands
# Sources that are made from a list in a header.
MADE_FROM = {"backend/ops/op_list.h": ["backend/cpu/kernel_table.cc"]}

GROWN = ("trainer/train_options.h",)  # headers with a struct whose size the guides change

CODE = r"`(?:` )?(?P<{}>.+?)(?: `)?`"
NEW_FILE = re.compile("New file " + CODE.format("path") + ":$")
EDIT = re.compile(
    "In " + CODE.format("path") + ", (?P<where>after|before|in place of) the (?:(?P<which>first|last) )?line (?P<begins>that begins with )?"
    + CODE.format("text") + ":$"
)  # fmt: skip
RUN = re.compile(r"Run(?:, where (?P<program>[\w-]+) is)?:$")
PRINTS = re.compile("It prints:$")


class Stale(Exception):
    """The page and the tree do not fit."""


class Block:
    """A fenced block of the page, and the text that stands before it."""

    def __init__(self, guide, step, line, text, lines):
        self.place = f"{PAGE}:{line}: {guide}, step {step}"
        self.text = text
        self.lines = lines

    def contents(self):
        return "".join(line + "\n" for line in self.lines)

    def fail(self, what):
        raise Stale(f"{self.place}: {what}")


def blocks_of(page):
    """The blocks of a page in their order. The guides are its headings of the second level, the steps those of the third."""
    guide = step = "none"
    text, fence, lines = "", None, []
    for number, line in enumerate(page.splitlines(), 1):
        if fence is not None:
            if line.startswith("```"):
                yield Block(guide, step, fence, text, lines)
                text, fence, lines = "", None, []
            else:
                lines.append(line)
        elif line.startswith("```"):
            fence = number
        elif line.startswith("## "):
            guide, step, text = line.removeprefix("## "), "none", ""
        elif line.startswith("### "):
            step, text = line.removeprefix("### ").split(".")[0], ""
        else:
            text = f"{text} {line}".strip() if line else text
    if fence is not None:
        raise Stale(f"{PAGE}:{fence}: the block has no end")


class Copy:
    def __init__(self, folder, reused):
        """`reused`: the build folder whose objects are taken."""
        self.folder = folder
        self.reused = reused
        self.compiled = folder / "build" / "compiled.txt"
        self.output = ""
        parallel = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "2")
        own = {"CCACHE_BASEDIR": folder, "CCACHE_NOHASHDIR": 1, "CMAKE_BUILD_PARALLEL_LEVEL": parallel}
        self.environment = {**os.environ, **{name: str(value) for name, value in own.items()}}
        for path in tracked_files(ROOT):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, folder / path)
        self.compiled.parent.mkdir(exist_ok=True)
        self.compiled.touch()
        self.grown = self.compiled.with_name("grown.txt")
        self.grown.write_text("".join(self._objects_of_grown()), encoding="utf-8")
        self.environment |= {"VENTRIS_REUSED": str(reused), "VENTRIS_COMPILED": str(self.compiled), "VENTRIS_GROWN": str(self.grown)}
        self._take_configuration()

    def _objects_of_grown(self):
        """Lines with an object and a header of GROWN that it includes."""
        listing = subprocess.run(["ninja", "-C", self.reused, "-t", "deps"], capture_output=True, text=True, check=True).stdout
        target = ""
        for line in listing.splitlines():
            if line and not line.startswith(" "):
                target = line.split(": #deps")[0]
                continue
            for header in GROWN:
                if os.path.normpath(self.reused / line.strip()) == str(ROOT / header):
                    yield f"{target} {self.folder / header}\n"

    def _take_configuration(self):
        """Options, and what was found of the machine."""
        build = self.folder / PRESET_FOLDER
        build.mkdir()
        cache = (self.reused / "CMakeCache.txt").read_text(encoding="utf-8")
        for old, new in ((self.reused, build), (ROOT, self.folder)):
            cache = re.sub(rf"{re.escape(str(old))}(?![\w.-])", str(new), cache)
        (build / "CMakeCache.txt").write_text(cache, encoding="utf-8")
        # The groups of sources (cmake/source_groups.cmake): new sources are beside them.
        (build / "groups").mkdir()
        for group in (self.reused / "groups").glob("*"):
            members = group.read_text(encoding="utf-8").replace(f'"{self.reused}/', f'"{build}/').replace(f'"{ROOT}/', f'"{self.folder}/')
            (build / "groups" / group.name).write_text(members, encoding="utf-8")
        for compilers in (self.reused / "CMakeFiles").glob("[0-9]*"):
            shutil.copytree(compilers, build / "CMakeFiles" / compilers.name)
        self.launchers = []
        for language in ("CXX", "CUDA"):
            before = re.search(rf"^CMAKE_{language}_COMPILER_LAUNCHER:\w+=(.+)$", cache, re.MULTILINE)
            words = [str(self.folder / "tests" / "guides" / "reuse.sh"), *([before[1]] if before else [])]
            self.launchers.append(f"-DCMAKE_{language}_COMPILER_LAUNCHER={';'.join(words)}")

    def configure(self):
        command = ["cmake", "-S", self.folder, "-B", self.folder / PRESET_FOLDER, *self.launchers]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise Stale(f"the copy of the tree cannot be configured:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")

    def follow(self, block):
        if found := NEW_FILE.search(block.text):
            self._make(block, found["path"])
        elif found := EDIT.search(block.text):
            self._edit(block, found)
        elif found := RUN.search(block.text):
            program = found["program"]
            if not program or (shutil.which(program) and program != "nvcc"):
                self._run(block)
        elif PRINTS.search(block.text):
            self._compare(block)
        else:
            block.fail(f"what is to be done with the block? Before it stands '{block.text[-60:]}'; tests/guides/follow.py says what can")

    def _changed(self, path):
        with open(self.compiled, "a", encoding="utf-8") as file:
            for source in [path, *MADE_FROM.get(path, [])]:
                file.write(f"{self.folder / source}\n")

    def _make(self, block, name):
        path = self.folder / name
        if path.exists():
            block.fail(f"{name} is in the tree already; the example needs another name")
        if not path.parent.is_dir():
            block.fail(f"the tree has no folder {os.path.dirname(name)}")
        path.write_text(block.contents(), encoding="utf-8")
        self._changed(name)

    def _edit(self, block, found):
        path = self.folder / found["path"]
        if not path.is_file():
            block.fail(f"the tree has no file {found['path']}")
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        wanted = found["text"].strip()
        fits = (lambda line: line.startswith(wanted)) if found["begins"] else (lambda line: line == wanted)
        at = [i for i, line in enumerate(lines) if fits(line.strip())]
        what = f"line that begins with '{wanted}'" if found["begins"] else f"line '{wanted}'"
        if not at:
            block.fail(f"{found['path']} has no {what}")
        if len(at) > 1 and not found["which"]:
            block.fail(f"{found['path']} has {len(at)} times a {what}, expected once: lines {', '.join(str(i + 1) for i in at)}")
        place = at[-1] if found["which"] == "last" else at[0]
        begin, end = {"before": (place, place), "after": (place + 1, place + 1), "in place of": (place, place + 1)}[found["where"]]
        lines[begin:end] = [block.contents()]
        path.write_text("".join(lines), encoding="utf-8")
        self._changed(found["path"])

    def _run(self, block):
        print(f"{block.place}: {'; '.join(block.lines)}", flush=True)
        command = ["bash", "-euo", "pipefail", "-c", block.contents()]
        try:
            done = subprocess.run(command, cwd=self.folder, env=self.environment, timeout=LONGEST, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, errors="replace")  # fmt: skip
        except subprocess.TimeoutExpired:
            block.fail(f"the commands took more than {LONGEST} s")
        if done.returncode != 0:
            block.fail(f"the commands ended with {done.returncode}:\n{block.contents()}{done.stdout[-6000:]}{done.stderr[-6000:]}")
        self.output = done.stdout

    def _compare(self, block):
        expected = ".*".join(map(re.escape, block.contents().split("...")))
        if not re.fullmatch(expected, self.output, re.DOTALL):
            block.fail(f"expected was\n{block.contents()}and the commands printed\n{self.output}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="reused", metavar="BUILD", type=pathlib.Path, default=ROOT / PRESET_FOLDER,
                        help="the build folder whose objects are taken (build/release)")  # fmt: skip
    reused = parser.parse_args().reused.resolve()
    if not (reused / "CMakeCache.txt").is_file():
        sys.exit(f"{reused}: not a build folder; build one with: cmake --preset release && cmake --build --preset release")
    with tempfile.TemporaryDirectory(prefix="ventris-guides-") as folder:
        try:
            blocks = list(blocks_of((ROOT / PAGE).read_text(encoding="utf-8")))
            if not blocks:
                raise Stale(f"{PAGE} has no blocks")
            copy = Copy(pathlib.Path(folder).resolve(), reused)
            copy.configure()
            for block in blocks:
                copy.follow(block)
        except Stale as error:
            sys.exit(f"error: {error}")
    print(f"{PAGE}: {len(blocks)} blocks were followed")


if __name__ == "__main__":
    main()
