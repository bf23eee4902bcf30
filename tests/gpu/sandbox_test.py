# SPDX-License-Identifier: Apache-2.0
"""The kit, packed, unpacked and run where the source tree, the network, h5py and the libraries that it packs are hidden: without a device every stage
of both calls starts and ends as "no device"; with emulated devices in the place of real ones the stages run through and fill the tables.

    VENTRIS_BINARY=... VENTRIS_CUDA_PROGRAMS=VENTRIS:TESTS:BENCH VENTRIS_EMULATED_PROGRAMS=VENTRIS:TESTS:BENCH \\
        python3 tests/gpu/sandbox_test.py [--full]

Without VENTRIS_CUDA_PROGRAMS only the second is tried. --full also runs the stages that compare with PyTorch, of the Python that
VENTRIS_PEER_PYTHON names, on the CPU.
"""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "bench"))

import lease  # noqa: E402

VENTRIS = os.environ["VENTRIS_BINARY"]
CUDA, EMULATED = (os.environ.get(name, "").split(":") for name in ("VENTRIS_CUDA_PROGRAMS", "VENTRIS_EMULATED_PROGRAMS"))
PEER_PYTHON = os.environ.get("VENTRIS_PEER_PYTHON", "")
FULL = "--full" in sys.argv
STAGES = {call: [row.name for row in lease.STAGES if row.call == call] for call in "AB"}
WITH_PYTORCH = ["eager", "packed"]
TRIAL = ["--trial", "--budget", "1100"]
PYTHON = "/usr/bin/python3"
# Other than packed libraries, what a machine with a GPU may lack, and the tree.
HIDDEN = ("/usr/lib/python3/dist-packages/h5py*", "/usr/lib/*/openmpi", "/usr/share/openmpi", "/usr/bin/mpirun", str(HERE.parents[1]))
NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]

# In the place of PyTorch: enough to import the scripts and to ask for a device.
TORCH = {
    "__init__.py": "from torch import cuda, nn\n__version__ = 'none'\n",
    "cuda.py": "def is_available():\n    return False\n",
    "nn/__init__.py": "Module = Sequential = object\n",
    "nn/functional.py": "",
}
# In the place of compute-sanitizer: runs the program after its options.
SANITIZER = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift 2; done
exec "$@"
"""
# In the place of ncu: runs the program, and writes the rows of two steps of two kernels as ncu does.
NCU = """#!/usr/bin/python3
import subprocess
import sys

words, log, metrics = sys.argv[1:], "", []
while words[0].startswith("--"):
    if words[0] == "--log-file":
        log = words[1]
    if words[0] == "--metrics":
        metrics = words[1].split(",")
    words = words[1:] if words[0] == "--csv" else words[2:]
status = subprocess.call(words)
units = dict(zip(metrics, (("ns", "5,000"), ("byte", "2,000,000"), ("%", "50"))))
if status != 0:
    sys.exit(status)
with open(log, "w") as file:
    file.write('==PROF== Connected to process 1\\n"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"\\n')
    for number, kernel in enumerate(2 * ["nvjet_tst<int>(int)", "void ventris::<unnamed>::adam_step<true>(float const*, int)"]):
        for metric, (unit, value) in units.items():
            file.write(f'"{number}","{kernel}","none","{metric}","{unit}","{value}"\\n')
