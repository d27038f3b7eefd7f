"""Show a cut text in the colours of a terminal, as a page of HTML, or as numbers; no files."""

from segmenters.show.drawing import page, shown
from segmenters.show.measures import CutText, Distribution, statistics

__all__ = ["CutText", "Distribution", "page", "shown", "statistics"]
