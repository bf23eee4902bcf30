#!/usr/bin/env python3
"""Training speed on one GPU against PyTorch, as one table in Markdown. tests/bench/gpu.sh calls it; it takes under 8 minutes.

    python3 tests/bench/gpu_bench.py --ventris build/cuda/ventris --corpus corpus.h5 --pytorch PYTHON --output table.md

ventris trains in bf16 with a CUDA graph per step; PyTorch trains the same model on length-bucketed padded batches of the same sentences,
eager and with torch.compile, bf16 by autocast, fused Adam, scaled_dot_product_attention. "of GEMM" is model arithmetic (three times the
forward products: encoder, decoder, output projection, attention; training_flops in model/transformer.h) over the rate of a product of 8,192
cubed in bf16, measured in the same run. The first steps are not counted.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile


def ventris(arguments, preset, profile_lines):
    folder = tempfile.mkdtemp(prefix="ventris-gpu-")
    command = [arguments.ventris, "train", "--corpus", arguments.corpus, "--model-dir", folder, "--preset", preset, "--device", "cuda",
               "--precision", "bf16", "--batch-target-tokens", str(arguments.batch_tokens), "--batch-source-tokens",
               str(arguments.batch_tokens), "--max-minutes", str((arguments.seconds + arguments.warmup_seconds) / 60), "--max-steps", "1000000",
               "--valid-every", "0", "--save-every", "0", "--log-every", "10", "--profile", "--json"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"ventris failed: {done.stderr.strip()}")
        profile_lines.append(f"{preset}:\n{done.stderr.strip()}")
        result = json.loads(done.stdout)
        lines = [json.loads(line) for line in open(os.path.join(folder, "metrics.jsonl"))]
    finally:
        shutil.rmtree(folder)
    counted = [line for line in lines if line["elapsed_seconds"] - lines[0]["elapsed_seconds"] >= arguments.warmup_seconds]
    seconds = counted[-1]["elapsed_seconds"] - counted[0]["elapsed_seconds"]
    tokens = counted[-1]["target_tokens"] - counted[0]["target_tokens"]
    flops_per_token = result["model_flops_per_second"] / result["target_tokens_per_second"]
    return {"rate": tokens / seconds, "ms": 1000 * seconds / (counted[-1]["step"] - counted[0]["step"]),
            "tflops": tokens / seconds * flops_per_token / 1e12, "memory": None}


def peer(arguments, extra):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_pytorch.py")
    done = subprocess.run([arguments.pytorch, script, "--device", "cuda", "--precision", "bf16"] + extra, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(f"PyTorch {' '.join(extra)}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'failed'}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def row(preset, trainer, rate, ms, tflops, gemm, best, memory):
    share = f"{tflops:.0f} TFLOP/s, {100 * tflops / gemm:.0f} %" if tflops is not None else ""
    return (f"| {preset} | {trainer} | {ms:.1f} | {rate:,.0f} | {rate / best:.2f} | {share} | "
            f"{'' if memory is None else format(memory, ',')} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--pytorch", required=True, help="python with PyTorch for CUDA and h5py")
    parser.add_argument("--presets", nargs="+", default=["base", "big"])
    parser.add_argument("--batch-tokens", type=int, default=25000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warmup-seconds", type=float, default=6.0)
    parser.add_argument("--compile-seconds", type=float, default=60.0)
    parser.add_argument("--output", help="file for the table")
    arguments = parser.parse_args()

    rows, profile_lines = [], []
    gemm = peer(arguments, ["--gemm"])
    if gemm is None:
        sys.exit("the large matrix product could not be measured")
    gemm = gemm["gflops"] / 1000
    for preset in arguments.presets:
        ours = ventris(arguments, preset, profile_lines)
        measured = {}
        for name, extra in (("eager", []), ("torch.compile", ["--compile", "--compile-seconds", str(arguments.compile_seconds)])):
            result = peer(arguments, ["--corpus", arguments.corpus, "--preset", preset, "--batch-tokens", str(arguments.batch_tokens), "--seconds",
                                      str(arguments.seconds), "--warmup-seconds", str(arguments.warmup_seconds)] + extra)
            if result is not None:
                version = re.sub(r"\+.*", "", result["version"])
                measured[f"PyTorch {version}, {name}"] = result
        best = max((result["target_tokens_per_second"] for result in measured.values()), default=float("nan"))
        rows.append(row(preset, "ventris", ours["rate"], ours["ms"], ours["tflops"], gemm, best, ours["memory"]))
        for name, result in measured.items():
            rate = result["target_tokens_per_second"]
            rows.append(row(preset, name, rate, 1000 * result["tokens_per_update"] / rate, None, gemm, best, result["peak_memory_mib"]))
    header = "| preset | trainer | ms a step | target tokens/s | of best PyTorch | model arithmetic, of GEMM | peak MiB |"
    text = "\n".join([header, "|" + "---|" * 7] + rows) + f"\n\nLarge bf16 product: {gemm:.0f} TFLOP/s.\n\n" + "\n\n".join(profile_lines) + "\n"
    print(text)
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
