"""The callback that measures while training, from its section in conf/callbacks/evaluation.yaml."""

from dataclasses import replace
from typing import Any

from train.commands.evaluate import measured_on
from train.config import Config
from train.config.sections import Count, SplitName
from train.evals.live import LiveEvaluation


def while_training(
    *,
    config: Config,
    every: Count,
    split: SplitName = "validation",
    lengths: list[int] | None = None,
    probes: list[str] | None = None,
) -> Any:
    """Return a callback that measures every few steps; see conf/callbacks/evaluation.yaml."""
    rows = lengths or config.evaluate.lengths
    options = replace(config.evaluate, split=split, lengths=rows, probes=probes or [], sweep=None)
    config = replace(config, evaluate=options)
    _, held_out, measurements = measured_on(config, level=config.rows.level, coarser=config.coarser)
    return LiveEvaluation(
        every=every,
        measurements=measurements,
        held_out=held_out,
        row_length=config.row_length,
        lengths=tuple(factor * config.row_length for factor in sorted(set(rows))),
        allowed=config.allowed,
    )
