# SPDX-License-Identifier: Apache-2.0
"""A copy of the tree with a build of its own, in which mutations are built and tried."""

import contextlib
import hashlib
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

MARK = "build/copy-for-mutants"
LOG = "build/test.log"
# Limits of a test.
MEMORY = 16 << 30
FILE_SIZE = 1 << 30
# Beside what the unchanged tree took: the machine may be busy.
LEAST_SECONDS = 60
TIMES = 6
# Until that is known.
FIRST_SECONDS = 900

# Processes and mounts of its own: what a mutant kills is its own, all that it started ends with it, and of the file system
# it can write its own /tmp alone. Jobs outside have their shared memory in /dev/shm, and their processes cannot be seen from
# inside, so that even `launch/supervise.sh` without a change would take it for a leftover: there is another one. The shell is
# the first process, since signals do less to that one.
CONFINED = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]
SHELL = """
mount --bind "$1" /tmp && mount -t tmpfs tmpfs /dev/shm && mount -o remount,bind,ro / || exit 99
shift
"$@"
result=$?
exit $result
"""


class Failure(Exception):
    pass


def confined(command, folder):
    """With the folder as its /tmp."""
    return [*CONFINED, SHELL, "sh", folder, *command]


def can_confine(folder):
    try:
        return subprocess.run(confined(["true"], folder), capture_output=True, timeout=60).returncode == 0
    except FileNotFoundError:
        return False


