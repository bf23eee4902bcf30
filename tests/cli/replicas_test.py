# SPDX-License-Identifier: Apache-2.0
"""Ranks whose state differs: a bit that flips in the memory of one of them."""

import glob
import os
import signal
import unittest

import support

# Learned positions that no sentence reaches have no gradients: their parameters are known, and what they hold
# reaches no other rank.
FAR_POSITION = 1000


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
class FlippedBits(support.RunTest):
    def words(self, name, ranks=3, **settings):
        return self.train(name, "--positions", "learned", digest_every=5, logical_shards=ranks, **settings)

    def start_and_flip(self, words, name, rank, ranks, trains):
        """Starts a run without an end and, when trains() is true, flips a bit in the parameters of one rank; returns the process."""
        process = support.start(support.command(*words, ranks=ranks))
        self.wait_for(trains, process)
        pattern = support.parameters(self.checkpoint(name, 4))["source_positions"][FAR_POSITION, :16].tobytes()
        pid = support.children_of(process.pid)[rank]
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
        process = self.start_and_flip(words, "stop", rank=1, ranks=3, trains=lambda: os.path.exists(self.checkpoint("stop", 4)))
        messages = self.end_of(process, 76)
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
        self.assertEqual(self.digests("stop"), self.digests("stop-whole"))

    def test_two_ranks_that_differ_have_no_majority_also_between_saves(self):
        self.succeed(*self.words("two", ranks=2, max_steps=4, save_every=0), ranks=2)
        words = self.words("two", ranks=2, max_steps=1000000, save_every=0)
        process = self.start_and_flip(words, "two", rank=1, ranks=2, trains=lambda: 5 in self.digests("two"))
        self.assertRegex(
            self.end_of(process, 76), r"after step \d+000 the ranks hold different bits: no majority of ranks agrees on the parameters: rank "
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
