# SPDX-License-Identifier: Apache-2.0
"""ventris train on two and four hosts with a hostfile. The hosts are network namespaces of this machine, and a
script takes the place of ssh; everything else is as between machines: names, the launcher, TCP."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

import hosts
import support

STEPS = 20
LIMIT = 3  # --comm-timeout where a fault is to be met
DEADLINE = 40  # of a job that a fault is to end


class SeveralHosts(support.RunTest):
    MODEL = [*support.TINY_MODEL, "--dropout", "0.1", "--logical-shards", 2]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.hosts = hosts.Hosts(4)

    def start(self, *jobs, count=2, backward=False):
        """Starts mpirun on node1, with a rank on each of `count` hosts, the last of them first where `backward`;
        `jobs` are the words of all ranks or of each."""
        names = self.hosts.names[:count]
        names = names[::-1] if backward else names
        hostfile = self.write("hostfile", "".join(f"{name} slots=1\n" for name in names))
        mpirun = [support.MPIEXEC, "--allow-run-as-root", "--hostfile", hostfile, "--mca", "plm_rsh_agent", self.hosts.agent]
        mpirun += ["--bind-to", "none", "-x", f"ASAN_OPTIONS={support.SANITIZER}"]
        if backward:
            mpirun += ["--map-by", "seq"]  # without it the host of mpirun is the first
        if len(jobs) == 1:
            mpirun += ["-np", str(count), support.BINARY, *map(str, jobs[0])]
        else:
            for number, (name, words) in enumerate(zip(names, jobs)):
                mpirun += [":"] * (number > 0) + ["-np", "1", "--host", name, support.BINARY, *map(str, words)]
        return subprocess.Popen(
            self.hosts.on("node1", *mpirun),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=support.environment(),
        )

    def end(self, process, code=None, timeout=600):
        """Waits for a job, expects its exit code, or any but 0, and returns its messages."""
        try:
            _, messages = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            for name in self.hosts.names:
                self.hosts.kill_host(name)
            self.fail(f"mpirun goes on for ever: {process.communicate()[1].decode(errors='replace')}")
        messages = messages.decode(errors="replace")
        if code is None:
            self.assertNotEqual(process.returncode, 0, messages)
        else:
            self.assertEqual(process.returncode, code, messages)
        return messages

    def start_for_a_fault(self, name):
        """A run that a fault is to end, after its first checkpoint."""
        process = self.start(self.train(name, max_steps=100000000, save_every=5, comm_timeout=LIMIT))
        self.wait_for(lambda: self.lines(name) and self.checkpoints(name), process)
        return process

    def check_resumes_equal(self, name):
        """The same command goes on from what a fault left, and comes to the bits of a quiet run."""
        found = self.checkpoints(name)[-1]
        last = int(re.search(r"\d+", found).group()) + 10
        messages = self.end(self.start(self.train(name, max_steps=last, save_every=0)), 0)
        self.assertIn(f"resuming from {self.path(name, found)}", messages)
        self.succeed(*self.train(f"quiet-{name}", max_steps=last, save_every=0), ranks=2)
        self.assert_same_parameters(name, f"quiet-{name}", last)

    def test_two_hosts_give_the_bits_of_two_ranks_on_one(self):
        before = self.hosts.received_bytes("node2")
        self.end(self.start(self.train("two-hosts", max_steps=STEPS)), 0)
        received = self.hosts.received_bytes("node2") - before
        self.succeed(*self.train("one-host", max_steps=STEPS), ranks=2)
        self.assert_same_parameters("one-host", "two-hosts", STEPS)
        # In every step a host gets the other's sums of all gradients, 4 bytes each.
        size = sum(values.size for values in support.parameters(self.checkpoint("one-host", STEPS)).values())
        self.assertGreater(received, STEPS * 4 * size)
        self.end(self.start(self.train("other-order", max_steps=STEPS), backward=True), 0)
        self.assertEqual(self.status("other-order")["host"], self.hosts.names[1])
        self.assert_same_parameters("one-host", "other-order", STEPS)

    def test_four_hosts_give_the_bits_of_four_ranks_on_one_and_a_signal_stops_all(self):
        options = {"max_steps": 1000000, "save_every": 0, "logical_shards": 4, "log_every": 1}
        process = self.start(self.train("four-hosts", **options), count=4)
        self.wait_for(lambda: self.lines("four-hosts"), process)
        process.send_signal(signal.SIGUSR1)
        self.end(process, 75)
        step = self.status("four-hosts")["step"]
        self.assertEqual(self.checkpoints("four-hosts"), [os.path.basename(self.checkpoint("four-hosts", step))])
        self.succeed(*self.train("one-of-four", **{**options, "max_steps": step}), ranks=4)
        self.assert_same_parameters("four-hosts", "one-of-four", step)

    def test_a_cut_link_ends_the_job_and_names_the_host(self):
        process = self.start_for_a_fault("cut")
        self.hosts.cut_link("node2")
        try:
            messages = self.end(process, timeout=DEADLINE)
        finally:
            self.hosts.join_link("node2")
        self.assertRegex(messages, "rank 1 on node2|node node2")
        self.check_nothing_runs_on("node1")
        self.hosts.kill_host("node2")
        self.check_resumes_equal("cut")

    def test_a_host_that_dies_ends_the_job_and_is_named(self):
        process = self.start_for_a_fault("dead")
        self.hosts.kill_host("node2")
        messages = self.end(process, timeout=DEADLINE)
        self.assertRegex(messages, "rank 1 on node2|node node2")
        self.check_nothing_runs_on("node1")
        self.check_resumes_equal("dead")


    def test_the_doctor_finds_two_hosts_fit(self):
        process = self.start(["doctor", "--device", "cpu", "--json"], ["doctor", "--device", "cpu", "--json"])
        out, messages = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, messages)
        report = json.loads(out)
        self.assertEqual([rank["host"] for rank in report["ranks"]], ["node1", "node2"])
        self.assertGreater(report["sum_bytes_per_second"], 0)

    def check_nothing_runs_on(self, name):
        deadline = time.monotonic() + 20
        while self.hosts.processes_of(name) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.hosts.processes_of(name), [])

    def test_a_difference_between_hosts_is_refused_and_named(self):
        words = [self.train("differ", max_steps=2, seed=seed) for seed in (1, 2)]
        messages = self.end(self.start(*words), 76)
        self.assertIn("[rank 0 on node1] ventris train: error: the ranks disagree", messages)
        self.assertIn('option seed: rank 1 has "2"', messages)

    def test_a_file_that_one_host_does_not_see_is_refused_by_that_host(self):
        words = self.train("unseen", max_steps=2)
        elsewhere = self.train("unseen", max_steps=2, corpus=self.path("unseen.h5"))
        messages = self.end(self.start(words, elsewhere), 66)
        self.assertRegex(messages, r"\[rank 1 on node2\] ventris train: error: .*unseen\.h5")


if __name__ == "__main__":
    hosts.enter()
    unittest.main()
