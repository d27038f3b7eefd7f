"""The report on evaluated runs: one HTML page, and the same numbers as CSV and JSON.

    load.py       evaluation.json, statistics.json -> the records of records.py
    scrolls.py    scores of SCROLLS by model, task and seed
    seeds.py      runs of several seeds as one; means.py, intervals.py, spans.py
    compare.py    what is compared with what; sentences.py says it in words
    targets.py    what papers state, with its provenance
    figures/      SVG; sections/ the parts of the page; page.py the page
    numbers.py    CSV and JSON; terminal.py rich tables; write.py all files, atomically

It deliberately measures nothing: every number was made by an evaluation or by data preparation.
"""

from train.errors import ReportError
from train.report.load import load_runs, load_statistics
from train.report.scrolls import load_scrolls
from train.report.write import ReportFiles, write_report

__all__ = [
    "ReportError",
    "ReportFiles",
    "load_runs",
    "load_scrolls",
    "load_statistics",
    "write_report",
]
