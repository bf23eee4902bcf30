# SPDX-License-Identifier: Apache-2.0
"""ventris attention: the page of heat maps and of the search, and how a browser draws it; translate --alignment."""

import html.parser
import json
import math
import os
import re
import shutil
import subprocess
import unittest

import support

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
ODD = "<b>&amp; \"half\" 'past' \u202eseven</b> </script><script>alert(1)</script> \u05e9\u05dc\u05d5\u05dd"


class Elements(html.parser.HTMLParser):
    """The elements of a page by name, and the text of those with an id."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.open = [], {}, None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open = dict(attributes).get("id")

    def handle_endtag(self, tag):
        self.open = None

    def handle_data(self, data):
        if self.open:
            self.text[self.open] = self.text.get(self.open, "") + data

    def count(self, tag, **attributes):
        return sum(t == tag and attributes.items() <= a.items() for t, a in self.tags)


def matrix(text, columns):
    """Weights as the page holds them: two digits of base 64 each, for 0 to 4095."""
    values = [DIGITS.index(a) * 64 + DIGITS.index(b) for a, b in zip(text[::2], text[1::2])]
    return [values[i : i + columns] for i in range(0, len(values), columns)]


class Attention(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.train_demo(steps=300)

    def page(self, source, *options):
        output = self.path("map.html")
        told = self.succeed(
            "attention", "--model", self.model, "--source", source, "--output", output, *options
        )
        self.assertIn(b"1 model, 10 heat maps of the translation, ", told)
        return self.read(output).decode("ascii")

    def view(self, source, *options):
        """The data of the page, and of its one model."""
        data = json.loads(Elements(self.page(source, *options)).text["data"])
        (view,) = data["checkpoints"]
        return data, view

    def groups(self, source, *options):
        """The maps while the model writes the reference, if one is given, otherwise its translation."""
        data, view = self.view(source, *options)
        return view["given" if data["reference"] else "translated"]

    def test_holds_the_weights_of_every_layer_and_head(self):
        data, view = self.view("half past seven", "--target", "halb acht", "--batch-rows", 40)
        self.assertEqual((data["source"], data["reference"]), ("half past seven", "halb acht"))
        cross, encoder, decoder = view["given"]
        self.assertEqual([g["layers"] for g in (encoder, decoder, cross)], [1, 2, 2])
        self.assertEqual("".join(encoder["keys"]), "\u2581half\u2581past\u2581seven</s>")
        self.assertEqual("".join(cross["queries"]), "\u2581halb\u2581acht</s>")
        self.assertEqual("".join(decoder["keys"]), "<s>\u2581halb\u2581acht")
        self.assertEqual((cross["keys"], decoder["queries"]), (encoder["keys"], cross["queries"]))
        for group in view["given"]:
            self.assertEqual(len(group["weights"]), group["layers"] * group["heads"])
            self.assertEqual(group["heads"], 2)
            for weights in group["weights"]:
                rows = matrix(weights, len(group["keys"]))
                self.assertEqual(len(rows), len(group["queries"]))
                for t, row in enumerate(rows):
                    self.assertTrue(math.isclose(sum(row), 4095, abs_tol=len(row)))
                    if group is decoder:
                        self.assertEqual(sum(row[t + 1 :]), 0)

    def test_without_a_target_shows_the_translation_of_the_model(self):
        for options in ((), ("--beam-size", 1)):
            expected = self.succeed("translate", "--model", self.model, *options, stdin=b"half past seven\n")
            _, view = self.view("half past seven", *options)
            self.assertEqual(view["translation"], expected.decode().rstrip("\n"))
            self.assertIsNone(view["given"])
            self.assertEqual(self.groups("half past seven", "--target", view["translation"]), view["translated"])

    def search(self, source, *options):
        """The data of the search with its translation, and the page."""
        page = self.page(source, *options)
        (view,) = json.loads(Elements(page).text["data"])["checkpoints"]
        found = view["search"] | {key: view[key] for key in ("translation", "score")}
        found["attention"] = [[[weight / 4095 for weight in matrix(row, len(row) // 2)[0]] for row in layer] for layer in found["attention"]]
        return found, page

    def test_a_search_is_that_of_translate(self):
        for beam, penalty, source in ((4, 0.6, "half past seven"), (1, 0, "twenty-one"), (7, 1.5, "on the third of may")):
            options = ("--beam-size", beam, "--length-penalty", penalty)
            listed = self.succeed("translate", "--model", self.model, *options, "--n-best", 1, stdin=source.encode() + b"\n").decode()
            _, text, score = listed.rstrip("\n").split(" ||| ")
            data, _ = self.search(source, *options)
            self.assertEqual((data["translation"], data["beam_size"], data["length_penalty"]), (text, beam, penalty))
            self.assertAlmostEqual(data["score"], float(score), delta=1e-3)
            live, ended, won = [None], [], []
            for step, nodes in enumerate(data["steps"]):
                sums = [node["log_probability"] for node in nodes]
                self.assertEqual(sums, sorted(sums, reverse=True))
                self.assertEqual([bool(node.get("kept")) for node in nodes], [i < beam for i in range(len(nodes))])
                if {node["piece"] for node in nodes} != {"</s>"}:  # as at the maximum length
                    self.assertEqual(len(nodes), beam * len(live))
                for node in nodes:
                    before = data["steps"][step - 1][node["parent"]] if step else None
                    self.assertIn(node["parent"] if step else None, live)
                    self.assertLessEqual(node["log_probability"], before["log_probability"] if before else 0)
                    length = step + 1 + (node["piece"] != "</s>")
                    self.assertAlmostEqual(node["score"], node["log_probability"] / ((5 + length) / 6) ** penalty, delta=1e-5)
                live = [i for i, node in enumerate(nodes) if node.get("kept") and not node.get("ended")]
                ended += [node for node in nodes if node.get("ended")]
                won += [node["piece"] for node in nodes if node.get("winner")]
            best = max(ended, key=lambda node: node["score"])
            self.assertTrue(best["winner"])
            self.assertAlmostEqual(best["score"], data["score"], delta=1e-9)
            self.assertEqual("".join(won[:-1]).replace("\u2581", " ").strip(), text)
            for layer in data["attention"]:
                rows = [node["attention"] for nodes in data["steps"] for node in nodes if node.get("kept")]
                self.assertEqual(sorted(set(rows)), list(range(len(layer))))
                for row in layer:
                    self.assertEqual(len(row), len(data["source_tokens"]))
                    self.assertAlmostEqual(sum(row), 1, delta=1e-2)

    def test_the_attention_of_a_search_is_that_of_the_maps(self):
        source = "half past seven"
        data, _ = self.search(source)
        group = self.groups(source, "--target", data["translation"])[0]
        way = [node for nodes in data["steps"] for node in nodes if node.get("winner")]
        for layer, rows in enumerate(data["attention"]):
            heads = [matrix(weights, len(group["keys"])) for weights in group["weights"][2 * layer : 2 * layer + 2]]
            for t, node in enumerate(way):
                for key, weight in enumerate(rows[node["attention"]]):
                    self.assertAlmostEqual(weight, sum(head[t][key] for head in heads) / 2 / 4095, delta=2e-3)

    def test_a_page_has_the_best_of_very_many_that_fell_out(self):
        data, _ = self.search("half past seven", "--beam-size", 20, "--target", "zwei halb")
        self.assertGreater(data["considered"][1], 200)
        fallen = [node for node in data["steps"][1] if not node.get("kept")]
        self.assertEqual([node["rank"] for node in data["steps"][1][:120]], list(range(1, 121)))
        self.assertLessEqual(len(fallen), 101)
        self.assertTrue(all(node.get("reference") for node in fallen[100:]))

    def test_a_reference_is_followed_through_the_search(self):
        found, _ = self.search("half past seven")
        data, _ = self.search("half past seven", "--target", found["translation"])
        self.assertAlmostEqual(data["reference"]["score"], data["score"], delta=1e-4)
        self.assertTrue(all(any(node.get("reference") for node in nodes) for nodes in data["steps"][: len(data["reference"]["pieces"])]))
        data, page = self.search("half past seven", "--target", "seven " + ODD)
        self.assertLess(data["reference"]["score"], data["score"])
        self.assertEqual(json.loads(Elements(page).text["data"])["reference"], "seven " + ODD)
        self.assertEqual(Elements(page).count("script"), 2)

    def test_sampling_has_no_search(self):
        _, view = self.view("half past seven", "--sample", "--seed", 3)
        self.assertNotIn("search", view)
        expected = self.succeed("translate", "--model", self.model, "--sample", "--seed", 3, stdin=b"half past seven\n")
        self.assertEqual(view["translation"], expected.decode().rstrip("\n"))

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_a_browser_draws_a_search(self):
        data, page = self.search("half past seven", "--target", "seven halb")
        path = self.write("search_browsed.html", page.replace("</body>", "<script>boxes[0][1].click()</script></body>"))
        words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                 f"--user-data-dir={self.path('profile')}", "--virtual-time-budget=3000", "--dump-dom", f"file://{path}"]
        result = subprocess.run(words, capture_output=True, timeout=120, check=True)
        self.assertNotIn("CONSOLE", result.stderr.decode(errors="replace"))
        document = result.stdout.decode()
        self.assertIn(f'data-steps="{len(data["steps"])}"', document)
        self.assertEqual(document.count("aria-pressed"), sum(map(len, data["steps"])) + 15 + page.count("aria-pressed"))
        self.assertRegex(document, "The reference left the beam in step [0-9]+: its token .* The model gives the translation the better score")
        self.assertIn("Step 1, rank 2: kept", document)

    def test_text_is_never_markup(self):
        page = self.page(ODD, "--target", ODD)
        self.assertEqual(json.loads(Elements(page).text["data"])["source"], ODD)
        self.assertEqual(Elements(page).count("script"), 2)
        self.assertNotIn("alert(1)</script>", page)
        self.assertNotIn("://", page.replace('"://www.w3.org', ""))

    def test_refuses_what_it_cannot_draw(self):
        common = ("attention", "--model", self.model, "--output", self.path("none.html"))
        self.refuse(64, *common, says="--source")
        self.refuse(64, *common, self.model, "--source", "x", says="unexpected argument")
        self.refuse(64, *common, "--source", "x", "--model", self.model, says="--model is given more than once")
        self.assertNotIn("ensemble", self.succeed("attention", "--help", "all").decode())
        self.refuse(64, *common, "--source", "x", "--top-k", 5, says="--top-k has no effect without --sample")
        self.refuse(64, *common, "--source", "one\ntwo", says="one sentence")
        self.refuse(65, *common, "--source", " ", says="no tokens")
        self.refuse(65, *common, "--source", "seven " * 2000, says="--source has")
        self.refuse(65, *common, "--source", os.fsdecode(b"K\xe4se"), says="UTF-8")
        self.refuse(
            73,
            "attention",
            "--model",
            self.model,
            "--source",
            "x",
            "--output",
            self.path("no", "map.html"),
            says="cannot create",
        )
        self.assertFalse(os.path.exists(self.path("none.html")))

    def translate(self, *options, source=None, **more):
        source = self.read(self.demo_path("test.en")) if source is None else source
        return self.succeed("translate", "--model", self.model, *options, stdin=source, **more).decode()

    def test_hard_alignment_links_every_word_of_the_translation_once(self):
        plain = self.translate().splitlines()
        lines = self.translate("--alignment", "hard").splitlines()
        sources = self.read(self.demo_path("test.en")).decode().splitlines()
        self.assertEqual(len(lines), 24)
        self.assertGreater(sum(len(text.split()) for text in plain), 24)
        for line, text, source in zip(lines, plain, sources):
            translation, alignment = line.split(" ||| ")
            self.assertEqual(translation, text)
            links = [tuple(map(int, link.split("-"))) for link in alignment.split()]
            self.assertEqual(links, sorted(links))
            self.assertEqual(sorted(t for _, t in links), list(range(len(text.split()))))
            self.assertTrue(all(0 <= s < len(source.split()) for s, _ in links))

    def test_soft_alignment_holds_the_weights_that_the_page_shows(self):
        source = "half past seven"
        for layer in (1, 2):
            line = self.translate(
                "--alignment", "soft", "--alignment-layer", layer, source=source.encode() + b"\n"
            )
            text, alignment = line.rstrip("\n").split(" ||| ")
            weights = [[float(w) for w in row.split(",")] for row in alignment.split()]
            self.assertEqual((len(weights), {len(row) for row in weights}), (len(text.split()), {3}))
            group = self.groups(source)[0]
            heads = [matrix(w, len(group["keys"])) for w in group["weights"][2 * (layer - 1) : 2 * layer]]
            words = {}  # rows of the page by word
            for t, piece in enumerate(group["queries"][:-1]):
                words.setdefault(len(words) - (not piece.startswith("\u2581")), []).append(t)
            source_word = []
            for piece in group["keys"][:-1]:
                source_word.append((source_word or [-1])[-1] + piece.startswith("\u2581"))
            for t, row in enumerate(weights):
                expected = [0.0] * 3
                for query in words[t]:
                    for head in heads:
                        for key, word in enumerate(source_word):
                            expected[word] += head[query][key] / 4095 / 2 / len(words[t])
                for got, want in zip(row, expected):
                    self.assertAlmostEqual(got, want, delta=2e-3)
                self.assertLess(sum(row), 1.001)

    def test_alignment_of_n_best_lists_ensembles_and_ranks(self):
        lines = self.translate("--n-best", 3, "--alignment", "hard").splitlines()
        plain = self.translate("--n-best", 3).splitlines()
        self.assertEqual(len(lines), len(plain))
        for line, expected in zip(lines, plain):
            number, text, alignment, score = line.split(" ||| ")
            self.assertEqual(" ||| ".join((number, text, score)), expected)
            self.assertEqual(len(alignment.split()), len(text.split()))
        best = self.translate("--alignment", "soft")
        self.assertEqual(self.translate("--alignment", "soft", "--batch-rows", 40), best)
        twice = self.succeed(
            "translate", "--model", self.model, self.model, "--alignment", "soft",
            stdin=self.read(self.demo_path("test.en"))
        )
        self.assertEqual(twice.decode(), best)
        if support.MPIEXEC:
            self.assertEqual(self.translate("--alignment", "soft", ranks=2), best)

    def test_alignment_of_nothing_is_empty_and_unknown_layers_are_refused(self):
        lines = self.translate("--alignment", "hard", source=b"\nhalf past seven\n").split("\n")
        self.assertEqual(lines[0], " ||| ")
        self.assertIn("-", lines[1])
        self.refuse(
            78,
            "translate",
            "--model",
            self.model,
            "--alignment",
            "soft",
            "--alignment-layer",
            3,
            says=["--alignment-layer is 3", "2 layers"],
        )

    @unittest.skipUnless(BROWSER, "chromium is not installed")
    def test_a_browser_draws_all_maps_without_an_error(self):
        for source in ("seven", ODD, "half past seven " * 12):
            self.page(source)
            drawn = subprocess.run(
                [
                    BROWSER,
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--enable-logging=stderr",
                    f"--user-data-dir={self.path('browser')}",
                    "--dump-dom",
                    "file://" + self.path("map.html"),
                ],
                capture_output=True,
                timeout=120,
                check=True,
            )
            page = drawn.stdout.decode()
            elements = Elements(page)
            self.assertIn('data-maps="15"', page)  # of each layer its heads and their mean
            self.assertEqual(elements.count("canvas", **{"class": "map"}), 15)
            self.assertEqual(elements.count("button", **{"aria-pressed": "true"}), 2)  # a map, and a hypothesis of the search
            self.assertEqual(elements.count("canvas", tabindex="0"), 1)
            self.assertEqual(elements.count("script"), 2)
            if source == ODD:
                self.assertEqual(elements.text["source"], ODD.replace("\u202e", "\u27e8U+202E\u27e9"))
            said = [line for line in drawn.stderr.decode().splitlines() if re.search("CONSOLE", line)]
            self.assertEqual(said, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
