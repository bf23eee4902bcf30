#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a command costs in time, memory and disk while it writes a file, as one line.

    python3 tests/bench/prepare_cost.py --pairs 4500000 -- build/release/ventris prepare ... --output folder/corpus.h5

Looks at the process and its children every 50 ms: the peak resident memory of the process and of any child, and the disk taken by regular
files that they hold open, with or without a name, and by those beside the output, without those that were there before. The processor time
is that of all of them.
"""
import argparse
import os
import resource
import stat
import subprocess
import sys
import time

INTERVAL = 0.05
BLOCK = 512  # bytes of st_blocks


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            own = [int(child) for child in file.read().split()]
    except OSError:
        return []
    return own + [grandchild for child in own for grandchild in children_of(child)]


def peak_memory(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("VmHWM")), 0)
    except OSError:
        return 0


def add_file(files, path):
    """Adds a regular file that takes space on a disk."""
    try:
        status = os.stat(path)
    except OSError:
        return
    if stat.S_ISREG(status.st_mode):
        files[status.st_dev, status.st_ino] = status.st_blocks * BLOCK


def add_files(files, folder):
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        add_file(files, os.path.join(folder, name))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("words", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    output = os.path.abspath(words[words.index("--output") + 1])
    given = {os.path.realpath(word) for word in words if os.path.isfile(word)}
    before = {}
    add_files(before, os.path.dirname(output))
    for path in given:
        add_file(before, path)
    begin = time.monotonic()
    with subprocess.Popen(words) as process:
        peaks = {"itself": 0, "a child": 0}
        most_disk = 0
        while process.poll() is None:
            files = {}
            family = [process.pid, *children_of(process.pid)]
            for pid in family:
                who = "itself" if pid == process.pid else "a child"
                peaks[who] = max(peaks[who], peak_memory(pid))
                add_files(files, f"/proc/{pid}/fd")
            add_files(files, os.path.dirname(output))
            most_disk = max(most_disk, sum(size for key, size in files.items() if key not in before))
            time.sleep(INTERVAL)
    if process.returncode != 0:
        sys.exit(process.returncode)
    seconds = time.monotonic() - begin
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = usage.ru_utime + usage.ru_stime
    written = os.stat(output).st_blocks * BLOCK
    print(f"{seconds:.1f} s, {arguments.pairs / seconds:,.0f} pairs/s, {used:.1f} s of processor time, {1e6 * used / arguments.pairs:.1f} us "
          f"a pair; at most {peaks['itself'] / 1024:.0f} MiB itself, {peaks['a child'] / 1024:.0f} MiB in a child, {most_disk / 1e6:.0f} MB of "
          f"disk for {written / 1e6:.0f} MB ({most_disk / max(written, 1):.2f}); load {os.getloadavg()[0]:.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
