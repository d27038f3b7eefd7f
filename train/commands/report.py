"""`bipe report`: trained runs as a page with figures, as CSV and JSON, and as terminal tables."""

import shlex
from pathlib import Path

from rich.console import Console

from train.commands.before.needs import data_of_runs
from train.config import Config
from train.fit import runs
from train.report.content import terminal_tables
from train.report.load import load
from train.report.page import ReportFiles, write_report


def report(config: Config) -> ReportFiles:
    """Write the configured report, and print its tables."""
    options = config.report
    data, counted = config.data, Path(config.statistics.out)
    found = runs.find_runs(options.runs, key="report.runs")
    results = load(
        found,
        data=Path(data) if isinstance(data, str) and Path(data).is_dir() else None,
        counted=counted if counted.is_file() else None,
    )
    study = shlex.quote(f"out={config.out}")
    used = data_of_runs(found, out=config.out)
    evaluated = f"{study} {shlex.quote(used)}" if used else study
    files, sections = write_report(
        results,
        out=Path(options.out),
        title=options.title,
        command=f"bipe evaluate {evaluated} && bipe report {study}",
        formats=options.figures,
    )
    for table in terminal_tables(sections):
        Console().print(table)
    print(f"\nreport: {files.html}\nnumbers: {files.csv}, {files.json}")
    if options.figures:
        print(f"figures: {files.figures}")
    return files
