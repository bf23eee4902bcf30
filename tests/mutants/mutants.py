#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planted faults: one operator, constant or call of the program is changed at a time, in a copy of the tree, and the tests
that could see it are run. What survives wants a test, or a reason in explained.json.

    python3 tests/mutants/mutants.py --count 100 --seed 1 --log mutants.jsonl
    python3 tests/mutants/mutants.py --again mutants.jsonl           what survived, with the tests of now

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
TRIED = ("killed", "time", "survived", "explained")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="mutants that compile to something else than the program (20)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same mutants (1)")
    parser.add_argument("--again", type=pathlib.Path, metavar="LOG", help="only what survived there")
    parser.add_argument("--log", type=pathlib.Path, help="append a line of JSON for each mutant")
    parser.add_argument("--copy", type=pathlib.Path, default=ROOT / "build" / "mutants", help="folder of the copy and its build")
    return parser.parse_args()


def explanations():
    listed = json.loads((HERE / "explained.json").read_text(encoding="utf-8"))
    return {(item["file"], item["before"], item["after"]): item["reason"] for item in listed}


def find_again(log):
    """Mutations that survived, where the tree still has their lines."""
    wanted = set()
    for entry in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
        change = wanted.add if entry["result"] == "survived" else wanted.discard
        change((entry["file"], entry["before"], entry["after"]))
    for path in sorted({key[0] for key in wanted}):
        here = mutation.mutations(path, (ROOT / path).read_text(encoding="utf-8"))
        for one in itertools.chain.from_iterable(here.values()):
            if one.key() in wanted:
                wanted.discard(one.key())
                yield one
    for path, before, after in wanted:
        say(f"not in the tree any more: {path}: {before}  =>  {after}")


class Campaign:
    def __init__(self, arguments):
        self.log = arguments.log
        self.explained = explanations()
        self.counts = collections.Counter()
        self.survivors = []
        self.unchanged = {}  # whether a test passes without a change
        self.tree = tree.Tree(ROOT, arguments.copy)
        if not self.tree.confined:
            say("without namespaces (no leave for unshare, or the copy is in /tmp): mutants may do what the campaign may")

    def passes_unchanged(self, test):
        """Looked at once, when it first ends a mutant: a test that fails anyway shows nothing. What it takes is the measure
        for the next ones."""
        if test not in self.unchanged:
            self.tree.build_unchanged([test])
            ended, seconds = self.tree.run_test(test)
            self.unchanged[test] = ended == "pass"
            if ended == "pass":
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
        self.tree.build_unchanged([test for test in tests if not self.tree.is_built(test)])
        with self.tree.changed(one):
            for test in tests:
                if not self.tree.build(test):
                    return "invalid", ""
                if self.tree.same_code(one):
                    return "same code", ""
                ended, _ = self.tree.run_test(test)
                if ended != "pass":
                    return {"fail": "killed", "time": "time"}[ended], test
        return "survived", ""

    def attempt(self, one):
        """Whether it counts: it compiled, to something else."""
        began = time.monotonic()
        result, test = self.judge(one)
        self.counts[result] += 1
        say(f"{result}{' by ' + test if test else ''}: {one}")
        if result == "survived":
            self.survivors.append(one)
        if self.log:
            entry = {"result": result, "test": test, "file": one.path, "line": one.line, "operator": one.operator,
                     "before": one.before, "after": one.after, "seconds": round(time.monotonic() - began, 1)}  # fmt: skip
            with open(self.log, "a", encoding="utf-8") as log:
                log.write(json.dumps(entry) + "\n")
        return result in TRIED


def say(text):
    print(f"mutants: {text}", flush=True)


def main():
    arguments = parse_arguments()
    try:
        campaign = Campaign(arguments)
        if arguments.again:
            for one in find_again(arguments.again):
                campaign.attempt(one)
        else:
            planned = plan.Plan(ROOT, arguments.count, arguments.seed)
            for folder in planned.turns():
                one = planned.next(folder)
                while one and not campaign.attempt(one):
                    one = planned.next(folder)
    except tree.Failure as failure:
        print(f"mutants: {failure}", file=sys.stderr)
        return 2
    say(", ".join(f"{count} {result}" for result, count in campaign.counts.most_common()))
    for survivor in campaign.survivors:
        print(f"survived: {survivor}")
    return 1 if campaign.survivors else 0


if __name__ == "__main__":
    sys.exit(main())
