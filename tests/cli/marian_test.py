# SPDX-License-Identifier: Apache-2.0
"""Models of Marian, as it computes them. The golden file holds what Marian gave for two tiny models of its own and two of
ours; where its Python package is installed (VENTRIS_PEER_PYTHON, else the interpreter of the tests) it runs too."""

import json
import os
import subprocess
import sys
import unittest

import support

PEER_PYTHON = os.environ.get("VENTRIS_PEER_PYTHON", sys.executable)

marian = support.golden_module("marian")


def has_marian():
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('pymarian') is None)"
    return subprocess.run([PEER_PYTHON, "-c", code], check=False).returncode == 0


class Marian(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(marian.GOLDEN, encoding="utf-8") as file:
            cls.golden = json.load(file)
        cls.source = marian.write_lines(os.path.join(cls.folder, "source"), marian.LINES)
        cls.target = marian.write_lines(os.path.join(cls.folder, "target"), marian.REVERSED)

    def imported(self, name):
        """A model of Marian read: weights, and the SentencePiece model."""
        npz, tokenizer = marian.write_their_model(self.folder, name, self.golden["from_marian"][name])
        return marian.import_model(support.BINARY, npz, tokenizer, self.path(name + ".h5")), tokenizer

    def check_scores(self, model, expected):
        scores = marian.our_scores(support.BINARY, model, self.source, self.target)
        self.assertEqual(len(scores), len(marian.LINES))
        for score, of_marian in zip(scores, expected, strict=True):
            self.assertAlmostEqual(score, of_marian, delta=marian.TOLERANCE)

    def test_models_of_marian_give_its_scores_and_translations(self):
        for name, variant in self.golden["from_marian"].items():
            with self.subTest(name):
                model, _ = self.imported(name)
                self.check_scores(model, variant["scores"])
                for beam in marian.exports.BEAMS:
                    ours = marian.exports.translate(support.BINARY, model, marian.LINES, beam)
                    self.assertGreater(sum(a == b for a, b in zip(ours, marian.REVERSED)), 35)
                    # Those of pre-norm models are not there: Marian's decoder and scorer do not agree on them.
                    self.assertEqual(ours, variant["translations"].get(str(beam), ours), f"beam {beam}")
        self.assertEqual(set(self.golden["from_marian"]["post_norm"]["translations"]), {"1", "4"})

    def test_the_folder_of_a_model_is_told_from_its_file(self):
        weights, folder = marian.write_our_model(support.BINARY, self.folder, "post_norm")
        file = os.path.join(folder, "model.npz")
        for given in (folder, folder + "/"):
            self.refuse(66, "import", "--input", given, "--output", self.path("no.h5"), says=["holds no checkpoint", f"import --input {file}`"])
        self.refuse(66, "translate", "--model", folder, says=f"import --input {file}`")
        self.succeed("import", "--input", file, "--output", self.path("yes.h5"))

    def test_models_of_ours_are_the_files_whose_scores_marian_gave(self):
        for name, expected in self.golden["to_marian"].items():
            with self.subTest(name):
                weights, folder = marian.write_our_model(support.BINARY, self.folder, name)
                self.assertEqual(marian.exports.files_of(folder), expected["files"])
                self.check_scores(weights, expected["scores"])

    def test_an_export_tells_that_the_decoder_of_marian_is_not_for_pre_norm(self):
        for name, warned in (("post_norm", False), ("pre_norm", True)):
            weights, _ = marian.write_our_model(support.BINARY, self.folder, name)
            for kind in ("marian", "hdf5"):
                output = self.path(f"{name}.of-{kind}")
                result = support.run("export", "--model", weights, "--format", kind, "--output", output)
                self.assertEqual(result.returncode, 0, result.stderr)
                told = b"Warning: Marian 1.11.0 to 1.12.43 can score with this pre-norm model" in result.stderr
                self.assertEqual(told, warned and kind == "marian", f"{name} {kind}")

    def test_training_goes_on_from_a_model_of_marian(self):
        for name, options in marian.TRAIN_OPTIONS.items():
            with self.subTest(name):
                model, tokenizer = self.imported(name)
                folder = self.path("of-" + name)
                os.makedirs(folder)
                # To give the words as they are, which it has yet to learn.
                arguments = (support.BINARY, folder, model, tokenizer, self.source, self.source, options)
                cost = marian.our_cost_of_training(*arguments)
                expected = marian.mean_score(support.BINARY, model, self.source, self.source)
                self.assertGreater(expected, 1.0)
                self.assertAlmostEqual(cost, expected, delta=1e-3)

    def test_arrays_that_are_not_those_of_the_configuration_are_refused(self):
        variant = self.golden["from_marian"]["post_norm"]
        bias = "decoder_ff_logit_out_b"
        whole = variant["weights"]
        no_bias = {name: array for name, array in whole.items() if name != bias}
        for weights, says in (
            ({**no_bias, bias + "x": whole[bias]}, [f"'{bias}' is missing", f"'{bias}x' is unknown", "output-omit-bias: false"]),
            ({**whole, "decoder_Wemb": whole["Wemb"]}, ["'decoder_Wemb' is unknown"]),
        ):
            npz, tokenizer = marian.write_their_model(self.folder, "arrays", {**variant, "weights": weights})
            self.refuse(65, "import", "--input", npz, "--tokenizer-model", tokenizer, "--output", self.path("no.h5"), says=[npz, *says])
            self.assertFalse(os.path.exists(self.path("no.h5")))
        # Without a bias as the configuration says, and with what is no parameter.
        config = variant["config"].replace("output-omit-bias: false", "output-omit-bias: true")
        for name, changed in (("omitted", {"weights": no_bias, "config": config}), ("special", {"weights": {**whole, "special:other": whole["Wemb"]}})):
            npz, tokenizer = marian.write_their_model(self.folder, name, {**variant, **changed})
            read = marian.import_model(support.BINARY, npz, tokenizer, self.path(name + ".h5"))
            self.assertEqual("output/bias" in support.parameters(read), name == "special")

    @unittest.skipUnless(has_marian(), "the Python package pymarian is missing")
    def test_marian_itself_agrees_and_trains_on(self):
        command = [PEER_PYTHON, os.path.join(support.GOLDEN_DIR, "marian.py"), "check", "--binary", support.BINARY]
        result = subprocess.run(command, capture_output=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout.decode() + result.stderr.decode())


if __name__ == "__main__":
    unittest.main()