"""


def reason_to_skip():
    if not all(EMULATED):
        return "built without the emulated device"
    if not shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin"):
        return "ip is not installed (iproute2)"
    tried = subprocess.run([*NAMESPACES, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return f"namespaces cannot be made: {tried.stderr.strip()}"
    return None if subprocess.run([PYTHON, "-c", "import numpy"], check=False).returncode == 0 else f"{PYTHON} has no numpy"


def hidden_from(archive):
    """The paths that nothing in the sandbox may see: HIDDEN, and the packed libraries but for those that every system needs."""
    with tarfile.open(archive) as packed:
        names = {os.path.basename(name) for name in packed.getnames() if name.startswith("ventris-gpu/libs/")}
    modules = glob.glob("/usr/lib/python3*/lib-dynload/*.so") + glob.glob("/usr/lib/python3/dist-packages/numpy/**/*.so", recursive=True)
    tools = subprocess.run(["ldd", PYTHON, *modules, *map(shutil.which, ("bash", "awk", "sed", "grep", "tar", "ip"))],
                           capture_output=True, text=True, check=False).stdout
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    libraries = [path for name, path in re.findall(r"\t(\S+) .* => (\S+)", known) if name in names and name not in tools]
    return [*libraries, *(path for pattern in HIDDEN for path in glob.glob(pattern))]


class Kit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="ventris-kit-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        demo, corpus = os.path.join(cls.folder, "demo"), os.path.join(cls.folder, "tiny.h5")
        for words in (
            ["demo-corpus", "--output-dir", demo, "--train-pairs", "300", "--valid-pairs", "20", "--test-pairs", "20"],
            ["prepare", "--train-sets", f"{demo}/train.en", f"{demo}/train.de", "--valid-sets", f"{demo}/valid.en", f"{demo}/valid.de",
             "--vocab-size", "120", "--output", corpus],
        ):
            subprocess.run([VENTRIS, *words], check=True, capture_output=True)
        text = os.path.join(cls.folder, "text")
        os.mkdir(text)
        for ours, theirs in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr")):
            for language in ("en", "de"):
                shutil.copy(f"{demo}/{ours}.{language}", f"{text}/{theirs}.lc.norm.tok.{language}")
        cls.options = ["--corpus", corpus, "--multi30k", text]

    def pack(self, name, programs):
        archive = os.path.join(self.folder, name)
        words = [HERE / "pack.sh", archive, *self.options, "--ventris", programs[0], "--tests", programs[1], "--products-bench", programs[2]]
        result = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "XZ_OPT": "-0"}, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return archive

    def prepare(self, archive):
        """A folder with lease.sh and tools of CUDA, and the lines that hide the rest."""
        root = tempfile.mkdtemp(dir=self.folder)
        with tarfile.open(archive) as packed:
            script = packed.extractfile("ventris-gpu/source/tests/gpu/lease.sh").read().decode()
        for name, text in (("lease.sh", script), ("compute-sanitizer", SANITIZER), ("ncu", NCU)):
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(file.name, 0o755)
        lines = ["set -e", "mount --make-rprivate /", "ip link set lo up"]
        lines += [f"mount -t tmpfs none '{path}'" if os.path.isdir(path) else f"mount --bind /dev/null '{path}'" for path in hidden_from(archive)]
        return root, "\n".join([*lines, 'cd / && exec "$@"'])

    def run_stages(self, prepared, archive, call, *stages, trial=False, **variables):
        """The exit code, measured.json, and all that was printed."""
        root, script = prepared
        output = os.path.join(root, "results")
        variables = {"PATH": f"{root}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "VOCABULARY": "300", **variables}
        words = [f"{root}/lease.sh", archive, "--output", output, "--call", call, *(TRIAL if trial else []), *stages]
        result = subprocess.run([*NAMESPACES, "sh", "-c", script, "sandbox", *words], capture_output=True, text=True, timeout=1200, check=False, env=variables)
        printed = result.stdout + result.stderr
        if not os.path.exists(f"{output}/measured.json"):
            return result.returncode, {"stages": {}}, printed
        self.assertLessEqual(len(os.listdir(output)), 8)
        with open(f"{output}/measured.json", encoding="utf-8") as file:
            measured = json.load(file)
        with tarfile.open(f"{output}/logs.tar.gz") as logs:
            for stage in stages:
                printed += f"\n--- {stage}\n" + logs.extractfile(f"logs/{stage}.log").read().decode()
        return result.returncode, measured, printed

    @unittest.skipUnless(all(CUDA), "built without the program for GPUs")
    def test_without_a_device_every_stage_starts_and_says_so(self):
        archive = self.pack("kit.tar.xz", CUDA)
        prepared = self.prepare(archive)
        for name, text in TORCH.items():
            path = os.path.join(prepared[0], "packages", "torch", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        for call in STAGES:
            code, measured, printed = self.run_stages(prepared, archive, call, PYTHONPATH=os.path.join(prepared[0], "packages"))
            print(printed)
            self.assertEqual(code, 77, printed)
        expected = dict.fromkeys(STAGES["A"] + STAGES["B"], "no device")
        self.assertEqual({name: stage["outcome"] for name, stage in measured["stages"].items()}, expected, printed)
        for stage in measured["stages"].values():
            self.assertRegex(stage["words"], "no CUDA device can be used: .*driver")
        self.assertRegex(measured["machine"], "libcublasLt.so.[0-9]+: /")

    def test_with_emulated_devices_the_stages_fill_the_tables(self):
        archive = self.pack("emulated.tar", EMULATED)
        prepared = self.prepare(archive)
        output = os.path.join(prepared[0], "results")
        left_out = [] if FULL else WITH_PYTORCH
        stages = {call: [name for name in names if name not in left_out] for call, names in STAGES.items()}
        for call, names in stages.items():
            code, measured, printed = self.run_stages(prepared, archive, call, *names, trial=True, VENTRIS_EMULATED_DEVICES="1",
                                                      **({"PYTHON": PEER_PYTHON} if FULL else {}))
            print(re.sub(r"\n--- (.|\n)*", "", printed))
            self.assertEqual(code, 0, printed)
        expected = dict.fromkeys(stages["A"] + stages["B"], "ok")
        self.assertEqual({name: stage["outcome"] for name, stage in measured["stages"].items()}, expected, printed)
        with open(os.path.join(output, "summary.md"), encoding="utf-8") as file:
            summary = file.read()
        print(summary)
        self.assertEqual(sorted(os.listdir(output)),
                         ["kernels_base.csv", "kernels_big.csv", "logs.tar.gz", "measured.json", "summary.md"])
        for words in (r"\| \*\*step, ms\*\* \| \*\*[0-9.]+\*\* \| \*\*[0-9.]+\*\* \|", r"\| step without a graph, ms \| [0-9.]+ \|  \|",
                      r"\| its products alone, ms \| [0-9.]+ \| [0-9.]+ \|", r"\| kernels under `ncu`: all, products, ms \| 0.01, 0.01 \| 0.01, 0.01 \|",
                      r"\(`--no-cuda-graph`\): present, variant, ms \|  \| [0-9.]+, [0-9.]+ \|", r"\| copy of memory, TB/s \| [0-9.]+ \|",
                      r"\| adam_step \| 1 \| 0.005 \| 50.0 % \| 0.40 \| 50 % \|",
                      *([r"\| PyTorch, padded, ms; ventris over it \| [0-9.]+; [0-9.]+ \|",
                         r"\| PyTorch, packed, compiled \(a mask, attention dropout 0.3\), ms"] if FULL else [])):  # fmt: skip
            self.assertRegex(summary, words)


if __name__ == "__main__":
    reason = reason_to_skip()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2, argv=[word for word in sys.argv if word != "--full"])
