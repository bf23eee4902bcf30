# SPDX-License-Identifier: Apache-2.0
"""Which mutations a seed gives, and which tests could see them."""

import fnmatch
import pathlib
import random
import re

import mutation

FOLDERS = ("backend", "model", "data", "comm", "trainer", "launch")

# Not in the program that is tried (a CPU, MPI), or no code: the page of `ventris attention`.
LEFT_OUT = (
    *("backend/*cuda*", "comm/nccl/*", "comm/no_nccl/*", "comm/no_mpi/*"),
    *("backend/step_graph.cc", "backend/gemm_algorithms.cc", "backend/gemm_cache.cc"),
)  # fmt: skip

# Tests in the order in which they are tried: NAME_tests is the test program of a folder, anything else a test of ctest.
# A file gets those of its folder, then those of the first pattern of COMMAND_LINE that fits it.
FOLDER_TESTS = {
    "backend": ("backend_tests", "model_tests", "trainer_tests"),
    "model": ("model_tests", "trainer_tests"),
    "data": ("data_tests", "trainer_tests"),
    "comm": ("comm.one_process", "comm.2_ranks", "comm.4_ranks", "trainer_tests"),
    "trainer": ("trainer_tests", "comm.one_process", "comm.2_ranks"),
    "launch": ("launch_tests",),
}
COMMAND_LINE = (
    ("backend/*", ("cli.translation_test",)),
    ("model/attention*", ("cli.attention_test",)),
    ("model/*", ("cli.translation_test",)),
    ("data/scores/bleu*", ("cli.score_test", "cli.protocol_test")),
    ("data/text/unicode*", ("cli.score_test",)),
    ("data/scores/unspaced*", ("cli.unspaced_text_test",)),
    ("data/scores/chrf*", ("cli.score_test",)),
    ("data/scores/signif*", ("cli.score_test",)),
    ("data/scores/moses*", ("cli.protocol_test",)),
    ("data/demo_corpus/*", ("cli.training_test",)),
    ("data/files/*npz*", ("cli.exports_test",)),
    ("data/files/safetensors*", ("cli.exports_test",)),
    ("data/files/temporary*", ("cli.output_files_test", "cli.resume_test", "cli.power_loss_test")),
    ("data/files/atomic_folder*", ("cli.export_folders_test", "cli.exports_test", "cli.power_loss_test")),
    ("data/files/atomic*", ("cli.resume_test", "cli.exports_test", "cli.power_loss_test")),
    ("data/files/hdf5*", ("cli.resume_test", "cli.training_test")),
    ("data/files/folder*", ("cli.resume_test", "cli.no_locks_test", "cli.moved_folder_test")),
    ("data/batches*", ("cli.resume_test",)),
    ("data/permutation*", ("cli.resume_test",)),
    ("data/*", ("cli.prepare_test", "cli.translation_test")),
    ("comm/*", ("cli.reduction_test", "cli.late_ranks_test", "cli.killed_ranks_test")),
    ("trainer/files/export_limits*", ("cli.start_test", "cli.exports_test")),
    ("trainer/exchange/export*", ("cli.exports_test", "cli.export_folders_test", "cli.marian_test")),
    ("trainer/exchange/import*", ("cli.exports_test", "cli.marian_test")),
    ("trainer/exchange/marian*", ("cli.exports_test", "cli.marian_test")),
    ("trainer/files/model_arrays*", ("cli.exports_test",)),
    ("trainer/files/safetensors*", ("cli.exports_test",)),
    ("trainer/checks/doctor*", ("cli.doctor_test",)),
    ("trainer/files/probe*", ("cli.doctor_test",)),
    ("trainer/checks/training_plan*", ("cli.plan_test",)),
    ("trainer/replicas*", ("cli.replicas_test",)),
    ("trainer/files/parameter_digest*", ("cli.digest_test",)),
    ("trainer/inference/translation*", ("cli.translation_test",)),
    ("trainer/inference/alignment*", ("cli.translation_test",)),
    ("trainer/inference/scoring*", ("cli.translation_test", "cli.score_test")),
    ("trainer/files/average*", ("cli.training_test", "cli.moving_average_test")),
    ("trainer/resume*", ("cli.resume_test", "cli.resume_options_test")),
    ("trainer/signals*", ("cli.preemption_test", "cli.signals_test")),
    ("trainer/files/run_folder*", ("cli.run_folder_test", "cli.moved_folder_test", "cli.resume_test")),
    ("trainer/run_environment*", ("cli.environment_test",)),
    ("trainer/corpus_*", ("cli.changed_corpus_test",)),
    ("trainer/start_report*", ("cli.start_test", "cli.precision_test", "cli.unspaced_text_test")),
    ("trainer/precision*", ("cli.precision_test",)),
    ("trainer/progress*", ("cli.progress_test",)),
    ("trainer/live_line*", ("cli.progress_test",)),
    ("trainer/*", ("cli.training_test", "cli.resume_test", "cli.preemption_test", "cli.late_ranks_test")),
    ("launch/inspect*", ("cli.run_folder_test", "cli.exports_test", "cli.digest_test", "cli.options_test")),
    ("launch/foreign*", ("cli.options_test",)),
    ("launch/spelling*", ("cli.options_test",)),
    ("launch/want_of_memory*", ("cli.memory_limits_test",)),
    ("launch/doctor*", ("cli.doctor_test", "cli.options_test")),
    ("launch/plan*", ("cli.plan_test", "cli.options_test")),
    ("launch/prepare*", ("cli.prepare_test", "cli.options_test")),
    ("launch/*bleu*", ("cli.score_test", "cli.protocol_test", "cli.options_test")),
    ("launch/score_command*", ("cli.translation_test", "cli.options_test")),
    ("launch/score_*", ("cli.score_test", "cli.protocol_test", "cli.options_test")),
    ("launch/attention*", ("cli.attention_test", "cli.options_test")),
    ("launch/export*", ("cli.exports_test", "cli.options_test")),
    ("launch/import*", ("cli.exports_test", "cli.options_test")),
    ("launch/average*", ("cli.training_test", "cli.options_test")),
    ("launch/train*", ("cli.options_test", "cli.training_test", "cli.resume_test", "cli.resume_options_test")),
    ("launch/translate*", ("cli.translation_test", "cli.options_test")),
    ("launch/*", ("cli.options_test", "cli.training_test", "cli.translation_test", "cli.score_test")),
)  # fmt: skip


