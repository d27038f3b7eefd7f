"""Progress of a preparation on stderr: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from segmenters.wording import counted
from train import stop
from train.data.preparing.work import Work

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_LOOKS = 0.5


class Meter:
    """A display of the progress of one task at a time."""

    def __init__(self, *, show: bool) -> None:
        live = show and sys.stderr.isatty()
        columns = (BarColumn(24), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), disable=not live)
        self._lines = show and not live
        self._title = self._state = ""
        self._printed = 0.0

    def __enter__(self) -> Meter:
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def start(self, title: str) -> None:
        self._title, self._state = title, ""
        self._task = self._bar.add_task(title, total=None)
        self._print(title)

    def update(self, state: str, *, share: float | None = None) -> None:
        """Show progress; share: the finished fraction of the task, if known."""
        self._state = state
        line, total = f"{self._title}: {state}", None if share is None else 1.0
        self._bar.update(self._task, description=line, total=total, completed=share or 0.0)
        if time.monotonic() - self._printed >= _SECONDS_BETWEEN_LINES:
            self._print(line)

    def finish(self, state: str = "") -> None:
        line = f"{self._title}: {state or self._state}".removesuffix(": ")
        self._bar.update(self._task, description=line, total=1.0, completed=1.0)
        if state or self._state:
            self._print(line)

    def _print(self, line: str) -> None:
        self._printed = time.monotonic()
        if self._lines:
            print(line, file=sys.stderr, flush=True)


class Watch:
    """Updates the meter; parts that were finished before count for the share, not the speed."""

    def __init__(self, work: Work, meter: Meter) -> None:
        self._work, self._meter = work, meter
        self._left = set(range(len(work.tasks)))
        self._done = np.zeros(4, int)  # documents, bytes of text, tokens, segments
        # Documents that are split within are several in the shards.
        splits = [source.split for source in work.sources.values()]
        within = any(split is not None and split.within is True for split in splits)
        self._item = "document piece" if within else "document"
        self._sizes = [task.part.size for task in work.tasks]
        self._collect()
        self._bytes_before = int(self._done[1])
        self._share_before = self._share(self._bytes_before) or 0.0
        self._began = time.monotonic()

    def __call__(self) -> None:
        stop.check()
        if time.monotonic() - self._looked >= _SECONDS_BETWEEN_LOOKS:
            self._collect()
            at_work = [of for rank, of in self._work.reports().items() if rank in self._left]
            self._show(self._done + np.array(at_work, dtype=int).reshape(-1, 4).sum(axis=0))

    def finish(self) -> None:
        self._collect()
        self._show(self._done)
        self._meter.finish()

    def _collect(self) -> None:
        self._looked = time.monotonic()
        for rank in sorted(self._left):
            if self._work.place(rank).exists() and (result := self._work.result(rank)):
                self._left.discard(rank)
                self._done += result["counts"]

    def _share(self, size: int) -> float | None:
        """Return the finished share of the stored bytes; parts in progress count by their text."""
        sizes = [size for size in self._sizes if size is not None]
        if len(sizes) < len(self._sizes) or not sum(sizes):
            return None
        done = sum(size for rank, size in enumerate(sizes) if rank not in self._left)
        # Stored bytes per byte of text: files may be packed, and rows hold more than the text.
        scale = done / self._done[1] if self._done[1] and done else 1.0
        return min(1.0, (done + scale * (size - self._done[1])) / sum(sizes))

    def _show(self, counts: np.ndarray) -> None:
        documents, size, tokens, segments = counts.tolist()
        seconds = max(time.monotonic() - self._began, 1e-9)
        share = self._share(size)
        words = [
            counted(documents, self._item),
            f"{size / 1e6:.1f} MB",
            counted(tokens, "token"),
            counted(segments, "segment"),
            f"{(size - self._bytes_before) / 1e6 / seconds:.1f} MB/s",
        ]
        if share is not None and self._left and (gained := share - self._share_before) > 0:
            words.append(f"{timedelta(seconds=round(seconds * (1 - share) / gained))} left")
        self._meter.update(", ".join(words), share=share)
