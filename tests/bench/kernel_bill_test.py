# SPDX-License-Identifier: Apache-2.0
"""kernel_bill.py: what it reads of machine code and tables, and that it finds what grew. Needs neither CUDA nor a GPU."""

import contextlib
import io
import pathlib
import tempfile
import types
import unittest
import unittest.mock

import kernel_bill as bill
import kernel_bill_measured as measurements
import kernel_bill_model as model
import kernel_bill_sass as sass
import kernel_bill_step as plan

# As cuobjdump prints it: a loop over packs of 16 bytes with a way for a row that is not aligned, and dropout that may be off.
HEAD = "\t\tFunction : _Z3sumPf\n"
LOOP = (
    ("", "S2R R0, SR_TID.X"),
    ("", "ISETP.GE.AND P0, PT, R0, c[0x0][0x210], PT"),
    ("@P0", "EXIT"),
    # 0x30: the head of the loop
    ("@!P1", "BRA 0x70"),
    ("", "LDG.E.U16 R4, desc[UR4][R2.64]"),
    ("", "LDG.E.U16 R5, desc[UR4][R2.64+0x2]"),
    ("", "BRA 0x80"),
    # 0x70
    ("", "LDG.E.128 R4, desc[UR4][R2.64]"),
    # 0x80
    ("@P2", "BRA 0xb0"),
    ("", "IMAD.WIDE.U32 R8, R4, R5, RZ"),
    ("", "LOP3.LUT R4, R8, R9, RZ, 0x3c, !PT"),
    # 0xb0
    ("", "STG.E.128 desc[UR4][R2.64], R4"),
    ("", "IADD3 R0, R0, 0x8, RZ"),
    ("@!P0", "BRA 0x30"),
    ("", "EXIT"),
    # what diverged lanes do
    ("", "BRA 0xf0"),
)


def text_of(lines):
    return HEAD + "".join(f"        /*{16 * i:04x}*/ {predicate:>8} {rest} ;   /* 0x0 */\n" for i, (predicate, rest) in enumerate(lines))


def code_of(lines):
    return sass.Code(sass.parse(text_of(lines))["_Z3sumPf"])


def with_more(extra, at=12):
    """LOOP with more instructions before the one at the place `at`, and its jumps where they belong."""
    moved = {f"{16 * i:#x}": f"{16 * (i + (len(extra) if i >= at else 0)):#x}" for i in range(len(LOOP))}
    lines = [(predicate, " ".join(moved.get(word, word) if "BRA" in rest else word for word in rest.split(" "))) for predicate, rest in LOOP]
    return [*lines[:at], *extra, *lines[at:]]


