#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes parallel text of any size from small corpora: their pairs again and again, with some words of both sides exchanged.

    python3 tests/bench/vary_text.py --pairs 4500000 --output text a.en.gz a.fr.gz b.en.gz b.fr.gz

Writes text.source and text.target. Pair i is of corpus i mod N of the N given; after its first use --changes words of either side are
exchanged for words drawn from all text of that side, so that pairs differ and frequencies stay about those of the corpora. A share --new of
these is the first half of one word and the second of another, so that the number of different words grows with the text. The same options
write the same bytes.
"""
import argparse
import gzip
import random


def lines_of(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n").split(" ") for line in file]


def changed(words, pool, draw, changes, new):
    words = words[:]
    for _ in range(changes):
        word = pool[int(draw() * len(pool))]
        if draw() < new:
            other = pool[int(draw() * len(pool))]
            word = word[: (len(word) + 1) // 2] + other[len(other) // 2 :]
        words[int(draw() * len(words))] = word
    return words


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--changes", type=int, default=2)
    parser.add_argument("--new", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("files", nargs="+", metavar="SOURCE TARGET")
    arguments = parser.parse_args()
    if len(arguments.files) % 2 != 0:
        parser.error("a target file is missing: give SOURCE and TARGET of each corpus")
    sides = [[lines_of(path) for path in arguments.files[side::2]] for side in (0, 1)]
    for source, target, name in zip(*sides, arguments.files[::2]):
        if len(source) != len(target):
            parser.error(f"{name} has {len(source)} lines, but its target {len(target)}")
    pools = [[word for corpus in side for line in corpus for word in line] for side in sides]
    draw = random.Random(arguments.seed).random
    corpora = len(sides[0])
    with open(f"{arguments.output}.source", "w", encoding="utf-8") as source, open(f"{arguments.output}.target", "w", encoding="utf-8") as target:
        for i in range(arguments.pairs):
            for side, pool, file in zip(sides, pools, (source, target)):
                corpus = side[i % corpora]
                round_, line = divmod(i // corpora, len(corpus))
                words = corpus[line] if round_ == 0 else changed(corpus[line], pool, draw, arguments.changes, arguments.new)
                file.write(" ".join(words) + "\n")


if __name__ == "__main__":
    main()
