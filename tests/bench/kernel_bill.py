#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bill of the CUDA kernels of a training step before it runs: what each moves and computes, and the predicted time on one H100.

    tests/bench/kernel_bill.py [--preset base|big] [--measured FILE]

FILE is a table of ncu, whose times stand beside the predicted ones. docs/dev/kernel-bill.md explains the prediction. Ends with 1 if the
launches are not those that the emulated device counts (tests/emulation/launches_test.cc).
"""
import argparse
import pathlib
import sys

import kernel_bill_measured as measurements
import kernel_bill_step as plan
import table

# NVIDIA H100 data sheet, SXM; a kernel that moves long streams reaches 90 % of it (docs/results.md: the loss, Adam).
BANDWIDTH = 0.90 * 3.35e12  # bytes/s
PRODUCTS = 764e12  # operations/s of a large product in bf16, measured (docs/results.md)
HOST_BANDWIDTH = 50e9  # bytes/s, PCIe 5.0 x16; assumed
GAP = 1.2e-6  # seconds from the end of a kernel to the first instruction of the next one in a graph; assumed


def bill_of(preset):
    """Rows, one for each kernel and phase: kernel, phase, launches of a step, bytes and operations of all of them, what limits it, ms."""
    launches, products, others = plan.step(plan.PRESETS[preset])
    found = {}

    def add(kernel, phase, times, moved, flops, limit, seconds):
        row = found.setdefault((kernel, phase), {"kernel": kernel, "phase": phase, "launches": 0, "bytes": 0.0, "flops": 0.0, "limit": limit, "ms": 0.0})
        for name, value in (("launches", times), ("bytes", times * moved), ("flops", times * flops), ("ms", 1e3 * times * (seconds + GAP))):
            row[name] += value

    for launch in launches:
        add(launch.kernel, launch.phase, launch.times, launch.bytes, launch.flops, "memory", launch.bytes / BANDWIDTH)
    for product in products:
        memory, tensor = product.bytes / BANDWIDTH, product.flops / PRODUCTS
        add("product", product.phase, product.times, product.bytes, product.flops, "tensor" if tensor > memory else "memory", max(tensor, memory))
    for name, (phase, times, moved) in others.items():
        add(name, phase, times, moved / times, 0.0, "host" if "copy" in name else "memory",
            moved / times / (HOST_BANDWIDTH if "copy" in name else BANDWIDTH))
    return list(found.values())


def summed(rows, key):
    """Rows of one kernel or of one phase as one, the longest first."""
    result = {}
    for row in rows:
        one = result.setdefault(row[key], {**row, "launches": 0, "bytes": 0.0, "flops": 0.0, "ms": 0.0})
        for name in ("launches", "bytes", "flops", "ms"):
            one[name] += row[name]
    return sorted(result.values(), key=lambda row: -row["ms"])


def number(value):
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f} {letter}"
    return f"{value:.0f}"


def measured_cells(found):
    """ms of a step, bytes of device memory, and the share of time in which tensor cores computed."""
    if found is None:
        return [""] * 3
    tensor = "" if found.tensor_ms is None else f"{100 * found.tensor_ms / found.ms:.0f} %"
    return [f"{found.ms:.3f}", "" if found.bytes is None else number(found.bytes), tensor]


def bill(preset, measured):
    """The bill as text; `measured`: of kernel_bill_measured.py, or None."""
    rows = bill_of(preset)
    total = f"{sum(row['ms'] for row in rows):.2f}"
    kernels = []
    for row in summed(rows, "kernel"):
        cells = [row["kernel"], row["launches"], number(row["bytes"]), number(row["flops"]), row["limit"], f"{row['ms']:.3f}"]
        kernels.append(cells + (measured_cells(measurements.of_row(measured, row["kernel"], row["launches"])) if measured else []))
    kernels.append(["step", sum(row["launches"] for row in rows), "", "", "", total] + [""] * (3 if measured else 0))
    header = ["kernel", "launches", "bytes", "operations", "limit", "ms"] + (["measured, ms", "bytes", "tensor cores"] if measured else [])
    phases = [[row["phase"], f"{row['ms']:.3f}"] for row in summed(rows, "phase")]
    return (f"{preset}: {plan.ROWS:,} rows a side, vocabulary {plan.VOCABULARY:,}, bf16; predicted for one H100\n\n"
            f"{table.markdown(header, kernels)}\n{table.markdown(['phase', 'ms'], [*phases, ['step', total]])}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=plan.PRESETS, default="base")
    parser.add_argument("--measured", type=pathlib.Path, metavar="FILE", help="table of ncu --csv --metrics gpu__time_duration.sum of whole steps")
    arguments = parser.parse_args()
    print(bill(arguments.preset, measurements.read(arguments.measured) if arguments.measured else None))
    wrong = plan.wrong_counts()
    print("".join(f"{line}\n" for line in wrong), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
