# SPDX-License-Identifier: Apache-2.0
"""docs/screenshots.py: pictures of the pages of a run, by Chromium; docs/small_png.py, which makes them small."""

import os
import random
import shutil
import struct
import subprocess
import sys
import unittest
import zlib

import support

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(support.SOURCE_DIR, "docs"))
import small_png  # noqa: E402

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
SCRIPT = os.path.join(support.SOURCE_DIR, "docs", "screenshots.py")
PICTURES = ("report-light", "report-dark", "report-translations", "report-attention", "attention-search")


def png_of(rows, size):
    """A PNG of rows of pixels of `size` bytes; row i has the filter i % 5 (PNG specification, section 9)."""

    def predicted(kind, left, up, corner):
        if kind == 4:
            return min((abs(up - corner), 0, left), (abs(left - corner), 1, up), (abs(left + up - 2 * corner), 2, corner))[2]
        return (0, left, up, (left + up) // 2)[kind]

    raw, above = b"", bytes(len(rows[0]) * size)
    for y, pixels in enumerate(rows):
        row = b"".join(bytes(pixel) for pixel in pixels)
        before = [0] * size + list(row)
        corners = [0] * size + list(above)
        line = (value - predicted(y % 5, before[i], above[i], corners[i]) for i, value in enumerate(row))
        raw += bytes([y % 5, *(value & 255 for value in line)])
        above = row
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, {3: 2, 4: 6}[size], 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    return small_png.SIGNATURE + b"".join(small_png.chunk(kind, data) for kind, data in parts)


def colours_of(png):
    """The colours of the pixels of a PNG with a palette and without filters, by rows."""
    parts = dict(small_png.chunks(png))
    width, height = struct.unpack(">II", parts[b"IHDR"][:8])
    raw = zlib.decompress(parts[b"IDAT"])
    palette = [tuple(parts[b"PLTE"][i : i + 3]) for i in range(0, len(parts[b"PLTE"]), 3)]
    return [[palette[i] for i in raw[y * (width + 1) + 1 : (y + 1) * (width + 1)]] for y in range(height)]


class SmallPng(unittest.TestCase):
    def test_few_colours_stay_as_they_are(self):
        draw = random.Random(5)
        for size in (3, 4):
            palette = [tuple(draw.randrange(256) for _ in range(3)) + (255,) * (size - 3) for _ in range(200)]
            rows = [[draw.choice(palette) for _ in range(31)] for _ in range(23)]
            self.assertEqual(colours_of(small_png.smaller(png_of(rows, size))), [[pixel[:3] for pixel in row] for row in rows])
        self.assertEqual(colours_of(small_png.smaller(png_of([[(1, 2, 3)]], 3))), [[(1, 2, 3)]])

    def test_of_many_colours_the_frequent_stay_and_the_others_become_similar(self):
        draw = random.Random(6)
        rows = [[tuple(draw.randrange(256) for _ in range(3)) if x < 40 else (20, 23, 28) for x in range(80)] for _ in range(60)]
        for row, found in zip(rows, colours_of(small_png.smaller(png_of(rows, 3)))):
            self.assertEqual(found[40:], row[40:])
            for a, b in zip(row, found):
                self.assertLess(max(abs(x - y) for x, y in zip(a, b)), 128)

    def test_other_pictures_are_refused(self):
        with self.assertRaises(ValueError):
            small_png.smaller(b"GIF89a")


class Screenshots(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        at = support.TINY_MODEL.index("--valid-every")
        model = support.TINY_MODEL[:at] + support.TINY_MODEL[at + 2 :]
        corpus = cls.prepare_demo()
        for name, options in (("drawn", ("--keep-valid-outputs", "--keep-checkpoints", 5)), ("bare", ())):
            result = support.run("train", "--corpus", corpus, "--model-dir", os.path.join(cls.folder, name), *model, "--max-steps", 40,
                                 "--valid-every", 10, "--valid-beam-size", 1, "--save-every", 10, *options)  # fmt: skip
            assert result.returncode == 0, result.stderr.decode(errors="replace")

    def script(self, *words):
        words = [sys.executable, "-B", SCRIPT, "--program", support.BINARY, *map(str, words)]
        return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, cwd=self.folder)

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_pictures_of_a_run(self):
        result = self.script("drawn", "bare", "--output-dir", self.folder, "--sentence", "half past seven", "--reference", "halb acht")
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in PICTURES:
            data = self.read(self.path(name + ".png"))
            self.assertLess(len(data), 150_000)
            self.assertGreater(len({pixel for row in colours_of(data) for pixel in row}), 30, name)
        light, dark = (colours_of(self.read(self.path(f"report-{name}.png")))[0][0] for name in ("light", "dark"))
        self.assertEqual((light, dark), ((255, 255, 255), (20, 23, 28)))

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_what_is_missing_is_named(self):
        for words, says in ((("bare",), "--keep-valid-outputs"), (("nowhere",), "nowhere is no run folder"),
                            (("drawn", "drawn"), "different names"), (("drawn", "--sentence", "x"), "go together")):  # fmt: skip
            result = self.script(*words)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(says, result.stderr)
            self.assertNotIn("Traceback", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