class MachineCode(unittest.TestCase):
    def test_a_loop_is_found_and_the_way_through_it(self):
        code = code_of(LOOP)
        self.assertEqual([loop.head.first for loop in code.loops], [0x30])
        way, packs, loop = bill.choose_loop(code, plan.Kernel(""), (16, 16), [])
        self.assertEqual((packs, loop.head.first), (1, 0x30))
        # Aligned, with dropout: all but the three instructions of the other way.
        self.assertEqual([one.address for one in way.instructions()], [0x30, 0x70, 0x80, 0x90, 0xA0, 0xB0, 0xC0, 0xD0])
        self.assertEqual(sass.classes_of(way.instructions()), {"branch": 3, "int": 3, "ldg.128": 1, "stg.128": 1})

    def test_a_loop_that_moves_something_else_is_refused(self):
        self.assertIsNone(bill.choose_loop(code_of(LOOP), plan.Kernel(""), (32, 16), []))
        self.assertIsNone(bill.choose_loop(code_of(LOOP), plan.Kernel("", width=4), (4, 0), []))

    def test_an_unrolled_loop_counts_for_several_packs(self):
        twice = with_more([("", "LDG.E.128 R12, desc[UR4][R2.64+0x10]"), ("", "STG.E.128 desc[UR4][R2.64+0x10], R12")])
        way, packs, _ = bill.choose_loop(code_of(twice), plan.Kernel(""), (16, 16), [])
        self.assertEqual((packs, len(way.instructions())), (2, 10))
        self.assertIsNone(bill.choose_loop(code_of(twice), plan.Kernel("", at_once=1), (16, 16), []))
        self.assertAlmostEqual(self.per_element(twice), (4 + 10 * 100 / 2) / 100 / 8)

    def test_shared_memory_counts_where_it_is_said(self):
        through = with_more([("", "STS.128 [R9], R4"), ("", "LDS.128 R4, [R9]")])
        for shared, moved in ((True, (32, 32)), (False, (16, 16))):
            kernel = plan.Kernel("", shared=shared)
            self.assertEqual(bill.choose_loop(code_of(through), kernel, moved, [])[1], 1)

    def launch(self, **changes):
        return plan.Launch("sum", "", **{**dict(times=1, blocks=1, threads=32, elements=8 * 32, bytes=0, turns=(1,)), **changes})

    def per_element(self, lines):
        kernel = plan.Kernel("sum_cuda.cu", loops=((16, 16),))
        cost, _ = bill.cost_of_launch(self.launch(turns=(100,)), kernel, plan.PRESETS["base"], code_of(lines))
        return cost.instructions / 100 / 8

    def test_arithmetic_in_a_loop_is_found(self):
        found = {("sum", "base"): (1, self.per_element(LOOP))}
        rows = {("sum", "base"): (7, 1, round(self.per_element(LOOP), 2))}
        self.assertEqual(bill.compare(found, rows, "table"), [])
        wide = with_more([("", "IADD3 R2, P3, R2, 0x10, RZ"), ("", "IMAD.X R3, RZ, RZ, R3, P3")])
        found = {("sum", "base"): (1, self.per_element(wide))}
        self.assertEqual(bill.compare(found, rows, "table"),
                         ["table:7: sum of base: 1.25 instructions an element, at most 1.00 expected"])  # fmt: skip

    def test_a_way_that_is_not_there_is_named(self):
        kernel = plan.Kernel("sum_cuda.cu", once=(1, 64, 0))
        with self.assertRaisesRegex(bill.Unclear, "sum: no way through it loads 64 bytes and stores 0 .*kernel_bill_step.py"):
            bill.cost_of_launch(self.launch(), kernel, plan.PRESETS["base"], code_of(LOOP))
        kernel = plan.Kernel("sum_cuda.cu", loops=((64, 0),))
        with self.assertRaisesRegex(bill.Unclear, "sum: no loop loads 64 bytes and stores 0.*0x30: 0 and 16, 16 and 16"):
            bill.cost_of_launch(self.launch(), kernel, plan.PRESETS["base"], code_of(LOOP))

    def test_blocks_of_another_size_are_found(self):
        elf = (".nv.info\n\tAttribute:\tEIATTR_REGCOUNT\n\tValue:\t0x1 0x2\n"
               ".nv.info._Z3sumPf\n\t<0x1>\n\tAttribute:\tEIATTR_CUDA_API_VERSION\n\tFormat:\tEIFMT_SVAL\n\tValue:\t0x7c\n"
               "\tAttribute:\tEIATTR_MAX_THREADS\n\tFormat:\tEIFMT_SVAL\n\tValue:\t0x40 0x2 0x1\n")  # fmt: skip
        self.assertEqual(sass.most_threads(elf), {"_Z3sumPf": 128})
        key = ("sum_cuda.cu", "sum")
        instances = types.SimpleNamespace(cuobjdump="cuobjdump", key=lambda *_: key, code=lambda _: code_of(LOOP), most_threads={key: 128},
                                          taken={key: {}})  # fmt: skip
        kernel = plan.Kernel("sum_cuda.cu", loops=((16, 16),))
        bill.read_code(self.launch(threads=128), kernel, plan.PRESETS["base"], instances)
        with self.assertRaisesRegex(bill.Unclear, "sum: compiled for blocks of 128 threads, 32 in kernel_bill_step.py"):
            bill.read_code(self.launch(), kernel, plan.PRESETS["base"], instances)

    def test_a_warp_waits_for_its_operands(self):
        load = "LDG.E.128 R4, desc[UR4][R2.64]"
        apart = [("", load), ("", "FADD R20, R21, R22"), ("", "EXIT")]
        depends = [("", load), ("", "FADD R20, R7, R22"), ("", "EXIT")]
        self.assertEqual(model.cycles_of(code_of(apart).instructions), 3)
        self.assertEqual(model.cycles_of(code_of(depends).instructions), model.LATENCY["ldg"] + 2)
        stores = [("", load), ("", "STG.E.128 desc[UR4][R2.64], R4"), ("", "EXIT")]
        self.assertEqual(model.cycles_of(code_of(stores).instructions), model.LATENCY["ldg"] + 2)
        shuffled = [("", "SHFL.BFLY PT, R5, R4, 0x10, 0x1f"), ("", "FADD R6, R5, R4"), ("", "EXIT")]
        self.assertEqual(model.cycles_of(code_of(shuffled).instructions), model.LATENCY["shuffle"] + 2)
        # A wait for copies to shared memory, which alone count as loads.
        copies = [("", "LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64]"), ("", "LDGDEPBAR"), ("", "DEPBAR.LE SB0, 0x0"), ("", "EXIT")]
        self.assertEqual(model.cycles_of(code_of(copies).instructions), model.LATENCY["ldg"] + 2)
        self.assertEqual(list(code_of(copies).ways(16)), [(16, 0)])
        # The last of four registers alone is awaited.
        stores = [("", "LDG.E R7, desc[UR4][R2.64]"), *stores[1:]]
        self.assertEqual(model.cycles_of(code_of(stores).instructions), model.LATENCY["ldg"] + 2)


