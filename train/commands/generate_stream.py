"""Text while it is written: whole characters, and nothing of a stop string.

A token may hold a part of a character, and what looks like text may turn out to be the beginning
of a stop string: both are held back until it is known.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence


class Text:
    """The text of one row, from the pieces of its tokens.

    stops: strings at the first of which it ends; that string is left out.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._over = False

    def push(self, piece: bytes) -> str:
        """What is certain to belong to the text, now that `piece` follows."""
        self._held += self._decoder.decode(piece)
        return self._release(len(self._held) - self._doubtful())

    def finish(self) -> str:
        """The rest; half a character becomes U+FFFD."""
        self._held += self._decoder.decode(b"", final=True)
        return self._release(len(self._held))

    def _release(self, size: int) -> str:
        places = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        ready, self._held = self._held[: min([size, *places])], self._held[size:]
        ready, self._over = "" if self._over else ready, self._over or bool(places)
        return ready

    def _doubtful(self) -> int:
        """Characters at the end that may be the beginning of a stop string."""
        sizes = (
            size
            for stop in self._stops
            for size in range(min(len(stop) - 1, len(self._held)), 0, -1)
            if stop.startswith(self._held[-size:])
        )
        return max(sizes, default=0)


class Stream:
    """Shows rows one below the other: the first as it comes, the others when it is done.

    pieces: the bytes of each token id. show: takes text. title: what stands above row i of n.
    """

    def __init__(
        self,
        *,
        rows: int,
        pieces: Sequence[bytes],
        stops: Sequence[str],
        show: Callable[[str], None],
        title: Callable[[int, int], str],
    ) -> None:
        self.tokens = 0
        self._pieces, self._show, self._title = pieces, show, title
        self._texts = [Text(stops) for _ in range(rows)]
        self._later = [""] * rows
        self._begin(0)

    def push(self, row: int, token: int) -> None:
        """Take in a token of a row."""
        self.tokens += 1
        text = self._texts[row].push(self._pieces[token])
        if row:
            self._later[row] += text
        else:
            self._write(text)

    def finish(self) -> None:
        """Show what is left, all rows to their ends."""
        for row, text in enumerate(self._texts):
            if row:
                self._begin(row)
            self._write(self._later[row] + text.finish())
            self._show("\n")

    def _begin(self, row: int) -> None:
        if len(self._texts) > 1:
            self._show(self._title(row + 1, len(self._texts)))

    def _write(self, text: str) -> None:
        if text:
            self._show(text)
