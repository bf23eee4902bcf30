# SPDX-License-Identifier: Apache-2.0
"""ventris selftest: that it runs every operation, and what it says of one that computes wrongly."""

import json
import pathlib
import re
import unittest

import support

# Shapes at which a kernel takes milliseconds.
SMALL = ("--vocab-size", 300, "--rows", 150, "--threads", 2)
SMALLEST = ("--vocab-size", 64, "--rows", 64, "--threads", 2)
TINY = ("--preset", "tiny", *SMALL)
# Operations that have no line of their own: the line that runs them.
WITHIN = {"gemm": "gemm_forward", "pack": "packed_gemm", "list_attention_work": "attention_forward",
          "squares_of_chunks": "sum_of_squares", "sum_of_chunks": "sum_of_squares"}  # fmt: skip


def operations():
    """The operations that backend/ops.h includes."""
    backend = pathlib.Path(support.SOURCE_DIR, "backend")
    headers = re.findall(r'#include "backend/(\w+\.h)"', (backend / "ops.h").read_text(encoding="utf-8"))
    for header in headers:
        text = (backend / header).read_text(encoding="utf-8")
        yield from re.findall(r"^void (\w+)\(Context& context, (?:const \w+Args& args|Tensor tensor)\);", text, re.MULTILINE)


class SelftestCase(support.CommandLineTest):
    def report(self, *options, code=0, preset="tiny", sizes=SMALL, **how):
        """The object of --json, and what was said to people."""
        result = support.run("selftest", "--json", "--preset", preset, *sizes, *options, **how)
        self.assertEqual(result.returncode, code, result.stderr.decode() + result.stdout.decode())
        report = json.loads(result.stdout)
        self.assertEqual(report["ok"], code == 0)
        self.assertEqual(report["ok"], all(kernel["ok"] for kernel in report["kernels"]))
        for kernel in report["kernels"]:
            self.assertEqual(kernel["ok"], kernel["finding"] == "", kernel)
            if kernel["ok"]:
                self.assertLessEqual(kernel["error"], 1, kernel)
        return report, result.stderr.decode()


class OnTheCpu(SelftestCase):
    def test_every_operation_is_run_in_both_precisions(self):
        report, message = self.report("--device", "cpu")
        self.assertEqual(report["device"], "cpu")
        self.assertRegex(message, rf"All {len(report['kernels'])} kernels compute as they should on the CPU with ")
        found = list(operations())
        self.assertGreaterEqual(len(found), 30)
        names = {dtype: {row["kernel"] for row in report["kernels"] if row["dtype"] == dtype} for dtype in ("f32", "bf16")}
        for operation in found:
            self.assertIn(WITHIN.get(operation, operation), names["f32"] | names["bf16"], "it has no case in trainer/checks/selftest_*.cc")
        of_update = {"sum_of_squares", "find_not_finite", "plan_update", "clip_values", "weight_decay", "adam", "moving_average", "exchange", "add",
                     "fill_zero", "loss_sum", "bit_digest"}
        self.assertEqual(names["f32"] - names["bf16"], of_update)

    def test_a_kernel_has_a_line(self):
        result = support.run("selftest", "--device", "cpu", "--precision", "bf16", *TINY)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.decode().splitlines()
        self.assertGreater(len(lines), 40)
        for line in lines:
            self.assertRegex(line, r"^ok +\w+ +\d+x\d+.* +(bf16|f32|f64) +error [0-9.e+-]+ of its tolerance$")
        self.assertTrue(any("layer_norm_backward    150x128 " in line for line in lines), lines)

    def test_widths_are_those_of_the_preset(self):
        report, _ = self.report("--device", "cpu", "--precision", "f32", "--heads", 8, preset="small")
        shapes = {(row["kernel"], row["shape"]) for row in report["kernels"]}
        for shape in (("gemm_forward", "150x1536x512"), ("gemm_forward", "150x384x512"), ("bias_relu_backward", "150x1024")):
            self.assertIn(shape, shapes)

    def test_each_instruction_set_computes_as_it_should(self):
        sets = re.search(r"ISA: +\S+, of (.*)", self.succeed("--version").decode()).group(1).split(", ")
        for name in sets:
            result = support.run("selftest", "--isa", name, "--device", "cpu", *TINY)
            if b"does not have these instructions" in result.stderr:
                continue
            self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
            self.assertIn(f"on the CPU with {name}\n", result.stderr.decode())

    def test_bad_options_are_refused(self):
        self.refuse(64, "selftest", "--preset", "huge", says=["--preset", "tiny, small, base, big"])
        self.refuse(64, "selftest", "--rows", 5, says=["--rows is 5", "64 or more"])
        self.refuse(64, "selftest", "--precision", "f64", says="--precision")
        self.refuse(78, "selftest", "--heads", 3, says=["--heads is 3", "--d-model"])

    def test_no_device_is_told_as_by_other_commands(self):
        blind = {"CUDA_VISIBLE_DEVICES": ""}
        message = self.refuse(69, "selftest", "--device", "cuda", *TINY, variables=blind)
        self.assertRegex(message, r"--device cuda: .*(built without CUDA|driver)")
        self.assertIn("--device cpu", message)


