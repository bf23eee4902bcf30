#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planted faults: one operator, constant or call of the program is changed at a time, in a copy of the tree, and the tests
that could see it are run. What survives wants a test, or a reason in explained.json.

    python3 tests/mutants/mutants.py --count 100 --seed 1 --log mutants.jsonl
    python3 tests/mutants/mutants.py --count 20 --seed 2 --folders data trainer
    python3 tests/mutants/mutants.py --seed 1 --only data-17         one again, by its name in the log
    python3 tests/mutants/mutants.py --again mutants.jsonl           what survived, with the tests of now
    python3 tests/mutants/mutants.py --seed 1 --count 100 --list     prints them and does nothing

Exit code 0 if nothing survived but what is explained, 1 if something did, 2 if the campaign could not be done."""

import argparse
import collections
import itertools
import json
import pathlib
import sys
import time

import mutation
import plan
import tree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = ("killed", "time", "survived", "explained", "same code", "invalid")
TRIED = ("killed", "time", "survived", "explained")


def parse_arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="mutants that compile to something else than the program (20)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same mutants (1)")
    parser.add_argument("--folders", nargs="+", choices=plan.FOLDERS, default=plan.FOLDERS, help="where to change (all six)")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[], help="only these, such as data-17")
    parser.add_argument("--again", type=pathlib.Path, metavar="LOG", help="only what survived there")
    parser.add_argument("--list", action="store_true", help="print the first COUNT mutants and do nothing")
    parser.add_argument("--log", type=pathlib.Path, help="append a line of JSON for each mutant")
    parser.add_argument("--resume", action="store_true", help="go on with the campaign of the log")
    parser.add_argument("--copy", type=pathlib.Path, default=ROOT / "build" / "mutants", help="folder of the copy and its build")
    parser.add_argument("--jobs", type=int, default=1, help="compilers at once (1)")
    parser.add_argument("--cmake", nargs="*", default=[], metavar="OPTION", help="options for cmake, such as DVENTRIS_NATIVE=OFF")
    arguments = parser.parse_args(words)
    if arguments.resume and not arguments.log:
        parser.error("--resume needs --log")
    return arguments


def explanations():
    listed = json.loads((HERE / "explained.json").read_text(encoding="utf-8"))
    return {(item["file"], item["before"], item["after"]): item["reason"] for item in listed}


def entries(log):
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def find_again(log):
    """Mutations that survived, where the tree still has their lines."""
    wanted = {}
    for entry in entries(log):
        key = entry["file"], entry["before"], entry["after"]
        wanted.pop(key, None)
        if entry["result"] == "survived":
            wanted[key] = entry["name"]
    found = []
    for path in sorted({key[0] for key in wanted}):
        here = mutation.Source(path, (ROOT / path).read_text(encoding="utf-8")).mutations()
        for one in itertools.chain.from_iterable(here.values()):
            name = wanted.pop(one.key(), None)
            if name:
                found.append((name, one))
    for path, before, after in wanted:
        print(f"not in the tree any more: {path}: {before}  =>  {after}")
    return found


class Campaign:
    def __init__(self, arguments):
        self.arguments = arguments
        self.explained = explanations()
        self.counts = collections.Counter()
        self.survivors = []
        self.unchanged = {}  # whether a test passes without a change
        self.done = {}
        if arguments.resume:
            self.done = {(entry["name"], entry["file"], entry["before"], entry["after"]): entry["result"]
                         for entry in entries(arguments.log)}  # fmt: skip

    def prepare(self):
        self.tree = tree.Tree(ROOT, self.arguments.copy, self.arguments.cmake)
        if not self.tree.confined:
            say("without namespaces (no leave for unshare, or the copy is in /tmp): mutants may do what the campaign may")

    def passes_unchanged(self, test):
        """Looked at once, when it first ends a mutant: a test that fails anyway shows nothing. What it takes is the measure
        for the next ones."""
        if test not in self.unchanged:
            self.tree.build_unchanged([test], self.arguments.jobs)
            ended, seconds = self.tree.run_test(test)
            self.unchanged[test] = ended == "pass"
            if ended == "pass":
                say(f"{test} passes without a change, in {seconds:.0f} s")
                self.tree.set_limit(test, seconds)
            else:
                say(f"{test} fails without a change and is left out:\n{self.tree.last_output()}")
        return self.unchanged[test]

    def judge(self, one):
        """What became of it, and the test that ended it."""
        if one.key() in self.explained:
            return "explained", ""
        tests = [test for test in plan.tests_of(one.path) if self.unchanged.get(test, True)]
        while tests:
            result, test = self.try_tests(one, tests)
            if not test or self.passes_unchanged(test):
                return result, test
            tests = tests[tests.index(test) + 1 :]
        return "survived", ""

    def try_tests(self, one, tests):
        self.tree.build_unchanged([test for test in tests if not self.tree.is_built(test)], self.arguments.jobs)
        with self.tree.changed(one):
            for test in tests:
                if not self.tree.build(test, self.arguments.jobs):
                    return "invalid", ""
                if self.tree.same_code(one):
                    return "same code", ""
                near = plan.near_tests(ROOT, one.path, test) if test.endswith("_tests") else ""
                ended, _ = self.tree.run_test(test, near)
                if ended != "pass":
                    return {"fail": "killed", "time": "time"}[ended], test
        return "survived", ""

    def attempt(self, name, one):
        """Whether it counts: it compiled, to something else."""
        result = self.done.get((name, *one.key())) or self.judge_and_log(name, one)
        self.counts[one.path.split("/")[0], result] += 1
        self.counts[one.operator, result] += 1
        self.counts["all", result] += 1
        if result == "survived":
            self.survivors.append(f"{name} {one}")
        return result in TRIED

    def judge_and_log(self, name, one):
        began = time.monotonic()
        result, test = self.judge(one)
        say(f"{name} {result}{' by ' + test if test else ''}: {one}")
        if self.arguments.log:
            entry = {"name": name, "result": result, "test": test, "file": one.path, "line": one.line,
                     "operator": one.operator, "before": one.before, "after": one.after,
                     "seconds": round(time.monotonic() - began, 1)}  # fmt: skip
            with open(self.arguments.log, "a", encoding="utf-8") as log:
                log.write(json.dumps(entry) + "\n")
        return result

    def table(self):
        rows = ["all", *plan.FOLDERS, *mutation.OPERATORS]
        lines = [f"| {'':10} | {' | '.join(RESULTS)} |", "|---|" + "---|" * len(RESULTS)]
        for row in rows:
            counts = [self.counts[row, result] for result in RESULTS]
            if any(counts):
                cells = (f"{count:{len(result)}}" for count, result in zip(counts, RESULTS))
                lines.append(f"| {row:10} | {' | '.join(cells)} |")
        return "\n".join(lines)


def say(text):
    print(f"mutants: {text}", flush=True)


class Draw:
    """The next mutation of a folder, with a name."""

    def __init__(self, planned):
        self.planned = planned
        self.numbers = collections.Counter()

    def __call__(self, folder):
        one = self.planned.next(folder)
        self.numbers[folder] += 1
        return (f"{folder}-{self.numbers[folder]}", one) if one else None


def run(arguments, campaign):
    if arguments.again:
        for name, one in find_again(arguments.again):
            campaign.attempt(name, one)
        return
    planned = plan.Plan(ROOT, arguments.folders, arguments.count, arguments.seed)
    draw = Draw(planned)
    if arguments.only:
        for folder in {name.split("-")[0] for name in arguments.only}:
            last = max(int(name.split("-")[1]) for name in arguments.only if name.startswith(folder + "-"))
            for _ in range(last):
                drawn = draw(folder)
                if drawn and drawn[0] in arguments.only:
                    campaign.attempt(*drawn)
        return
    for folder in planned.turns():
        drawn = draw(folder)
        while drawn and not campaign.attempt(*drawn):
            drawn = draw(folder)


def main(words=None):
    arguments = parse_arguments(words)
    if arguments.list:
        planned = plan.Plan(ROOT, arguments.folders, arguments.count, arguments.seed)
        draw = Draw(planned)
        for folder in planned.turns():
            print("{} {}".format(*draw(folder)))
        return 0
    campaign = Campaign(arguments)
    try:
        campaign.prepare()
        run(arguments, campaign)
    except tree.Failure as failure:
        print(f"mutants: {failure}", file=sys.stderr)
        return 2
    print(campaign.table())
    for survivor in campaign.survivors:
        print(f"survived: {survivor}")
    return 1 if campaign.survivors else 0


if __name__ == "__main__":
    sys.exit(main())
