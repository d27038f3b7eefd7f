"""A configuration is compared with what it calls before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bipe.build import build, faults_of
from tests.train.studies import composed
from train.config import allowed_prefixes
from train.config.sections import Rule, fits
from train.errors import ConfigError, refuse

ALLOWED = allowed_prefixes([])
ROPE = {"_target_": "bipe.encodings.RoPE", "head_width": 8}
FORBIDDEN = ["pathlib.Path.unlink", "os.system", "builtins.eval", "torch.hub.load", "shutil.rmtree"]
FORBIDDEN += ["transformers.AutoModel.from_pretrained", "bipe", "trainer.evil", "bipe_evil.Thing"]
Count = Annotated[int, Rule("at least 1", lambda value: value >= 1)]


@dataclass(frozen=True, kw_only=True)
class Inner:
    depth: int
    share: float = 0.5
    names: list[str] = field(default_factory=list)


def schema(
    *,
    steps: int,
    path: str,
    rate: float | None = None,
    mode: Literal["fast", "slow"] = "fast",
    inner: Inner | None = None,
    encoding: Mapping[str, Any] = {},
    flag: bool = False,
    keep: Count | None = None,
) -> None:
    """What the tests configure."""


def faults(**changes: Any) -> list[str]:
    """Faults of a configuration that has none but for the changes; a value ... leaves a key out."""
    config = {"steps": 3, "path": "x", "encoding": ROPE} | changes
    config = {key: value for key, value in config.items() if value is not ...}
    try:
        refuse(faults_of(config, schema, allowed=ALLOWED, name="the configuration"))
    except ConfigError as error:
        return str(error).splitlines()
    return []


YARN = {"_target_": "bipe.extension.YaRN", "factor": 4.0, "original_length": 16}
OPEN = {"_target_": "bipe.encodings.RoPE", "_partial_": True}  # may miss keys
NO_KEY = "has no such key; "
TOLD = [
    ({}, []),
    ({"rate": 1, "mode": "slow", "inner": {"depth": 2}, "flag": True, "encoding": OPEN}, []),
    ({"stepz": 3}, ["stepz: the configuration has no such key; did you mean 'steps'?"]),
    ({"steps": ...}, ["the configuration also needs steps"]),
    ({"rate": "fast"}, ["rate must be float or null, was: 'fast'"]),
    ({"mode": "quick"}, ["mode must be one of fast, slow, was: 'quick'"]),
    ({"keep": 0}, ["keep must be at least 1 or null, was: 0"]),
    ({"inner": {"depth": "deep"}}, ["inner.depth must be int, was: 'deep'"]),
    ({"inner": {"depth": 1, "shar": 1.0}}, [f"inner.shar: Inner {NO_KEY}did you mean 'share'?"]),
    ({"encoding": ROPE | {"factor": 3.0, "stretch": YARN}},
     [f"encoding.factor: RoPE {NO_KEY}did you mean encoding.stretch.factor?"]),
    ({"encoding": ROPE | {"zzzz": 1}},
     [f"encoding.zzzz: RoPE {NO_KEY}there are: "
      "head_width, interleaved, pairs, part, stretch, theta"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "told"), TOLD)
def test_a_fault_is_named_with_key_rule_and_value(changes, told):
    assert faults(**changes) == told


def test_calls_inside_calls_and_lists_are_checked():
    chain = {
        "_target_": "bipe.encodings.Chain",
        "links": [
            {"_target_": "bipe.encodings.Flat", "encoding": ROPE | {"head_width": "wide"}},
            {"_target_": "bipe.encodings.Flatt"},
        ],
    }
    _, first, second = faults(encoding=chain)
    assert first == "  encoding.links[0].encoding.head_width must be int, was: 'wide'"
    assert second.startswith("  encoding.links[1]._target_: ")


@pytest.mark.parametrize("target", FORBIDDEN)
def test_what_may_be_called_is_on_a_list(target):
    (fault,) = faults(encoding={"_target_": target})
    assert fault.startswith("encoding._target_")
    assert repr(target) in fault
    with pytest.raises(ValueError, match="_target_"):
        build({"_target_": target}, allowed=ALLOWED)


FITS = [  # a type, what fits it, what does not
    (int | None, [None], []),
    (int, [1], [None, True, 1.0, ROPE]),
    (bool, [True], [1]),
    (Count | None, [None], [0]),
    (list[Count], [[1]], [[1, 0]]),
    (Literal["a"] | None, [None], ["b"]),
    (tuple[float, float], [[0.9, 0.95]], [[0.9]]),
    (tuple[int, ...], [[1, 2, 3]], [["1"]]),
    (Mapping[str, float], [{"a": 1.0}], [{"a": "b"}, [("a", 1.0)]]),
    (str | Path, ["runs/x"], [3]),
    (Inner, [ROPE], ["x"]),
    (Callable[[int], float], [ROPE], []),
    (Any, [object], []),
]


@pytest.mark.parametrize(("hint", "good", "bad"), FITS)
def test_what_can_stand_where(hint, good, bad):
    assert all(fits(value, hint) for value in good)
    assert not any(fits(value, hint) for value in bad)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@given(
    config=st.dictionaries(st.sampled_from(["steps", "path", "inner", "encoding", "x"]), ANYTHING)
)
def test_any_configuration_passes_or_is_refused_with_words(config):
    try:
        refuse(faults_of(config, schema, allowed=ALLOWED, name="the configuration"))
    except ConfigError as error:
        assert str(error)


def test_a_section_may_replace_another():
    study = composed("trainer.precision=auto")
    made = study.on({"trainer.precision": "32-true", "encoding": study.encoding, "steps": 7})
    assert (made.trainer["precision"], made.schedule["steps"]) == ("32-true", 7)
    assert made.encoding == study.encoding and made.as_plain()["encoding"] == study.encoding
    assert made.on({"steps": 7}) is made
