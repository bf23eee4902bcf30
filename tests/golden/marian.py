#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves models of Marian read here, and ours read by Marian, against Marian itself. Needs the Python package pymarian
(1.12.42: decoder, scorer and trainer).

    marian.py check --binary build/release/ventris [--model weights.h5 | --npz model.npz --tokenizer-model model.spm]
                    [--source test.en --reference test.de] [--sentences 500]
    marian.py golden --binary build/release/ventris

`check` scores the pairs of sentences with both programs, translates with a beam of 1 and of 4 and no length penalty,
and counts the lines that are equal. Without a model it takes those of the golden file, and lets each program train on
from the other's model. `golden` lets Marian train tiny models, and writes their weights, what Marian gives for them and
for models of ours, to marian.json, which the tests read.
"""

import argparse
import base64
import importlib.util
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(FOLDER, "marian.json")
RECIPE = os.path.join(FOLDER, "..", "..", "launch", "recipes", "marian.ini")
TOLERANCE = 1e-4
LENGTH_FACTOR = 20  # of Marian's translations, with which few that end at all are cut
CONFIG_NAME = "special:model.yml"
# Marian's defaults are those of the first; with post-norm it is the function that most of its models have.
VARIANTS = {
    "post_norm": [],
    "pre_norm": [
        *("--transformer-preprocess", "n", "--transformer-postprocess", "da", "--transformer-postprocess-top", "n"),
        *("--transformer-ffn-activation", "relu"),
    ],
}
# Models of ours as Marian computes them.
OURS = {
    "post_norm": {"activation": "swish", "output_bias": True},
    "pre_norm": {"pre_norm": True},
}
SHAPE = ["--dim-emb", 16, "--transformer-dim-ffn", 32, "--transformer-heads", 2, "--enc-depth", 1, "--dec-depth", 1]


def load_exports():
    spec = importlib.util.spec_from_file_location("exports", os.path.join(FOLDER, "exports.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


exports = load_exports()
LINES = exports.TINY_LINES
REVERSED = [" ".join(reversed(line.split())) for line in LINES]


def write_lines(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))
    return path


def marian(python, *arguments):
    """What a command of Marian prints, and what it logs."""
    result = subprocess.run([python, "-m", "pymarian", *map(str, arguments)], capture_output=True, check=False)
    log = result.stderr.decode(errors="replace")
    if result.returncode != 0:
        raise RuntimeError(f"{arguments}: {log[-2000:]}")
    return result.stdout.decode(), log


class Model:
    """A model of Marian: the npz and its vocabulary."""

    def __init__(self, python, npz, vocabulary):
        self.python = python
        self.files = ["-m", npz, "--vocabs", vocabulary, vocabulary, "--cpu-threads", 1, "--quiet"]

    def score(self, source, target):
        """Log-probabilities of the pairs of two files."""
        text, _ = marian(self.python, "score", *self.files, "--max-length", 1000, "--train-sets", source, target)
        return [float(line) for line in text.splitlines()]

    def translate(self, source, beam, *options):
        text, _ = marian(
            *(self.python, "decode", *self.files, "--input", source, "--beam-size", beam, "--normalize", 0),
            # Of several sentences all end where the first comes to its limit.
            *("--max-length", 1000, "--max-length-factor", LENGTH_FACTOR, "--mini-batch", 1, *options),
        )
        return text.split("\n")[:-1]

    def decodes_as_it_scores(self, source, folder):
        """Whether the decoder gives its translations the probability that the scorer gives them, but for the few that
        come to no end, or whose text is cut into other words than it was made of. Not so for pre-norm models: from
        the second word on the decoder of 1.12.42 attends to what LayerNorm has not seen (docs/formats.md)."""
        with open(source, encoding="utf-8") as file:
            lines = file.read().splitlines()
        rows = [line.split(" ||| ") for line in self.translate(source, 1, "--n-best")]
        found = [(line, row[1], float(row[-1])) for line, row in zip(lines, rows, strict=True) if row[1].strip()]
        paths = [write_lines(os.path.join(folder, f"decoded{i}"), [pair[i] for pair in found]) for i in (0, 1)]
        scores = self.score(*paths)
        differences = [abs(pair[2] - score) for pair, score in zip(found, scores, strict=True)]
        agreeing = sum(difference < 1e-3 for difference in differences)
        print(
            f"the decoder of Marian gives {agreeing} of its {len(found)} translations the scores that its scorer "
            f"gives; the greatest difference is {max(differences):.2g}"
        )
        return agreeing > 0.9 * len(found)


def our_scores(binary, model, source, target):
    text = exports.run(binary, "score", "--model", model, "--source", source, "--target", target)
    return [float(line.split("\t")[0]) for line in text.splitlines()]


# Files of Marian without any package.


def write_npz(path, variant):
    """A model of the golden file as Marian writes it."""
    arrays = {
        name: (packed["shape"], "<f4", struct.pack(f"<{math.prod(packed['shape'])}f", *exports.values_of(packed)))
        for name, packed in variant["weights"].items()
    }
    config = variant["config"].encode() + b"\0"
    arrays[CONFIG_NAME] = ([len(config)], "|i1", config)
    with zipfile.ZipFile(path, "w") as archive:
        for name, (shape, kind, data) in arrays.items():
            text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
            text += " " * (-(len(text) + 11) % 64) + "\n"
            archive.writestr(name + ".npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + data)


def read_npz(path):
    """The weights of an npz, rounded as the golden file holds them, and its configuration."""
    weights = {}
    config = ""
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            content = archive.read(entry)
            length = struct.unpack("<H", content[8:10])[0]
            header, data = content[10 : 10 + length].decode(), content[10 + length :]
            name = entry.removesuffix(".npy")
            if name == CONFIG_NAME:
                config = data.decode().rstrip("\0 \n") + "\n"
                continue
            shape = [int(size) for size in re.search(r"'shape': \(([^)]*)\)", header)[1].split(",") if size.strip()]
            values = struct.unpack(f"<{len(data) // 4}f", data)
            weights[name] = {"shape": shape, **exports.rounded(values)}
    return weights, config


def write_our_model(binary, folder, name):
    """The model of that name of OURS, made of a formula, as weights; and its export."""
    with open(exports.GOLDEN, encoding="utf-8") as file:
        golden = json.load(file)
    written = os.path.join(folder, name + ".safetensors")
    exports.write_tiny_model(written, golden, **exports.MARIAN_CONFIG, **OURS[name])
    weights = os.path.join(folder, name + ".h5")
    exports.run(binary, "import", "--input", written, "--output", weights)
    return weights, export(binary, weights, os.path.join(folder, name + ".marian"))


def export(binary, model, folder):
    exports.run(binary, "export", "--model", model, "--format", "marian", "--output", folder)
    return folder


def model_of_export(python, folder):
    return Model(python, os.path.join(folder, "model.npz"), os.path.join(folder, "source.spm"))


def write_their_model(folder, name, variant):
    """The npz and the SentencePiece model of a variant of the golden file."""
    npz = os.path.join(folder, name + ".npz")
    tokenizer = os.path.join(folder, name + ".spm")
    write_npz(npz, variant)
    with open(tokenizer, "wb") as file:
        file.write(base64.b64decode(variant["tokenizer"]))
    return npz, tokenizer


def import_model(binary, npz, tokenizer, output):
    exports.run(binary, "import", "--input", npz, "--tokenizer-model", tokenizer, "--output", output)
    return output


# The golden file.


def train_their_model(python, folder, name):
    """Marian trains a model that gives the words in the opposite order."""
    lines = exports.tiny_lines(4000)
    source = write_lines(os.path.join(folder, "train.source"), lines)
    target = write_lines(os.path.join(folder, "train.target"), [" ".join(reversed(x.split())) for x in lines])
    npz, tokenizer = (os.path.join(folder, name + ending) for ending in (".npz", ".spm"))
    marian(
        *(python, "train", "--type", "transformer", "--tied-embeddings-all", *SHAPE, *VARIANTS[name]),
        *("--train-sets", source, target, "--vocabs", tokenizer, tokenizer, "--dim-vocabs", 13, 13),
        *("--sentencepiece-options=--model_type=char --normalization_rule_name=identity", "--model", npz),
        *("--cpu-threads", 1, "--seed", 7, "--after", "3000u", "--mini-batch", 64, "--maxi-batch", 10),
        *("--learn-rate", 0.005, "--lr-warmup", 100, "--lr-decay-inv-sqrt", 500, "--workspace", 500),
    )
    weights, config = read_npz(npz)
    with open(tokenizer, "rb") as file:
        return {"tokenizer": base64.b64encode(file.read()).decode(), "config": config, "weights": weights}


def make_golden(binary, python):
    golden = {"from_marian": {}, "to_marian": {}}
    with tempfile.TemporaryDirectory(prefix="ventris-marian-") as folder:
        source = write_lines(os.path.join(folder, "source"), LINES)
        target = write_lines(os.path.join(folder, "target"), REVERSED)
        for name in VARIANTS:
            variant = train_their_model(python, folder, name)
            model = Model(python, *write_their_model(folder, name, variant))
            variant["scores"] = model.score(source, target)
            beams = exports.BEAMS if model.decodes_as_it_scores(source, folder) else ()
            variant["translations"] = {str(beam): model.translate(source, beam) for beam in beams}
            golden["from_marian"][name] = variant
            _, exported = write_our_model(binary, folder, name)
            golden["to_marian"][name] = {
                "files": exports.files_of(exported),
                "scores": model_of_export(python, exported).score(source, target),
            }
    with open(GOLDEN, "w", encoding="utf-8") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")


# The proof.


def compare(binary, model, theirs, source, target, lines):
    """Prints how the scores of the pairs and the translations of two programs differ; returns whether all scores
    agree, and the numbers of equal lines by beam."""
    ours = our_scores(binary, model, source, target)
    difference = max(abs(a - b) for a, b in zip(ours, theirs.score(source, target), strict=True))
    print(f"{len(ours)} pairs: scores differ by at most {difference:.2g}")
    equal = {}
    sound = theirs.decodes_as_it_scores(source, os.path.dirname(source))
    if not sound:
        print("so it computes another function, and no translations are compared")
    for beam in exports.BEAMS if sound else ():
        pairs = zip(exports.translate(binary, model, lines, beam), theirs.translate(source, beam), strict=True)
        equal[beam] = sum(a == b for a, b in pairs)
        print(f"beam {beam}: {equal[beam]} of {len(lines)} lines equal")
    return difference <= TOLERANCE, equal


def cost_of_training(python, npz, vocabulary, source, target):
    """Marian goes on with training from the model for two updates, on all pairs at once and without dropout. Returns
    the first cost, which is that of the model."""
    _, log = marian(
        *(python, "train", "--model", npz, "--vocabs", vocabulary, vocabulary, "--train-sets", source, target),
        *("--type", "transformer", "--tied-embeddings-all", *SHAPE, "--cpu-threads", 1, "--after", "2u"),
        *("--mini-batch", 1000, "--maxi-batch", 1, "--disp-freq", "1u", "--label-smoothing", 0, "--workspace", 500),
        *("--learn-rate", 0.001, "--dim-vocabs", 0, 0, "--shuffle", "none"),
    )
    costs = [float(cost) for cost in re.findall(r"Cost ([0-9.]+)", log)]
    if len(costs) != 2 or costs[1] >= costs[0]:
        raise RuntimeError(f"costs of {costs}: {log[-2000:]}")
    return costs[0]


def our_cost_of_training(binary, folder, model, tokenizer, source, target, options):
    """The same with our trainer, from a model that we read."""
    words = [scored_words(binary, model, source, side)[1] for side in (source, target)]  # a batch is an epoch
    corpus, run = os.path.join(folder, "corpus.h5"), os.path.join(folder, "run")
    exports.run(
        *(binary, "prepare", "--train-sets", source, target, "--valid-sets", source, target),
        *("--tokenizer-model", tokenizer, "--output", corpus),
    )
    exports.run(
        *(binary, "train", "--corpus", corpus, "--model-dir", run, "--preset", "tiny", "--init", model),
        *("--encoder-layers", 1, "--decoder-layers", 1, "--d-model", 16, "--d-ff", 32, "--heads", 2, "--dropout", 0),
        *("--attention-dropout", 0, "--label-smoothing", 0, "--config", RECIPE, *options),
        *("--batch-source-tokens", words[0], "--batch-target-tokens", words[1]),
        *("--max-steps", 2, "--log-every", 1, "--valid-every", 0, "--threads", 1),
        *("--warmup-steps", 1, "--learning-rate-scale", 0.01),
    )
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
        costs = [json.loads(line)["nll"] for line in file if '"nll"' in line]
    if len(costs) != 2 or costs[1] >= costs[0]:
        raise RuntimeError(f"costs of {costs}")
    return costs[0]


def scored_words(binary, model, source, target):
    """The log-probability of all pairs, and their target words."""
    text = exports.run(binary, "score", "--model", model, "--source", source, "--target", target)
    rows = [line.split("\t") for line in text.splitlines()]
    return sum(float(score) for score, _ in rows), sum(int(words) for _, words in rows)


def mean_score(binary, model, source, target):
    """The mean negative log-probability of a word."""
    score, words = scored_words(binary, model, source, target)
    return -score / words


TRAIN_OPTIONS = {  # beside the recipe: what the models of VARIANTS are
    "post_norm": [],
    "pre_norm": ["--pre-norm", "--activation", "relu"],
}


def check_golden_models(binary, python):
    agree = True
    with open(GOLDEN, encoding="utf-8") as file:
        golden = json.load(file)
    with tempfile.TemporaryDirectory(prefix="ventris-marian-") as folder:
        source = write_lines(os.path.join(folder, "source"), LINES)
        target = write_lines(os.path.join(folder, "target"), REVERSED)
        for name in VARIANTS:
            print(f"{name} of Marian")
            npz, tokenizer = write_their_model(folder, name, golden["from_marian"][name])
            model = import_model(binary, npz, tokenizer, os.path.join(folder, "imported.h5"))
            same, equal = compare(binary, model, Model(python, npz, tokenizer), source, target, LINES)
            agree = agree and same and all(lines == len(LINES) for lines in equal.values())
            agree = agree and len(equal) == len(golden["from_marian"][name]["translations"])
            print(f"{name} of ours")
            weights, exported = write_our_model(binary, folder, name)
            theirs = model_of_export(python, exported).score(source, target)
            ours = our_scores(binary, weights, source, target)
            agree = agree and all(abs(a - b) <= TOLERANCE for a, b in zip(ours, theirs, strict=True))
            npz, vocabulary = (os.path.join(exported, file) for file in ("model.npz", "source.spm"))
            cost = cost_of_training(python, npz, vocabulary, source, target)
            print(f"Marian goes on at a cost of {cost}")
            agree = agree and abs(cost - mean_score(binary, weights, source, target)) <= TOLERANCE
    return agree


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "golden"])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model")
    parser.add_argument("--npz")
    parser.add_argument("--tokenizer-model")
    parser.add_argument("--source")
    parser.add_argument("--reference")
    parser.add_argument("--sentences", type=int, default=500)
    options = parser.parse_args()
    if options.what == "golden":
        make_golden(options.binary, sys.executable)
        return 0
    if not options.model and not options.npz:
        return 0 if check_golden_models(options.binary, sys.executable) else 1
    with tempfile.TemporaryDirectory(prefix="ventris-marian-") as folder:
        texts = []
        for path in (options.source, options.reference):
            with open(path, encoding="utf-8") as file:
                texts.append(file.read().split("\n")[: options.sentences])
        source, target = (write_lines(os.path.join(folder, str(i)), text) for i, text in enumerate(texts))
        if options.npz:
            theirs = Model(sys.executable, options.npz, options.tokenizer_model)
            weights = os.path.join(folder, "imported.h5")
            model = import_model(options.binary, options.npz, options.tokenizer_model, weights)
        else:
            model = options.model
            theirs = model_of_export(sys.executable, export(options.binary, model, os.path.join(folder, "exported")))
        return 0 if compare(options.binary, model, theirs, source, target, texts[0])[0] else 1


if __name__ == "__main__":
    sys.exit(main())
