"""Loggers that fail in the ways in which loggers fail: each is named after when or how."""

import errno
import os
import time

from lightning.pytorch.loggers import Logger

from train.fit.watching.loggers import RunLogger


class Finishes(RunLogger):
    def begin(self, run):
        return ""

    def numbers(self, values, step):
        pass

    def figure(self, name, png, step):
        pass

    def end(self, *, failed):
        raise ConnectionResetError("Connection lost")


class Begins(Finishes):
    def begin(self, run):
        raise OSError(errno.ENOSPC, "No space left on device")


class OfLightning(Logger):
    """All that it does fails, at the latest when it is finalized."""

    name, version = "own", ""

    def log_metrics(self, metrics, step=None):
        pass

    def log_hyperparams(self, params, *args, **kwargs):
        pass

    def finalize(self, status):
        raise ConnectionResetError("Connection lost")


class Records(Finishes):
    def numbers(self, values, step):
        if step == 2:
            Begins.begin(self, None)


class Exits(Finishes):
    def numbers(self, values, step):
        os._exit(7)


class Hangs(Finishes):
    def numbers(self, values, step):
        time.sleep(3600)
