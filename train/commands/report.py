"""`bipe report`: trained runs as a page with figures, as CSV and JSON, and as terminal tables.

bipe report out=runs/mine
bipe report report.runs=[runs/a,runs/b@200] report.out=runs/both
"""

import shlex
import sys
from pathlib import Path

from rich.console import Console

from train.commands.before.needs import data_of_study
from train.config import Config
from train.data.store.folder import override_of
from train.errors import RunError
from train.evals.rows import FILE, Journal
from train.fit import runs
from train.fit.checkpoints import Place, find_places
from train.report.content import terminal_tables
from train.report.load import load
from train.report.page import ReportFiles, write_report


def report(config: Config) -> ReportFiles:
    """Write the configured report, and print its tables."""
    options = config.report
    counted = Path(config.statistics.out)
    found, coming = _found(options.runs)
    data = data_of_study([*map(str, found)], config)
    results = load(
        found,
        data=Path(data) if isinstance(data, str) and Path(data).is_dir() else None,
        counted=counted if counted.is_file() else None,
    )
    words = (f"out={config.out}", override_of(config.data, out=config.out))
    study = shlex.join(filter(None, words))
    files, sections = write_report(
        results,
        out=Path(options.out),
        title=options.title,
        command=f"bipe evaluate {study} && bipe report {study}",
        formats=options.figures,
        coming=coming,
    )
    for table in terminal_tables(sections):
        Console().print(table)
    print(f"\nreport: {files.html}\nnumbers: {files.csv}, {files.json}")
    if options.figures:
        print(f"figures: {files.figures}")
    return files


def _found(places: str | list[str]) -> tuple[list[Place], list[str]]:
    """Return the runs of `places`, and which places have none yet; RunError if none has any."""
    found: dict[Place, None] = {}
    coming, errors = [], []
    for place in [places] if isinstance(places, str) else places:
        try:
            for each in find_places(place, key="report.runs"):
                measured = each.step is None or str(each) == place or _is_measured(each)
                found |= {each: None} if measured else {}
                coming += [] if measured else [str(each.home)]
        except RunError as error:
            coming.append(place)
            errors.append(error)
    if errors and not found:
        raise errors[0]
    for place in coming:
        state = "not evaluated" if Path(place, runs.CHECKPOINTS).is_dir() else "not trained"
        print(f"bipe: report.runs: {place} is {state} yet", file=sys.stderr)
    return list(found), [Path(place).name for place in coming]


def _is_measured(place: Place) -> bool:
    return bool(Journal(place.home / FILE).rows_at(place.step))
