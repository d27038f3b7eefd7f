"""Arithmetic by chains: what a model answers to ``(7+5)*3=``, against the number of operators.

    answer   the model writes the chain on (greedy, cached) up to the end of the document; what
             stands behind its last '=' is the answer, right or wrong as a whole
    steps    of the reductions that a chain takes, those that the written one has carried out
             rightly before its first fault; any operation that could be next may be
    tokens   of the tokens behind the first '=' of the reference chain, the end of the document
             included, those that are the likeliest after what stands before them there

More operators than in training ask for extrapolation. The problems are of the split that is asked
for: no expression of them was trained on (arithmetic/reader.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bipe import Decoder, Positions
from bipe.generation import generate
from segmenters import Segmenter, TokenMarker, mark
from train.data.reading.split import Split
from train.data.tokenizing.tokenizers import Tokenizer
from train.errors import DataError
from train.evals.intervals import wilson
from train.tasks.arithmetic.chains import ArithmeticProblems
from train.tasks.arithmetic.expression import parse, reduce, reducible, spell
from train.tasks.arithmetic.problems import EQUALS, Problem, Problems

PROTOCOL = (
    "Up to {problems} problems modulo {modulus} of each number of operators, no two alike, from "
    "the {split} split, which shares no expression with training (operators {trained}, {order} "
    "reductions). Answers: greedy decoding behind the first '=', exact match, Wilson intervals of "
    "95%. Steps: reductions carried out rightly before the first fault. Tokens: teacher-forced, "
    "behind the first '='."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a prepared source says of its problems. trained: the mix of its training documents."""

    trained: Mapping[int, float]
    modulus: int
    order: Any
    split: Split
    segmenter: Segmenter


def task_of(requested: Mapping[str, Any], *, name: str, segmenter: Segmenter) -> Task:
    """The task of a source, from the request in its manifest. DataError if it is another one."""
    told = requested["documents"]
    if told.get("reader") != ArithmeticProblems.__name__:
        raise DataError(
            f"evaluate.arithmetic.source: {name} was read by {told.get('reader')}, not by "
            f"{ArithmeticProblems.__name__}; prepare corpus=arithmetic, or set "
            "evaluate.arithmetic=null"
        )
    return Task(
        trained={int(count): weight for count, weight in told["operators"].items() if weight},
        modulus=told["modulus"],
        order=told["order"],
        split=Split(**requested["split"]),
        segmenter=segmenter,
    )


def arithmetic(
    model: Decoder,
    task: Task,
    tokenizer: Tokenizer,
    *,
    operators: Sequence[int],
    problems: int,
    split: str,
    tokens_per_batch: int,
    seed: int,
) -> dict[str, Any]:
    """Scores by number of operators, lists along `operators`. Deterministic in `seed`."""
    drawn = [
        Problems(operators={count: 1}, modulus=task.modulus, order=task.order, seed=seed).held_out(
            problems, split=task.split, name=split
        )
        for count in operators
    ]
    counts = [
        _counted(model, each, task=task, tokenizer=tokenizer, tokens_per_batch=tokens_per_batch)
        for each in drawn
    ]
    protocol = PROTOCOL.format(
        problems=problems,
        modulus=task.modulus,
        split=split,
        trained=", ".join(map(str, sorted(task.trained))),
        order=task.order,
    )
    return {
        "protocol": protocol,
        "modulus": task.modulus,
        "order": task.order,
        "trained_operators": sorted(task.trained),
        "operators": list(operators),
        "problems": [len(each) for each in drawn],
        **{
            name: _shares([getattr(count, name) for count in counts])
            for name in ("answer", "steps", "tokens")
        },
        "interval": [list(wilson(count.answer[0], count.answer[1])) for count in counts],
    }


@dataclass(slots=True, kw_only=True)
class Counts:
    """(right, of how many) of each measure."""

    answer: tuple[int, int] = (0, 0)
    steps: tuple[int, int] = (0, 0)
    tokens: tuple[int, int] = (0, 0)

    def add(self, name: str, right: int, total: int) -> None:
        old = getattr(self, name)
        setattr(self, name, (old[0] + right, old[1] + total))


def _shares(counted: Sequence[tuple[int, int]]) -> dict[str, list[Any]]:
    return {
        "right": [right for right, _ in counted],
        "of": [total for _, total in counted],
        "share": [right / total if total else None for right, total in counted],
    }


