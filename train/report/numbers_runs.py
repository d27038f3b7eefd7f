"""The rows of one run: what its training cost, and all that an evaluation measured."""

import math
from collections.abc import Iterator
from dataclasses import replace

from train.report.markup import visible
from train.report.probes import Probe
from train.report.records import Arithmetic, Passkey, Run, Scores, Stretched
from train.report.row import Row

_UNITS = {"distance_tokens": "tokens", "distance_segments": "segments",
          "first": "nats/token", "second": "nats/token"}  # fmt: skip


def of_run(run: Run) -> Iterator[Row]:
    """Cost of training, then every number of its evaluation."""
    cost = run.training
    for measure, unit, value in (
        ("parameters", "", run.model.parameters),
        ("training_row_length", "tokens", cost.row_length),
        ("training_tokens", "tokens", cost.tokens),
        ("training_steps", "steps", cost.steps),
        ("training_seconds", "seconds", cost.seconds),
        ("training_skipped_steps", "steps", cost.skipped_steps),
        ("training_clipped_share", "share", cost.clipped_share),
    ):
        yield Row(measure=measure, unit=unit, value=value)
    for source, share in cost.sources.items():
        yield Row(source=visible(source), measure="training_share", unit="share", value=share)
    # Tokens seen are the upper end of what the loss was reached with, so they stand in `high`.
    for tokens, loss in cost.curve:
        yield Row(measure="training_loss", unit="nats/token", high=tokens, value=loss)
    for source, scores in run.scores.items():
        yield from (replace(row, source=visible(source)) for row in _of_scores(scores))
    if run.passkey:
        yield from _of_passkey(run.passkey)
    for line in run.stretched:
        yield from _of_stretched(line)
    if run.arithmetic:
        yield from _of_arithmetic(run.arithmetic)
    for name, probe in run.probes.items():
        yield from (replace(row, task=visible(name)) for row in _of_probe(probe))


def _of_scores(scores: Scores) -> Iterator[Row]:
    for field, unit in (
        ("perplexity", ""),
        ("bits_per_byte", "bits/byte"),
        ("nll", "nats/token"),
        ("tokens_scored", "tokens"),
        ("documents", "documents"),
    ):
        for length, value in zip(scores.lengths, getattr(scores, field), strict=True):
            yield Row(measure=field, unit=unit, length=length, value=value)
    held = scores.by_position
    if held:
        for index, (nll, tokens) in enumerate(zip(held.nll, held.tokens, strict=True)):
            low, high = held.edges[index : index + 2]
            bin_ = Row(measure="nll_by_position", unit="nats/token", length=held.length,
                       low=low, high=high, value=nll)  # fmt: skip
            yield bin_
            yield replace(bin_, measure="tokens_by_position", unit="tokens", value=tokens)


def _of_passkey(passkey: Passkey) -> Iterator[Row]:
    yield Row(measure="passkey_trials", unit="trials", value=passkey.trials)
    yield Row(measure="passkey_chance", unit="share", value=passkey.chance)
    for measure, grid in (("accuracy", passkey.accuracy), ("exact", passkey.exact)):
        for length, line in zip(passkey.lengths, grid, strict=True):
            for depth, value in zip(passkey.depths, line, strict=True):
                yield Row(measure=f"passkey_{measure}", unit="share", length=length,
                          depth=depth, value=value)  # fmt: skip


def _of_arithmetic(held: Arithmetic) -> Iterator[Row]:
    for place, operators in enumerate(held.operators):
        low, high = held.interval[place]
        yield Row(measure="arithmetic_problems", unit="problems", operators=operators,
                  value=held.problems[place])  # fmt: skip
        yield Row(measure="arithmetic_answer", unit="share", operators=operators, low=low,
                  high=high, value=held.answer[place])  # fmt: skip
        for measure in ("steps", "tokens"):
            yield Row(measure=f"arithmetic_{measure}", unit="share", operators=operators,
                      value=getattr(held, measure)[place])  # fmt: skip


def _of_stretched(line: Stretched) -> Iterator[Row]:
    """The note says how the model was stretched."""
    for source in line.perplexity:
        for measure, unit, values in (
            ("stretched_perplexity", "", line.perplexity[source]),
            ("stretched_bits_per_byte", "bits/byte", line.bits_per_byte[source]),
            ("stretched_tokens_scored", "tokens", line.tokens_scored[source]),
        ):
            for length, value in zip(line.lengths, values, strict=True):
                yield Row(source=visible(source), measure=measure, unit=unit, length=length,
                          value=value, note=visible(line.name))  # fmt: skip
    for length, share in zip(line.lengths, line.passkey, strict=True):
        yield Row(measure="stretched_passkey_accuracy", unit="share", length=length,
                  value=share, note=visible(line.name))  # fmt: skip


def _of_probe(probe: Probe) -> Iterator[Row]:
    """Grids by length and depth (none: any depth), curves by bins of an id."""
    if math.isfinite(probe.chance):
        yield Row(measure="probe_chance", unit="share", value=probe.chance)
    for name, grid in probe.grids.items():
        for length, line in zip(probe.lengths, grid, strict=True):
            for depth, value in zip(probe.depths or (None,), line, strict=True):
                yield Row(measure=f"probe_{name}", unit=_UNITS.get(name, "share"), length=length,
                          depth=depth, value=value)  # fmt: skip
    for name, curve in probe.curves.items():
        for low, high, nll in zip(curve.edges, curve.edges[1:], curve.nll, strict=False):
            yield Row(measure=f"probe_nll_by_{name}", unit="nats/token", low=low, high=high,
                      value=nll)  # fmt: skip
