# SPDX-License-Identifier: Apache-2.0
"""Machine code of kernels, as cuobjdump -sass prints it: instructions by class, loops, and the way that a warp takes.

A loop is a jump back to a block that dominates it. Of the ways through a loop or a kernel one is counted: that which moves the
expected bytes in accesses of the expected width, of these that with the fewest narrower accesses, and of these the longest. So the
ways for the end of a row or for addresses that are not aligned, which move the same bytes in smaller pieces, are left out, and
dropout, which moves none, is counted.
"""

import collections
import dataclasses
import functools
import math
import os
import pathlib
import re
import shutil
import subprocess

# Classes of instructions, by the first word of the mnemonic. What is not named here is "int".
CLASSES = {
    "fp32": "FADD FMUL FFMA FSETP FSEL FMNMX FMNMX3 FSET FCHK FADD2 FMUL2 FFMA2",
    "fp64": "DADD DMUL DFMA DSETP DMNMX",
    "half": "HADD2 HMUL2 HFMA2 HSETP2 HMNMX2 HSET2",
    "mufu": "MUFU",
    "convert": "F2F F2I I2F F2FP FRND I2FP I2I F2IP",
    "hmma": "HMMA IMMA WARPGROUP HGMMA",
    "shuffle": "SHFL VOTE VOTEU MATCH REDUX",
    "branch": "BRA BRX JMP EXIT CALL RET BSSY BSYNC BREAK WARPSYNC YIELD NANOSLEEP BMOV ENDCOLLECTIVE",
    "barrier": "BAR DEPBAR LDGDEPBAR SYNCS MEMBAR ERRBAR CCTL",
    "atomic": "ATOM ATOMG ATOMS RED",
    "ldg": "LDG LD",
    "stg": "STG ST",
    "lds": "LDS LDSM",
    "sts": "STS STSM",
    "async": "LDGSTS UBLKCP UTMALDG",
    "spill": "LDL STL",
    "constant": "LDC ULDC",
}
CLASS_OF = {name: kind for kind, names in CLASSES.items() for name in names.split()}
IMAD = ("IMAD", "VIADD")  # on the units of FFMA (IMAD: on half of them)

ASIDE = 1_000_000  # accesses that a call counts for: a way with one is taken only where there is no other
NO_TAKE = re.compile(r"BRA\.(DIV|CONV)|BRX")  # to code that is out of the way: lanes that diverged
LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P[T0-9]+)\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);")
FUNCTION = re.compile(r"^\s+Function : (\S+)")
REGISTER = re.compile(r"(?<![A-Z0-9])(U?R)(\d+)(\.64)?(?![A-Z0-9x])|(?<![A-Z0-9])(U?P)([0-6])(?![0-9])")


