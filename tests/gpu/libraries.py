# SPDX-License-Identifier: Apache-2.0
"""Finds the shared libraries of CUDA that the programs of the kit need, or open by name, where machines have them: in the folders of LD_LIBRARY_PATH, below
/usr/local/cuda*, where the dynamic linker looks, and in the Python packages of NVIDIA and PyTorch. Nothing is installed or copied."""
import glob
import os
import shutil
import subprocess

# Below a root of the CUDA toolkit.
TOOLKIT_FOLDERS = ("lib64", "lib", "targets/*/lib")
# Below a folder of Python packages. Those of CUDA 13 share a folder, those of CUDA 12 have one each.
PACKAGE_FOLDERS = ("nvidia/*/lib", "nvidia/*/*/lib", "torch/lib")
LIST_PACKAGES = "import site, sys; print('\\n'.join([*sys.path, *site.getsitepackages(), site.getusersitepackages()]))"


def printed(*command):
    """What a command prints, or nothing if it cannot be started or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def folders_of_packages(pythons):
    for python in pythons:
        for folder in printed(python, "-c", LIST_PACKAGES).splitlines():
            for pattern in PACKAGE_FOLDERS:
                yield from sorted(glob.glob(os.path.join(folder, pattern)))


def folders_of_toolkits():
    roots = sorted(glob.glob("/usr/local/cuda*"), reverse=True)
    compiler = shutil.which("nvcc")
    if compiler:
        roots.append(os.path.dirname(os.path.dirname(os.path.realpath(compiler))))
    for root in roots:
        for pattern in TOOLKIT_FOLDERS:
            yield from sorted(glob.glob(os.path.join(root, pattern)))


def linker_cache():
    """Folders of the libraries that the dynamic linker knows, and the line of each library."""
    program = shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin")
    lines = printed(program, "-p").splitlines() if program else []
    known = [line.split(" => ")[1].strip() for line in lines if " => " in line]
    return dict.fromkeys(os.path.dirname(path) for path in known)


class Search:
    """Folders with libraries, in the order in which they are looked through."""

    def __init__(self, pythons):
        given = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
        of_linker = linker_cache()
        self.known = {os.path.realpath(folder) for folder in (*given, *of_linker)}  # to the dynamic linker
        # By what a message calls them.
        self.places = {
            "LD_LIBRARY_PATH": given,
            "/usr/local/cuda*": list(dict.fromkeys(folders_of_toolkits())),
            "ldconfig -p": list(of_linker),
            f"Python packages of {' and '.join(pythons)}": list(dict.fromkeys(folders_of_packages(pythons))),
        }

    def find(self, name):
        """The path of the library of this file name, or None."""
        for folders in self.places.values():
            for folder in folders:
                path = os.path.join(folder, name)
                if os.path.exists(path):
                    return path
        return None

    def other_versions(self, name):
        """Paths of libraries of the same name and another version."""
        stem = name.split(".so")[0] + ".so*"
        found = [path for folders in self.places.values() for folder in folders for path in glob.glob(os.path.join(glob.escape(folder), stem))]
        return list(dict.fromkeys(found))

    def describe_places(self):
        """A line for each place."""
        return "".join(f"  {place}: {', '.join(folders) if folders else 'nothing there'}\n" for place, folders in self.places.items())


def find_all(needed, pythons):
    """Where the libraries are, by their file names (None: nowhere), the folders that the dynamic linker has yet to be told, and a report.
    `needed`: {file name: programs that need it}."""
    search = Search(list(dict.fromkeys(pythons)))
    found = {name: search.find(name) for name in needed}
    folders = dict.fromkeys(os.path.dirname(path) for path in found.values() if path)
    report = ""
    for name, path in found.items():
        if path:
            report += f"{name}: {path}\n"
            continue
        others = search.other_versions(name)
        report += f"{name}: not found; needed by {', '.join(needed[name])}\n"
        report += f"  other versions: {', '.join(others)}\n" if others else ""
    if None in found.values():
        report += "Looked in:\n" + search.describe_places()
    return found, [folder for folder in folders if os.path.realpath(folder) not in search.known], report
