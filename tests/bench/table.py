# SPDX-License-Identifier: Apache-2.0
"""Functions for the scripts that measure training: runs of ventris and of peers, and tables in Markdown."""
import json
import os
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
