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
    found = mutation.Source("data/a.cc", text).mutations()
    return [one.after for name in operators or mutation.OPERATORS for one in found[name]]


class LexerTest(unittest.TestCase):
    def test_comments_strings_and_directives_stay(self):
        self.assertEqual(changes("#define A (1 + \\\n 2)\n// a && b 1\n/* if (a == b) f(); */\n"), [])
        self.assertEqual(changes("""auto a = "1 + 2 \\" && 3"; auto b = R"x(1 + ")" 2)x"; auto c = '1';"""), [])

    def test_messages_stay_and_their_conditions_do_not(self):
        self.assertEqual(changes('static_assert(sizeof(a) == 4);\nVENTRIS_DCHECK(a == b, "{}", a + 1);\n'), [])
        self.assertEqual(changes('x = a(fmt::format("{}", n + 1));', "arithmetic", "constant"), [])
        self.assertEqual(changes('VENTRIS_CHECK(f(a, b) == 0, "{}", a + 1);'),
                         ['VENTRIS_CHECK(f(a, b) != 0, "{}", a + 1);', 'VENTRIS_CHECK(f(a, b) == 1, "{}", a + 1);'])  # fmt: skip

    def test_brackets_of_templates_and_references_are_no_operators(self):
        self.assertEqual(changes("template <typename T>\nvoid f(std::vector<T>&& a, T* b, const T& c);\n"), [])


class MutationTest(unittest.TestCase):
    def test_operators(self):
        self.assertEqual(changes("x = a && b;", "logic"), ["x = a || b;"])
        self.assertEqual(changes("x = a < b;", "compare"), ["x = a <= b;"])
        self.assertEqual(changes("x = a != b;", "equal"), ["x = a == b;"])
        self.assertEqual(changes("x = a + b % c;", "arithmetic"), ["x = a - b % c;", "x = a + b / c;"])
        self.assertEqual(changes('x = a + "b";', "arithmetic"), [])
        self.assertEqual(changes("x = !a;", "not"), ["x = a;"])
        self.assertEqual(changes("x = std::min(a, true);", "minmax", "bool"),
                         ["x = std::max(a, true);", "x = std::min(a, false);"])  # fmt: skip
        self.assertEqual(changes("for (;;) break;", "jump"), ["for (;;) continue;"])

    def test_constants(self):
        self.assertEqual(mutation.changed_numbers("0"), ["1"])
        self.assertEqual(mutation.changed_numbers("1'000u"), ["1001u", "999u"])
        self.assertEqual(mutation.changed_numbers("0x0F"), ["0x10", "0xe"])
        self.assertEqual(mutation.changed_numbers("0777"), ["01000", "0776"])
        self.assertEqual(mutation.changed_numbers("0.0F"), ["1.0F"])
        self.assertEqual(mutation.changed_numbers("1e-9"), ["(2 * 1e-9)"])

    def test_conditions(self):
        self.assertEqual(changes("if (a(b) && c) {", "condition"), ["if (!(a(b) && c)) {"])
        self.assertEqual(changes("if (int a = f(); a) {", "condition"), ["if (int a = f(); !(a)) {"])
        self.assertEqual(changes("if (int* a = f()) {", "condition"), [])

    def test_statements(self):
        self.assertEqual(changes("{ ::fsync(a->file(b)[c]); }", "call"), ["{ {} }"])
        self.assertEqual(changes("if (a) lock.unlock();", "call"), ["if (a) {}"])
        self.assertEqual(changes('if (a)\n  fail(b,\n       "c");', "call"), ["{}"])
        self.assertEqual(changes("{ Lock lock(mutex); return f(a); }", "call"), [])
        self.assertEqual(changes("{ a.b[c] += f(d); int e = f(d); }", "assignment"), ["{ {} int e = f(d); }"])
        self.assertEqual(changes("if (a) return;", "return"), ["if (a) {}"])

    def test_early_returns(self):
        self.assertEqual(changes("void A::b(int c) const {", "return"), [])
        self.assertEqual(changes("void A::b(int c) const { d(); }", "return"), ["void A::b(int c) const { return; d(); }"])
        self.assertEqual(changes("bool b() { return c; }", "return"),
                         ["bool b() { return true; return c; }", "bool b() { return false; return c; }"])  # fmt: skip

    def test_a_mutation_is_found_again_under_other_lines(self):
        text = "int f() {\n  return a\n         && b;\n}\n"
        (one,) = mutation.Source("data/a.cc", text).mutations()["logic"]
        (moved,) = mutation.Source("data/a.cc", "// more\n" + text).mutations()["logic"]
        self.assertEqual(one.key(), moved.key())
        self.assertEqual((one.line, moved.line), (3, 4))
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
        self.assertIn("cli.replicas_test", plan.tests_of("trainer/replicas.cc"))

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
