# SPDX-License-Identifier: Apache-2.0
"""The environment of a campaign: its own folder and mounts, which are removed at its end, whatever its cause."""

import ctypes
import os
import resource
import shutil
import subprocess
import tempfile

CLONE_NEWNS = 0x00020000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
PR_SET_CHILD_SUBREAPER = 36

LIBC = ctypes.CDLL(None, use_errno=True)


def own_mounts():
    """Gives this process and its children their own mounts, which end with the last of them, even if this process is
    killed. False if not permitted."""
    if LIBC.unshare(CLONE_NEWNS) != 0:
        return False
    return LIBC.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None) == 0


class Surroundings:
    """The work folder, the memory folder for what MPI shares between ranks, and small disks. A context manager.

    Every process that the campaign starts has the folder's name in its environment as VENTRIS_CHAOS, by
    which remaining processes are found, whatever their parent.
    """

    def __init__(self):
        self.can_mount = own_mounts()
        # Children of a killed mpirun become children of this process, which can then wait for them.
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
        self.folder = tempfile.mkdtemp(prefix="ventris-chaos-")
        self.token = os.path.basename(self.folder)
        self.shared_memory = os.path.join(memory, self.token + "-memory")
        os.mkdir(self.shared_memory)
        self.mounts = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end_processes(self.processes())
        for folder in self.mounts:
            subprocess.run(["umount", "--lazy", folder], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.shared_memory, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def small_disk(self, folder, size):
        """Creates the folder and mounts an empty disk of `size` bytes on it. False if mounting is not permitted."""
        os.makedirs(folder)
        if not self.can_mount:
            return False
        words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder]
        if subprocess.run(words, check=False, stderr=subprocess.DEVNULL).returncode != 0:
            return False
        self.mounts.append(folder)
        return True

    def processes(self, run=""):
        """Ids of the campaign's processes (of one run), without zombies."""
        mark = f"VENTRIS_CHAOS={self.token}/{run}".encode()
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    marks = [word for word in file.read().split(b"\0") if word.startswith(mark)]
            except OSError:  # it has ended, or belongs to another user
                continue
            if marks and (not run or mark in marks):
                found.append(int(entry))
        return found

    @staticmethod
    def end_processes(processes):
        for process in processes:
            try:
                os.kill(process, 9)
            except ProcessLookupError:
                pass

    @staticmethod
    def reap(keep):
        """Reaps ended children that this process adopted, except `keep`, which others reap."""
        with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children", encoding="ascii") as children:
            for child in map(int, children.read().split()):
                if child not in keep:
                    try:
                        os.waitpid(child, os.WNOHANG)
                    except ChildProcessError:
                        pass
