# SPDX-License-Identifier: Apache-2.0
"""The digest of the parameters: in files, in the log, and after runs that were interrupted."""

import ctypes
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import unittest

import h5py

import support


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def xxh3_128(data):
    """As hexadecimal digits, from the library itself."""
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_128bits.restype = Hash128
    library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    value = library.XXH3_128bits(data, len(data))
    return f"{value.high:016x}{value.low:016x}"


USER_BLOCK = 512  # of our HDF5 files


def seal_hdf5(path):
    """Makes length and digest of a changed HDF5 file right again, or the block that they are in, if it is empty."""
    with open(path, "r+b") as file:
        file.seek(USER_BLOCK)
        content = file.read()
        file.seek(0)
        file.write(b"VENTRIS1" + len(content).to_bytes(8, "little") + bytes.fromhex(xxh3_128(content)))


def digest_of(path):
    """What docs/formats.md says that the digest of a file's parameters is."""
    data = b""
    for name, values in sorted(support.parameters(path).items()):
        rows, cols = values.shape if values.ndim == 2 else (1, values.size)
        data += name.encode() + b"\0" + struct.pack("<qq", rows, cols) + values.tobytes()
    return xxh3_128(data)


def recorded_digest(path):
    with h5py.File(path, "r") as file:
        return file.attrs["parameter_digest"].decode()


class DigestTest(support.CommandLineTest):
    """Runs of a tiny model."""

    MODEL = dict(zip(support.TINY_MODEL[::2], support.TINY_MODEL[1::2]))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def train(self, name, **options):
        """The words of a run in the folder `name`; options take the place of those of the model."""
        settings = {**self.MODEL, **{"--" + key.replace("_", "-"): value for key, value in options.items()}}
        flat = [word for pair in settings.items() for word in pair]
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), *flat]

    def checkpoint(self, name, step):
        return self.path(name, f"checkpoint-{step:08d}.h5")

    def logged(self, name):
        """The digests in metrics.jsonl by step."""
        lines = [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]
        return {line["step"]: line["digest"] for line in lines if "digest" in line}


class Digests(DigestTest):
    def test_files_record_the_digest_of_their_parameters(self):
        self.succeed(*self.train("files", max_steps=3, ema=0.9))
        checkpoint = self.checkpoint("files", 3)
        digest = digest_of(checkpoint)
        self.assertEqual(recorded_digest(checkpoint), digest)
        self.assertIn(f"\nparameter digest: {digest}\n", self.succeed("inspect", checkpoint).decode())
        self.assertEqual(json.loads(self.succeed("inspect", checkpoint, "--json"))["parameter_digest"], digest)
        for command in (["export", "--model", checkpoint], ["average", "--model-dir", self.path("files"), "--last", 1]):
            weights = self.path(command[0] + ".h5")
            self.succeed(*command, "--output", weights)
            self.assertEqual(recorded_digest(weights), digest_of(weights))
        # 'average' takes the parameters themselves, 'export' their moving average.
        self.assertEqual(recorded_digest(self.path("average.h5")), digest)
        self.assertNotEqual(recorded_digest(self.path("export.h5")), digest)
        self.assertNotIn(b"digest:", self.succeed("inspect", self.corpus).splitlines()[-1])

    def test_the_log_and_the_metrics_have_the_digest_after_a_step(self):
        result = support.run(*self.train("log", max_steps=6, digest_every=2, save_every=3, log_every=4))
        logged = self.logged("log")
        self.assertEqual(list(logged), [2, 4, 6])
        self.assertEqual(len(set(logged.values())), 3)
        self.assertEqual(
            re.findall(r"step (\d+) digest ([0-9a-f]{32})\n", result.stderr.decode()),
            [(str(step), digest) for step, digest in logged.items()],
        )
        self.assertEqual(recorded_digest(self.checkpoint("log", 6)), logged[6])
        self.succeed(*self.train("none", max_steps=6))
        self.assertEqual(self.logged("none"), {})
        self.assertEqual(recorded_digest(self.checkpoint("none", 6)), logged[6])