@dataclasses.dataclass
class Instruction:
    address: int
    predicate: str  # or ""
    name: str  # with its modifiers, as in LDG.E.128
    operands: str

    @functools.cached_property
    def kind(self):
        return CLASS_OF.get(self.name.split(".")[0], "int")

    @functools.cached_property
    def width(self):
        """Bytes that a thread moves; 0 if the instruction moves none."""
        if self.kind not in ("ldg", "stg", "lds", "sts", "spill", "async"):
            return 0
        if self.name.startswith(("LDSM", "STSM")):
            return 4 * int(self.name[-1]) if self.name[-1] in "24" else 4
        for bits, size in ((".128", 16), (".64", 8), (".U16", 2), (".S16", 2), (".U8", 1), (".S8", 1)):
            if bits in self.name:
                return size
        return 4

    @property
    def target(self):
        """Of a jump."""
        found = re.search(r"0x([0-9a-f]+)\s*$", self.operands.strip())
        return int(found[1], 16) if found else None

    @functools.cached_property
    def registers(self):
        """(written, read), each a list of names."""
        written, read = [], []
        if self.predicate:
            read += names_of(self.predicate)
        parts = split_operands(self.operands)
        outputs = 1 if parts else 0
        if self.kind in ("stg", "sts", "barrier", "branch") or self.name.startswith(("STL", "RED", "LDGSTS")):
            outputs = 0
        elif self.name.split(".")[0] in ("ISETP", "FSETP", "DSETP", "PLOP3", "HSETP2", "UISETP"):
            outputs = 2
        elif parts and re.fullmatch(r"U?P[T0-6]", parts[0]):
            outputs = 2  # a predicate before the result, as of SHFL
        size = 1
        if self.kind in ("ldg", "lds") or self.name.startswith("LDL"):
            size = max(1, self.width // 4)
        elif "WIDE" in self.name or self.kind == "fp64" or ".64" in self.name:
            size = 2
        for place, part in enumerate(parts):
            if place < outputs:
                written += names_of(part, 4 if self.kind == "hmma" else size)
            elif place == 1 and outputs == 1 and re.fullmatch(r"!?U?P[0-6]", part):
                written += names_of(part)  # the carry of an addition
            else:
                wide = 2 if self.kind == "fp64" or ".64" in part else 1
                if self.kind in ("stg", "sts") and place == len(parts) - 1:
                    wide = max(1, self.width // 4)
                elif self.kind == "hmma":
                    wide = (4, 2, 4)[min(place - 1, 2)]
                read += names_of(part, wide)
        return written, read


def split_operands(text):
    """Operands, without splitting inside of brackets."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()]


def names_of(text, size=1):
    """Registers and predicates in an operand; `size`: of the registers that belong together."""
    names = []
    for found in REGISTER.finditer(text):
        if found[1]:
            wide = max(size, 2 if found[3] else 1)
            names += [f"{found[1]}{int(found[2]) + i}" for i in range(wide)]
        else:
            names.append(found[4] + found[5])
    return names


def parse(text):
    """name -> instructions, of the output of cuobjdump -sass."""
    functions = {}
    current = None
    for line in text.splitlines():
        found = LINE.match(line)
        if found:
            if current is not None:
                current.append(Instruction(int(found[1], 16), found[2] or "", found[3], found[4].strip()))
            continue
        found = FUNCTION.match(line)
        if found:
            current = functions.setdefault(found[1], [])
    return functions


def find_cuobjdump():
    """The program that prints machine code: $CUOBJDUMP, or on the path, or beside nvcc, or where the toolkit is by default. Or None."""
    chosen = os.environ.get("CUOBJDUMP")
    if chosen:
        return chosen if os.access(chosen, os.X_OK) else None
    nvcc = shutil.which("nvcc")
    beside = pathlib.Path(nvcc).resolve().parent / "cuobjdump" if nvcc else None
    for place in (shutil.which("cuobjdump"), beside, "/usr/local/cuda/bin/cuobjdump"):
        if place and os.access(place, os.X_OK):
            return str(place)
    return None


def run_cuobjdump(cuobjdump, option, object_file, architecture):
    """What it prints. Raises OSError or CalledProcessError."""
    # It starts nvdisasm, which stands beside it.
    path = f"{pathlib.Path(cuobjdump).resolve().parent}{os.pathsep}{os.environ.get('PATH', '')}"
    command = [cuobjdump, option, "-arch", architecture, str(object_file)]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PATH": path}).stdout


def disassemble(cuobjdump, object_file, architecture):
    """name -> instructions, of one object."""
    return parse(run_cuobjdump(cuobjdump, "-sass", object_file, architecture))


def most_threads(text):
    """name -> threads of a block at most, for the kernels with __launch_bounds__, of the output of cuobjdump -elf."""
    found = {}
    current = attribute = ""
    for line in text.splitlines():
        if line.startswith(".nv.info."):
            current = line.removeprefix(".nv.info.").strip()
        elif line.startswith("."):
            current = ""
        elif "Attribute:" in line:
            attribute = line.split()[-1]
        elif "Value:" in line and attribute == "EIATTR_MAX_THREADS" and current:
            found[current] = math.prod(int(number, 16) for number in line.split()[1:])
    return found


class Block:
    def __init__(self, instructions):
        self.instructions = instructions
        self.next = []
        self.before = []
        self.aside = any(i.name.startswith(("CALL", "RET", "ENDCOLLECTIVE")) for i in instructions)

    @property
    def first(self):
        return self.instructions[0].address


class Code:
    """Blocks and loops of one kernel."""

    def __init__(self, instructions):
        # What follows the last jump, NOPs, fills up.
        self.instructions = [i for i in instructions if i.name != "NOP"]
        self.blocks = self.split()
        self.entry = self.blocks[0]
        self.order = self.reachable()
        self.dominators = self.find_dominators()
        self.loops = self.find_loops()

    def split(self):
        jumps = {"BRA", "EXIT", "RET", "JMP", "CALL"}
        starts = {self.instructions[0].address}
        for here, after in zip(self.instructions, [*self.instructions[1:], None]):
            if here.name.split(".")[0] in jumps:
                if here.target is not None and not here.name.startswith("CALL"):
                    starts.add(here.target)
                if after:
                    starts.add(after.address)
        blocks = []
        for one in self.instructions:
            if one.address in starts:
                blocks.append([])
            blocks[-1].append(one)
        blocks = [Block(part) for part in blocks]
        at = {block.first: block for block in blocks}
        for block, after in zip(blocks, [*blocks[1:], None]):
            last = block.instructions[-1]
            base = last.name.split(".")[0]
            may_not = last.predicate or re.search(r"\bU?P[0-6]\b", last.operands)
            falls = bool(may_not) or base not in ("BRA", "EXIT", "RET", "JMP")
            if base in ("BRA", "JMP") and not NO_TAKE.match(last.name) and last.target in at:
                block.next.append(at[last.target])
            if NO_TAKE.match(last.name):
                falls = True
            if falls and after:
                block.next.append(after)
            for one in block.next:
                one.before.append(block)
        return blocks

    def reachable(self):
        """Blocks in an order in which each, but for jumps back, stands before those that follow it."""
        done, order = set(), []
        stack = [(self.entry, iter(self.entry.next))]
        done.add(self.entry)
        while stack:
            block, left = stack[-1]
            for one in left:
                if one not in done:
                    done.add(one)
                    stack.append((one, iter(one.next)))
                    break
            else:
                order.append(block)
                stack.pop()
        return order[::-1]

    def find_dominators(self):
        """block -> all that stand on every way to it."""
        place = {block: i for i, block in enumerate(self.order)}
        every = set(self.order)
        found = dict.fromkeys(self.order, every)
        found[self.entry] = {self.entry}
        changed = True
        while changed:
            changed = False
            for block in self.order[1:]:
                new = set.intersection(*(found[p] for p in block.before if p in place)) | {block}
                if new != found[block]:
                    found[block], changed = new, True
        return found

    def find_loops(self):
        """Loops, the innermost first, each with its blocks; those with the same head are one."""
        bodies = {}
        for block in self.order:
            for head in block.next:
                if head not in self.dominators[block]:
                    continue
                body = bodies.setdefault(head, {head})
                stack = [block]
                while stack:
                    one = stack.pop()
                    if one not in body:
                        body.add(one)
                        stack += [p for p in one.before if p in self.dominators]
        loops = [Loop(self, head, body) for head, body in bodies.items()]
        loops.sort(key=lambda loop: (len(loop.body), loop.head.first))
        for i, loop in enumerate(loops):
            loop.outer = next((other for other in loops[i + 1:] if loop.head in other.body and other is not loop), None)
        return loops

    def ways(self, width, loop=None, shared=True):
        """(bytes loaded, bytes stored) by accesses of `width` bytes -> the longest Way that moves them: through the kernel, or
        once through a loop. Inner loops are passed by, as their turns are counted apart. Without `shared` accesses to shared
        memory do not count."""
        inside = loop.body if loop else set(self.order)
        head = loop.head if loop else self.entry
        inner = {}  # block -> the outermost loop inside that it belongs to
        for other in self.loops:  # the innermost first, so that the last one wins
            if other is not loop and other.body <= inside:
                for block in other.body:
                    inner[block] = other
        best = collections.defaultdict(dict)
        best[head][(0, 0)] = Way(0, 0, None, None)
        done = {}
        for block in self.order:
            if block not in inside or not best[block]:
                continue
            ends = block.next
            moved, narrow = moved_by(block, width, shared)
            weight = len(block.instructions)
            counted = block
            if block in inner:
                # All of a loop inside is one piece, entered at its head and without weight of its own.
                around = inner[block]
                if block is not around.head:
                    continue
                ends = [to for one in around.body for to in one.next if to not in around.body]
                moved, narrow, weight, counted = (0, 0), 0, 0, None
            elif block.aside:
                narrow += ASIDE
            here = {(a + moved[0], b + moved[1]): Way(way.narrow + narrow, way.length + weight, way, counted)
                    for (a, b), way in best[block].items()}  # fmt: skip
            leaves = [to for to in ends if loop is None or to in inside]
            if loop is not None and head in ends or not loop and not ends:
                for key, way in here.items():
                    if key not in done or way.better_than(done[key]):
                        done[key] = way
            for to in leaves:
                if to is head or to not in inside:
                    continue
                for key, way in here.items():
                    if key not in best[to] or way.better_than(best[to][key]):
                        best[to][key] = way
        return done


@dataclasses.dataclass
class Way:
    narrow: int  # accesses narrower than those expected
    length: int  # instructions
    before: object
    block: object

    def better_than(self, other):
        return (-self.narrow, self.length) > (-other.narrow, other.length)

    def instructions(self):
        blocks = []
        way = self
        while way:
            if way.block:
                blocks.append(way.block)
            way = way.before
        return [i for block in reversed(blocks) for i in block.instructions]


class Loop:
    def __init__(self, code, head, body):
        self.code = code
        self.head = head
        self.body = body
        self.outer = None


def moved_by(block, width, shared):
    """((bytes loaded, bytes stored) by accesses of `width` bytes, number of narrower ones). Constants, of dropout, are neither."""
    kinds = (("ldg", "async", "lds"), ("stg", "sts")) if shared else (("ldg", "async"), ("stg",))
    loaded, stored = (sum(i.width for i in block.instructions if i.kind in of and i.width == width) for of in kinds)
    narrow = sum(0 < i.width < width for i in block.instructions if i.kind in ("ldg", "stg") and ".CONSTANT" not in i.name)
    return (loaded, stored), narrow


def classes_of(instructions):
    """class -> count; of accesses to memory by their width, as ldg.128."""
    counts = collections.Counter()
    for one in instructions:
        counts[f"{one.kind}.{8 * one.width}" if one.width and one.kind != "spill" else one.kind] += 1
    return counts
