# SPDX-License-Identifier: Apache-2.0
"""launch/recipes/wmt14.sh, whole and killed in every stage, on stand-ins for the data of WMT 2014: real text of the same kinds under
the same names."""

import gzip
import itertools
import os
import pathlib
import re
import signal
import subprocess
import unittest

import support

RECIPE = os.path.join(support.SOURCE_DIR, "launch", "recipes", "wmt14.sh")
DATA = pathlib.Path(support.SOURCE_DIR).parent / "shared" / "data"
WORDS_OF_TRAIN = [*support.TINY_MODEL, "--save-every", "10", "--logical-shards", "2", "--valid-max-sentences", "8"]
WORDS_OF_TRAIN[WORDS_OF_TRAIN.index("--valid-every") + 1] = "10"

# In the place of the program and of sha256sum. Kills all that the recipe has started, before, in or after the first call of $KILL_IN,
# or waits in it; and records its calls.
STAND_IN = """#!/bin/bash
name=${0##*/}
# Training has a session of its own, and gets SIGUSR1 when supervise.sh is killed.
end() {
  trap '' USR1
  kill -9 -- "-$(ps -o pgid= -p $PPID | tr -d ' ')"
  kill -9 0
}
real=$REAL
command=$1
if [[ $name == sha256sum ]]; then real=/usr/bin/sha256sum command=$name; fi
echo "$command" >>"$CALLS"
if [[ $command == "$KILL_IN" ]]; then
  case $KILL_WHEN in
    before) end ;;
    soon) "$real" "$@" & sleep 0.2; end ;;
    "step 20") "$real" "$@" & until [[ -e $RUN/model/checkpoint-00000020.h5 ]]; do sleep 0.01; done; end ;;
    third) if (($(grep -c "^$command" "$CALLS") == 3)); then end; fi ;;
    after) "$real" "$@"; end ;;
    wait) sleep 600 ;;
  esac
fi
exec "$real" "$@"
"""


def lines_of(name, begin=0, end=None):
    """Lines of a file of the shared data."""
    with gzip.open(DATA / name, "rb") as file:
        return list(itertools.islice(file, begin, end))


def in_sgm(lines):
    segments = b"".join(b'<seg id="%d">%s</seg>\n' % (i + 1, line.rstrip(b"\n")) for i, line in enumerate(lines))
    return b'<srcset setid="newstest2014">\n<doc docid="a">\n<p>\n' + segments + b"</p>\n</doc>\n</srcset>\n"


