# SPDX-License-Identifier: Apache-2.0
"""train --valid-script: scores that a command of the user computes beside training, and what that may do to a run: nothing."""

import json
import os
import signal
import subprocess
import time
import unittest

import support

LINES = 5  # translated of each set


def is_alive(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class ValidScript(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare_demo(train_pairs=300)
        for side in ("en", "de"):
            with open(os.path.join(cls.folder, "demo", "test." + side), encoding="utf-8") as file:
                lines = file.readlines()[:LINES]
            with open(os.path.join(cls.folder, "news." + side), "w", encoding="utf-8") as file:
                file.writelines(lines)

    def words(self, name, script, *options, steps=10, every=10, save=10, ranks=1):
        """A command line; the script is a text for the shell."""
        words = ("--corpus", self.path("corpus.h5"), "--model-dir", self.path(name), *support.TINY_MODEL, "--valid-every", every,
                 "--save-every", save, "--valid-beam-size", 1, "--valid-max-sentences", LINES, "--logical-shards", 2,
                 "--max-steps", steps, *(["--valid-script", script] if script else []))  # fmt: skip
        given = dict(zip(words[::2], words[1::2]))
        return support.command("train", *(word for pair in given.items() for word in pair), *options, ranks=ranks)

    def train(self, *given, code=0, **of_run):
        """Runs the program; returns what it said."""
        words = self.words(*given, **of_run)
        result = subprocess.run(words, capture_output=True, env=support.environment(), check=False, timeout=120)
        self.assertEqual(result.returncode, code, result.stderr.decode())
        return result.stderr.decode()

    def news(self, *names):
        return [word for name in names or ("news",) for word in ("--valid-set", name, self.path("news.en"), self.path("news.de"))]

    def lines(self, name):
        try:
            text = self.read(self.path(name, "metrics.jsonl"))
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith(b"\n")]

    def results(self, name):
        """Of each step and set the score or the error. None is there twice, and steps of lines never decrease."""
        lines = self.lines(name)
        self.assertEqual([line["step"] for line in lines], sorted(line["step"] for line in lines))
        events = [line for line in lines if line.get("event") == "valid_script"]
        found = {(line["of_step"], line["set"]): line.get("score", line.get("error")) for line in events}
        self.assertEqual(len(found), len(events), events)
        for line in events:
            self.assertGreaterEqual(line["step"], line["of_step"])
        return found

    def waiting(self, name):
        """Texts that a start left for the next one."""
        folder = self.path(name, "valid-script")
        return sorted(os.listdir(folder)) if os.path.exists(folder) else []

    def waits_for(self, name):
        """A script that waits until the file is there, and says which processes it is."""
        go, pids = self.path(name + ".go"), self.path(name + ".pids")
        return f"echo $$ >> {pids}; sleep 100 & echo $! >> {pids}; for i in $(seq 3000); do [ -e {go} ] && echo 7 && exit; sleep .02; done"

    def processes(self, name):
        try:
            return [int(word) for word in self.read(self.path(name + ".pids")).split()]
        except FileNotFoundError:
            return []

    def check_gone(self, name):
        """No process of the script lives."""
        processes = self.processes(name)
        self.assertGreaterEqual(len(processes), 2)
        deadline = time.monotonic() + 20
        while any(map(is_alive, processes)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual([process for process in processes if is_alive(process)], [])

    def start(self, name, condition, *options, **of_run):
        """Starts a run with a script that waits, and waits for the condition."""
        process = support.start(self.words(name, self.waits_for(name), *options, **of_run))
        self.addCleanup(process.stderr.close)
        if not support.wait_for(lambda: len(self.processes(name)) >= 2 and condition(), process):
            process.kill()
            self.fail(process.communicate()[1].decode())
        return process

    def test_texts_and_scores(self):
        kept = self.path("kept")
        script = (f'to={kept}/$VENTRIS_STEP-$VENTRIS_SET; mkdir -p "$to"; cp "$VENTRIS_SOURCES" "$VENTRIS_REFERENCES" '
                  '"$VENTRIS_TRANSLATIONS" "$to"; echo " $VENTRIS_STEP.25 "; echo more')  # fmt: skip
        for steps in (10, 20, 30):  # so that no validation comes while the former is scored
            said = self.train("scored", script, *self.news(), "--keep-valid-outputs", steps=steps)
            for name in ("valid", "news"):
                self.assertIn(f"step {steps}  script for step {steps}, {name}: {steps}.25", said)
        sets = ("valid", "news")
        self.assertEqual(self.results("scored"), {(step, name): step + 0.25 for step in (10, 20, 30) for name in sets})
        self.assertEqual(self.waiting("scored"), [])
        for step in (10, 20, 30):
            for name, demo in (("valid", "valid"), ("news", "test")):
                of_set = [self.read(self.path(kept, f"{step}-{name}", part + ".txt")) for part in ("sources", "references", "translations")]
                for text, side in zip(of_set, ("en", "de")):
                    self.assertEqual(text.splitlines(), self.read(self.demo_path(f"{demo}.{side}")).splitlines()[:LINES])
                self.assertEqual(of_set[2], self.read(self.path("scored", "valid", f"{step:08}", name + ".txt")))
        with self.subTest("the same bits as without it"):
            for steps in (10, 20, 30):
                self.train("plain", "", *self.news(), steps=steps)
            last = "checkpoint-00000030.h5"
            self.assertEqual(support.checkpoint_bits(self.path("plain", last)), support.checkpoint_bits(self.path("scored", last)))

    def test_surroundings(self):
        """On two ranks it runs once for a set, and finds nothing of the job but its task."""
        file = self.path("surroundings")
        script = (f"{{ env | grep -c '^OMPI_\\|^PMIX_\\|^PMI_'; ls /proc/self/fd | wc -w; nice; cat /proc/self/oom_score_adj; "
                  f'wc -c; grep "^Sig[BI]" /proc/self/status; echo $$; cut -d " " -f 5 /proc/$$/stat; }} >> {file}; echo 1')  # fmt: skip
        self.train("ranks", script, ranks=2)
        said = self.read(file).decode().splitlines()
        self.assertEqual(len(said), 9, said)
        # ls has a descriptor of the folder that it lists, and the standard output of a pipe.
        self.assertEqual(said[:5], ["0", "4", str(min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)), "1000", "0"])
        self.assertEqual([int(line.split()[1], 16) & 0x15202 for line in said[5:7]], [0, 0])  # of INT, USR1, PIPE, TERM and CHLD
        self.assertNotEqual(int(said[8]), os.getpgid(0))
        self.assertEqual(self.results("ranks"), {(10, "valid"): 1.0})

    def test_a_script_that_fails(self):
        pids = self.path("fails.pids")
        cases = {
            "number": ("echo -2.5e-3; echo said on the side >&2", -0.0025),
            "long": ("echo 4; head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2", 4.0),
            "code": ("echo 1; echo first >&2; echo no device >&2; exit 3", "it ended with exit code 3: no device"),
            "killed": ("kill -9 $$", "it ended with exit code 137 (SIGKILL)"),
            "suicide": ("kill -9 0", "it ended with exit code 137 (SIGKILL)"),
            "nan": ("echo nan", 'its first line is "nan"; expected is one finite number'),
            "inf": ("echo 1e999", 'its first line is "1e999"; expected'),
            "words": ("printf 'score:\\033 0.8\\n1\\n'", 'its first line is "score:  0.8"; expected'),
            "nothing": ("true", "its first line is empty; expected"),
            "gone": ("/no/such/program", "exit code 127"),
            "syntax": ("if", "it ended with exit code 2"),
            "endless": ("yes", "it printed more than 16 MiB"),
            "binary": ("head -c 100000 /dev/urandom", "its first line is"),
            "hangs": (f"echo $$ >> {pids}; sleep 100 & echo $! >> {pids}; wait", "it did not end in 2 s and was killed"),
            "leaves": (f"sleep 100 & echo $! >> {pids}; echo 5", 5.0),
        }  # fmt: skip
        choice = "; ".join(f"[ $VENTRIS_SET = {name} ] && exec sh -c \"$(cat {self.write(name + '.sh', text)})\"" for name, (text, _) in cases.items())
        said = self.train("fails", choice + "; echo 3", *self.news(*cases), "--valid-script-limit", 2)
        found = self.results("fails")
        self.assertEqual(set(found), {(10, name) for name in ["valid", *cases]})
        for name, (_, expected) in cases.items():
            with self.subTest(name):
                result = found[(10, name)]
                if isinstance(expected, float):
                    self.assertEqual(result, expected)
                else:
                    self.assertIn(expected, result)
                    self.assertEqual(said.count(f"warning: --valid-script has no score for step 10, {name}: {expected}"), "exit code 127" != expected, said)
        self.assertEqual(said.count("warning: --valid-script"), sum(isinstance(expected, str) for _, expected in cases.values()))
        self.assertEqual(self.waiting("fails"), [])
        self.check_gone("fails")

    def test_validations_that_come_too_soon(self):
        process = self.start("slow", lambda: any(line["type"] == "validation" and line["step"] == 40 for line in self.lines("slow")),
                             *self.news(), steps=40)  # fmt: skip
        self.write("slow.go", "")
        self.assertEqual(process.wait(60), 0)
        found = self.results("slow")
        self.assertEqual({key: value for key, value in found.items() if value == 7}, {(step, name): 7 for step in (10, 40) for name in ("valid", "news")})
        for step in (20, 30):
            for name in ("valid", "news"):
                self.assertEqual(found[(step, name)], f"it was not run: it still scored an earlier step at the validation of step {step + 10}")
        self.assertEqual(self.waiting("slow"), [])
        self.check_gone("slow")

    def last_step(self, name):
        return max((line["step"] for line in self.lines(name)), default=0)

    def test_a_stop_leaves_it_to_the_next_start(self):
        both = {(10, "valid"): 7.0, (10, "news"): 7.0}
        left = ["00000010-news", "00000010-valid"]
        for name, steps, ranks in (("stopped", 1000000, 1), ("at_end", 10, 1), ("two", 10, 2)):
            with self.subTest(name):
                process = self.start(name, lambda name=name: self.last_step(name) >= 10, *self.news(),
                                     steps=steps, every=10, ranks=ranks)  # fmt: skip
                process.send_signal(signal.SIGTERM if ranks == 1 else signal.SIGUSR1)
                said = process.communicate(timeout=60)[1].decode()
                self.assertEqual(process.returncode, 75, said)
                self.assertIn("--valid-script is stopped", said)
                self.check_gone(name)
                self.assertEqual({key: value for key, value in self.results(name).items() if value == 7}, {})
                self.assertLessEqual(set(left), set(self.waiting(name)))
                reached = self.last_step(name)
                self.write(name + ".go", "")
                said = self.train(name, self.waits_for(name), *self.news(), steps=reached, ranks=ranks)
                self.assertIn("--valid-script continues with step 10, news", said)
                self.assertLessEqual(both.items(), self.results(name).items())
                self.assertEqual(self.waiting(name), [])
                self.assertNotIn("continues with", self.train(name, "echo 8", *self.news(), steps=reached))

    def test_a_kill_leaves_no_orphans(self):
        process = self.start("killed", lambda: self.last_step("killed") >= 25, *self.news(), steps=1000000)
        process.kill()
        process.wait()
        self.check_gone("killed")
        self.assertIn("00000010-valid", self.waiting("killed"))
        newest = max(step for step in range(10, self.last_step("killed") + 1, 10) if os.path.exists(self.path("killed", f"checkpoint-{step:08}.h5")))
        self.write("killed.go", "")
        self.train("killed", self.waits_for("killed"), *self.news(), steps=newest + 5)
        found = self.results("killed")
        self.assertEqual({found[10, name] for name in ("valid", "news")}, {7.0})
        steps = {line["step"] for line in self.lines("killed") if line["type"] == "validation"}
        self.assertEqual(set(found), {(step, name) for step in steps for name in ("valid", "news")})
        self.assertEqual(self.waiting("killed"), [])

    def test_a_score_that_the_resume_cut_off_comes_again(self):
        counted = self.path("cut.runs")
        script = f"echo $VENTRIS_STEP >> {counted}; sleep .1; echo $VENTRIS_STEP"  # so that steps go by
        process = support.start(self.words("cut", script, "--digest-every", 1, steps=1000000, every=400, save=400))
        self.addCleanup(process.stderr.close)
        self.assertTrue(support.wait_for(lambda: self.results("cut"), process))
        process.kill()
        process.wait()
        (line,) = [line for line in self.lines("cut") if line.get("event") == "valid_script"]
        self.assertGreater(line["step"], 400, "there was nothing to cut off: the test tells nothing")
        self.assertTrue(os.path.exists(self.path("cut", "checkpoint-00000400.h5")))
        self.assertEqual(self.waiting("cut"), ["00000400-valid"])
        self.train("cut", script, "--digest-every", 1, steps=410, every=400, save=400)
        self.assertEqual(self.results("cut"), {(400, "valid"): 400, (410, "valid"): 410})
        self.assertEqual(self.read(counted).split(), [b"400", b"400", b"410"])
        self.assertEqual(self.waiting("cut"), [])
        with self.subTest("texts whose score is in the log, as after a kill, are not scored again"):
            os.makedirs(self.path("cut", "valid-script", "00000400-valid"))
            self.train("cut", script, "--digest-every", 1, steps=410, every=400, save=400)
            self.assertEqual(self.waiting("cut"), [])
            self.assertEqual(len(self.read(counted).split()), 3)

    def test_a_new_run_forgets_what_waits(self):
        for name in ("00000005-valid", "00000099-news"):
            os.makedirs(self.path("new", "valid-script", name))
        os.makedirs(self.path("new", "valid-script", "mine"))
        self.train("new", "echo 1")
        self.assertEqual(self.results("new"), {(10, "valid"): 1.0})
        self.assertEqual(self.waiting("new"), ["mine"])

    def test_what_is_refused(self):
        train = ("train", "--corpus", self.path("corpus.h5"), "--model-dir", self.path("none"))
        self.refuse(64, *train, "--valid-script", "true", "--valid-metric", "script", says=("--valid-metric", "cannot decide"))
        self.refuse(78, *train, "--preset", "tiny", "--max-steps", 1, "--valid-script", "true", "--valid-every", 0, says="--valid-every is 0")
        self.refuse(64, *train, "--valid-script", "true", "--valid-script-limit", 0, says="--valid-script-limit")
        self.succeed("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--tokenizer-from",
                     self.path("corpus.h5"), "--output", self.path("unvalidated.h5"))  # fmt: skip
        self.refuse(78, *train[:2], self.path("unvalidated.h5"), *train[3:], "--preset", "tiny", "--max-steps", 1, "--valid-script", "true",
                    says="has no validation pairs")  # fmt: skip


if __name__ == "__main__":
    unittest.main(verbosity=2)
