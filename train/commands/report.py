"""`bipe report`: the numbers of evaluated runs as a page, as CSV and as JSON, and as a table."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from train.config import Config
from train.fit import runs
from train.report import ReportFiles, load_runs, load_scrolls, write_report
from train.report.seeds import arms
from train.report.terminal import (
    arithmetic_table,
    probes_table,
    scrolls_table,
    summary_table,
)
from train.report.terminal_stretch import stretch_table


def report(study: Config) -> ReportFiles:
    """Write the report of a study and print its table."""
    folders = runs.find_runs(study.report.runs, key="report.runs")
    data = Path(study.data) if isinstance(study.data, str) else None
    counted = Path(study.statistics.out)
    files = write_report(
        runs=folders,
        data=data if data is not None and data.is_dir() else None,
        out=Path(study.report.out),
        title=study.report.title,
        counted=counted if counted.is_file() else None,
    )
    shown = arms(load_runs(folders))
    tables = (
        summary_table(shown),
        arithmetic_table(shown),
        probes_table(shown),
        scrolls_table(load_scrolls(folders)),
        stretch_table(shown),
    )
    for table in tables:
        if table is not None and table.row_count:
            Console().print(table)
    print(f"\nreport: {files.html}\nnumbers: {files.csv}, {files.json}")
    return files
