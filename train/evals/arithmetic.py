"""Arithmetic by chains: how a model answers ``(7+5)*3=``, by the number of operators.

    answer   share of problems with the right answer: what follows the last '=' of the chain that
             the model writes (greedy, cached) up to the end of the document
    steps    share of reductions that are correct and come before the first fault; any operation
             that can be next may be
    tokens   share of tokens after the first '=' of the reference chain, its end included, that are
             the most likely one given the tokens before them

No expression of the problems was trained on (train/tasks/arithmetic/chains.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from bipe import Decoder, Positions
from bipe.generation import generate
from segmenters.align import mark
from segmenters.base import Segmenter
from segmenters.streaming.online import TokenMarker
from segmenters.wording import counted
from train.data.reading.split import Split
from train.data.tokenizing.tokenizers import Tokenizer
from train.errors import DataError
from train.evals.loop import Cell, Measurement, Subject
from train.evals.rows import Row, key_of, wilson
from train.tasks.arithmetic.chains import ArithmeticProblems
from train.tasks.arithmetic.problems import (
    EQUALS,
    Problem,
    Problems,
    parse,
    reduce,
    reducible,
    spell,
)

TASK = "arithmetic"
_PROTOCOL = (
    "Up to {problems} distinct problems modulo {modulus} per number of operators, from the {split} "
    "split, which shares no expression with training (operators {trained}, {order} reductions). "
    "Answers: greedy decoding after the first '=', exact match, 95% Wilson intervals. Steps: "
    "correct reductions before the first error. Tokens: teacher-forced accuracy after the first "
    "'='."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The problems of a prepared source. trained: the mix of its training documents."""

    trained: Mapping[int, float]
    modulus: int
    order: Any
    split: Split
    segmenter: Segmenter


def has_problems(requested: Mapping[str, Any]) -> bool:
    """Return whether a source, by its manifest's request, holds problems of this task."""
    return bool(requested["documents"].get("reader") == ArithmeticProblems.__name__)


def task_of(requested: Mapping[str, Any], *, name: str, segmenter: Segmenter) -> Task:
    """Return the task of a source, from its manifest's request; DataError if it has none."""
    documents = requested["documents"]
    if not has_problems(requested):
        raise DataError(
            f"evaluate.arithmetic.source: {name} was read by {documents.get('reader')}, not "
            f"{ArithmeticProblems.__name__}; prepare corpus=arithmetic, or set "
            "evaluate.arithmetic=null"
        )
    return Task(
        trained={int(count): weight for count, weight in documents["operators"].items() if weight},
        modulus=documents["modulus"],
        order=documents["order"],
        split=Split(**requested["split"]),
        segmenter=segmenter,
    )


@dataclass(frozen=True, kw_only=True)
class Arithmetic(Measurement):
    """The same problems for runs of all seeds, at most `problems` of each number of operators."""

    source: str
    task: Task
    tokenizer: Tokenizer
    operators: Sequence[int]
    problems: int
    split: str
    tokens_per_batch: int

    def cells(self, subject: Subject) -> Iterator[Cell]:
        """Yield a cell for the mix of training, and one for each number of operators."""
        task, tokenizer = self.task, self.tokenizer
        on = [task.trained, task.modulus, task.order, task.split, task.segmenter.fingerprint()]
        on += [tokenizer.vocab_size, tokenizer.pieces(), self.split, self.problems]
        of = partial(Row, task=TASK, source=self.source)
        whole = sum(task.trained.values())
        measurement = f"{counted(self.problems, 'problem')}, {self.split} [{key_of(on)[:8]}]"
        trained = [
            of(measure="trained_operators", unit="share", operators=count, value=weight / whole)
            for count, weight in sorted(task.trained.items())
        ]
        yield Cell(name=f"of {self.source}, trained", depends_on=key_of(on), measure=trained,
                   measurement=measurement)  # fmt: skip
        for count in self.operators:
            problems = self._drawn(count)
            yield Cell(
                name=f"of {self.source} with {counted(count, 'operator')}",
                depends_on=[key_of(on), count],
                measurement=measurement,
                cost=sum(len(problem.text) for problem in problems),
                measure=partial(self.rows, asked=problems, of=partial(of, operators=count)),
            )

    def _drawn(self, count: int) -> Sequence[Problem]:
        task = self.task
        drawn = Problems(operators={count: 1}, modulus=task.modulus, order=task.order, seed=0)
        return drawn.held_out(self.problems, split=task.split, name=self.split)

    def rows(self, model: Decoder, *, asked: Sequence[Problem], of: partial[Row]) -> list[Row]:
        task, batch = self.task, self.tokens_per_batch
        counts = answer_counts(
            model, asked, task=task, tokenizer=self.tokenizer, tokens_per_batch=batch
        )
        note = _PROTOCOL.format(
            problems=self.problems, modulus=task.modulus, split=self.split, order=task.order,
            trained=", ".join(map(str, sorted(task.trained))),
        )  # fmt: skip
        rows = []
        for name, (right, total) in counts.items():
            low, high = wilson(right, total) if name == "answer" else (None, None)
            value = right / total if total else None
            rows.append(of(measure=name, unit="share", value=value, note=note, low=low, high=high))
        return [*rows, of(measure="problems", unit="problems", value=len(asked))]


