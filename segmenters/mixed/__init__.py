"""Documents of several kinds of text, and corpora of several kinds of documents.

`Mixed` cuts each part of a document by the segmenter of its kind, `Auto` each document; `route` is
the decision of the latter.
"""

from segmenters.mixed.auto import Auto
from segmenters.mixed.mixed import Mixed
from segmenters.mixed.route import ROUTES, route

__all__ = ["ROUTES", "Auto", "Mixed", "route"]
