"""Progress of a preparation on stderr: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

_SECONDS_BETWEEN_LINES = 10.0


class Meter:
    """Counts documents, bytes of text and tokens of the source at work."""

    def __init__(self, *, show: bool) -> None:
        self._show = show
        self._live: Progress | None = None
        self._task = TaskID(0)
        self._title = ""
        self._reset()

    def __enter__(self) -> Meter:
        if self._show and sys.stderr.isatty():
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._live = Progress(*columns, console=Console(stderr=True))
            self._live.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def start(self, title: str) -> None:
        """Begin a piece of work: a source, or the training of the tokenizer."""
        self._title = title
        self._reset()
        if self._live is not None:
            self._task = self._live.add_task(title, total=None)
        self._say(title)

    def advance(self, *, documents: int, size: int, tokens: int) -> None:
        """Count what was done; size in bytes of text."""
        self._documents += documents
        self._bytes += size
        self._tokens += tokens
        if self._live is not None:
            self._live.update(self._task, description=self._line())
        elif time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES:
            self._say(self._line())

    def finish(self) -> None:
        """End the piece of work with its totals."""
        if self._live is not None:
            self._live.update(self._task, total=1, completed=1)
        if self._documents:
            self._say(self._line())

    def _reset(self) -> None:
        self._documents = self._bytes = self._tokens = 0
        self._began = self._said = time.monotonic()

    def _line(self) -> str:
        megabytes = self._bytes / 1e6
        speed = megabytes / max(time.monotonic() - self._began, 1e-9)
        return (
            f"{self._title}: {self._documents} documents, {megabytes:.1f} MB, "
            f"{self._tokens / 1e6:.2f}M tokens, {speed:.1f} MB/s"
        )

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        if self._show and self._live is None:
            print(line, file=sys.stderr, flush=True)
