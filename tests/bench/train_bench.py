#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training speed of ventris against PyTorch on the same corpus, machine and run, as a table in Markdown.

    python3 tests/bench/train_bench.py --ventris build/release/ventris --gemm-bench build/release/tests/bench/gemm_bench \
        --corpus corpus.h5 --pytorch NEW_PYTHON --old-pytorch OLD_PYTHON --output table.md

Every configuration trains on 2 cores: ventris as two MPI ranks of one thread, PyTorch as one process of two threads. The first steps
(primitive creation, compilation) are not counted. "of GEMM" is the arithmetic of the whole step (forward, backward, Adam; see
training_flops in model/flop_count.h) divided by the rate of a large square oneDNN product of that dtype on two cores in the same run. Memory
is the peak resident set, summed over ranks. Each round runs the whole list, torch.compile only in the first one, as it takes minutes to
start (it is measured after ten consecutive steps without compilation). The table has medians.

--after N measures where a run is after N updates.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import table

MARIAN = {"tiny": 4660, "base": 490}  # Marian 1.12.43, two workers, OpenBLAS, f32, Multi30k, on two such cores


def launcher():
    return ["mpirun", "-np", "2", "--bind-to", "core"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])


def trained(arguments, preset, precision, folder):
    """The run folder of the first --after updates."""
    run = os.path.join(folder, f"{preset}-{precision}")
    if not os.path.exists(run):
        _, reason = table.run([*launcher(), arguments.ventris, "train", "--corpus", arguments.corpus, "--model-dir", run, "--preset", preset,
                               "--precision", precision, "--batch-target-tokens", str(arguments.batch_tokens), "--batch-source-tokens",
                               str(arguments.batch_tokens), "--max-steps", str(arguments.after), "--valid-every", "0", "--save-every", "0",
                               "--log-every", "1"])
        if reason:
            raise table.Failed(reason)
    return run


def ventris(arguments, preset, precision, folder):
    run = trained(arguments, preset, precision, folder) if arguments.after else None
    found = table.train_ventris(launcher(), arguments.ventris, arguments.corpus, preset, precision, arguments.batch_tokens, arguments.seconds,
                                arguments.warmup_seconds, ["--log-every", "1"], run_folder=run)
    return {"rate": found["rate"], "memory": found["result"]["peak_memory_mib"], "gflops": found["flops"] / 1e9,
            "tokens_per_update": found["tokens_per_update"]}


def pytorch(python, arguments, preset, precision, compiled):
    options = ["--corpus", arguments.corpus, "--preset", preset, "--precision", precision, "--batch-tokens", arguments.batch_tokens,
               "--seconds", arguments.seconds, "--warmup-seconds", arguments.warmup_seconds] + (["--compile"] if compiled else [])
    found = table.run_json(table.peer_command(python, "peer_pytorch.py", options))
    return {"rate": found["target_tokens_per_second"], "memory": found["peak_memory_mib"], "version": found["version"],
            "tokens_per_update": found["tokens_per_update"]}


def gemm_rates(arguments):
    """GFLOP/s of a large square product on two cores: two processes of one thread at the same time."""
    rates = {}
    for precision in ("f32", "bf16"):
        pattern = f"^{precision}/base ff in/forward/500"
        command = [arguments.gemm_bench, f"--benchmark_filter={pattern}", "--benchmark_format=json",
                   "--benchmark_min_time=0.05"]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
        measured = [json.loads(p.communicate()[0])["benchmarks"][0] for p in running]
        skipped = any("large" not in one for one in measured)  # no such product for this processor
        rates[precision] = None if skipped else sum(one["large"] for one in measured)
        if skipped:
            print(f"large oneDNN GEMM {precision}: {measured[0].get('error_message', 'not measured')}", file=sys.stderr)
    return rates


def median_rate(gemm, precision):
    """None if it was not measured."""
    known = [rates[precision] for rates in gemm if rates[precision] is not None]
    return statistics.median(known) if known else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--gemm-bench", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--pytorch", required=True, help="python with the newest PyTorch and h5py")
    parser.add_argument("--old-pytorch", help="python with PyTorch 1.13 and h5py, the common reference")
    parser.add_argument("--presets", nargs="+", default=["tiny", "base"])
    parser.add_argument("--compile", action="store_true", help="also measure torch.compile, in the first round")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--warmup-seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--after", type=int, default=0, help="updates of ventris before it is measured, the same for all rounds")
    parser.add_argument("--output", help="file for the table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table.write(compare(arguments, folder), arguments.output)


def compare(arguments, folder):
    rows = []
    for preset in arguments.presets:
        runs = {}

        def add(name, precision, measure, *more):
            try:
                result = measure(*more)
                runs.setdefault((name, precision), []).append(result)
            except table.Failed as error:
                result = error
            print(f"{preset} {name} {precision}: {result}", file=sys.stderr)

        gemm = []
        for turn in range(arguments.rounds):
            gemm.append(gemm_rates(arguments))
            for precision in ("f32", "bf16"):
                add("ventris", precision, ventris, arguments, preset, precision, folder)
                add("PyTorch", precision, pytorch, arguments.pytorch, arguments, preset, precision, False)
                if arguments.compile and turn == 0:
                    add("PyTorch, torch.compile", precision,
                        pytorch, arguments.pytorch, arguments, preset, precision, True)
            if arguments.old_pytorch:
                add("PyTorch 1.13", "f32", pytorch, arguments.old_pytorch, arguments, preset, "f32", False)

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
                share = f"{median(key, 'gflops'):.0f} GFLOP/s"
                large = median_rate(gemm, precision)
                if large is not None:
                    share += f", {100 * median(key, 'gflops') / large:.0f} %"
            rows.append([preset, name, precision, f"{rate:,.0f}", f"{rate / best:.2f}", f"{rate / best_f32:.2f}", f"{rate / MARIAN[preset]:.2f}",
                         share, f"{median(key, 'memory'):,.0f}"])
        product = " / ".join("none" if rate is None else f"{rate:.0f}" for rate in (median_rate(gemm, p) for p in ("f32", "bf16")))
        rows.append([preset, "large oneDNN GEMM", "f32 / bf16", "", "", "", "", f"{product} GFLOP/s", ""])
    header = ["preset", "trainer", "precision", "target tokens/s", "of best PyTorch", "of best PyTorch f32", "of Marian f32",
              "model arithmetic, of GEMM", "peak MiB"]
    return table.markdown(header, rows)


if __name__ == "__main__":
    main()
