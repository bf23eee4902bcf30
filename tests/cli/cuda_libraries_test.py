# SPDX-License-Identifier: Apache-2.0
"""A program with CUDA opens cuBLASLt and NCCL when a device is first used, and says what is missing; CPUs need no library of CUDA."""

import glob
import os
import re
import subprocess
import unittest

import support

# Prints the versions of both (tests/portable/cuda_libraries.cc).
PROGRAM = os.environ.get("VENTRIS_CUDA_LIBRARIES", "")
OF_CUDA = re.compile(r"lib(?:cublasLt|nccl|cudart)\.so[.\d]*")


class CudaLibraries(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        if not PROGRAM:
            raise unittest.SkipTest("built without CUDA")
        super().setUpClass()

    def open(self, **variables):
        environment = {**os.environ, **variables}
        return subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, check=False)

    def opened(self, *words):
        """The libraries of CUDA that a program and its children load."""
        log = self.path("linker")
        environment = support.environment(LD_DEBUG="libs", LD_DEBUG_OUTPUT=log)
        done = subprocess.run(list(map(str, words)), env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = ""
        for path in glob.glob(log + ".*"):
            text += self.read(path).decode()
            os.remove(path)
        self.assertIn("calling init: ", text)
        loaded = re.findall(r"calling init: .*/(\S+)", text)
        self.assertTrue(any(name.startswith("libc.so") for name in loaded), loaded)
        return sorted(set(filter(OF_CUDA.fullmatch, loaded)))

    def test_both_are_opened_with_all_functions(self):
        done = self.open()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^cuBLASLt \d{6}\nNCCL 2\.\d+\.\d+\n$")
        self.assertEqual([name.split(".so")[0] for name in self.opened(PROGRAM)], ["libcublasLt", "libnccl"])

    def test_what_cannot_be_opened_is_named_with_its_folders(self):
        names = self.opened(PROGRAM)
        for name, remedy in zip(names, (r"Install cuBLAS of CUDA \d+, or", r"Install NCCL 2\.17 or newer, or")):
            with self.subTest(name):
                folder = self.path("broken-" + name)
                os.mkdir(folder)
                self.write(os.path.join(folder, name), "")
                done = self.open(LD_LIBRARY_PATH=folder)
                self.assertEqual(done.returncode, 69, done.stderr)
                self.assertRegex(
                    done.stderr,
                    rf"^error: cannot open {re.escape(name)}: .*too short\. It is looked for in {folder}, .*{remedy} add its folder to LD_LIBRARY_PATH\n$",
                )

    def test_cpus_need_none(self):
        corpus = self.prepare_demo(train_pairs=60)
        run = ("train", "--corpus", corpus, "--model-dir", self.path("run"), *support.TINY_MODEL, "--max-steps", 2, "--device", "cpu")
        for words in (["--version"], ["help"], run):
            with self.subTest(words[0]):
                self.assertEqual(self.opened(support.BINARY, *words), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