class Wmt14(support.CommandLineTest):
    def put(self, name, content):
        """A file, gzipped if its name says so."""
        path = pathlib.Path(self.folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content, 1) if name.endswith(".gz") else content)

    def english_german(self, folder):
        for side in ("en", "de"):
            crawl = f"wmt-en-de-20k/nmtmatlab10k.train.tok.{side}.gz"
            others = f"wmt-en-de-20k/opennmt10k.train.tok.{side}.gz"
            news = f"wmt-newstest/newstest2013.en-de.{'tok.' if side == 'en' else ''}{side}.gz"
            self.put(f"{folder}/training/europarl-v7.de-en.{side}", b"".join(lines_of(others, 0, 1500)))
            self.put(f"{folder}/commoncrawl.de-en.{side}.gz", b"".join(lines_of(crawl, 0, 1500)))
            self.put(f"{folder}/training/news-commentary-v9.de-en.{side}", b"".join(lines_of(others, 1500, 2500)))
            self.put(f"{folder}/dev/newstest2013.{side}", b"".join(lines_of(news, 0, 30)))
            kind = "src" if side == "en" else "ref"
            self.put(f"{folder}/test-full/newstest2014-deen-{kind}.{side}.sgm", in_sgm(lines_of(news, 30, 60)))

    def english_french(self, folder):
        places = ("training/europarl-v7.fr-en.{}", "commoncrawl.fr-en.{}", "un/undoc.2000.fr-en.{}")
        places += ("training/news-commentary-v9.fr-en.{}", "giga-fren.release2.fixed.{}.gz")
        for side in ("en", "fr"):
            for i, place in enumerate(places):
                some = lines_of(f"europarl-fr-en-20k/train.tok.{side}.gz", 600 * i, 600 * (i + 1))
                self.put(f"{folder}/{place.format(side)}", b"".join(some))
            news = f"wmt-newstest/newstest2012.en-fr.tok.{side}.gz"
            self.put(f"{folder}/dev/newstest2013.{side}", b"".join(lines_of(news, 0, 10)))
            kind = "src" if side == "en" else "ref"
            self.put(f"{folder}/newstest2014-fren-{kind}.{side}.sgm", in_sgm(lines_of(news, 30, 40)))

    def start_recipe(self, pair, folder, *options, kill_in="", kill_when="", preset="tiny", **variables):
        """Starts the recipe in a process group of its own."""
        tools = pathlib.Path(self.folder, "tools")
        if not tools.exists():
            tools.mkdir()
            for name in ("ventris", "sha256sum"):
                (tools / name).write_text(STAND_IN, encoding="utf-8")
                (tools / name).chmod(0o700)
        pathlib.Path(self.path("calls")).write_text("", encoding="utf-8")
        settings = {"PATH": f"{tools}:{os.environ['PATH']}", "REAL": support.BINARY, "CALLS": self.path("calls"), "RUN": self.path(folder, f"{pair}-{preset}"),
                    "KILL_IN": kill_in, "KILL_WHEN": kill_when, "PRESET": preset, "STEPS": "30", "VOCAB": "1200", "DEVICE": "cpu", "ANY_SIZE": "yes",
                    **variables}  # fmt: skip
        words = ["bash", RECIPE, pair, self.path(folder), *(options or WORDS_OF_TRAIN)]
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=support.environment(**settings), start_new_session=True)  # fmt: skip

    def wait_until_free(self, folder):
        """Until nothing that a killed recipe started still runs."""
        lock = self.path(folder, ".wmt14.lock")
        subprocess.run(["flock", "--timeout", "60", lock, "true"], check=True)

    def recipe(self, pair, folder, *options, **others):
        """Runs it to its end: exit code, both outputs, and what it called."""
        process = self.start_recipe(pair, folder, *options, **others)
        output, errors = process.communicate(timeout=600)
        self.wait_until_free(folder)
        called = pathlib.Path(self.path("calls")).read_text(encoding="utf-8").split()
        return process.returncode, output, errors, called

    def refuse_recipe(self, code, *says, pair="en-de", folder, **others):
        result, output, errors, called = self.recipe(pair, folder, **others)
        self.assertEqual(result, code, errors)
        for words in says:
            self.assertIn(words, errors)
        self.assertEqual([name for name in called if name != "sha256sum"], [], output)

    @unittest.skipUnless((DATA / "wmt-en-de-20k").exists(), "the shared corpora are not here")
    def test_killed_in_every_stage_it_gives_the_result_of_a_run_that_was_not(self):
        self.english_german("whole")
        code, output, errors, called = self.recipe("en-de", "whole")
        self.assertEqual(code, 0, errors)
        expected = ["prepare", "plan", "plan", "plan", "train", "average", "evaluate", "bleu"]
        self.assertEqual([name for name in called if name != "sha256sum"], expected)
        self.assertEqual(called.count("sha256sum"), 10)
        self.assertRegex(output, r"\nBLEU\|nrefs:1\|.* = [\d.]+ .*\npaper-BLEU\|.*tok:moses-de\|compounds:split\|.* = [\d.]+ ")
        self.assertRegex(output, "\ntrain: 4,000 pairs read, ")
        self.assertIn("Averaging the last 3 checkpoints", output)
        scores = self.read(self.path("whole", "en-de-tiny", "scores.txt"))

        self.english_german("killed")
        kills = [("sha256sum", "third", 30), ("prepare", "soon", 30), ("prepare", "after", 30), ("train", "before", 30), ("average", "before", 14)]
        kills += [("train", "step 20", 30), ("train", "after", 30), ("evaluate", "soon", 30), ("evaluate", "after", 30), ("bleu", "after", 30)]
        for name, when, steps in kills:
            with self.subTest(kill=name, when=when):
                code, output, errors, called = self.recipe("en-de", "killed", kill_in=name, kill_when=when, STEPS=str(steps))
                self.assertEqual(code, -signal.SIGKILL, output + errors)
                self.assertIn(name, called)
        # That of a stop between two is not averaged.
        self.assertTrue(os.path.exists(self.path("killed", "en-de-tiny", "model", "checkpoint-00000014.h5")))
        code, output, errors, called = self.recipe("en-de", "killed")
        self.assertEqual(code, 0, errors)
        self.assertEqual(called, ["sha256sum", "sha256sum", "evaluate", "bleu"], "stages before are done")
        for name in ("scores.txt", "newstest2014.out"):
            self.assertEqual(self.read(self.path("killed", "en-de-tiny", name)), self.read(self.path("whole", "en-de-tiny", name)))
        ours = support.parameters(self.path("killed", "en-de-tiny", "averaged.h5"))
        for name, values in support.parameters(self.path("whole", "en-de-tiny", "averaged.h5")).items():
            self.assertEqual(ours[name].tobytes(), values.tobytes(), name)

        # Once more: nothing is left to do.
        code, output, errors, called = self.recipe("en-de", "killed")
        self.assertEqual((code, called), (0, []), errors)
        self.assertIn(scores.decode(), output)

        # More steps, on two ranks: training goes on, and what follows it is done again.
        ranks = 2 if support.MPIEXEC else 1
        code, output, errors, called = self.recipe("en-de", "killed", STEPS="50", RANKS=str(ranks))
        self.assertEqual(code, 0, errors)
        expected = ["plan", "plan", "plan", "average", "sha256sum", "sha256sum", *["evaluate"] * ranks, "bleu"]
        self.assertEqual([name for name in called if name != "train"], expected)
        self.assertRegex(errors, r"resuming from .* at step 30")

        self.refuse_recipe(78, "--vocab-size 1200", "--vocab-size 999", "VOCAB", folder="killed", VOCAB="999")
        # A test set that is another than at the first use.
        test = pathlib.Path(self.path("killed", "test-full", "newstest2014-deen-ref.de.sgm"))
        test.write_bytes(test.read_bytes().replace(b"<seg", b"<seg ", 1))
        code, output, errors, called = self.recipe("en-de", "killed", STEPS="51")
        self.assertEqual(code, 65, errors)
        self.assertIn("newstest2014-deen-ref.de.sgm has changed", errors)
        os.rename(self.path("killed", "en-de-tiny", "model"), self.path("moved"))
        code, output, errors, called = self.recipe("en-de", "killed", STEPS="51")
        self.assertEqual(code, 66, errors)
        self.assertIn("en-de-tiny/model was trained and is gone", errors)

    @unittest.skipUnless((DATA / "europarl-fr-en-20k").exists(), "the shared corpora are not here")
    def test_english_french_big(self):
        self.english_french("french")
        steps = {"STEPS": "3", "preset": "big", "STEP_MS": "40", "FIXED_MS": "2"}
        code, output, errors, _ = self.recipe("en-fr", "french", **steps)
        self.assertEqual(code, 0, errors)
        settings = self.read(self.path("french", "en-fr-big", "train.ini")).decode()
        self.assertEqual(settings.splitlines(), ["preset = big", "save-every = 600", "valid-every = 3000", "keep-checkpoints = 30",
                                                 "max-steps = 3", "dropout = 0.1"])  # fmt: skip
        prepared = self.read(self.path("french", "en-fr-big", "done", "prepare")).decode()
        self.assertEqual(prepared, "--vocab-size 1200 --max-length 250 --max-length-ratio 1.5 --character-coverage 0.9999")
        self.assertRegex(output, "predicted step +40 ms")
        self.assertIn("the paper has 41.8", output)
        self.assertRegex(output, r"\npaper-BLEU\|.*tok:moses-fr\|")

    @unittest.skipUnless((DATA / "wmt-en-de-20k").exists(), "the shared corpora are not here")
    def test_a_second_process_is_refused_also_after_the_script_alone_was_killed(self):
        self.english_german("held")
        process = self.start_recipe("en-de", "held", kill_in="prepare", kill_when="wait")
        self.addCleanup(lambda: (process.stdout.close(), process.stderr.close()))
        try:
            calls = pathlib.Path(self.path("calls"))
            self.assertTrue(support.wait_for(lambda: "prepare" in calls.read_text(encoding="utf-8"), process))
            for _ in range(2):
                words = ["bash", RECIPE, "en-de", self.path("held")]
                second = subprocess.run(words, env=support.environment(VENTRIS="false"), capture_output=True, check=False)
                self.assertEqual(second.returncode, 73, second.stderr)
                self.assertIn(b"is in use", second.stderr)
                process.kill()
                process.wait()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
        self.wait_until_free("held")

    @unittest.skipUnless((DATA / "wmt-en-de-20k").exists(), "the shared corpora are not here")
    def test_files_that_are_missing_or_other_than_published(self):
        self.english_german("files")
        self.refuse_recipe(65, "training/europarl-v7.de-en.en has 1500 lines, 1920209 are published", folder="files", ANY_SIZE="no")
        os.remove(self.path("files", "training", "europarl-v7.de-en.en"))
        os.remove(self.path("files", "test-full", "newstest2014-deen-ref.de.sgm"))
        named = ["europarl-v7.de-en.en (1920209 lines), of training-parallel-europarl-v7.tgz"]
        named += ["newstest2014-deen-ref.de.sgm (3003 lines), of test-full.tgz", "https://www.statmt.org/wmt14/", "tar -xf"]
        self.refuse_recipe(66, *named, folder="files")

    def test_command_lines_that_are_wrong(self):
        os.makedirs(self.path("empty"))
        self.refuse_recipe(64, "there is no pair 'de-en'", "usage: ", pair="de-en", folder="empty")
        self.refuse_recipe(64, "PRESET=huge", folder="empty", preset="huge")
        self.refuse_recipe(64, "RANKS=many", folder="empty", RANKS="many")
        process = subprocess.run(["bash", RECIPE, "en-de", self.path("nowhere")], capture_output=True, check=False)
        self.assertEqual(process.returncode, 66, process.stderr)

    def test_segments_are_those_that_sacrebleu_takes(self):
        white = "".join(chr(code) for code in range(0x3001) if chr(code).isspace() and chr(code) not in "\n\r")
        texts = ["plain", " spaces  inside\t and around ", "&quot;kept&quot; &amp; <b>so</b>", f"every{'x'.join(white)}one", ""]
        self.put("news.sgm", in_sgm([text.encode() for text in texts]))
        # sacrebleu.dataset.fake_sgml: what is between the tags, with re.sub(r"\s+", " ", text.strip()).
        expected = [re.sub(r"\s+", " ", text.strip()) for text in texts]
        source = pathlib.Path(RECIPE).read_text(encoding="utf-8")
        functions = re.search(r"^text\(\).*?^}\n", source, re.MULTILINE | re.DOTALL)[0]
        output = subprocess.run(["bash", "-c", f"{functions}\nsegments {self.path('news.sgm')}"], stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(output.decode().split("\n")[:-1], expected)

    def test_predicted_times_are_those_of_the_documentation(self):
        source = pathlib.Path(RECIPE).read_text(encoding="utf-8")
        page = pathlib.Path(support.SOURCE_DIR, "docs", "scaling.md").read_text(encoding="utf-8")
        times = [float(number) for number in re.findall(r"step_ms=(\d[\d.]*) ", source)]
        first = re.search(r"^\| 1 \| ([\d.]+), .*?\| .*?\| ([\d.]+), ", page, re.MULTILINE)
        self.assertEqual(times, [float(first[1]), float(first[2])])
        fixed = re.search(r"of which ([\d.]+) and ([\d.]+) ms are repeated on every rank", page.replace("\n", " "))
        self.assertEqual(re.findall(r"fixed_ms=(\d[\d.]*) ", source), [fixed[1], fixed[2]])


if __name__ == "__main__":
    unittest.main(verbosity=2)
