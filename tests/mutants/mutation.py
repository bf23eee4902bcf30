# SPDX-License-Identifier: Apache-2.0
"""Where one operator, constant or call of a C++ source can be changed, and how.

A small lexer leaves comments, strings, preprocessor lines, static assertions and the arguments of messages alone. It trusts
the format of the sources (.clang-format): binary operators stand between spaces, brackets of templates do not."""

import bisect
import dataclasses
import re

TOKEN = re.compile(
    r"""
    (?P<string>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]*)\(.*?\)(?P=delimiter)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
    |(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
    |(?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    |(?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
    |(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<space>\s+)
    |(?P<operator><<=|>>=|<=>|->\*|\.\.\.|::|->|\+\+|--|&&|\|\||<<|>>|[-+*/%&|^=!<>]=|.)
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
INTEGER = re.compile(r"(0[xX][\da-fA-F']+|\d[\d']*)([uUlLzZ]*)")
FLOAT = re.compile(r"[\d.]+(?:[eE][+-]?\d+)?[fF]?")

BINARY = {
    "logic": {"&&": "||", "||": "&&"},
    "compare": {"<": "<=", "<=": "<", ">": ">=", ">=": ">"},
    "equal": {"==": "!=", "!=": "=="},
    "arithmetic": {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "&": "|", "|": "&", "+=": "-=", "-=": "+="},
}
NAMES = {
    "bool": {"true": "false", "false": "true"},
    "minmax": {"min": "max", "max": "min"},
    "jump": {"break": "continue", "continue": "break"},
}
OPERATORS = (*BINARY, *NAMES, "constant", "condition", "not", "call", "assignment", "return")

# What a call of these gets is words for people. The conditions of VENTRIS_CHECK stay, its words go; VENTRIS_DCHECK is not
# in the programs that are tried.
MESSAGES = {"fail", "refuse", "static_assert", "VENTRIS_DCHECK"}
MESSAGE_SPACES = {"fmt"}
CHECK = "VENTRIS_CHECK"
KEYWORDS = {
    *("return", "if", "for", "while", "do", "switch", "case", "else", "throw", "delete", "using", "goto", "new", "typedef"),
    *("break", "continue", "default", "public", "private", "protected", "template", "namespace", "static_assert"),
    *("sizeof", "alignas", CHECK, "VENTRIS_DCHECK"),
}  # fmt: skip
HEADS = {"if", "for", "while", "constexpr"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^="}
OPENING, CLOSING = "([{", ")]}"


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int

    @property
    def end(self):
        return self.start + len(self.text)


@dataclasses.dataclass(frozen=True)
class Mutation:
    """The characters from start to end of the file become `replacement`. before and after are the lines that it touches,
    without and with it: they find it again when the file has other lines above."""

    path: str
    line: int
    operator: str
    start: int
    end: int
    replacement: str
    before: str
    after: str

    def apply(self, text):
        return text[: self.start] + self.replacement + text[self.end :]

    def key(self):
        return self.path, self.before, self.after

    def __str__(self):
        return f"{self.path}:{self.line}: {self.operator}: {self.before}  =>  {self.after}"


def tokens(text):
    """All tokens but spaces, comments and preprocessor lines."""
    skipped = ("space", "comment", "directive")
    return [Token(m.lastgroup if m.lastgroup != "delimiter" else "string", m.group(), m.start())
            for m in TOKEN.finditer(text) if m.lastgroup not in skipped]  # fmt: skip


class Source:
    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.tokens = tokens(text)
        self.lines = [0, *(m.end() for m in re.finditer("\n", text))]
        self.partner = self._partners()
        self.words = self._words()

    def _partners(self):
        """Index of the other bracket for each bracket."""
        partner, open_ones = {}, []
        for index, token in enumerate(self.tokens):
            if token.kind != "operator":
                continue
            if token.text in OPENING:
                open_ones.append(index)
            elif token.text in CLOSING and open_ones:
                partner[index] = open_ones.pop()
                partner[partner[index]] = index
        return partner

    def _words(self):
        """Indices of tokens that are arguments of messages."""
        found = set()
        for index, token in enumerate(self.tokens[:-1]):
            if token.kind != "name" or self.tokens[index + 1].text != "(" or index + 1 not in self.partner:
                continue
            first, last = index + 2, self.partner[index + 1]
            in_space = index >= 2 and self.text_at(index - 1) == "::" and self.text_at(index - 2) in MESSAGE_SPACES
            if token.text in MESSAGES or in_space:
                found.update(range(first, last))
            elif token.text == CHECK:
                found.update(range(self._next_at_this_depth(first, last, ","), last))
        return found

    def text_at(self, index):
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def _next_at_this_depth(self, first, last, text):
        """Index of the first such token outside of brackets that open after `first`, or `last`."""
        index = first
        while index < last:
            if self.text_at(index) == text:
                return index
            if self.text_at(index) in OPENING:
                index = self.partner.get(index, last)
            index += 1
        return last

    def line(self, place):
        return bisect.bisect_right(self.lines, place)

    def _mutation(self, operator, start, end, replacement):
        first = self.line(start)
        last = self.line(max(start, end - 1))
        begin = self.lines[first - 1]
        finish = self.lines[last] if last < len(self.lines) else len(self.text)
        before = self.text[begin:finish]
        after = self.text[begin:start] + replacement + self.text[end:finish]
        return Mutation(self.path, first, operator, start, end, replacement, " ".join(before.split()), " ".join(after.split()))

    def mutations(self):
        """All of the file, in order of the operators of OPERATORS and of places."""
        found = {operator: [] for operator in OPERATORS}
        for index, token in enumerate(self.tokens):
            if index in self.words:
                continue
            for operator, start, end, replacement in self._of_token(index, token):
                found[operator].append(self._mutation(operator, start, end, replacement))
        return found

    def _of_token(self, index, token):
        if (token.kind == "name" or token.text == "::") and self._starts_statement(index):
            yield from self._statement(index)
        if token.kind == "operator":
            yield from self._of_operator(index, token)
        elif token.kind == "number":
            for replacement in changed_numbers(token.text):
                yield "constant", token.start, token.end, replacement
        elif token.kind == "name":
            for operator, names in NAMES.items():
                if token.text in names and (operator != "minmax" or self.text_at(index - 1) == "::"):
                    yield operator, token.start, token.end, names[token.text]
            if token.text == "if" and self.text_at(index + 1) == "(":
                yield from self._condition(index + 1)
            if token.text in ("void", "bool"):
                yield from self._early_return(index, token.text)

    def _of_operator(self, index, token):
        between_spaces = self.text[token.start - 1 : token.start].isspace() and self.text[token.end : token.end + 1].isspace()
        beside_text = "string" in (self.tokens[index - 1].kind, self.tokens[min(index + 1, len(self.tokens) - 1)].kind)
        for operator, texts in BINARY.items():
            if between_spaces and token.text in texts and not (operator == "arithmetic" and beside_text):
                yield operator, token.start, token.end, texts[token.text]
        if token.text == "!":
            yield "not", token.start, token.end, ""

    def _condition(self, opening):
        closing = self.partner.get(opening)
        if closing is None:
            return
        first = opening + 1
        after_initialiser = self._next_at_this_depth(first, closing, ";")
        if after_initialiser != closing:
            first = after_initialiser + 1
        if self._next_at_this_depth(first, closing, "=") != closing:
            return  # a declaration
        start, end = self.tokens[first].start, self.tokens[closing].start
        yield "condition", start, end, f"!({self.text[start:end]})"

    def _early_return(self, index, kind):
        """At the beginning of a function's body."""
        at = index + 1
        while self.tokens[at : at + 1] and self.tokens[at].kind == "name" and self.text_at(at + 1) == "::":
            at += 2
        if at >= len(self.tokens) or self.tokens[at].kind != "name" or self.text_at(at + 1) != "(":
            return
        at = self.partner.get(at + 1, len(self.tokens)) + 1
        while self.text_at(at) in ("const", "noexcept", "override"):
            at += 1
        if self.text_at(at) != "{" or self.partner.get(at, at + 1) == at + 1:
            return
        place = self.tokens[at].end
        for value in [""] if kind == "void" else [" true", " false"]:
            yield "return", place, place, f" return{value};"

    def _starts_statement(self, index):
        before = self.text_at(index - 1)
        if before == ")":
            return self.text_at(self.partner.get(index - 1, 0) - 1) in HEADS
        return before in (";", "{", "}", "else")

    def _statement(self, index):
        token = self.tokens[index]
        if token.text == "return" and self.text_at(index + 1) == ";":
            yield "return", token.start, self.tokens[index + 1].end, "{}"
        if token.text in KEYWORDS:
            return
        at, named, called = index, False, False
        while at < len(self.tokens):
            text = self.text_at(at)
            if self.tokens[at].kind == "name" and not named:
                named, called = True, False
            elif text in ("::", ".", "->") and (named or at == index):
                named = False
            elif text in "([" and named and at in self.partner:
                called = text == "("
                at = self.partner[at]
            else:
                break
            at += 1
        end = at
        if named and called and self.text_at(at) == ";":
            yield "call", token.start, self.tokens[end].end, "{}"
        elif named and self.text_at(at) in ASSIGNMENTS:
            end = self._next_at_this_depth(at, len(self.tokens), ";")
            if end < len(self.tokens):
                yield "assignment", token.start, self.tokens[end].end, "{}"


def changed_numbers(text):
    integer = INTEGER.fullmatch(text)
    if integer:
        value = int(integer[1].replace("'", ""), 8 if re.fullmatch("0[0-7]+", integer[1]) else 0)
        write = hex if integer[1][:2] in ("0x", "0X") else oct_or_decimal(integer[1])
        return [write(changed) + integer[2] for changed in (value + 1, value - 1) if changed >= 0]
    if FLOAT.fullmatch(text):
        suffix = "F" if text[-1] in "fF" else ""
        return [f"1.0{suffix}" if float(text.rstrip("fF")) == 0 else f"(2 * {text})"]
    return []


def oct_or_decimal(text):
    return (lambda value: f"0{value:o}") if re.fullmatch("0[0-7]+", text) else str
