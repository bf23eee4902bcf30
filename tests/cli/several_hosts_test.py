"""ventris train on two hosts with a hostfile. The hosts are network namespaces of this machine, and a script
takes the place of ssh; everything else is as between machines: names, the launcher, TCP."""

import os
import signal
import subprocess
import time
import unittest

import hosts
import support

OPTIONS = [*support.TINY_MODEL, "--logical-shards", "2", "--dropout", "0.1"]
STEPS = 20


class SeveralHosts(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()
        cls.hosts = hosts.Hosts()
        cls.hostfile = os.path.join(cls.folder, "hostfile")
        with open(cls.hostfile, "w", encoding="utf-8") as file:
            file.writelines(f"{name} slots=1\n" for name in hosts.NAMES)

    def train(self, name, *options):
        """The words of a run in the folder `name`."""
        files = ["--corpus", self.corpus, "--model-dir", self.path(name)]
        return ["train", *files, *OPTIONS, *map(str, options)]

    def checkpoint(self, name, step):
        return self.path(name, f"checkpoint-{step:08d}.h5")

    def start(self, *jobs):
        """Starts mpirun on node1, with a rank on each host; `jobs` are the words of all ranks or of each."""
        mpirun = [
            support.MPIEXEC,
            "--allow-run-as-root",
            "--hostfile",
            self.hostfile,
            "--mca",
            "plm_rsh_agent",
            self.hosts.agent,
            "--bind-to",
            "none",
            "-x",
            "ASAN_OPTIONS=detect_leaks=0",
        ]
        if len(jobs) == 1:
            mpirun += ["-np", "2", support.BINARY, *jobs[0]]
        else:
            for number, (name, words) in enumerate(zip(hosts.NAMES, jobs)):
                mpirun += [":"] * (number > 0) + ["-np", "1", "--host", name, support.BINARY, *words]
        return subprocess.Popen(
            self.hosts.on("node1", *mpirun),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=support.environment(),
        )

    def end(self, process, code):
        """Waits for a job, expects its exit code, and returns its messages."""
        try:
            _, messages = process.communicate(timeout=120)
        finally:
            process.kill()
        messages = messages.decode(errors="replace")
        self.assertEqual(process.returncode, code, messages)
        return messages

    def test_two_hosts_give_the_bits_of_two_ranks_on_one(self):
        before = self.hosts.received_bytes("node2")
        self.end(self.start(self.train("two-hosts", "--max-steps", STEPS)), 0)
        received = self.hosts.received_bytes("node2") - before
        self.succeed(*self.train("one-host", "--max-steps", STEPS), ranks=2)
        one, two = (support.parameters(self.checkpoint(name, STEPS)) for name in ("one-host", "two-hosts"))
        self.assertEqual(one.keys(), two.keys())
        for name, values in one.items():
            self.assertEqual(values.tobytes(), two[name].tobytes(), name)
        # In every step a host gets the other's sums of all gradients, 4 bytes each.
        gradients = 4 * sum(values.size for values in one.values())
        self.assertGreater(received, STEPS * gradients)

    def test_a_difference_between_hosts_is_refused_and_named(self):
        words = [self.train("differ", "--max-steps", 2, "--seed", seed) for seed in (1, 2)]
        messages = self.end(self.start(*words), 76)
        self.assertIn("[rank 0 on node1] ventris train: error: the ranks disagree", messages)
        self.assertIn('option seed: rank 1 has "2"', messages)

    def test_a_file_that_one_host_does_not_see_is_refused_by_that_host(self):
        words = self.train("unseen", "--max-steps", 2)
        elsewhere = [self.path("unseen.h5") if word == self.corpus else word for word in words]
        messages = self.end(self.start(words, elsewhere), 66)
        self.assertRegex(messages, r"\[rank 1 on node2\] ventris train: error: .*unseen\.h5")

    def test_a_signal_to_mpirun_stops_all_hosts_with_a_checkpoint(self):
        process = self.start(self.train("stopped", "--max-steps", 1000000, "--save-every", 0))
        metrics = self.path("stopped", "metrics.jsonl")
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if os.path.exists(metrics) and os.path.getsize(metrics) > 0:
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGUSR1)
        self.end(process, 75)
        saved = [name for name in os.listdir(self.path("stopped")) if name.startswith("checkpoint-")]
        self.assertEqual(len(saved), 1)


if __name__ == "__main__":
    hosts.enter()
    unittest.main()
