# SPDX-License-Identifier: Apache-2.0
"""The digest of the parameters: in files, in the log, and after runs that were interrupted."""

import ctypes
import json
import re
import struct
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
    """Gives a changed HDF5 file the user block of a file with one digest of all bytes."""
    with open(path, "r+b") as file:
        file.seek(USER_BLOCK)
        content = file.read()
        file.seek(0)
        block = b"VENTRIS1" + len(content).to_bytes(8, "little") + bytes.fromhex(xxh3_128(content))
        file.write(block.ljust(USER_BLOCK, b"\0"))


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


class Digests(support.RunTest):
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
        logged = self.digests("log")
        self.assertEqual(list(logged), [2, 4, 6])
        self.assertEqual(len(set(logged.values())), 3)
        self.assertEqual(
            re.findall(r"step (\d+) digest ([0-9a-f]{32})\n", result.stderr.decode()),
            [(str(step), digest) for step, digest in logged.items()],
        )
        self.assertEqual(recorded_digest(self.checkpoint("log", 6)), logged[6])
        self.succeed(*self.train("none", max_steps=6))
        self.assertEqual(self.digests("none"), {})
        self.assertEqual(recorded_digest(self.checkpoint("none", 6)), logged[6])


if __name__ == "__main__":
    unittest.main(verbosity=2)
