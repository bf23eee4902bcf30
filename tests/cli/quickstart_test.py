# SPDX-License-Identifier: Apache-2.0
"""launch/quickstart.sh: what it builds, and on how many ranks of which device it trains. In the place of cmake stands a program that
puts the tested one where a build would be; that one makes the task small, so that the script ends at its last check: a model of one
step translates no example."""

import os
import subprocess
import unittest

import support

SCRIPT = os.path.join(support.SOURCE_DIR, "launch", "quickstart.sh")

CMAKE = """#!/bin/sh
echo "$@" >>"$VENTRIS_BUILD_DIR/cmake.txt"
if [ "$1" = --build ]; then
  if [ -n "$TEST_BREAKS_BUILD" ]; then exit 3; fi
  ln -s "$TEST_FOLDER/small_ventris" "$VENTRIS_BUILD_DIR/ventris"
fi
"""
# The commands of the script with other numbers.
SMALL_VENTRIS = """#!/bin/bash
words=()
for word in "$@"; do
  case $word in
    1024) word=192 ;;
    2000) [[ $1 == train ]] && word=1 || word=120 ;;
    250 | 500) word=1 ;;
  esac
  words+=("$word")
done
case $1 in
  demo-corpus) words+=(--train-pairs 200 --valid-pairs 2 --test-pairs 2) ;;
  train) words+=(--d-model 16 --d-ff 32 --heads 2 --logical-shards 2 --threads 1) ;;
  evaluate | translate) words+=(--max-extra-length 1 --threads 1) ;;
esac
exec "$TEST_BINARY" "${words[@]}"
"""


@unittest.skipUnless(support.MPIEXEC, "built without MPI")
class Quickstart(support.CommandLineTest):
    def script(self, name, gpus, binary=support.BINARY, **variables):
        """Runs the script on a machine whose driver lists so many GPUs."""
        tools, build = self.path(f"{name}-tools"), self.path(f"{name}-build")
        for folder in (tools, build):
            os.mkdir(folder)
        listed = "".join(f"GPU {gpu}: emulated (UUID: GPU-{gpu})\n" for gpu in range(gpus))
        programs = {
            "cmake": CMAKE,
            "small_ventris": SMALL_VENTRIS,
            "nvidia-smi": f"#!/bin/sh\ncat <<END\n{listed}END\n",
            "dpkg-query": "#!/bin/sh\nprintf installed\n",  # nothing is missing
        }
        for program, text in programs.items():
            os.chmod(self.write(f"{name}-tools/{program}", text), 0o700)
        own = {
            "PATH": f"{tools}:{os.path.dirname(support.MPIEXEC)}:{os.environ['PATH']}",
            "VENTRIS_BUILD_DIR": build,
            "VENTRIS_EMULATED_DEVICES": gpus,
            "TEST_FOLDER": tools,
            "TEST_BINARY": binary,
        }
        environment = support.environment(**own, **variables)
        if "CUDA_VISIBLE_DEVICES" not in variables:
            environment.pop("CUDA_VISIBLE_DEVICES", None)
        done = subprocess.run(
            ["bash", SCRIPT, self.path(f"{name}-run")], env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        configured, *_ = self.read(os.path.join(build, "cmake.txt")).decode().splitlines()
        return done, configured

    def check_whole_run(self, name, done):
        text = done.stdout + done.stderr
        self.assertEqual(done.returncode, 1, text)
        self.assertTrue(done.stderr.endswith("error: 5 of 5 examples are translated wrongly\n"), text)
        self.assertIn(f"trained at step 1; last checkpoint {os.path.join('model', 'checkpoint-00000001.h5')}", done.stdout)
        self.assertRegex(done.stdout, r"\n== 4\. BLEU .*\n.*BLEU\|")
        self.assertTrue(os.path.isfile(self.path(f"{name}-run", "weights.h5")))
        return done.stderr

    def test_without_gpus_two_ranks_train_on_the_cpu(self):
        # A machine that has some hides them.
        done, configured = self.script("cpu", gpus=3, CUDA_VISIBLE_DEVICES="")
        log = self.check_whole_run("cpu", done)
        self.assertIn(" -DVENTRIS_CUDA=OFF", configured)
        self.assertIn("No GPU was found: training on the CPU, with two ranks\n", done.stdout)
        self.assertRegex(log, r"\n  ranks +2 on ")
        self.assertRegex(log, r"\n  computing +CPU, ")

    @unittest.skipUnless(support.EMULATED, "the emulated device was not built")
    def test_on_gpus_one_rank_on_each_trains(self):
        done, configured = self.script("cuda", gpus=2, binary=support.EMULATED)
        log = self.check_whole_run("cuda", done)
        self.assertIn(" -DVENTRIS_CUDA=ON", configured)
        self.assertIn("Training on 2 GPUs, one rank on each\n", done.stdout)
        self.assertRegex(log, r"\n  ranks +2 on ")
        self.assertRegex(log, r"\n  computing +CUDA ")
        self.assertEqual(log.count("Computing on emulated"), 2 + 5, log)  # train and evaluate, and five examples

    def test_the_ranks_are_the_gpus_that_may_be_used_up_to_eight(self):
        for gpus, variables, says in (
            (1, {}, "Training on 1 GPU, one rank on each"),
            (12, {}, "Training on 8 GPUs, one rank on each"),
            (4, {"CUDA_VISIBLE_DEVICES": "1,GPU-3"}, "Training on 2 GPUs, one rank on each"),
            (4, {"CUDA_VISIBLE_DEVICES": "-1"}, "No GPU was found: training on the CPU, with two ranks"),
        ):
            name = f"count-{gpus}-{len(says)}"
            done, configured = self.script(name, gpus, TEST_BREAKS_BUILD=1, **variables)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"{says}\n", done.stdout)
            self.assertIn(f" -DVENTRIS_CUDA={'ON' if says.startswith('Training') else 'OFF'}", configured)


if __name__ == "__main__":
    unittest.main()
