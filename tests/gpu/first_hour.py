#!/usr/bin/env python3
"""Runs the stages of the kit; first_hour.sh unpacks the archive and calls it.

    python3 tests/gpu/first_hour.py --list
    python3 tests/gpu/first_hour.py --kit FOLDER --work FOLDER [--output FOLDER] [--budget SECONDS] [--trial] [STAGE...]

A stage that fails, or takes longer than its limit, does not end the others. The output folder has at most eight files, written after each
stage: summary.md, measured.json, logs.tar.gz, kernels.csv, kernel_details.csv. With the output folder of an earlier call its results stay
in the tables. Ends with 0 if all stages are ok, 77 if no CUDA device works, and 1 if a stage failed.
"""
import argparse
import collections
import json
import os
import sys
import tarfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bench"))

import checks  # noqa: E402
import kit as kits  # noqa: E402
import limits  # noqa: E402
import measure  # noqa: E402
import sizes  # noqa: E402
import table  # noqa: E402
import tables  # noqa: E402

Row = collections.namedtuple("Row", "name seconds run words")
LIMITS = limits.limits(sizes.Sizes())
# In the order in which they run: what a later one needs first, correctness before speed. Seconds are limits.
STAGES = [
    Row("libraries", LIMITS["libraries"], checks.check_libraries, "libraries of CUDA, versions, whether a device works"),
    Row("tests", LIMITS["tests"], checks.run_tests, "all operations and models against the CPU"),
    Row("selftest", LIMITS["selftest"], checks.run_selftest, "ventris selftest: kernels at the shapes of a preset"),
    Row("memcheck", LIMITS["memcheck"], checks.sanitize("memcheck", checks.OPERATIONS), "operations under compute-sanitizer"),
    Row("racecheck", LIMITS["racecheck"], checks.sanitize("racecheck", checks.ROWS), "attention and kernels of rows, likewise"),
    Row("initcheck", LIMITS["initcheck"], checks.sanitize("initcheck", checks.ROWS), "the same kernels, reads of memory that nothing wrote"),
    Row("program", LIMITS["program"], checks.compare_with_cpu, "training, validation, translation against the CPU"),
    Row("graph", LIMITS["graph"], checks.compare_graph, "digests with a graph and without"),
    Row("resume", LIMITS["resume"], checks.kill_and_resume, "digests of a run that is killed and resumed"),
    Row("steps", LIMITS["steps"], measure.measure_steps, "steps of base and big"),
    Row("profile", LIMITS["profile"], measure.measure_profile, "phases of a step of base"),
    Row("kernels", LIMITS["kernels"], measure.measure_kernels, "the costliest kernels under ncu"),
    Row("attention", LIMITS["attention"], measure.measure_attention, "attention against that of PyTorch"),
    Row("pytorch", LIMITS["pytorch"], measure.measure_pytorch(compiled=False), "steps of base and big in PyTorch, eager"),
    Row("compile", LIMITS["compile"], measure.measure_pytorch(compiled=True), "and with torch.compile"),
    Row("ranks", LIMITS["ranks"], checks.ranks_on_one_device, "NCCL, several ranks on one device"),
    Row("multi30k", LIMITS["multi30k"], checks.train_multi30k, "Multi30k to the score of the CPU"),
]
LEAST_SECONDS = 10.0  # that must be left for a stage to start


def describe_stages():
    lines = [f"{'stage':<12}{'limit, s':>8}  what", *(f"{row.name:<12}{row.seconds:>8}  {row.words}" for row in STAGES)]
    return "\n".join(lines)


def run_stage(kit, row, seconds, log):
    """The outcome of a stage, its words, and its seconds."""
    stage = kits.Stage(kit, row.name, seconds, log)
    table.observers.append(stage.observe)
    try:
        outcome, words = "ok", row.run(kit, stage)
    except (table.Failed, OSError, ValueError, KeyError, IndexError) as error:
        stage.note(traceback.format_exc())
        outcome, words = "failed", f"{error}" if isinstance(error, table.Failed) else f"{type(error).__name__}: {error}"
        reason = kit.without_device() if stage.says_no_device() else ""
        if reason:
            outcome, words = "no device", reason
    finally:
        table.observers.remove(stage.observe)
    return {"outcome": outcome, "words": words, "seconds": stage.seconds()}


def save(kit, logs):
    table.save(tables.summary(kit.measured), kit.result("summary.md"))
    table.save(json.dumps(kit.measured, indent=1), kit.result("measured.json"))
    with tarfile.open(kit.result("logs.tar.gz"), "w:gz") as archive:
        archive.add(logs, "logs")


def run_stages(kit, rows, budget):
    logs = os.path.join(kit.work, "logs")
    os.makedirs(logs, exist_ok=True)
    clock = kits.Stage(kit, "all", budget, None)
    outcomes = kit.measured.setdefault("stages", {})
    for row in rows:
        left = budget - clock.seconds()
        if left < LEAST_SECONDS:
            outcomes[row.name] = {"outcome": "no time", "words": f"{budget:.0f} s were over; name it in another call", "seconds": 0.0}
        else:
            with open(os.path.join(logs, row.name + ".log"), "w", encoding="utf-8") as log:
                outcomes[row.name] = run_stage(kit, row, min(row.seconds * kit.sizes.patience, left), log)
        stage = outcomes[row.name]
        print(f"{row.name:<12}{stage['outcome']:<10}{stage['seconds']:6.1f} s  {stage['words']}", flush=True)
        save(kit, logs)
    return [outcomes[row.name]["outcome"] for row in rows]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the stages and their limits")
    parser.add_argument("--kit", help="the unpacked archive")
    parser.add_argument("--work", help="folder for files of the stages")
    parser.add_argument("--output", default="gpu_results", help="folder for the results")
    parser.add_argument("--budget", type=float, default=570.0, help="seconds for all stages; those for which none are left are not started")
    parser.add_argument("--python", default=os.environ.get("PYTHON", "python3"), help="Python with PyTorch; default: variable PYTHON, or python3")
    parser.add_argument("--trial", action="store_true", help="tiny models and short measurements, to try the stages on emulated devices")
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="default: all")
    return parser.parse_args()


def main():
    arguments = options()
    if arguments.list:
        print(describe_stages())
        return 0
    unknown = [name for name in arguments.stages if name not in [row.name for row in STAGES]]
    if unknown or not arguments.kit or not arguments.work:
        what = f"no stage is named {unknown[0]}" if unknown else "--kit and --work are needed; first_hour.sh gives them"
        print(f"error: {what}\n{describe_stages()}", file=sys.stderr)
        return 64
    rows = [row for row in STAGES if not arguments.stages or row.name in arguments.stages]
    os.makedirs(arguments.output, exist_ok=True)
    kit = kits.Kit(arguments.kit, arguments.python, arguments.work, arguments.output, sizes.TRIAL if arguments.trial else sizes.Sizes())
    before = kit.result("measured.json")
    if os.path.exists(before):
        with open(before, encoding="utf-8") as file:
            kit.measured = json.load(file)
    kit.find_libraries()
    outcomes = run_stages(kit, rows, arguments.budget)
    print(f"\nResults: {os.path.join(arguments.output, 'summary.md')}")
    if all(outcome == "ok" for outcome in outcomes):
        return 0
    return 77 if all(outcome in ("ok", "no device") for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
