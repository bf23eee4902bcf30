# SPDX-License-Identifier: Apache-2.0
"""A Slurm of a test's own on the two hosts of hosts.py: its key, its folders and its daemons."""

import os
import secrets
import subprocess
import time

import support

COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel")
CONFIGURATION = """
ClusterName=test
SlurmctldHost=node1
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
KillWait=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=node1,node2 CPUs=2 Gres=gpu:1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """Starts the daemons; stop() ends them, and so does the end of the namespaces."""

    def __init__(self, machine, folder):
        """`machine` is a hosts.Hosts; `folder` is a new one."""
        self.machine = machine
        self.folder = folder
        self.daemons = []
        os.makedirs(os.path.join(folder, "state"), mode=0o700)
        self.configuration = os.path.join(folder, "slurm.conf")
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(folder=folder))
        # Slurm counts files of devices; programs of the tests have emulated ones.
        with open(os.path.join(folder, "gres.conf"), "w", encoding="utf-8") as file:
            file.write("NodeName=node1,node2 Name=gpu File=/dev/null\n")
        key = os.path.join(folder, "munge.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o400), "wb") as file:
            file.write(secrets.token_bytes(1024))
        files = {"socket": "socket", "log-file": "log", "pid-file": "pid", "seed-file": "seed"}
        options = (f"--{option}={folder}/munge.{name}" for option, name in files.items())
        self.start("node1", "munged", "--foreground", "--force", f"--key-file={key}", *options)
        self.wait(lambda: os.path.exists(f"{folder}/munge.socket"), "munged")
        self.start("node1", "slurmctld", "-D")
        for name in machine.names:
            for kind in ("spool", "tmp"):
                os.mkdir(os.path.join(folder, f"{kind}-{name}"))
            self.start(name, "slurmd", "-D", "-N", name)
        self.wait(lambda: self.call("sinfo", "-h", "-o", "%D %T").strip() == "2 idle", "slurmd")

    def environment(self):
        return {
            **support.environment(),
            "SLURM_CONF": self.configuration,
            "ASAN_OPTIONS": support.SANITIZER_OF_THE_KILLED,
            "PATH": f"{os.path.dirname(support.BINARY)}:{os.environ['PATH']}",
        }

    def start(self, name, *words):
        with open(os.path.join(self.folder, f"{words[0]}-{name}.out"), "wb") as out:
            daemon = self.machine.on(name, *words)
            self.daemons.append(subprocess.Popen(daemon, env=self.environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.kill()
            daemon.wait()

    def call(self, *words):
        """Runs a command of Slurm on node1 and returns its output, empty where it failed."""
        return subprocess.run(self.machine.on("node1", *words), env=self.environment(), capture_output=True, text=True, check=False).stdout

    def wait(self, condition, what, seconds=600):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come in {seconds} seconds\n{self.messages()}")
            time.sleep(0.1)

    def messages(self):
        """The ends of all logs."""
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith((".log", ".out")):
                with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                    text += f"== {name}\n{file.read()[-2000:]}\n"
        return text

    def submit(self, *words):
        """sbatch; returns the number of the job."""
        number = self.call("sbatch", "--parsable", *words).strip()
        assert number.isdigit(), self.messages()
        return number

    def job(self, number):
        """What scontrol says of a job, by key."""
        words = self.call("scontrol", "--oneliner", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)
