# SPDX-License-Identifier: Apache-2.0
"""docs/paper.md against the files that it names, and its examples in numbers computed again."""

import os
import pathlib
import re
import unittest

import numpy

ROOT = pathlib.Path(os.environ.get("VENTRIS_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])
PAGE = ROOT / "docs" / "paper.md"

# What stands before the name where a function is defined or declared: a type, not an operator or a keyword.
TYPE = r"^[ \t]*(?!return\b|else\b|delete\b|throw\b|case\b)(?:[\w:<>,&*\[\]]+[ \t]+)+"
TEST = re.compile(r"TEST(?:_[FP])?\((\w+), (\w+)\)")


def references(text):
    """(path, name) of every `path: name` of the page."""
    return re.findall(r"`([\w./-]+\.\w+): ([^`]+)`", text)


def defines(path, source, name):
    """Whether a file defines or declares a function, a type or a test of that name."""
    if path.suffix == ".py":
        return re.search(rf"^\s*(def|class) {re.escape(name)}\b", source, re.MULTILINE) is not None
    if "." in name:
        return tuple(name.split(".")) in TEST.findall(source)
    if "::" in name:  # of a class, outside of it
        return re.search(rf"^(?!\s)[\w:<>,&* ]*\b{re.escape(name)}\(", source, re.MULTILINE) is not None
    kind = rf"^[ \t]*(struct|class|enum class) {re.escape(name)}\b[^;]*\{{"
    function = rf"{TYPE}{re.escape(name)}\("
    return any(re.search(pattern, source, re.MULTILINE) for pattern in (kind, function))


def table_rows(text):
    """Cells of every row of a table, without those of headings."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip().strip("|").split("|")]


def printed(cell):
    """The numbers of a cell, and half a unit of the last digit that each shows."""
    words = cell.split()
    return [float(word) for word in words], [0.5000001 * 10.0 ** -len(word.partition(".")[2]) for word in words]


def section(text, heading):
    return re.split(r"^#{2,3} ", text.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def softmax(scores):
    e = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = PAGE.read_text(encoding="utf-8")

    def test_what_it_names_is_there(self):
        named = references(self.text)
        self.assertGreater(len(named), 100)
        for path, name in named:
            with self.subTest(path=path, name=name):
                file = ROOT / path
                self.assertTrue(file.is_file(), f"{path} is not there")
                self.assertTrue(defines(file, file.read_text(encoding="utf-8"), name), f"{path} does not define {name}")

    def test_the_numbers_of_parameters_are_those_of_the_test(self):
        source = (ROOT / "tests/model/parameters_test.cc").read_text(encoding="utf-8")
        for model in ("base", "big"):
            count = re.search(rf"{model}_count, ([\d']+)", source)[1].replace("'", ",")
            self.assertIn(count, re.findall(r"\d[\d,]*\d", self.text), model)

    def test_the_learning_rates_are_those_of_equation_3(self):
        sentence = re.search(r"For base the rate is .*?\.\n", self.text, re.DOTALL)[0]
        rates = re.findall(r"(\d\.\d+e-\d+) at step ([\d,]*\d)", sentence)
        self.assertEqual([step for _, step in rates], ["1", "4,000", "100,000"])
        for rate, step in rates:
            step = float(step.replace(",", ""))
            self.assertEqual(rate, f"{512**-0.5 * min(step**-0.5, step * 4000**-1.5):.6e}")


class AttentionInNumbers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rows = {}
        for label, *cells in table_rows(section(PAGE.read_text(encoding="utf-8"), "An example in numbers")):
            if label:
                cls.rows[label] = [printed(cell) for cell in cells if cell]
        cls.x, *cls.weights = (cls.numbers(name) for name in ("X", "W^Q", "W^K", "W^V"))
        cls.query, cls.key, cls.value = (cls.x @ weight for weight in cls.weights)
        cls.scale = 3.0**-0.5
        cls.compared = {"X", "W^Q", "W^K", "W^V"}

    @classmethod
    def numbers(cls, label):
        return numpy.array([numbers for numbers, _ in cls.rows[label]])

    def compare(self, label, expected):
        for row, (numbers, units) in enumerate(self.rows[label]):
            for number, unit, value in zip(numbers, units, numpy.atleast_1d(expected[row]), strict=True):
                self.assertAlmostEqual(number, value, delta=unit, msg=f"{label}, row {row + 1}")
        self.assertEqual(len(self.rows[label]), len(expected), label)
        self.compared.add(label)

    def test_every_row(self):
        scores = self.scale * self.query @ self.key.T
        p = softmax(scores)
        d_p = self.value.T
        d = (p * d_p).sum(axis=1)
        d_s = p * (d_p - d[:, None])
        masked = softmax(numpy.where(numpy.tri(3) == 1, scores, -numpy.inf))
        unscaled = softmax(self.query @ self.key.T)
        for label, expected in {
            "Q = X W^Q": self.query,
            "K = X W^K": self.key,
            "V = X W^V": self.value,
            "Q K^T": self.query @ self.key.T,
            "S = Q K^T / sqrt(d_k)": scores,
            "P = softmax(S)": p,
            "O = P V": p @ self.value,
            "P, masked": masked,
            "O, masked": masked @ self.value,
            "P, scale 1": unscaled,
            "O, scale 1": unscaled @ self.value,
            "dV = P^T dO": p.T,
            "dP = dO V^T": d_p,
            "D = rowsum(P * dP)": d,
            "dS = P * (dP - D)": d_s,
            "dQ = dS K / sqrt(d_k)": self.scale * d_s @ self.key,
            "dK = dS^T Q / sqrt(d_k)": self.scale * d_s.T @ self.query,
        }.items():
            self.compare(label, expected)
        self.assertEqual(self.compared, set(self.rows))

    def test_it_is_the_example_of_the_test_in_cpp(self):
        source = (ROOT / "tests/backend/cpu/attention_test.cc").read_text(encoding="utf-8")
        body = source.partition("TEST(Attention, GivesTheWorkedExampleOfTheTextbooks)")[2].partition("\nTEST(")[0]

        def array(name):
            numbers = re.search(rf"{name}(?:\[\d*\])+ = (.*?);", body, re.DOTALL)[1]
            return numpy.array([float(number) for number in re.findall(r"-?\d[\d.]*", numbers)])

        numpy.testing.assert_array_equal(array("inputs"), self.x.ravel())
        numpy.testing.assert_array_equal(array("weights"), numpy.concatenate([w.ravel() for w in self.weights]))
        numpy.testing.assert_array_equal(array("scores"), self.numbers("Q K^T").ravel())
        numpy.testing.assert_allclose(array("first_row"), self.numbers("P, scale 1")[0], rtol=0, atol=5.1e-7)
        numpy.testing.assert_allclose(array("first_output"), self.numbers("O, scale 1")[0], rtol=0, atol=5.1e-7)


class PositionsInNumbers(unittest.TestCase):
    def test_every_channel(self):
        rows = list(table_rows(section(PAGE.read_text(encoding="utf-8"), "Positions 2 and 10")))[1:]
        self.assertEqual([int(row[0]) for row in rows], [0, 1, 2, 3, 4, 5, 508, 509, 510, 511])
        for channel, pair, *cells in rows:
            channel, pair = int(channel), int(pair)
            self.assertEqual(pair, channel // 2)
            wave = numpy.cos if channel % 2 else numpy.sin
            places = ((2, 2), (10, 2), (2, 4), (10, 4))  # position, factor of i in the exponent
            for cell, (position, factor) in zip(cells, places, strict=True):
                angle = position / numpy.float64(10000.0) ** (factor * pair / 512)
                self.assertEqual(cell, f"{wave(angle):.9f}", f"channel {channel} of position {position}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
