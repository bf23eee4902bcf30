# SPDX-License-Identifier: Apache-2.0
"""Draws docs/results.svg, the picture of docs/results.md, from the tables of that page.

    python3 docs/results_picture.py

Numbers, programs with their versions, precisions and processors are all read from docs/results.md, so that each stands
in one place. tests/cli/docs_test.py checks that the picture is the one of these tables.
"""

import html
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
SOURCE = FOLDER / "results.md"
PICTURE = FOLDER / "results.svg"

WIDTH = 760
BARS_AT = 250  # x of the left end of all bars
LONGEST_BAR = 420
BAR_HEIGHT = 12
BAR_STEP = 16
GROUP_HEADING = 46

# The panel has a background of its own, so that text is readable on pages of any colour.
STYLE = """
.panel { fill: #ffffff; stroke: #d0d7de; }
text { fill: #1f2328; font: 12px sans-serif; }
.heading { font-weight: bold; font-size: 13px; }
.ventris { fill: #1f6feb; }
.peer { fill: #8c959f; }
@media (prefers-color-scheme: dark) {
  .panel { fill: #161b22; stroke: #30363d; }
  text { fill: #e6edf3; }
  .ventris { fill: #388bfd; }
  .peer { fill: #6e7681; }
}
"""


class Section:
    """The text below one heading of results.md, up to the next heading."""

    def __init__(self, text, heading):
        self.heading = heading
        lines = text.splitlines()
        if heading not in lines:
            raise ValueError(f"{SOURCE.name} has no heading '{heading}'")
        begin = lines.index(heading) + 1
        end = next((i for i in range(begin, len(lines)) if lines[i].startswith("#")), len(lines))
        self.lines = lines[begin:end]

    def phrase(self, words):
        """The words themselves; a ValueError where the section does not have them."""
        if words not in " ".join(" ".join(self.lines).split()):
            raise ValueError(f"{SOURCE.name}: '{self.heading}' does not say '{words}'")
        return words

    def rows(self, columns, **wanted):
        """The cells of these columns, of the rows where the cell of each column in `wanted` (with _ for a space) has that
        value, of the first table that has such rows. Of columns of one name the first counts."""
        found = []
        header = None
        for line in self.lines:
            if header is None:
                cells = [cell.strip() for cell in line.strip("|").split("|")]
                if line.startswith("|") and all(name in cells for name in columns):
                    header = cells
            elif not line.startswith("|"):
                if found:
                    break
                header = None
            else:
                cells = [cell.strip() for cell in line.strip("|").split("|")]
                named = dict(reversed(list(zip(header, cells))))
                if all(named[name.replace("_", " ")] == value for name, value in wanted.items()):
                    found.append([named[name] for name in columns])
        if not found:
            raise ValueError(f"{SOURCE.name}: '{self.heading}' has no row of {wanted} with the columns {columns}")
        return found


def training(text, preset):
    """Heading, machine and bars (label, whether it is ventris, value as written) of the training of a preset."""
    section = Section(text, "## Training speed")
    ours = section.phrase("ventris: two ranks of one thread")
    theirs = section.phrase("one process of two threads")
    processor = Section(text, "# Measured results").phrase("2 cores of an AMD EPYC of the Zen 5 generation")
    rows = section.rows(["trainer", "precision", "target tokens/s"], preset=preset)
    bars = [(f"{trainer}, {precision}", trainer == "ventris", rate) for trainer, precision, rate in rows if rate]
    return f"Training, preset {preset}: target tokens/s", f"{processor}; {ours}; PyTorch: {theirs}", bars


def decoding(text):
    """The same of decoding in f32 and bf16."""
    section = Section(text, "## Decoding speed on the CPU")
    processor = Section(text, "# Measured results").phrase("AMD EPYC of the Zen 5 generation")
    peer = section.phrase("CTranslate2 4.8.5 in f32")
    section.phrase("one thread, all programs in turn")
    bars = [(peer.replace(" in ", ", "), False, "1.00")]
    for model, beam, f32, bf16 in section.rows(["model", "beam", "speed: f32", "bf16"], sentences_at_a_time="32"):
        bars.append((f"ventris, f32, {model}, beam {beam}", True, f32))
        bars.append((f"ventris, bf16, {model}, beam {beam}", True, bf16))
    return f"Decoding, 32 sentences at a time: times the speed of {peer}", f"one thread of an {processor}", bars


def decoding_int8(text):
    """The same of decoding with 8-bit integers."""
    section = Section(text, "### 8-bit integers")
    section.phrase("Speed relative to the peer's int8, by elapsed time, one thread")
    processor = Section(text, "# Measured results").phrase("AMD EPYC of the Zen 5 generation")
    peer = section.phrase("CTranslate2 4.8.5")
    bars = [(f"{peer}, int8", False, "1.00")]
    for model, beam, ratio in section.rows(["model", "beam", "AVX-512"], sentences_at_a_time="32"):
        bars.append((f"ventris, int8, {model}, beam {beam}", True, ratio))
    heading = f"Decoding, 32 sentences at a time: times the speed of {peer} in int8"
    return heading, f"one thread of an {processor}, AVX-512", bars


def picture(text):
    """The SVG of the text of results.md."""
    drawn = []
    y = 10
    for heading, processor, bars in (training(text, "tiny"), training(text, "base"), decoding(text), decoding_int8(text)):
        drawn.append(f'<text class="heading" x="16" y="{y + 18}">{html.escape(heading)}</text>')
        drawn.append(f'<text x="16" y="{y + 35}">{html.escape(processor)}</text>')
        y += GROUP_HEADING
        values = [float(value.replace(",", "")) for _, _, value in bars]
        for (label, is_ventris, written), value in zip(bars, values):
            length = max(1, round(LONGEST_BAR * value / max(values)))
            kind = "ventris" if is_ventris else "peer"
            drawn.append(f"<g><title>{html.escape(f'{label}, {processor}: {written}')}</title>")
            drawn.append(f'<text x="16" y="{y + 10}">{html.escape(label)}</text>')
            drawn.append(f'<rect class="{kind}" x="{BARS_AT}" y="{y}" width="{length}" height="{BAR_HEIGHT}"/>')
            drawn.append(f'<text x="{BARS_AT + length + 6}" y="{y + 10}">{html.escape(written)}</text></g>')
            y += BAR_STEP
        y += 6
    height = y + 8
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
            "<title>Speed of ventris against PyTorch and CTranslate2</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="panel" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
            *drawn,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
