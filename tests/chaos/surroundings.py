"""Where a campaign works: a folder and mounts of its own, which go when it ends, in whatever way it ends."""

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

# Of the folders' names; the number of the process follows.
PREFIX = "ventris-chaos-"

LIBC = ctypes.CDLL(None, use_errno=True)


def own_mounts():
    """Gives this process and its children mounts of their own, which end with the last of them, even if this
    process is killed. False where that is not allowed."""
    if LIBC.unshare(CLONE_NEWNS) != 0:
        return False
    return LIBC.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None) == 0


class Surroundings:
    """The work folder, the memory folder for what MPI shares between ranks, and small disks. A context manager.

    Every process that the campaign starts carries the folder's name in its environment as VENTRIS_CHAOS, by
    which those that are left are found, whoever is their parent by then.
    """

    def __init__(self):
        self.can_mount = own_mounts()
        # What a killed mpirun leaves becomes a child of this process, which can then see its end.
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
        self.remove_old_folders(tempfile.gettempdir(), memory)
        self.folder = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")
        self.token = os.path.basename(self.folder)
        self.shared_memory = os.path.join(memory, self.token + "-memory")
        os.mkdir(self.shared_memory)
        self.mounts = []

    @staticmethod
    def remove_old_folders(*parents):
        """Removes what campaigns have left that were killed themselves."""
        for parent in parents:
            for name in os.listdir(parent):
                number = name.removeprefix(PREFIX).split("-")[0]
                if name.startswith(PREFIX) and number.isdigit() and not os.path.exists(f"/proc/{number}"):
                    shutil.rmtree(os.path.join(parent, name), ignore_errors=True)

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
        """Puts an empty disk of `size` bytes at the folder, which is made. False where mounting is not allowed."""
        os.makedirs(folder)
        if not self.can_mount:
            return False
        words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder]
        if subprocess.run(words, check=False, stderr=subprocess.DEVNULL).returncode != 0:
            return False
        self.mounts.append(folder)
        return True

    def processes(self, run=""):
        """Ids of the campaign's processes (of one run), those that have ended but were not waited for left out."""
        mark = f"VENTRIS_CHAOS={self.token}/{run}".encode()
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    marks = [word for word in file.read().split(b"\0") if word.startswith(mark)]
            except OSError:  # it has ended, or is another user's
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
        """Waits for children that have ended and were handed down to this process, but for `keep`, whom others
        wait for."""
        with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children", encoding="ascii") as children:
            for child in map(int, children.read().split()):
                if child not in keep:
                    try:
                        os.waitpid(child, os.WNOHANG)
                    except ChildProcessError:
                        pass