class Replays(DigestTest):
    def files_of(self, name):
        """Names, bytes and times of a run folder."""
        found = {}
        for entry in os.scandir(self.path(name)):
            found[entry.name] = (self.read(entry.path), entry.stat().st_mtime_ns)
        return found

    def test_a_replay_has_the_digests_of_the_log_and_of_checkpoints(self):
        self.succeed(
            *self.train("run", max_steps=9, save_every=3, digest_every=2, ema=0.9, valid_every=3, valid_bleu="no",
                        valid_metric="loss")
        )  # fmt: skip
        before = self.files_of("run")
        lines = self.succeed("replay", "--checkpoint", self.checkpoint("run", 3)).decode().splitlines()
        logged = self.logged("run")
        self.assertEqual(
            lines,
            [
                f"step 4  {logged[4]}  equal to metrics.jsonl",
                f"step 6  {logged[6]}  equal to metrics.jsonl, equal to checkpoint-00000006.h5",
                f"step 8  {logged[8]}  equal to metrics.jsonl",
                f"step 9  {recorded_digest(self.checkpoint('run', 9))}  equal to checkpoint-00000009.h5",
            ],
        )
        result = json.loads(
            self.succeed("replay", "--checkpoint", self.checkpoint("run", 6), "--steps", 2, "--json", "--threads", 2)
        )
        self.assertTrue(result["agrees"])
        self.assertEqual([(step["step"], step["digest"]) for step in result["steps"]], [(8, logged[8])])
        self.assertEqual(self.files_of("run"), before)

    def test_a_replay_removes_what_a_killed_one_left(self):
        self.succeed(*self.train("left", save_every=2, max_steps=4))
        temporary = self.path("temporary")
        os.makedirs(temporary)
        gone = subprocess.Popen(["true"])
        gone.wait()
        for process in (gone.pid, os.getpid()):
            os.makedirs(os.path.join(temporary, f"ventris-replay.tmp.{socket.gethostname()}.{process}.0123456789abcdef", "x"))
        self.succeed("replay", "--checkpoint", self.checkpoint("left", 2), variables={"TMPDIR": temporary})
        self.assertEqual([name.split(".")[-2] for name in os.listdir(temporary)], [str(os.getpid())])

    def test_a_replay_that_differs_says_where_first(self):
        self.succeed(*self.train("changed", max_steps=6, save_every=2, digest_every=1))
        path = self.path("changed", "metrics.jsonl")
        wrong = "0" * 32
        self.write("changed/metrics.jsonl", self.read(path).replace(self.logged("changed")[5].encode(), wrong.encode()))
        result = support.run("replay", "--checkpoint", self.checkpoint("changed", 4))
        self.assertEqual(result.returncode, 76, result.stderr)
        lines = result.stdout.decode().splitlines()
        self.assertRegex(lines[0], rf"^step 5  [0-9a-f]{{32}}  differs from metrics.jsonl, which has {wrong}$")
        self.assertRegex(lines[1], r"^step 6  [0-9a-f]{32}  equal to metrics.jsonl, equal to checkpoint-00000006.h5$")
        self.assertIn(b"1 of 2 compared steps", result.stderr)
        self.assertIn(b"first in step 5", result.stderr)

    def test_what_cannot_be_replayed(self):
        self.succeed(*self.train("last", max_steps=2))
        last = self.checkpoint("last", 2)
        self.refuse(66, "replay", "--checkpoint", last, says=["no digest to compare with", "--digest-every"])
        self.refuse(64, "replay", says="--checkpoint")
        alone = self.path("alone")
        os.mkdir(alone)
        shutil.copy(last, alone)
        self.refuse(66, "replay", "--checkpoint", os.path.join(alone, os.path.basename(last)), says="config.json")
        self.refuse(66, "replay", "--checkpoint", last, "--corpus", self.path("none.h5"), says="none.h5")
        self.refuse(65, "replay", "--checkpoint", self.path("last", "metrics.jsonl"), says="metrics.jsonl")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_two_ranks_are_replayed_by_two_ranks(self):
        self.succeed(*self.train("two", max_steps=6, save_every=2, digest_every=1, logical_shards=4), ranks=2)
        before = self.files_of("two")
        lines = self.succeed("replay", "--checkpoint", self.checkpoint("two", 2), ranks=2).decode().splitlines()
        self.assertEqual([line.split()[1] for line in lines], ["3", "4", "5", "6"])
        self.assertEqual([line.split()[2] for line in lines], [self.logged("two")[step] for step in (3, 4, 5, 6)])
        self.assertEqual(self.files_of("two"), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
