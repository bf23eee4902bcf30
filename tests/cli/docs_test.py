# SPDX-License-Identifier: Apache-2.0
"""The documentation: links, and the names of files, options, commands, presets, variables, functions and tests lead somewhere; tables are
complete, also that of environment variables; exit codes, versions and defaults are those of the program; the figures of README
are those of docs/results.md and docs/scaling.md."""

import fnmatch
import importlib.util
import os
import pathlib
import re
import unittest
import urllib.parse

ROOT = pathlib.Path(os.environ.get("VENTRIS_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = (".ci", "backend", "cmake", "comm", "data", "docs", "launch", "model", "tests", "trainer")
KINDS = (".cc", ".h", ".cu", ".cuh", ".py", ".sh", ".md", ".cmake", ".ini", ".sbatch", ".example", ".supp")

# Names in code that look like files of the tree and are none.
PLACEHOLDERS = {
    # NAME and VERSION stand for any.
    "tests/fuzz/seeds/NAME",
    # A result of tests/gpu/lease.sh, a run folder named model, a header of the system, a source of Marian.
    "summary.md",
    "model/checkpoint-00012000.h5",
    "sysexits.h",
    "src/models/transformer.h",
}

# Options of other programs that the pages show.
OPTIONS_OF_OTHERS = {
    "cmake": {"--build", "--install", "--list-presets", "--parallel", "--prefix", "--preset", "--target"},
    "comet-score": {"--gpus", "--only_system", "--quiet"},
    "ctest": {"--preset", "--test-dir"},
    "dpkg": {"--add-architecture"},
    "marian-decoder": {"--alignment", "--config"},
    "mpirun": {"--allow-run-as-root", "--bind-to", "--hostfile", "--map-by", "--mca", "--oversubscribe"},
    "ncu": {"--csv", "--metrics"},
    "sbatch": {"--cpus-per-task", "--nodes", "--ntasks-per-node", "--signal", "--time"},
    "spm_decode": {"--model"},
    "srun": {"--gpu-bind", "--gpus-per-node", "--gpus-per-task", "--kill-on-bad-exit", "--mpi"},
    "tests": {"--gtest_brief", "--gtest_filter"},  # of GoogleTest
    "torchrun": {"--nnodes", "--nproc-per-node"},
}
PROGRAM = ("backend", "comm", "data", "launch", "model", "trainer")
# Words in capitals in sources that read environment variables, which are none.
NO_VARIABLES = {"AVX", "AVX2", "COMMAND", "DIR"}

OPTIONS_OF_EVERY_COMMAND = {"--config", "--help"}
# Without a command; an example of what is refused; groups.
OTHER_OPTIONS = {"--all", "--markdown", "--version", "--max-s", "--chrf-*"}

# Names in code that are not in the tree: of other programs and of parts of a name.
OTHER_NAMES = {
    "CONTRIBUTING.md": {"PascalCase", "kConstant", "member_", "snake_case"},
    "decisions.md": {"DRELU", "MPI_Ialltoallv", "RELU_AUX_BIAS", "coll_libnbc_iallreduce_algorithm", "odls_base_sigkill_timeout",
                     "target_clones", "variables_map"},  # fmt: skip
    "environment.md": {"CUDA_HOME", "CUDA_PATH", "LIBRARY_PATH", "NCCL_GRAPH_REGISTER", "NCCL_HOME", "NCCL_ROOT", "OMPI_MCA_", "OMP_NUM_THREADS",
                       "SLURM_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"},  # fmt: skip
    "exit-codes.md": {"PID_OF_MPIRUN"},
    "formats.md": {"spm_decode", "train_target_words", "train_unknown_words", "weight_scale"},  # of two parts each
    "gpus.md": {"NCCL_CROSS_NIC", "NCCL_DEBUG_FILE", "NCCL_GRAPH_REGISTER", "NCCL_IB_HCA", "OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_pml", "UCX_NET_DEVICES",
                "mlx5_0", "mlx5_1", "mlx5_10", "mlx5_3"},  # fmt: skip
    "guide.md": {"PID_OF_MPIRUN", "clip_grad_norm_", "clip_grad_value_"},
    "results.md": {"ATEN_CPU_CAPABILITY", "expandable_segments"},
    "scaling.md": {"SM90_NVLINK_BW"},
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


def spans(text):
    """What stands in backticks in lines of text."""
    return re.findall(r"`([^`]+)`", split_blocks(text)[0])


def first_cells(text, heading):
    """Those of the rows of the table whose first column has this heading."""
    rows = re.search(rf"^\| {re.escape(heading)} \|.*\n\|-.*\n((?:\|.*\n)+)", text, re.MULTILINE)[1]
    return [row.split("|")[1].strip() for row in rows.splitlines()]


def option_tables(reference):
    """The options of each command, with the choices for their value where it is one of a list: {"train": {"--device": {"auto", ...}}}."""
    tables = {}
    sections = re.findall(r"^## ventris (\S+)$(.*?)(?=^## |\Z)", reference, re.MULTILINE | re.DOTALL)
    for command, section in sections:
        table = tables[command] = {}
        for cell in re.findall(r"^\| `(-.*?)` \|", section, re.MULTILINE):
            choices = re.search(r" ([a-z0-9][\w-]*(?:\\\|[a-z0-9][\w-]*)+)$", cell)
            table |= dict.fromkeys(re.findall(r"--[a-z][\w-]*", cell), set(choices[1].split("\\|")) if choices else set())
    for command, section in sections:
        for other, names in re.findall(r"^Options of \[`(\S+)`\]\S+ (.*)\.$", section, re.MULTILINE):
            tables[command] |= {name: tables[other][name] for name in re.findall(r"--[a-z][\w-]*", names)}
    return tables


def options_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))


def script_options(name):
    """What looks like an option in a script, or in that of the same stem which it starts."""
    paths = {ROOT / name, (ROOT / name).with_suffix(".py")}
    return {option for path in paths if path.exists() for option in options_of(path.read_text(encoding="utf-8"))}


def options_used(line, commands, scripts):
    """(program, option, value) for each option of a command line; the program is a command of ours, a script, a key of OPTIONS_OF_OTHERS,
    or None if it is none of these."""
    owner, words = None, re.sub(r"[][()\"',;]|\\?\|+|&&|^\$", lambda mark: mark[0] if mark[0] in "|" else f" {mark[0]} ", line).split()
    for i, word in enumerate(words):
        after = words[i + 1] if i + 1 < len(words) else ""
        name = word.rpartition("/")[2]
        script = next((script for script in scripts if "/" in word and script.endswith(word.removeprefix("./"))), None)
        if word in ("|", "\\|", "||", "&&", ";", "$", ">", "--"):
            owner = None
        elif re.fullmatch(r"--?[a-z].*", word):
            if word.startswith("--"):
                option, _, value = word.partition("=")
                yield owner, option, value or after
        elif owner not in scripts and name in ("ventris", "ventris_emulated") or (i == 0 and word in commands):
            owner = word if word in commands else after if after in commands else None
        elif owner in scripts and words[i - 1].startswith("--"):
            continue  # its value
        elif name in ("cpu.sbatch", "gpu.sbatch"):
            owner = "train"
        elif script or name in OPTIONS_OF_OTHERS:
            owner = script or name
        elif name.endswith("_tests"):
            owner = "tests"


def alternatives(name):
    """What a shell makes of {a,b} in a name."""
    braces = re.search(r"\{([^{}]*)\}", name)
    if not braces:
        return [name]
    before, after = name[: braces.start()], name[braces.end() :]
    return [one for choice in braces[1].split(",") for one in alternatives(before + choice + after)]


class Docs(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
        # What was removed is nowhere in the tree.
        for page in cls.texts:
            if page.name == "CHANGELOG.md":
                cls.texts[page] = re.sub(r"### Removed\n.*?(?=\n#|\Z)", "", cls.texts[page], flags=re.DOTALL)
        cls.files = [path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
        cls.files += [path.name for path in ROOT.iterdir()]
        stems = {path.stem for path in map(pathlib.Path, cls.files)}
        cls.words = stems | {stem.removesuffix("_test") for stem in stems}
        for name in cls.files:
            path = ROOT / name
            is_text = path.suffix in KINDS or path.name in ("CMakeLists.txt", "run") or path.parent == ROOT
            if is_text and path.is_file() and path not in (*PAGES, pathlib.Path(__file__)):
                cls.words |= set(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace")))

    def command_lines(self):
        """Page, place for messages and text of each line of code and of each piece of code in a line of text."""
        for page, text in self.texts.items():
            for span in spans(text):
                yield page, f"{page.name}: {span}", " ".join(span.split())
            # Those of docs/dev/extending.md are in several languages, and tests/guides runs them; docs/commands.md has the synopses.
            if page.name not in ("extending.md", "commands.md"):
                for line in re.sub(r"\\\n *", "", split_blocks(text)[1]).splitlines():
                    yield page, f"{page.name}: {line.strip()}", line.strip()

    def newest_formats(self):
        """{"ventris weights": "2", ...} of data/io/file_format.h and its source."""
        text = "".join((ROOT / "data" / "io" / f"file_format.{end}").read_text(encoding="utf-8") for end in ("h", "cc"))
        return dict(re.findall(r'"(ventris[- ][a-z]+) (\d+)"', text))

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
        # Those that a reader of docs/dev/extending.md makes.
        made = set(re.findall("^New file `(.+)`:$", "\n".join(self.texts.values()), re.MULTILINE))
        for page, text in self.texts.items():
            for name in set(files_in_code(text)) - PLACEHOLDERS - made:
                for one in alternatives(name):
                    with self.subTest(page=page.name, name=one):
                        checked += 1
                        self.assertTrue(self.is_in_the_tree(one), f"{page.name} names {one}, which is not in the tree")
        self.assertGreater(checked, 100)

    def test_commands_and_options_are_those_of_the_programs(self):
        """Each option of a command line belongs to its program, and its value to the choices there; one that stands alone belongs to any."""
        commands = option_tables(self.texts[ROOT / "docs" / "commands.md"])
        scripts = {name: script_options(name) for name in self.files if name.endswith((".py", ".sh")) and not name.startswith("tests/cli/")}
        known = set().union(OPTIONS_OF_EVERY_COMMAND, OTHER_OPTIONS, *commands.values(), *OPTIONS_OF_OTHERS.values(), *scripts.values())
        known |= options_of(split_blocks(self.texts[ROOT / "docs" / "dev" / "extending.md"])[1])  # which a reader adds
        kinds = {name.partition(" ")[2] for name in self.newest_formats()}  # `ventris checkpoint` is a format
        checked, wrong = 0, []
        for page, place, line in self.command_lines():
            for owner, option, value in options_used(line, commands, scripts):
                checked += 1
                mine = {*commands[owner], *OPTIONS_OF_EVERY_COMMAND} if owner in commands else scripts.get(owner) or OPTIONS_OF_OTHERS.get(owner)
                if option not in (mine or known):
                    wrong.append(f"{place}: {owner or 'nothing'} has no {option}")
                tables = [commands[owner]] if owner in commands else [] if owner else commands.values()
                choices = set().union(*(table.get(option, ()) for table in tables))
                if choices and re.fullmatch(r"[a-z0-9][\w-]*", value) and value not in choices:
                    wrong.append(f"{place}: {value} is no value of {option}")
            if page.name != "extending.md":  # which adds one
                for word in re.findall(r"(?:^|[$|(] *|/|mpirun .*?|-- )ventris ([a-z][\w-]+)", line):
                    if word not in {*commands, "help", *kinds}:
                        wrong.append(f"{place}: there is no command {word}")
        self.assertEqual(wrong, [])
        self.assertGreater(checked, 600)

    def test_defaults_beside_options_are_theirs(self):
        """`--option` (N), `--option` seconds (N s), `--option`, default N"""
        defaults = {}
        for cell, meaning in re.findall(r"^\| `(-.*?)` \| (.*) \|$", self.texts[ROOT / "docs" / "commands.md"], re.MULTILINE):
            for option in options_of(cell):
                defaults.setdefault(option, set()).update(re.findall(r"default: ([\d.]+)\*", meaning))
        checked, wrong = 0, []
        for page, text in self.texts.items():
            for option, number in re.findall(r"`(--[a-z][\w-]*)`(?: seconds| steps| tokens)?(?:\s+\(|, default )(\d+(?:[.,]\d+)*)(?![.,]?\w)", text):
                if option in defaults:
                    checked += 1
                    if number.replace(",", "") not in defaults[option]:
                        wrong.append(f"{page.name}: {option} with {number}, in docs/commands.md {' or '.join(defaults[option])}")
        self.assertEqual(wrong, [])
        self.assertGreater(checked, 5)

    def test_names_in_code_are_those_of_the_tree(self):
        """Functions, types, variables of the environment, keys: whatever has an underscore or a capital in it."""
        wrong = set()
        for page, text in self.texts.items():
            # A reader of docs/dev/extending.md makes what stands in its blocks, and these files.
            made = split_blocks(text)[1] + "".join(re.findall("^New file .*:$", text, re.MULTILINE)) if page.name == "extending.md" else ""
            known = self.words | OTHER_NAMES.get(page.name, set()) | set(re.findall(r"\w+", made))
            names = re.findall(r"(?<![\w.…-])[A-Za-z_]\w+(?![\w…])", "\n".join(spans(text)))
            names = {name for name in names if "_" in name.strip("_") or re.search("[a-z][A-Z]", name)}
            wrong |= {f"{page.name}: {name}" for name in names.union(re.findall(r"(?:\b|-D)(VENTRIS_[A-Z_]+)(?![\w…])", text)) - known}
        self.assertEqual(wrong, set(), "these are nowhere in the tree")

    def test_exit_codes_are_those_of_the_program(self):
        codes = {int(code) for code in re.findall(r"^  k\w+ = (\d+),$", (ROOT / "backend" / "device" / "error.h").read_text(encoding="utf-8"), re.MULTILINE)}
        page = self.texts[ROOT / "docs" / "exit-codes.md"]
        table = page.partition("| code | meaning |")[2].partition("\n\n")[0]
        self.assertEqual({int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}, codes, "the table of docs/exit-codes.md")
        first_steps = {code for codes in first_cells(self.texts[ROOT / "docs" / "guide.md"], "code") for code in re.findall(r"\b\d+\b(?! \+)", codes)}
        self.assertEqual({int(code) for code in first_steps}, codes - {0}, "the table of docs/guide.md")
        # Those of launchers and shells, of tests that are skipped, of signals.
        others = {1, 2, 77, 126, 127, 255, *range(129, 160)}
        for name, text in self.texts.items():
            for code in re.findall(r"(?:\bcodes?|\b(?:end|ends|ended|otherwise)\b[^.;|()]{0,40} with) (\d+)\b(?![.,]\d| %| kB)", text):
                self.assertIn(int(code), codes | others, f"{name.name}: exit code {code}")

    def test_tables_have_a_row_for_each(self):
        def text(name):
            return (ROOT / name).read_text(encoding="utf-8")

        def listed(page, heading):
            return [name for cell in first_cells(self.texts[ROOT / page], heading) for name in re.findall(r"`([^`]+)`", cell)]

        def folders(name):
            return {f"{path.name}/" for path in (ROOT / name).iterdir() if path.is_dir() and path.name != "__pycache__"}

        stages = re.search(r"there are: ([a-z ]+)\"", text(".ci/run"))[1].split()
        self.assertEqual(sorted(listed("CONTRIBUTING.md", "stage")), sorted(stages), "stages of .ci/run")
        checks = re.search(r"there are: ([a-z ]+)\"", text("tests/lint.sh"))[1].split()
        self.assertEqual(sorted(listed("CONTRIBUTING.md", "check")), sorted(checks), "checks of tests/lint.sh")
        for folder in ("backend", "comm", "data", "launch", "trainer"):
            self.assertEqual(set(listed("docs/dev/architecture.md", f"in `{folder}/`")), folders(folder), f"docs/dev/architecture.md: rooms of {folder}/")
        top = {f"{name}/" for name in re.findall(r"^add_subdirectory\((\w+)\)", text("CMakeLists.txt"), re.MULTILINE)}
        self.assertEqual(set(listed("docs/dev/architecture.md", "folder")), {*top, "tests/"}, "docs/dev/architecture.md: folders")
        rows = re.findall(r"^\| `(ventris[- ][a-z]+)`[^|]*\| (\d+) \|", self.texts[ROOT / "docs" / "formats.md"], re.MULTILINE)
        versions = {kind: max(v for k, v in rows if k == kind) for kind, _ in rows}
        self.assertEqual(versions, self.newest_formats(), "docs/formats.md: versions")
        tested = {f"cli.{path.stem}" for path in (ROOT / "tests" / "cli").glob("*_test.py")}
        for name in listed("docs/dev/testing.md", "tests"):
            if name.startswith("cli."):
                self.assertIn(name, tested, "docs/dev/testing.md: tests that need more")

    def test_environment_variables_that_are_read_have_a_row(self):
        """In docs/environment.md: whatever looks like one in a source that reads any, and what the scripts give a default."""
        page = self.texts[ROOT / "docs" / "environment.md"]
        rows = {name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
        found = {}
        for name in self.files:
            path, folder = ROOT / name, name.partition("/")[0]
            if folder in PROGRAM and path.suffix in (".cc", ".h", ".cu", ".cuh"):
                text = path.read_text(encoding="utf-8")
                if re.search(r"\b(getenv|setenv|launcher_number)\(", text):
                    found |= dict.fromkeys(re.findall(r'"([A-Z][A-Z0-9]+(?:_\w+)?)=?"', text), name)
            elif path.suffix in (".sh", ".sbatch") and (folder == "launch" or name == "tests/run.sh"):
                text = path.read_text(encoding="utf-8")
                defaults = re.findall(r"\$\{([A-Z][A-Z0-9_]+)(?::?[-+=?])", text)
                found |= dict.fromkeys([*defaults, *re.findall(r"\$\{?(SLURM_\w+)", text)], name)
        found = {name: source for name, source in found.items() if name not in NO_VARIABLES and not re.match("MPI_[A-Z]", name)}
        self.assertGreater(len(found), 30)
        missing = {f"{name}, which {source} reads" for name, source in found.items() if name not in rows}
        self.assertEqual(missing, set(), "describe them in docs/environment.md")

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

    def test_figures_of_the_readme_stand_in_the_results(self):
        number = r"(?<![\w.,])\d+(?:[.,]\d+)*(?!\w)"
        section = self.texts[ROOT / "README.md"].split("\n## Results\n")[1].split("\n## ")[0]
        used = set(re.findall(number, section))
        self.assertGreater(len(used), 20)
        pages = "".join(self.texts[ROOT / "docs" / name] for name in ("results.md", "scaling.md"))
        self.assertEqual(used - set(re.findall(number, pages)), set())

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
