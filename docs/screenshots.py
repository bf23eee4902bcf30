# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of pages in docs/guide.md from training runs, with Chromium.

    python3 docs/screenshots.py RUN_FOLDER... [--sentence TEXT --reference TEXT] [--program VENTRIS] [--output-dir docs]

The first run is the one whose translations, attention and search are shown; the others are drawn beside it in the curves.
Runs are named as their folders, so give those names that a reader understands. The first one needs several validations
with translations (--valid-every, BLEU with its interval), and several checkpoints
(--save-every, --keep-checkpoints); what is missing is named. Without --sentence it takes one of the kept validation
sentences: of 7 to 12 words, and translated in several ways. Makes report-light.png, report-dark.png,
report-translations.png, report-attention.png and attention-search.png, each of less than 150 KB.
"""

import argparse
import base64
import glob
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import small_png

FOLDER = pathlib.Path(__file__).resolve().parent
WIDTH = 1280  # of the window, in CSS pixels: two charts side by side, and all columns of the table
MAX_BYTES = 150_000
SCALES = (2, 1.5, 1)  # device pixels for a CSS pixel; the first whose picture is small enough counts
CHECKPOINTS = 6
SEARCH_BEAM = 3  # so that what fell out fits in the picture


class Needed(Exception):
    """What has to be there and is not."""


class Browser:
    """A headless Chromium with one page, told by its DevTools protocol through two pipes."""

    def __init__(self, program, profile):
        to_read, self.commands = os.pipe()
        self.answers, to_write = os.pipe()
        # The descriptors 3 and 4 are those of the protocol.
        words = ["sh", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "sh", program, "--headless", "--no-sandbox", "--disable-gpu",
                 "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]  # fmt: skip
        self.process = subprocess.Popen(words, pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.numbers, self.session, self.seen = b"", itertools.count(1), None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)

    def message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise Needed("Chromium ended; does it start as: chromium --headless --no-sandbox --dump-dom about:blank")
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        number = next(self.numbers)
        request = {"id": number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.commands, data) :]
        while True:
            message = self.message()
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.seen.append(message)

    def open(self, path, dark=False, width=WIDTH, height=900, scale=1):
        """Opens a page and waits until it is drawn. An error of its scripts is an error."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.seen.clear()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        while not any(message.get("method") == "Page.loadEventFired" for message in self.seen):
            self.seen.append(self.message())
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def evaluate(self, script):
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        for message in [{"params": result}, *self.seen]:
            if "exceptionDetails" in message.get("params", {}):
                raise RuntimeError(f"the page has an error: {message['params']['exceptionDetails']}")
        return result["result"].get("value")

    def picture(self, clip):
        """PNG of [x, y, width, height] of the page."""
        clip = dict(zip(("x", "y", "width", "height"), clip), scale=1)
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])


# From the top of a page, or of an element, to the bottom of another, over the whole width. Both are scripts.
def clip_of(first, last, margin=12):
    return f"""(() => {{
      const top = {first or "null"}, bottom = {last};
      const y = top ? Math.max(0, top.getBoundingClientRect().top + scrollY - {margin}) : 0;
      return [0, y, document.documentElement.clientWidth, bottom.getBoundingClientRect().bottom + scrollY + {margin} - y];
    }})()"""


def find(selector, at=0):
    return f"document.querySelectorAll({json.dumps(selector)})[{at}]"


def choose(name, value):
    """Selects an entry of a list by its number; negative ones count from the end, fractions from the begin."""
    index = f"Math.floor({value} * (list.length - 1))" if 0 < value < 1 else f"{value} < 0 ? list.length + {value} : {value}"
    return f"{{const list = document.getElementById({json.dumps(name)}); list.selectedIndex = {index}; list.onchange()}}"


HIDE_MADE = "document.getElementById('made').hidden = true"  # the commit and the time
PICTURES = {
    # name: page, dark, what is done first, from where to where
    "report-light": ("report", False, HIDE_MADE, clip_of("", find("#charts figure", 3))),
    "report-dark": ("report", True, HIDE_MADE, clip_of("", find("#charts figure", 3))),
    "report-translations": ("report", False, choose("sample-step", 0.34), clip_of(find("#samples-section"), find("#samples .sample", 3))),
    "report-attention": ("attention", False, "", clip_of("", find("#maps"))),
    "attention-search": ("attention", False, "", clip_of(find("#search-section"), find("#search"))),
}


def lines_of(path):
    return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").splitlines()


