"""`bipe report`: trained runs as a page with figures, as CSV and JSON, and as terminal tables.

bipe report out=runs/mine
bipe report report.runs=[runs/a,runs/b@200] report.out=runs/both
"""

import shlex
import sys
from pathlib import Path

from rich.console import Console

from segmenters.wording import escaped
from train.commands.before.needs import data_of_study
from train.config import Config
from train.data.store.folder import override_of
from train.errors import RunError
from train.evals.rows import FILE, Journal
from train.fit import runs
from train.fit.checkpoints import Place, find_places, named_step
from train.report.content import terminal_tables
from train.report.load import load
from train.report.page import ReportFiles, write_report
from train.report.sections.summary import choice_text


def report(config: Config) -> ReportFiles:
    """Write the configured report, and print its tables."""
    options = config.report
    counted = Path(config.statistics.out)
    places, coming = _measured_places(options.runs)
    data = data_of_study([*map(str, places)], config)
    results = load(
        places,
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
    for choice in results.choices:
        print(escaped(f"bipe: report: {choice_text(choice)}"), file=sys.stderr)
    for table in terminal_tables(sections):
        Console().print(table)
    written = {"report": files.html, "numbers": f"{files.csv}, {files.json}"}
    written |= {"figures": files.figures} if options.figures else {}
    print()
    for name, paths in written.items():
        print(escaped(f"{name}: {paths}"))
    return files


def _measured_places(places: str | list[str]) -> tuple[list[Place], list[str]]:
    """Return the runs of `places`, and which places have none yet; RunError if none has any."""
    measured_places: dict[Place, None] = {}
    coming, errors = list[str](), list[RunError]()
    for place in [places] if isinstance(places, str) else places:
        try:
            for at in find_places(place, key="report.runs"):
                if at.step is None or named_step(place) is not None or _is_measured(at):
                    measured_places[at] = None
                else:
                    coming.append(str(at.home))
        except RunError as error:
            errors.append(error)
            if named_step(place) is None:
                coming.append(place)
            else:
                print(escaped(f"bipe: {error}; it is left out"), file=sys.stderr)
    if errors and not measured_places:
        raise errors[0]
    for place in coming:
        state = "not evaluated" if Path(place, runs.CHECKPOINTS).is_dir() else "not trained"
        print(escaped(f"bipe: report.runs: {place} is {state} yet"), file=sys.stderr)
    return list(measured_places), [Path(place).name for place in coming]


def _is_measured(place: Place) -> bool:
    return bool(Journal(place.home / FILE).rows_at(place.step))
