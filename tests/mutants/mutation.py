# SPDX-License-Identifier: Apache-2.0
"""Where one operator, constant or call of a C++ source can be changed, and how.

Lines are looked at one by one, and trust the format of the sources (.clang-format): binary operators stand between spaces,
brackets of templates do not, and a statement of one line begins and ends with it. Comments, preprocessor lines, static assertions and
lines with texts stay as they are, but for the condition of a check before its message."""

import dataclasses
import re

SWAPS = {
    "logic": {"&&": "||"},
    "compare": {"<": "<=", ">": ">="},
    "equal": {"==": "!="},
    "arithmetic": {"+": "-", "*": "/", "&": "|", "+=": "-="},
    "bool": {"true": "false"},
    "minmax": {"std::min": "std::max"},
    "jump": {"break;": "continue;"},
}
SWAPS = {operator: {**pairs, **{after: before for before, after in pairs.items()}} for operator, pairs in SWAPS.items()}
WORDS = ("bool", "minmax", "jump")  # the others stand between spaces
REMOVED = {
    "call": re.compile(r"^(?!return|throw|delete|using|VENTRIS_DCHECK)[\w:.>\[\]-]+\(.*\);$"),
    "assignment": re.compile(r"^(?!return|using)[\w.>\[\]*-]+ [-+*/|&]?= .*;$"),
    "return": re.compile(r"(?<![\w.])return;"),
}
CONDITION = re.compile(r"(?<=if \()(?!.*[^=!<>]=[^=])(.*)(?=\) [^)]*$)")
CONSTANT = re.compile(r"(?<![\w.'])\d[\d']*(?![\w.'])")
NOT = re.compile(r"(?<![\w)])!(?=[\w(:])")
OPERATORS = (*SWAPS, *REMOVED, "condition", "constant", "not")
LEFT_ALONE = re.compile(r"^\s*(//|#|static_assert|VENTRIS_DCHECK)|\b(fail|refuse)\(|fmt::")


@dataclasses.dataclass(frozen=True)
class Mutation:
    """Line `line` of the file becomes `after`. before and after find it again when the file has other lines above."""

    path: str
    line: int
    operator: str
    before: str
    after: str

    def apply(self, text):
        lines = text.split("\n")
        indent = lines[self.line - 1][: -len(lines[self.line - 1].lstrip())]
        lines[self.line - 1] = indent + self.after
        return "\n".join(lines)

    def key(self):
        return self.path, self.before, self.after

    def __str__(self):
        return f"{self.path}:{self.line}: {self.operator}: {self.before}  =>  {self.after}"


def code_of(line):
    """What of a line may change."""
    line = line.partition("  //")[0].strip()
    if LEFT_ALONE.search(line):
        return ""
    if '"' in line or "'" in line.replace("'0", ""):
        return line.partition('"')[0] if line.startswith("VENTRIS_CHECK(") else ""
    return line


def changes(code):
    """(operator, begin, end, replacement) in a line."""
    for operator, pairs in SWAPS.items():
        for word in re.finditer(r"\S+" if operator not in WORDS else r"\b(?:" + "|".join(pairs) + r")(?!\w)", code):
            if word[0] in pairs and 0 < word.start():
                yield operator, word.start(), word.end(), pairs[word[0]]
            elif word[0] in pairs and operator in WORDS:
                yield operator, word.start(), word.end(), pairs[word[0]]
    for operator, pattern in REMOVED.items():
        for found in pattern.finditer(code):
            yield operator, found.start(), found.end(), "{}"
    for found in CONDITION.finditer(code):
        yield "condition", found.start(), found.end(), f"!({found[0]})"
    for found in NOT.finditer(code):
        yield "not", found.start(), found.end(), ""
    for found in CONSTANT.finditer(code):
        value = int(found[0].replace("'", ""))
        for changed in (value + 1, value - 1):
            if changed >= 0:
                yield "constant", found.start(), found.end(), str(changed)


def mutations(path, text):
    """All of a file by operator, in order of lines."""
    found = {operator: [] for operator in OPERATORS}
    for number, line in enumerate(text.split("\n"), 1):
        before = line.strip()
        for operator, begin, end, replacement in changes(code_of(line)):
            found[operator].append(Mutation(path, number, operator, before, before[:begin] + replacement + before[end:]))
    return found
