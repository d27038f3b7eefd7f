"""Writes the report: report.html and, beside it, the same numbers as CSV and JSON.

All three texts are made before the first byte is written. Each file is then written under a
temporary name in the same folder, synced and renamed, the page last: a reader never sees half a
file, and a page always has its numbers.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from train.report.load import load_runs, load_statistics
from train.report.load_growth import load_growth
from train.report.numbers import as_csv, as_json, rows
from train.report.page import page
from train.report.scrolls import load_scrolls
from train.report.seeds import arms


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """Where the report was written."""

    html: Path
    csv: Path
    json: Path


def write_report(
    *,
    runs: Sequence[Path],
    data: Path | None,
    out: Path,
    title: str,
    counted: Path | None = None,
) -> ReportFiles:
    """Reads evaluated run folders and a prepared data folder, and writes the three files.

    counted: what `bipe evaluate statistics` wrote.

    `out` is the page's own name if it ends in .html, otherwise a folder that gets report.html.

    Raises:
        ReportError: an input is missing or breaks its format; nothing is written.
        OSError: a file cannot be written; no partial file is left.
    """
    loaded = load_runs(runs)
    statistics = load_statistics(data) if data is not None else {}
    out = Path(out)
    html = out if out.suffix == ".html" else out / "report.html"
    files = ReportFiles(html=html, csv=html.with_suffix(".csv"), json=html.with_suffix(".json"))
    scored = load_scrolls(runs)
    table = rows(loaded, statistics, scored)
    texts = {
        files.csv: as_csv(table),
        files.json: as_json(table, title=title),
        files.html: page(
            runs=arms(loaded),
            statistics=statistics,
            title=title,
            growth=load_growth(counted) if counted is not None else None,
            scrolls=scored,
        ),
    }
    html.parent.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        _write(file, text)
    return files


def _write(file: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes files for the owner alone; a report is there to be shared.
        Path(name).chmod(0o644)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
