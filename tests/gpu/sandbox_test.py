# SPDX-License-Identifier: Apache-2.0
"""The kit, packed, unpacked and run in a sandbox that lacks MPI, HDF5, Boost, SentencePiece, h5py and the source tree, and has the libraries
of CUDA in a Python package alone: without a device every stage of both calls starts and ends as "no device"; with emulated devices in the place
of real ones the stages run through and fill the tables.

    VENTRIS_BINARY=... VENTRIS_CUDA_PROGRAMS=VENTRIS:TESTS:BENCH VENTRIS_EMULATED_PROGRAMS=VENTRIS:TESTS:BENCH \\
        python3 tests/gpu/sandbox_test.py [--full]

Without VENTRIS_CUDA_PROGRAMS only the second is tried. --full also runs the stages that compare with PyTorch, of the Python that
VENTRIS_PEER_PYTHON names, on the CPU: what compiles outside of the sandbox, as it calls a compiler.
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
import libraries  # noqa: E402
import sandbox  # noqa: E402

VENTRIS = os.environ["VENTRIS_BINARY"]
CUDA, EMULATED = (os.environ.get(name, "").split(":") for name in ("VENTRIS_CUDA_PROGRAMS", "VENTRIS_EMULATED_PROGRAMS"))
PEER_PYTHON = os.environ.get("VENTRIS_PEER_PYTHON", "")
FULL = "--full" in sys.argv
STAGES = {call: [row.name for row in lease.STAGES if row.call == call] for call in "AB"}
WITH_PYTORCH = ["eager", "packed"]
TRIAL = ["--trial", "--budget", "1100"]
# What a machine with a GPU may lack, and the tree.
HIDDEN = re.compile(rf"/(lib(mpi|open-rte|open-pal|pmix|hdf5|boost|sentencepiece|dnnl|fmt|xxhash|yaml-cpp|icu|zip)|h5py|mpirun)|^{HERE.parents[1]}")

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


def numpy_of_system():
    """The folder of the package, or an empty string."""
    words = [sandbox.PYTHON, "-c", "import numpy; print(numpy.__path__[0])"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def reason_to_skip():
    if not all(EMULATED):
        return "built without the emulated device"
    reason = sandbox.forbidden()
    if reason:
        return f"namespaces cannot be made: {reason}"
    return None if numpy_of_system() else f"{sandbox.PYTHON} has no numpy"


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
        cls.options = ["--corpus", corpus, "--batch-tokens", "60", "--multi30k", text]

    def pack(self, name, programs):
        archive = os.path.join(self.folder, name)
        words = [HERE / "pack.sh", archive, *self.options, "--ventris", programs[0], "--tests", programs[1], "--products-bench", programs[2]]
        result = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "XZ_OPT": "-0"}, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return archive

    def sandbox(self, archive):
        """A root with the archive and lease.sh alone, and what every machine with a GPU has."""
        root = sandbox.Sandbox(tempfile.mkdtemp(dir=self.folder))
        root.bind(f"/kit/{os.path.basename(archive)}", archive)
        with tarfile.open(archive) as packed:
            script = packed.extractfile("ventris-gpu/source/tests/gpu/lease.sh").read().decode()
        root.write("/kit/lease.sh", script, 0o755)
        for name, text in (("compute-sanitizer", SANITIZER), ("ncu", NCU)):
            root.write(f"/opt/tools/{name}", text, 0o755)
        root.bind_package("numpy", numpy_of_system())
        return root

    def forget(self, root, part):
        """Takes away what is bound at paths with this part, and the results."""
        shutil.rmtree(root.folder + "/results")
        for there in [there for there in root.bound if part in there]:
            del root.bound[there]
            os.remove(root.folder + there)

    def add_cuda(self, root, archive, folder=None):
        """The libraries of CUDA that the archive asks for, in a folder, or as Python packages have them. Returns their names."""
        with tarfile.open(archive) as packed:
            names = json.load(packed.extractfile("ventris-gpu/kit.json"))["cuda_libraries"]
        search = libraries.Search([])
        for name in names:
            path = search.find(name)
            self.assertTrue(path, f"{name} is not installed; looked in\n{search.describe_places()}")
            root.bind(f"{folder or root.packages + '/nvidia/' + ('nccl' if 'nccl' in name else 'cu13') + '/lib'}/{name}", path)
        return list(names)

    def run_stages(self, root, archive, call, *stages, trial=False, **variables):
        """The exit code, measured.json, and all that was printed."""
        output = os.path.join(root.folder, "results")
        variables = {"PATH": "/usr/bin:/opt/tools", "LD_LIBRARY_PATH": "/driver", "VOCABULARY": "300", **variables}
        words = ["/kit/lease.sh", f"/kit/{os.path.basename(archive)}", "--output", "/results", "--call", call, *(TRIAL if trial else []), *stages]
        result = root.run(*words, timeout=1200, **variables)
        printed = result.stdout + result.stderr
        if not os.path.exists(f"{output}/measured.json"):
            return result.returncode, {}, printed
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
        root = self.sandbox(archive)
        names = self.add_cuda(root, archive)
        cublas, nccl = (next(name for name in names if part in name) for part in ("cublasLt", "nccl"))
        for name, text in TORCH.items():
            root.write(f"{root.packages}/torch/{name}", text)
        hidden = [path for path in root.files() if HIDDEN.search(path) and not path.startswith("/kit/")]
        self.assertEqual(hidden, [])
        for call in STAGES:
            code, measured, printed = self.run_stages(root, archive, call)
            print(printed)
            self.assertEqual(code, 77, printed)
        expected = dict.fromkeys(STAGES["A"] + STAGES["B"], "no device")
        self.assertEqual({name: stage["outcome"] for name, stage in measured["stages"].items()}, expected, printed)
        for stage in measured["stages"].values():
            self.assertRegex(stage["words"], "no CUDA device can be used: .*driver")
        self.assertIn(f"{cublas}: {root.packages}/nvidia/cu13/lib/", measured["machine"])
        # The libraries in LD_LIBRARY_PATH, which the programs keep.
        self.forget(root, "/nvidia/")
        self.add_cuda(root, archive, "/driver")
        code, measured, printed = self.run_stages(root, archive, "A", "card", "tests")
        self.assertEqual(code, 77, printed)
        self.assertIn(f"{cublas}: /driver/", measured["machine"])
        # Nothing of CUDA: the places are told.
        self.forget(root, "/driver/")
        code, measured, printed = self.run_stages(root, archive, "A", "card")
        self.assertEqual(code, 1, printed)
        self.assertEqual(measured["stages"]["card"]["outcome"], "failed", printed)
        self.assertRegex(measured["stages"]["card"]["words"], f"^not found: .*{nccl}")
        self.assertIn(f"{cublas}: not found; needed by ", measured["machine"])
        self.assertIn("  LD_LIBRARY_PATH: /driver\n", measured["machine"])

    def test_with_emulated_devices_the_stages_fill_the_tables(self):
        archive = self.pack("emulated.tar", EMULATED)
        root = self.sandbox(archive)
        self.add_cuda(root, archive)
        if FULL:
            self.add_pytorch(root)
        left_out = ["packed"] if FULL else WITH_PYTORCH
        stages = {call: [name for name in names if name not in left_out] for call, names in STAGES.items()}
        for call, names in stages.items():
            code, measured, printed = self.run_stages(root, archive, call, *names, trial=True, VENTRIS_EMULATED_DEVICES="1",
                                                      **({"PYTHON": PEER_PYTHON} if FULL else {}))
            print(re.sub(r"\n--- (.|\n)*", "", printed))
            self.assertEqual(code, 0, printed)
        expected = dict.fromkeys(stages["A"] + stages["B"], "ok")
        self.assertEqual({name: stage["outcome"] for name, stage in measured["stages"].items()}, expected, printed)
        if FULL:
            self.compile_outside(archive, os.path.join(root.folder, "results"))
        with open(os.path.join(root.folder, "results", "summary.md"), encoding="utf-8") as file:
            summary = file.read()
        print(summary)
        self.assertEqual(sorted(os.listdir(os.path.join(root.folder, "results"))),
                         ["kernels_base.csv", "kernels_big.csv", "logs.tar.gz", "measured.json", "summary.md"])
        for words in (r"\| \*\*step, ms\*\* \| \*\*[0-9.]+\*\* \| \*\*[0-9.]+\*\* \|", r"\| step without a graph, ms \| [0-9.]+ \|  \|",
                      r"\| its products alone, ms \| [0-9.]+ \| [0-9.]+ \|", r"\| kernels under `ncu`: all, products, ms \| 0.01, 0.01 \| 0.01, 0.01 \|",
                      r"\(`--no-cuda-graph`\): present, variant, ms \|  \| [0-9.]+, [0-9.]+ \|", r"\| copy of memory, TB/s \| [0-9.]+ \|",
                      r"\| adam_step \| 1 \| 0.005 \| 50.0 % \| 0.40 \| 50 % \|",
                      r"\| tiny \| 2 \| reproducible, sharded optimizer \| [0-9.]+ \| \w{32} \|",
                      *([r"\| PyTorch, padded, ms; ventris over it \| [0-9.]+; [0-9.]+ \|",
                         r"\| PyTorch, packed, compiled \(a mask, attention dropout 0.3\), ms"] if FULL else [])):  # fmt: skip
            self.assertRegex(summary, words)

    def compile_outside(self, archive, output):
        words = [HERE / "lease.sh", archive, "--output", output, *TRIAL, "packed"]
        result = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHON": PEER_PYTHON}, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def add_pytorch(self, root):
        self.assertTrue(PEER_PYTHON, "VENTRIS_PEER_PYTHON names no Python")
        told = subprocess.run([PEER_PYTHON, "-c", "import sys; print(sys.prefix, sys.base_prefix)"], capture_output=True, text=True, check=True)
        for prefix in told.stdout.split():
            root.bind(prefix, prefix)
            root.bind_libraries(*glob.glob(f"{prefix}/bin/python3*"), *glob.glob(f"{prefix}/lib/*.so*"))
        told = subprocess.run(["ldd", VENTRIS], capture_output=True, text=True, check=True).stdout
        for name, path in re.findall(r"(lib(?:stdc\+\+|gcc_s|gomp|z)\.so\S*) => (\S+)", told):
            root.bind(f"/usr/lib/x86_64-linux-gnu/{name}", path)


if __name__ == "__main__":
    reason = reason_to_skip()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2, argv=[word for word in sys.argv if word != "--full"])
