#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes unicode_tables.inc beside this file: the character classes that BLEU tokenization depends on.

The lower case mapping is Python's str.lower; the other classes are those of the `regex` package, which
sacreBLEU's `intl` tokenizer uses. Run: python3 data/text/make_unicode_tables.py
"""

import pathlib
import sys
import unicodedata

import regex

POINTS = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]


def ranges(member):
    """[first, last] ranges of the code points that are members; surrogates count as not members."""
    found = []
    for c in POINTS:
        if member(chr(c)):
            if found and found[-1][1] == c - 1:
                found[-1][1] = c
            else:
                found.append([c, c])
    return found


def lower_runs():
    """[first, last, step, difference] runs of code points with a lower case at a fixed difference."""
    runs = []
    for c in POINTS:
        low = chr(c).lower()
        if low == chr(c) or c == 0x3A3:  # capital sigma has its own rule
            continue
        if len(low) != 1:
            assert c == 0x130 and low == "i\u0307", hex(c)
            continue
        difference = ord(low) - c
        if runs and runs[-1][3] == difference and c - runs[-1][1] in (1, 2):
            run, step = runs[-1], c - runs[-1][1]
            if run[0] == run[1] or run[2] == step:
                run[1], run[2] = c, step
                continue
        runs.append([c, c, 1, difference])
    return runs


def table(lines, type_name, name, rows, columns):
    lines.append(f"constexpr {type_name} {name}[] = {{")
    numbers = [[f"{v:#x}" if i < 2 else str(v) for i, v in enumerate(row)] for row in rows]
    row_text = ["{" + ", ".join(row) + "}," for row in numbers]
    for i in range(0, len(row_text), columns):
        lines.append("    " + " ".join(row_text[i : i + columns]))
    lines.append("};")
    lines.append("")


def main():
    # A capital sigma becomes final after a cased character, case-ignorable ones in between skipped.
    is_cased = lambda c: (c + "\u03a3").lower().endswith("\u03c2")
    is_ignorable = lambda c: not is_cased(c) and ("a" + c + "\u03a3").lower().endswith("\u03c2")
    tables = {
        "kPunctuation": ranges(lambda c: regex.match(r"\p{P}", c)),
        "kSymbols": ranges(lambda c: regex.match(r"\p{S}", c)),
        "kNumbers": ranges(lambda c: regex.match(r"\p{N}", c)),
        "kAlphabetic": ranges(lambda c: regex.match(r"\p{Alphabetic}", c)),
        "kDecimalDigits": ranges(lambda c: regex.match(r"\p{Nd}", c)),
        "kLowercase": ranges(lambda c: regex.match(r"\p{Lowercase}", c)),
        "kCased": ranges(is_cased),
        "kCaseIgnorable": ranges(is_ignorable),
    }
    lower = lower_runs()
    here = pathlib.Path(__file__).parent
    source = [
        "// Made by data/text/make_unicode_tables.py; do not edit.",
        f"// Lower case: Unicode {unicodedata.unidata_version}; categories: regex {regex.__version__}.",
        "",
    ]
    for name, rows in tables.items():
        table(source, "Range", name, rows, 5)
    table(source, "LowerRun", "kLowerRuns", lower, 3)
    (here / "unicode_tables.inc").write_text("\n".join(source))
    for name, rows in list(tables.items()) + [("kLowerRuns", lower)]:
        print(name, len(rows))


if __name__ == "__main__":
    main()
