#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes bleu.json beside this file: small corpora of odd text and their scores by sacreBLEU.

Run: python3 tests/golden/bleu.py
"""

import itertools
import json
import pathlib
import random

import sacrebleu
from sacrebleu.metrics import BLEU

PIECES = [
    "a", "b", "the", "Der", "Hund", "CAT", "28-j\xe4hriger", "1,000.5", "3.", ".5", "1-2", "x-y", "U.S.A.",
    "it's", "&quot;", "&amp;", "&lt;b&gt;", "&amp;quot;", "<skipped>", "-", "--", "-\n", "\n", "...", ",",
    "%", "$5", "5\u20ac", "a/b", "[x]", "{y}", "~", "`", "\u03a3\u0391\u03a3", "\u0391\u03a3.", "\u03a3",
    "\u0391\u03a3\u0391", "\u0391\u0301\u03a3\u0301", "\u0130stanbul", "STRA\u1e9eE", "\u01c4\u01c5",
    "\u0410\u0411\u0412", "\u10a0\u13a0", "\ua7b1", "\U00010400", "\u2160\u2164", "\u24b6", "\uff21\uff22",
    "\u0661\u0662", "\xbd", "\xb2", "\u2155.", "\u4e2d\u6587\u3002", "\u3001", "\xab", "\xbb", "\u201e",
    "\u201c", "\u2019", "\u2026", "\u2013", "\u2014", "\xbf", "\xa7", "\xa9", "\u20bf", "\u2211", "\u2192",
    "\U0001f600", "\U0001f468\u200d\U0001f469", "e\u0301", "\u0e01\u0e34", "\u05d0", "\u0627", "\u200b",
    "\ufeff", "_",
]
SPACES = [" "] * 12 + ["", "  ", "\t", "\u00a0", "\u2003", "\u3000", "\u0085", "\x1c", "\u2028", "\u202f"]


def sentence(rng):
    return "".join(rng.choice(PIECES) + rng.choice(SPACES) for _ in range(rng.randint(1, 14)))


def change(rng, text):
    """Another sentence that shares runs of characters with `text`."""
    for _ in range(rng.randint(0, 3)):
        at = rng.randint(0, len(text))
        added = rng.choice(["", rng.choice(PIECES), " " + rng.choice(PIECES) + " "])
        text = text[:at] + added + text[at + rng.randint(0, 4):]
    return text.upper() if rng.random() < 0.05 else text


def main():
    rng = random.Random(20)
    corpora = []
    for index in range(14):
        lines, references = rng.choice([1, 1, 3, 8]), rng.choice([1, 1, 2, 3])
        blank = ["", " ", "\u3000"]
        base = [sentence(rng) if rng.random() > 0.05 else rng.choice(blank) for _ in range(lines)]
        hypotheses = [change(rng, text) if rng.random() > 0.08 else "" for text in base]
        streams = [[change(rng, text) if rng.random() > 0.05 else "" for text in base]
                   for _ in range(references)]
        if index == 0:
            hypotheses, streams = [""], [[""]]
        cases = []
        for tok, (smooth, value), lower, eff in itertools.product(
                ["13a", "none", "char", "intl"],
                [("exp", None), ("floor", None), ("floor", 0.03), ("add-k", None), ("add-k", 2),
                 ("none", None)],
                [False, True], [False, True]):
            bleu = BLEU(tokenize=tok, smooth_method=smooth, smooth_value=value, lowercase=lower,
                        effective_order=eff, force=True)
            score = bleu.corpus_score(hypotheses, streams)
            case = [tok, smooth, -1 if value is None else value, int(lower), int(eff), score.score, score.bp,
                    score.sys_len, score.ref_len] + score.precisions
            if index in (1, 2):
                case += [str(bleu.get_signature()), score.format()]
            cases.append(case)
        corpora.append({"hypotheses": hypotheses, "references": streams, "cases": cases})
    out = {"sacrebleu": sacrebleu.__version__, "corpora": corpora}
    path = pathlib.Path(__file__).with_suffix(".json")
    text = json.dumps(out, separators=(",", ":"))
    path.write_text(text.replace('],["', '],\n["').replace('"cases"', '\n"cases"') + "\n")


if __name__ == "__main__":
    main()
