# SPDX-License-Identifier: Apache-2.0
"""Which instructions the CPU's kernels use: VENTRIS_ISA, and processors that have too few."""

import json
import os
import re
import shutil
import subprocess
import unittest

import support

EMULATOR = shutil.which("qemu-x86_64-static") or shutil.which("qemu-x86_64")
SETS = ["avx2", "avx512", "avx512-bf16"]


def version_of(**variables):
    text = subprocess.run([support.BINARY, "--version"], env={**os.environ, **variables}, capture_output=True, check=True,
                          text=True).stdout  # fmt: skip
    used, built = re.search(r"^ISA:  (\S+), of (.+)$", text, re.MULTILINE).groups()
    return used, built.split(", ")


class InstructionSets(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=60)
        cls.best, cls.built = version_of(VENTRIS_ISA="auto")
        cls.usable = cls.built[: cls.built.index(cls.best) + 1]

    def train(self, name, *more, max_steps=2):
        return ("train", "--corpus", self.corpus, "--model-dir", self.path(name), *support.TINY_MODEL,
                "--max-steps", max_steps, *more)  # fmt: skip

    def recorded(self, name):
        return json.loads(self.read(self.path(name, "config.json")))["environment"]

    def test_the_variable_wins_over_auto(self):
        for name in self.usable:
            with self.subTest(name):
                self.assertEqual(version_of(VENTRIS_ISA=name)[0], name)
                self.succeed(*self.train("with-" + name), variables={"VENTRIS_ISA": name})
                self.assertEqual(self.recorded("with-" + name)["kernels"], name)
        self.assertEqual(version_of(VENTRIS_ISA="")[0], self.best)

    def test_names_that_are_none_and_sets_that_the_processor_lacks(self):
        lists = f"this program has kernels for {', '.join(self.built)}; this processor supports {', '.join(self.usable)}\n"
        wrong = [("sse9", "there is no such instruction set")]
        wrong += [(name, "this processor does not have these instructions") for name in self.built if name not in self.usable]
        for name, reason in wrong:
            with self.subTest(name):
                for words in (self.train("refused"), ("--version",)):
                    self.refuse(64, *words, says=f"VENTRIS_ISA={name}: {reason}; {lists}", variables={"VENTRIS_ISA": name})
                self.assertFalse(os.path.exists(self.path("refused")))

    def train_on_two(self, of_rank_one, name, *more):
        """A shell runs `of_rank_one` on rank 1 before the program, whose words are "$@"."""
        script = self.path("rank")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nif [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then {of_rank_one}; fi\nexec "$@"\n')
        os.chmod(script, 0o755)
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        words = [str(word) for word in self.train(name, "--logical-shards", 2, *more)]
        return subprocess.run([support.MPIEXEC, *root, "--oversubscribe", "-np", "2", script, support.BINARY, *words],
                              capture_output=True, check=False, env={**os.environ, "VENTRIS_ISA": "auto"})  # fmt: skip

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_ranks_of_different_processors_take_what_all_have(self):
        if len(self.usable) == 1:
            self.skipTest(f"this processor runs the kernels of {self.best} alone")
        least = self.usable[0]
        result = self.train_on_two(f"export VENTRIS_ISA={least}", "mixed")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.recorded("mixed")["kernels"], least)
        self.assertIn(f"Computing with the instruction set {least}, the largest that every rank has", result.stderr.decode())

    def test_a_processor_with_too_few_is_told_so(self):
        if self.built != SETS:
            self.skipTest(f"this program is built for {self.built[0]} alone")
        if EMULATOR is None:
            self.skipTest("there is no qemu-x86_64 (package qemu-user-static) to be a lesser processor")
        for processor, lacks in (("Nehalem", "AVX, AVX2, FMA, F16C, BMI1, BMI2, MOVBE, LZCNT"), ("Haswell,-fma", "FMA"),
                                 ("Haswell,-avx2", "AVX2")):  # fmt: skip
            with self.subTest(processor):
                result = subprocess.run([EMULATOR, "-cpu", processor, support.BINARY, "--version"], capture_output=True, check=False)
                self.assertEqual(result.returncode, 69, result.stderr)
                told = [line for line in result.stderr.decode().splitlines() if line.startswith("ventris: ")]
                self.assertEqual(len(told), 1, result.stderr)
                self.assertIn(f" lacks {lacks}; this program is built for processors of x86-64-v3. ", told[0])
                self.assertIn("-DVENTRIS_NATIVE=ON", told[0])

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_ranks_whose_library_computes_bf16_by_other_instructions_are_told(self):
        if "bf16" not in self.best:
            self.skipTest("this processor has no instructions for bf16, so one library serves all")
        limit = "export DNNL_MAX_CPU_ISA=AVX512_CORE"
        for more, told in ((("--precision", "bf16"), 1), ((), 0)):
            result = self.train_on_two(limit, f"library-{told}", *more)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr.decode().count("warning: products of bf16 are computed by"), told, result.stderr)


if __name__ == "__main__":
    unittest.main()
