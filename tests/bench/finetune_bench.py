#!/usr/bin/env python3
"""Fine-tuning with `train --init` against the same procedure in PyTorch (peer_finetune.py): equal initial weights, batches, loss,
schedule and Adam; with dropout the masks differ. Prints a table in Markdown: BLEU of a held-out set before and after of both, and the largest
difference of their losses over the steps.

    python3 tests/bench/finetune_bench.py --ventris build/release/ventris --pytorch PYTHON --general MODEL \
        --train domain.en domain.fr --held-out held.en held.fr --steps 300 --output table.md

MODEL is a run folder or a weights file of one of our post-norm models.
"""
import argparse
import json
import os
import shutil
import subprocess
import tempfile

import table


def run(command):
    _, reason = table.run([str(word) for word in command])
    if reason is not None:
        raise table.Failed(reason)


def bleu(arguments, model, folder):
    """Of the held-out set."""
    source, reference = arguments.held_out
    output = os.path.join(folder, "held.out")
    with open(source, "rb") as text, open(output, "wb") as to:
        command = [arguments.ventris, "translate", "--model", model, "--threads", str(arguments.threads)]
        subprocess.run(command, stdin=text, stdout=to, stderr=subprocess.DEVNULL, check=True)
    command = [arguments.ventris, "bleu", reference, "--input", output, "--score-only", "--width", "2"]
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def compare(arguments, folder, corpus, weights, dropout):
    """A fine-tuning by both: our run folder, the peer's file, and the largest difference of the losses of a step."""
    common = ["--batch-tokens", arguments.batch_tokens, "--warmup-steps", arguments.warmup_steps, "--learning-rate-scale",
              arguments.learning_rate_scale, "--threads", arguments.threads, "--seed", arguments.seed]
    theirs = os.path.join(folder, f"peer-{dropout}.safetensors")
    peer = table.run_json(table.peer_command(
        arguments.pytorch, "peer_finetune.py",
        ["--corpus", corpus, "--weights", weights, "--output", theirs, "--steps", arguments.steps, "--dropout", dropout, *common]))
    with open(os.path.join(arguments.general, "config.json"), encoding="utf-8") as file:
        shape = json.load(file)["model"]
    ours = os.path.join(folder, f"ours-{dropout}")
    batch = common.index("--batch-tokens")
    options = [*common[:batch], *common[batch + 2:], "--batch-source-tokens", arguments.batch_tokens, "--batch-target-tokens",
               arguments.batch_tokens, "--logical-shards", 1, "--dropout", dropout, "--attention-dropout", dropout,
               "--max-steps", arguments.steps, "--valid-every", 0, "--log-every", 1, "--save-every", 0]
    for name in ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "label_smoothing"):
        options += ["--" + name.replace("_", "-"), shape[name]]
    run([arguments.ventris, "train", "--corpus", corpus, "--model-dir", ours, "--init", arguments.general, *options])
    with open(os.path.join(ours, "metrics.jsonl"), encoding="utf-8") as file:
        losses = [line["loss"] for line in map(json.loads, file) if "loss" in line]
    difference = max(abs(a - b) for a, b in zip(losses, peer["losses"], strict=True))
    return ours, theirs, difference, peer["version"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--pytorch", required=True, help="a Python with torch")
    parser.add_argument("--general", required=True)
    parser.add_argument("--train", nargs=2, required=True)
    parser.add_argument("--held-out", nargs=2, required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--warmup-steps", type=int, default=100)
    parser.add_argument("--learning-rate-scale", type=float, default=0.2)
    parser.add_argument("--dropout", type=float, nargs="+", default=[0.0, 0.1])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="ventris-bench-")
    try:
        corpus, weights = os.path.join(folder, "domain.h5"), os.path.join(folder, "general.safetensors")
        run([arguments.ventris, "prepare", "--train-sets", *arguments.train, "--tokenizer-from", arguments.general,
             "--max-length", 100, "--threads", arguments.threads, "--output", corpus])
        run([arguments.ventris, "export", "--model", arguments.general, "--format", "safetensors", "--output", weights])
        before = bleu(arguments, arguments.general, folder)
        rows = []
        for dropout in arguments.dropout:
            ours, theirs, difference, version = compare(arguments, folder, corpus, weights, dropout)
            rows.append([dropout, arguments.steps, before, bleu(arguments, ours, folder), bleu(arguments, theirs, folder),
                         f"{difference:.2g}"])
    finally:
        shutil.rmtree(folder)
    table.write(table.markdown(["dropout", "steps", "BLEU before", "after, ventris", f"after, PyTorch {version}",
                                "largest difference of a step's loss"], rows), arguments.output)


if __name__ == "__main__":
    main()