def answer_counts(
    model: Decoder,
    problems: Sequence[Problem],
    *,
    task: Task,
    tokenizer: Tokenizer,
    tokens_per_batch: int,
) -> dict[str, tuple[int, int]]:
    """Return (number right, total) for answers, steps and tokens."""
    answers = steps = reductions = right = total = 0
    ordered = sorted(problems, key=lambda problem: len(problem.text))  # little padding
    encoded = tokenizer.encode_documents([problem.text for problem in ordered])
    size = max(1, tokens_per_batch // (1 + max(len(ids) for ids, _ in encoded)))
    for start in range(0, len(ordered), size):
        batch = ordered[start : start + size]
        for problem, text in zip(batch, written(model, batch, task, tokenizer), strict=True):
            answers += text.split(EQUALS)[-1] == problem.answer
            steps += right_steps(problem, text, task.modulus)
            reductions += len(problem.steps) - 1
        likeliest, scored = right_tokens(model, batch, task, tokenizer)
        right, total = right + likeliest, total + scored
    number = len(problems)
    return {"answer": (answers, number), "steps": (steps, reductions), "tokens": (right, total)}


def written(
    model: Decoder, problems: Sequence[Problem], task: Task, tokenizer: Tokenizer
) -> list[str]:
    """Return what the model writes after the '=' of each problem, up to the end of the document."""
    prompts = tokenizer.encode_documents([problem.expression + EQUALS for problem in problems])
    marker = TokenMarker(segmenter=task.segmenter, pieces=tokenizer.pieces())
    outputs = generate(
        model,
        [ids.tolist() for ids, _ in prompts],
        # A reduction removes at least two tokens; each step adds its '=' or the end.
        max_new=max(
            sum(len(ids) - 2 * done for done in range(1, len(problem.steps)))
            for (ids, _), problem in zip(prompts, problems, strict=True)
        ),
        marker=marker,
        stop_ids=(tokenizer.eos_id,),
        decode=tokenizer.decode,
    )
    # A final '=' leaves an unfinished text without an answer.
    return [(output.text or "") + EQUALS * (output.ended != "stop") for output in outputs]


def right_steps(problem: Problem, text: str, modulus: int) -> int:
    """Return the number of correct reductions in a text before its first fault."""
    before, done = problem.expression, 0
    for step in text.split(EQUALS):
        # A tree for each operation that can be next, since `reduce` changes it.
        trees = [parse(before, modulus=modulus) for _ in reducible(parse(before, modulus=modulus))]
        for place, tree in enumerate(trees):
            reduce([*reducible(tree)][place])
        if step not in map(spell, trees):
            break
        before, done = step, done + 1
    return done


@torch.no_grad()
def right_tokens(
    model: Decoder, problems: Sequence[Problem], task: Task, tokenizer: Tokenizer
) -> tuple[int, int]:
    """Return how many tokens after the first '=' are predicted correctly, and their number."""
    texts = [problem.text for problem in problems]
    encoded = tokenizer.encode_documents(texts)
    width = max(len(ids) for ids, _ in encoded) + 1
    tokens = np.full((len(texts), width), tokenizer.eos_id, np.int64)
    marks = np.zeros((len(texts), width), np.uint8)
    scored = np.zeros((len(texts), width), bool)  # as a target
    for row, (text, (ids, anchors)) in enumerate(zip(texts, encoded, strict=True)):
        tokens[row, : len(ids)] = ids
        marks[row, : len(ids)] = mark(anchors, task.segmenter.levels_of_tokens(text, anchors)[:1])
        first = int(np.searchsorted(anchors, text.index(EQUALS), side="right"))
        scored[row, first : len(ids) + 1] = True  # the end of the document too
    device = model.head.weight.device
    # Attention is causal: the padding after the chains changes nothing.
    at = Positions.from_marks(torch.from_numpy(marks[:, :-1]).to(device), packed=False)
    logits = model.logits(torch.from_numpy(tokens[:, :-1]).to(device), at)
    right = logits.argmax(-1).cpu().numpy() == tokens[:, 1:]
    return int((right & scored[:, 1:]).sum()), int(scored[:, 1:].sum())
