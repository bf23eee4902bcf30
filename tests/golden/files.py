# SPDX-License-Identifier: Apache-2.0
"""Makes the files of a release in tests/golden/files, and the results that its commands give for them (README.md there).

    python3 tests/golden/files.py --binary build/release/ventris --output tests/golden/files/1.0
"""

import argparse
import json
import os
import shutil
import subprocess

TEXT = "demo-corpus --output-dir . --train-pairs 70 --valid-pairs 6 --test-pairs 6"
PREPARE = """prepare --train-sets train.en train.de --valid-sets valid.en valid.de --vocab-size 110 --no-normalization
    --threads 1 --output corpus.h5"""
TRAIN = """train --corpus corpus.h5 --model-dir run --preset tiny --encoder-layers 1 --decoder-layers 1 --d-model 8 --d-ff 16
    --heads 2 --dropout 0.1 --batch-source-tokens 256 --batch-target-tokens 256 --warmup-steps 200 --learning-rate-scale 0.5
    --ema 0.99 --max-steps 1500 --valid-every 1500 --valid-metric loss --log-every 500 --save-every 0
    --digest-every 500 --threads 1 --device cpu"""
RESUME = {"--max-steps": 1560, "--log-every": 20, "--digest-every": 20, "--valid-every": 30}
CHECKPOINT = "run/checkpoint-00001500.h5"
PRECISIONS = {"": "f32", "-bf16": "bf16", "-int8": "int8"}
KEPT = ("corpus.h5", "test.en", "test.de", "run", "expected")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--output", required=True, help="the folder, made anew")
    options = parser.parse_args()
    folder = os.path.abspath(options.output)
    binary = os.path.abspath(options.binary)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "expected"))

    def run(*words, stdin=None, output=None):
        arguments = [part for word in words for part in (word.split() if " " in str(word) else [str(word)])]
        made = subprocess.run(("ventris", *arguments), executable=binary, cwd=folder, input=stdin, stdout=subprocess.PIPE, check=True)
        if output:
            write(output, made.stdout)
        return made.stdout

    def write(name, content):
        with open(os.path.join(folder, "expected", name), "wb") as file:
            file.write(content)

    def digest(name):
        told = json.loads(run("inspect", name, "--json"))
        return told.get("parameter_digest", told["digest"])

    run(TEXT)
    run(PREPARE)
    run(TRAIN)
    digests = {name: digest(name) for name in ("corpus.h5", CHECKPOINT)}
    source = open(os.path.join(folder, "test.en"), "rb").read()
    for ending, precision in PRECISIONS.items():
        for extension in ("h5", "safetensors"):
            name = f"weights{ending}.{extension}"
            run("export --model run --precision", precision, "--output", name)
            digests[name] = digest(name)
        run(f"translate --n-best 2 --model weights{ending}.h5", stdin=source, output=f"weights{ending}.txt")
    run("translate --n-best 2 --model weights-int8.h5 --precision int8", stdin=source, output="weights-int8-computed.txt")
    run("score --model weights.h5 --source test.en --target test.de --per-word", output="score.txt")
    run("evaluate --model weights.h5 --source test.en --reference test.de --json", output="evaluate.json")
    run("average --checkpoints", CHECKPOINT, "weights.h5 --output average.h5")
    digests["average"] = digest("average.h5")

    kept = os.path.join(folder, "kept")
    shutil.copytree(os.path.join(folder, "run"), kept)
    words = TRAIN.split()[1:]
    settings = {**dict(zip(words[::2], words[1::2])), **RESUME}
    run("train", *(word for pair in settings.items() for word in pair))
    run("export --model run/checkpoint-00001560.h5 --output resumed.h5")
    digests["export of the resumed run"] = digest("resumed.h5")
    shutil.copy(os.path.join(folder, "run", "metrics.jsonl"), os.path.join(folder, "expected"))
    shutil.rmtree(os.path.join(folder, "run"))
    os.rename(kept, os.path.join(folder, "run"))
    write("digests.json", (json.dumps(digests, indent=2) + "\n").encode())
    for name in os.listdir(folder):
        if name not in KEPT and not name.startswith("weights"):
            os.remove(os.path.join(folder, name))


if __name__ == "__main__":
    main()
