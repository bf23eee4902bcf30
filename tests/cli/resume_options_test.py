# SPDX-License-Identifier: Apache-2.0
"""docs/commands.md says of every option of train whether it may change when a run is resumed; the program agrees."""

import json
import os
import re
import shutil
import unittest

import support

OF_OTHERS = {"preset"}  # stands for the options that it sets
OF_NO_RUN = {"show-preset"}
# Where the next number, half of it or the next word is no other value that the option may have.
CHANGED = {
    "freeze": "encoder/*",
    "mix": "{later}",
    "d-model": "36",
    "heads": "4",
    "tie": "decoder",
    "begin-embedding": "zero",
    "device": "cpu",
    "precision": "bf16",
    "resume": "{run}/checkpoint-00000001.h5",
    "valid-tokenize": "char",
    "init-embeddings": "none.txt",
}
# Options that another one goes with.
PEAK = ["--peak-learning-rate", "0.001"]
PLATEAU = ["--schedule", "plateau", "--valid-every", "1"]
TOGETHER = {
    "init-optimizer": ["--init-optimizer", "keep", "--init", "none.h5"],
    "init-vocabulary": ["--init-vocabulary", "extend", "--init", "none.h5"],
    "schedule": PEAK + ["--schedule", "constant"],
    "peak-learning-rate": PEAK + ["--schedule", "constant"],
    "decay-steps": PEAK + ["--schedule", "linear", "--decay-steps", "9000"],
    "plateau-patience": PEAK + PLATEAU + ["--plateau-patience", "3"],
    "plateau-factor": PEAK + PLATEAU + ["--plateau-factor", "0.5"],
    "valid-script": ["--valid-script", "true", "--valid-every", "1"],
    "patience": ["--patience", "1", "--valid-every", "1"],
}
# How a refusal names what differs, where not as the option.
NAMES = {
    "corpus": "a corpus of digest",
}


class ResumeOptions(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.other = os.path.join(cls.folder, "other.h5")
        os.rename(cls.prepare_demo(train_pairs=60), cls.other)
        cls.corpus = cls.prepare_demo(train_pairs=50, options=["--keep-text"])
        plan, cls.later = (os.path.join(cls.folder, name) for name in ("plan", "later"))
        for path, end in ((plan, 5), (cls.later, 6)):  # of a stage that these runs do not reach
            with open(path, "w") as file:
                file.write(f"train 1 until 4 steps\ntrain 1 until {end} steps\n")
        cls.given = dict(zip(support.TINY_MODEL[::2], support.TINY_MODEL[1::2]))
        cls.given.update({"--preset": "tiny", "--max-steps": "1", "--logical-shards": "2", "--corpus": cls.corpus, "--mix": plan})

    def options(self):
        """The options of train: name, what it takes, its value in these runs, and whether it is fixed or only for new runs."""
        reference = self.succeed("help", "--markdown").decode()
        section = re.split(r"^## ", reference.split("\n## ventris train\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
        preset = dict(re.findall(r"^(\S+) = (.*)$", self.succeed("train", "--show-preset", "tiny").decode(), re.M))
        found = {}
        for name, takes, text in re.findall(r"^\| `--(\S+?)(?: ([^`]+))?` \| (.*) \|$", section, re.MULTILINE):
            default = re.search(r"default: ([^*;]+)(?:;|\*)", text)
            value = self.given.get("--" + name) or preset.get(name) or (default[1] if default else "")
            mark = re.search(r"(?:\*|; )(fixed|new runs only)\*$", text)
            found[name] = (takes.replace("\\|", "|"), value, mark[1] if mark else "")
        return found

    def another_value(self, name, takes, value, run):
        """The words of the option with a value that is not the one it has."""
        if name in TOGETHER:
            return [word.format(run=run) for word in TOGETHER[name]]
        if name in CHANGED:
            return [f"--{name}", CHANGED[name].format(run=run, later=self.later)]
        if name == "corpus":
            return ["--corpus", self.other]
        if not takes:
            return [f"--{name}"]
        if "|" in takes:
            return [f"--{name}", next(word for word in takes.split("|") if word != value)]
        if takes == "N":
            return [f"--{name}", str(int(value) + 1)]
        self.assertIn(takes, ("X", "ALPHA"), name)
        return [f"--{name}", str(float(value) / 2 or 0.5)]

    def test_every_option_has_the_right_mark(self):
        options = self.options()
        self.assertGreater(len([name for name, (_, _, mark) in options.items() if mark == "fixed"]), 30)

        def words(folder, *changed):
            kept = [word for pair in self.given.items() if pair[0] not in changed for word in pair]
            return ["train", "--model-dir", folder, *kept, *changed]

        def recorded(folder, name):
            with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
                return json.load(file)[name.replace("-", "_")]

        run = self.path("run")
        self.succeed(*words(run))
        for name, (takes, value, mark) in options.items():
            if name in OF_OTHERS | OF_NO_RUN:
                continue
            with self.subTest(option=name):
                copy = self.path(name)
                shutil.copytree(run, copy)
                changed = () if name == "model-dir" else self.another_value(name, takes, value, copy)
                if mark == "new runs only":  # a run that has nothing to do is silent
                    changed += ["--max-steps", "2"]
                result = support.run(*words(copy, *changed))
                message = result.stderr.decode()
                if mark == "new runs only":
                    self.assertEqual(recorded(copy, name), recorded(run, name))
                shutil.rmtree(copy)
                if mark == "fixed" or name == "corpus":
                    self.assertEqual(result.returncode, 78, message)
                    key = NAMES.get(name, "--" + name)
                    self.assertIn(f"checkpoint-00000001.h5 was written with {key} ", message)
                else:
                    self.assertEqual(result.returncode, 0, message)
                    self.assertRegex(message, "resuming from |nothing to do: ")
                    unread = re.search(f"without effect on one that resumes: .*--{name}\\b", message)
                    self.assertEqual(unread is not None, mark == "new runs only", message)


if __name__ == "__main__":
    unittest.main()
