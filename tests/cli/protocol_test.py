# SPDX-License-Identifier: Apache-2.0
"""Scores by the protocol of the Transformer paper, and the words that they compare."""

import json
import unittest

import support

GERMAN = "Der „Mann“ kauft E-Mail-Adressen, bzw. Dr. No.\nEs regnet heute, mein Freund.\n"


class Protocol(support.CommandLineTest):
    def test_the_label_names_every_setting_and_is_none_of_sacrebleu(self):
        text = self.write("text", GERMAN)
        line = self.succeed("bleu", "--input", text, "--reference", text, "--protocol", "paper", "--language", "de").decode()
        self.assertRegex(line, r"^paper-BLEU\|nrefs:1\|case:mixed\|punct:ascii\|tok:moses-de\|compounds:split\|smooth:none\|ventris:\S+ = 100\.00 ")
        self.assertNotIn("version:", line)
        result = json.loads(self.succeed(
            "bleu", "--input", text, "--reference", text, "--protocol", "paper", "--language", "de", "--json"))  # fmt: skip
        self.assertEqual((result["name"], result["compounds"], result["hypothesis_length"]), ("paper-BLEU", "split", 21))


    def test_options_that_do_not_fit_are_refused(self):
        text = self.write("text", GERMAN)
        paper = ["bleu", "--input", text, "--reference", text, "--protocol", "paper"]
        self.refuse(64, *paper, says="--language")
        self.refuse(64, *paper, "--language", "xx", says=["xx", "en, de, fr or cs"])
        self.refuse(64, *paper, "--language", "de", "--lowercase", says="--protocol paper")
        self.refuse(64, *paper, "--language", "de", "--metrics", "chrf", says="is only for BLEU")
        self.refuse(64, "bleu", "--input", text, "--reference", text, "--language", "de", says="--protocol paper")


if __name__ == "__main__":
    unittest.main()
