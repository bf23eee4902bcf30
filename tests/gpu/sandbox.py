# SPDX-License-Identifier: Apache-2.0
"""A root folder with no more than a machine has that lacks everything but a shell, Python and CUDA: for commands in mount and network
namespaces of their own, where nothing else of this machine can be seen."""
import glob
import os
import re
import shutil
import subprocess

C_LIBRARY = "/lib/x86_64-linux-gnu/lib{}.so.*"
C_LIBRARIES = ("c", "m", "dl", "rt", "pthread", "resolv", "util", "anl", "nss_*")
# Of every system; those of the archive and of CUDA come apart.
PROGRAMS = """sh bash env cat cp mkdir rm ls dirname basename readlink mktemp nproc head tail sort tr wc date uname sleep chmod ln mv touch id
true false tee stat cut seq find sed grep awk tar gzip hostname ldconfig""".split()
PYTHON = "/usr/bin/python3"
TRY = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]


def forbidden():
    """Why there can be no sandbox, or None."""
    if not shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin"):
        return "ip is not installed (iproute2)"
    try:
        result = subprocess.run([*TRY, "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True, text=True, timeout=30, check=False)
    except OSError as error:
        return str(error)
    return None if result.returncode == 0 else result.stderr.strip()


class Sandbox:
    """`folder` becomes the root. Files are bound, not copied."""

    def __init__(self, folder):
        self.folder = folder
        self.bound = {}  # path there: path here
        python = os.path.realpath(PYTHON)
        programs = [found for found in (shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin") for name in PROGRAMS) if found]
        for path in (*programs, python):
            self.bind("/usr/bin/" + os.path.basename(path), path)
        self.bind("/usr/bin/python3", python)
        version = os.path.basename(python)
        library = f"/usr/lib/{version}"
        self.bind(library, library)
        self.bind_libraries(*programs, python, *(os.path.join(library, "lib-dynload", name) for name in os.listdir(f"{library}/lib-dynload")))
        for name in C_LIBRARIES:
            for path in glob.glob(C_LIBRARY.format(name)):
                self.bind("/usr" + path, path)
        self.packages = f"/usr/local/lib/{version}/dist-packages"
        for name in ("/etc/passwd", "/etc/nsswitch.conf"):
            self.bind(name, name)

    def bind(self, there, here):
        self.bound[there] = os.path.realpath(here)

    def bind_libraries(self, *programs):
        """The shared libraries that the programs need."""
        told = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
        for path in set(re.findall(r"(/\S+) \(0x", told)):
            folder = "/lib64/" if "ld-linux" in path else "/usr/lib/x86_64-linux-gnu/"
            self.bind(folder + os.path.basename(path), path)

    def bind_package(self, name, here):
        """A package of Python with the libraries of its modules."""
        self.bind(f"{self.packages}/{name}", here)
        modules = [os.path.join(folder, file) for folder, _, files in os.walk(here) for file in files if ".so" in file]
        if modules:
            self.bind_libraries(*modules)

    def write(self, there, text, mode=0o644):
        """A file of the root."""
        path = self.folder + there
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def files(self):
        """The paths of all bound files, as they are there."""
        for there, here in self.bound.items():
            yield there
            if os.path.isdir(here):
                yield from (os.path.join(there, os.path.relpath(os.path.join(folder, name), here)) for folder, _, names in os.walk(here) for name in names)

    def run(self, *command, timeout=None, **variables):
        """Runs a command there, with these variables alone besides PATH and HOME."""
        for folder in ("proc", "dev/shm", "tmp", "root", "etc", "usr/lib", "usr/bin"):
            os.makedirs(os.path.join(self.folder, folder), exist_ok=True)
        for link, target in (("bin", "usr/bin"), ("sbin", "usr/bin"), ("lib", "usr/lib")):
            if not os.path.lexists(os.path.join(self.folder, link)):
                os.symlink(target, os.path.join(self.folder, link))
        lines = ["set -e", "mount --make-rprivate /"]
        devices = {f"/dev/{name}": f"/dev/{name}" for name in ("null", "zero", "urandom", "random")}
        for there, here in sorted({**self.bound, **devices}.items()):
            path = self.folder + there
            os.makedirs(path if os.path.isdir(here) else os.path.dirname(path), exist_ok=True)
            if not os.path.isdir(here):
                with open(path, "a", encoding="utf-8"):
                    pass
            lines.append(f"mount --bind '{here}' '{path}'")
        lines += [f"mount -t proc proc '{self.folder}/proc'", f"mount -t tmpfs none '{self.folder}/dev/shm'", "ip link set lo up",
                  f"cd / && exec chroot '{self.folder}' \"$@\""]
        variables = {"PATH": "/usr/bin", "HOME": "/root", **variables}
        words = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in variables.items()), *map(str, command)]
        return subprocess.run([*TRY, "sh", "-c", "\n".join(lines), "sandbox", *words], capture_output=True, text=True, timeout=timeout, check=False)