class Prediction(unittest.TestCase):
    def test_resident_blocks(self):
        # Limited by registers: 65,536 / (128 * 128); 8 warps of 215, given out as 216; then shared memory, threads, blocks.
        self.assertEqual(model.resident_blocks(128, 128, 0), 4)
        self.assertEqual(model.resident_blocks(256, 215, 12288), 1)
        self.assertEqual(model.resident_blocks(128, 32, 55424), 4)
        self.assertEqual(model.resident_blocks(96, 200, 0), 2)  # registers for 10 warps, given out to 4 at a time
        self.assertEqual(model.resident_blocks(256, 32, 0), 8)
        self.assertEqual(model.resident_blocks(32, 16, 0), 32)

    def test_the_greatest_limit_decides(self):
        idle = model.Cost(instructions=10, cycles=100)
        moves = model.time_of_kernel(4.32e12, idle, 1000, 256, 8)
        self.assertEqual((moves.limit, round(moves.total, 3)), ("bandwidth", 1.0))
        self.assertEqual(model.time_of_kernel(0, idle, 1, 32, 8).limit, "latency")
        busy = model.Cost(instructions=1000, units={"xu": 500}, cycles=1000)
        computes = model.time_of_kernel(0, busy, 132 * 8, 256, 8)
        self.assertEqual(computes.limit, "xu")
        self.assertAlmostEqual(computes.units, 8 * 8 * 500 / model.UNITS["xu"] / model.CLOCK)


class Step(unittest.TestCase):
    def test_launches_are_those_of_the_emulated_device(self):
        self.assertEqual(plan.wrong_counts(), [])

    def test_another_launch_is_found(self):
        text = plan.LAUNCHES_TEST.read_text(encoding="utf-8")
        self.assertIn('{"norm_forward",               { 10,  10,  12}}', text)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "launches_test.cc")
            file.write_text(text.replace('"norm_forward",               { 10,  10,', '"norm_forward",               { 10,  11,', 1))
            expected = "norm_forward: 11 launches a step in launches_test.cc (2 layers a side), 10 in kernel_bill_step.py; correct step() there"
            self.assertEqual(plan.wrong_counts(file), [expected])
            file.write_text("")
            with self.assertRaisesRegex(ValueError, "launches_test.cc: neither"):
                plan.wrong_counts(file)

    def test_shapes(self):
        base, big = plan.PRESETS["base"], plan.PRESETS["big"]
        self.assertEqual((base.parameters, big.parameters), (63_143_936, 214_368_256))
        # model/flop_count.cc, with the padded vocabulary.
        for preset in (base, big):
            d, ff, rows = preset.d_model, preset.d_ff, plan.ROWS
            expected = 6 * rows * (preset.layers * (12 * d * d + 4 * d * ff) + d * preset.vocabulary)
            self.assertEqual(sum(product.times * product.flops for product in plan.step(preset)[1]), expected)
        self.assertEqual(sum(plan.LENGTHS) / len(plan.LENGTHS), 28)

    def test_all_rows_are_used(self):
        self.assertEqual({launch.kernel for launch in plan.step(plan.PRESETS["base"])[0]}, set(plan.KERNELS))


