#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the size of the project beside its budget (the decisions have the reasons for what is over it). Judges nothing."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = {"backend": 13_000, "model": 5_000, "data": 10_500, "comm": 2_500, "trainer": 12_000, "launch": 7_000}
ALL, FILES, TESTS, WORDS, FILES_OF_A_FOLDER = 50_000, 560, 48_000, 50_000, 60
SOURCE = re.compile(r"\.(cc|h|cu|cuh|html|css|js)$")


def files():
    """The files of the tree, new ones among them; in an unpacked archive all but those of builds."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    names = listed.stdout.splitlines() if listed.returncode == 0 else [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")]
    return [name for name in names if not name.startswith("build/") and (ROOT / name).is_file()]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def main():
    names = files()
    product = [name for name in names if name.split("/")[0] in FOLDERS and SOURCE.search(name)]
    lines = {name: text(name).count("\n") for name in product}
    rows = [(folder, sum(count for name, count in lines.items() if name.startswith(folder + "/")), most) for folder, most in FOLDERS.items()]
    rows.append(("lines of product", sum(lines.values()), ALL))
    rows.append(("files of product", len(product), FILES))
    tests = [name for name in names if name.startswith("tests/") and (SOURCE.search(name) or name.endswith((".py", ".sh")))]
    rows.append(("lines of tests", sum(text(name).count("\n") for name in tests), TESTS))
    pages = [name for name in names if name.endswith(".md") and (name.startswith("docs/") or "/" not in name)]
    rows.append(("words of docs", sum(len(text(name).split()) for name in pages), WORDS))
    for what, count, most in rows:
        print(f"{what:18}{count:9,} of {most:7,}{'  over' if count > most else ''}")
    folders = {}
    for name in product:
        folder = name.rpartition("/")[0]
        folders[folder] = folders.get(folder, 0) + 1
    large = [f"{folder} {count}" for folder, count in sorted(folders.items()) if count > FILES_OF_A_FOLDER]
    print(f"folders of more than {FILES_OF_A_FOLDER} files: {', '.join(large) or 'none'}")


if __name__ == "__main__":
    main()
