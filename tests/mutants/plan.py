# SPDX-License-Identifier: Apache-2.0
"""Which mutations a seed gives, and which tests could see them."""

import fnmatch
import pathlib
import random
import re

import mutation

CLI = pathlib.Path(__file__).resolve().parent.parent / "cli"
FOLDERS = ("backend", "model", "data", "comm", "trainer", "launch")

# Not in the program that is tried (a CPU, MPI), or no code: the page of `ventris attention`.
LEFT_OUT = (
    *("backend/cuda/*", "comm/nccl/*", "comm/no_nccl/*", "comm/no_mpi/*"),
    *("backend/device/step_graph.cc", "backend/cpu/gemm_onednn.cc"),
)  # fmt: skip

# Tests in the order in which they are tried: NAME_tests is the test program of a folder, anything else a test of ctest.
# Between the test programs and the tests of the command line come those that are named after a source.
FOLDER_TESTS = {
    "backend": ("backend_tests", "model_tests", "trainer_tests", "cli.translation_test"),
    "model": ("model_tests", "trainer_tests", "cli.translation_test"),
    "data": ("data_tests", "trainer_tests", "cli.prepare_test", "cli.score_test", "cli.exports_test", "cli.resume_test", "cli.power_loss_test"),
    "comm": ("comm.one_process", "comm.2_ranks", "comm.4_ranks", "trainer_tests", "cli.reduction_test", "cli.late_ranks_test"),
    "trainer": ("trainer_tests", "comm.one_process", "comm.2_ranks", "cli.training_test", "cli.resume_test", "cli.preemption_test",
                "cli.translation_test", "cli.exports_test"),
    "launch": ("launch_tests", "cli.options_test", "cli.training_test", "cli.translation_test", "cli.score_test"),
}  # fmt: skip


def fits(path, pattern):
    return fnmatch.fnmatchcase(path, pattern)


def words_of(name):
    """The words of a name, plurals without their s."""
    return {word.removesuffix("s") for word in re.split(r"[/_.]", name)}


def tests_of(path):
    of_folder = FOLDER_TESTS[path.split("/")[0]]
    named = [f"cli.{test.stem}" for test in sorted(CLI.glob("*_test.py")) if words_of(test.stem.removesuffix("_test")) <= words_of(path)]
    later = [test for test in of_folder if test.startswith("cli.") and test not in named]
    return (*(test for test in of_folder if not test.startswith("cli.")), *named, *later)


def sources(root, folder):
    """Paths, relative to the root, of the files of a folder that are changed. Headers are not: they are mostly contracts,
    and a change of one compiles half of the tree."""
    paths = sorted(path.relative_to(root).as_posix() for path in (root / folder).rglob("*.cc"))
    return [path for path in paths if not any(fits(path, pattern) for pattern in LEFT_OUT)]


def order(found, seed):
    """Mutations of one folder in the order in which they are tried: for each an operator by lot, then one of its places."""
    chance = random.Random(seed)
    waiting = {name: sorted(places, key=lambda _: chance.random()) for name, places in found.items() if places}
    while waiting:
        name = list(waiting)[int(chance.random() * len(waiting))]
        yield waiting[name].pop()
        if not waiting[name]:
            del waiting[name]


class Plan:
    """Mutations by folder, whose share of the count is its share of the lines."""

    def __init__(self, root, count, seed, folders=FOLDERS):
        self.queues, lines, self.count = {}, {}, count
        for folder in folders:
            found = {name: [] for name in mutation.OPERATORS}
            lines[folder] = 0
            for path in sources(root, folder):
                text = (root / path).read_text(encoding="utf-8")
                lines[folder] += text.count("\n")
                for name, places in mutation.mutations(path, text).items():
                    found[name] += places
            self.queues[folder] = order(found, f"{seed} {folder}")
        self.lines = lines

    def turns(self):
        """The folder of each mutant: the one that lags furthest behind its share, so that any first part is in proportion too."""
        given = dict.fromkeys(self.lines, 0)
        for _ in range(self.count):
            folder = min(given, key=lambda name: (given[name] + 0.5) / max(1, self.lines[name]))
            given[folder] += 1
            yield folder

    def next(self, folder):
        return next(self.queues[folder], None)
