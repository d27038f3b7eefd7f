"""Requests to stop: SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 and the end of a Slurm job.

    with stopping():                  once, around a command
        with kept(lambda: f"{done} parts are kept; run again to go on"):
            for part in parts:        a signal raises Stopped here, wherever the program is
                check()
        with deferred():              a signal only sets the flag; the work looks for itself
            if requested(): ...

A second signal ends the process at once, with status 128 + its number; what follows at once is no
second one, since terminals, `timeout`, torchrun and Slurm may deliver one twice. A thread reads the
signals (signal.set_wakeup_fd): Python's handlers wait for the main thread, which may be in a
collective for minutes.

What a process says may be read by nobody any more: a training outlives the terminal, the pipe or
the parent that it was started from (`stopping`, `tell`).
"""

import errno
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

_NAMES = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2")
SIGNALS = tuple(signal.Signals[name] for name in _NAMES if hasattr(signal, name))
_LAUNCHERS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")  # forward what their processes also receive
_NOHUP = ("SIGHUP", signal.SIG_IGN)
_END, _BEGIN = "SLURM_JOB_END_TIME", "SLURM_JOB_START_TIME"  # seconds since the epoch
_MARGIN, _MARGIN_SHARE = 120.0, 0.1  # seconds before the end, at most this share of the job
_UNREAD = 5.0  # seconds for a pipe that is full
_GONE = (errno.EPIPE, errno.EIO)  # a pipe without a reader, a terminal that was closed

AGAIN = "run the same command again to resume"

_requested: signal.Signals | None = None
_deferring = 0
_watching = False
_handled: list[signal.Signals] = []
_imported = time.time()


class Stopped(BaseException):
    """Stopped by a signal; text: what is kept and how to go on; None: another rank says it."""

    def __init__(self, signum: int, text: str | None = "") -> None:
        super().__init__(signum, text)
        self.signal, self.text = signal.Signals(signum), text

    @property
    def status(self) -> int:
        return 128 + self.signal

    def __str__(self) -> str:
        return f"stopped by {self.signal.name}" + (f": {self.text}" if self.text else "")


def requested() -> signal.Signals | None:
    return _requested


def check(text: str = "") -> None:
    """Raise Stopped if it was requested; text: what is kept, and how to go on."""
    if _requested is not None:
        raise Stopped(_requested, text)


@contextmanager
def kept(text: Callable[[], str]) -> Iterator[None]:
    """Give a Stopped from the block the text that says what is kept, unless it has one.

    To a script, for which nobody turns Ctrl-C into one, a KeyboardInterrupt says it.
    """
    try:
        yield
    except KeyboardInterrupt as end:
        raise KeyboardInterrupt(str(end) or text()) from None
    except Stopped as stop:
        raise Stopped(stop.signal, text()) if stop.text == "" else stop from None


@contextmanager
def deferred() -> Iterator[None]:
    """Only set the flag on a signal in the block, which calls `requested` or `check` itself."""
    global _deferring
    _deferring += 1
    try:
        yield
    finally:
        _deferring -= 1


@contextmanager
def stopping() -> Iterator[None]:
    """Turn signals in the block into Stopped; outside the main thread, or inside, do nothing.

    One of several ranks only sets the flag until they agree, since the others wait for it. What
    nohup ignores stays ignored; SIGINT, which shells ignore for jobs in the background, does not.
    What is written to sys.stderr in the block is lost where it cannot be written.
    """
    global _requested, _watching, _deferring, _handled
    if _watching or threading.current_thread() is not threading.main_thread():
        yield
        return
    stderr = redirect_stderr(_Stderr(sys.stderr))  # type: ignore[type-var]
    _requested, _watching = None, True
    _deferring = int(os.environ.get("WORLD_SIZE", "1") != "1")
    heard, sender = os.pipe()
    os.set_blocking(sender, False)
    before = {sig: signal.getsignal(sig) for sig in SIGNALS}
    _handled = handled = [sig for sig in SIGNALS if (sig.name, before[sig]) != _NOHUP]
    wakeup = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    thread = threading.Thread(target=_listen, args=(heard,), name="stop", daemon=True)
    thread.start()
    for sig in handled:
        signal.signal(sig, _handle)
    try:
        with stderr:
            yield
    except ImportError:  # C code, such as torch's, loses an exception within an import
        check()
        raise
    finally:
        for sig in handled:
            signal.signal(sig, before[sig])
        signal.set_wakeup_fd(wakeup)
        os.close(sender)  # ends the thread
        thread.join()
        os.close(heard)
        _requested, _watching, _deferring = None, False, 0


def handled() -> Sequence[signal.Signals]:
    """Return the signals that stop this process; not those that nohup has it ignore."""
    return _handled if _watching else SIGNALS


def heard_again() -> None:
    """Take back, in `stopping`, the signals for which a library has set handlers of its own."""
    if _watching and threading.current_thread() is threading.main_thread():
        for sig in _handled:
            signal.signal(sig, _handle)


def _handle(signum: int, frame: FrameType | None) -> None:
    _note(signum)
    if not _deferring:
        raise Stopped(signum)


def _note(signum: int) -> None:
    global _requested
    _requested = _requested or signal.Signals(signum)


def _listen(heard: int) -> None:
    """Set the flag on the first signal, and end the process on the second."""
    first, sent = None, 0
    together = 2.0 if any(name in os.environ for name in _LAUNCHERS) else 0.2
    left = _seconds_left()
    while True:
        if not select.select([heard], [], [], left)[0]:  # the time limit is near
            left = None
            if _requested is None:
                sent = signal.SIGUSR1
                os.kill(os.getpid(), sent)
            continue
        received = os.read(heard, 64)
        if not received:
            return
        for signum in filter(SIGNALS.__contains__, received):
            _note(signum)
            now = time.monotonic()
            if signum == sent:  # Slurm's own signals may follow while work is being saved
                sent = 0
            elif first is not None and now - first > together:
                os._exit(128 + signum)
            else:
                first = first or now


def _seconds_left() -> float | None:
    """Return the seconds to the moment before the end of a Slurm job at which to stop."""
    with suppress(KeyError, ValueError):
        end, begin = float(os.environ[_END]), float(os.environ.get(_BEGIN, _imported))
        return max(0.0, end - min(_MARGIN, _MARGIN_SHARE * (end - begin)) - time.time())
    return None


def _forget_in_child() -> None:
    """Give a forked process the system's handlers: it must not write into its parent's pipe."""
    global _requested, _watching, _deferring
    if _watching:
        _requested, _watching, _deferring = None, False, 0
        signal.set_wakeup_fd(-1)
        for sig in SIGNALS:
            if signal.getsignal(sig) is _handle:
                signal.signal(sig, signal.SIG_DFL)


os.register_at_fork(after_in_child=_forget_in_child)


@dataclass
class _Stderr:
    """A stream whose faults are nobody's; one that is gone becomes the null device."""

    _stream: Any

    def write(self, text: str) -> int:
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _try(self, do: Callable[[], object]) -> None:
        try:
            do()
        except OSError as fault:
            if fault.errno in _GONE:
                with suppress(OSError, ValueError):  # libraries write to the descriptor
                    null = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(null, self._stream.fileno())
                    os.close(null)


def tell(text: str) -> None:
    """Print on sys.stderr, for a while: nobody may be reading, and the pipe be full."""

    def quietly() -> None:
        with suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    thread.join(_UNREAD)
