# SPDX-License-Identifier: Apache-2.0
"""kernel_bill.py: its launches are those of the emulated device, and what it reads of ncu. Needs neither CUDA nor a GPU."""

import pathlib
import tempfile
import unittest

import kernel_bill as bill
import kernel_bill_measured as measurements
import kernel_bill_step as plan


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

    def test_the_time_of_a_step(self):
        for preset, most in (("base", 20.6), ("big", 58.0)):
            rows = bill.bill_of(preset)
            self.assertLess(sum(row["ms"] for row in rows), most)
            self.assertAlmostEqual(sum(row["ms"] for row in bill.summed(rows, "phase")), sum(row["ms"] for row in rows))


class Measured(unittest.TestCase):
    def ms(self, text):
        """Of a launch of each kernel."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "measured")
            file.write_text(text)
            return {name: kernel.ms / kernel.launches for name, kernel in measurements.read(file).items()}

    def test_tables_of_ncu(self):
        details = ('==PROF== Disconnected\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
                   '"0","ventris::<unnamed>::norm_forward(Forward<T1>)","Duration","us","1,020.0"\n'
                   '"1","ventris::<unnamed>::norm_forward(Forward<T1>)","Duration","us","30.0"\n'
                   '"1","ventris::<unnamed>::norm_forward(Forward<T1>)","Registers Per Thread","register/thread","55"\n')  # fmt: skip
        self.assertEqual(self.ms(details), {"norm_forward": 0.525})

    def test_one_step_of_ncu_beside_the_bill(self):
        """The launches between two ends of Adam; what is not ours is a product."""
        names = ["norm_forward", "adam_step", "nvjet_tst", "norm_forward", "nvjet_tst", "adam_step", "nvjet_tst"]
        text = '==PROF== Connected\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n' + "".join(
            f'"{i}","void ventris::<unnamed>::{name}<BF16>(int)","{metric}","{unit}","{value}"\n'
            for i, name in enumerate(names)
            for metric, unit, value in zip(measurements.METRICS, ("ns", "byte", "%"), ("2,000,000", "3,000", "50")))  # fmt: skip
        found = measurements.kernels_of(measurements.one_step(text))
        self.assertEqual({name: kernel.launches for name, kernel in found.items()}, {"norm_forward": 1, "adam_step": 1, "nvjet_tst": 2})
        self.assertRegex(bill.bill("base", found), r"\| product \| 186 .*\| 4\.000 \| 6\.0 k \| 50 % \|")
        self.assertRegex(bill.bill("base", found), r"\| norm_forward \| 30 .*\| 60\.000 \| 90\.0 k \| 50 % \|")
        self.assertIsNone(measurements.of_row(found, "sum_columns masked", 12))
        with self.assertRaisesRegex(ValueError, "1 ends of steps in 2 launches"):
            measurements.one_step("\n".join(text.splitlines()[:8]))

    def test_another_file_is_refused(self):
        for text in ("{}", "a,b\n1,2\n", '"ID","Kernel Name"\n"0","f(int)"\n'):
            with self.assertRaisesRegex(SystemExit, "measured: no times"):
                self.ms(text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
