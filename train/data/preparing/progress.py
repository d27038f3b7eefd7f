"""Progress of a preparation on stderr: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from train.data.preparing.work import Work

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_LOOKS = 0.5


class Meter:
    """Shows documents, bytes of text, tokens and segments of the work at hand."""

    def __init__(self, *, show: bool) -> None:
        self._show = show
        self._live: Progress | None = None
        self._task = TaskID(0)
        self._title = self._state = ""
        self._printed = 0.0

    def __enter__(self) -> Meter:
        if self._show and sys.stderr.isatty():
            columns = (BarColumn(bar_width=24), TextColumn("{task.description}"))
            self._live = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True))
            self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._live is not None:
            self._live.stop()

    def start(self, title: str) -> None:
        """Begin a piece of work."""
        self._title, self._state = title, ""
        if self._live is not None:
            self._task = self._live.add_task(title, total=None)
        self._print(title)

    def update(self, state: str, *, share: float | None = None) -> None:
        """Show how far the piece of work is; share: of all of it, if that is known."""
        self._state = state
        if self._live is not None:
            self._live.update(
                self._task,
                description=f"{self._title}: {state}",
                total=None if share is None else 1.0,
                completed=share or 0.0,
            )
        elif time.monotonic() - self._printed >= _SECONDS_BETWEEN_LINES:
            self._print(f"{self._title}: {state}")

    def finish(self, state: str | None = None) -> None:
        """End the piece of work with its totals."""
        state = self._state if state is None else state
        line = f"{self._title}: {state}" if state else self._title
        if self._live is not None:
            self._live.update(self._task, description=line, total=1.0, completed=1.0)
        elif state:
            self._print(line)

    def _print(self, line: str) -> None:
        self._printed = time.monotonic()
        if self._show and self._live is None:
            print(line, file=sys.stderr, flush=True)


class Watch:
    """Looks at all parts, done and at work, whoever makes them, and updates the meter.

    Parts that were done before count for the share, not for the speed.
    """

    def __init__(self, work: Work, meter: Meter) -> None:
        self._work, self._meter = work, meter
        self._left = set(range(len(work.tasks)))
        self._done = np.zeros(4, int)  # documents, bytes of text, tokens, segments
        self._sizes = [task.part.size for task in work.tasks]
        self._looked = 0.0
        self._collect()
        self._before = self._done.copy()
        self._began = time.monotonic()
        self._share_before = self._share(self._done)

    def __call__(self) -> None:
        if time.monotonic() - self._looked >= _SECONDS_BETWEEN_LOOKS:
            self._collect()
            names = {self._work.tasks[rank].name for rank in self._left}
            reports = self._work.reports().items()
            self._show(sum((np.array(of) for name, of in reports if name in names), self._done))

    def finish(self) -> None:
        """Show the totals."""
        self._collect()
        self._show(self._done)
        self._meter.finish()

    def _collect(self) -> None:
        self._looked = time.monotonic()
        for rank in sorted(self._left):
            if self._work.place(rank).exists() and (found := self._work.result(rank)):
                self._left.discard(rank)
                self._done = self._done + found["counts"]

    def _share(self, now: np.ndarray) -> float | None:
        """Return the share of the stored bytes that is done; parts at work by their text."""
        known = [size for size in self._sizes if size is not None]
        if len(known) < len(self._sizes) or not sum(known):
            return None
        done = sum(size for rank, size in enumerate(known) if rank not in self._left)
        scale = done / self._done[1] if self._done[1] and done else 1.0
        return min(1.0, (done + scale * (now[1] - self._done[1])) / sum(known))

    def _show(self, now: np.ndarray) -> None:
        documents, size, tokens, segments = now.tolist()
        seconds = max(time.monotonic() - self._began, 1e-9)
        share = self._share(now)
        words = [
            f"{documents} documents",
            f"{size / 1e6:.1f} MB",
            f"{tokens / 1e6:.2f}M tokens",
            f"{segments / 1e6:.2f}M segments",
            f"{(size - self._before[1]) / 1e6 / seconds:.1f} MB/s",
        ]
        gained = (share or 0.0) - (self._share_before or 0.0)
        if share is not None and self._left and gained > 0:
            words.append(f"{timedelta(seconds=round(seconds * (1 - share) / gained))} left")
        self._meter.update(", ".join(words), share=share)
