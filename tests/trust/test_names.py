"""No name that can be written reaches anything outside of the kind that its place asks for."""

import functools
import importlib
import importlib.util
import inspect
import operator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bipe.arguments import TARGET
from bipe.build import build, find
from bipe.encodings import Encoding, Scheme
from bipe.encodings.far import Far
from bipe.encodings.rope import Stretch
from bipe.random_positions import Draw
from segmenters import Segmenter
from tests.test_rooms import ROOMS, files
from train.data.preparing.source import Corpus, Filter
from train.data.reading.documents import Reader
from train.evals.loop import Measurement

ROOT = Path(__file__).parents[2]
KINDS = {
    "bipe": Encoding | Scheme | Stretch | Far | Draw,
    "segmenters": Segmenter,
    "train": Reader | Filter | Corpus | Measurement,
}
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for room in ROOMS
    for path in files(room)
    if path.stem != "__main__"
)
if importlib.util.find_spec("transformers") is None:  # an extra
    MODULES = [name for name in MODULES if not f"{name}.".startswith("bipe.hf.")]


def names():
    """Every name that a module of ours holds, imported ones too, and one in what those hold."""
    for module in MODULES:
        for name, held in vars(importlib.import_module(module)).items():
            yield f"{module}.{name}"
            if inspect.isclass(held) or inspect.ismodule(held):
                inner = (inner for inner in vars(held) if not inner.startswith("_"))
                yield f"{module}.{name}.{next(inner, '__init__')}"


def is_one(found, room, kind):
    """Whether what was found is a class of the room and of the kind."""
    return (
        inspect.isclass(found)
        and issubclass(found, kind)
        and found.__module__.partition(".")[0] == room
        and not inspect.isabstract(found)
    )


def refused(name, kind):
    try:
        find(name, kind)
    except ValueError as error:
        return TARGET in str(error)
    return False


@pytest.mark.slow
def test_of_all_names_in_our_modules_only_classes_of_the_kind_are_found():
    every, found, tried = functools.reduce(operator.or_, KINDS.values()), 0, 0
    for name in names():
        tried += 1
        if refused(name, every):
            continue
        found += 1
        room = name.partition(".")[0]
        assert is_one(find(name, KINDS[room]), room, KINDS[room]), name
        assert all(refused(name, kind) for other, kind in KINDS.items() if other != room), name
    assert found > 100 and tried > 5_000


WORDS = ["bipe", "train", "segmenters", "encodings", "build", "cli", "main", "os", "system", "RoPE"]
WORDS += ["__init__", "__globals__", "__class__", "Fed", "base", "functools", "partial", "shutil"]
WORDS += ["checkpoint", "rmtree", "torch", "load", "eval", "Flat", "Encoding", "data", "disk", "x"]
NAMES = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=6).map(".".join)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEYS = ["_target_", "_partial_", "_args_", "encoding", "intra", "inter", "links", "stretch", "far"]
KEYS += ["head_width", "theta", "n_head", "width", "length", "interleaved", "factor", "window"]
GOOD = ["RoPE", "ALiBi", "Learned", "NoPE", "Flat", "Bilevel", "Chain", "Sinusoidal"]
TARGETS = NAMES | st.sampled_from([f"bipe.encodings.{name}" for name in GOOD]) | PLAIN
DESCRIPTIONS = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
        | st.builds(
            lambda target, rest: {**rest, TARGET: target},
            TARGETS,
            st.dictionaries(st.sampled_from(KEYS[3:]), inner, max_size=4),
        )
    ),
    max_leaves=12,
)


@given(name=NAMES, room=st.sampled_from(ROOMS))
def test_a_random_name_is_refused_or_of_its_kind(name, room):
    try:
        assert is_one(find(name, KINDS[room]), room, KINDS[room])
    except ValueError as error:
        assert TARGET in str(error)


@given(description=DESCRIPTIONS)
def test_a_random_description_gives_an_encoding_or_words(description):
    try:
        made = build(description, Encoding | Scheme)
    except (ValueError, ArithmeticError, RuntimeError) as error:
        assert str(error)
        return
    described = isinstance(description, dict) and TARGET in description
    assert isinstance(made, Encoding | Scheme) == described
