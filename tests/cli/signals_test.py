# SPDX-License-Identifier: Apache-2.0
"""Signals at any moment, singly and in bursts: every run saves and goes on to the bits of one that was left alone, on any
instruction set. With VENTRIS_ALL_SIGNALS=2000 so many are sent (docs/reliability.md), else a few bursts."""

import os
import random
import signal
import time
import unittest

import support

# Steps of a few milliseconds, nearly all of them in kernels.
OPTIONS = [
    *("--preset", "tiny", "--encoder-layers", "2", "--decoder-layers", "2", "--batch-source-tokens", 256, "--batch-target-tokens", 256),
    *("--logical-shards", "2", "--dropout", "0.1", "--valid-every", "0", "--save-every", "0", "--log-every", "1000000"),
    *("--digest-every", "1", "--threads", 1),
]
ENDLESS = 1000000
STOPS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
# Of what a process catches: faults of its own, and what the C library keeps for itself.
SYNCHRONOUS = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP, 32, 33}
SEED = 1
ALL = int(os.environ.get("VENTRIS_ALL_SIGNALS", "0"))


def signals_of(mask):
    return {number for number in range(1, 65) if int(mask, 16) >> (number - 1) & 1}


def threads_of(process):
    """SigBlk and SigCgt of each thread, as sets of numbers."""
    found = []
    for thread in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{thread}/status", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        found.append((signals_of(lines["SigBlk"]), signals_of(lines["SigCgt"])))
    return found


class Signals(support.RunTest):
    MODEL = OPTIONS

    def start(self, name, ranks=1, isa="", **options):
        variables = {"DNNL_MAX_CPU_ISA": isa} if isa else {}
        process = support.start(support.command(*self.train(name, max_steps=ENDLESS, **options), ranks=ranks), **variables)
        before = self.started.get(name, "")
        self.wait_for(lambda: self.status(name)["started"] > before, process)
        self.started[name] = self.status(name)["started"]
        return process

    def setUp(self):
        self.started = {}

    def storm(self, name, ranks, isa, bursts, seed):
        """One start for each burst, which a signal, sent so many times, ends; each goes on from the one before."""
        rng = random.Random(seed)
        for number, burst in enumerate(bursts):
            process = self.start(name, ranks, isa)
            saved = self.status(name)["step"]
            if number % 4 != 0:  # else in the first step, too
                support.wait_for(lambda saved=saved: max(self.digests(name), default=0) > saved, process)
            time.sleep(rng.uniform(0.0, 0.4))
            # To one process; of several ranks to one of them, or through mpirun, which passes SIGUSR1 on, but may
            # be ended by one that comes when it has begun to end.
            # The second SIGINT would end the program without saving.
            kinds = STOPS if burst > 1 else (*STOPS, signal.SIGINT)
            sent = kinds[number % len(kinds)]
            target = process.pid
            if ranks > 1 and (sent != signal.SIGUSR1 or burst > 1):
                target = rng.choice(support.children_of(process.pid))
            for _ in range(burst):
                try:
                    os.kill(target, sent)
                except ProcessLookupError:  # a rank; this process's child stays until it is waited for
                    break
                time.sleep(rng.uniform(0.0, 0.0004))
            text = process.communicate(timeout=600)[1].decode(errors="replace")
            place = f"{name}, start {number}, {burst} times {sent.name}: {text[-3000:]}"
            self.assertEqual(process.returncode, 75, place)
            status = self.status(name)
            self.assertEqual(status["state"], "stopped", place)
            told = text.count("stopping after this step")
            self.assertTrue(told == 1 or (told == 0 and ranks > 1), place)  # by rank 0, if it came there
            self.assertEqual(status["last_checkpoint"], self.checkpoint(name, status["step"]))
        steps = self.status(name)["step"]
        variables = {"DNNL_MAX_CPU_ISA": isa} if isa else {}
        self.succeed(*self.train("quiet", max_steps=steps), ranks=ranks, variables=variables, timeout=3600)
        self.assertEqual(self.digests(name), self.digests("quiet"))
        self.assertEqual(len(self.digests(name)), steps)
        print(f"{name}: {sum(bursts)} signals in {len(bursts)} starts, {steps} steps", flush=True)

    def check(self, ranks, isa):
        bursts = [300, 1, 300]
        if ALL > 0:
            share = ALL // 2  # of 1 and 2 ranks
            bursts = [300] * (share // 500) + [20] * (share // 70)
            bursts += [1] * (share - sum(bursts))
            random.Random(SEED).shuffle(bursts)
        self.storm("stormy", ranks, isa, bursts, SEED)

    def tearDown(self):
        for name in ("stormy", "quiet"):
            support.shutil.rmtree(self.path(name), ignore_errors=True)

    def test_one_rank_with_the_widest_instruction_set(self):
        self.check(1, "")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_two_ranks_with_avx2(self):
        self.check(2, "AVX2")

    def check_threads(self, process):
        """No handler can run on a thread that computes."""
        threads = threads_of(process)
        self.assertGreater(len(threads), 2)
        asked = {*STOPS, signal.SIGINT}
        open_to_them = [blocked for blocked, _ in threads if not asked <= blocked]
        self.assertLessEqual(len(open_to_them), 1, open_to_them)  # the one that waits for them
        for _, caught in threads:
            self.assertEqual(caught - SYNCHRONOUS, set())

    def test_threads(self):
        for ranks in (1, 2) if support.MPIEXEC else (1,):
            process = self.start("stormy", ranks=ranks, threads=2)
            processes = support.children_of(process.pid) if ranks > 1 else [process.pid]
            self.assertEqual(len(processes), ranks)
            for rank in processes:
                self.check_threads(rank)
            process.send_signal(signal.SIGUSR1)
            self.end_of(process, 75)

    def test_the_second_interrupt_ends_the_program_at_once(self):
        process = self.start("stormy", batch_source_tokens=40000, batch_target_tokens=40000)
        process.send_signal(signal.SIGINT)
        said = b""
        while b"stopping after this step; again to quit without saving\n" not in said:
            piece = os.read(process.stderr.fileno(), 65536)
            self.assertNotEqual(piece, b"", said)
            said += piece
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)
        # Unless the step was at its end already.
        self.assertIn(process.returncode, (-signal.SIGINT, 75))


if __name__ == "__main__":
    unittest.main(verbosity=2)
