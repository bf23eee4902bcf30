#!/usr/bin/env python3
"""Training speed of ventris against PyTorch on the same corpus, machine and run, as a table in Markdown.

    python3 tests/bench/train_bench.py --ventris build/release/ventris --gemm-bench build/release/tests/bench/gemm_bench \
        --corpus corpus.h5 --pytorch NEW_PYTHON --old-pytorch OLD_PYTHON --output table.md

Every configuration trains on 2 cores: ventris as two MPI ranks of one thread, PyTorch as one process of two threads. The first steps
(primitive creation, compilation) are not counted. "of GEMM" is the arithmetic of the whole step (forward, backward, Adam; see
training_flops in model/transformer.h) over two cores' rate of a large square oneDNN product of that dtype in the same run. Memory is the
peak resident set, summed over ranks. Rounds repeat the list in turn, torch.compile in the first one only, as it takes minutes to
start (it is measured from where ten steps in a row had no compilation among them); the table has medians.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

MARIAN = {"tiny": 4660, "base": 490}  # Marian 1.12.43, two workers, OpenBLAS, f32, Multi30k, on two such cores


def ventris(arguments, preset, precision, folder):
    command = ["mpirun", "-np", "2", "--bind-to", "core"]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    tokens = str(arguments.batch_tokens)
    command += [arguments.ventris, "train", "--corpus", arguments.corpus, "--model-dir", folder, "--preset", preset,
                "--precision", precision, "--batch-target-tokens", tokens, "--batch-source-tokens", tokens,
                "--max-minutes", str((arguments.seconds + arguments.warmup_seconds) / 60), "--max-steps", "1000000",
                "--valid-every", "0", "--save-every", "0", "--log-every", "1", "--json"]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    lines = [json.loads(line) for line in open(os.path.join(folder, "metrics.jsonl"))]
    begin = lines[0]["elapsed_seconds"]
    counted = [line for line in lines if line["elapsed_seconds"] - begin >= arguments.warmup_seconds]
    tokens = counted[-1]["target_tokens"] - counted[0]["target_tokens"]
    rate = tokens / (counted[-1]["elapsed_seconds"] - counted[0]["elapsed_seconds"])
    flops_per_token = result["model_flops_per_second"] / result["target_tokens_per_second"]
    return {"rate": rate, "memory": result["peak_memory_mib"], "gflops": rate * flops_per_token / 1e9,
            "tokens_per_update": round(lines[-1]["target_tokens"] / len(lines))}


def pytorch(python, arguments, preset, precision, compiled):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_pytorch.py")
    command = [python, script, "--corpus", arguments.corpus, "--preset", preset, "--precision", precision,
               "--batch-tokens", str(arguments.batch_tokens), "--seconds", str(arguments.seconds),
               "--warmup-seconds", str(arguments.warmup_seconds)] + (["--compile"] if compiled else [])
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(f"  failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'no message'}", file=sys.stderr)
        return None
    result = json.loads(done.stdout.strip().splitlines()[-1])
    return {"rate": result["target_tokens_per_second"], "memory": result["peak_memory_mib"],
            "version": result["version"], "tokens_per_update": result["tokens_per_update"]}


def gemm_rates(arguments):
    """GFLOP/s of a large square product on two cores: two processes of one thread at the same time."""
    rates = {}
    for precision in ("f32", "bf16"):
        pattern = f"^{precision}/base ff in/forward/500"
        command = [arguments.gemm_bench, f"--benchmark_filter={pattern}", "--benchmark_format=json",
                   "--benchmark_min_time=0.05"]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
        rates[precision] = sum(json.loads(p.communicate()[0])["benchmarks"][0]["large"] for p in running)
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--gemm-bench", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--pytorch", required=True, help="python with the newest PyTorch and h5py")
    parser.add_argument("--old-pytorch", help="python with PyTorch 1.13 and h5py, the common yardstick")
    parser.add_argument("--presets", nargs="+", default=["tiny", "base"])
    parser.add_argument("--compile", action="store_true", help="measure torch.compile too, in the first round")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--warmup-seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--output", help="file for the table")
    arguments = parser.parse_args()

    rows = []
    for preset in arguments.presets:
        runs = {}

        def add(name, precision, result):
            if result is not None:
                runs.setdefault((name, precision), []).append(result)
                print(f"{preset} {name} {precision}: {result}", file=sys.stderr)

        gemm = []
        for turn in range(arguments.rounds):
            gemm.append(gemm_rates(arguments))
            for precision in ("f32", "bf16"):
                folder = tempfile.mkdtemp(prefix="ventris-bench-")
                try:
                    add("ventris", precision, ventris(arguments, preset, precision, folder))
                finally:
                    shutil.rmtree(folder)
                add("PyTorch", precision, pytorch(arguments.pytorch, arguments, preset, precision, False))
                if arguments.compile and turn == 0:
                    add("PyTorch, torch.compile", precision,
                        pytorch(arguments.pytorch, arguments, preset, precision, True))
            if arguments.old_pytorch:
                add("PyTorch 1.13", "f32", pytorch(arguments.old_pytorch, arguments, preset, "f32", False))

        def median(key, field):
            return statistics.median(run[field] for run in runs[key])

        new = [key for key in runs if key[0].startswith("PyTorch") and key[0] != "PyTorch 1.13"]
        best = max(median(key, "rate") for key in new)
        best_f32 = max(median(key, "rate") for key in new if key[1] == "f32")
        for key in runs:
            name, precision = key
            if name.startswith("PyTorch") and "1.13" not in name:
                name = re.sub("PyTorch", "PyTorch " + runs[key][0]["version"].split("+")[0], name)
            rate = median(key, "rate")
            share = ""
            if key[0] == "ventris":
                of_gemm = median(key, "gflops") / statistics.median(g[precision] for g in gemm)
                share = f"{median(key, 'gflops'):.0f} GFLOP/s, {100 * of_gemm:.0f} %"
            rows.append(f"| {preset} | {name} | {precision} | {rate:,.0f} | {rate / best:.2f} | {rate / best_f32:.2f} | "
                        f"{rate / MARIAN[preset]:.2f} | {share} | {median(key, 'memory'):,.0f} |")
        rows.append(f"| {preset} | large oneDNN GEMM | f32 / bf16 | | | | | "
                    f"{statistics.median(g['f32'] for g in gemm):.0f} / {statistics.median(g['bf16'] for g in gemm):.0f} "
                    f"GFLOP/s | |")
    header = ("| preset | trainer | precision | target tokens/s | of best PyTorch | of best PyTorch f32 | of Marian f32 | "
              "model arithmetic, of GEMM | peak MiB |")
    table = "\n".join([header, "|" + "---|" * 9] + rows) + "\n"
    print(table)
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(table)


if __name__ == "__main__":
    main()
