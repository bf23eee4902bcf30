#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes random corpora of odd text and what sacreBLEU computes from them, for tests/data/scores/score_cases_test.cc.

The first line of a file lists the options of every metric; each other line is a corpus with the scores for all of them.
The committed file beside this script:   scores.py --corpora 24 --seed 4 --small tests/golden/scores.jsonl
A large comparison by hand:              scores.py --corpora 2000 --seed 1 /tmp/scores.jsonl
                                         VENTRIS_SCORE_CASES=/tmp/scores.jsonl data_tests --gtest_filter='ScoreCases.*'
"""

import argparse
import itertools
import json
import logging
import os
import random

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

WORDS = ["a", "b", "the", "Der", "Hund", "CAT", "cat", "sat", "on", "mat", "and", "of", "x", "y", "dogs"]
PIECES = WORDS * 3 + [
    "28-j\xe4hriger", "1,000.5", "3.", ".5", "1-2", "x-y", "U.S.A.", "it's", "dog's", "'s", "(hi)", "\"so\"", "&quot;",
    "&amp;", "&lt;b&gt;", "&amp;quot;", "<skipped>", "-", "--", "-\n", "\n", "\n-", "...", ",", "!", "?:;", "()", "%", "$5",
    "5\u20ac", "a/b", "[x]", "{y}", "~", "`", "\u03a3\u0391\u03a3", "\u0391\u03a3.", "\u0391\u0301\u03a3\u0301",
    "\u0130stanbul", "STRA\u1e9eE", "\u01c4\u01c5", "\u0410\u0411\u0412", "\u10a0\u13a0", "\ua7b1", "\U00010400",
    "\u2160\u2164", "\u24b6", "\uff21\uff22", "\u0661\u0662", "\xbd", "\xb2", "\u2155.", "\u4e2d\u6587\u3002",
    "\u4e2d\u6587a1,b", "\u6211\u7231\u5317\u4eac", "\u3053\u3093\u306b\u3061\u306f", "\u30ab\u30bf\u30ab\u30ca\u30fb",
    "\u31f0\u31f1", "\uff61\uff71", "\uff01\uff1f", "\uff08\u4e2d\uff09", "\u3001", "\u3014x\u3015", "\u3400\u4db5\u4dbf",
    "\u9fa6\u9fbb\u9fff", "\ufa2d\ufa2e\ufa6a", "\u2e80\u2f00\u2fa0\u2fdf\u2fe0", "\u3200\u33ff\u3f22", "\ufe30\ufe1f",
    "\u2a6d\u2a6e", "\u2000x", "\U00020000", "\U0002f800", "\xab", "\xbb", "\u201e", "\u201c", "\u2019", "\u2026", "\u2013",
    "\u2014", "\xbf", "\xa7", "\xa9", "\u20bf", "\u2211", "\u2192", "\U0001f600", "\U0001f468\u200d\U0001f469", "e\u0301",
    "\u0e01\u0e34", "\u05d0", "\u0627", "\u200b", "\ufeff", "_",
]  # fmt: skip
SPACES = [" "] * 24 + ["", "  ", "\t", "\u00a0", "\u2003", "\u3000", "\u0085", "\x1c", "\u2028", "\u202f"]

BLEU_OPTIONS = [
    dict(tokenize=tok, smooth_method=smooth, smooth_value=value, lowercase=lower, effective_order=effective,
         max_ngram_order=order)
    for tok, (smooth, value), lower, effective, order in itertools.product(
        ["13a", "none", "char", "intl", "zh"],
        [("exp", None), ("floor", None), ("floor", 0.03), ("add-k", None), ("add-k", 2.0), ("none", None)],
        [False, True], [False, True], [4])
] + [dict(tokenize="13a", smooth_method="exp", smooth_value=None, lowercase=False, effective_order=False,
          max_ngram_order=order) for order in (1, 2, 3, 5, 8)]  # fmt: skip
CHRF_OPTIONS = [
    dict(char_order=nc, word_order=nw, beta=beta, whitespace=space, lowercase=lower, eps_smoothing=eps)
    for nc, nw, beta, space, lower, eps in itertools.product(
        [6, 3], [0, 1, 2], [2, 1, 3], [False, True], [False, True], [False, True])
]  # fmt: skip
# Few option sets, by place in the lists above, are used for the tests of significance.
TESTED = [("bleu", i) for i in (0, 3, 12, 16, 30)] + [("chrf", i) for i in (0, 1, 49, 60, 95)]
RESAMPLES = 60


def sentence(rng):
    if rng.random() < 0.08:
        return rng.choice(PIECES)
    if rng.random() < 0.1:  # long
        return " ".join(rng.choice(WORDS[:8]) for _ in range(rng.randint(20, 60)))
    return "".join(rng.choice(PIECES) + rng.choice(SPACES) for _ in range(rng.randint(1, 14)))


def change(rng, text):
    """Another sentence that shares runs of characters with `text`."""
    if rng.random() < 0.3:
        words = text.split(" ")
        at, length, to = rng.randrange(len(words)), rng.randint(1, 4), rng.randrange(len(words))
        moved = words[at:at + length]
        rest = words[:at] + words[at + length:]
        text = " ".join(rest[:to] + moved + rest[to:])
    for _ in range(rng.randint(0, 3)):
        at = rng.randint(0, len(text))
        added = rng.choice(["", rng.choice(PIECES), " " + rng.choice(PIECES) + " "])
        text = text[:at] + added + text[at + rng.randint(0, 4):]
    return text.upper() if rng.random() < 0.05 else text


def corpus(rng, small):
    lines, references = rng.choice([1, 1, 2, 3] if small else [1, 1, 2, 3, 5, 8]), rng.choice([1, 1, 2, 3])
    blank = ["", " ", "\u3000"]
    base = [sentence(rng) if rng.random() > 0.05 else rng.choice(blank) for _ in range(lines)]
    systems = [[change(rng, text) if rng.random() > 0.06 else "" for text in base] for _ in range(2)]
    streams = [[change(rng, text) if rng.random() > 0.05 else "" for text in base] for _ in range(references)]
    return systems, streams


def number(x):
    return float(f"{float(x):.15g}")


def cases(systems, streams, tested):
    makers = {"bleu": (BLEU, BLEU_OPTIONS), "chrf": (CHRF, CHRF_OPTIONS)}
    out = {"systems": systems, "references": streams}
    for name, (maker, options) in makers.items():
        out[name] = [number(maker(**option).corpus_score(systems[0], streams).score) for option in options]
    out["tests"] = []
    for name, place in tested:
        maker, options = makers[name]
        metric = maker(**options[place])
        row = [name, place]
        try:
            score = metric.corpus_score(systems[0], streams, n_bootstrap=RESAMPLES)
            row.append([number(score._mean), number(score._ci)])
        except TypeError:  # sacreBLEU cannot take the mean of mixed single and double precision
            row.append(None)
        for kind in ("bs", "ar"):
            _, results = PairedTest([("a", systems[0]), ("b", systems[1])], {"m": metric}, streams, kind, RESAMPLES)()
            key = [k for k in results if k != "System"][0]
            row.append([[None if x is None else number(x) for x in (r.score, r.p_value, r.mean, r.ci)]
                        for r in results[key]])  # fmt: skip
        out["tests"].append(row)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--corpora", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="short corpora, few tests of significance")
    args = parser.parse_args()
    logging.getLogger("sacrebleu").setLevel(logging.CRITICAL)
    os.environ.pop("SACREBLEU_SEED", None)
    rng = random.Random(args.seed)
    with open(args.output, "w", encoding="utf-8") as file:
        head = {"sacrebleu": sacrebleu.__version__, "resamples": RESAMPLES, "bleu": BLEU_OPTIONS, "chrf": CHRF_OPTIONS}
        file.write(json.dumps(head, separators=(",", ":")) + "\n")
        for _ in range(args.corpora):
            tested = rng.sample(TESTED, 2 if args.small else 4)
            file.write(json.dumps(cases(*corpus(rng, args.small), tested), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
