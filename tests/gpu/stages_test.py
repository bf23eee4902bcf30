"""The frame of the stages: limits, outcomes, results, with programs that are shell scripts."""
import dataclasses
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "bench"))

import first_hour  # noqa: E402
import kit as kits  # noqa: E402
import libraries  # noqa: E402
import limits  # noqa: E402
import measure  # noqa: E402
import sizes  # noqa: E402
import table  # noqa: E402
import tables  # noqa: E402


class Stages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ventris-stages-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.makedirs(self.path("results"))
        self.write("kit.json", json.dumps({"cuda_libraries": {}, "glibc": "glibc 2.0"}))
        self.kit = kits.Kit(self.folder, "python3", self.path("work"), self.path("results"), sizes.TRIAL)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)

    def run_one(self, run, seconds=20.0):
        log = io.StringIO()
        return first_hour.run_stage(self.kit, first_hour.Row("one", seconds, run, ""), seconds, log), log.getvalue()

    def test_a_late_stage_is_ended_with_all_that_it_started(self):
        pid = self.path("pid")
        begin = time.monotonic()
        outcome, log = self.run_one(lambda kit, stage: stage.run("sh", "-c", f"sleep 60 & echo $! > {pid}; wait"), seconds=0.5)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(outcome["outcome"], "failed")
        self.assertIn("not finished after", outcome["words"])
        self.assertIn("sleep 60", log)
        with open(pid, encoding="utf-8") as file:
            words = ["ps", "-o", "state=", "-p", file.read().strip()]
        for _ in range(100):  # a busy system ends a killed process later
            state = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
            if state in ("", "Z"):
                break
            time.sleep(0.1)
        self.assertIn(state, ("", "Z"))

    def test_no_device_is_told_from_other_failures(self):
        says = "echo 'error: --device cuda: no driver' >&2; exit 69"
        self.write("bin/cuda_tests", "#!/bin/sh\necho 'skipped: no CUDA device can be used: none' >&2\nexit 77\n")
        outcome, _ = self.run_one(lambda kit, stage: stage.run("sh", "-c", says))
        self.assertEqual((outcome["outcome"], outcome["words"]), ("no device", "skipped: no CUDA device can be used: none"))
        outcome, _ = self.run_one(lambda kit, stage: stage.run("sh", "-c", "echo 'no libx.so' >&2; exit 127"))
        self.assertEqual((outcome["outcome"], outcome["words"]), ("failed", "exit code 127: no libx.so"))
        # A program that cannot use the device which others use.
        self.write("bin/cuda_tests", "#!/bin/sh\n")
        self.kit.reason_without_device = None
        outcome, _ = self.run_one(lambda kit, stage: stage.run("sh", "-c", says))
        self.assertEqual(outcome["outcome"], "failed")

    def test_stages_go_on_after_one_that_fails_and_end_with_the_budget(self):
        def fail(kit, stage):
            return {}["nothing"]

        rows = [first_hour.Row("bad", 9, fail, ""), first_hour.Row("good", 9, lambda kit, stage: "fine", "")]
        self.assertEqual(first_hour.run_stages(self.kit, rows, 100.0), ["failed", "ok"])
        self.assertEqual(sorted(os.listdir(self.path("results"))), ["logs.tar.gz", "measured.json", "summary.md"])
        self.assertEqual(first_hour.run_stages(self.kit, rows[1:], first_hour.LEAST_SECONDS / 2), ["no time"])
        with open(self.path("results", "summary.md"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"\| bad \| failed \| .*KeyError: 'nothing'(.|\n)*\| good \| no time \|")

    def test_results_of_an_earlier_call_stay(self):
        self.kit.measured = {"stages": {"steps": {"outcome": "ok", "words": "", "seconds": 1.0}}}
        self.kit.measured["training"] = {"base": {"ventris": {"rate": 1000.0, "ms": 20.0, "tokens_per_update": 20, "memory": None}}}
        first_hour.save(self.kit, self.path("results"))
        with open(self.path("results", "measured.json"), encoding="utf-8") as file:
            self.kit.measured = json.load(file)
        self.kit.measured["training"]["base"]["PyTorch, eager"] = {"rate": 500.0, "ms": 40.0, "tokens_per_update": 20, "memory": 7, "version": "2"}
        text = tables.summary(self.kit.measured)
        self.assertIn("| base | ventris | 20.00 | 20 | 1,000 | 2.00 |", text)
        self.assertIn("| base | PyTorch, eager (2) | 40.00 | 20 | 500 | 1.00 |", text)

    def test_the_first_step_with_another_digest_is_named(self):
        same, other = {1: "a", 2: "b", 3: "c"}, {1: "a", 2: "x", 3: "y"}
        kits.require_equal(("one", "two"), (same, dict(same)))
        with self.assertRaisesRegex(table.Failed, "one and two differ from step 2 on: digests b and x"):
            kits.require_equal(("one", "two"), (same, other))
        for lacking in ({}, {1: "a"}):
            with self.assertRaisesRegex(table.Failed, "digests of"):
                kits.require_equal(("one", "two"), (lacking, same))
        with self.assertRaises(table.Failed):
            kits.require_equal(("one", "two"), ({}, {}))

    def test_the_names_of_kernels_are_short(self):
        for name, short, function in (
            ("void ventris::<unnamed>::forward<__nv_bfloat16, (int)64>(ventris::Work, float)", "forward<__nv_bfloat16, (int)64>", "forward"),
            ("void ventris::cuda::(anonymous namespace)::sums<float>(const float *, int)", "cuda::sums<float>", "sums"),
            ("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", "nvjet_tst_128x256_64x4_2x1_v_bz_TNT", "nvjet_tst_128x256_64x4_2x1_v_bz_TNT"),
        ):
            self.assertEqual((measure.short_name(name), measure.function_name(name)), (short, function))

    def test_libraries_are_found_in_their_places(self):
        self.write("given/libone.so.1", "")
        self.write("packages/nvidia/cu13/lib/libtwo.so.2", "")
        self.write("packages/nvidia/cu13/lib/libthree.so.4", "")
        self.write("python", f"#!/bin/sh\necho {self.path('packages')}\n")
        before = os.environ.get("LD_LIBRARY_PATH")
        self.addCleanup(lambda: os.environ.pop("LD_LIBRARY_PATH") if before is None else os.environ.update(LD_LIBRARY_PATH=before))
        os.environ["LD_LIBRARY_PATH"] = self.path("given")
        needed = {"libone.so.1": ["ventris"], "libtwo.so.2": ["ventris"], "libthree.so.3": ["ventris", "cuda_tests"]}
        found, folders, report = libraries.find_all(needed, [self.path("python"), self.path("no-python")])
        self.assertEqual(found, {"libone.so.1": self.path("given/libone.so.1"), "libtwo.so.2": self.path("packages/nvidia/cu13/lib/libtwo.so.2"),
                                 "libthree.so.3": None})
        self.assertEqual(folders, [self.path("packages/nvidia/cu13/lib")])
        other = self.path("packages/nvidia/cu13/lib/libthree.so.4")
        self.assertIn(f"libthree.so.3: not found; needed by ventris, cuda_tests\n  other versions: {other}\n", report)
        self.assertIn(f"  LD_LIBRARY_PATH: {self.path('given')}\n", report)

    def test_limits_follow_from_the_amounts_of_work(self):
        usual = sizes.Sizes()
        found, predicted = limits.limits(usual), limits.predict(usual)
        self.assertEqual(set(found), {row.name for row in first_hour.STAGES})
        for stage, seconds in predicted.items():
            self.assertGreaterEqual(found[stage], max(limits.LEAST, limits.MARGIN * seconds), stage)
        more = dataclasses.replace(usual, many_steps=10 * usual.many_steps, seconds=usual.seconds + 100)
        grown = {stage for stage, seconds in limits.limits(more).items() if seconds > found[stage]}
        self.assertEqual(grown, {"resume", "steps", "pytorch", "compile"})
        # The parts of a stage fit into it.
        self.assertLessEqual(len(usual.peer_presets) * limits.of_peer(usual, compiled=True), found["compile"])
        self.assertLessEqual(sum(limits.of_attention(usual)), found["attention"])

    def test_the_list_shows_the_limits(self):
        printed = subprocess.run([HERE / "first_hour.sh", "--list"], capture_output=True, text=True, check=True).stdout
        for row in first_hour.STAGES:
            self.assertRegex(printed, rf"(?m)^{row.name} +{row.seconds}  ")
        refused = subprocess.run([HERE / "first_hour.sh", self.path("none.tar.xz")], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 66)
        self.assertIn("none.tar.xz", refused.stderr)
        self.write("bad.tar.xz", "no archive")
        refused = subprocess.run([HERE / "first_hour.sh", self.path("bad.tar.xz")], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 65)
        self.assertIn("bad.tar.xz is no archive", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
