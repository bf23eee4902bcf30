# SPDX-License-Identifier: Apache-2.0
"""The lexer, the plan and the copy on small examples; no compiler."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import mutants
import mutation
import plan
import tree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def changes(text, *operators):
    found = mutation.mutations("data/a.cc", text)
    return [one.after for name in operators or mutation.OPERATORS for one in found[name]]


class MutationTest(unittest.TestCase):
    def test_what_stays_as_it_is(self):
        for text in ("#define A (1 + 2)", "// a && b 1", 'auto a = "1 + 2";', "static_assert(sizeof(a) == 4);", "VENTRIS_DCHECK(a == b);",
                     "template <typename T>", "void f(std::vector<T>&& a, T* b, const T& c);", "Lock lock(mutex);"):  # fmt: skip
            self.assertEqual(changes(text), [], text)

    def test_operators(self):
        for text, operator, expected in (
            ("x = a && b;", "logic", ["x = a || b;"]),
            ("x = a < b;", "compare", ["x = a <= b;"]),
            ("x = a != b;", "equal", ["x = a == b;"]),
            ("x = a + b * c;", "arithmetic", ["x = a - b * c;", "x = a + b / c;"]),
            ("x = !a;", "not", ["x = a;"]),
            ("x = std::min(a, true);", "minmax", ["x = std::max(a, true);"]),
            ("x = std::min(a, true);", "bool", ["x = std::min(a, false);"]),
            ("for (;;) break;", "jump", ["for (;;) continue;"]),
            ("f(1'000, a1, 0.5, 0);", "constant", ["f(1001, a1, 0.5, 0);", "f(999, a1, 0.5, 0);", "f(1'000, a1, 0.5, 1);"]),
            ("if (a(b) && c) {", "condition", ["if (!(a(b) && c)) {"]),
            ("if (int* a = f()) {", "condition", []),
            ("::fsync(a->file(b)[c]);", "call", ["{}"]),
            ("return f(a);", "call", []),
            ("a.b[c] += f(d);", "assignment", ["{}"]),
            ("int e = f(d);", "assignment", []),
            ("if (a) return;", "return", ["if (a) {}"]),
            ('VENTRIS_CHECK(f(a, b) == 0, "{} < {}", a + 1);', "equal", ['VENTRIS_CHECK(f(a, b) != 0, "{} < {}", a + 1);']),
        ):
            self.assertEqual(changes(text, operator), expected, text)

    def test_a_mutation_is_found_again_under_other_lines(self):
        text = "int f() {\n  return a && b;\n}\n"
        (one,) = mutation.mutations("data/a.cc", text)["logic"]
        (moved,) = mutation.mutations("data/a.cc", "// more\n" + text)["logic"]
        self.assertEqual(one.key(), moved.key())
        self.assertEqual((one.line, moved.line), (2, 3))
        self.assertEqual(one.apply(text), text.replace("&&", "||"))


class PlanTest(unittest.TestCase):
    def drawn(self, seed, count=12):
        planned = plan.Plan(ROOT, count, seed, ["comm"])
        return [str(planned.next(folder)) for folder in planned.turns()]

    def test_a_seed_gives_the_same_mutants_and_folders_get_their_shares(self):
        self.assertEqual(self.drawn(1), self.drawn(1))
        self.assertEqual(self.drawn(1)[0], self.drawn(1, 13)[0])
        self.assertNotEqual(self.drawn(1), self.drawn(2))
        planned = plan.Plan(ROOT, 10, 1, [])
        planned.lines = {"a": 700, "b": 300}
        self.assertEqual(sorted(planned.turns()), ["a"] * 7 + ["b"] * 3)

    def test_every_source_has_tests_that_are_there(self):
        for folder in plan.FOLDERS:
            found = plan.sources(ROOT, folder)
            self.assertTrue(found)
            for path in found:
                for test in plan.tests_of(path):
                    kind, _, name = test.partition(".")
                    there = ROOT / "tests" / ("cli/" + name + ".py" if kind == "cli" else kind.removesuffix("_tests"))
                    self.assertTrue(there.exists(), test)
        self.assertIn("cli.replicas_test", plan.tests_of("trainer/checkpoint/replica_check.cc"))

    def test_explanations_have_reasons(self):
        listed = json.loads((ROOT / "tests" / "mutants" / "explained.json").read_text(encoding="utf-8"))
        for item in listed:
            self.assertEqual(set(item), {"file", "before", "after", "reason"})
            self.assertTrue(item["reason"])
        self.assertEqual(len(listed), len(mutants.explanations()))


class TreeTest(unittest.TestCase):
    def test_a_folder_of_somebody_is_not_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "thesis").write_text("years", encoding="utf-8")
            with self.assertRaisesRegex(tree.Failure, "not empty"):
                tree.Tree(ROOT, pathlib.Path(folder))
            self.assertEqual([path.name for path in pathlib.Path(folder).iterdir()], ["thesis"])

    def test_confined_commands_write_and_kill_their_own_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            if not tree.can_confine(folder):
                self.skipTest("no leave for namespaces of its own")
            outside = pathlib.Path(__file__).with_name("outside")
            script = f"echo 1 > /tmp/inside; echo 2 > {outside}; kill -KILL -1; exit 5"
            done = subprocess.run(tree.confined(["sh", "-c", script], folder), capture_output=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual([path.name for path in pathlib.Path(folder).iterdir()], ["inside"])
            self.assertFalse(outside.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
