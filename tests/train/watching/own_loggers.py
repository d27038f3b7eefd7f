"""Loggers that fail in the ways in which loggers fail."""

import errno
import os
import time

from train.fit.watching.loggers import RunLogger


class Finishes(RunLogger):
    """Loses its server at the end."""

    def begin(self, run):
        return ""

    def numbers(self, values, step):
        pass

    def figure(self, name, png, step):
        pass

    def end(self, *, failed):
        raise ConnectionResetError("Connection lost")


class Begins(Finishes):
    """Finds its disk full at the start."""

    def begin(self, run):
        raise OSError(errno.ENOSPC, "No space left on device")


class Records(Finishes):
    """Finds its disk full at step 2."""

    def numbers(self, values, step):
        if step == 2:
            raise OSError(errno.ENOSPC, "No space left on device")


class Exits(Finishes):
    """Ends its process."""

    def numbers(self, values, step):
        os._exit(7)


class Hangs(Finishes):
    """Never returns."""

    def numbers(self, values, step):
        time.sleep(3600)


class HangsAtTheStart(Finishes):
    """Never begins."""

    def begin(self, run):
        time.sleep(3600)
