#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A made-up corpus for measurements on one GPU: the vocabulary and the lengths of WMT English-German, and no meaning.

    python3 tests/gpu/corpus.py --ventris build/release/ventris --output FOLDER

Words follow Zipf's law, f(rank) ~ 1 / (rank + 2.7); the lengths of sentences are log-normal with about 28 tokens on the average, and a target
is about as long as its source. Writes FOLDER/corpus.h5 by 'ventris prepare', and FOLDER/corpus.npz, the same ids for the scripts of
tests/bench, which then need no HDF5. The text depends on the options alone. Needs numpy and h5py.
"""
import argparse
import bisect
import itertools
import os
import random
import subprocess
import sys
import tempfile

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bench"))
import corpus_arrays

WORDS = 60000
ZIPF_SHIFT = 2.7  # Mandelbrot's
MEAN_WORDS, LENGTH_SIGMA, MOST_WORDS = 27.0, 0.55, 120
RATIO_SIGMA = 0.15  # of the length of the target divided by that of the source
CONSONANTS, VOWELS = "bdfghklmnprstvz", "aeiou"


def word(rank):
    """A different word for each rank from 0: syllables as digits, so that frequent words are short."""
    letters, base = "", len(CONSONANTS) * len(VOWELS)
    number = rank + 1
    while number > 0:
        number, digit = divmod(number - 1, base)
        letters += CONSONANTS[digit // len(VOWELS)] + VOWELS[digit % len(VOWELS)]
    return letters


class Text:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.words = [word(rank) for rank in range(WORDS)]
        self.sums = list(itertools.accumulate(1 / (rank + ZIPF_SHIFT) for rank in range(WORDS)))

    def sentence(self, length):
        return " ".join(self.words[bisect.bisect(self.sums, self.rng.random() * self.sums[-1])] for _ in range(length))

    def pair(self):
        mean = MEAN_WORDS / numpy.exp(LENGTH_SIGMA**2 / 2)
        source = mean * self.rng.lognormvariate(0, LENGTH_SIGMA)
        lengths = (source, source * self.rng.lognormvariate(0, RATIO_SIGMA))
        return [self.sentence(min(MOST_WORDS, max(1, round(length)))) for length in lengths]

    def write(self, stem, pairs):
        """Two files, the paths of which it returns."""
        paths = [f"{stem}.source", f"{stem}.target"]
        with open(paths[0], "w", encoding="utf-8") as source, open(paths[1], "w", encoding="utf-8") as target:
            for _ in range(pairs):
                for file, line in zip((source, target), self.pair()):
                    file.write(line + "\n")
        return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--corpus", help="instead of making one: copy only its ids")
    parser.add_argument("--pairs", type=int, default=60000)
    parser.add_argument("--valid-pairs", type=int, default=200)
    parser.add_argument("--vocabulary", type=int, default=37000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.makedirs(arguments.output, exist_ok=True)
    corpus = arguments.corpus or os.path.join(arguments.output, "corpus.h5")
    if not arguments.corpus:
        with tempfile.TemporaryDirectory() as folder:
            text = Text(arguments.seed)
            train = text.write(os.path.join(folder, "train"), arguments.pairs)
            valid = text.write(os.path.join(folder, "valid"), arguments.valid_pairs)
            command = [arguments.ventris, "prepare", "--train-sets", *train, "--valid-sets", *valid, "--vocab-size", str(arguments.vocabulary)]
            result = subprocess.run([*command, "--output", corpus], capture_output=True, text=True, check=False)
            if result.returncode != 0:
                sys.exit(result.stderr.strip())
    arrays = corpus_arrays.read(corpus)
    numpy.savez(os.path.join(arguments.output, "corpus.npz"), **arrays)
    pairs = len(arrays["target_offsets"]) - 1
    sizes = ", ".join(f"{len(arrays[f'{side}_tokens']) / pairs:.1f} {side}" for side in ("source", "target"))
    print(f"{pairs:,} pairs to train on, tokens a sentence without marks: {sizes}")


if __name__ == "__main__":
    main()
