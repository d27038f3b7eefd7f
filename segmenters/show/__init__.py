"""A cut text for the eye: in the colours of a terminal, as a page of HTML, and as numbers.

Nothing is read or written here.
"""

from segmenters.show.cut import CutText
from segmenters.show.measures import statistics, visible
from segmenters.show.page import page
from segmenters.show.terminal import coloured, plain

__all__ = ["CutText", "coloured", "page", "plain", "statistics", "visible"]
