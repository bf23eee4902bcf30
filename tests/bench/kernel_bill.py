#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bill of the CUDA kernels of a training step before it runs: what each moves, computes and waits for, and the predicted time.

    tests/bench/kernel_bill.py BUILD [--preset base|big] [--arch sm_90a] [--measured FILE] [--json] [--loops]
    tests/bench/kernel_bill.py BUILD --check | --write [--table FILE]

BUILD is a folder like build/release with kernels (-DVENTRIS_CUDA=ON); with --compile it is made, and only its kernels are compiled.
docs/dev/kernel-bill.md explains the columns and the prediction. Instructions come from cuobjdump of the CUDA toolkit ($CUOBJDUMP, or on
the path, or beside nvcc).

--check compares the instructions an element and the launches a step with tests/bench/kernel_bill.txt, and registers and spills with
tests/lint/registers.txt; it ends with 1 if anything grew, with 77 if the instructions could not be compared (no kernels, no cuobjdump,
or another nvcc than the table's) and nothing else grew. --write makes both tables anew.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lint"))

import kernel_bill_measured as measurements  # noqa: E402
import kernel_bill_model as model  # noqa: E402
import kernel_bill_sass as sass  # noqa: E402
import kernel_bill_step as plan  # noqa: E402
import registers  # noqa: E402

TABLE = pathlib.Path(__file__).with_name("kernel_bill.txt")
ARCHITECTURE = "sm_90a"
SKIPPED = 77
NO_CUOBJDUMP = "there is no cuobjdump; it is a package of the CUDA toolkit, or name one with CUOBJDUMP"
HEAD = """\
# For each kernel of a training step in bf16, and each preset: launches a step, and instructions an element at most (of the tensor-core
# kernels: instructions a product of 16 x 8 x 16), compiled for sm_90a. tests/bench/kernel_bill.py BUILD --check compares the build with it.
# A row grows by intention alone. Anew: tests/bench/kernel_bill.py build/release --write.
# kernel  preset  launches  instructions
"""


class Unclear(Exception):
    """The machine code is not what the rows of kernel_bill_step.py expect; the message says where."""


class Instances:
    """The instances of kernels in a build: what they take of the device, and their code."""

    def __init__(self, build, architecture, cuobjdump):
        self.cuobjdump = cuobjdump
        self.architecture = architecture
        self.taken = {}
        self.objects = {}
        self.functions = {}
        self.most_threads = {}
        self.codes = {}
        for source, instance, compiled_for, object_file, taken in registers.reports(build):
            if compiled_for == architecture:
                key = (source, instance.split("::")[-1])
                self.taken[key] = dict(zip(registers.COLUMNS, taken))
                self.objects[source] = object_file

    def key(self, name, kernel, preset):
        found = (kernel.source, name.split(" ")[0] + plan.instance_of(kernel, preset))
        if found not in self.taken:
            there = sorted(instance for source, instance in self.taken if source == kernel.source)
            if not there:
                raise Unclear(f"{name}: {kernel.source} was not built for {self.architecture}")
            raise Unclear(f"{name}: {kernel.source} has no instance {found[1]}, but {', '.join(there)}; correct KERNELS in kernel_bill_step.py")
        return found

    def code(self, key):
        if key not in self.codes:
            source = key[0]
            if source not in self.functions:
                functions = sass.disassemble(self.cuobjdump, self.objects[source], self.architecture)
                limits = sass.most_threads(sass.run_cuobjdump(self.cuobjdump, "-elf", self.objects[source], self.architecture))
                names = {mangled: name.split("::")[-1] for mangled, name in registers.instances(functions).items()}
                self.functions[source] = {names[mangled]: code for mangled, code in functions.items()}
                self.most_threads.update({(source, names[mangled]): threads for mangled, threads in limits.items()})
            self.codes[key] = sass.Code(self.functions[source][key[1]])
        return self.codes[key]


def multiple(moved, pack):
    """How many packs `moved` is, or 0 if it is no multiple."""
    if pack == (0, 0) or any(want == 0 and got != 0 or want and got % want for got, want in zip(moved, pack)):
        return 0
    times = {got // want for got, want in zip(moved, pack) if want}
    return times.pop() if len(times) == 1 else 0


def choose_loop(code, kernel, pack, used):
    """(way, packs that it moves, loop): of the loops that are not counted yet the way with the fewest narrow accesses that moves
    most packs at a time (or kernel.at_once), rather in a loop that can move nothing else. None if no loop moves a multiple."""
    best = None
    for loop in code.loops:
        ways = code.ways(kernel.width, loop, kernel.shared)
        most = max(sum(moved) for moved in ways)
        for moved, way in ways.items():
            packs = multiple(moved, pack)
            rank = (loop not in used, packs and -way.narrow / packs, packs, sum(moved) == most)
            if kernel.at_once and packs != kernel.at_once:
                continue
            if packs and (best is None or rank > best[0]):
                best = (rank, way, packs, loop)
    return best[1:] if best else None


def cost_of_launch(launch, kernel, preset, code):
    """(cost of a warp, [(loop, instructions a pack, packs a turn)]) of a launch; of tensor-core kernels, of a piece of work."""
    cost = model.Cost()
    if kernel.by_products:
        # All ways are in the code, each product with what belongs to it: products stand for their share of all instructions.
        instructions = [one for block in code.order for one in block.instructions]
        products = sum(one.kind == "hmma" for one in instructions)
        if not products:
            raise Unclear(f"{launch.kernel}: no products on tensor cores in its code")
        whole = model.cost_of(instructions)
        share = launch.products / (launch.pieces * launch.threads / plan.WARP) / products  # of a warp in a piece
        cost.add(whole, share)
        cost.cycles += model.LATENCY["ldg"]
        return cost, []
    ways = code.ways(kernel.width, shared=kernel.shared)
    if kernel.once:
        pack = plan.pack_of(kernel.once, preset)
        if pack not in ways:
            there = ", ".join(f"{a} and {b}" for a, b in sorted(ways))
            raise Unclear(f"{launch.kernel}: no way through it loads {pack[0]} bytes and stores {pack[1]} in accesses of {kernel.width} bytes; "
                          f"ways load and store: {there}; correct KERNELS in kernel_bill_step.py")  # fmt: skip
        way = ways[pack]
    else:
        way = max(ways.values(), key=lambda way: (way.narrow < sass.ASIDE, way.length))
    once = way.instructions()
    cost.add(model.cost_of(once), 1)
    loops = []
    used = []
    for entry, turns in zip(kernel.loops, launch.turns, strict=True):
        pack = plan.pack_of(entry, preset)
        chosen = choose_loop(code, kernel, pack, used)
        if not chosen:
            there = "; ".join(f"{loop.head.first:#x}: " + ", ".join(f"{a} and {b}" for a, b in sorted(code.ways(kernel.width, loop, kernel.shared)))
                              for loop in code.loops)  # fmt: skip
            raise Unclear(f"{launch.kernel}: no loop loads {pack[0]} bytes and stores {pack[1]}, or a multiple, in accesses of {kernel.width} "
                          f"bytes; loops load and store: {there}; correct KERNELS in kernel_bill_step.py")  # fmt: skip
        way, packs, loop = chosen
        used.append(loop)
        instructions = way.instructions()
        cost.add(model.cost_of(instructions, again=True), turns / packs)
        loops.append({"at": f"{loop.head.first:#x}", "packs": packs, "instructions": len(instructions),
                      "classes": dict(sass.classes_of(instructions))})  # fmt: skip
    return cost, loops


def read_code(launch, kernel, preset, instances):
    """(what the instance takes of the device, its cost or None without cuobjdump, its loops)."""
    key = instances.key(launch.kernel, kernel, preset)
    if not instances.cuobjdump:
        return instances.taken[key], None, []
    code = instances.code(key)
    threads = instances.most_threads.get(key, launch.threads)
    if threads != launch.threads:
        raise Unclear(f"{launch.kernel}: compiled for blocks of {threads} threads, {launch.threads} in kernel_bill_step.py; correct step() there")
    return instances.taken[key], *cost_of_launch(launch, kernel, preset, code)


def bill_of(preset_name, instances):
    """(rows, one for each launch shape and for the products of a phase; messages of kernels whose code is unclear)."""
    preset = plan.PRESETS[preset_name]
    launches, products, others = plan.step(preset)
    rows = []
    unclear = []
    for launch in launches:
        kernel = plan.KERNELS[launch.kernel]
        try:
            taken, cost, loops = read_code(launch, kernel, preset, instances)
        except Unclear as error:
            unclear.append(str(error))
            taken, cost, loops = dict.fromkeys(registers.COLUMNS, 0), None, []
        resident = model.resident_blocks(launch.threads, taken["registers"], taken["shared"] + launch.shared)
        warps = -(-launch.threads // plan.WARP)
        row = {"kernel": launch.kernel, "phase": launch.phase, "launches": launch.times, "blocks": launch.blocks, "threads": launch.threads,
               "registers": taken["registers"], "spilled": taken["spilled"], "shared": taken["shared"] + launch.shared,
               "occupancy": resident * warps / model.WARPS, "bytes": launch.bytes, "flops": launch.flops}  # fmt: skip
        if cost:
            time = model.time_of_kernel(launch.bytes, cost, launch.blocks, launch.threads, resident, launch.pieces)
            warp_instructions = (launch.pieces or launch.blocks) * warps * cost.instructions
            lanes = 1 if kernel.by_products else plan.WARP
            row.update(instructions=warp_instructions, per_element=warp_instructions * lanes / launch.elements, loops=loops,
                       bandwidth_us=1e6 * time.bandwidth, units_us=1e6 * time.units, latency_us=1e6 * time.latency)  # fmt: skip
        else:
            time = model.Time(bandwidth=launch.bytes / (model.BANDWIDTH * model.REACHED_BANDWIDTH))
        row.update(limit=time.limit, us=1e6 * time.total, ms=1e3 * launch.times * time.total)
        rows.append(row)
    for product in products:
        time = model.time_of_product(product)
        rows.append({"kernel": "product", "shape": f"{product.m} x {product.n} x {product.k}", "phase": product.phase,
                     "launches": product.times, "bytes": product.bytes, "flops": product.flops, "limit": time.limit,
                     "us": 1e6 * time.total, "ms": 1e3 * product.times * time.total})  # fmt: skip
    for name, (phase, times, moved) in others.items():
        seconds = moved / (model.HOST_BANDWIDTH if "copy" in name else model.BANDWIDTH * model.REACHED_BANDWIDTH) + times * model.GAP
        rows.append({"kernel": name, "phase": phase, "launches": times, "bytes": moved / times, "flops": 0.0, "limit": "bandwidth",
                     "us": 1e6 * seconds / times, "ms": 1e3 * seconds})  # fmt: skip
    return rows, sorted(set(unclear))


def summed(rows):
    """Rows of one kernel as one: sums over the step, and the rest of the row that takes longest."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["kernel"]].append(row)
    result = []
    for group in groups.values():
        one = dict(max(group, key=lambda row: row["ms"]))
        for name in ("launches", "ms"):
            one[name] = sum(row[name] for row in group)
        for name in ("bytes", "flops", "instructions"):
            if name in one:
                one[name] = sum(row["launches"] * row[name] for row in group)
        result.append(one)
    return sorted(result, key=lambda row: -row["ms"])


def number(value, unit=""):
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f} {letter}{unit}"
    return f"{value:.0f} {unit}".strip()


def measured_cells(found):
    """ms of a step, bytes of device memory, and the share of time in which tensor cores computed."""
    if found is None:
        return [""] * 3
    tensor = "" if found.tensor_ms is None else f"{100 * found.tensor_ms / found.ms:.0f} %"
    return [f"{found.ms:.3f}", "" if found.bytes is None else number(found.bytes), tensor]


def print_bill(preset, rows, measured):
    kernels, phases, step_ms = measured.kernels, measured.phases, measured.step_ms
    header = ["kernel", "launches", "bytes", "flops", "instr.", "per elem.", "regs", "spill", "shared", "occup.", "us each", "limit", "ms"]
    table = []
    for row in summed(rows):
        line = [row["kernel"], str(row["launches"]), number(row["bytes"]), number(row["flops"]),
                number(row["instructions"]) if "instructions" in row else "", f"{row['per_element']:.1f}" if "per_element" in row else "",
                *(str(row.get(name, "")) for name in ("registers", "spilled", "shared")),
                f"{100 * row['occupancy']:.0f} %" if "occupancy" in row else "", f"{1e3 * row['ms'] / row['launches']:.1f}", row["limit"],
                f"{row['ms']:.3f}"]  # fmt: skip
        if kernels:
            line += measured_cells(measured.of_row(row["kernel"], row["launches"], plan.KERNELS))
        table.append(line)
    total = sum(row["ms"] for row in rows)
    table.append(["step", str(sum(row["launches"] for row in rows)), *[""] * 10, f"{total:.3f}"] + [""] * 3 * bool(kernels))
    if kernels:
        header += ["measured", "bytes", "tensor"]
    print(f"{preset}: {plan.ROWS:,} rows a side, vocabulary {plan.VOCABULARY:,}, bf16; predicted for one H200, nothing here was measured"
          + (" but the columns that say so" if kernels or phases else "") + "\n")  # fmt: skip
    print_table(header, table)
    by_phase = collections.Counter()
    for row in rows:
        by_phase[row["phase"]] += row["ms"]
    names = [*by_phase, *(name for name in phases if name not in by_phase)]
    lines = [[name, f"{by_phase[name]:.3f}"] + ([f"{phases[name]:.3f}" if name in phases else ""] if phases else []) for name in names]
    lines.append(["step", f"{total:.3f}"] + ([f"{step_ms:.3f}"] if phases else []))
    print()
    print_table(["phase", "ms"] + (["measured"] if phases else []), lines)


def print_table(header, rows):
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
    for line in [header, *rows]:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths))).rstrip())


def print_loops(rows):
    done = set()
    for row in rows:
        for loop in row.get("loops", []):
            key = (row["kernel"], loop["at"])
            if key not in done:
                done.add(key)
                classes = ", ".join(f"{count} {name}" for name, count in sorted(loop["classes"].items(), key=lambda one: -one[1]))
                print(f"{row['kernel']}, loop at {loop['at']}: {loop['instructions']} instructions for {loop['packs']} packs: {classes}")


def limits_of(rows):
    """kernel -> (launches, instructions an element): what the table keeps."""
    return {row["kernel"].replace(" ", "_"): (row["launches"], round(row["per_element"], 2)) for row in summed(rows) if "per_element" in row}


def read_table(file):
    """The version of nvcc, and (kernel, preset) -> (line, launches, instructions)."""
    rows = {}
    nvcc, lines = registers.lines_of(file)
    for line_number, words in lines:
        try:
            kernel, preset, launches, instructions = words
            rows[kernel, preset] = (line_number, int(launches), float(instructions))
        except ValueError:
            sys.exit(f"{file}:{line_number}: kernel, preset and two numbers are expected: {' '.join(words)}")
    return nvcc, rows


def compare(found, rows, file):
    """Lines that say what is wrong. found: (kernel, preset) -> (launches, instructions or None where they are not compared)."""
    wrong = []
    for (kernel, preset), (launches, instructions) in sorted(found.items()):
        if (kernel, preset) not in rows:
            wrong.append(f"{file}:1: no row for {kernel} of {preset}; it has {launches} launches a step")
            continue
        line, launches_of_table, limit = rows[kernel, preset]
        if launches != launches_of_table:
            wrong.append(f"{file}:{line}: {kernel} of {preset}: {launches} launches a step, {launches_of_table} expected")
        if instructions is not None and instructions > limit + 0.005:
            wrong.append(f"{file}:{line}: {kernel} of {preset}: {instructions:.2f} instructions an element, at most {limit:.2f} expected")
    for (kernel, preset), (line, *_) in rows.items():
        if (kernel, preset) not in found:
            wrong.append(f"{file}:{line}: there is no kernel {kernel} in a step of {preset}; take the row out")
    return wrong


def launches_of(preset):
    """kernel -> launches a step, with the names of the table."""
    found = collections.Counter()
    for launch in plan.step(plan.PRESETS[preset])[0]:
        found[launch.kernel.replace(" ", "_")] += launch.times
    return found


def wrong_counts():
    try:
        return plan.wrong_counts()
    except (OSError, ValueError) as error:
        sys.exit(str(error))


def check(arguments, instances):
    """The exit status."""
    nvcc = registers.nvcc_of(arguments.build)
    wrong = wrong_counts()
    nvcc_of_table, rows = read_table(arguments.table)
    nvcc_of_registers, limits = registers.table_of(registers.TABLE)
    reasons = []
    if nvcc != nvcc_of_table:
        reasons.append(f"instructions are not compared: {arguments.table.name} is of nvcc {nvcc_of_table}, the build of {nvcc}")
    elif not instances.cuobjdump:
        reasons.append(f"instructions are not compared: {NO_CUOBJDUMP}")
    if nvcc != nvcc_of_registers:
        reasons.append(f"registers are not compared: {registers.TABLE.name} is of nvcc {nvcc_of_registers}, the build of {nvcc}")
    found = {}
    for preset in plan.PRESETS:
        instructions = {}
        if nvcc == nvcc_of_table and instances.cuobjdump:
            bill, unclear = bill_of(preset, instances)
            instructions = {name: count for name, (_, count) in limits_of(bill).items()}
            wrong += [message for message in unclear if message not in wrong]
        for kernel, launches in launches_of(preset).items():
            found[kernel, preset] = (launches, instructions.get(kernel))
    wrong += compare(found, rows, arguments.table)
    if nvcc == nvcc_of_registers:
        wrong += registers.compare(registers.reported(arguments.build), limits, registers.TABLE)
    if wrong:
        print("\n".join(wrong))
        print("if it is meant: tests/bench/kernel_bill.py BUILD --write, and commit the difference")
        return 1
    print("\n".join(reasons) if reasons else f"{len(found)} rows of {arguments.table.name}, {len(limits)} of {registers.TABLE.name}: nothing grew")
    return SKIPPED if reasons else 0


def write(arguments, instances):
    if not instances.cuobjdump:
        sys.exit(f"instructions cannot be counted: {NO_CUOBJDUMP}")
    wrong = wrong_counts()
    if wrong:
        sys.exit("\n".join(wrong))
    nvcc = registers.nvcc_of(arguments.build)
    lines = []
    for preset in plan.PRESETS:
        bill, unclear = bill_of(preset, instances)
        if unclear:
            sys.exit("\n".join(unclear))
        for kernel, (launches, instructions) in sorted(limits_of(bill).items()):
            lines.append(f"{kernel} {preset} {launches} {instructions:.2f}\n")
    arguments.table.write_text(f"{HEAD}nvcc {nvcc}\n" + "".join(sorted(lines)), encoding="utf-8")
    return registers.write(registers.reported(arguments.build), nvcc, registers.TABLE)


def compile_kernels(build, architecture):
    number_of = architecture.removeprefix("sm_")
    options = ["-DVENTRIS_CUDA=ON", "-DVENTRIS_TESTS=OFF", f"-DCMAKE_CUDA_ARCHITECTURES={number_of}-real"]
    for command in (["cmake", "--preset", "release", "-B", str(build.resolve()), *options],
                    ["cmake", "--build", str(build.resolve()), "--target", "ventris_cuda_kernels"]):  # fmt: skip
        if subprocess.run(command, cwd=ROOT, check=False, stdout=sys.stderr).returncode != 0:
            sys.exit(f"{' '.join(command)}: failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--compile", action="store_true", help="configure the folder and compile the kernels for --arch")
    parser.add_argument("--preset", choices=plan.PRESETS, default="base")
    parser.add_argument("--arch", default=ARCHITECTURE)
    parser.add_argument("--measured", type=pathlib.Path, metavar="FILE", help="JSON of ventris train --profile --json, or ncu --csv")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--loops", action="store_true", help="also print the loops with their instructions by class")
    parser.add_argument("--table", type=pathlib.Path, default=TABLE)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true")
    action.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if (arguments.check or arguments.write) and arguments.arch != ARCHITECTURE:
        parser.error(f"--check and --write are for {ARCHITECTURE}, of which the table is")
    measured = measurements.read(arguments.measured) if arguments.measured else measurements.Measured()
    if arguments.compile:
        compile_kernels(arguments.build, arguments.arch)
    instances = Instances(arguments.build, arguments.arch, sass.find_cuobjdump())
    if not instances.taken:
        print(f"{arguments.build}: no kernel was built for {arguments.arch}; build them with: "
              f"cmake --build {arguments.build} --target ventris_cuda_kernels")  # fmt: skip
        return SKIPPED if arguments.check else 1
    try:
        if arguments.check:
            return check(arguments, instances)
        if arguments.write:
            return write(arguments, instances)
        rows, unclear = bill_of(arguments.preset, instances)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{instances.cuobjdump}: {error}: {getattr(error, 'stderr', '')}")
    wrong = unclear + wrong_counts()
    if arguments.json:
        print(json.dumps({"preset": arguments.preset, "ms": sum(row["ms"] for row in rows), "rows": rows, "wrong": wrong}))
        return 1 if wrong else 0
    if not instances.cuobjdump:
        print("There is no cuobjdump: times are those of memory alone.\n")
    print_bill(arguments.preset, rows, measured)
    if arguments.loops:
        print()
        print_loops(rows)
    if wrong:
        print("\nThe bill is wrong (a kernel whose code is not understood has the time of its memory alone):\n" + "\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
