"""Documents of several kinds of text, and corpora of several kinds of documents.

`Mixed` cuts each part of a document by the segmenter of its kind, `Auto` each document; `route` is
the decision of the latter, and `decide` the same with its reason.
"""

from segmenters.documents.mixed import Mixed
from segmenters.documents.router import Auto, Decision, decide, route

__all__ = ["Auto", "Decision", "Mixed", "decide", "route"]
