"""The rows of an arm: means over seeds with their 95% intervals, as the page shows them."""

import math
from collections.abc import Iterator
from dataclasses import replace

from train.report.compare import found
from train.report.markup import visible
from train.report.probes import probe_mean
from train.report.records import Run
from train.report.row import Row
from train.report.spans import found_span, probe_span, stretched_span


def of_arm(arm: Run) -> Iterator[Row]:
    """Nothing for a run of one seed; the note says how many there are."""
    if not arm.members:
        return
    told = f"mean over {len(arm.members)} seeds"
    for row in (*_perplexity(arm), *_stretched(arm), *_shares(arm)):
        yield replace(row, note=f"{told} {row.note}".rstrip())


def _perplexity(arm: Run) -> Iterator[Row]:
    for source, scores in arm.scores.items():
        for length, value, half in zip(
            scores.lengths, scores.perplexity, scores.half_widths, strict=True
        ):
            low, high = (
                (value * math.exp(-half), value * math.exp(half))
                if math.isfinite(value) and math.isfinite(half)
                else (None, None)
            )
            yield Row(source=visible(source), measure="perplexity_mean", unit="", length=length,
                      low=low, high=high, value=value)  # fmt: skip


def _stretched(arm: Run) -> Iterator[Row]:
    for line in arm.stretched:
        for source, values in line.perplexity.items():
            for length, value in zip(line.lengths, values, strict=True):
                low, high = stretched_span(arm, line.name, source, length) or (None, None)
                yield Row(source=visible(source), measure="stretched_perplexity_mean", unit="",
                          length=length, low=low, high=high, value=value,
                          note=visible(line.name))  # fmt: skip


def _shares(arm: Run) -> Iterator[Row]:
    if arm.passkey:
        for length, value in found(arm.passkey).items():
            low, high = found_span(arm, length) or (None, None)
            yield Row(measure="passkey_accuracy_mean", unit="share", length=length, low=low,
                      high=high, value=value)  # fmt: skip
    if arm.arithmetic:
        held = arm.arithmetic
        for operators, (low, high), value in zip(
            held.operators, held.interval, held.answer, strict=True
        ):
            yield Row(measure="arithmetic_answer_mean", unit="share", operators=operators, low=low,
                      high=high, value=value)  # fmt: skip
    for name, probe in arm.probes.items():
        for length in probe.lengths:
            low, high = probe_span(arm, name, length) or (None, None)
            yield Row(measure="probe_accuracy_mean", unit="share", task=visible(name),
                      length=length, low=low, high=high,
                      value=probe_mean(probe, "accuracy", length))  # fmt: skip
