#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training against the same procedure in PyTorch (peer_equal_updates.py): equal initial weights, batches, loss, schedule and Adam; with
dropout the masks differ. Prints a table in Markdown: BLEU and chrF of a held-out set after each number of --steps, of both, and how
much the losses of a step differ.

Both begin with the weights after one step of a preset, with a vocabulary of the corpus:

    python3 tests/bench/equal_updates_bench.py --ventris build/release/ventris --pytorch PYTHON --preset tiny --vocab-size 8000 \
        --train train.en train.de --held-out dev.en dev.de --steps 500 1000 2000 --output table.md
"""
import argparse
import json
import math
import os
import shutil
import subprocess
import tempfile

import table


def run(command):
    _, reason = table.run([str(word) for word in command])
    if reason is not None:
        raise table.Failed(reason)


def scores(arguments, model, folder):
    """BLEU and chrF of the held-out set."""
    source, reference = arguments.held_out
    output = os.path.join(folder, "held.out")
    with open(source, "rb") as text, open(output, "wb") as to:
        command = [arguments.ventris, "translate", "--model", model, "--threads", str(arguments.threads)]
        subprocess.run(command, stdin=text, stdout=to, stderr=subprocess.DEVNULL, check=True)
    command = [arguments.ventris, "bleu", reference, "--input", output, "--metrics", "bleu", "chrf", "--score-only", "--width", "2"]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.split()


def first_weights(arguments, folder, corpus):
    """A run folder with the weights to begin from."""
    run_folder = os.path.join(folder, "first")
    run([arguments.ventris, "train", "--corpus", corpus, "--model-dir", run_folder, "--preset", arguments.preset, "--max-steps", 1,
         "--valid-every", 0, "--threads", arguments.threads, "--seed", arguments.seed])
    return run_folder


def compare(arguments, folder, corpus, first, weights, dropout):
    """A training by both: our models, the peer's files, our and its losses of all steps, and the version of PyTorch."""
    common = ["--batch-tokens", arguments.batch_tokens, "--warmup-steps", arguments.warmup_steps, "--learning-rate-scale",
              arguments.learning_rate_scale, "--threads", arguments.threads, "--seed", arguments.seed]
    theirs = os.path.join(folder, f"peer-{dropout}")
    os.mkdir(theirs)
    peer = table.run_json(table.peer_command(
        arguments.pytorch, "peer_equal_updates.py",
        ["--corpus", corpus, "--weights", weights, "--output", theirs, "--save-at", *arguments.steps, "--dropout", dropout, *common]))
    with open(os.path.join(first, "config.json"), encoding="utf-8") as file:
        shape = json.load(file)["model"]
    ours = os.path.join(folder, f"ours-{dropout}")
    batch = common.index("--batch-tokens")
    options = [*common[:batch], *common[batch + 2:], "--batch-source-tokens", arguments.batch_tokens, "--batch-target-tokens",
               arguments.batch_tokens, "--logical-shards", 1, "--dropout", dropout, "--attention-dropout", dropout,
               "--max-steps", arguments.steps[-1], "--valid-every", 0, "--log-every", 1, "--save-every", math.gcd(*arguments.steps),
               "--keep-checkpoints", arguments.steps[-1]]
    for name in ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "label_smoothing"):
        options += ["--" + name.replace("_", "-"), shape[name]]
    run([arguments.ventris, "train", "--corpus", corpus, "--model-dir", ours, "--init", first, *options])
    with open(os.path.join(ours, "metrics.jsonl"), encoding="utf-8") as file:
        losses = [line["loss"] for line in map(json.loads, file) if "loss" in line]
    models = [(os.path.join(ours, f"checkpoint-{step:08}.h5"), os.path.join(theirs, f"{step}.safetensors")) for step in arguments.steps]
    return models, losses, peer["losses"], peer["version"]


def mean(values):
    return sum(values) / len(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--pytorch", required=True, help="a Python with torch, h5py and safetensors")
    parser.add_argument("--preset", required=True)
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--train", nargs=2, required=True)
    parser.add_argument("--held-out", nargs=2, required=True)
    parser.add_argument("--steps", type=int, nargs="+", default=[300])
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--warmup-steps", type=int, default=100)
    parser.add_argument("--learning-rate-scale", type=float, default=0.2)
    parser.add_argument("--dropout", type=float, nargs="+", default=[0.0, 0.1])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output")
    arguments = parser.parse_args()
    arguments.steps.sort()
    folder = tempfile.mkdtemp(prefix="ventris-bench-")
    try:
        corpus, weights = os.path.join(folder, "corpus.h5"), os.path.join(folder, "first.safetensors")
        run([arguments.ventris, "prepare", "--train-sets", *arguments.train, "--vocab-size", arguments.vocab_size, "--max-length", 100,
             "--threads", arguments.threads, "--output", corpus])
        first = first_weights(arguments, folder, corpus)
        run([arguments.ventris, "export", "--model", first, "--format", "safetensors", "--output", weights])
        rows = []
        for dropout in arguments.dropout:
            models, ours, theirs, version = compare(arguments, folder, corpus, first, weights, dropout)
            begin = 0
            for steps, (our_model, their_model) in zip(arguments.steps, models, strict=True):
                part = slice(begin, steps)
                differences = [a - b for a, b in zip(ours[part], theirs[part], strict=True)]
                rows.append([dropout, steps, *scores(arguments, our_model, folder), *scores(arguments, their_model, folder),
                             f"{mean(ours[part]):.4f}, {mean(theirs[part]):.4f}", f"{max(map(abs, differences)):.2g}"])
                begin = steps
    finally:
        shutil.rmtree(folder)
    table.write(table.markdown(["dropout", "updates", "ventris: BLEU", "chrF", f"PyTorch {version}: BLEU", "chrF",
                                "mean losses since the row before: ventris, PyTorch", "largest difference of a step's loss"], rows),
                arguments.output)


if __name__ == "__main__":
    main()
