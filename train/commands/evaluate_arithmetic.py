"""The part of `bipe evaluate` that asks for answers to arithmetic (evals/arithmetic.py)."""

from __future__ import annotations

import sys
from typing import Any

from bipe import Decoder
from train.commands.generate_marker import chosen_segmenter
from train.config import Config
from train.data.rows.sets import DataSets
from train.data.tokenizing.vocabulary import LoadTokenizer
from train.errors import DataError, nearest
from train.evals.arithmetic import Task, arithmetic, task_of


def arithmetic_task(study: Config, sets: DataSets) -> Task | None:
    """The task that a study evaluates on; None where it does not. DataError if it is not there."""
    options = study.evaluate.arithmetic
    if options is None:
        return None
    name = options.source or next(iter(sets.sources))
    if name not in sets.sources:
        raise DataError(
            f"evaluate.arithmetic.source: {name!r} is no source; {nearest(name, sets.sources)}"
        )
    folder, own = sets.sources[name]
    segmenter = chosen_segmenter(sets, trained_on=(), source=name, wish=None, allowed=study.allowed)
    return task_of(
        sets.manifests[folder]["request"]["sources"][own], name=name, segmenter=segmenter
    )


def arithmetic_scores(
    study: Config, model: Decoder, sets: DataSets, *, name: str
) -> dict[str, Any] | None:
    """What evaluation.json says of a run; None where nothing is asked."""
    options, task = study.evaluate.arithmetic, arithmetic_task(study, sets)
    if options is None or task is None:
        return None
    if model.config.vocab_size < sets.vocab_size:
        raise DataError(
            f"data={study.data} has a vocabulary of {sets.vocab_size}, {name} one of "
            f"{model.config.vocab_size}: it was trained on other data"
        )
    found = arithmetic(
        model,
        task,
        LoadTokenizer(path=sets.folder).build(),
        operators=options.operators,
        problems=options.problems,
        split=study.evaluate.split,
        tokens_per_batch=study.evaluate.tokens_per_batch,
        seed=0,  # of the problems: runs of all seeds answer the same ones
    )
    shown = "  ".join(f"{share:.3f}" for share in found["answer"]["share"])
    print(
        f"{name}: right answers at {found['operators']} operators: {shown}",
        file=sys.stderr,
        flush=True,
    )
    return found
