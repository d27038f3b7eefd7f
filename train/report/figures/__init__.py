"""Figures as SVG text: pure functions from numbers to `Markup`.

Colours are CSS custom properties of the page (`page.py`), so one figure serves both themes and
print. Tooltips are SVG <title> elements: no script. No figure reads a file or knows a run.
"""

from train.report.figures.heat_map import heat_map
from train.report.figures.histograms import Histogram, histograms
from train.report.figures.line_chart import Guide, Series, line_chart

__all__ = ["Guide", "Histogram", "Series", "heat_map", "histograms", "line_chart"]
