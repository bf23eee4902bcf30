# SPDX-License-Identifier: Apache-2.0
"""Hosts of a test's own: network namespaces with host names, joined by cables and a switch.

A test file that uses them starts itself again in namespaces of its own (`enter`), so that nothing it does
reaches the network, the mounts or the processes of the machine, and all of it is gone when the test ends,
however it ends.
"""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import support

# ctest takes this exit code for a test that was skipped.
SKIPPED = 77
INSIDE = "VENTRIS_TEST_NAMESPACES"
UNSHARE = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
# What a host needs of the kernel, tried before the test counts on it.
PROBE = """
set -e
mount -t tmpfs none /dev/shm
ip link add switch type bridge
ip link add cable type veth peer name end
hostname probe
"""

# Connects to a port that nobody listens at.
KNOCK = """
import errno, socket, sys
with socket.socket() as knock:
    knock.settimeout(1)
    sys.exit(knock.connect_ex((sys.argv[1], 9)) != errno.ECONNREFUSED)
"""


def skip(reason):
    """Ends the test file as skipped."""
    print(f"{os.path.basename(sys.argv[0])} is skipped: {reason}")
    sys.exit(SKIPPED)


def enter(*commands):
    """Goes on in namespaces of this test alone, or skips the file where they or one of the commands lack."""
    if os.environ.get(INSIDE):
        # Files of the test go where nobody else sees them, and vanish with the mount.
        subprocess.run(["mount", "-t", "tmpfs", "none", "/dev/shm"], check=True)
        tempfile.tempdir = os.environ["TMPDIR"] = "/dev/shm"
        return
    if not support.MPIEXEC:
        skip("built without MPI")
    version = subprocess.run([support.BINARY, "--version"], capture_output=True, text=True, check=False)
    if "Open MPI" not in version.stdout:
        skip("built with another MPI than Open MPI")
    if os.geteuid() != 0:
        skip("only root can make network namespaces")
    missing = [name for name in ("ip", "unshare", "nsenter", *commands) if shutil.which(name) is None]
    if missing:
        skip(f"not installed: {' '.join(missing)}")
    probe = subprocess.run([*UNSHARE, "sh", "-c", PROBE], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        skip(f"namespaces cannot be made here: {probe.stderr.strip()}")
    # The shell is process 1 there and waits for the processes that lose their parent.
    again = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-B", *sys.argv]
    sys.stdout.flush()
    os.execvpe("unshare", [*UNSHARE, *again], {**os.environ, INSIDE: "1"})


class Hosts:
    """node1, node2, ..., reached by name, each with one network interface that leads to a switch."""

    def __init__(self, count=2):
        self.names = [f"node{number}" for number in range(1, count + 1)]
        # The names of the namespaces and the agent that takes ssh's place.
        self.folder = tempfile.mkdtemp(prefix="hosts-")
        table = os.path.join(self.folder, "table")
        with open(table, "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{self.address(name)} {name}\n" for name in self.names)
        self.call("mount", "--bind", table, "/etc/hosts")
        self.call("ip", "link", "set", "lo", "up")
        self.call("ip", "link", "add", "switch", "type", "bridge")
        self.call("ip", "link", "set", "switch", "up")
        for name in self.names:
            self.plug_in(name)
        self.agent = os.path.join(self.folder, "agent")
        kept = " ".join(f'{key}="${key}"' for key in ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR"))
        with open(self.agent, "w", encoding="utf-8") as file:
            # As with ssh, the other host sees nothing else of the environment.
            file.write("#!/bin/sh\nhost=$1\nshift\n")
            file.write(f'{self.inside("$host")} env -i {kept} sh -c "$*"\nstatus=$?\n')
            # Nor does it hear of the end of a host that dies.
            file.write("[ $status = 137 ] && exec sleep infinity\nexit $status\n")
        os.chmod(self.agent, 0o700)

    @staticmethod
    def call(*words):
        subprocess.run(words, check=True)

    def address(self, name):
        return f"10.77.0.{self.names.index(name) + 1}"

    def inside(self, name):
        return " ".join(self.on(name))

    def on(self, name, *words):
        """The words that start a command on a host."""
        return ["nsenter", f"--net={self.folder}/{name}.net", f"--uts={self.folder}/{name}.uts", *words]

    def plug_in(self, name):
        network, names = (os.path.join(self.folder, f"{name}.{kind}") for kind in ("net", "uts"))
        for path in (network, names):
            with open(path, "w", encoding="utf-8"):
                pass
        self.call("unshare", f"--net={network}", f"--uts={names}", "hostname", name)
        port = f"port-{name}"
        self.call("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", network)
        self.call("ip", "link", "set", port, "master", "switch", "up")
        self.call(*self.on(name, "ip", "address", "add", f"{self.address(name)}/24", "dev", "eth0"))
        for device in ("lo", "eth0"):
            self.call(*self.on(name, "ip", "link", "set", device, "up"))
        # A connection to a silent host ends after a second or two, not after a quarter of an hour.
        self.call(*self.on(name, "sh", "-c", "echo 3 > /proc/sys/net/ipv4/tcp_retries2"))

    def received_bytes(self, name):
        """What has come to a host over its cable."""
        out = subprocess.run(
            self.on(name, "ip", "-s", "-o", "link", "show", "eth0"),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        # "... RX: bytes packets errors ...\    1234 56 0 ..."
        return int(out.split("RX:")[1].split("\\")[1].split()[0])

    def cut_link(self, name):
        """Pulls the cable of a host."""
        self.call("ip", "link", "set", f"port-{name}", "down")

    def join_link(self, name):
        """Plugs it in again, and returns when all hosts reach each other: until then a connection may fail at once."""
        self.call("ip", "link", "set", f"port-{name}", "up")
        deadline = time.monotonic() + 60
        for one, other in itertools.permutations(self.names, 2):
            while name in (one, other) and not self.reaches(one, other):
                assert time.monotonic() < deadline, f"{one} does not reach {other}"
                time.sleep(0.1)

    def reaches(self, one, other):
        """Whether a host answers another, if only that nobody listens."""
        words = [sys.executable, "-c", KNOCK, self.address(other)]
        return subprocess.run(self.on(one, *words), check=False).returncode == 0

    def processes_of(self, name):
        """The ids of the processes that are on a host."""
        network = os.stat(os.path.join(self.folder, f"{name}.net")).st_ino
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if os.stat(f"/proc/{entry}/ns/net").st_ino == network:
                    found.append(int(entry))
        return found

    def kill_host(self, name):
        """Ends every process of a host, the launcher's daemon too."""
        deadline = time.monotonic() + 20
        while (alive := self.processes_of(name)) and time.monotonic() < deadline:
            for process in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.01)
