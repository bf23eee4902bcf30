# SPDX-License-Identifier: Apache-2.0
"""ventris train on two and four hosts with a hostfile. The hosts are network namespaces of this machine, and a
script takes the place of ssh; everything else is as between machines: names, the launcher, TCP."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

import hosts
import support

OPTIONS = [*support.TINY_MODEL, "--dropout", "0.1"]
STEPS = 20
LIMIT = 3  # --comm-timeout where a fault is to be met
DEADLINE = 40  # of a job that a fault is to end

# A test file that is to be killed.
KILLED_HALF_WAY = """
import subprocess, sys, time
sys.path.insert(0, {folder!r})
import hosts
hosts.enter()
machine = hosts.Hosts()
subprocess.Popen(machine.on("node2", "sleep", "{seconds}"))
print("ready", flush=True)
time.sleep(600)
"""


def command_lines():
    """Of all processes."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                found.append(file.read())
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


class SeveralHosts(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()
        cls.hosts = hosts.Hosts(4)

    def train(self, name, *options, shards=2):
        """The words of a run in the folder `name`."""
        files = ["--corpus", self.corpus, "--model-dir", self.path(name), "--logical-shards", shards]
        return ["train", *map(str, files), *OPTIONS, *map(str, options)]

    def checkpoint(self, name, step):
        return self.path(name, f"checkpoint-{step:08d}.h5")

    def start(self, *jobs, count=2, backward=False):
        """Starts mpirun on node1, with a rank on each of `count` hosts, the last of them first where `backward`;
        `jobs` are the words of all ranks or of each."""
        names = self.hosts.names[:count]
        names = names[::-1] if backward else names
        hostfile = self.write("hostfile", "".join(f"{name} slots=1\n" for name in names))
        mpirun = [
            support.MPIEXEC,
            "--allow-run-as-root",
            "--hostfile",
            hostfile,
            "--mca",
            "plm_rsh_agent",
            self.hosts.agent,
            "--bind-to",
            "none",
            "-x",
            f"ASAN_OPTIONS={support.SANITIZER}",
        ]
        if backward:
            mpirun += ["--map-by", "seq"]  # without it the host of mpirun is the first
        if len(jobs) == 1:
            mpirun += ["-np", str(count), support.BINARY, *jobs[0]]
        else:
            for number, (name, words) in enumerate(zip(names, jobs)):
                mpirun += [":"] * (number > 0) + ["-np", "1", "--host", name, support.BINARY, *words]
        return subprocess.Popen(
            self.hosts.on("node1", *mpirun),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=support.environment(),
        )

    def end(self, process, code=None, timeout=120):
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

    def wait_for_steps(self, name, process):
        """Returns when the run has told of its first steps and has a checkpoint."""
        metrics = self.path(name, "metrics.jsonl")
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if os.path.exists(metrics) and os.path.getsize(metrics) > 0 and self.checkpoints(name):
                return
            time.sleep(0.02)
        self.fail(f"no steps: {process.communicate()[1].decode(errors='replace')}")

    def checkpoints(self, name):
        folder = self.path(name)
        files = os.listdir(folder) if os.path.isdir(folder) else []
        return sorted(file for file in files if re.fullmatch(r"checkpoint-\d+\.h5", file))

    def check_equal(self, one, other):
        """The parameters of two files are the same bits. Returns how many there are."""
        first, second = support.parameters(one), support.parameters(other)
        self.assertEqual(first.keys(), second.keys())
        for name, values in first.items():
            self.assertEqual(values.tobytes(), second[name].tobytes(), name)
        return sum(values.size for values in first.values())

    def check_resumes_equal(self, name):
        """The same command goes on from what a fault left, and comes to the bits of a quiet run."""
        found = self.checkpoints(name)[-1]
        last = int(re.search(r"\d+", found).group()) + 10
        options = ["--max-steps", last, "--save-every", 0]
        messages = self.end(self.start(self.train(name, *options)), 0)
        self.assertIn(f"resuming from {self.path(name, found)}", messages)
        quiet = f"quiet-{name}"
        self.succeed(*self.train(quiet, *options), ranks=2)
        self.check_equal(self.checkpoint(name, last), self.checkpoint(quiet, last))

    def start_for_a_fault(self, name):
        """A run that a fault is to end, after its first checkpoint."""
        options = ["--max-steps", 100000000, "--save-every", 5, "--comm-timeout", LIMIT]
        process = self.start(self.train(name, *options))
        self.wait_for_steps(name, process)
        return process

    def test_two_hosts_give_the_bits_of_two_ranks_on_one(self):
        before = self.hosts.received_bytes("node2")
        self.end(self.start(self.train("two-hosts", "--max-steps", STEPS)), 0)
        received = self.hosts.received_bytes("node2") - before
        self.succeed(*self.train("one-host", "--max-steps", STEPS), ranks=2)
        size = self.check_equal(*(self.checkpoint(name, STEPS) for name in ("one-host", "two-hosts")))
        # In every step a host gets the other's sums of all gradients, 4 bytes each.
        self.assertGreater(received, STEPS * 4 * size)
        self.end(self.start(self.train("other-order", "--max-steps", STEPS), backward=True), 0)
        with open(self.path("other-order", "status.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["host"], self.hosts.names[1])
        self.check_equal(*(self.checkpoint(name, STEPS) for name in ("one-host", "other-order")))

    def test_four_hosts_give_the_bits_of_four_ranks_on_one(self):
        options = ["--max-steps", 5]
        self.end(self.start(self.train("four-hosts", *options, shards=4), count=4), 0)
        self.succeed(*self.train("one-of-four", *options, shards=4), ranks=4)
        self.check_equal(*(self.checkpoint(name, 5) for name in ("one-of-four", "four-hosts")))

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

    def test_lost_and_late_packets_change_nothing(self):
        options = ["--max-steps", 2]
        with self.hosts.bad_line("node2", loss=0.05, delay=0.02) as packets:
            self.end(self.start(self.train("bad-line", *options)), 0)
        self.succeed(*self.train("good-line", *options), ranks=2)
        self.check_equal(*(self.checkpoint(name, 2) for name in ("bad-line", "good-line")))
        self.assertGreater(packets["carried"], packets["lost"])
        self.assertGreater(packets["lost"], 0)

    def test_the_doctor_finds_two_hosts_fit(self):
        process = self.start(["doctor", "--device", "cpu", "--json"], ["doctor", "--device", "cpu", "--json"])
        out, messages = process.communicate(timeout=120)
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
        self.assertEqual(len(self.checkpoints("stopped")), 1)

    def test_a_test_that_is_killed_half_way_leaves_nothing(self):
        seconds = f"86400.{os.getpid()}"
        script = self.write(
            "half_way.py", KILLED_HALF_WAY.format(folder=os.path.dirname(hosts.__file__), seconds=seconds)
        )
        environment = {key: value for key, value in os.environ.items() if key != hosts.INSIDE}

        def runs():
            return any(seconds.encode() in line for line in command_lines())

        links, mounts = ("/sys/class/net", "/proc/mounts")
        before = os.listdir(links), self.read(mounts)
        with subprocess.Popen(
            [sys.executable, "-B", script], stdout=subprocess.PIPE, env=environment
        ) as process:
            self.assertEqual(process.stdout.readline(), b"ready\n")
            # For a moment, while it becomes another program, a process has no command line.
            self.assertTrue(support.wait_for(runs, process))
            process.kill()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and runs():
            time.sleep(0.02)
        self.assertFalse(runs())
        self.assertEqual((os.listdir(links), self.read(mounts)), before)


if __name__ == "__main__":
    hosts.enter()
    unittest.main()
