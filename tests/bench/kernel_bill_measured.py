# SPDX-License-Identifier: Apache-2.0
"""Measured times of kernels for the bill, by ncu."""

import collections
import csv
import dataclasses
import sys

import kernel_bill_step as plan

EXPECTED = "expected is a table of ncu --csv --metrics gpu__time_duration.sum"
DURATION, BYTES, TENSOR = METRICS = ("gpu__time_duration.sum", "dram__bytes.sum", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed")
STEP_END = "adam_step"  # a kernel that every training step launches once, after its products
MS = {"nsecond": 1e-6, "ns": 1e-6, "usecond": 1e-3, "us": 1e-3, "msecond": 1.0, "ms": 1.0, "second": 1e3, "s": 1e3}  # of a unit of ncu


@dataclasses.dataclass
class Kernel:
    """Sums over the launches of a kernel in a file."""

    launches: int = 0
    ms: float = 0.0
    bytes: float | None = None  # of device memory
    tensor_ms: float | None = None  # of tensor cores, had they computed all the time

    def add(self, other):
        self.launches += other.launches
        self.ms += other.ms
        for name in ("bytes", "tensor_ms"):
            value = getattr(other, name)
            if value is not None:
                setattr(self, name, (getattr(self, name) or 0.0) + value)

    def scaled(self, factor):
        return Kernel(round(self.launches * factor), self.ms * factor, *(None if x is None else x * factor for x in (self.bytes, self.tensor_ms)))


def of_row(kernels, name, launches):
    """What a step takes of a kernel of the bill, or None. `product` is every kernel that is not ours, in a step."""
    if name != "product":
        found = kernels.get(name.split(" ")[0])
        return found.scaled(launches / found.launches) if found else None
    rest = Kernel()
    for other, kernel in kernels.items():
        if other not in plan.OUR_KERNELS:
            rest.add(kernel)
    steps = kernels[STEP_END].launches if STEP_END in kernels else 1
    return rest.scaled(1 / steps) if rest.launches else None


def read(file):
    """The kernels of a file. Ends the program with the reason if there are none."""
    try:
        return kernels_of(file.read_text(encoding="utf-8"))
    except OSError as error:
        sys.exit(f"{file}: {error.strerror}; {EXPECTED}")
    except (ValueError, KeyError) as error:
        sys.exit(f"{file}: no times ({error}); {EXPECTED}")


def kernels_of(text):
    """name -> Kernel"""
    kernels = collections.defaultdict(Kernel)
    for name, metrics in launches_of_ncu(text):
        ms = metrics[DURATION]
        tensor = metrics.get(TENSOR)
        kernels[short_name(name)].add(Kernel(1, ms, metrics.get(BYTES), None if tensor is None else ms * tensor / 100))
    return dict(kernels)


def short_name(kernel):
    """Without namespaces, arguments and parameters."""
    name = kernel.replace("<unnamed>::", "").replace("(anonymous namespace)::", "")
    return name.split("(")[0].split("<")[0].split("::")[-1].split(" ")[-1]


def launches_of_ncu(text):
    """(kernel, {metric: ms or number}) of each launch in its order, of ncu --csv with gpu__time_duration."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if '"Kernel Name"' in line), None)
    if first is None:
        raise ValueError('no column "Kernel Name"')
    launches = {}
    for row in csv.DictReader(line for line in lines[first:] if line.startswith('"')):
        _, metrics = launches.setdefault(row["ID"], (row["Kernel Name"], {}))
        name = {"Duration": DURATION}.get(row["Metric Name"], row["Metric Name"])
        if name in METRICS:
            metrics[name] = float(row["Metric Value"].replace(",", "")) * (MS[row["Metric Unit"]] if name == DURATION else 1.0)
    found = [launch for launch in launches.values() if DURATION in launch[1]]
    if not found:
        raise ValueError("no times of kernels")
    return found


def one_step(text):
    """The lines of a table of ncu --page details that belong to one training step: from the end of Adam to that of the next one. Raises
    ValueError if it does not hold a whole step."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))
    ends = [i for i, row in enumerate(rows) if short_name(row["Kernel Name"]) == STEP_END]
    ends = [i for i in ends if i + 1 == len(rows) or rows[i + 1]["ID"] != rows[i]["ID"]]
    if len(ends) < 2:
        raise ValueError(f"{len(ends)} ends of steps in {len({row['ID'] for row in rows})} launches, two are needed")
    return "\n".join([lines[0], *lines[ends[0] + 2 : ends[1] + 2]]) + "\n"
