# SPDX-License-Identifier: Apache-2.0
"""BLEU with tokenizers that need a file: SentencePiece models and MeCab dictionaries."""

import json
import os
import shutil
import subprocess
import unittest

import support

GOLDEN = os.path.join(support.SOURCE_DIR, "tests", "golden")
MODEL = os.path.join(GOLDEN, "line_tokenizers.model")
# Where the dictionaries are with which sacreBLEU's scores were made; the second is of mecab-ko, whose library must come
# first in LD_LIBRARY_PATH.
IPADIC = os.environ.get("VENTRIS_IPADIC", "/var/lib/mecab/dic/ipadic-utf8")
KOREAN = os.environ.get("VENTRIS_MECAB_KO_DIC", "")
DICT_INDEX = next(
    (path for path in ("/usr/lib/mecab/mecab-dict-index", "/usr/libexec/mecab/mecab-dict-index") if os.path.exists(path)), ""
)


def cases(name):
    path = os.environ.get("VENTRIS_LINE_TOKENIZER_CASES", os.path.join(GOLDEN, "line_tokenizers.json"))
    with open(path, encoding="utf-8") as file:
        return json.load(file)[name]


def lines(words):
    return "".join(line + "\n" for line in words)


class LineTokenizers(support.CommandLineTest):
    def scores(self, system, references, *options):
        files = [self.write(f"reference{i}", lines(reference)) for i, reference in enumerate(references)]
        words = ("bleu", *files, "-i", self.write("system", lines(system)), "-f", "json", *options)
        return [json.loads(line) for line in self.succeed(*words).decode().splitlines()]

    def compare(self, name, path):
        compared = 0
        for case in cases(name):
            options = ("-tok", name, "--tokenize-with", path, *(("-lc",) if case["lowercase"] else ()))
            (whole,) = self.scores(case["system"], case["references"], *options)
            self.assertAlmostEqual(whole["score"], case["score"], delta=1e-9)
            self.assertEqual(whole["signature"].rsplit("|ventris:")[0], case["signature"])
            each = self.scores(case["system"], case["references"], *options, "-sl")
            self.assertEqual(len(each), len(case["scores"]))
            for line, expected, text in zip(each, case["scores"], case["system"]):
                self.assertAlmostEqual(line["score"], expected, delta=1e-9, msg=text)
            compared += len(each)
        self.assertGreater(compared, 20)

    def test_sentencepiece_models_give_the_scores_of_sacrebleu(self):
        for name in ("flores101", "flores200"):
            self.compare(name, MODEL)
        case = cases("flores200")[0]
        lowercase = ("-lc",) if case["lowercase"] else ()
        (whole,) = self.scores(case["system"], case["references"], "-tok", "spm", "--tokenize-with", MODEL, *lowercase)
        self.assertAlmostEqual(whole["score"], case["score"], delta=1e-9)
        self.assertRegex(whole["tok"], "^spm-[0-9a-f]{16}$")

    @unittest.skipUnless(os.path.isdir(IPADIC), "the MeCab dictionary IPA (Debian: mecab-ipadic-utf8) is not here")
    def test_the_japanese_dictionary_gives_the_scores_of_sacrebleu(self):
        self.compare("ja-mecab", IPADIC)

    @unittest.skipUnless(KOREAN, "VENTRIS_MECAB_KO_DIC does not name mecab-ko-dic")
    def test_the_korean_dictionary_gives_the_scores_of_sacrebleu(self):
        self.compare("ko-mecab", KOREAN)

    def small_dictionary(self):
        """Nine words, compiled by MeCab's own program."""
        folder = self.path("dictionary")
        if os.path.exists(folder):
            return folder
        source = self.path("dictionary-source")
        os.makedirs(source)
        words = ("少年", "は", "本", "本を", "を", "読む", "日本", "。", "私")
        for name, text in {
            "dicrc": "cost-factor = 800\nbos-feature = BOS\neval-size = 1\nunk-eval-size = 1\nconfig-charset = UTF-8\n",
            "words.csv": lines(f"{word},0,0,{1000 - 10 * len(word)},N" for word in words),
            "matrix.def": "1 1\n0 0 0\n",
            "char.def": "DEFAULT 0 1 0\nSPACE 0 1 0\nLATIN 1 1 0\n0x0020 SPACE\n0x0041..0x005A LATIN\n0x0061..0x007A LATIN\n",
            "unk.def": "DEFAULT,0,0,9000,U\nSPACE,0,0,9000,U\nLATIN,0,0,9000,U\n",
            "feature.def": "UNIGRAM U:%F[0]\nBIGRAM B:%L[0]/%R[0]\n",
            "left-id.def": "0 N\n",
            "right-id.def": "0 N\n",
            "rewrite.def": "[unigram rewrite]\n* $1\n[left rewrite]\n* $1\n[right rewrite]\n* $1\n",
            "pos-id.def": "N 0\n",
        }.items():
            with open(os.path.join(source, name), "w", encoding="utf-8") as file:
                file.write(text)
        os.makedirs(folder)
        result = subprocess.run(
            [DICT_INDEX, "-d", source, "-o", folder, "-f", "UTF-8", "-t", "UTF-8"], capture_output=True, check=False
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        shutil.copy(os.path.join(source, "dicrc"), folder)
        return folder

    @unittest.skipUnless(DICT_INDEX, "mecab-dict-index (Debian: mecab-utils) is not here")
    def test_a_dictionary_of_ones_own_cuts_words(self):
        folder = self.small_dictionary()
        reference = ["少年は日本を読む。", " 私は本を読む。", "abc 少年 xyz"]
        system = ["少年は本を読む。", "私は本を読む 。 ", "abc xyz 少年"]
        cut_reference = ["少年 は 日本 を 読む 。", "私 は 本を 読む 。", "abc 少年 xyz"]
        cut_system = ["少年 は 本を 読む 。", "私 は 本を 読む 。", "abc xyz 少年"]
        (expected,) = self.scores(cut_system, [cut_reference], "-tok", "none")
        for tokenizer in ("ja-mecab", "ko-mecab"):
            (got,) = self.scores(system, [reference], "-tok", tokenizer, "--tokenize-with", folder)
            self.assertEqual(got["verbose_score"], expected["verbose_score"])
            self.assertEqual(got["score"], expected["score"])
            # Neither dictionary is the one whose name sacreBLEU's signature has.
            self.assertRegex(got["tok"], rf"^{tokenizer}-0\.99\d\S*-9words$")
        damaged = self.path("damaged")
        shutil.copytree(folder, damaged, dirs_exist_ok=True)
        os.truncate(os.path.join(damaged, "sys.dic"), 100)
        text = self.write("text", lines(reference))
        self.refuse(65, "bleu", text, "-i", text, "-tok", "ja-mecab", "--tokenize-with", damaged, says=["damaged", "MeCab"])

    def test_without_the_library_the_package_is_named(self):
        library = self.path("libraries")
        os.makedirs(library)
        with open(os.path.join(library, "libmecab.so.2"), "wb") as file:
            file.write(b"no library")
        text = self.write("text", "one\n")
        words = ("bleu", text, "-i", text, "-tok", "ko-mecab", "--tokenize-with", self.folder)
        result = support.run(*words, variables={"LD_LIBRARY_PATH": library})
        self.assertEqual(result.returncode, 66)
        self.assertIn(b"ko-mecab need MeCab", result.stderr)
        self.assertIn(b"libmecab2", result.stderr)

    def test_what_is_missing_or_does_not_fit_is_told(self):
        text = self.write("text", "one\n")
        for code, options, says in (
            (64, ("spm",), ["spm needs a SentencePiece model", "--tokenize-with"]),
            (64, ("ko-mecab",), ["ko-mecab needs", "MeCab dictionary"]),
            (64, ("13a", "--tokenize-with", MODEL), ["13a takes no file"]),
            (66, ("flores200", "--tokenize-with", self.path("none")), "none"),
            (65, ("flores200", "--tokenize-with", text), ["text", "SentencePiece"]),
        ):
            self.refuse(code, "bleu", text, "-i", text, "-tok", *options, says=says)


if __name__ == "__main__":
    unittest.main(verbosity=2)
