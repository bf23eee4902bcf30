# SPDX-License-Identifier: Apache-2.0
"""Every file call of a run fails, or ends a rank: what is left is one checkpoint at least, from which the run
goes on to the same parameters. VENTRIS_ALL_FAULTS=1 tries each call, not a sample; 0/4, 1/4, 2/4 and 3/4 a quarter each
of them."""

import errno
import os
import re
import shutil
import sys
import unittest

import h5py

import support

FAULTS = os.environ.get("VENTRIS_FAULTS", "")
ALL = os.environ.get("VENTRIS_ALL_FAULTS", "")
SHARD, SHARDS = map(int, ALL.split("/")) if "/" in ALL else (0, 1)
STEPS = 6
NAMED = {"NAMED_ONLY": 1}  # as where the file system has no files without names
OLD_STEPS = 4  # of the run that goes on and meets a call that fails


def rank_0(ranks):
    """The rank whose calls count, for the library of faults."""
    return 0 if ranks > 1 else ""


@unittest.skipUnless(FAULTS, "built with a sanitizer, which wants to be the first library")
class Faults(support.RunTest):
    MODEL = support.later_win(
        *(*support.TINY_MODEL, "--decoder-layers", 1, "--d-model", 16, "--d-ff", 16, "--valid-every", 4, "--valid-beam-size", 1),
        *("--valid-max-sentences", 2, "--save-every", 2, "--keep-checkpoints", 1, "--logical-shards", 2),
    )
    CORPUS = {"train_pairs": 100}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.expected = {}

    def start(self, name, ranks=1, variables=None, steps=STEPS):
        """Runs the training with faults and returns the result. Ranks that hang are reported by --comm-timeout before the limit
        here ends them."""
        return support.run(*self.train(name, max_steps=steps), ranks=ranks, timeout=600, variables=variables)

    def faults(self, name, part="", **settings):
        """The variables of the library: tests/faults/README.md. Calls count on files whose path in the run folder begins
        with `part`; those of one file can only be told where it has a name from the start."""
        named = {"VENTRIS_FAULT" + ("_" + key if key else ""): value for key, value in settings.items()}
        if part:
            named.update(VENTRIS_FAULT_NAMED_ONLY=1)
        return {"LD_PRELOAD": FAULTS, "VENTRIS_FAULT_PREFIX": self.path(name) + part, **named}

    def steps_of(self, name):
        """The steps of the checkpoints of a run."""
        return [int(file[11:19]) for file in self.checkpoints(name)]

    def digests(self, name):
        """The digests of the parameters of the checkpoints of a run, by step."""
        found = {}
        for step in self.steps_of(name):
            with h5py.File(self.checkpoint(name, step), "r") as file:
                found[step] = file.attrs["parameter_digest"].decode()
        return found

    def leftovers(self, name):
        return [file for file in os.listdir(self.path(name)) if ".tmp." in file or "damaged" in file]

    def quiet(self, ranks):
        """The digests of the undisturbed run, its best.json, and its file calls."""
        if ranks not in self.expected:
            name = f"quiet{ranks}"
            log = self.path(f"{name}.calls")
            result = self.start(name, ranks, self.faults(name, LOG=log))
            self.assertEqual(result.returncode, 0, result.stderr)
            calls = self.read(log).decode().splitlines()
            type(self).expected[ranks] = (self.digests(name), self.read(self.path(name, "best.json")), calls)
        return self.expected[ranks]

    def check_that_it_goes_on(self, name, ranks):
        """All checkpoints are whole, and another start ends as the undisturbed run did."""
        digests, best, _ = self.quiet(ranks)
        before = self.digests(name)
        for step, digest in before.items():
            self.assertEqual(digest, digests.get(step, digest))
        result = self.start(name, ranks)
        self.assertEqual(result.returncode, 0, result.stderr)
        message = result.stderr.decode()
        if before:
            newest = self.checkpoint(name, max(before))
            self.assertRegex(message, f"resuming from {newest}|nothing to do: {newest} has all {STEPS} steps")
        self.assertEqual(self.digests(name)[STEPS], digests[STEPS], message)
        self.assertEqual(self.read(self.path(name, "best.json")), best)
        self.assertFalse(self.leftovers(name))
        shutil.rmtree(self.path(name))

    def test_the_library_sees_the_calls_of_a_save(self):
        kinds = [call.split(" ", 1)[0] for call in self.quiet(1)[2]]
        for kind, least in (("open", 12), ("write", 40), ("fsync", 12), ("link", 6), ("rename", 4), ("unlink", 1)):
            self.assertGreaterEqual(kinds.count(kind), least, kinds)

    def sample(self, calls, step, kinds=("open", "write", "truncate", "fsync", "link", "rename", "unlink")):
        """Numbers of calls, from 1: all, or every Nth of those that begin or end a row of writes."""
        wanted = [i for i, call in enumerate(calls) if call.split(" ", 1)[0] in kinds]
        if ALL:
            wanted = [i for i in wanted if i % SHARDS == SHARD]
            print(f"{self._testMethodName}: {len(wanted)} of {len(calls)} calls", file=sys.stderr, flush=True)
        else:
            write = [call.startswith("write ") for call in [*calls, ""]]
            wanted = [i for i in wanted if not (write[i] and write[i - 1] and write[i + 1])][::step]
        return [i + 1 for i in wanted]

    def make_old(self, ranks):
        """The folder `old` of a run with two checkpoints, from which the last step, a third checkpoint and the removal of
        the first are left. The file best.json is missing, so that it is written, too."""
        self.start("old", ranks, steps=OLD_STEPS)
        self.addCleanup(shutil.rmtree, self.path("old"), ignore_errors=True)
        self.assertEqual(self.steps_of("old"), [2, OLD_STEPS])
        os.remove(self.path("old", "best.json"))

    def begin_with_old(self, name):
        shutil.rmtree(self.path(name), ignore_errors=True)
        shutil.copytree(self.path("old"), self.path(name))

    def calls_from_old(self, ranks, part="", **settings):
        """The file calls of a run that begins with `old`, on files whose path in its folder begins with `part`."""
        name = "quiet-old"
        log = self.path("old.calls")
        self.begin_with_old(name)
        result = self.start(name, ranks, self.faults(name, part, LOG=log, RANK=rank_0(ranks), **settings))
        self.assertEqual(result.returncode, 0, result.stderr)
        calls = self.read(log).decode().splitlines()
        os.remove(log)
        return calls

    def newest(self, calls, before):
        """The step of the newest checkpoint when these calls are done and that of step `before` was there."""
        steps = (re.fullmatch(r"(?:link|rename) .*/checkpoint-(\d+)\.h5", call) for call in calls)
        return max((int(step[1]) for step in steps if step), default=before)

    def sweep_kills(self, ranks, step, old_steps=0, mode=None, **settings):
        """Kills at calls of a run from its beginning, or of one that begins with `old`."""
        settings.update(mode or {})
        calls = self.calls_from_old(ranks, **mode or {}) if old_steps else self.quiet(ranks)[2]
        log = self.path("killed.calls")
        for number in self.sample(calls, step):
            name = f"killed{ranks}"
            shutil.rmtree(self.path(name), ignore_errors=True)  # of a subtest that failed
            if old_steps:
                self.begin_with_old(name)
            with open(log, "w", encoding="utf-8"):
                pass
            with self.subTest(call=number, of=calls[number - 1], **settings):
                result = self.start(name, ranks, self.faults(name, **{"": "kill"}, AT=number, LOG=log, **settings))
                # The threads that train and save take turns: what was done is what this run did, not the quiet one.
                made = self.read(log).decode().splitlines()
                saved = max(self.steps_of(name), default=0)
                before = self.newest(made[:-1], old_steps)
                self.assertGreaterEqual(len(made), number, result.stderr)
                if settings.get("VICTIM", 0) == 0:
                    self.assertEqual(result.returncode, 128 + 9 if ranks > 1 else -9, result.stderr)
                    self.assertEqual(len(made), number)
                    self.assertEqual(saved, before)
                else:  # rank 0 went on until the launcher ended it
                    self.assertIn(saved, (before, self.newest(made, old_steps)))
                self.check_that_it_goes_on(name, ranks)

    def test_killed_at_a_call_it_goes_on_from_the_old_or_the_new_checkpoint(self):
        self.sweep_kills(ranks=1, step=9)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_with_two_ranks_a_kill_of_the_rank_that_saves(self):
        self.make_old(2)
        self.sweep_kills(ranks=2, step=20, old_steps=OLD_STEPS, mode=NAMED, RANK=0, VICTIM=0, PIDS=self.path("pid"))

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_with_two_ranks_a_kill_of_the_other(self):
        self.make_old(2)
        self.sweep_kills(ranks=2, step=20, old_steps=OLD_STEPS, RANK=0, VICTIM=1, PIDS=self.path("pid"))

    def check_failure(self, result, call, error):
        """The exit code and the message of a run one of whose calls failed."""
        message = result.stderr.decode()
        kind, path = call.removesuffix(" (deleted)").split(" ", 1)
        name, temporary, _ = path.partition(".tmp.")
        self.assertIn(result.returncode, (73, 74) if kind == "open" else (74,), message)
        self.assertIn(os.strerror(error), message)
        if "/#" in path:  # without a name; any that it may get
            name, temporary = os.path.dirname(path) + "/", True
            self.assertRegex(message, f"error: {name}[^/ ]+: ")
        else:
            self.assertIn(f"{name}: " if os.path.isfile(name) or temporary else name, message)
        if temporary:
            self.assertRegex(message, r"The disk of .* has \d+ bytes free")
            # What may pass is worth another start; a disk that is read-only is not.
            self.assertEqual(result.returncode == 73, "cannot create a file" in message and error == errno.EROFS)
        if temporary and "cannot create a file" not in message:
            self.assertRegex(message, r"The file needs (at least )?\d+ bytes, of which \d+ are on the disk")

    def sweep_failures(self, ranks, step, part, faults, check, **settings):
        """Lets calls fail, on the files whose path in the run folder begins with `part`, in a run that begins with `old`."""
        self.make_old(ranks)
        old = self.read(self.checkpoint("old", OLD_STEPS))
        name = f"failing{ranks}"
        log = self.path("failing.calls")
        calls = self.calls_from_old(ranks, part, **settings)
        for what in faults:
            numbers = self.sample(calls, step, ("write",)) if "short" in what else self.sample(calls, step)
            for number in numbers:
                self.begin_with_old(name)
                with open(log, "w", encoding="utf-8"):
                    pass
                with self.subTest(call=number, of=calls[number - 1], error=what):
                    result = self.start(name, ranks, self.faults(
                        name, part, **{"": what}, AT=number, LOG=log, RANK=rank_0(ranks), **settings))  # fmt: skip
                    made = self.read(log).decode().splitlines()
                    self.assertGreaterEqual(len(made), number, result.stderr)
                    self.assertFalse(self.leftovers(name))
                    check(result, made, number, getattr(errno, what.removeprefix("short-")))
                    self.assertEqual(self.read(self.checkpoint(name, OLD_STEPS)), old)
                    self.check_that_it_goes_on(name, ranks)

    def sweep_failures_of_a_checkpoint(self, ranks, step):
        def check(result, made, number, error):
            if made[number - 1].startswith("open ") and ".tmp." not in made[number - 1]:  # reads what was written
                self.assertEqual(result.returncode, 74)
                self.assertRegex(result.stderr.decode(), f"cannot be read back with the digest .*: {os.strerror(error)}")
            else:
                self.check_failure(result, made[number - 1], error)

        part = f"/checkpoint-{STEPS:08}.h5"
        self.sweep_failures(ranks, step, part, ("ENOSPC", "EDQUOT", "EIO", "EROFS", "short-ENOSPC"), check)

    def sweep_failures_of_any_file(self, ranks, step, **settings):
        def check(result, made, number, error):
            path = made[number - 1].split(" ", 1)[1]
            # What is for people only: who uses the folder, and how the run ended. A file without a name may be that.
            for_people = "/.lock" in path or "/status.json" in path or "/#" in path or os.path.isdir(path)
            if result.returncode != 0 or not for_people:
                self.check_failure(result, made[number - 1], error)

        self.sweep_failures(ranks, step, "", ("ENOSPC", "EIO"), check, **settings)

    def test_a_call_of_a_save_that_fails_ends_the_run_and_keeps_the_old_checkpoint(self):
        self.sweep_failures_of_a_checkpoint(ranks=1, step=20)

    def test_a_call_on_any_file_of_the_run_that_fails(self):
        self.sweep_failures_of_any_file(ranks=1, step=20, **NAMED)

    def test_a_call_that_fails_where_files_have_no_names_yet(self):
        self.sweep_failures_of_any_file(ranks=1, step=24)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_with_two_ranks_a_call_that_fails(self):
        self.sweep_failures_of_a_checkpoint(ranks=2, step=80)


if __name__ == "__main__":
    unittest.main()
