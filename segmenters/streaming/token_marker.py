"""Which tokens open a segment, from their ids, while they are written.

`Online` reads the text of tokens; this reads their ids, as whoever decodes has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from segmenters.base import Segmenter
from segmenters.streaming.online import Online


class TokenMarker:
    """Follows a causal segmenter through the tokens of one document.

    pieces: the text of each token id, as bytes (empty for special tokens). skip: bytes at the
    start that are not of the text (SentencePiece writes a space before it).
    Raises ValueError for a segmenter that cannot be followed.
    """

    __slots__ = ("_online", "_pieces", "_skip")

    def __init__(self, *, segmenter: Segmenter, pieces: Sequence[bytes], skip: int = 0) -> None:
        self._online, self._pieces = Online(segmenter=segmenter), pieces
        self._skip = skip

    def push(self, token: int) -> list[int]:
        """Marks decided by one more token, in the order of the tokens; usually its own, alone."""
        piece = self._pieces[token]
        if self._skip:
            piece, self._skip = piece[self._skip :], max(0, self._skip - len(piece))
        return self._online.push(piece)

    def provisional(self) -> list[int]:
        """Marks that the tokens without one had if the text ended here."""
        return self._online.provisional()

    def copy(self) -> TokenMarker:
        """An independent marker in the same state."""
        twin = object.__new__(TokenMarker)
        twin._online, twin._pieces = self._online.copy(), self._pieces
        twin._skip = self._skip
        return twin
