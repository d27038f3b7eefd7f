"""Progress of a preparation on stderr: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from train.data.preparing.engine.work import Work

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_LOOKS = 0.5


class Meter:
    """Shows documents, bytes of text, tokens and segments of the work at hand."""

    def __init__(self, *, show: bool) -> None:
        self._show = show
        self._live: Progress | None = None
        self._task = TaskID(0)
        self._title = self._told = ""
        self._said = 0.0

    def __enter__(self) -> Meter:
        if self._show and sys.stderr.isatty():
            columns = (BarColumn(bar_width=24), TextColumn("{task.description}"))
            self._live = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True))
            self._live.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def start(self, title: str) -> None:
        """Begin a piece of work."""
        self._title, self._told = title, ""
        if self._live is not None:
            self._task = self._live.add_task(title, total=None)
        self._say(title)

    def update(self, told: str, *, share: float | None = None) -> None:
        """Say how far the piece of work is; share: of all of it, if that is known."""
        self._told = told
        if self._live is not None:
            self._live.update(
                self._task,
                description=f"{self._title}: {told}",
                total=None if share is None else 1.0,
                completed=share or 0.0,
            )
        elif time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES:
            self._say(f"{self._title}: {told}")

    def finish(self, told: str | None = None) -> None:
        """End the piece of work with its totals."""
        told = self._told if told is None else told
        if self._live is not None:
            described = f"{self._title}: {told}" if told else self._title
            self._live.update(self._task, description=described, total=1.0, completed=1.0)
        elif told:
            self._say(f"{self._title}: {told}")

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        if self._show and self._live is None:
            print(line, file=sys.stderr, flush=True)


class Watch:
    """Looks at all parts, done and at work, whoever makes them, and tells the meter.

    Parts that were done before count for the share, not for the speed.
    """

    def __init__(self, work: Work, meter: Meter) -> None:
        self._work, self._meter = work, meter
        self._left = set(range(len(work.tasks)))
        self._done = [0, 0, 0, 0]
        self._sizes = [task.part.size for task in work.tasks]
        self._looked = 0.0
        self._collect()
        self._before = list(self._done)
        self._began = time.monotonic()
        self._share_before = self._share([0, 0, 0, 0])

    def __call__(self) -> None:
        if time.monotonic() - self._looked >= _SECONDS_BETWEEN_LOOKS:
            self._collect()
            self._tell([sum(counts) for counts in zip(*self._at_work(), strict=True)])

    def finish(self) -> None:
        """Tell the totals."""
        self._collect()
        self._tell([0, 0, 0, 0])
        self._meter.finish()

    def _collect(self) -> None:
        self._looked = time.monotonic()
        for rank in sorted(self._left):
            if self._work.place(rank).exists() and (found := self._work.result(rank)):
                self._left.discard(rank)
                self._done = [a + b for a, b in zip(self._done, found["counts"], strict=True)]

    def _at_work(self) -> list[list[int]]:
        reports = self._work.reports()
        names = {self._work.tasks[rank].name for rank in self._left}
        return [[0, 0, 0, 0], *(counts for name, counts in reports.items() if name in names)]

    def _share(self, at_work: list[int]) -> float | None:
        """How much of the stored bytes is done; parts at work by their text, scaled alike."""
        known = [size for size in self._sizes if size is not None]
        if len(known) < len(self._sizes) or not sum(known):
            return None
        done = sum(size for rank, size in enumerate(known) if rank not in self._left)
        scale = done / self._done[1] if self._done[1] and done else 1.0
        return min(1.0, (done + scale * at_work[1]) / sum(known))

    def _tell(self, at_work: list[int]) -> None:
        now = [a + b for a, b in zip(self._done, at_work, strict=True)]
        documents, size, tokens, segments = now
        seconds = max(time.monotonic() - self._began, 1e-9)
        share = self._share(at_work)
        words = [
            f"{documents} documents",
            f"{size / 1e6:.1f} MB",
            f"{tokens / 1e6:.2f}M tokens",
            f"{segments / 1e6:.2f}M segments",
            f"{(size - self._before[1]) / 1e6 / seconds:.1f} MB/s",
        ]
        gained = (share or 0.0) - (self._share_before or 0.0)
        if share is not None and self._left and gained > 0:
            words.append(f"{_clock(seconds * (1 - share) / gained)} left")
        self._meter.update(", ".join(words), share=share)


def _clock(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
