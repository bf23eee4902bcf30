# SPDX-License-Identifier: Apache-2.0
"""Ranks whose state differs: a bit that flips in the memory of one of them."""

import glob
import os
import signal
import subprocess
import time
import unittest

import support
from digest_test import DigestTest

# Learned positions that no sentence reaches have no gradients: their parameters are known, and what they hold
# reaches no other rank.
FAR_POSITION = 1000


def ranks_of(process):
    """Process ids of the ranks of an mpirun by rank."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            if parent != process.pid:
                continue
            with open(os.path.join(os.path.dirname(path), "environ"), "rb") as file:
                variables = dict(word.partition(b"=")[::2] for word in file.read().split(b"\0"))
        except OSError:  # it has ended
            continue
        if b"OMPI_COMM_WORLD_RANK" in variables:
            found[int(variables[b"OMPI_COMM_WORLD_RANK"])] = int(os.path.basename(os.path.dirname(path)))
    return found


# Of the memory that is looked through: a sanitizer keeps terabytes of addresses for itself.
LARGEST = 1 << 30


def flip_a_bit(pid, pattern):
    """Flips the lowest bit of the first byte of `pattern` wherever the memory of a stopped process holds it;
    returns how often."""
    flipped = 0
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in maps:
            span, permissions, _, _, _, *name = line.split()
            if not permissions.startswith("rw-p") or name and name[0].startswith("[v"):
                continue
            begin, end = (int(word, 16) for word in span.split("-"))
            if end - begin > LARGEST:
                continue
            memory.seek(begin)
            try:
                data = memory.read(end - begin)
            except OSError:
                continue
            at = data.find(pattern)
            while at >= 0:
                memory.seek(begin + at)
                memory.write(bytes([pattern[0] ^ 1]))
                flipped += 1
                at = data.find(pattern, at + len(pattern))
    return flipped


@unittest.skipUnless(support.MPIEXEC, "built without MPI")
class FlippedBits(DigestTest):
    OPTIONS = {"learned_positions": None, "check_ranks_every": 5, "digest_every": 5, "logical_shards": 3}

    def words(self, name, **options):
        return [word for word in self.train(name, **self.OPTIONS, **options) if word is not None]

    def start_and_flip(self, words, folder, rank, ranks):
        """Starts a run without an end and flips a bit in the parameters of one rank; returns the process."""
        process = subprocess.Popen(
            support.command(*words, ranks=ranks),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=support.environment(),
        )
        first = os.path.join(folder, "checkpoint-00000004.h5")
        deadline = time.monotonic() + 120
        while process.poll() is None and not os.path.exists(first) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertTrue(os.path.exists(first))
        pattern = support.parameters(first)["source_positions"][FAR_POSITION, :16].tobytes()
        pid = ranks_of(process)[rank]
        os.kill(pid, signal.SIGSTOP)
        try:
            flipped = flip_a_bit(pid, pattern)
        except PermissionError:
            process.kill()
            process.communicate()
            self.skipTest("the memory of another process may not be written here")
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertGreater(flipped, 0)
        return process

    def test_a_rank_that_differs_ends_the_job_and_is_named(self):
        words = self.words("stop", max_steps=1000000, save_every=4)
        process = self.start_and_flip(words, self.path("stop"), rank=1, ranks=3)
        _, messages = process.communicate(timeout=120)
        messages = messages.decode(errors="replace")
        self.assertEqual(process.returncode, 76, messages)
        self.assertRegex(
            messages,
            r"after step \d+ the ranks hold different bits: rank 1 on \S+ holds other parameters than the majority, "
            r"ranks 0 on \S+ and 2 on \S+",
        )
        self.assertEqual(messages.count("error: "), 1, messages)
        # What the run goes on from is from before the fault.
        steps = sorted(int(path[-11:-3]) for path in glob.glob(self.path("stop", "checkpoint-*.h5")))
        self.succeed(*self.words("stop", max_steps=steps[-1] + 5, save_every=0), ranks=3)
        self.succeed(*self.words("stop-whole", max_steps=steps[-1] + 5, save_every=0), ranks=3)
        self.assertEqual(self.logged("stop"), self.logged("stop-whole"))

    def test_two_ranks_that_differ_have_no_majority(self):
        options = {"max_steps": 1000000, "save_every": 4}
        words = [word for word in self.train("two", **{**self.OPTIONS, "logical_shards": 2}, **options) if word is not None]
        process = self.start_and_flip(words, self.path("two"), rank=1, ranks=2)
        _, messages = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 76, messages)
        self.assertIn(b"no majority of ranks agrees on the parameters: rank ", messages)


if __name__ == "__main__":
    unittest.main(verbosity=2)
