# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed, or stopped for longer than --comm-timeout, ends the job and is named, and no process of the job lives on."""

import os
import signal
import subprocess
import time
import unittest

import support

HOST = os.uname().nodename
FAULTS = os.environ.get("VENTRIS_FAULTS", "")


@unittest.skipUnless(support.MPIEXEC, "built without MPI")
class LateRanks(support.RunTest):
    MODEL = [*support.TINIEST_MODEL, "--max-steps", "1000000", "--save-every", "5"]
    CORPUS = {"train_pairs": 200, "vocabulary": 120}

    def start(self, name, ranks, binary=support.BINARY, variables=None, options=(), **settings):
        return support.start(support.command(*self.train(name, *options, **settings), ranks=ranks, binary=binary), **(variables or {}))

    def stop_ranks(self, name, process, ranks):
        """Stops these ranks when there is a checkpoint. Returns the process ids of all ranks."""
        self.wait_for(lambda: self.checkpoints(name), process, seconds=600)
        processes = support.children_of(process.pid)
        for rank in ranks:
            os.kill(processes[rank], signal.SIGSTOP)
        return processes

    def check_end(self, name, process, processes=()):
        """The job ends with code 69, one message, no process and a sound checkpoint. Returns what it said."""
        text = self.end_of(process, 69)
        self.assertEqual(text.count("ventris train: error: "), 1, text)
        self.assertIn("--comm-timeout", text)
        deadline = time.monotonic() + 200
        while any(map(support.is_running, processes)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(any(map(support.is_running, processes)), text)
        self.succeed("inspect", self.path(name, self.checkpoints(name)[-1]), "--verify")
        return text

    def test_of_a_sum_inside_and_between_hosts(self):
        process = self.start("hosts", 4, self.program_on_hosts("rank / 2"), comm_timeout=6, reduction="reproducible")
        processes = self.stop_ranks("hosts", process, [3])
        self.assertRegex(self.check_end("hosts", process, processes), rf"for rank 3 on \S+ \(pid {processes[3]}, stopped\)")

    def test_the_ranks_that_wait_name_the_one_that_is_stopped(self):
        process = self.start("second", 3, comm_timeout=6)
        processes = self.stop_ranks("second", process, [1])
        says = (rf"\[rank 0 on {HOST}\] ventris train: error: rank 0 of 3 has waited \d(\.\d)? s in .+ "
                rf"at step \d+ for rank 1 on {HOST} \(pid {processes[1]}, stopped\), which did not arrive")  # fmt: skip
        self.assertRegex(self.check_end("second", process, processes), says)

    def test_a_job_that_is_stopped_as_a_whole_goes_on(self):
        process = self.start("suspended", 2, comm_timeout=6)
        processes = self.stop_ranks("suspended", process, [0, 1])
        time.sleep(7)
        for rank in processes:
            os.kill(rank, signal.SIGCONT)
        time.sleep(2)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGUSR1)
        self.end_of(process, 75)

    def start_with(self, name, first_words, ranks, **settings):
        """Starts a job whose ranks run these words of a shell before they become the program."""
        words = support.command(*self.train(name, **settings), ranks=ranks)
        program = words.index(support.BINARY)
        return support.start([*words[:program], "sh", "-c", f'{first_words}; exec "$@"', "sh", *words[program:]])

    def test_a_rank_that_never_starts_mpi_is_named(self):
        process = self.start_with("absent", 'if [ "$PMIX_RANK" = 1 ]; then kill -STOP $$; fi', 3, comm_timeout=2)
        text = self.end_of(process, 69)
        self.assertRegex(text, r"\[rank [02] on \S+\] ventris: error: rank [02] \(pid \d+\) has waited 2 s in MPI_Init_thread for other ranks"
                               r"; on this host rank 1 \(pid \d+\) is stopped")  # fmt: skip
        self.assertFalse(os.path.exists(self.path("absent")))

    def test_a_stop_while_mpi_starts_leaves_nothing_behind(self):
        # The last rank takes no notice and never comes.
        held = [f"{self.path('held')}-{rank}" for rank in (0, 1)]
        hold = f'[ "$PMIX_RANK" = 0 ] || trap "" USR1; touch {self.path("held")}-$PMIX_RANK; [ "$PMIX_RANK" = 0 ] || sleep 600'
        process = self.start_with("early", hold, 2)

        def starts_mpi():
            """The first rank handles signals then."""
            if not all(map(os.path.exists, held)):
                return False
            first = support.children_of(process.pid)[0]
            with open(f"/proc/{first}/comm", encoding="ascii") as file:
                return file.read().strip() == "ventris" and len(os.listdir(f"/proc/{first}/task")) > 1

        self.wait_for(starts_mpi, process, seconds=600)
        ranks = support.children_of(process.pid)
        process.send_signal(signal.SIGUSR1)
        try:
            text = process.communicate(timeout=600)[1]
            self.assertEqual(process.returncode, 75, text)
        except subprocess.TimeoutExpired:
            # mpirun of Open MPI 4.1 sometimes deadlocks at its end, in PMIx_server_finalize; the ranks have ended all the same.
            self.assertFalse(any(map(support.is_running, ranks)))
            process.kill()
            text = process.communicate()[1]
        self.assertIn(b"ventris: stopped on request before training began", text)
        self.assertFalse(os.path.exists(self.path("early")))

    @unittest.skipUnless(support.EMULATED, "built without the emulated device")
    def test_a_sum_between_devices_that_does_not_end_is_given_up(self):
        # A step has three sums: of the loss, of the layers, of the embedding.
        variables = {"VENTRIS_EMULATED_DEVICES": 2, "VENTRIS_EMULATED_NCCL_HANG": "1:60"}
        process = self.start("device", 2, support.EMULATED, variables, device="cuda", precision="f32", comm_timeout=25)
        says = (rf"\[rank 0 on {HOST}\] ventris train: error: rank 0 of 2 has waited \d+(\.\d)? s in "
                rf"the sum of gradients between the CUDA devices at step 20 for rank 1 on {HOST} \(pid \d+, stopped\)")  # fmt: skip
        self.assertRegex(self.check_end("device", process), says)

    def start_to_kill(self, name, ranks, variables=None, **settings):
        shards = {"logical_shards": 4, "batch_source_tokens": 400, "batch_target_tokens": 400}
        words = support.command(*self.train(name, **shards, **settings), ranks=ranks, sanitizer=support.SANITIZER_OF_THE_KILLED)
        process = support.start(words, **(variables or {}))
        self.wait_for(lambda: self.status(name)["last_checkpoint"], process)
        processes = support.children_of(process.pid)
        self.assertEqual(len(processes), ranks)
        return process, processes

    def end_of_all(self, process, processes, code):
        """What the job said, once it has ended with all its processes."""
        text = self.end_of(process, code)
        deadline = time.monotonic() + 200
        while any(map(support.is_running, processes)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual([pid for pid in processes if support.is_running(pid)], [], text)
        return text

    def test_any_signal_to_any_rank(self):
        for ranks, victim, sent in ((2, 0, signal.SIGKILL), (2, 1, signal.SIGSEGV), (4, 0, signal.SIGBUS), (4, 2, signal.SIGKILL)):
            with self.subTest(ranks=ranks, victim=victim, signal=sent.name):
                name = f"{ranks}-{victim}-{sent.name}"
                process, processes = self.start_to_kill(name, ranks, max_steps=1000000, save_every=5)
                os.kill(processes[victim], sent)
                text = self.end_of_all(process, processes, 128 + sent)
                self.assertRegex(text, rf"process rank {victim} with PID \d+ on node {os.uname().nodename} exited on signal {int(sent)} ")
                status = self.status(name)
                self.assertEqual((status["state"], status["exit_code"]), ("running", None))
                self.succeed("inspect", status["last_checkpoint"], "--verify")

    @unittest.skipUnless(FAULTS, "built with a sanitizer, which wants to be the first library")
    def test_a_rank_that_hangs_in_mpi_finalize_is_not_waited_for_without_end(self):
        faults = {"LD_PRELOAD": FAULTS, "VENTRIS_FAULT_STOP_IN_FINALIZE": 1}
        process, processes = self.start_to_kill("last", 3, faults, max_steps=10, comm_timeout=8)
        text = self.end_of_all(process, processes, 69)
        self.assertRegex(text, r"\[rank [02] on \S+\] ventris: error: rank [02] \(pid \d+\) has waited 8 s in \S+ for other ranks"
                               rf"; on this host rank 1 \(pid {processes[1]}\) is stopped")  # fmt: skip
        self.assertEqual(self.status("last")["state"], "done")
        self.succeed("inspect", self.checkpoint("last", 10), "--verify")


if __name__ == "__main__":
    unittest.main(verbosity=2)