def check_run(folder):
    """Ends with what the run lacks for the pictures."""
    metrics = [json.loads(line) for line in lines_of(folder / "metrics.jsonl") if line.endswith("}")]
    scored = [line for line in metrics if "valid_bleu" in line]
    lacks = []
    if len(scored) < 3:
        lacks.append("at least 3 validations with BLEU: a smaller --valid-every")
    if not any("bleu_low" in line for line in scored):
        lacks.append("confidence intervals of BLEU, which validations with translations log")
    if len(glob.glob(str(folder / "valid" / "*" / "*.txt"))) < 3:
        lacks.append("translations of at least 3 validations: --keep-valid-outputs")
    if len(glob.glob(str(folder / "checkpoint-*.h5"))) < 3:
        lacks.append("at least 3 checkpoints: a smaller --save-every, a larger --keep-checkpoints")
    if lacks:
        raise Needed(f"{folder} lacks for the pictures:\n  " + "\n  ".join(lacks))


def chosen_sentence(folder):
    """A source and its reference, of those that the validations translated."""
    for source_file in sorted(glob.glob(str(folder / "valid" / "*.source.txt"))):
        name = pathlib.Path(source_file).name.removesuffix(".source.txt")
        texts = [lines_of(path) for path in sorted(glob.glob(str(folder / "valid" / "*" / f"{name}.txt")))]
        pairs = zip(lines_of(source_file), lines_of(folder / "valid" / f"{name}.reference.txt"))
        for i, (source, reference) in enumerate(pairs):
            found = {text[i] for text in texts if i < len(text)}
            if 7 <= len(source.split()) <= 12 and len(found) >= 3 and texts[-1][i] != reference:
                return source, reference
    raise Needed(f"{folder}: no kept sentence has 7 to 12 words and several translations; give one with --sentence and --reference")


def run(*words, cwd):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, cwd=cwd)
    if result.returncode != 0:
        raise Needed(f"this failed: {' '.join(map(str, words))}\n{result.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="RUN_FOLDER", nargs="+", type=pathlib.Path)
    parser.add_argument("--sentence", help="the sentence of the pictures of attention and search")
    parser.add_argument("--reference", help="its translation")
    parser.add_argument("--program", type=pathlib.Path, default=FOLDER.parent / "build" / "release" / "ventris")
    parser.add_argument("--output-dir", type=pathlib.Path, default=FOLDER)
    options = parser.parse_args()
    if bool(options.sentence) != bool(options.reference):
        parser.error("--sentence and --reference go together")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        raise Needed("there is no Chromium; on Debian: apt-get install chromium")
    if not options.program.exists():
        raise Needed(f"there is no {options.program}; build it, or name another with --program")
    for folder in options.folders:
        if not (folder / "metrics.jsonl").is_file():
            raise Needed(f"{folder} is no run folder: it has no metrics.jsonl")
    names = [pathlib.Path(os.path.abspath(folder)).name for folder in options.folders]  # of a link, its own
    if len(set(names)) < len(names):
        raise Needed(f"the folders need different names: {' '.join(names)}")
    check_run(options.folders[0])
    sentence, reference = (options.sentence, options.reference) if options.sentence else chosen_sentence(options.folders[0])
    program_path = options.program.resolve()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        # No page may show where the folders are.
        for name, folder in zip(names, options.folders):
            (pathlib.Path(made) / name).symlink_to(folder.resolve())
        pages = {name: pathlib.Path(made) / f"{name}.html" for name in ("report", "attention")}
        run(program_path, "report", *names, "--output", pages["report"], cwd=made)
        run(program_path, "attention", "--model", names[0], "--checkpoints", CHECKPOINTS, "--source", sentence, "--target", reference,
            "--output", pages["attention"], "--device", "cpu", "--beam-size", SEARCH_BEAM, cwd=made)  # fmt: skip
        browser = Browser(program, os.path.join(made, "profile"))
        try:
            for name, (page, dark, script, clip) in PICTURES.items():
                for scale in SCALES:
                    browser.open(pages[page], dark, scale=scale)
                    browser.evaluate(script)
                    picture = small_png.smaller(browser.picture(browser.evaluate(clip)))
                    if len(picture) < MAX_BYTES:
                        break
                else:
                    raise Needed(f"{name}.png would have {len(picture)} bytes, more than {MAX_BYTES}: a shorter sentence helps")
                path = options.output_dir / f"{name}.png"
                path.write_bytes(picture)
                print(f"{path}: {len(picture):,} bytes, {scale} pixels for one of the page")
        finally:
            browser.close()


if __name__ == "__main__":
    try:
        main()
    except Needed as needed:
        sys.exit(f"error: {needed}")
