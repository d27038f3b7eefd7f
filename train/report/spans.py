"""The 95% intervals over seeds of what the page shows as one number: which number of each seed."""

import math

from train.report.compare import found
from train.report.intervals import Interval, over_seeds
from train.report.probes import probe_mean
from train.report.records import Run


def found_span(arm: Run, length: int) -> Interval | None:
    """Of the passkeys found at a length, the mean over depths."""

    def read(run: Run) -> float | None:
        return found(run.passkey).get(length) if run.passkey else None

    return over_seeds(arm, read, share=True)


def probe_span(arm: Run, name: str, length: int) -> Interval | None:
    """Of what a probe found at a length, the mean over depths."""

    def read(run: Run) -> float | None:
        probe = run.probes.get(name)
        return probe_mean(probe, "accuracy", length) if probe else None

    return over_seeds(arm, read, share=True)


def stretched_span(arm: Run, method: str, source: str, length: int) -> Interval | None:
    """Of the perplexity with a way to stretch; the mean is geometric, and so is the interval."""

    def read(run: Run) -> float | None:
        for line in run.stretched:
            if line.name == method and source in line.perplexity and length in line.lengths:
                value = line.perplexity[source][line.lengths.index(length)]
                return math.log(value) if math.isfinite(value) and value > 0 else math.nan
        return None

    ends = over_seeds(arm, read)
    return None if ends is None else (math.exp(ends[0]), math.exp(ends[1]))


def stretched_found_span(arm: Run, method: str, length: int) -> Interval | None:
    """Of the passkeys found with a way to stretch."""

    def read(run: Run) -> float | None:
        for line in run.stretched:
            if line.name == method and length in line.lengths:
                return line.passkey[line.lengths.index(length)]
        return None

    return over_seeds(arm, read, share=True)