class Tables(unittest.TestCase):
    def test_differences_are_named(self):
        rows = {("a", "base"): (3, 2, 10.0), ("b", "base"): (4, 1, 5.0)}
        self.assertEqual(bill.compare({("a", "base"): (3, 9.0), ("c", "base"): (1, 1.0)}, rows, "table"),
                         ["table:3: a of base: 3 launches a step, 2 expected", "table:1: no row for c of base; it has 1 launches a step",
                          "table:4: there is no kernel b in a step of base; take the row out"])  # fmt: skip
        self.assertEqual(bill.compare({("a", "base"): (2, None), ("b", "base"): (1, None)}, rows, "table"), [])

    def check(self, nvcc="13.0", cuobjdump="cuobjdump", launches=lambda count: count, instructions=0.0):
        """(status, what was printed) of --check with a table that fits, but for what the arguments change."""
        per_element = {launch.kernel: 10.0 for launch in plan.step(plan.PRESETS["base"])[0]}
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            table = pathlib.Path(folder, "kernel_bill.txt")
            table.write_text("nvcc 13.0\n" + "".join(f"{kernel} {preset} {launches(count)} 10.00\n" for preset in plan.PRESETS
                                                     for kernel, count in bill.launches_of(preset).items()))  # fmt: skip
            rows = [{"kernel": kernel, "launches": 1, "ms": 1.0, "bytes": 0, "flops": 0, "per_element": count + instructions}
                    for kernel, count in per_element.items()]  # fmt: skip
            for owner, name, value in ((bill.registers, "nvcc_of", nvcc), (bill.registers, "table_of", ("13.0", {})),
                                       (bill.registers, "reported", {}), (bill.registers, "compare", []),
                                       (bill, "bill_of", (rows, []))):  # fmt: skip
                stack.enter_context(unittest.mock.patch.object(owner, name, return_value=value))
            said = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            status = bill.check(types.SimpleNamespace(build=pathlib.Path("build"), table=table), types.SimpleNamespace(cuobjdump=cuobjdump))
            return status, said.getvalue()

    def test_check(self):
        self.assertEqual(self.check()[0], 0)
        status, said = self.check(instructions=0.5)
        self.assertEqual(status, 1)
        self.assertIn("embed of base: 10.50 instructions an element, at most 10.00 expected", said)
        self.assertIn("--write", said)

    def test_what_cannot_be_compared_is_said(self):
        for changed, reason in ({"nvcc": "12.4"}, "of nvcc 13.0, the build of 12.4"), ({"cuobjdump": None}, "there is no cuobjdump"):
            status, said = self.check(instructions=0.5, **changed)
            self.assertEqual(status, bill.SKIPPED)
            self.assertIn(reason, said)
            # Launches do not depend on the compiler.
            status, said = self.check(launches=lambda count: count - 1, **changed)
            self.assertEqual(status, 1)
            self.assertIn("norm_forward of big: 30 launches a step, 29 expected", said)


class Measured(unittest.TestCase):
    def times(self, text):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "measured")
            file.write_text(text)
            found = measurements.read(file)
            return {name: kernel.ms / kernel.launches for name, kernel in found.kernels.items()}, found.phases, found.step_ms

    def test_profile_of_a_run(self):
        profile = '{"profile": {"phases": [{"phase": "Adam", "ms": 0.5}], "step_ms": 25.0}}'
        self.assertEqual(self.times(profile), ({}, {"Adam": 0.5}, 25.0))

    def test_tables_of_ncu(self):
        details = ('==PROF== Disconnected\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
                   '"0","ventris::<unnamed>::norm_forward(Forward<T1>)","Duration","us","1,020.0"\n'
                   '"1","ventris::<unnamed>::norm_forward(Forward<T1>)","Duration","us","30.0"\n'
                   '"1","ventris::<unnamed>::norm_forward(Forward<T1>)","Registers Per Thread","register/thread","55"\n')  # fmt: skip
        self.assertEqual(self.times(details), ({"norm_forward": 0.525}, {}, None))
        raw = ('"ID","Kernel Name","gpu__time_duration.sum"\n"","","ns"\n'
               '"0","void ventris::<unnamed>::cross_entropy_row<ventris::BF16, 1, 0>(Problem<T1>)","1,500,000"\n')  # fmt: skip
        self.assertEqual(self.times(raw), ({"cross_entropy_row": 1.5}, {}, None))

    def test_one_step_of_ncu_beside_the_bill(self):
        """The launches between two ends of Adam; what is not ours is a product."""
        names = ["norm_forward", "adam_step", "nvjet_tst", "norm_forward", "nvjet_tst", "adam_step", "nvjet_tst"]
        text = '==PROF== Connected\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n' + "".join(
            f'"{i}","void ventris::<unnamed>::{name}<BF16>(int)","{metric}","{unit}","{value}"\n'
            for i, name in enumerate(names)
            for metric, unit, value in zip(measurements.METRICS, ("ns", "byte", "%"), ("2,000,000", "3,000", "50")))  # fmt: skip
        found = measurements.times_of(measurements.one_step(text))
        self.assertEqual({name: kernel.launches for name, kernel in found.kernels.items()}, {"norm_forward": 1, "adam_step": 1, "nvjet_tst": 2})
        self.assertEqual(bill.measured_cells(found.of_row("product", 186, plan.KERNELS)), ["4.000", "6.0 k", "50 %"])
        self.assertEqual(bill.measured_cells(found.of_row("norm_forward", 30, plan.KERNELS)), ["60.000", "90.0 k", "50 %"])
        self.assertIsNone(found.of_row("sum_columns masked", 12, plan.KERNELS))
        with self.assertRaisesRegex(ValueError, "1 ends of steps in 2 launches"):
            measurements.one_step("\n".join(text.splitlines()[:8]))

    def test_another_file_is_refused(self):
        for text in ("{}", "a,b\n1,2\n", '"ID","Kernel Name"\n"0","f(int)"\n'):
            with self.assertRaisesRegex(SystemExit, "measured: "):
                self.times(text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
