#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training speed of ventris against PyTorch on the same corpus, machine and run, as a table in Markdown.

    python3 tests/bench/train_bench.py --ventris build/release/ventris --gemm-bench build/release/tests/bench/gemm_bench \
        --corpus corpus.h5 --pytorch PYTHON --output table.md

Every configuration trains on 2 cores: ventris as two MPI ranks of one thread, PyTorch as one process of two threads. The first steps
(primitive creation, compilation) are not counted. "of GEMM" is the arithmetic of the whole step (forward, backward, Adam; see
training_flops in model/flop_count.h) divided by the rate of a large square oneDNN product of that dtype on two cores in the same run. Memory
is the peak resident set, summed over ranks. Each round runs the whole list, torch.compile only in the first one, as it takes minutes to
start (it is measured after ten consecutive steps without compilation). The table has medians.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import table

PRECISIONS = ("f32", "bf16")


def ventris(arguments, preset, precision):
    """Raises table.Failed."""
    folder = tempfile.mkdtemp(prefix="ventris-bench-")
    launcher = ["mpirun", "-np", "2", "--bind-to", "core"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
    minutes = (arguments.seconds + arguments.warmup_seconds) / 60
    command = [*launcher, arguments.ventris, "train", "--corpus", arguments.corpus, "--model-dir", folder, "--preset", preset, "--precision", precision,
               "--batch-target-tokens", arguments.batch_tokens, "--batch-source-tokens", arguments.batch_tokens, "--max-minutes", minutes,
               "--max-steps", 1000000, "--valid-every", 0, "--save-every", 0, "--log-every", 1, "--json"]
    try:
        result = table.run_json(list(map(str, command)))
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [line for line in map(json.loads, file) if "elapsed_seconds" in line]
    finally:
        shutil.rmtree(folder)
    counted = [line for line in lines if line["elapsed_seconds"] - lines[0]["elapsed_seconds"] >= arguments.warmup_seconds]
    if len(counted) < 2:
        raise table.Failed(f"fewer than two reports after {arguments.warmup_seconds:g} s; increase the time of the measurement")
    seconds, steps, tokens = (counted[-1][name] - counted[0][name] for name in ("elapsed_seconds", "step", "target_tokens"))
    flops_per_token = result["model_flops_per_second"] / result["target_tokens_per_second"]
    return {"rate": tokens / seconds, "memory": result["peak_memory_mib"], "gflops": tokens / seconds * flops_per_token / 1e9,
            "tokens_per_update": round(tokens / steps)}


def pytorch(arguments, preset, precision, compiled):
    options = ["--corpus", arguments.corpus, "--preset", preset, "--precision", precision, "--batch-tokens", arguments.batch_tokens,
               "--seconds", arguments.seconds, "--warmup-seconds", arguments.warmup_seconds] + (["--compile"] if compiled else [])
    found = table.run_json(table.peer_command(arguments.pytorch, "peer_pytorch.py", options))
    return {"rate": found["target_tokens_per_second"], "memory": found["peak_memory_mib"], "version": found["version"].split("+")[0],
            "tokens_per_update": found["tokens_per_update"]}


def gemm_rates(arguments):
    """GFLOP/s of a large square product of each precision on two cores, of two processes of one thread at the same time; None if oneDNN has none."""
    running = [subprocess.Popen([arguments.gemm_bench], stdout=subprocess.PIPE) for _ in range(2)]
    measured = [json.loads(process.communicate()[0]) for process in running]
    return {name: None if measured[0][name] is None else sum(one[name] for one in measured) for name in PRECISIONS}


def median_rate(gemm, precision):
    """None if it was not measured."""
    known = [rates[precision] for rates in gemm if rates[precision] is not None]
    return statistics.median(known) if known else None


def compare(arguments):
    rows = []
    for preset in arguments.presets:
        runs, gemm = {}, []

        def add(name, precision, measure, *more):
            try:
                result = measure(arguments, preset, precision, *more)
                runs.setdefault((name, precision), []).append(result)
            except table.Failed as error:
                result = error
            print(f"{preset} {name} {precision}: {result}", file=sys.stderr)

        for turn in range(arguments.rounds):
            gemm.append(gemm_rates(arguments))
            for precision in PRECISIONS:
                add("ventris", precision, ventris)
                add("PyTorch", precision, pytorch, False)
                if arguments.compile and turn == 0:
                    add("PyTorch, torch.compile", precision, pytorch, True)

        def median(key, field):
            return statistics.median(run[field] for run in runs[key])

        for key in runs:
            name, precision = key
            peers = [median(other, "rate") for other in runs if other[0] != "ventris" and other[1] == precision]
            rate, share = median(key, "rate"), ""
            if name == "ventris":
                large = median_rate(gemm, precision)
                share = f"{median(key, 'gflops'):.0f} GFLOP/s" + (f", {100 * median(key, 'gflops') / large:.0f} %" if large else "")
            else:
                name = name.replace("PyTorch", f"PyTorch {runs[key][0]['version']}")
            rows.append([preset, name, precision, f"{rate:,.0f}", f"{rate / max(peers):.2f}" if peers else "", share, f"{median(key, 'memory'):,.0f}"])
        products = " / ".join("none" if rate is None else f"{rate:.0f}" for rate in (median_rate(gemm, name) for name in PRECISIONS))
        rows.append([preset, "large oneDNN GEMM", " / ".join(PRECISIONS), "", "", f"{products} GFLOP/s", ""])
    header = ["preset", "trainer", "precision", "target tokens/s", "of PyTorch's better, same precision", "model arithmetic, of GEMM", "peak MiB"]
    return table.markdown(header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--gemm-bench", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--pytorch", required=True, help="python with PyTorch and h5py")
    parser.add_argument("--presets", nargs="+", default=["tiny", "base"])
    parser.add_argument("--compile", action="store_true", help="also measure torch.compile, in the first round")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--warmup-seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--output", help="file for the table")
    arguments = parser.parse_args()
    table.write(compare(arguments), arguments.output)


if __name__ == "__main__":
    main()
