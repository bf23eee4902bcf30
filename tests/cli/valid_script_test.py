# SPDX-License-Identifier: Apache-2.0
"""train --valid-script: scores that a command of the user computes beside training, and what that may do to a run: nothing."""

import os
import signal
import time
import unittest

import support

LINES = 5  # translated of each set


class ValidScript(support.RunTest):
    MODEL = [
        *(*support.TINY_MODEL, "--valid-every", 10, "--save-every", 10, "--valid-beam-size", 1, "--valid-max-sentences", LINES),
        *("--logical-shards", 2, "--max-steps", 10),
    ]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        demo = os.path.join(cls.folder, "demo")
        sets = ("--valid-sets", f"{demo}/valid.en", f"{demo}/valid.de", "--valid-set", "news", f"{demo}/test.en", f"{demo}/test.de")
        words = ("prepare", "--train-sets", f"{demo}/train.en", f"{demo}/train.de", "--tokenizer-from", cls.corpus)
        cls.corpus = f"{cls.folder}/sets.h5"
        cls.made(*words, *sets, "--output", cls.corpus)

    def results(self, name):
        """Of each step and set the score or the error. None is there twice, and steps of lines never decrease."""
        steps = [line["step"] for line in self.lines(name)]
        self.assertEqual(steps, sorted(steps))
        events = [line for line in self.lines(name) if line.get("event") == "valid_script"]
        found = {(line["of_step"], line["set"]): line.get("score", line.get("error")) for line in events}
        self.assertEqual(len(found), len(events), events)
        return found

    def test_texts_and_scores(self):
        kept = self.path("kept")
        script = (f'to={kept}/$VENTRIS_STEP-$VENTRIS_SET; mkdir -p "$to"; cp "$VENTRIS_SOURCES" "$to/sources"; cp "$VENTRIS_REFERENCES" '
                  '"$to/references"; cp "$VENTRIS_TRANSLATIONS" "$to/translations"; echo " $VENTRIS_STEP.25 "; echo more')  # fmt: skip
        for steps in (10, 20):  # so that no validation comes while the former is scored
            said = self.told(*self.train("scored", valid_script=script, max_steps=steps))
            self.succeed(*self.train("plain", max_steps=steps))
            for name, demo in (("valid", "valid"), ("news", "test")):
                self.assertIn(f"step {steps}  script for step {steps}, {name}: {steps}.25", said)
                of_set = [self.read(self.path(kept, f"{steps}-{name}", part)) for part in ("sources", "references", "translations")]
                for text, side in zip(of_set, ("en", "de")):
                    self.assertEqual(text.splitlines(), self.read(self.demo_path(f"{demo}.{side}")).splitlines()[:LINES])
                self.assertEqual(of_set[2], self.read(self.path("scored", "valid", f"{steps:08}", name + ".txt")))
        self.assertEqual(self.results("scored"), {(step, name): step + 0.25 for step in (10, 20) for name in ("valid", "news")})
        self.assert_same_checkpoints("scored", "plain", 20)

    def test_a_script_that_fails(self):
        """One warning and one event for each failure; the run goes on. A limit of 1 s takes the place of half an hour."""
        os.makedirs(self.path("bin"))
        limit = self.write("bin/timeout", '#!/bin/sh\nshift 2\nexec /usr/bin/timeout --kill-after=5 1 "$@"\n')
        os.chmod(limit, 0o755)
        cases = {
            "code": ("echo 1; echo no device >&2; exit 3", "it ended with exit code 3: see "),
            "killed": ("kill -9 $$", "it ended with exit code 137"),
            "inf": ("echo 1e999", 'its first line is "1e999"; expected'),
            "words": ("printf 'score:\\033 0.8\\n1\\n'", 'its first line is "score:  0.8"; expected'),
            "nothing": ("true", 'its first line is ""; expected'),
            "hangs": ("sleep 100", "it did not end in 1800 s"),
        }  # fmt: skip
        for name, (script, expected) in cases.items():
            with self.subTest(name):
                path = os.environ["PATH"] if name != "hangs" else os.path.dirname(limit) + ":" + os.environ["PATH"]
                said = self.told(*self.train(name, valid_script=script), variables={"PATH": path})
                for of_set in ("valid", "news"):
                    self.assertIn(expected, self.results(name)[(10, of_set)])
                self.assertEqual(said.count("warning: --valid-script has no score for step 10, "), 2, said)
        self.assertIn("no device", self.read(self.path("code", "valid", "00000010", "news.log")).decode())

    def start(self, name, steps):
        """Starts a run with a script that waits until a file is there, and waits for the script. Returns its processes, too."""
        go, pids = self.path(name + ".go"), self.path(name + ".pids")
        script = f"echo $$ >> {pids}; sleep 100 & echo $! >> {pids}; for i in $(seq 3000); do [ -e {go} ] && echo 7 && exit; sleep .02; done"
        process = support.start(support.command(*self.train(name, valid_script=script, max_steps=steps)))
        self.wait_for(lambda: os.path.exists(pids) and len(self.read(pids).split()) >= 2, process)
        return process, [int(word) for word in self.read(pids).split()]

    def test_validations_that_come_too_soon(self):
        process, _ = self.start("slow", 40)
        self.wait_for(lambda: os.path.exists(self.path("slow", "valid", "00000040", "news.txt")), process)
        self.write("slow.go", "")
        self.end_of(process, 0)
        found = self.results("slow")
        self.assertEqual({key for key, value in found.items() if value == 7}, {(10, "valid"), (40, "valid"), (40, "news")})
        self.assertEqual({value for value in found.values() if value != 7}, {"the script was still busy with another one"})
        self.assertEqual(len(found), 8)

    def test_a_stop_ends_it(self):
        for name, steps, code in (("stopped", 1000000, 75), ("at_end", 10, 0)):
            with self.subTest(name):
                process, of_script = self.start(name, steps)
                process.send_signal(signal.SIGTERM)
                self.end_of(process, code)
                deadline = time.monotonic() + 20
                while any(map(support.is_running, of_script)) and time.monotonic() < deadline:
                    time.sleep(0.01)
                self.assertFalse(any(map(support.is_running, of_script)))
                self.assertNotIn(7, self.results(name).values())

    def test_surroundings(self):
        """On two ranks it runs once for a set, and finds nothing of the job but its task."""
        file = self.path("surroundings")
        script = (f"{{ env | grep -c '^OMPI_\\|^PMIX_\\|^PMI_'; ls /proc/self/fd | wc -w; nice; "
                  f'wc -c; grep "^Sig[BI]" /proc/self/status; }} >> {file}-$VENTRIS_SET; echo 1')  # fmt: skip
        self.succeed(*self.train("ranks", valid_script=script), ranks=2 if support.MPIEXEC else 1)
        for name in ("valid", "news"):
            said = self.read(f"{file}-{name}").decode().splitlines()
            self.assertEqual(len(said), 6, said)
            # ls has a descriptor of the folder that it lists, and the standard output of a pipe.
            self.assertEqual(said[:4], ["0", "4", str(min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)), "0"])
            self.assertEqual([int(line.split()[1], 16) & 0x15202 for line in said[4:]], [0, 0])  # of INT, USR1, PIPE, TERM and CHLD
        self.assertEqual(self.results("ranks"), {(10, "valid"): 1.0, (10, "news"): 1.0})


if __name__ == "__main__":
    unittest.main(verbosity=2)
