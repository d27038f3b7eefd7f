"""Writing in the background: training goes on while a thread writes a copy of its state.

The copy is made before training goes on, into memory that each save uses again (page-locked if
there is a GPU). The next save waits for the last one. A failure is raised at the next step.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

_State = TypeVar("_State")


class Background:
    """One write at a time, in a thread that dies with the process: a copy is never half a file."""

    def __init__(self) -> None:
        pinned = torch.cuda.is_available()
        self._stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=pinned,
                use_shared_memory=False,
                use_async_staging=False,
                use_non_blocking_copy=pinned,
            )
        )
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def write(self, state: dict[str, Any], write: Callable[[dict[str, Any]], None]) -> None:
        """Copy a state, and call `write` with the copy in the background."""
        self.wait()
        copy = self._stager.stage(state)
        assert isinstance(copy, dict)

        def run() -> None:
            try:
                write(copy)
            except BaseException as failure:
                self._failure = failure

        self._thread = threading.Thread(target=run, name="bipe-checkpoint", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise the failure of the last write, if it has failed."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def wait(self) -> None:
        """Wait for the last write, and raise its failure."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()
