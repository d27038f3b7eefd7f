"""A configuration is compared with what it calls before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bipe.build import build
from train.config import allowed_prefixes
from train.config.check import Rule, check, fits
from train.errors import ConfigError

ALLOWED = allowed_prefixes([])
ROPE = {"_target_": "bipe.encodings.RoPE", "head_width": 8}
FORBIDDEN = [
    "pathlib.Path.unlink",
    "os.system",
    "builtins.eval",
    "subprocess.run",
    "torch.load",
    "torch.hub.load",
    "transformers.AutoModel.from_pretrained",
    "shutil.rmtree",
    "bipe",
    "trainer.evil",
    "bipe_evil.Thing",
    "hydra.utils.call",
]


Count = Annotated[int, Rule("at least 1", lambda value: value >= 1)]


@dataclass(frozen=True, kw_only=True)
class Inner:
    depth: int
    share: float = 0.5


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
        check(config, schema=schema, allowed=ALLOWED)
    except ConfigError as error:
        return str(error).splitlines()
    return []


def test_a_sound_configuration_passes():
    assert faults() == []
    assert faults(rate=1, mode="slow", inner={"depth": 2}, flag=True) == []


def test_an_unknown_key_is_named_with_what_was_meant():
    (fault,) = faults(stepz=3)
    assert fault == "stepz: the configuration has no such key; did you mean 'steps'?"
    (fault,) = faults(encoding=ROPE | {"thetta": 3.0})
    assert fault == "encoding.thetta: RoPE has no such key; did you mean 'theta'?"
    yarn = {"_target_": "bipe.extension.YaRN", "factor": 4.0, "original_length": 16}
    (fault,) = faults(encoding=ROPE | {"factor": 3.0, "stretch": yarn})
    assert fault.endswith("RoPE has no such key; did you mean encoding.stretch.factor?")


def test_a_key_like_no_other_gets_the_list_of_keys():
    (fault,) = faults(encoding=ROPE | {"zzzz": 1})
    assert fault.endswith("there are: head_width, interleaved, pairs, part, stretch, theta")


def test_a_wrong_type_is_named_with_key_rule_and_value():
    assert faults(steps="abc") == ["steps must be int, was: 'abc'"]
    assert faults(rate="fast") == ["rate must be float or null, was: 'fast'"]
    assert faults(mode="quick") == ["mode must be one of fast, slow, was: 'quick'"]
    assert faults(keep=0) == ["keep must be at least 1 or null, was: 0"]
    assert faults(keep=1.5) == ["keep must be int or null, was: 1.5"]
    assert faults(steps=None) == ["steps must be int, was: None"]


def test_a_missing_key_is_named():
    assert faults(steps=...) == ["the configuration also needs steps"]
    (fault,) = faults(encoding={"_target_": "bipe.encodings.RoPE"})
    assert fault == "encoding: RoPE also needs head_width"


def test_an_open_call_may_miss_keys_but_have_no_wrong_ones():
    partial = {"_target_": "bipe.encodings.RoPE", "_partial_": True}
    assert faults(encoding=partial) == []
    assert faults(encoding=partial | {"theta": "big"}) == [
        "encoding.theta must be float, was: 'big'"
    ]


def test_sections_are_checked_against_their_dataclass():
    assert faults(inner={"depth": "deep"}) == ["inner.depth must be int, was: 'deep'"]
    assert faults(inner={}) == ["inner: Inner also needs depth"]
    assert faults(inner={"depth": 1, "shar": 1.0}) == [
        "inner.shar: Inner has no such key; did you mean 'share'?"
    ]


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


def test_all_faults_are_told_at_once():
    told = faults(
        steps="abc", stepz=1, path=..., encoding=ROPE | {"theta": []}, inner={"depth": 1.5}
    )
    assert len(told) == 6  # the heading and five faults
    assert told[0] == "5 errors:"


@pytest.mark.parametrize("target", FORBIDDEN)
def test_what_may_be_called_is_on_a_list(target):
    (fault,) = faults(encoding={"_target_": target})
    assert fault.startswith("encoding._target_: ")
    assert repr(target) in fault
    with pytest.raises(ValueError, match="_target_"):
        build({"_target_": target}, allowed=ALLOWED)


def test_what_is_refused_is_not_even_imported(tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    assert faults(encoding={"_target_": "evil.Encoding"})
    assert not (tmp_path / "ran").exists()


def test_the_user_may_let_a_package_of_their_own_in(tmp_path, monkeypatch):
    (tmp_path / "mine_of_test_check.py").write_text(
        "from bipe.encodings import NoPE\nclass Mine(NoPE):\n"
        "    def __init__(self, *, reach: int): super().__init__()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    mine = {"_target_": "mine_of_test_check.Mine", "reach": 3}
    own = allowed_prefixes(["mine_of_test_check"])
    check({"steps": 1, "path": "x", "encoding": mine}, schema=schema, allowed=own)
    assert type(build(mine, allowed=own)).__name__ == "Mine"
    with pytest.raises(ConfigError, match=r"encoding.reach must be int, was: 'far'"):
        check(
            {"steps": 1, "path": "x", "encoding": mine | {"reach": "far"}},
            schema=schema,
            allowed=own,
        )


def test_a_prefix_ends_at_a_dot():
    assert allowed_prefixes(["mine", "yours."])[-2:] == ("mine.", "yours.")


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (None, int | None, True),
        (1, Count, True),
        (0, Count, False),
        ("1", Count, False),
        (None, Count | None, True),
        ([1, 0], list[Count], False),
        (None, int, False),
        (True, int, False),
        (1, bool, False),
        (1, float, True),
        (1.0, int, False),
        ("a", Literal["a", "b"], True),
        (None, Literal["a"] | None, True),
        (["a", "b"], list[str], True),
        (["a", 1], list[str], False),
        ("ab", list[str], False),
        ([0.9, 0.95], tuple[float, float], True),
        ([0.9], tuple[float, float], False),
        ([1, 2, 3], tuple[int, ...], True),
        ({"a": 1.0}, Mapping[str, float], True),
        ({"a": "b"}, Mapping[str, float], False),
        ([("a", 1.0)], Mapping[str, float], False),
        ("text", str | list[str], True),
        (["text"], str | list[str], True),
        (3, str | list[str], False),
        ("runs/x", str | Path, True),
        (3, str | Path, False),
        (ROPE, Inner, True),
        (ROPE, Callable[[int], float], True),
        (ROPE, int, False),
        ("x", Inner, False),
        (object, Any, True),
    ],
)
def test_what_can_stand_where(value, hint, expected):
    assert fits(value, hint) is expected


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@given(value=SCALARS)
def test_a_scalar_fits_its_own_type_and_any_union_with_it(value):
    own = type(value)
    assert fits(value, own)
    assert fits(value, own | Path)
    assert fits([value], list[own])
    assert fits({"key": value}, Mapping[str, own])


@given(values=st.lists(st.integers() | st.text(), max_size=4))
def test_a_list_fits_where_each_item_does(values):
    assert fits(values, list[int]) == all(isinstance(value, int) for value in values)


@given(
    config=st.dictionaries(st.sampled_from(["steps", "path", "inner", "encoding", "x"]), ANYTHING)
)
def test_any_configuration_passes_or_is_refused_with_words(config):
    try:
        check(config, schema=schema, allowed=ALLOWED)
    except ConfigError as error:
        assert str(error)


@dataclass(frozen=True, kw_only=True)
class WithFactory:
    names: list[str] = field(default_factory=list)


def test_defaults_of_dataclasses_are_defaults():
    check({}, schema=WithFactory, allowed=ALLOWED)
    with pytest.raises(ConfigError, match=r"names must be list\[str\], was: 'x'"):
        check({"names": "x"}, schema=WithFactory, allowed=ALLOWED)
