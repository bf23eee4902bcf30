# SPDX-License-Identifier: Apache-2.0
"""ventris attention --checkpoints: translations, attention and search by the checkpoints of a run, and how a browser shows them."""

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

    def page(self, name, *options, source=SOURCE, warns=()):
        """The page of a run; all that the program says must be these warnings, one in each line."""
        output = self.path("attention.html")
        result = support.run("attention", "--model", self.path(name), "--source", source, "--output", output, "--device", "cpu", *options)
        said = result.stderr.decode().splitlines()
        self.assertEqual(result.returncode, 0, said)
        self.assertEqual(len(said), len(warns), said)
        for line, words in zip(said, warns):
            self.assertTrue(line.startswith("warning: "), line)
            self.assertIn(words, line)
        return self.read(output).decode("ascii")

    def data(self, name, *options, **more):
        return Page(self.page(name, *options, **more)).data

    def browse(self, page, script=""):
        """The document as the browser has it after the script; fails if the console shows an error."""
        path = self.write("browsed.html", page.replace("</body>", f"<script>{script}</script></body>"))
        words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1400,1000",
                 f"--user-data-dir={self.path('profile')}", "--virtual-time-budget=3000", "--dump-dom", f"file://{path}"]  # fmt: skip
        result = subprocess.run(words, capture_output=True, timeout=120, check=True)
        self.assertNotIn("CONSOLE", result.stderr.decode(errors="replace"))
        return result.stdout.decode()


