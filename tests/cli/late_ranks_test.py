# SPDX-License-Identifier: Apache-2.0
"""--comm-timeout: a rank that is stopped ends the job, instead of letting the others wait for ever."""

import os
import signal
import subprocess
import time
import unittest

import support

MODEL = [
    *("--encoder-layers", "1", "--decoder-layers", "1", "--d-model", "16", "--d-ff", "32", "--heads", "2"),
    *("--batch-source-tokens", "192", "--batch-target-tokens", "192", "--logical-shards", "2"),
    *("--warmup-steps", "20", "--valid-every", "0", "--log-every", "1", "--threads", "1"),
    *("--max-steps", "1000000", "--save-every", "5"),
]


def is_running(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@unittest.skipUnless(support.MPIEXEC, "built without MPI")
class LateRanks(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=200, vocabulary=120)

    def command(self, name, *options, ranks, binary=support.BINARY):
        folders = ["--corpus", self.corpus, "--model-dir", self.path(name)]
        return support.command("train", *folders, *MODEL, *options, ranks=ranks, binary=binary)

    def start(self, name, *options, ranks, binary=support.BINARY, **variables):
        return support.start(self.command(name, *options, ranks=ranks, binary=binary), **variables)

    def checkpoints(self, name):
        folder = self.path(name)
        files = os.listdir(folder) if os.path.isdir(folder) else []
        return sorted(file for file in files if file.startswith("checkpoint-") and file.endswith(".h5"))

    def stop_ranks(self, name, process, ranks):
        """Stops these ranks when there is a checkpoint. Returns the process ids of all ranks."""
        if not support.wait_for(lambda: self.checkpoints(name), process, seconds=200):
            process.kill()
            self.fail(f"no checkpoint: {process.communicate()[1].decode(errors='replace')}")
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as children:
            processes = [int(child) for child in children.read().split()]
        for rank in ranks:
            os.kill(processes[rank], signal.SIGSTOP)
        return processes

    def test_of_a_sum_inside_and_between_hosts(self):
        for victim in (0, 3):
            with self.subTest(victim=victim):
                name = f"hosts{victim}"
                options = ["--comm-timeout", "3", "--reduction", "reproducible"]
                process = self.start(name, *options, ranks=4, binary=self.program_on_hosts("rank / 2"))
                processes = self.stop_ranks(name, process, [victim])
                text = self.check_end(name, process, processes)
                self.assertRegex(text, rf"for rank {victim} on \S+ \(pid {processes[victim]}, stopped\)")

    def check_end(self, name, process, processes=()):
        """The job ends with code 69, one message, no process and a sound checkpoint. Returns what it said."""
        try:
            _, text = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(process.communicate()[1].decode())
        text = text.decode()
        self.assertEqual(process.returncode, 69, text)
        self.assertEqual(text.count("ventris train: error: "), 1, text)
        self.assertIn("--comm-timeout", text)
        deadline = time.monotonic() + 20
        while any(map(is_running, processes)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(any(map(is_running, processes)), text)
        self.succeed("inspect", self.path(name, self.checkpoints(name)[-1]), "--verify")
        return text

    def test_the_ranks_that_wait_name_the_one_that_is_stopped(self):
        process = self.start("second", "--comm-timeout", 3, ranks=3)
        processes = self.stop_ranks("second", process, [1])
        text = self.check_end("second", process, processes)
        host = os.uname().nodename
        self.assertRegex(
            text,
            rf"\[rank 0 on {host}\] ventris train: error: rank 0 of 3 has waited 3(\.\d)? s in .+ "
            rf"at step \d+ for rank 1 on {host} \(pid {processes[1]}, stopped\), which did not arrive",
        )

    def test_another_rank_tells_of_the_first_one(self):
        process = self.start("first", "--comm-timeout", 3, ranks=2)
        text = self.check_end("first", process, self.stop_ranks("first", process, [0]))
        self.assertRegex(text, r"\[rank 1 on \S+\] ventris train: error: .* for rank 0 on \S+ \(pid \d+, stopped\), which did not arrive")

    def test_a_job_that_is_stopped_as_a_whole_goes_on(self):
        process = self.start("suspended", "--comm-timeout", 3, ranks=2)
        processes = self.stop_ranks("suspended", process, [0, 1])
        time.sleep(4)
        for rank in processes:
            os.kill(rank, signal.SIGCONT)
        time.sleep(2)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGUSR1)
        _, text = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, text)

    def start_with(self, name, first_words, *options, ranks):
        """Starts a job whose ranks run these words of a shell before they become the program."""
        words = self.command(name, *options, ranks=ranks)
        program = words.index(support.BINARY)
        shell = ["sh", "-c", f'{first_words}; exec "$@"', "sh"]
        return support.start([*words[:program], *shell, *words[program:]])

    def test_a_rank_that_never_starts_mpi_is_named(self):
        stop = 'if [ "$PMIX_RANK" = 1 ]; then kill -STOP $$; fi'
        process = self.start_with("absent", stop, "--comm-timeout", 2, ranks=3)
        _, text = process.communicate(timeout=100)
        text = text.decode(errors="replace")
        self.assertEqual(process.returncode, 69, text)
        self.assertRegex(
            text,
            r"\[rank [02] on \S+\] ventris: error: rank [02] \(pid \d+\) has waited 2 s in MPI_Init_thread for other ranks"
            r"; on this host rank 1 \(pid \d+\) is stopped",
        )
        self.assertEqual(text.count("ventris: error: "), 1, text)
        self.assertFalse(os.path.exists(self.path("absent")))

    def test_a_start_that_another_rank_broke_off_is_not_called_a_stop_on_request(self):
        # The last rank never comes to MPI and ends when the first has been waiting for it.
        end = 'if [ "$PMIX_RANK" = 1 ]; then sleep 2; kill -KILL $$; fi'
        process = self.start_with("broken", end, ranks=2)
        _, text = process.communicate(timeout=100)
        text = text.decode(errors="replace")
        self.assertEqual(process.returncode, 137, text)
        self.assertIn("ventris: stopped by SIGTERM before training began; the launcher sends it if another rank has ended", text)
        self.assertNotIn("on request", text)

    def test_a_stop_while_mpi_starts_leaves_nothing_behind(self):
        # The last rank takes no notice and never comes.
        hold = f'[ "$PMIX_RANK" = 0 ] || trap "" USR1; touch {self.path("held")}-$PMIX_RANK; [ "$PMIX_RANK" = 0 ] || sleep 600'
        process = self.start_with("early", hold, ranks=2)
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        ranks = []
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.05)
            if not all(os.path.exists(f"{self.path('held')}-{rank}") for rank in (0, 1)):
                continue
            with open(children, encoding="ascii") as file:
                ranks = [int(rank) for rank in file.read().split()]
            first = ranks[0]
            with open(f"/proc/{first}/task/{first}/comm", encoding="ascii") as file:
                threads = len(os.listdir(f"/proc/{first}/task"))
                if file.read().strip() == "ventris" and threads > 1:  # it handles signals and starts MPI
                    break
        process.send_signal(signal.SIGUSR1)
        try:
            _, text = process.communicate(timeout=200)
            self.assertEqual(process.returncode, 75, text)
        except subprocess.TimeoutExpired:
            # mpirun of Open MPI 4.1 sometimes deadlocks at its end, in PMIx_server_finalize; the ranks have ended all the same.
            self.assertFalse(any(map(is_running, ranks)))
            process.kill()
            _, text = process.communicate()
        text = text.decode(errors="replace")
        self.assertIn("ventris: stopped on request before training began", text)
        self.assertFalse(os.path.exists(self.path("early")))

    @unittest.skipUnless(support.EMULATED, "built without the emulated device")
    def test_a_sum_between_devices_that_does_not_end_is_given_up(self):
        # A step has three sums: of the loss, of the layers, of the embedding.
        options = ["--device", "cuda", "--precision", "f32", "--comm-timeout", 8]
        host = os.uname().nodename
        for name, victim, graph in (("device", 1, []), ("first-device", 0, []), ("plain", 1, ["--no-cuda-graph"])):
            variables = {"VENTRIS_EMULATED_DEVICES": 2, "VENTRIS_EMULATED_NCCL_HANG": f"{victim}:24"}
            process = self.start(name, *options, *graph, ranks=2, binary=support.EMULATED, **variables)
            text = self.check_end(name, process)
            other = 1 - victim
            self.assertRegex(text, rf"\[rank {other} on {host}\] ventris train: error: rank {other} of 2 has waited 8(\.\d)? s in "
                             r"the sum of gradients between the CUDA devices at step 8 "
                             rf"for rank {victim} on {host} \(pid \d+, stopped\), which did not arrive")  # fmt: skip


if __name__ == "__main__":
    unittest.main(verbosity=2)
