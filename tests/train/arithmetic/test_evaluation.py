"""Answers, steps and tokens are what they are called, batched or alone, cached or not."""

import contextlib
import functools
import io
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe import Positions
from segmenters import ArithmeticSteps, mark
from tests.bipe.conftest import small_decoder
from tests.train import studies
from train.data.reading.split import Split
from train.errors import DataError
from train.evals import arithmetic
from train.evals.rows import FILE, Journal, wilson
from train.launch.run import run_command
from train.tasks.arithmetic.problems import EQUALS, Problems
from train.tasks.arithmetic.symbols import Symbols

TOKENIZER = Symbols(modulus=7).build()
TASK = arithmetic.Task(
    trained={1: 1.0, 2: 1.0},
    modulus=7,
    order="leftmost",
    split=Split(validation=0.1, test=0.4),
    segmenter=ArithmeticSteps(),
)
ENCODINGS = ["flat_rope", "bilevel_learned_rope", "bilevel_learned_alibi"]


def model_of(scheme, seed=0):
    """A model far from the uniform, so that choices are clear."""
    sizes = {"vocab_size": TOKENIZER.vocab_size, "init_std": 0.8}
    return small_decoder(scheme, seed=seed, **sizes).eval()


def problems(count, *, operators=(1, 3, 4), seed=0):
    return [
        Problems(operators={operators[n % len(operators)]: 1}, modulus=7, seed=seed)[n]
        for n in range(count)
    ]


def ids_of(text):
    ((ids, _),) = TOKENIZER.encode_batch([text])
    return ids.tolist()


def likeliest(model, ids):
    """The likeliest token behind each of a text's: no cache, no padding, marks of the whole.

    Modulo 7 every token is one character.
    """
    text = TOKENIZER.decode(ids)
    marks = mark(np.arange(len(ids)), [ArithmeticSteps().cut(text)])
    at = Positions.from_marks(torch.from_numpy(marks)[None], packed=False)
    with torch.no_grad():
        return model.logits(torch.tensor([ids]), at)[0].argmax(-1).tolist()


# Seeds of models that write no unknown token, which has more than one character.
@pytest.mark.parametrize(("seed", "encoding"), zip((6, 4, 4), ENCODINGS, strict=True))
def test_what_is_written_is_what_each_problem_alone_gets_without_a_cache(encoding, seed):
    model, asked = model_of(encoding, seed), problems(4, seed=seed)
    for problem, text in zip(asked, arithmetic.written(model, asked, TASK, TOKENIZER), strict=True):
        ids = ids_of(problem.expression + EQUALS)
        begin, best = len(ids), likeliest(model, ids)[-1]
        while best != TOKENIZER.eos_id and len(ids) - begin < len(text):
            ids.append(best)
            best = likeliest(model, ids)[-1]
        expected = TOKENIZER.decode(ids[begin:])
        assert text[:-1] == expected[: len(text) - 1]
        assert text == expected or text.endswith(EQUALS)  # which marks what came to no end


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_right_tokens_of_a_batch_are_those_of_its_chains(encoding):
    model, asked = model_of(encoding), problems(7)
    right = total = 0
    for problem in asked:
        ids = ids_of(problem.text)
        best = likeliest(model, ids)
        first = problem.text.index(EQUALS) + 1
        wanted = [*ids[first:], TOKENIZER.eos_id]
        right += sum(a == b for a, b in zip(best[first - 1 :], wanted, strict=True))
        total += len(wanted)
    assert arithmetic.right_tokens(model, asked, TASK, TOKENIZER) == (right, total)


@given(st.integers(0, 10**6), st.integers(1, 8), st.data())
def test_right_steps_are_those_before_the_first_fault(seed, operators, data):
    problem = Problems(operators={operators: 1}, order="random", seed=seed)[0]
    rest = list(problem.steps[1:])
    assert arithmetic.right_steps(problem, EQUALS.join(rest), 11) == operators
    assert arithmetic.right_steps(problem, EQUALS.join([*rest, rest[-1]]), 11) == operators
    at = data.draw(st.integers(0, operators - 1))
    assert arithmetic.right_steps(problem, EQUALS.join(rest[:at]), 11) == at
    for fault in (problem.expression, rest[at] + "+1", "(", "", "11"):
        assert (
            arithmetic.right_steps(problem, EQUALS.join([*rest[:at], fault, *rest[at + 1 :]]), 11)
            == at
        )


