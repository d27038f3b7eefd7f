"""A cut text for the eye: in the colours of a terminal, as a page of HTML, and as numbers.

Nothing is read or written here.
"""

from segmenters.show.measures import CutText, statistics, tokens_of, visible
from segmenters.show.page import page
from segmenters.show.terminal import coloured, plain

__all__ = ["CutText", "coloured", "page", "plain", "statistics", "tokens_of", "visible"]
