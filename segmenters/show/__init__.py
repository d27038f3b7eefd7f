"""A cut text for the eye: in the colours of a terminal, as a page of HTML, and as numbers.

Nothing is read or written here.
"""

from segmenters.show.drawing import page, shown
from segmenters.show.measures import CutText, Distribution, statistics, tokens_of, visible

__all__ = ["CutText", "Distribution", "page", "shown", "statistics", "tokens_of", "visible"]
