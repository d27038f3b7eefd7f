"""The report as files: a page, its numbers as CSV and JSON, its figures as PDF and PNG.

The page is one HTML file without scripts or external resources; its content security policy forbids
both, in case a text became markup by mistake. The page is written last: it always has its numbers.
"""

import functools
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from segmenters.wording import visible
from train.disk.files import is_name, read_json, write_whole
from train.errors import ReportError
from train.report.content import Section
from train.report.figures import Drawing
from train.report.palette import COLOURS, HEAT_STEPS
from train.report.sections import growth_section, sections
from train.report.table import ABOUT, COLUMNS, Results

FORMAT = "bipe-report/2"
_WHOLE = ("seed", "length", "step", "operators", "number")  # columns of whole numbers
_SUFFIXES = (".pdf", ".png")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """The paths of the report."""

    html: Path
    csv: Path
    json: Path
    figures: Path


def write_report(
    results: Results, *, out: Path, title: str, command: str = "", formats: Sequence[str] = (),
    coming: Sequence[str] = (),
) -> tuple[ReportFiles, list[Section]]:  # fmt: skip
    """Write the report, and return its paths and sections.

    out: the page itself if it ends in .html, otherwise a folder that gets report.html. command: to
    make the report again. formats: of the separate figures, among pdf and png. coming: runs that
    are not trained yet.
    """
    out = Path(out)
    html = out if out.suffix == ".html" else out / "report.html"
    files = ReportFiles(html=html, csv=html.with_suffix(".csv"), json=html.with_suffix(".json"),
                        figures=html.with_name(f"{html.stem}_figures"))  # fmt: skip
    shown = sections(results)
    drawings = _name_apart(shown)
    figures = {f"{drawing.name}.{end}": drawing for drawing in drawings for end in formats}
    old = _figures_of(files.json)
    table = all_rows(results)
    texts = {
        files.csv: as_csv(table),
        files.json: as_json(table, title=title, figures=[*figures] or old),
        files.html: page(shown, title=title, stamp=_stamp(results), command=command, coming=coming),
    }
    html.parent.mkdir(parents=True, exist_ok=True)
    if figures:
        _save(figures, files.figures, old)
    for path, text in texts.items():
        write_whole(path, text)
    return files, shown


def page(
    shown: Sequence[Section], *, title: str, stamp: str = "", command: str = "",
    coming: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return the HTML document; the same arguments give the same text."""
    _name_apart(shown)
    return _template().render(
        title=title, sections=shown, stamp=stamp, command=command, coming=coming,
        colours=COLOURS, heat=range(HEAT_STEPS + 1),
    )  # fmt: skip


def statistics_page(counts: Mapping[str, Any]) -> str:
    """Return the results of `bipe evaluate statistics` as an HTML document."""
    return page([growth_section(counts)], title="Segments of prepared data")


@functools.cache
def _template() -> jinja2.Template:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    ).get_template("page.html.j2")


def _stamp(results: Results) -> str:
    about = [run.machine for run in results.runs]
    created = max((str(machine.get("created", "")) for machine in about), default="")
    versions = sorted({str(machine["bipe"]) for machine in about if machine.get("bipe")})
    commits = sorted({f"{machine['commit']:.10}{' with changes' * bool(machine.get('changed'))}"
                      for machine in about if machine.get("commit")})  # fmt: skip
    parts = [f"bipe {', '.join(versions)}".rstrip(),
             f"commit {', '.join(commits)}" if commits else "", created and f"evaluated {created}",
             "CSV and JSON files next to this page contain the same numbers"]  # fmt: skip
    return " \N{MIDDLE DOT} ".join(filter(None, parts))


def _name_apart(shown: Sequence[Section]) -> list[Drawing]:
    """Return the drawings, each with a unique name that is valid in file names and as an XML id."""
    drawings: dict[str, Drawing] = {}
    for drawing in itertools.chain.from_iterable(section.drawings for section in shown):
        name = re.sub(r"[^a-z0-9]+", "_", drawing.name.lower()).strip("_")[:80] or "figure"
        name = name if name[0].isalpha() else f"figure_{name}"
        names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
        drawing.name = next(name for name in names if name not in drawings)
        drawings[drawing.name] = drawing
    return list(drawings.values())


def _figures_of(path: Path) -> list[str]:
    """Return the names of the figures that an older report wrote, according to its JSON file."""
    report = (read_json(path) or {}) if path.is_file() else {}
    names = report.get("figures") if report.get("format") == FORMAT else ()
    return [name for name in names or () if is_name(name) and Path(name).suffix in _SUFFIXES]


def _save(figures: Mapping[str, Drawing], folder: Path, old: Sequence[str]) -> None:
    """Write the figures into a folder; remove those of an older report, and nothing else."""
    if folder.is_symlink():  # nothing is written or removed where somebody's link leads
        raise ReportError(f"{folder} must be a folder, not a link; set report.out to another path")
    folder.mkdir(exist_ok=True)
    for name, drawing in figures.items():
        drawing.save(folder / name)
    for name in set(old) - set(figures):
        (folder / name).unlink(missing_ok=True)


def all_rows(results: Results) -> pd.DataFrame:
    """Return every row, then the means over seeds, which have no run and end in `_mean`."""
    several = {arm.label: arm for arm in results.arms if arm.several}
    means = results.means[results.means.arm.isin(several) & (results.means.seeds > 1)]
    arms = [several[label] for label in means.arm]
    means = means.assign(
        measure=means.measure + "_mean", label="", run="", seed=math.nan, number=math.nan,
        model=[arm.model for arm in arms], family=[arm.runs[0].family for arm in arms],
        note=[f"mean over {number} seeds" for number in means.seeds],
    )  # fmt: skip
    columns = [*COLUMNS, *ABOUT]
    table = pd.concat([results.table[columns], means[columns]], ignore_index=True)
    for name in (*ABOUT, "run", "arm", "variant", "source", "task", "measure", "unit", "note"):
        table[name] = table[name].fillna("")
    return table.astype(dict.fromkeys(_WHOLE, "Int64"))


def as_csv(table: pd.DataFrame) -> str:
    """Return the rows as CSV; numbers read back equal, those that are not finite are empty."""
    finite = table.replace([math.inf, -math.inf], None)
    return str(finite.to_csv(index=False, lineterminator="\n"))


def as_json(table: pd.DataFrame, *, title: str, figures: Sequence[str] = ()) -> str:
    """Return the rows as strict JSON, `{format, title, figures, rows}`, without absent fields.

    figures: the names of the files of figures, by which a later report knows its own.
    """
    finite = table.replace([math.inf, -math.inf], None).astype(object)
    rows = [
        {name: value for name, value in row.items() if name == "value" or value not in (None, "")}
        for row in finite.where(finite.notna(), None).to_dict("records")
    ]
    whole = {"format": FORMAT, "title": visible(title), "figures": [*figures], "rows": rows}
    return json.dumps(whole, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
