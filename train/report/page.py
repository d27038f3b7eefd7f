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
from train.disk.files import write_whole
from train.errors import ReportError
from train.report.content import Section
from train.report.figures import Drawing
from train.report.palette import COLOURS, HEAT_STEPS, Style
from train.report.sections import sections
from train.report.sections.data import growth
from train.report.table import COLUMNS, Results

FORMAT = "bipe-report/2"
_WHOLE = ("seed", "length", "step", "operators", "number")  # columns of whole numbers
_EXTRA = ("model", "label", "family")


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
    table = all_rows(results)
    texts = {
        files.csv: as_csv(table),
        files.json: as_json(table, title=title),
        files.html: page(shown, title=title, stamp=_stamp(results), command=command, coming=coming),
    }
    html.parent.mkdir(parents=True, exist_ok=True)
    if formats:
        _save(_name_apart(shown), files.figures, formats)
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
        title=title, sections=shown, stamp=stamp, command=command, intro=bool(stamp),
        coming=coming,
        colours=COLOURS, heat=range(HEAT_STEPS + 1),
    )  # fmt: skip


def statistics_page(counted: Mapping[str, Any]) -> str:
    """Return the results of `bipe evaluate statistics` as an HTML document."""
    return page([growth(counted)], title="Segments of prepared data")


@functools.cache
def _template() -> jinja2.Template:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals["swatch"] = swatch
    return made.get_template("page.html.j2")


def swatch(style: Style) -> Markup:
    """Return a short sample of a model's line, to be shown next to its name."""
    colour, dashes = f"var(--{style.role})", ' stroke-dasharray="5 4"' if style.dashed else ""
    fill = "var(--paper)" if style.dashed else colour
    shape = {
        "circle": '<circle cx="13" cy="6" r="3.2"/>',
        "square": '<path d="M10 3h6v6h-6z"/>',
        "diamond": '<path d="M13 1.8l4.2 4.2-4.2 4.2-4.2-4.2z"/>',
        "triangle": '<path d="M13 2l4 7.2h-8z"/>',
    }[style.shape]
    return Markup(
        '<svg class="swatch" viewBox="0 0 26 12" width="26" height="12" aria-hidden="true">'
        f'<path d="M1 6h24" style="stroke: {colour}; stroke-width: 2"{dashes}/>'
        f'<g style="fill: {fill}; stroke: {colour}; stroke-width: 1.5">{shape}</g></svg>'
    )


def _stamp(results: Results) -> str:
    created = max((str(found.get("created", "")) for found in results.environments), default="")
    versions = {str(found.get("bipe", "")) for found in results.environments} - {""}
    commits = sorted({f"{found['commit']:.10}{' with changes' * bool(found.get('changed'))}"
                      for found in results.environments if found.get("commit")})  # fmt: skip
    parts = [f"bipe {', '.join(sorted(versions))}".rstrip(),
             f"commit {', '.join(commits)}" if commits else "", created and f"evaluated {created}",
             "CSV and JSON files next to this page contain the same numbers"]  # fmt: skip
    return " \N{MIDDLE DOT} ".join(filter(None, parts))


def _name_apart(shown: Sequence[Section]) -> list[Drawing]:
    """Return the drawings, each with a unique name that is valid in file names and as an XML id."""
    drawings: dict[str, Drawing] = {}
    for drawing in (each for section in shown for each in section.drawings):
        name = re.sub(r"[^a-z0-9]+", "_", drawing.name.lower()).strip("_")[:80] or "figure"
        name = name if name[0].isalpha() else f"figure_{name}"
        names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
        drawing.name = next(each for each in names if each not in drawings)
        drawings[drawing.name] = drawing
        if drawing.narrow:
            drawing.narrow.name = f"{drawing.name}-narrow"
    return list(drawings.values())


def _save(drawings: Sequence[Drawing], folder: Path, formats: Sequence[str]) -> None:
    """Write the figures into a folder, and remove other figures of an older report."""
    if folder.is_symlink():  # old figures are removed: not from where somebody's link leads
        raise ReportError(f"{folder} must be a folder, not a link; set report.out to another path")
    folder.mkdir(exist_ok=True)
    wanted = {f"{drawing.name}.{suffix}": drawing for drawing in drawings for suffix in formats}
    for name, drawing in wanted.items():
        drawing.save(folder / name)
    for old in folder.iterdir():
        if old.suffix in (".pdf", ".png") and old.name not in wanted:
            old.unlink()


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
    columns = [*COLUMNS, *_EXTRA]
    table = pd.concat([results.table[columns], means[columns]], ignore_index=True)
    for name in (*_EXTRA, "run", "arm", "variant", "source", "task", "measure", "unit", "note"):
        table[name] = table[name].fillna("")
    return table.astype(dict.fromkeys(_WHOLE, "Int64"))


def as_csv(table: pd.DataFrame) -> str:
    """Return the rows as CSV; numbers read back equal."""
    return str(table.to_csv(index=False, lineterminator="\n"))


def as_json(table: pd.DataFrame, *, title: str) -> str:
    """Return the rows as strict JSON, `{format, title, rows}`; absent fields are left out."""
    rows = [
        {name: None if value in (math.inf, -math.inf) else value for name, value in row.items()
         if name == "value" or value not in (None, "")}
        for row in table.astype(object).where(table.notna(), None).to_dict("records")
    ]  # fmt: skip
    whole = {"format": FORMAT, "title": visible(title), "rows": rows}
    return json.dumps(whole, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
