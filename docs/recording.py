"""Draw the terminal recording of the README: `bipe segment`, and the perplexities of the demo.

    python docs/recording.py

What is shown is what `bipe segment` prints here, and the table that `bipe report` prints, of the
numbers in benchmarks/results/demo_cpu.json. Who prefers reduced motion sees all lines at once.
"""

import io
import json
import os
import pty
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

from train.report.content import Cell, Table, terminal_tables

HERE = Path(__file__).parent
RECORDING = HERE / "recording.svg"
RESULTS = HERE.parent / "benchmarks" / "results" / "demo_cpu.json"
TEXT = "Dr. Smith slept. It rained all night! Nobody noticed.\n"
COLUMNS, WIDTH, HEIGHT = 66, 8.4, 19  # of the screen in characters; of a character in pixels
SECONDS = 10
PAPER, INK = "#161b22", "#e6edf3"


def main() -> None:
    """Write the recording."""
    RECORDING.write_text(recording(), encoding="utf-8")


def recording() -> str:
    """Return the recording as SVG."""
    steps = [
        (0.0, Text("$ bipe segment note.txt", "bold")),
        (1.0, segmented()),
        (3.0, Text("$ bipe report experiment=demo", "bold")),
        (5.0, measured()),
    ]
    groups, styles, y = [], [], 0.0
    for number, (second, text) in enumerate(steps):
        lines = text.split("\n")
        drawn = "".join(_line(line, 28 + HEIGHT * (y + at)) for at, line in enumerate(lines))
        y += len(lines) + (number % 2) * 0.6
        groups.append(f'<g class="s{number}">{drawn}</g>')
        start = 100 * second / SECONDS
        if second:
            hidden = f"0%,{start:g}%{{opacity:0}}{start + 0.01:g}%,100%{{opacity:1}}"
            styles.append(f"@keyframes k{number}{{{hidden}}}")
            styles.append(f".s{number}{{animation:k{number} {SECONDS}s infinite}}")
    wide, high = COLUMNS * WIDTH + 32, 28 + HEIGHT * y
    still = "@media (prefers-reduced-motion:reduce){g{animation:none!important}}"
    font = "text{font-size:14px;white-space:pre;font-family:ui-monospace,Menlo,Consolas,monospace}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" '
        f'width="{wide:g}" height="{high:g}" role="img">\n<title>bipe segment, and the perplexity '
        f"of the demo's models by length</title>\n<style>{font}{''.join(styles)}{still}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>\n' + "\n".join(groups)
    ) + "\n</svg>\n"


def segmented() -> Text:
    """Return what `bipe segment` prints on a terminal."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "note.txt").write_text(TEXT, encoding="utf-8")
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "train.cli", "segment", "note.txt"], cwd=folder,
            stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL,
            env=os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor",
                              "COLUMNS": str(COLUMNS), "PYTHONPATH": str(HERE.parent)},
        ) as made:  # fmt: skip
            os.close(theirs)
            printed = b""
            while True:
                try:
                    read = os.read(ours, 4096)
                except OSError:  # the other end is closed
                    break
                if not read:
                    break
                printed += read
            os.close(ours)
        if made.returncode:
            raise RuntimeError(printed.decode())
    return Text.from_ansi(printed.decode().replace("\r\n", "\n").rstrip())


def measured() -> Text:
    """Return the table of perplexities of the demo, as `bipe report` prints tables."""
    tables = []
    for source, models in json.loads(RESULTS.read_text())["perplexity"].items():
        lengths = list(next(iter(models.values())))
        best = {length: min(one[length] for one in models.values()) for length in lengths}
        rows = [
            [name, *(Cell(f"{one[n]:.1f}", best=one[n] == best[n]) for n in lengths)]
            for name, one in models.items()
        ]
        head = ["", *(f"{int(length):,}" for length in lengths)]
        tables.append(Table(head, rows, title=f"Perplexity: {source}"))
    (joined,) = terminal_tables([type("All", (), {"tables": tables})()])  # type: ignore[list-item]
    console = Console(
        file=io.StringIO(), force_terminal=True, width=COLUMNS, color_system="truecolor"
    )
    console.print(joined)
    return Text.from_ansi(console.file.getvalue().rstrip())  # type: ignore[attr-defined]


def _line(line: Text, y: float) -> str:
    """Return a line as SVG; each part has its place and width, whatever the font."""
    drawn, column = [], 0
    for text, style, _ in line.render(Console(color_system="truecolor")):
        text = text.rstrip("\n")
        x, wide = 16 + WIDTH * column, WIDTH * len(text)
        column += len(text)
        style = style or Style()
        paper = style.bgcolor and style.bgcolor.get_truecolor(MONOKAI).hex
        if paper:
            drawn.append(f'<rect x="{x:g}" y="{y - 14:g}" width="{wide:g}" height="{HEIGHT}" '
                         f'fill="{paper}"/>')  # fmt: skip
        if not text.strip():
            continue
        ink = style.color and not style.color.is_default and style.color.get_truecolor(MONOKAI).hex
        looks = f' fill="{ink or INK}"' + ' font-weight="bold"' * bool(style.bold)
        looks += ' opacity="0.7"' * bool(style.dim) + ' font-style="italic"' * bool(style.italic)
        drawn.append(f'<text x="{x:g}" y="{y:g}" textLength="{wide:g}" '
                     f'lengthAdjust="spacingAndGlyphs"{looks}>{escape(text)}</text>')  # fmt: skip
    return "".join(drawn)


if __name__ == "__main__":
    main()