def test_scores_count_each_problem_once_and_depend_on_nothing_but_the_model():
    model = model_of(ENCODINGS[1])
    options = {"operators": [1, 3], "problems": 20, "split": "test", "source": "chains"}
    asked = (
        arithmetic.Arithmetic(
            task=TASK, tokenizer=TOKENIZER, tokens_per_batch=tokens, **options
        ).cells(None)
        for tokens in (200, 10**6)
    )
    found, other = (
        [row for cell in cells
         for row in (cell.measure(model) if callable(cell.measure) else cell.measure)]
        for cells in asked
    )  # fmt: skip
    assert found == other
    values = {(row.measure, row.operators): row for row in found}
    for count in (1, 3):
        assert values["problems", count].value == 20
        answer = values["answer", count]
        assert answer.low <= answer.value <= answer.high
        assert (answer.low, answer.high) == wilson(round(20 * answer.value), 20)
    assert values["trained_operators", 2].value == 0.5
    drawn = Problems(operators={3: 1}, modulus=7, order="leftmost", seed=0)
    asked = drawn.held_out(20, split=TASK.split, name="test")
    counts = arithmetic.answer_counts(
        model, asked, task=TASK, tokenizer=TOKENIZER, tokens_per_batch=99
    )
    assert counts["answer"][1] == 20 and counts["steps"][1] == 60
    with pytest.raises(DataError, match="source: prose was read by TextFiles"):
        arithmetic.task_of(
            {"documents": {"reader": "TextFiles"}}, name="prose", segmenter=ArithmeticSteps()
        )


composed = functools.partial(studies.composed, experiment="arithmetic_small")


@pytest.fixture(scope="module")
def chains(tmp_path_factory):
    """A prepared study of few chains, and the words that name it."""
    folder = tmp_path_factory.mktemp("arithmetic")
    reader = "corpus.sources.chains.documents"
    words = (f"out={folder}", f"{reader}.documents=400", "steps=2", "schedule.warmup=1")
    words += ("evaluate.arithmetic.problems=5", "rows.validation_rows=4")
    words += ("evaluate.arithmetic.operators=[2,3]",)
    run_command("prepare", composed(*words, command="prepare"))
    return words, folder


@pytest.fixture(scope="module")
def study(chains):
    """The study, trained and asked; what was said of it."""
    words, folder = chains
    for encoding in ("rope", "bipe_rope"):
        run_command("pretrain", composed(*words, f"encoding={encoding}", "rows=chains"))
    with contextlib.redirect_stderr(io.StringIO()) as said:
        run_command("evaluate", composed(*words))
    return words, folder, said.getvalue()


def test_a_study_is_trained_asked_and_reported(study):
    words, folder, said = study
    assert "arithmetic of chains with 3 operators" in said
    for name in ("rope_0", "bipe_rope_0"):
        found = Journal(folder / name / FILE).rows()
        asked = {row.operators: row.value for row in found if row.measure == "problems"}
        assert asked == {2: 5, 3: 5}
        trained = {row.operators: row.value for row in found if row.measure == "trained_operators"}
        assert trained == dict.fromkeys((1, 2, 3, 4), 0.25)
    run_command("report", composed(*words, "report.figures=[]"))
    page = (folder / "report.html").read_text()
    assert "Arithmetic by chains" in page and "below 70%" in page and "95%" in page
    rows = json.loads((folder / "report.json").read_text())["rows"]
    shares = [row for row in rows if row["measure"] == "answer" and row.get("run")]
    assert [row["operators"] for row in shares] == [2, 3] * 2


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("evaluate.arithmetic.operators=[6,4]", "rising numbers from 1 up"),
        ("evaluate.arithmetic.source=chainz", "'chainz' is not a source.*chains"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_measured(study, word, told):
    words, *_ = study
    with pytest.raises(ValueError, match=told):
        run_command("evaluate", composed(*words, word))
