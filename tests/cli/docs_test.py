"""The documentation: links and names of files lead somewhere, README stays short, its figures and picture are those of
docs/results.md."""

import fnmatch
import importlib.util
import os
import pathlib
import re
import unittest
import urllib.parse

ROOT = pathlib.Path(os.environ.get("VENTRIS_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = (".ci", "backend", "cmake", "comm", "data", "docs", "launch", "model", "tests", "trainer")
KINDS = (".cc", ".h", ".cu", ".cuh", ".py", ".sh", ".md", ".cmake", ".ini", ".sbatch", ".example", ".supp")

# Names in code that look like files of the tree and are none.
PLACEHOLDERS = {
    # NAME and VERSION stand for any.
    "tests/fuzz/seeds/NAME",
    "tests/golden/files/VERSION",
    # A result of tests/gpu/first_hour.sh, a run folder named model, a header of the system, a source of Marian.
    "summary.md",
    "model/checkpoint-00012000.h5",
    "sysexits.h",
    "src/models/transformer.h",
}

# Options in README.md and the guide that belong to cmake, mpirun and sbatch.
OPTIONS_OF_OTHERS = {
    "--allow-run-as-root",
    "--bind-to",
    "--build",
    "--cpus-per-task",
    "--hostfile",
    "--install",
    "--mca",
    "--nodes",
    "--ntasks-per-node",
    "--oversubscribe",
    "--signal",
    "--time",
}


def split_blocks(text):
    """The text without its code blocks, fenced or indented, and the code blocks. Lines keep their numbers in both."""
    prose, blocks, fenced = [""], [""], False
    for line in text.splitlines():
        is_fence = line.startswith("```")
        is_code = fenced or is_fence or not line.strip() or (line.startswith("    ") and prose[-1] == "")
        prose.append("" if is_code else line)
        blocks.append(line if is_code and not is_fence else "")
        fenced ^= is_fence
    return "\n".join(prose[1:]), "\n".join(blocks[1:])


def without_code(text):
    return re.sub(r"`[^`]*`", "", split_blocks(text)[0])


def anchors(text):
    """The anchors that GitHub gives the headings of a page."""
    found = {}
    for heading in re.findall(r"^#{1,6} +(.*?)[ #]*$", split_blocks(text)[0], re.MULTILINE):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = found.get(name, -1) + 1
        found[name] = count
        if count:
            found[f"{name}-{count}"] = 0
    return set(found)


def links(text):
    """Targets of links and pictures: of Markdown and of HTML."""
    text = without_code(text)
    return re.findall(r"\]\(\s*<?([^)>\s]+)", text) + re.findall(r"\b(?:href|src)=\"([^\"]+)\"", text)


def broken_link(page, target):
    """Why the link of a page leads nowhere, or nothing."""
    url = urllib.parse.urlsplit(target)
    if url.scheme:
        return None
    path = (page.parent / urllib.parse.unquote(url.path)).resolve() if url.path else page
    if not path.exists():
        return "there is no such file"
    if path != ROOT and ROOT not in path.parents:
        return "it leads out of the tree"
    if url.fragment and url.fragment not in anchors(path.read_text(encoding="utf-8")):
        return f"{path.name} has no heading of that name"
    return None


def code(text):
    """What stands in backticks in lines of text, and the code blocks."""
    prose, blocks = split_blocks(text)
    return " ".join(re.findall(r"`([^`]+)`", prose)), blocks


def files_in_code(text):
    """The words in code that look like files or folders of the tree: in a line of text what begins with one of its
    folders or ends as its sources do, in a code block what does both."""
    for part, enough in zip(code(text), (any, all)):
        for word in part.split():
            name = word.rstrip(".,:;/")
            marks = name.startswith(tuple(folder + "/" for folder in FOLDERS)), name.endswith(KINDS)
            if re.fullmatch(r"[\w.*?/{},-]+", name) and name not in KINDS and enough(marks):
                yield name


def alternatives(name):
    """What a shell makes of {a,b} in a name."""
    braces = re.search(r"\{([^{}]*)\}", name)
    if not braces:
        return [name]
    before, after = name[: braces.start()], name[braces.end() :]
    return [one for choice in braces[1].split(",") for one in alternatives(before + choice + after)]


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
        cls.files = [path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
        cls.files += [path.name for path in ROOT.iterdir()]

    def is_in_the_tree(self, name):
        """Whether the name, perhaps with * in it, is a path from the root, or the last parts of one."""
        return any(fnmatch.fnmatchcase("/" + file, "*/" + name) for file in self.files)

    def test_links_lead_somewhere(self):
        checked = 0
        for page, text in self.texts.items():
            for target in links(text):
                with self.subTest(page=page.name, link=target):
                    checked += 1
                    self.assertIsNone(broken_link(page, target))
        self.assertGreater(checked, 50)

    def test_files_named_in_code_exist(self):
        checked = 0
        # Those that a reader of docs/extending.md makes.
        made = set(re.findall("^New file `(.+)`:$", "\n".join(self.texts.values()), re.MULTILINE))
        for page, text in self.texts.items():
            for name in set(files_in_code(text)) - PLACEHOLDERS - made:
                for one in alternatives(name):
                    with self.subTest(page=page.name, name=one):
                        checked += 1
                        self.assertTrue(self.is_in_the_tree(one), f"{page.name} names {one}, which is not in the tree")
        self.assertGreater(checked, 100)

    def test_commands_and_options_of_readme_and_guide_are_the_programs(self):
        reference = self.texts[ROOT / "docs" / "commands.md"]
        commands = {*re.findall(r"^## ventris (\S+)$", reference, re.MULTILINE), "help"}
        options = {*re.findall(r"(?<!\S)`?(--[a-z][\w-]+)", reference), "--version"} | OPTIONS_OF_OTHERS
        for page in (ROOT / "README.md", ROOT / "docs" / "guide.md"):
            for part in code(self.texts[page]):
                used = re.findall(r"(?:^|[$|] |mpirun .*?)ventris ([a-z][\w-]+)", part, re.MULTILINE)
                self.assertEqual(set(used) - commands, set(), page.name)
                self.assertEqual(set(re.findall(r"(?<!\S)--[a-z][\w-]+", part)) - options, set(), page.name)

    def test_tests_that_the_pages_name_are_there(self):
        """`Suite.Name` of GoogleTest and `test_name` of Python; an ellipsis stands for the rest of a name."""
        kinds = {".cc", ".h", ".py"}
        tests = "".join(path.read_text(encoding="utf-8", errors="replace") for path in (ROOT / "tests").rglob("*") if path.suffix in kinds)
        for page, text in self.texts.items():
            for suite, name in re.findall(r"`([A-Z]\w+)\.([A-Z]\w+)`", text):
                with self.subTest(page=page.name, name=f"{suite}.{name}"):
                    found = re.search(rf"\b{suite}\b\s*,\s*{name}\b", tests)
                    self.assertIsNotNone(found, f"{page.name} names {suite}.{name}, which is no test")
            for name in re.findall(r"`(test_\w+)…?`", text):
                with self.subTest(page=page.name, name=name):
                    self.assertTrue(f"def {name}" in tests, f"{page.name} names {name}, which is no test")

    def test_readme_is_short(self):
        self.assertLessEqual(len(self.texts[ROOT / "README.md"].splitlines()), 150)

    def test_figures_of_the_readme_stand_in_the_results(self):
        number = r"(?<![\w.,])\d+(?:[.,]\d+)*(?!\w)"
        section = self.texts[ROOT / "README.md"].split("\n## Results\n")[1].split("\n## ")[0]
        used = set(re.findall(number, section))
        self.assertGreater(len(used), 20)
        self.assertEqual(used - set(re.findall(number, self.texts[ROOT / "docs" / "results.md"])), set())

    def test_the_picture_is_of_todays_figures(self):
        script = ROOT / "docs" / "results_picture.py"
        spec = importlib.util.spec_from_file_location("results_picture", script)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        drawn = module.picture(self.texts[ROOT / "docs" / "results.md"]).encode()
        self.assertEqual(
            (ROOT / "docs" / "results.svg").read_bytes(), drawn, "make it anew: python3 docs/results_picture.py"
        )
        for other in (b"http:", b"https:", b"<script", b"@import", b"url("):
            self.assertNotIn(other, drawn.replace(b"http://www.w3.org/2000/svg", b""), "nothing from outside")


if __name__ == "__main__":
    unittest.main(verbosity=2)
