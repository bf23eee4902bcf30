# SPDX-License-Identifier: Apache-2.0
"""ventris report --sentence: translations and attention by the checkpoints of runs, and how a browser shows them."""

import json
import os
import re
import shutil
import subprocess
import unittest

import support
from pages import BROWSER, Page

ODD = "<b>&amp; \"half\" 'past' \u202eseven</b> </script><script>alert(1)</script> \u05e9\u05dc\u05d5\u05dd"
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
SOURCE, REFERENCE = "half past seven", "halb acht"


def weights_of(text):
    return [(DIGITS.index(a) * 64 + DIGITS.index(b)) / 4095 for a, b in zip(text[::2], text[1::2])]


class Runs(support.CommandLineTest):
    """The run folders a, validated, with five checkpoints, and b of another shape, with two and never validated."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()
        cls.train("a", 60, "--valid-every", 20, "--save-every", 10, "--keep-checkpoints", 5)
        cls.train("b", 20, "--heads", 4, "--encoder-layers", 3, "--save-every", 10)

    @classmethod
    def train(cls, name, steps, *options, corpus=None):
        given = dict(zip(support.TINY_MODEL[::2], support.TINY_MODEL[1::2])) | dict(zip(options[::2], options[1::2]))
        words = [word for pair in given.items() for word in pair]
        result = support.run("train", "--corpus", corpus or cls.corpus, "--model-dir", os.path.join(cls.folder, name), *words, "--max-steps", steps)
        assert result.returncode == 0, result.stderr.decode(errors="replace")

    def checkpoints(self, name):
        return sorted(file for file in os.listdir(self.path(name)) if re.fullmatch(r"checkpoint-\d+\.h5", file))

    def copied(self, name, to):
        shutil.copytree(self.path(name), self.path(to))
        return to

    def page(self, *names, options=(), warns=()):
        """The page of runs; all that the program says must be these warnings, one in each line."""
        output = self.path("report.html")
        folders = (self.path(name) for name in names)
        result = support.run("report", *folders, "--output", output, *options)
        said = result.stderr.decode().splitlines()
        self.assertEqual(result.returncode, 0, said)
        self.assertEqual(len(said), len(warns), said)
        for line, words in zip(said, warns):
            self.assertTrue(line.startswith("warning: "), line)
            self.assertIn(words, line)
        return self.read(output).decode("ascii")

    def runs(self, *names, sentence=SOURCE, options=(), warns=()):
        sentences = [word for text in ([sentence] if isinstance(sentence, str) else sentence) for word in ("--sentence", text)]
        return Page(self.page(*names, options=(*sentences, *options), warns=warns)).data["runs"]

    def attention(self, model, source, *options):
        """What ventris attention says: the text of the target and the groups of maps."""
        output = self.path("attention.html")
        self.succeed("attention", "--model", model, "--source", source, "--output", output, "--device", "cpu", *options)
        data = Page(self.read(output).decode("ascii")).data
        return data["target"], data["groups"]

    def browse(self, page, script=""):
        """The document as the browser has it after the script; fails if the console shows an error."""
        path = self.write("browsed.html", page.replace("</body>", f"<script>{script}</script></body>"))
        words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1400,1000",
                 f"--user-data-dir={self.path('profile')}", "--virtual-time-budget=3000", "--dump-dom", f"file://{path}"]  # fmt: skip
        result = subprocess.run(words, capture_output=True, timeout=120, check=True)
        self.assertNotIn("CONSOLE", result.stderr.decode(errors="replace"))
        return result.stdout.decode()


class ReportAttention(Runs):
    def test_without_a_sentence_there_is_none(self):
        data = Page(self.page("a")).data
        self.assertEqual(data["sentences"], [])
        self.assertNotIn("attention", data["runs"][0])

    def test_numbers_are_those_of_attention(self):
        runs = self.runs("a", "b", options=("--reference", REFERENCE))
        compared = 0
        for name, run in zip("ab", runs):
            found = run["attention"]["checkpoints"]
            self.assertEqual([of["file"] for of in found], self.checkpoints(name))
            self.assertEqual([of["step"] for of in found], [int(file[11:19]) for file in self.checkpoints(name)])
            for of in found:
                (sentence,) = of["sentences"]
                model = self.path(name, of["file"])
                self.assertEqual((sentence["translation"], sentence["translated"]), self.attention(model, SOURCE))
                self.assertEqual(sentence["given"], self.attention(model, SOURCE, "--target", REFERENCE)[1])
                compared += 1
        self.assertEqual(compared, 7)
        best = json.loads(self.read(self.path("a", "best.json")))["checkpoint"]
        a, b = (run["attention"] for run in runs)
        self.assertEqual((a["checkpoints"][a["model"]]["file"], a["model_is_best"]), (best, True))
        self.assertEqual((b["checkpoints"][b["model"]]["step"], b["model_is_best"]), (20, False))
        self.assertEqual(a["checkpoints"][a["model"]]["sentences"][0]["translation"], self.attention(self.path("a"), SOURCE)[0])

    def test_options_of_the_search(self):
        for options in (("--beam-size", 1), ("--beam-size", 9, "--length-penalty", 2, "--max-length", 5), ("--sample", "--seed", 3)):
            (run,) = self.runs("a", options=("--checkpoints", 1, *options))
            (of,) = run["attention"]["checkpoints"]
            self.assertEqual((of["sentences"][0]["translation"], of["sentences"][0]["translated"]), self.attention(self.path("a"), SOURCE, *options))

    def test_checkpoints_are_bounded_and_the_model_is_among_them(self):
        steps = [int(file[11:19]) for file in self.checkpoints("a")]
        name = self.copied("a", "bounded")
        for best in steps:
            record = {**json.loads(self.read(self.path("a", "best.json"))), "checkpoint": f"checkpoint-{best:08}.h5"}
            self.write(f"{name}/best.json", json.dumps(record))
            for most in (1, 2, 3, 4, 24):
                attention = self.runs(name, options=("--checkpoints", most, "--beam-size", 1))[0]["attention"]
                found = [of["step"] for of in attention["checkpoints"]]
                self.assertEqual((len(found), attention["kept"]), (min(most, 5), 5))
                self.assertEqual(found, sorted(set(found)))
                self.assertEqual(found[attention["model"]], best)
                if most >= 3:
                    self.assertEqual((found[0], found[-1]), (steps[0], steps[-1]))

    def test_several_sentences(self):
        texts = ["seven", "half past seven", "seven"]
        (run,) = self.runs("b", sentence=texts, options=("--reference", "sieben", "--reference", "halb acht", "--reference", "x"))
        for of in run["attention"]["checkpoints"]:
            for text, target, sentence in zip(texts, ("sieben", "halb acht", "x"), of["sentences"]):
                model = self.path("b", of["file"])
                self.assertEqual((sentence["translation"], sentence["translated"]), self.attention(model, text))
                self.assertEqual(sentence["given"], self.attention(model, text, "--target", target)[1])

    def test_two_vocabularies(self):
        corpus = self.path("two.h5")
        self.succeed("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--source-vocab-size", 120,
                     "--target-vocab-size", 200, "--output", corpus)  # fmt: skip
        self.train("two", 10, "--save-every", 10, "--tie", "decoder", corpus=corpus)
        (run,) = self.runs("two", options=("--reference", REFERENCE))
        (sentence,) = run["attention"]["checkpoints"][0]["sentences"]
        self.assertEqual((sentence["translation"], sentence["translated"]), self.attention(self.path("two"), SOURCE))
        self.assertEqual("".join(sentence["given"][0]["queries"]), "\u2581halb\u2581acht</s>")

    def test_sentences_that_a_model_cannot_take(self):
        for text, says in ((" \t ", "--sentence has no tokens"), ("seven " * 600, "at most 512")):
            (run,) = self.runs("a", sentence=text, warns=[says])
            for of in run["attention"]["checkpoints"]:
                self.assertIn(says, of["sentences"][0]["problem"])
            self.assertIn("loss", run["series"])
        (run,) = self.runs("a", sentence=[SOURCE, " "], options=("--reference", "seven " * 600, "--reference", "x"),
                           warns=["--reference number 1 has", "--sentence number 2 has no tokens"])  # fmt: skip
        first, second = run["attention"]["checkpoints"][0]["sentences"]
        self.assertTrue(first["translated"])
        self.assertEqual((first["given"], second["translated"], second["given"]), (None, None, None))

    def test_what_is_refused(self):
        words = ("report", self.path("a"), "--output", self.path("none.html"))
        self.refuse(64, *words, "--sentence", "", says="--sentence")
        self.refuse(64, *words, "--sentence", "one\ntwo", says=["--sentence", "one sentence"])
        self.refuse(64, *words, "--sentence", "one", "--reference", "one\rtwo", says=["--reference", "one sentence"])
        self.refuse(64, *words, "--reference", "x", says=["--reference", "--sentence"])
        self.refuse(64, *words, "--sentence", "x", "--sentence", "y", "--reference", "z", says=["1 time", "2 times"])
        self.refuse(64, *words, *["--sentence", "x"] * 5, says=["--sentence", "5 times", "4"])
        self.refuse(64, *words, "--sentence", "x", "--checkpoints", 25, says="--checkpoints")
        self.refuse(64, *words, "--sentence", says="--sentence")
        for odd in (b"K\xe4se", b"\xed\xa0\x80", b"\xff"):
            self.refuse(65, *words, "--sentence", os.fsdecode(odd), says=["--sentence", "UTF-8"])
            self.refuse(65, *words, "--sentence", "x", "--reference", os.fsdecode(odd), says=["--reference", "UTF-8"])
        self.assertFalse(os.path.exists(self.path("none.html")))

    def test_a_run_behind_a_sentence_is_a_run(self):
        output = self.path("order.html")
        self.succeed("report", "--sentence", SOURCE, self.path("b"), "--output", output, self.path("a"))
        self.assertEqual([run["name"] for run in Page(self.read(output).decode()).data["runs"]], [self.path("b"), self.path("a")])
        config = self.write("options.ini", f"sentence = {SOURCE}\nsentence = seven\n")
        self.succeed("report", self.path("b"), "--output", output, "--config", config)
        self.assertEqual([of["source"] for of in Page(self.read(output).decode()).data["sentences"]], [SOURCE, "seven"])

    def test_runs_without_sound_checkpoints(self):
        os.makedirs(self.path("begun"), exist_ok=True)
        self.write("begun/config.json", "{}")
        damaged = self.copied("a", "damaged")
        names = self.checkpoints(damaged)
        for name, at in ((names[1], 3000), (names[2], None)):
            data = bytearray(self.read(self.path(damaged, name)))
            if at is None:
                data = data[:700]
            else:
                data[at] ^= 1
            self.write(f"{damaged}/{name}", bytes(data))
        begun, other, whole = self.runs("begun", damaged, "b", warns=["has no checkpoint yet", names[1], names[2]])
        self.assertIn("has no checkpoint yet", begun["attention"]["problem"])
        self.assertEqual([bool(of["problem"]) for of in other["attention"]["checkpoints"]], [False, True, True, False, False])
        self.assertEqual([of["problem"] for of in whole["attention"]["checkpoints"]], ["", ""])
        self.write(f"{damaged}/best.json", "{")
        (other,) = self.runs(damaged, warns=["best.json", names[1], names[2]])
        self.assertIn("best.json", other["attention"]["problem"])
        self.assertEqual((other["attention"]["model"], other["attention"]["model_is_best"]), (4, False))
        self.assertTrue(other["attention"]["checkpoints"][4]["sentences"][0]["translated"])
        self.assertIn("valid_loss", other["series"])

    def test_the_run_folder_of_a_release(self):
        folder = os.path.join(support.GOLDEN_DIR, "files", "1.0", "run")
        (run,) = self.runs(folder)
        self.assertTrue(run["attention"]["checkpoints"])
        for of in run["attention"]["checkpoints"]:
            (sentence,) = of["sentences"]
            self.assertEqual((sentence["translation"], sentence["translated"]), self.attention(os.path.join(folder, of["file"]), SOURCE))

    def test_a_page_has_room_for_so_many_maps(self):
        text = " ".join(["seven"] * 300)
        options = [word for _ in range(4) for word in ("--reference", text)]
        page = self.page("a", options=(*[word for _ in range(4) for word in ("--sentence", text)], *options, "--max-length", 3, "--beam-size", 1),
                         warns=["no room"])  # fmt: skip
        self.assertLess(len(page), 34 << 20)
        attention = Page(page).data["runs"][0]["attention"]
        there = [[sentence["given"] is not None for sentence in of["sentences"]] for of in attention["checkpoints"]]
        self.assertTrue(all(there[attention["model"]]))
        self.assertFalse(all(map(all, there)))
        self.assertTrue(all("translation" in sentence for of in attention["checkpoints"] for sentence in of["sentences"]))

    def test_texts_are_never_markup(self):
        texts = [ODD, "\u2028 a \u2029 b", "\u4eca\u65e5\u306f\u826f\u3044\u5929\u6c17\u3067\u3059", "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627"]
        options = [word for text in texts for word in ("--sentence", text, "--reference", text)]
        page = self.page("b", options=options)
        self.assertEqual([of["source"] for of in Page(page).data["sentences"]], texts)
        self.assertEqual(Page(page).scripts, 2)
        self.assertNotIn("alert(1)<", page)
        self.assertNotIn("://", page)
        if not BROWSER:
            self.skipTest("no Chromium")
        show = "const list = document.getElementById('attention-sentence'); list.selectedIndex = {}; list.onchange();"
        for at, text in enumerate(texts):
            document = self.browse(page, show.format(at))
            section = document.partition('id="attention-section"')[2]
            shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            for hidden in "\u202e\u2028\u2029":
                shown = shown.replace(hidden, f"\u27e8U+{ord(hidden):X}\u27e9")
            self.assertIn(f"<dt>source</dt><dd class=\"muted\"><bdi>{shown}</bdi>", section)

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_a_browser_steps_through_checkpoints_and_reads_out(self):
        page = self.page("a", "b", options=("--sentence", SOURCE, "--reference", REFERENCE))
        a, b = (run["attention"]["checkpoints"] for run in Page(page).data["runs"])
        document = self.browse(page)
        self.assertIn(f'data-maps="{2 * 3 + 2 * 5}"', document)  # cross-attention: layers by heads with their mean
        self.assertEqual(document.count('class="large"'), 2)
        choose = "const choose = (name, value) => { const list = document.getElementById('attention-' + name); list.value = value; list.onchange(); };"
        keys = "const press_ = (key, at) => document.querySelectorAll('.map canvas')[at].dispatchEvent(new KeyboardEvent('keydown', {key}));"
        for kind, group in (("Cross-attention", 0), ("Encoder self-attention", 1), ("Decoder self-attention", 2)):
            for head in ("mean", 1):
                script = choose + keys + f"choose('target', 'given'); choose('kind', '{kind}'); choose('layer', 1); choose('head', '{head}');"
                script += "document.querySelector('button[aria-label=\"earlier checkpoint\"]').click();"
                script += "press_('ArrowRight', 0); press_('ArrowDown', 0); press_('ArrowDown', 1); press_('PageDown', 1); press_('End', 1);"
                document = self.browse(page, script)
                read = re.findall(r'class="reading">(.*?)</p>', document)
                for at, (checkpoints, cell) in enumerate(((a, (1, 0)), (b, (-1, -1)))):
                    best = [of["file"] for of in checkpoints].index(self.model_of("a")) if at == 0 else 1
                    model = max(0, best - (at == 0))  # the first button is that of a
                    maps = checkpoints[model]["sentences"][0]["given"][group]
                    heads = [weights_of(text) for text in maps["weights"][: maps["heads"]]]
                    width = len(maps["keys"])
                    row, column = cell[0] % len(maps["queries"]), cell[1] % width
                    values = [weights[row * width + column] for weights in heads]
                    expected = sum(values) / len(values) if head == "mean" else values[1]
                    found = re.sub("</?bdi>", "", read[at])
                    tokens = f"{maps['queries'][row]} \u2192 {maps['keys'][column]}"
                    self.assertEqual(found.rpartition(": ")[0], tokens.replace("<", "&lt;").replace(">", "&gt;"))
                    self.assertAlmostEqual(float(found.rpartition(": ")[2]), expected, delta=6e-4)

    def model_of(self, name):
        return json.loads(self.read(self.path(name, "best.json")))["checkpoint"]

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_a_browser_shows_what_is_missing(self):
        os.makedirs(self.path("missing"), exist_ok=True)
        self.write("missing/config.json", "{}")
        options = ("--sentence", "seven " * 600)
        document = self.browse(self.page("missing", "b", options=options, warns=["has no checkpoint yet", "at most 512"]))
        section = document.partition('id="attention-section"')[2].partition("</section></div>")[0]
        self.assertIn("has no checkpoint yet", section)
        self.assertIn("a page of this model holds at most 512", section)
        self.assertNotIn('class="maps"', section)


if __name__ == "__main__":
    unittest.main(verbosity=2)
