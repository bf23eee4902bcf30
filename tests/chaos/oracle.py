# SPDX-License-Identifier: Apache-2.0
"""The required result of a run: the state and the log of a quiet run of the same shape."""

import hashlib
import json
import os
import re

import h5py
import numpy

# Keys of the log and of checkpoints that depend on the time, the line or the command.
OF_THE_TIME = ("time", "type", "format", "elapsed_seconds", "target_tokens_per_second", "source_tokens_per_second")
OF_THE_START = ("elapsed_seconds", "provenance", "environment")

# If another number of ranks resumes, and the reduction depends on it: the keys that depend only on the sentences and stay
# equal, and the tolerance of the losses in the first steps. Later steps of Adam amplify differences.
OF_THE_SENTENCES = ("step", "epoch", "target_tokens", "learning_rate")
LOSSES = ("loss", "nll")
NEAR = 1e-5
NEAR_STEPS = 5

# The permitted files of a run folder that no program uses.
KNOWN_FILES = (
    r"(checkpoint-\d{8}\.h5(\.damaged)?|best\.json|config\.json|command\.txt|metrics\.jsonl|status\.json)"
    r"|\.lock"
)


def state_digest(checkpoint):
    """A digest of everything in a checkpoint that a resumed run must reproduce: parameters, moments, averages, counters and
    positions, by name."""
    digest = hashlib.sha256()

    def add(name, item):
        if isinstance(item, h5py.Dataset):
            value = numpy.asarray(item[()])
            digest.update(f"{name} {value.dtype} {value.shape}\n".encode())
            digest.update(value.tobytes())

    with h5py.File(checkpoint, "r") as file:
        file.visititems(add)
        for name in sorted(file.attrs):
            if name not in OF_THE_START:
                digest.update(f"{name}: {file.attrs[name]!r}\n".encode())
    return digest.hexdigest()


def logged_steps(folder, whole):
    """metrics.jsonl as {step: values}, without those that depend on time and the reports of starts. A truncated last line is ignored unless the log must
    be whole. Raises ValueError with the reason."""
    steps = {}
    path = os.path.join(folder, "metrics.jsonl")
    if not os.path.exists(path):
        return steps
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    if lines[-1] and whole:
        raise ValueError(f"{path} ends within a line")
    for line in lines[:-1]:
        values = json.loads(line)
        if values.get("event") == "resumed":
            continue
        step = steps.setdefault(values["step"], {})
        for key, value in values.items():
            if key in OF_THE_TIME:
                continue
            if key != "step" and key in step:
                raise ValueError(f"{path} has {key} of step {values['step']} twice")
            step[key] = value
    return steps


def same(key, value, quiet, after):
    """Whether a value is as required, `after` steps after a change of the number of ranks, if any."""
    if after is None or after <= 0 or key in OF_THE_SENTENCES or value is None or quiet is None:
        return value == quiet
    return key not in LOSSES or after > NEAR_STEPS or abs(value - quiet) <= NEAR * abs(quiet)


def differing_step(steps, reference, whole, changed=None):
    """Describes the first step that differs from the reference, or returns an empty text. Unless the log must be whole, the
    last step may lack values, as each kind has its own line. `changed`: the step at which another number of ranks resumed,
    whose bits may differ."""
    for step in sorted(steps):
        if step not in reference:
            return f"step {step} is not a step of the quiet run"
        values, quiet = steps[step], reference[step]
        keys = values.keys() if step == max(steps) and not whole else {*values, *quiet}
        after = None if changed is None else step - changed
        if differing := [key for key in sorted(keys) if not same(key, values.get(key), quiet.get(key), after)]:
            told = [f"{key} {values.get(key)} (quiet run: {quiet.get(key)})" for key in differing]
            return f"step {step} differs from the quiet run: {', '.join(told)}"
    return ""


def checkpoints(folder):
    """The checkpoints of a run folder by step: [(step, path)]."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = [name for name in names if re.fullmatch(r"checkpoint-\d{8}\.h5", name)]
    return sorted((int(name[len("checkpoint-") : -len(".h5")]), os.path.join(folder, name)) for name in found)


def unknown_files(folder):
    return sorted(name for name in os.listdir(folder) if not re.fullmatch(KNOWN_FILES, name))
