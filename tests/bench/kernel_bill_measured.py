"""Measured times for the bill of the kernels: of phases, by ventris train --profile, or of kernels, by ncu."""

import collections
import csv
import dataclasses
import json
import sys

EXPECTED = "expected is what ventris train --profile --json printed, or a table of ncu --csv --metrics gpu__time_duration.sum"
MS = {"nsecond": 1e-6, "ns": 1e-6, "usecond": 1e-3, "us": 1e-3, "msecond": 1.0, "ms": 1.0, "second": 1e3, "s": 1e3}  # of a unit of ncu


@dataclasses.dataclass
class Measured:
    kernels: dict = dataclasses.field(default_factory=dict)  # -> ms of one launch, on average
    phases: dict = dataclasses.field(default_factory=dict)  # -> ms of a step
    step_ms: float | None = None


def read(file):
    """The times in a file. Ends the program with the reason if there are none."""
    try:
        return times_of(file.read_text(encoding="utf-8"))
    except OSError as error:
        sys.exit(f"{file}: {error.strerror}; {EXPECTED}")
    except (ValueError, KeyError, TypeError) as error:
        sys.exit(f"{file}: no times ({error}); {EXPECTED}")


def times_of(text):
    if text.lstrip().startswith("{"):
        found = json.loads(text)
        profile = found.get("profile", found)
        return Measured(phases={phase["phase"]: phase["ms"] for phase in profile["phases"]}, step_ms=profile["step_ms"])
    return Measured(kernels=ncu_times(text))


def ncu_times(text):
    """kernel -> mean ms of a launch, of ncu --csv (--page details or raw) with gpu__time_duration."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if '"Kernel Name"' in line), None)
    if first is None:
        raise ValueError('neither JSON nor a column "Kernel Name"')
    times = collections.defaultdict(list)
    rows = list(csv.DictReader(lines[first:]))
    units = {}
    for row in rows:
        name = row["Kernel Name"]
        if not name:  # the line of units of --page raw
            units = row
            continue
        name = name.replace("<unnamed>::", "").replace("(anonymous namespace)::", "")
        short = name.split("(")[0].split("<")[0].split("::")[-1].split(" ")[-1]
        if "Metric Name" in row:
            if row["Metric Name"] in ("Duration", "gpu__time_duration.sum"):
                times[short].append(float(row["Metric Value"].replace(",", "")) * MS[row["Metric Unit"]])
        elif row.get("gpu__time_duration.sum"):
            times[short].append(float(row["gpu__time_duration.sum"].replace(",", "")) * MS[units["gpu__time_duration.sum"]])
    if not times:
        raise ValueError("no times of kernels")
    return {name: sum(each) / len(each) for name, each in times.items()}