@unittest.skipUnless(support.EMULATED, "the emulated device was not built")
class OnADevice(SelftestCase):
    """On the emulated device, which runs the kernels of CUDA."""

    # Kernels of CUDA, and the operations that need them.
    KERNELS = {
        "adam_step": {"adam"},
        "add_columns": {"bias_backward", "bias_relu_backward", "layer_norm_backward", "linear_backward"},
        "attend": {"attention_forward"},
        "attend_on_tensor_cores": {"attention_forward"},
        "cross_entropy_row": {"cross_entropy"},
        "digest_words": {"bit_digest"},
        "gradients_on_tensor_cores": {"attention_backward"},
        "key_gradient": {"attention_backward"},
        "norm_forward": {"layer_norm_forward"},
        "search": {"find_not_finite"},
        "sum_runs": {"embedding_backward"},
        "top_k_row": {"log_softmax_top_k"},
    }

    def rounds(self):
        """All kernels, in lists of some that no operation shares: a wrong operation names the kernel."""
        rounds = []
        for kernel, operations in self.KERNELS.items():
            for kernels in rounds:
                if all(operations.isdisjoint(self.KERNELS[other]) for other in kernels):
                    kernels.append(kernel)
                    break
            else:
                rounds.append([kernel])
        return rounds

    def report(self, *options, code=0, **how):
        return super().report("--device", "cuda", *options, code=code, binary=support.EMULATED, **how)

    def test_every_kernel_computes_as_it_should(self):
        report, message = self.report()
        self.assertEqual(report["device"], "cuda")
        self.assertRegex(message, rf"All {len(report['kernels'])} kernels compute as they should on the CUDA device")

    def test_tf32_is_f32_with_other_products(self):
        report, _ = self.report("--precision", "tf32")
        f32, _ = self.report("--precision", "f32")
        kernels = [(row["kernel"], row["shape"], row["dtype"]) for row in f32["kernels"]]
        products = {"gemm_forward", "gemm_input_gradient", "gemm_weight_gradient", "linear_backward"}
        expected = [(kernel, shape, "tf32" if kernel in products else dtype) for kernel, shape, dtype in kernels]
        self.assertEqual([(row["kernel"], row["shape"], row["dtype"]) for row in report["kernels"]], expected)

    def test_a_kernel_that_does_nothing_is_found(self):
        for kernels in self.rounds():
            with self.subTest(kernels=kernels):
                variables = {"VENTRIS_EMULATED_IDLE_KERNELS": ",".join(kernels)}
                report, message = self.report(code=76, sizes=SMALLEST, variables=variables)
                wrong = [row for row in report["kernels"] if not row["ok"]]
                self.assertEqual({row["kernel"] for row in wrong}, set().union(*(self.KERNELS[kernel] for kernel in kernels)))
                counts = f"{len(wrong)} of {len(report['kernels'])} kernels"
                self.assertIn(f"{counts} compute wrongly on the CUDA device", message)

    def test_a_wrong_kernel_has_a_line(self):
        variables = {"VENTRIS_EMULATED_IDLE_KERNELS": "adam_step"}
        words = ("selftest", "--device", "cuda", "--precision", "f32", *TINY)
        result = support.run(*words, binary=support.EMULATED, variables=variables)
        self.assertEqual(result.returncode, 76, result.stderr)
        wrong = [line for line in result.stdout.decode().splitlines() if not line.startswith("ok ")]
        self.assertEqual(len(wrong), 1, wrong)
        self.assertRegex(wrong[0], r"^FAILED  adam +1x32781 +f32 +not comparable: compute\[0, 0\] is -?nan, expected ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
