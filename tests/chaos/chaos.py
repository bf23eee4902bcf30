# SPDX-License-Identifier: Apache-2.0
"""Faults in real training jobs, each of which must still give the bits of an undisturbed ("quiet") run.

    chaos.py --plan ci --seed 1 --log chaos.jsonl        all of a plan
    chaos.py --replay chaos.jsonl --only 3               repeats one of its runs

Exit code 0: all runs were equal and nothing remained; 1: a failure, see the output and the log.
"""

import argparse
import json
import os
import shutil
import signal
import sys

import mixed
import plans
from campaign import Campaign
from surroundings import Surroundings


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.environ.get("VENTRIS_BINARY"), help="the program")
    parser.add_argument("--mpiexec", default=os.environ.get("VENTRIS_MPIEXEC") or shutil.which("mpirun"))
    parser.add_argument("--plan", choices=sorted([*plans.COUNTS, "mixed"]), default="ci")
    parser.add_argument("--seed", type=int, default=1, help="selects the faults and their moments")
    parser.add_argument("--count", type=int, help="number of faults of each kind, in place of the plan's")
    parser.add_argument("--minutes", type=float, default=120, help="duration of mixed faults")
    parser.add_argument("--every", type=float, default=30, help="seconds between mixed faults, on average")
    parser.add_argument("--log", help="file for JSON lines of all events")
    parser.add_argument("--replay", help="such a file, whose plan, seed and count are used")
    parser.add_argument("--only", type=int, action="append", help="number of a run; the others are skipped")
    given = parser.parse_args()
    if given.replay:
        with open(given.replay, encoding="utf-8") as file:
            first = json.loads(file.readline())
        given.plan, given.seed, given.count = first["plan"], first["seed"], first["count"]
    if not given.binary or not given.mpiexec:
        parser.error("--binary and --mpiexec, or VENTRIS_BINARY and VENTRIS_MPIEXEC, are needed")
    given.binary = os.path.abspath(given.binary)
    return given


def summary(campaign, runs):
    text = ", ".join(f"{count} {name}" for name, count in sorted(campaign.counts.items()))
    seconds = campaign.recoveries
    result = {"runs": runs or 1, "faults": campaign.counts, "failures": len(campaign.failures)}
    if seconds:
        result["recovery_p50"], result["recovery_p95"] = (round(sorted(seconds)[int(share * len(seconds))], 2) for share in (0.5, 0.95))
    campaign.event("summary", **result)
    print(f"chaos: {runs or 1} runs with {text or 'no faults'}: {len(campaign.failures)} failed")
    if seconds:
        print(f"chaos: from a fault to the first step after it: p50 {result['recovery_p50']} s, "
              f"p95 {result['recovery_p95']} s of {len(seconds)}")  # fmt: skip


def main():
    given = arguments()
    # So that the campaign cleans up at any signal.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    planned = plans.runs(given.plan, given.seed, given.count) if given.plan != "mixed" else []
    if given.only:
        planned = [run for run in planned if run.number in given.only]
    with open(given.log or os.devnull, "w", encoding="utf-8") as log, Surroundings() as surroundings:
        campaign = Campaign(surroundings, given.binary, given.mpiexec, log)
        campaign.event("campaign", plan=given.plan, seed=given.seed, count=given.count,
                       version=campaign.output("--version").splitlines()[0])  # fmt: skip
        try:
            if planned:
                for run in planned:
                    campaign.go(run)
            else:
                campaign.go_guarded("mixed", 0, lambda: mixed.go(campaign, given.seed, given.minutes, given.every))
        except KeyboardInterrupt:
            print("chaos: interrupted", file=sys.stderr)
            campaign.event("interrupted")
            return 130
        summary(campaign, len(planned))
        for number, reason in campaign.failures:
            print(f"chaos: run {number} failed: {reason.splitlines()[0]}\n"
                  f"  again: chaos.py --plan {given.plan} --seed {given.seed}"
                  f"{f' --count {given.count}' if given.count else ''} --only {number}", file=sys.stderr)  # fmt: skip
        return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
