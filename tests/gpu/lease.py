#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the stages of the kit; lease.sh unpacks the archive and calls it.

    python3 tests/gpu/lease.py --list
    python3 tests/gpu/lease.py --kit FOLDER --work FOLDER [--output FOLDER] [--call A|B] [--budget SECONDS] [--trial] [STAGE...]

A stage that fails, or takes longer than its limit, does not end the others. The output folder has at most eight files, written after each
stage: summary.md, measured.json, logs.tar.gz, kernels_base.csv, kernels_big.csv. With the output folder of an earlier call its results stay.
Ends with 0 if all stages are ok, 77 if no CUDA device works, and 1 if a stage failed.
"""
import argparse
import collections
import json
import os
import shutil
import sys
import tarfile
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bench"))

import checks  # noqa: E402
import kit as kits  # noqa: E402
import measure  # noqa: E402
import sizes  # noqa: E402
import table  # noqa: E402
import tables  # noqa: E402

Row = collections.namedtuple("Row", "name call limit run words")
# In the order in which they run: what is worth most first. The limits in seconds fit into the budget of the call, so that each stage has its
# time whatever becomes of the others; measured.json has what a lease took.
BUDGETS = {"A": 380, "B": 275}
STAGES = [
    Row("card", "A", 12, measure.measure_card, "libraries of CUDA, copy of memory, a large product, the products of a step"),
    Row("tests", "A", 30, checks.run_tests, "all operations and models against the CPU"),
    Row("steps", "A", 50, measure.measure_steps, "steps of base and big, and of base without a graph"),
    Row("digests", "A", 30, checks.compare_digests, "digests with a graph and without, and of a run that is killed and resumed"),
    Row("ranks", "A", 65, checks.ranks_on_one_device, "NCCL, several ranks on one device; one that is killed, one that is stopped"),
    Row("kernels", "A", 75, measure.measure_kernels, "one step of base and of big under ncu"),
    Row("memcheck", "A", 65, checks.sanitize("memcheck", checks.OPERATIONS), "operations under compute-sanitizer"),
    Row("variants", "A", 50, measure.measure_variants, "the list of variants.txt, each against the present way"),
    Row("eager", "B", 50, measure.measure_eager, "steps of base and big in PyTorch, padded"),
    Row("packed", "B", 140, measure.measure_packed, "and without padding, as they are and compiled"),
    Row("racecheck", "B", 85, checks.sanitize("racecheck", checks.ROWS), "attention and kernels of rows at small shapes under compute-sanitizer"),
    Row("multi30k", "B", 120, checks.train_multi30k, "Multi30k to the score of the CPU, if there is time"),
]
OF_THE_REST = "multi30k"  # the stage that has all the time that is left, if that is its limit at least
LEAST_SECONDS = 5.0  # that must be left for another one to start
MEMORY_FOLDER, MEMORY_FOLDER_BYTES = "/dev/shm", 16 << 30  # for files of stages, if so much is free: checkpoints are large


def describe_stages():
    lines = [f"{'call':<6}{'stage':<12}{'limit, s':>10}  what"]
    for call, budget in BUDGETS.items():
        rows = [row for row in STAGES if row.call == call]
        lines += [f"{call:<6}{row.name:<12}{row.limit:>10}  {row.words}" for row in rows]
        lines.append(f"{call:<6}{'':<12}{sum(row.limit for row in rows if row.name != OF_THE_REST):>10}  of {budget} s"
                     + (f"; without {OF_THE_REST}" if call == STAGES[-1].call else ""))
    return "\n".join(lines)


def run_stage(kit, row, seconds, log):
    """The outcome of a stage, its words, and its seconds."""
    stage = kits.Stage(kit, row.name, seconds, log)
    table.observers.append(stage.observe)
    try:
        outcome, words = "ok", row.run(kit, stage)
    except Exception as error:  # whatever it is, the other stages run
        stage.note(traceback.format_exc())
        outcome, words = "failed", f"{error}" if isinstance(error, table.Failed) else f"{type(error).__name__}: {error}"
        reason = kit.without_device() if stage.says_no_device() else ""
        if reason:
            outcome, words = "no device", reason
    finally:
        table.observers.remove(stage.observe)
    return {"outcome": outcome, "words": words, "seconds": stage.seconds()}


def logs_of(kit):
    """The folder of logs, with those of earlier calls."""
    logs = os.path.join(kit.work, "logs")
    os.makedirs(logs, exist_ok=True)
    if os.path.exists(kit.result("logs.tar.gz")):
        with tarfile.open(kit.result("logs.tar.gz")) as archive:
            for member in archive:
                if member.isfile():
                    with open(os.path.join(logs, os.path.basename(member.name)), "wb") as file:
                        shutil.copyfileobj(archive.extractfile(member), file)
    return logs


def save(kit, logs):
    table.save(tables.summary(kit.measured), kit.result("summary.md"))
    table.save(json.dumps(kit.measured, indent=1), kit.result("measured.json"))
    with tarfile.open(kit.result("logs.tar.gz"), "w:gz") as archive:
        archive.add(logs, "logs")


def seconds_of(row, left, patience):
    """The time of a stage, or None if too little is left."""
    if row.name == OF_THE_REST:
        return left if left >= row.limit else None
    return min(row.limit * patience, left) if left >= LEAST_SECONDS else None


def run_stages(kit, rows, budget):
    logs = logs_of(kit)
    clock = kits.Stage(kit, "all", budget, None)
    outcomes = kit.measured.setdefault("stages", {})
    for row in rows:
        left = budget - clock.seconds()
        seconds = seconds_of(row, left, kit.sizes.patience)
        if seconds is None:
            outcomes[row.name] = {"outcome": "no time", "words": f"{left:.0f} of {budget:.0f} s were left; name it in another call", "seconds": 0.0}
        else:
            with open(os.path.join(logs, row.name + ".log"), "w", encoding="utf-8") as log:
                outcomes[row.name] = run_stage(kit, row, seconds, log)
        stage = outcomes[row.name]
        print(f"{row.name:<12}{stage['outcome']:<10}{stage['seconds']:6.1f} s  {stage['words']}", flush=True)
        save(kit, logs)
    return [outcomes[row.name]["outcome"] for row in rows]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the stages with their limits")
    parser.add_argument("--kit", help="the unpacked archive")
    parser.add_argument("--work", help="folder for files of the stages")
    parser.add_argument("--output", default="gpu_results", help="folder for the results")
    parser.add_argument("--call", choices=BUDGETS, help="its stages; default: all")
    parser.add_argument("--budget", type=float, help="seconds for all stages; those for which none are left are not started; default: those of the calls")
    parser.add_argument("--spent", type=float, default=0.0, help="seconds of the budget that are over")
    parser.add_argument("--python", default=os.environ.get("PYTHON", "python3"), help="Python with PyTorch; default: variable PYTHON, or python3")
    parser.add_argument("--trial", action="store_true", help="tiny models and short measurements, to try the stages on emulated devices")
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="default: those of the call")
    return parser.parse_args()


def main():
    arguments = options()
    if arguments.list:
        print(describe_stages())
        return 0
    unknown = [name for name in arguments.stages if name not in [row.name for row in STAGES]]
    if unknown or not arguments.kit or not arguments.work:
        what = f"no stage is named {unknown[0]}" if unknown else "--kit and --work are needed; lease.sh gives them"
        print(f"error: {what}\n{describe_stages()}", file=sys.stderr)
        return 64
    rows = [row for row in STAGES if row.call == (arguments.call or row.call) and row.name in (arguments.stages or [row.name])]
    budget = arguments.budget or sum(BUDGETS[call] for call in {row.call for row in rows})
    os.makedirs(arguments.output, exist_ok=True)
    in_memory = os.path.isdir(MEMORY_FOLDER) and shutil.disk_usage(MEMORY_FOLDER).free >= MEMORY_FOLDER_BYTES
    os.makedirs(arguments.work, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ventris-gpu-", dir=MEMORY_FOLDER if in_memory else arguments.work, ignore_cleanup_errors=True) as work:
        kit = kits.Kit(arguments.kit, arguments.python, work, arguments.output, sizes.TRIAL if arguments.trial else sizes.Sizes())
        before = kit.result("measured.json")
        if os.path.exists(before):
            with open(before, encoding="utf-8") as file:
                kit.measured = json.load(file)
        kit.find_libraries()
        outcomes = run_stages(kit, rows, budget - arguments.spent)
    print(f"\nResults: {os.path.join(arguments.output, 'summary.md')}")
    if all(outcome == "ok" for outcome in outcomes):
        return 0
    return 77 if all(outcome in ("ok", "no device") for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