def tracked_files(root):
    """Paths of the tree without what git ignores, or all but builds where there is no git."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True)  # fmt: skip
    if listed.returncode == 0:
        return [path for path in listed.stdout.decode().split("\0") if path and (root / path).is_file()]
    return [path.relative_to(root).as_posix() for path in root.rglob("*")
            if path.is_file() and path.relative_to(root).parts[0] not in ("build", ".git")]  # fmt: skip


class Tree:
    def __init__(self, root, copy):
        self.copy = copy = copy.resolve()
        self.build_folder = copy / "build" / "release"
        self.temporary = copy / "build" / "temporary"
        self._take(copy)
        self.temporary.mkdir(parents=True, exist_ok=True)
        self._bring(root)
        options = ["-DVENTRIS_BENCHMARKS=OFF", "-DVENTRIS_CUDA=OFF", "-DVENTRIS_TESTS=ON"]
        if shutil.which("ccache"):
            options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        self._command(["cmake", "--preset", "release", *options], "configure")
        self.confined = not copy.is_relative_to("/tmp") and can_confine(self.temporary)
        self.limits = {}
        self.ctest = {}
        self.objects = {}
        self.built = set()

    @staticmethod
    def _take(copy):
        """Files are changed and removed there: it must be new, or of an earlier campaign."""
        mark = copy / MARK
        if not mark.exists():
            if copy.is_dir() and any(copy.iterdir()):
                raise Failure(f"{copy} is not empty and no copy of an earlier campaign; name a new folder with --copy")
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()

    def _bring(self, root):
        """Files that did not change keep their times, so that a second campaign compiles little."""
        wanted = set(tracked_files(root))
        for path in wanted:
            source, target = root / path, self.copy / path
            if not target.is_file() or target.read_bytes() != source.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
                shutil.copymode(source, target)
        for path in tracked_files_of_copy(self.copy) - wanted:
            (self.copy / path).unlink()

    def _command(self, command, what):
        done = subprocess.run(command, cwd=self.copy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise Failure(f"cannot {what}: {shlex.join(map(str, command))}\n{done.stdout.decode(errors='replace')[-4000:]}")

    def _build(self, target, store):
        environment = {**os.environ, **({} if store else {"CCACHE_READONLY": "1"})}
        command = ["cmake", "--build", self.build_folder, "--target", target]
        if target == "ventris":
            command.append("faults")
        return subprocess.run(command, cwd=self.copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def build(self, test):
        """What a test needs. Whether it compiles and links. Objects of mutants do not go into the compiler's cache."""
        return self._build(target_of(test), store=False).returncode == 0

    def build_unchanged(self, tests):
        for target in dict.fromkeys(map(target_of, tests)):
            done = self._build(target, store=True)
            if done.returncode != 0:
                raise Failure(f"the unchanged tree does not build:\n{done.stdout.decode(errors='replace')[-4000:]}")
            self.built.add(target)

    def is_built(self, test):
        """Whether the unchanged tree was built for it in this campaign."""
        return target_of(test) in self.built

    def _read_tests(self):
        """Commands and environments of ctest's tests. What is not built yet has none."""
        shown = subprocess.run(["ctest", "--test-dir", self.build_folder, "--show-only=json-v1"], capture_output=True)
        for test in json.loads(shown.stdout)["tests"]:
            properties = {item["name"]: item["value"] for item in test.get("properties", [])}
            environment = dict(item.split("=", 1) for item in properties.get("ENVIRONMENT", []))
            # Programs that are not built: the tests which want them are skipped.
            environment = {name: value for name, value in environment.items()
                           if not value.startswith(f"{self.build_folder}/") or name == "VENTRIS_BINARY"
                           or os.path.exists(value)}  # fmt: skip
            folder = properties.get("WORKING_DIRECTORY", str(self.build_folder))
            self.ctest[test["name"]] = (test.get("command", []), environment, folder)

    def _test_command(self, name):
        if name.endswith("_tests"):
            return [self.build_folder / "tests" / name, "--gtest_fail_fast", "--gtest_brief=1"], {}, self.build_folder
        if not self.ctest.get(name, [None])[0]:
            self._read_tests()
        command, environment, folder = self.ctest.get(name, ([], {}, ""))
        if not command:
            raise Failure(f"ctest has no test {name}, or its program is not built")
        if name.startswith("cli."):
            command = [*command, "--failfast"]
        elif name == "comm.one_process":
            command = [*command, "--gtest_fail_fast", "--gtest_brief=1"]
        return command, environment, folder

    def run_test(self, name):
        """'pass', 'fail' or 'time', and the seconds that it took."""
        command, environment, folder = self._test_command(name)
        with tempfile.TemporaryDirectory(dir=self.temporary) as temporary:
            os.chmod(temporary, 0o1777)  # a test may be another user
            seen = temporary
            if self.confined:
                command, seen = confined(command, temporary), "/tmp"
            environment = {**os.environ, **environment, "TMPDIR": seen, "HOME": seen,
                           "PYTHONDONTWRITEBYTECODE": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # fmt: skip
            began = time.monotonic()
            with open(self.copy / LOG, "wb") as log:
                process = subprocess.Popen([str(word) for word in command], cwd=folder, env=environment, stdout=log,
                                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                                           preexec_fn=set_limits)  # fmt: skip
                try:
                    ended = "pass" if process.wait(self.limits.get(name, FIRST_SECONDS)) == 0 else "fail"
                except subprocess.TimeoutExpired:
                    ended = "time"
                finally:
                    end_group(process)
            if process.returncode == 99 and self.confined:
                raise Failure("the folder for temporary files cannot be mounted")
            return ended, time.monotonic() - began

    def set_limit(self, name, seconds):
        self.limits[name] = LEAST_SECONDS + TIMES * seconds

    def _object_digest(self, path):
        folder, _, name = path.partition("/")
        # Kernels are compiled once for each set of instructions.
        compiled = sorted((self.build_folder / folder / "CMakeFiles").glob(f"ventris_*.dir/{name}.o"))
        return hashlib.sha256(b"".join(path.read_bytes() for path in compiled)).hexdigest() if compiled else None

    @contextlib.contextmanager
    def changed(self, mutation):
        """The mutation is in the file meanwhile."""
        target = self.copy / mutation.path
        text = target.read_text(encoding="utf-8")
        if mutation.path not in self.objects:
            self.objects[mutation.path] = self._object_digest(mutation.path)
        target.write_text(mutation.apply(text), encoding="utf-8")
        try:
            yield
        finally:
            # With the time of now, as ninja compares times: the object file is newer than the unchanged source was.
            target.write_text(text, encoding="utf-8")

    def same_code(self, mutation):
        """Whether the compiler made the same of it."""
        before = self.objects[mutation.path]
        return before is not None and before == self._object_digest(mutation.path)

    def last_output(self):
        return (self.copy / LOG).read_text(encoding="utf-8", errors="replace")[-4000:]


def target_of(test):
    return test if test.endswith("_tests") else "comm_tests" if test.startswith("comm.") else "ventris"


def tracked_files_of_copy(copy):
    return {path.relative_to(copy).as_posix() for path in copy.rglob("*")
            if path.is_file() and path.relative_to(copy).parts[0] != "build"}  # fmt: skip


def set_limits():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