def fits(path, pattern):
    return fnmatch.fnmatchcase(path, pattern)


def tests_of(path):
    for pattern, tests in COMMAND_LINE:
        if fits(path, pattern):
            return FOLDER_TESTS[path.split("/")[0]] + tests
    raise ValueError(f"{path} is in none of the folders {', '.join(FOLDERS)}")


def near_tests(root, path, program):
    """The filter of a test program for the suites of the files that are named after a source or include its header; "" where
    there are none. What a change breaks is found there soonest; the other tests follow."""
    files = sorted((root / "tests" / program.removesuffix("_tests")).rglob("*_test.cc"))
    stem = path.removesuffix(".cc")
    while stem:
        suites = set()
        for file in files:
            text = file.read_text(encoding="utf-8")
            if f'#include "{stem}.h"' in text or file.stem == pathlib.PurePath(stem).name + "_test":
                suites.update(re.findall(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+)", text, re.MULTILINE))
        if suites:
            return ":".join(f"{name}.*:{name}/*:*/{name}.*" for name in sorted(suites))
        stem = stem.rpartition("_")[0]  # adam_cpu.cc belongs to adam.h
    return ""


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


def shares(sizes, count):
    """`count` in proportion to the sizes, rounded to the largest remainders."""
    total = sum(sizes.values())
    exact = {name: count * size / total for name, size in sizes.items()}
    given = {name: int(part) for name, part in exact.items()}
    for name in sorted(sizes, key=lambda name: (given[name] - exact[name], name))[: count - sum(given.values())]:
        given[name] += 1
    return given


class Plan:
    """Mutations by folder. A folder's share of the count is its share of the lines."""

    def __init__(self, root, folders, count, seed):
        self.queues, lines = {}, {}
        for folder in folders:
            found = {name: [] for name in mutation.OPERATORS}
            lines[folder] = 0
            for path in sources(root, folder):
                text = (root / path).read_text(encoding="utf-8")
                lines[folder] += text.count("\n")
                for name, places in mutation.Source(path, text).mutations().items():
                    found[name] += places
            self.queues[folder] = order(found, f"{seed} {folder}")
        self.shares = shares(lines, count)

    def turns(self):
        """The folder of each mutant, so that any first part of them is in proportion too."""
        places = [((turn + 0.5) / share, folder) for folder, share in self.shares.items() for turn in range(share)]
        return [folder for _, folder in sorted(places)]

    def next(self, folder):
        return next(self.queues[folder], None)