class AttentionOfCheckpoints(Runs):
    def test_views_are_those_of_each_checkpoint(self):
        for name in "ab":
            data = self.data(name, "--checkpoints", 6, "--target", REFERENCE)
            found = data["checkpoints"]
            self.assertEqual([os.path.basename(of["file"]) for of in found], self.checkpoints(name))
            self.assertEqual([of["step"] for of in found], [int(file[11:19]) for file in self.checkpoints(name)])
            for of in found:
                (alone,) = self.data(os.path.join(name, os.path.basename(of["file"])), "--target", REFERENCE)["checkpoints"]
                self.assertEqual({key: value for key, value in of.items() if key != "step"}, alone)
            model = os.path.basename(found[data["model"]]["file"])
            if name == "a":
                self.assertEqual((model, data["is_best"]), (json.loads(self.read(self.path("a", "best.json")))["checkpoint"], True))
            else:
                self.assertEqual((model, data["is_best"]), (self.checkpoints("b")[-1], False))
            self.assertEqual(self.data(name)["checkpoints"][0]["translation"], found[data["model"]]["translation"])

    def test_checkpoints_are_bounded_and_the_model_is_among_them(self):
        steps = [int(file[11:19]) for file in self.checkpoints("a")]
        name = self.copied("a", "bounded")
        for best in (steps[0], steps[1], steps[-1]):
            record = {**json.loads(self.read(self.path("a", "best.json"))), "checkpoint": f"checkpoint-{best:08}.h5"}
            self.write(f"{name}/best.json", json.dumps(record))
            for most in (2, 3, 4, 24):
                data = self.data(name, "--checkpoints", most, "--beam-size", 1)
                found = [of["step"] for of in data["checkpoints"]]
                self.assertEqual((len(found), data["in_folder"]), (min(most, 5), 5))
                self.assertEqual(found, sorted(set(found)))
                self.assertEqual(found[data["model"]], best)
                if most >= 3:
                    self.assertEqual((found[0], found[-1]), (steps[0], steps[-1]))

    def test_two_vocabularies(self):
        corpus = self.path("two.h5")
        self.succeed("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--source-vocab-size", 120,
                     "--target-vocab-size", 200, "--output", corpus)  # fmt: skip
        self.train("two", 10, "--save-every", 10, "--tie", "decoder", corpus=corpus)
        (view,) = self.data("two", "--target", REFERENCE)["checkpoints"]
        self.assertEqual("".join(view["given"][0]["queries"]), "\u2581halb\u2581acht</s>")

    def test_damaged_checkpoints_are_named_and_the_others_drawn(self):
        damaged = self.copied("a", "damaged")
        names = self.checkpoints(damaged)
        best = json.loads(self.read(self.path("a", "best.json")))["checkpoint"]
        hit = [name for name in names if name != best][:2]
        for name, at in zip(hit, (3000, None)):
            data = bytearray(self.read(self.path(damaged, name)))
            if at is None:
                data = data[:700]
            else:
                data[at] ^= 1
            self.write(f"{damaged}/{name}", bytes(data))
        views = self.data(damaged, "--checkpoints", 5, warns=sorted(hit, reverse=True))["checkpoints"]
        for name, view in zip(names, views):
            self.assertEqual((name in view["problem"], "translated" in view), (name in hit, name not in hit))

    def test_what_is_refused(self):
        words = ("attention", "--source", "x", "--output", self.path("none.html"), "--model")
        os.makedirs(self.path("begun"), exist_ok=True)
        self.write("begun/config.json", "{}")
        self.refuse(66, *words, self.path("begun"), "--checkpoints", 2, says="has no checkpoint yet")
        self.refuse(64, *words, self.path("a", self.checkpoints("a")[0]), "--checkpoints", 2, says=["--checkpoints 2", "run folder"])
        self.refuse(64, *words, self.path("a"), "--checkpoints", 25, says="--checkpoints")
        self.refuse(64, *words, self.path("a"), "--target", "one\rtwo", says=["--target", "one sentence"])
        self.refuse(65, *words, self.path("a"), "--target", "seven " * 600, says=["--target has", "at most 512"])
        self.refuse(65, *words, self.path("a"), "--target", os.fsdecode(b"K\xe4se"), says=["--target", "UTF-8"])
        self.assertFalse(os.path.exists(self.path("none.html")))

    def test_a_page_has_room_for_so_many_maps(self):
        text = " ".join(["seven"] * 480)
        page = self.page("b", "--checkpoints", 2, "--target", text, "--max-length", 3, "--beam-size", 1, source=text, warns=["no room"])
        self.assertLess(len(page), 40 << 20)
        data = Page(page).data
        there = [of["given"] is not None for of in data["checkpoints"]]
        self.assertTrue(there[data["model"]])
        self.assertFalse(all(there))
        self.assertTrue(all("translation" in of for of in data["checkpoints"]))

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_texts_are_never_markup(self):
        for text in (ODD, "\u2028 a \u2029 b", "\u4eca\u65e5\u306f\u826f\u3044\u5929\u6c17\u3067\u3059"):
            page = self.page("b", "--target", text, source=text)
            self.assertEqual((Page(page).data["source"], Page(page).scripts), (text, 2))
            self.assertNotIn("alert(1)<", page)
            shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            for hidden in "\u202e\u2028\u2029":
                shown = shown.replace(hidden, f"\u27e8U+{ord(hidden):X}\u27e9")
            self.assertIn(f'<bdi id="source">{shown}</bdi>', self.browse(page))

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_a_browser_steps_through_checkpoints_and_reads_out(self):
        page = self.page("a", "--checkpoints", 5, "--target", REFERENCE)
        data = Page(page).data
        document = self.browse(page)
        self.assertIn('data-maps="15"', document)  # of each layer its heads and their mean
        before = max(0, data["model"] - 1)
        maps = data["checkpoints"][before]["given"]
        press = "const press_ = key => document.querySelector('.map canvas').dispatchEvent(new KeyboardEvent('keydown', {key}));"
        for kind, group in enumerate(maps):
            for head in (1, "mean"):
                which = sum(of["layers"] * (of["heads"] + 1) for of in maps[:kind]) + (group["heads"] if head == "mean" else head)
                script = press + "byId('target').value = 'given'; byId('target').onchange(); byId('back').click();"
                script += f"small[{which}].button.click(); press_('ArrowRight'); press_('ArrowDown');"
                document = self.browse(page, script)
                read = re.sub("</?bdi>", "", re.search(r'class="reading">(.*?)</p>', document)[1])
                heads = [weights_of(text) for text in group["weights"][: group["heads"]]]
                values = [weights[len(group["keys"])] for weights in heads]
                tokens = f"{group['queries'][1]} \u2192 {group['keys'][0]}"
                self.assertEqual(read.rpartition(": ")[0], tokens.replace("<", "&lt;").replace(">", "&gt;"))
                self.assertAlmostEqual(float(read.rpartition(": ")[2]), sum(values) / len(values) if head == "mean" else values[1], delta=6e-4)
        self.assertIn(os.path.basename(data["checkpoints"][before]["file"]), re.search(r'<bdi id="model">(.*?)</bdi>', document)[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
