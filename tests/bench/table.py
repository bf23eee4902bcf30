# SPDX-License-Identifier: Apache-2.0
"""Functions for the scripts that measure training: runs of ventris and of peers, and tables in Markdown."""
import json
import os
import shutil
import signal
import subprocess
import tempfile


def last_words(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"


# Functions of the words of a command and its Finished, called after each; for logs.
observers = []


class Failed(Exception):
    """A measurement that failed; the message is the reason."""


class Finished:
    """What became of a command: its exit code (None if it was ended for lack of time or never started), what it printed, and the reason
    why it failed, or None."""

    def __init__(self, code, output, errors, reason):
        self.code, self.output, self.errors, self.reason = code, output, errors, reason


def execute(command, timeout=None, environment=None):
    """Runs a command to its end. All processes that it started are ended with it."""
    # Files, not pipes: processes started by a killed command may keep a pipe open.
    with tempfile.TemporaryFile("w+", errors="replace") as output, tempfile.TemporaryFile("w+", errors="replace") as errors:
        code, reason = None, None
        try:
            process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment, start_new_session=True)
        except OSError as error:
            return observed(command, Finished(None, "", "", f"{command[0]} cannot be started: {error.strerror}"))
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            reason = f"not finished after {timeout:.0f} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        errors.seek(0)
        printed, messages = output.read(), errors.read()
        if code is not None and code != 0:
            reason = f"exit code {code}: {last_words(messages if messages.strip() else printed)}"
        return observed(command, Finished(code, printed, messages, reason))


def observed(command, finished):
    for observer in observers:
        observer(command, finished)
    return finished


def run(command, timeout=None, environment=None):
    """The output of a command, and None or the reason why it failed."""
    finished = execute(command, timeout, environment)
    return finished.output, finished.reason


def run_lines(command, timeout=None, environment=None):
    """The objects that a command printed, one a line, until its end or failure, and None or the reason of the failure."""
    text, reason = run(command, timeout, environment)
    objects = []
    for line in text.splitlines():
        try:
            objects.append(json.loads(line))
        except ValueError:
            continue  # output of a library, or cut off
    return objects, reason


def run_json(command, timeout=None, environment=None):
    """The object that a command printed last. Raises Failed."""
    objects, reason = run_lines(command, timeout, environment)
    if reason is not None or not objects:
        raise Failed(reason or "no output")
    return objects[-1]


def train_ventris(launcher, ventris, corpus, preset, precision, batch_tokens, seconds, warmup_seconds, extra, timeout=None,
                  environment=None, run_folder=None):
    """A run of `ventris train`, without its first steps, from the end of a copy of `run_folder`, if that is given. Returns rates a second,
    and the object of --json as "result". Raises Failed."""
    folder = tempfile.mkdtemp(prefix="ventris-bench-")
    metrics = os.path.join(folder, "metrics.jsonl")
    before = 0
    if run_folder is not None:
        shutil.copytree(run_folder, folder, dirs_exist_ok=True)
        with open(metrics, encoding="utf-8") as file:
            before = len(list(file))
    command = [*launcher, ventris, "train", "--corpus", corpus, "--model-dir", folder, "--preset", preset, "--precision", precision,
               "--batch-target-tokens", str(batch_tokens), "--batch-source-tokens", str(batch_tokens), "--max-minutes",
               str((seconds + warmup_seconds) / 60), "--max-steps", "1000000", "--valid-every", "0", "--save-every", "0", "--json", *extra]
    try:
        result = run_json(command, timeout, environment)
        with open(metrics, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file][before:]
        lines = [line for line in lines if "elapsed_seconds" in line]  # not what a resumed run says of itself
    finally:
        shutil.rmtree(folder)
    counted = [line for line in lines if line["elapsed_seconds"] - lines[0]["elapsed_seconds"] >= warmup_seconds]
    if len(counted) < 2:
        raise Failed(f"fewer than two reports after {warmup_seconds:g} s; increase the time of the measurement")
    seconds = counted[-1]["elapsed_seconds"] - counted[0]["elapsed_seconds"]
    steps = counted[-1]["step"] - counted[0]["step"]
    tokens = counted[-1]["target_tokens"] - counted[0]["target_tokens"]
    flops_per_token = result["model_flops_per_second"] / result["target_tokens_per_second"]
    return {"rate": tokens / seconds, "ms": 1000 * seconds / steps, "flops": tokens / seconds * flops_per_token,
            "tokens_per_update": round(tokens / steps), "result": result}


def peer_command(python, script, arguments):
    """A script of this folder, run by another Python."""
    return [python, os.path.join(os.path.dirname(os.path.abspath(__file__)), script), *map(str, arguments)]


def markdown(header, rows):
    """Cells of a table to text."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines) + "\n"


def save(text, path):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def write(text, path):
    print(text)
    save(text, path)
