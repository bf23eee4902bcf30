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


def below(roots, patterns):
    """The folders of these patterns below the roots, each once."""
    return list(dict.fromkeys(folder for root in roots for pattern in patterns for folder in sorted(glob.glob(os.path.join(root, pattern)))))


def places(pythons):
    """Folders with libraries in the order in which they are looked through, by what a message calls them."""
    compiler = shutil.which("nvcc")
    toolkits = sorted(glob.glob("/usr/local/cuda*"), reverse=True) + ([os.path.dirname(os.path.dirname(os.path.realpath(compiler)))] if compiler else [])
    linker = shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin")
    known = [line.split(" => ")[1].strip() for line in printed(linker, "-p").splitlines() if " => " in line] if linker else []
    return {
        "LD_LIBRARY_PATH": [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder],
        "/usr/local/cuda*": below(toolkits, TOOLKIT_FOLDERS),
        "ldconfig -p": list(dict.fromkeys(map(os.path.dirname, known))),
        f"Python packages of {' and '.join(pythons)}": below(
            [folder for python in pythons for folder in printed(python, "-c", LIST_PACKAGES).splitlines()], PACKAGE_FOLDERS),
    }


def find_all(needed, pythons):
    """Where the libraries are, by their file names (None: nowhere), the folders that the dynamic linker has yet to be told, and a report.
    `needed`: {file name: programs that need it}."""
    where = places(list(dict.fromkeys(pythons)))
    folders = [folder for some in where.values() for folder in some]
    found, report = {}, ""
    for name in needed:
        path = found[name] = next((path for path in (os.path.join(folder, name) for folder in folders) if os.path.exists(path)), None)
        if path:
            report += f"{name}: {path}\n"
            continue
        others = below(map(glob.escape, folders), [name.split(".so")[0] + ".so*"])
        report += f"{name}: not found; needed by {', '.join(needed[name])}\n" + (f"  other versions: {', '.join(others)}\n" if others else "")
    if None in found.values():
        report += "Looked in:\n" + "".join(f"  {place}: {', '.join(some) or 'nothing there'}\n" for place, some in where.items())
    known = {os.path.realpath(folder) for place in ("LD_LIBRARY_PATH", "ldconfig -p") for folder in where[place]}
    new = dict.fromkeys(os.path.dirname(path) for path in found.values() if path)
    return found, [folder for folder in new if os.path.realpath(folder) not in known], report
