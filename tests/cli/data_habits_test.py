# SPDX-License-Identifier: Apache-2.0
"""The command lines of docs/data.md, run in their order on small files."""

import gzip
import lzma
import os
import pathlib
import random
import re
import subprocess
import sys
import unittest

import support

PAGE = pathlib.Path(support.SOURCE_DIR, "docs", "data.md")

# In the place of the program: numbers for small files, and a model and batches so small that a step takes milliseconds. The rest of
# a command line stays as the page has it.
STAND_IN = f"""#!{sys.executable}
import os, sys

words = sys.argv[1:]
def put(option, value, always):
    if option in words:
        words[words.index(option) + 1] = value
    elif always:
        words.extend([option, value])

if words[0] == "prepare":
    put("--vocab-size", "600", False)
    put("--source-vocab-size", "400", False)
    put("--target-vocab-size", "400", False)
elif words[0] in ("train", "plan"):
    put("--preset", "tiny", True)
    put("--max-steps", "4", True)
    words += {support.TINY_MODEL!r}
    put("--valid-every", "4", True)
elif words[0] == "translate":
    words += ["--min-length", "4", "--max-length", "12"]
os.execv({support.BINARY!r}, [{support.BINARY!r}, *words])
"""


class DataHabits(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare_demo(train_pairs=600)
        demo = pathlib.Path(cls.folder, "demo")
        english, german = ((demo / f"train.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de"))
        test = [(demo / f"test.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
        numbers = random.Random(1)
        kana = [chr(numbers.randrange(0x3042, 0x3094)) for _ in range(60)]
        japanese = ["".join(numbers.choices(kana, k=12)) + "。" for _ in range(200)]
        files = {
            "clean.en": english[:200],
            "clean.de": german[:200],
            # Pairs of clean and of the test set too.
            "crawl.en.gz": english[150:350] + test[0][:5] + [f"{line} !" for line in english[:10]],
            "crawl.de.xz": german[150:350] + test[1][:5] + german[:10],
            "crawl.weights": [f"{numbers.random():.3f}" for _ in range(215)],
            "domain.en": english[350:450],
            "domain.de": german[350:450],
            "domain.tsv": [f"{source}\t{target}" for source, target in zip(english[350:450], german[350:450])],
            "news.en": english[450:500],
            "news.de": german[450:500],
            "mono.de": german[500:530],
            "french.en": english[200:300],
            "french.fr": german[200:300],
            "valid.en": english[530:550],
            "valid.de": german[530:550],
            "test.en": test[0],
            "test.de": test[1],
            "ja.en": english[:200],
            "ja.ja": japanese,
            "ja_valid.en": english[:10],
            "ja_valid.ja": japanese[:10],
        }
        compress = {".gz": gzip.compress, ".xz": lzma.compress}
        for name, lines in files.items():
            path = pathlib.Path(cls.folder, name)
            path.write_bytes(compress.get(path.suffix, bytes)("".join(line + "\n" for line in lines).encode()))
        tools = pathlib.Path(cls.folder, "tools")
        tools.mkdir()
        (tools / "ventris").write_text(STAND_IN, encoding="utf-8")
        (tools / "ventris").chmod(0o700)
        cls.variables = support.environment(PATH=f"{tools}:{os.environ['PATH']}")

    def shell(self, text):
        """Runs a block; its output."""
        words = ["bash", "-euo", "pipefail", "-c", text]
        result = subprocess.run(words, cwd=self.folder, env=self.variables, capture_output=True, timeout=600, check=False)
        self.assertEqual(result.returncode, 0, f"{text}\n{result.stderr.decode()}")
        return result.stdout.decode()

    def test_the_lines_of_the_page(self):
        heading, outputs = "", {}
        parts = re.split(r"^```\n(.*?)^```\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for before, block in zip(parts[::2], parts[1::2]):
            heading = (re.findall("^## (.*)$", before, re.MULTILINE) or [heading])[-1]
            file = re.search(r"`([\w.]+)`:\n\n$", before)
            if file:
                self.write(file[1], block)
            elif "launch/recipes/" not in block:  # tests/cli/wmt14_test.py runs it
                with self.subTest(heading=heading):
                    outputs[heading] = outputs.get(heading, "") + self.shell(block)
        self.assertEqual(set(re.findall(r"^(\w+): \d+ pairs read", outputs["Several corpora in one file"], re.MULTILINE)),
                         {"clean", "crawl", "domain", "all", "valid"})  # fmt: skip
        self.assertIn("5 dropped: a side is a line of the validation or a test set", outputs["Duplicates and test sets"])
        self.assertIn("60 dropped: near duplicates", outputs["Duplicates and test sets"])
        self.assertIn("tag of the source: <bt>", outputs["Back-translation"])
        self.assertIn("trained at step 4", outputs["Stages and shares"])
        self.assertEqual(len(self.read(self.path("test.fr")).splitlines()), 24)
        self.assertRegex(outputs["Weights"], r"weights: 0\.\d+ in the mean")
        self.assertRegex(outputs["What a step saw"], r'(?m)^{"step":1,"shard":\d+,"stage":"first","corpus":"clean","pair":\d+,"epoch":0,')


if __name__ == "__main__":
    unittest.main(verbosity=2)