def _counted(
    model: Decoder,
    problems: Sequence[Problem],
    *,
    task: Task,
    tokenizer: Tokenizer,
    tokens_per_batch: int,
) -> Counts:
    """All counts over problems of one number of operators."""
    counts = Counts()
    ordered = sorted(problems, key=lambda problem: len(problem.text))  # little padding
    longest = max(len(ids) for ids, _ in tokenizer.encode_batch([each.text for each in ordered]))
    size = max(1, tokens_per_batch // (longest + 1))
    for start in range(0, len(ordered), size):
        batch = ordered[start : start + size]
        for problem, text in zip(batch, written(model, batch, task, tokenizer), strict=True):
            counts.add("answer", text is not None and text.split(EQUALS)[-1] == problem.answer, 1)
            counts.add(
                "steps", right_steps(problem, text or "", task.modulus), _reductions(problem)
            )
        counts.add("tokens", *right_tokens(model, batch, task, tokenizer))
    return counts


def _reductions(problem: Problem) -> int:
    return len(problem.steps) - 1


def written(
    model: Decoder, problems: Sequence[Problem], task: Task, tokenizer: Tokenizer
) -> list[str]:
    """What the model writes behind the first '=' of each problem, up to the document's end.

    It may write as much as any chain of such an expression takes; what has no end by then ends in
    a second '=', so that its answer is empty.
    """
    asked = tokenizer.encode_batch([problem.expression + EQUALS for problem in problems])
    marker = TokenMarker(segmenter=task.segmenter, pieces=tokenizer.pieces())
    found = generate(
        model,
        [ids.tolist() for ids, _ in asked],
        # A reduction takes two tokens away, at least; each step has its '=' or the end.
        max_new=max(
            sum(len(ids) - 2 * done for done in range(1, _reductions(problem) + 1))
            for (ids, _), problem in zip(asked, problems, strict=True)
        ),
        marker=marker,
        stop_ids=(tokenizer.eos_id,),
        decode=tokenizer.decode,
    )
    return [(each.text or "") + EQUALS * (each.ended != "stop") for each in found]


def right_steps(problem: Problem, text: str, modulus: int) -> int:
    """Reductions of what was written that are each one operation, before the first that is not."""
    before, done = problem.expression, 0
    for step in text.split(EQUALS):
        if step not in _next_steps(before, modulus):
            break
        before, done = step, done + 1
    return done


def _next_steps(text: str, modulus: int) -> set[str]:
    """Every spelling that one reduction leads to."""
    found = set()
    for place in range(len([*reducible(parse(text, modulus=modulus))])):
        tree = parse(text, modulus=modulus)
        reduce([*reducible(tree)][place])
        found.add(spell(tree))
    return found


@torch.no_grad()
def right_tokens(
    model: Decoder, problems: Sequence[Problem], task: Task, tokenizer: Tokenizer
) -> tuple[int, int]:
    """Tokens behind the first '=' that are the likeliest where they stand, and how many there are.

    One pass over the reference chains: causal, so that the padding behind them changes nothing.
    """
    texts = [problem.text for problem in problems]
    encoded = tokenizer.encode_batch(texts)
    width = max(len(ids) for ids, _ in encoded) + 1
    tokens = np.full((len(texts), width), tokenizer.eos_id, np.int64)
    marks = np.zeros((len(texts), width), np.uint8)
    scored = np.zeros((len(texts), width), bool)  # as a target
    for row, (text, (ids, anchors)) in enumerate(zip(texts, encoded, strict=True)):
        tokens[row, : len(ids)] = ids
        marks[row, : len(ids)] = mark(anchors, [task.segmenter.cut(text)])
        first = int(np.searchsorted(anchors, text.index(EQUALS), side="right"))
        scored[row, first : len(ids) + 1] = True  # the end of the document too
    device = model.head.weight.device
    at = Positions.from_marks(torch.from_numpy(marks[:, :-1]).to(device), packed=False)
    logits = model.logits(torch.from_numpy(tokens[:, :-1]).to(device), at)
    right = logits.argmax(-1).cpu().numpy() == tokens[:, 1:]
    return int((right & scored[:, 1:]).sum()), int(scored[:, 1:].sum())
