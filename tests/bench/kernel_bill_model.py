# SPDX-License-Identifier: Apache-2.0
"""The time that a kernel is predicted to take on a GPU: the greatest of what memory, the units and waiting take.

Constants are of the H200 SXM, with their source; "assumed" are guesses that a measurement replaces.
"""

import collections
import dataclasses

# NVIDIA H200 data sheet.
BANDWIDTH = 4.8e12  # bytes/s
TENSOR_FLOPS = 989e12  # bf16, without sparsity
# NVIDIA H100 whitepaper (the H200 has its chip), full boost.
MULTIPROCESSORS = 132
CLOCK = 1.98e9
# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", 9.0.
WARPS = 64  # of a multiprocessor, as all below
BLOCKS = 32
REGISTERS = 65_536
SHARED = 233_472
SHARED_OF_SYSTEM = 1024  # of a block
# cuda_occupancy.h of the toolkit: how registers (of a warp) and shared memory (of a block) are given out.
REGISTER_UNIT = 256
WARP_UNIT = 4
SHARED_UNIT = 128

# Assumed: what long streams of loads and stores reach, and large products; no GPU was measured.
REACHED_BANDWIDTH = 0.90
REACHED_PRODUCT = 0.70
HOST_BANDWIDTH = 50e9  # bytes/s, PCIe 5.0 x16; assumed
# Assumed: from the end of a kernel to the first instruction of the next one in a graph.
GAP = 1.2e-6

# Warp instructions that a multiprocessor takes in a cycle, of each unit: its four schedulers issue one each; the units' are results
# per cycle / 32 (CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions", 9.0). A product of 16 x 8 x 16 is 2048
# of the 2048 multiplications a cycle; that mma.sync reaches 62 % of them is assumed, after arXiv:2402.13499 (H800).
ISSUE = 4.0
UNITS = {"alu": 2.0, "fma": 4.0, "imad": 2.0, "fp64": 2.0, "xu": 0.5, "memory": 1.0, "tensor": 0.62}

# Cycles until a result can be used: assumed, of the order that arXiv:2402.13499 measures on an H800, device memory longer for its load.
LATENCY = {"mufu": 20, "convert": 10, "fp64": 8, "hmma": 33, "shuffle": 24, "barrier": 20, "atomic": 300, "ldg": 650, "lds": 30,
           "constant": 30, "spill": 40}  # fmt: skip
LATENCY_OF_OTHERS = 5


def unit_of(one):
    """(unit, warp instructions that one counts for)."""
    name = one.name.split(".")[0]
    if name in ("IMAD", "UIMAD"):
        return "imad", 1
    if name in ("FADD", "FMUL", "FFMA", "HFMA2", "HADD2", "HMUL2", "FFMA2", "FADD2", "FMUL2"):
        return "fma", 1
    if one.kind == "fp64":
        return "fp64", 1
    if one.kind == "mufu" or name in ("F2F", "I2F", "F2I", "POPC", "FLO"):
        return "xu", 1
    if one.kind == "hmma":
        return "tensor", 1
    if one.kind in ("ldg", "stg", "lds", "sts", "async", "spill"):
        return "memory", max(1, one.width / 4)
    if one.kind in ("shuffle", "atomic"):
        return "memory", 1
    if one.kind in ("int", "fp32", "convert"):
        return "alu", 1
    return None, 0


@dataclasses.dataclass
class Cost:
    """What a warp needs: instructions, by unit, and cycles if it were alone."""

    instructions: float = 0.0
    units: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    cycles: float = 0.0

    def add(self, other, times):
        self.instructions += times * other.instructions
        self.cycles += times * other.cycles
        for unit, count in other.units.items():
            self.units[unit] += times * count


def cycles_of(instructions):
    """Cycles from the first instruction of a warp to the last, in order: each waits for its operands."""
    ready = collections.defaultdict(float)
    now = 0.0
    last_copy = LATENCY["ldg"]  # of asynchronous copies, which may have begun before these instructions
    for one in instructions:
        written, read = one.registers
        start = max([now, *(ready[name] for name in read)])
        if one.kind == "async":
            last_copy = start + LATENCY["ldg"]
        elif one.name.startswith("DEPBAR"):
            start = max(start, last_copy)
        wait = LATENCY.get(one.kind, LATENCY_OF_OTHERS)
        if one.name.startswith("BAR"):
            start += wait
        for name in written:
            ready[name] = start + wait
        now = start + 1
    return now


def cost_of(instructions, again=False):
    """`again`: of a loop, whose next turns begin while the last results of the previous one are awaited."""
    cost = Cost(instructions=len(instructions))
    for one in instructions:
        unit, count = unit_of(one)
        if unit:
            cost.units[unit] += count
    cost.cycles = cycles_of(instructions * 3) - cycles_of(instructions * 2) if again else cycles_of(instructions)
    return cost


def resident_blocks(threads, registers, shared):
    """Blocks of a kernel that a multiprocessor holds at a time. `shared`: static and dynamic bytes."""
    warps = -(-threads // 32)
    of_warp = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // of_warp // WARP_UNIT * WARP_UNIT // warps if registers else BLOCKS
    of_block = -(-(shared + SHARED_OF_SYSTEM) // SHARED_UNIT) * SHARED_UNIT
    return max(1, min(BLOCKS, WARPS // warps, by_registers, SHARED // of_block))


@dataclasses.dataclass
class Time:
    """Seconds of one launch."""

    bandwidth: float = 0.0
    units: float = 0.0
    latency: float = 0.0
    busiest: str = ""  # unit

    @property
    def limit(self):
        greatest = max(self.bandwidth, self.units, self.latency)
        return {self.bandwidth: "bandwidth", self.units: self.busiest, self.latency: "latency"}[greatest]

    @property
    def total(self):
        return GAP + max(self.bandwidth, self.units, self.latency)


def time_of_kernel(bytes_, cost, blocks, threads, resident, pieces=0):
    """`cost`: of one warp. `pieces`: of work that resident blocks draw one after the other; then the cost is of one of them."""
    warps = -(-threads // 32)
    turns = pieces or blocks
    used = min(MULTIPROCESSORS, turns)
    share = turns * warps / used  # of a multiprocessor
    cycles = {"issue": share * cost.instructions / ISSUE}
    for unit, count in cost.units.items():
        cycles[unit] = share * count / UNITS[unit]
    busiest = max(cycles, key=lambda unit: cycles[unit])
    waves = max(1.0, turns / (MULTIPROCESSORS * resident))
    return Time(bytes_ / (BANDWIDTH * REACHED_BANDWIDTH), cycles[busiest] / CLOCK, waves * cost.cycles / CLOCK, busiest)


def time_of_product(product):
    return Time(product.bytes / (BANDWIDTH * REACHED_BANDWIDTH), product.flops / (TENSOR_FLOPS * REACHED_PRODUCT), busiest="tensor")
