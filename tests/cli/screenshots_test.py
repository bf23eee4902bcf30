# SPDX-License-Identifier: Apache-2.0
"""docs/screenshots.py: pictures of the pages of a run, by Chromium; docs/small_png.py, which makes them small."""

import os
import struct
import subprocess
import sys
import unittest
import zlib

import support
from pages import BROWSER

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(support.SOURCE_DIR, "docs"))
import small_png  # noqa: E402

PICTURES = ("report-light", "report-dark", "report-translations", "report-attention", "attention-search")


def colours_of(png):
    """The colours of the pixels of a PNG with a palette and without filters, by rows."""
    parts = dict(small_png.chunks(png))
    width, height = struct.unpack(">II", parts[b"IHDR"][:8])
    raw = zlib.decompress(parts[b"IDAT"])
    palette = [tuple(parts[b"PLTE"][i : i + 3]) for i in range(0, len(parts[b"PLTE"]), 3)]
    return [[palette[i] for i in raw[y * (width + 1) + 1 : (y + 1) * (width + 1)]] for y in range(height)]


@unittest.skipUnless(BROWSER, "no Chromium")
class Screenshots(support.RunTest):
    def script(self, *words):
        script = os.path.join(support.SOURCE_DIR, "docs", "screenshots.py")
        words = [sys.executable, "-B", script, "--program", support.BINARY, *map(str, words)]
        return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False, cwd=self.folder)

    def test_pictures_of_a_run(self):
        for name, options in (("drawn", ("--keep-valid-outputs",)), ("bare", ())):
            self.succeed(*self.train(name, *options, max_steps=40, valid_every=10, valid_beam_size=1, save_every=10, keep_checkpoints=5))
        result = self.script("drawn", "bare", "--output-dir", self.folder, "--sentence", "half past seven", "--reference", "halb acht")
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in PICTURES:
            data = self.read(self.path(name + ".png"))
            self.assertLess(len(data), 150_000)
            self.assertGreater(len({pixel for row in colours_of(data) for pixel in row}), 30, name)
        light, dark = (colours_of(self.read(self.path(f"report-{name}.png")))[0][0] for name in ("light", "dark"))
        self.assertEqual((light, dark), ((255, 255, 255), (20, 23, 28)))
        result = self.script("bare")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("--keep-valid-outputs", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
