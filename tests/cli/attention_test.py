# SPDX-License-Identifier: Apache-2.0
"""ventris attention: the page of heat maps and of the search, of one model and of the checkpoints of a run, and how a browser draws it;
translate --alignment."""

import json
import os
import re
import shutil
import unittest

import support
from pages import BROWSER, ODD, Page, browse

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
SOURCE, REFERENCE = "half past seven", "halb acht"


def matrix(text, columns):
    """Weights as the page holds them: two digits of base 64 each, for 0 to 4095."""
    values = [(DIGITS.index(a) * 64 + DIGITS.index(b)) / 4095 for a, b in zip(text[::2], text[1::2])]
    return [values[i : i + columns] for i in range(0, len(values), columns)]


class Attention(support.RunTest):
    """The run folders `model`, validated, with five checkpoints, and `other` of another shape, with two and never validated."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.path("model")
        options = {"save_every": 60, "valid_every": 120, "keep_checkpoints": 5, "learning_rate_scale": 0.5}
        cls.made(*cls.train("model", max_steps=300, **options))
        cls.made(*cls.train("other", heads=4, encoder_layers=3, save_every=10, max_steps=20))
        cls.best = json.loads(cls.read(cls.path("model", "best.json")))["checkpoint"]

    def page(self, *options, source=SOURCE, model=None, warns=()):
        """The page; all that the program says must be these warnings, one in each line."""
        output = self.path("map.html")
        words = ("attention", "--model", model or self.model, "--source", source, "--output", output, "--device", "cpu", *options)
        said = self.told(*words).splitlines()
        self.assertEqual(len(said), len(warns), said)
        for line, part in zip(said, warns):
            self.assertIn(part, line)
        return self.read(output).decode("ascii")

    def data(self, *options, **more):
        return Page(self.page(*options, **more)).data

    def view(self, *options, **more):
        (view,) = self.data(*options, **more)["checkpoints"]
        return view

    def search(self, *options):
        """The data of the search with its translation, and the weights of its hypotheses by layer."""
        view = self.view(*options)
        found = view["search"] | {key: view[key] for key in ("translation", "score")}
        found["attention"] = [[matrix(row, len(row) // 2)[0] for row in layer] for layer in found["attention"]]
        return found

    def test_holds_the_weights_of_every_layer_and_head(self):
        view = self.view("--target", REFERENCE, "--batch-rows", 40)
        cross, encoder, decoder = view["given"]
        self.assertEqual([group["layers"] for group in (encoder, decoder, cross)], [1, 2, 2])
        self.assertEqual("".join(encoder["keys"]), "\u2581half\u2581past\u2581seven</s>")
        self.assertEqual("".join(cross["queries"]), "\u2581halb\u2581acht</s>")
        self.assertEqual("".join(decoder["keys"]), "<s>\u2581halb\u2581acht")
        self.assertEqual((cross["keys"], decoder["queries"]), (encoder["keys"], cross["queries"]))
        for group in view["given"]:
            self.assertEqual(len(group["weights"]), group["layers"] * 2)
            for weights in group["weights"]:
                rows = matrix(weights, len(group["keys"]))
                self.assertEqual(len(rows), len(group["queries"]))
                for t, row in enumerate(rows):
                    self.assertAlmostEqual(sum(row), 1, delta=len(row) / 4095)
                    if group is decoder:
                        self.assertEqual(sum(row[t + 1 :]), 0)

    def test_without_a_target_shows_the_translation_of_the_model(self):
        for options in ((), ("--beam-size", 1), ("--sample", "--seed", 3)):
            expected = self.succeed("translate", "--model", self.model, *options, stdin=SOURCE.encode()).decode().rstrip("\n")
            view = self.view(*options)
            self.assertEqual((view["translation"], view["given"]), (expected, None))
            self.assertEqual("search" in view, "--sample" not in options)
            self.assertEqual(self.view("--target", expected, "--beam-size", 1)["given"], view["translated"])

    def test_a_search_is_that_of_translate(self):
        for beam, penalty in ((4, 0.6), (1, 0)):
            options = ("--beam-size", beam, "--length-penalty", penalty)
            listed = self.succeed("translate", "--model", self.model, *options, "--n-best", 1, stdin=SOURCE.encode()).decode()
            _, text, score = listed.rstrip("\n").split(" ||| ")
            data = self.search(*options)
            self.assertEqual((data["translation"], data["beam_size"], data["length_penalty"]), (text, beam, penalty))
            self.assertAlmostEqual(data["score"], float(score), delta=1e-3)
            live, ended, won = [None], [], []
            for step, nodes in enumerate(data["steps"]):
                self.assertEqual([bool(node.get("kept")) for node in nodes], [i < beam for i in range(len(nodes))])
                for node in nodes:
                    before = data["steps"][step - 1][node["parent"]]["log_probability"] if step else 0
                    self.assertIn(node["parent"] if step else None, live)
                    self.assertLessEqual(node["log_probability"], before)
                    length = step + 1 + (node["piece"] != "</s>")
                    self.assertAlmostEqual(node["score"], node["log_probability"] / ((5 + length) / 6) ** penalty, delta=1e-5)
                live = [i for i, node in enumerate(nodes) if node.get("kept") and not node.get("ended")]
                ended += [node for node in nodes if node.get("ended")]
                won += [node for node in nodes if node.get("winner")]
            self.assertTrue(max(ended, key=lambda node: node["score"])["winner"])
            self.assertEqual("".join(node["piece"] for node in won[:-1]).replace("\u2581", " ").strip(), text)
            # Its attention is the mean of the heads of the maps.
            group = self.view("--target", text)["given"][0]
            for layer, rows in enumerate(data["attention"]):
                heads = [matrix(weights, len(group["keys"])) for weights in group["weights"][2 * layer : 2 * layer + 2]]
                for t, node in enumerate(won):
                    for weight, *parts in zip(rows[node["attention"]], *(head[t] for head in heads)):
                        self.assertAlmostEqual(weight, sum(parts) / 2, delta=2e-3)

    def test_a_reference_is_followed_through_the_search(self):
        found = self.search()
        data = self.search("--target", found["translation"])
        self.assertAlmostEqual(data["reference"]["score"], data["score"], delta=1e-4)
        self.assertTrue(all(any(node.get("reference") for node in nodes) for nodes in data["steps"][: len(data["reference"]["pieces"])]))
        data = self.search("--target", "seven zwei", "--beam-size", 20)
        self.assertLess(data["reference"]["score"], data["score"])
        # A page has the best of very many that fell out.
        self.assertGreater(data["considered"][1], 200)
        self.assertLessEqual(sum(not node.get("kept") for node in data["steps"][1]), 101)

    def test_text_is_never_markup(self):
        page = self.page("--target", ODD, source=ODD)
        self.assertEqual((Page(page).data["source"], Page(page).data["reference"], Page(page).scripts), (ODD, ODD, 2))
        self.assertNotIn("alert(1)</script>", page)
        self.assertNotIn("://", page.replace('"://www.w3.org', ""))

    def test_what_is_refused(self):
        os.makedirs(self.path("begun"), exist_ok=True)
        self.write("begun/config.json", "{}")
        latin, checkpoint = os.fsdecode(b"K\xe4se"), self.path("model", self.best)
        of_model = ("--model", self.model)
        with_source = (*of_model, "--source", "x")
        for code, words, says in (
            (64, of_model, "--source"),
            (64, (*with_source, "--top-k", 5), "--top-k has no effect without --sample"),
            (64, (*of_model, "--source", "one\ntwo"), "one sentence"),
            (65, (*of_model, "--source", "seven " * 2000), "--source has"),
            (65, (*of_model, "--source", latin), "UTF-8"),
            (65, (*with_source, "--target", "seven " * 600), "--target has"),
            (64, (*with_source, "--checkpoints", 25), "--checkpoints"),
            (64, ("--model", checkpoint, "--source", "x", "--checkpoints", 2), "run folder"),
            (66, ("--model", self.path("begun"), "--source", "x", "--checkpoints", 2), "has no checkpoint yet"),
        ):
            self.refuse(code, "attention", *words, "--output", self.path("none.html"), says=says)
        self.refuse(73, "attention", *with_source, "--output", self.path("no", "map.html"), says="cannot create")
        self.assertFalse(os.path.exists(self.path("none.html")))

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_a_browser_draws_all_maps_and_the_search(self):
        for source, target in ((SOURCE, "seven halb"), (ODD, ODD), ("half past seven " * 12, "\u2028 a \u2029 b")):
            document = browse(self, self.page("--target", target, source=source), "boxes[0][1].click()")
            self.assertIn('data-maps="15"', document)  # of each layer its heads and their mean
            self.assertIn("Step 1, rank 2: kept", document)
            self.assertIn(f'data-steps="{len(self.search("--target", target)["steps"])}"' if source == SOURCE else "data-steps=", document)
            shown = source.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\u202e", "\u27e8U+202E\u27e9")
            self.assertIn(f'<bdi id="source">{shown.strip()}', document)

    def test_views_of_checkpoints_are_those_of_each_checkpoint(self):
        for name, best in (("model", self.best), ("other", "checkpoint-00000020.h5")):
            folder = self.path(name)
            data = self.data("--checkpoints", 6, "--target", REFERENCE, model=folder)
            found = data["checkpoints"]
            self.assertEqual([os.path.basename(of["file"]) for of in found], self.checkpoints(name))
            for of in found:
                alone = self.view("--target", REFERENCE, model=os.path.join(folder, os.path.basename(of["file"])))
                self.assertEqual({key: value for key, value in of.items() if key != "step"}, alone)
            self.assertEqual((os.path.basename(found[data["model"]]["file"]), data["is_best"]), (best, name == "model"))

    def test_damaged_checkpoints_are_named_and_the_others_drawn(self):
        folder = shutil.copytree(self.model, self.path("damaged"))
        names = self.checkpoints("model")
        hit = [name for name in names if name != self.best][:2]
        os.truncate(self.path("damaged", hit[0]), 700)
        data = bytearray(self.read(self.path("damaged", hit[1])))
        data[3000] ^= 1
        self.write(f"damaged/{hit[1]}", bytes(data))
        views = self.data("--checkpoints", 5, model=folder, warns=sorted(hit, reverse=True))["checkpoints"]
        for name, view in zip(names, views):
            self.assertEqual((name in view["problem"], "translated" in view), (name in hit, name not in hit))

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_a_browser_steps_through_checkpoints_and_reads_out(self):
        page = self.page("--checkpoints", 5, "--target", REFERENCE)
        data = Page(page).data
        before = max(0, data["model"] - 1)
        group = data["checkpoints"][before]["given"][0]
        script = "byId('target').value = 'given'; byId('target').onchange(); byId('back').click(); small[1].button.click();"
        script += "for (const key of ['ArrowRight', 'ArrowDown'])"
        script += " document.querySelector('.map canvas').dispatchEvent(new KeyboardEvent('keydown', {key}));"
        document = browse(self, page, script)
        tokens, _, read = re.sub("</?bdi>", "", re.search(r'class="reading">(.*?)</p>', document)[1]).rpartition(": ")
        self.assertEqual(tokens, f"{group['queries'][1]} \u2192 {group['keys'][0]}".replace("<", "&lt;").replace(">", "&gt;"))
        self.assertAlmostEqual(float(read), matrix(group["weights"][1], len(group["keys"]))[1][0], delta=6e-4)
        self.assertIn(os.path.basename(data["checkpoints"][before]["file"]), re.search(r'<bdi id="model">(.*?)</bdi>', document)[1])

    def translate(self, *options, source=None, **more):
        source = self.read(self.demo_path("test.en")) if source is None else source
        return self.succeed("translate", "--model", self.model, *options, stdin=source, **more).decode()

    def test_hard_alignment_links_every_word_of_the_translation_once(self):
        sources = self.read(self.demo_path("test.en")).decode().splitlines()
        lines = self.translate("--alignment", "hard").splitlines()
        for line, text, source in zip(lines, self.translate().splitlines(), sources, strict=True):
            translation, alignment = line.split(" ||| ")
            self.assertEqual(translation, text)
            links = [tuple(map(int, link.split("-"))) for link in alignment.split()]
            self.assertEqual(links, sorted(links))
            self.assertEqual(sorted(t for _, t in links), list(range(len(text.split()))))
            self.assertTrue(all(0 <= s < len(source.split()) for s, _ in links))
        lines = self.translate("--alignment", "hard", source=b"\nhalf past seven\n").split("\n")
        self.assertEqual((lines[0], "-" in lines[1]), (" ||| ", True))

    def test_soft_alignment_holds_the_weights_that_the_page_shows(self):
        for layer in (1, 2):
            line = self.translate("--alignment", "soft", "--alignment-layer", layer, source=SOURCE.encode())
            text, alignment = line.rstrip("\n").split(" ||| ")
            weights = [[float(w) for w in row.split(",")] for row in alignment.split()]
            self.assertEqual((len(weights), {len(row) for row in weights}), (len(text.split()), {3}))
            group = self.view()["translated"][0]
            heads = [matrix(w, len(group["keys"])) for w in group["weights"][2 * (layer - 1) : 2 * layer]]
            # The words that the pieces of both sides belong to.
            words = []
            for piece in group["queries"][:-1]:
                words.append((words or [-1])[-1] + (piece.startswith("\u2581") or not words))
            source_words = []
            for piece in group["keys"][:-1]:
                source_words.append((source_words or [-1])[-1] + piece.startswith("\u2581"))
            for t, row in enumerate(weights):
                rows = [head[query] for query, word in enumerate(words) if word == t for head in heads]
                for word, got in enumerate(row):
                    expected = sum(weight for of in rows for weight, source in zip(of, source_words) if source == word) / len(rows)
                    self.assertAlmostEqual(got, expected, delta=2e-3)
                self.assertLess(sum(row), 1.001)
        self.refuse(78, "translate", "--model", self.model, "--alignment", "soft", "--alignment-layer", 3, says=["--alignment-layer is 3", "2 layers"])

    def test_alignment_of_n_best_lists_ensembles_and_ranks(self):
        lines = self.translate("--n-best", 3, "--alignment", "hard").splitlines()
        for line, expected in zip(lines, self.translate("--n-best", 3).splitlines(), strict=True):
            number, text, alignment, score = line.split(" ||| ")
            self.assertEqual(" ||| ".join((number, text, score)), expected)
            self.assertEqual(len(alignment.split()), len(text.split()))
        best = self.translate("--alignment", "soft")
        self.assertEqual(self.translate("--alignment", "soft", "--batch-rows", 40), best)
        self.assertEqual(self.translate("--alignment", "soft", "--model", self.model), best)
        if support.MPIEXEC:
            self.assertEqual(self.translate("--alignment", "soft", ranks=2), best)


if __name__ == "__main__":
    unittest.main(verbosity=2)
