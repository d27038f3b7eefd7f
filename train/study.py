"""A study: everything that conf/config.yaml can say, as one typed, frozen value.

Hydra composes, check.py compares with the signatures, and the commands receive a `Study`; nothing
below train/cli.py knows Hydra.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from bipe.attention import Path as AttentionPath
from bipe.build import ALLOWED, TARGET
from train.check import check, section_of

IfExists = Literal["refuse", "resume", "overwrite"]
Call = Mapping[str, Any]  # a description that `bipe.build.build` turns into an object


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkey:
    """How retrieval is probed (evals/passkey.py)."""

    source: str | None
    depths: list[float]
    trials: int
    candidates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate:
    """What `bipe evaluate` measures; lengths in training rows."""

    runs: str | list[str]
    lengths: list[int]
    documents: int
    split: str
    sources: list[str] | None
    tokens_per_batch: int
    passkey: Passkey | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `bipe report` reads and where it writes."""

    runs: str | list[str]
    out: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The top level of the configuration; conf/config.yaml explains each key."""

    out: str
    data: str
    name: str | None
    if_exists: IfExists
    seed: int
    row_length: int
    steps: int
    clip: float | None
    patience: int
    attention: AttentionPath
    compile: bool
    log_every: int
    checkpoint_every: int
    validate_every: int | None
    keep_checkpoints: int
    corpus: Call
    model: Call
    encoding: Call
    rows: Call
    optimizer: Call
    schedule: Call
    trainer: Call
    logger: Call
    evaluate: Evaluate
    report: Report
    allowed_targets: list[str]

    def __post_init__(self) -> None:
        for name in ("row_length", "steps", "patience", "log_every", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, was: {getattr(self, name)}")

    @property
    def allowed(self) -> tuple[str, ...]:
        """Prefixes of what the configuration may build."""
        return allowed_prefixes(self.allowed_targets)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Study:
        """Check a composed and resolved configuration, then make a study of it.

        Raises `check.ConfigError` with every fault.
        """
        own = config.get("allowed_targets")
        check(config, schema=cls, allowed=allowed_prefixes(own if isinstance(own, list) else []))
        return _from_mapping(cls, config)


def allowed_prefixes(own: list[str]) -> tuple[str, ...]:
    """What any configuration may build, and the packages that the user names."""
    return (*ALLOWED, "lightning.", *(f"{str(prefix).rstrip('.')}." for prefix in own))


def encoding_name(encoding: Any) -> str:
    """What papers call an encoding: RoPE, BiPE-RoPE, or Bilevel(Sinusoidal, RoPE)."""
    if not isinstance(encoding, Mapping) or TARGET not in encoding:
        return "encoding"
    kind = str(encoding[TARGET]).rpartition(".")[2]
    if kind == "Flat":
        return encoding_name(encoding.get("encoding"))
    if kind == "Chain":
        return f"Chain({', '.join(map(encoding_name, encoding.get('links', [])))})"
    if kind != "Bilevel":
        return kind
    intra, inter = encoding_name(encoding.get("intra")), encoding_name(encoding.get("inter"))
    return f"BiPE-{inter}" if intra == "Learned" else f"Bilevel({intra}, {inter})"


def slug(name: str) -> str:
    """A folder name: BiPE-RoPE -> bipe_rope."""
    words = "".join(c.lower() if c.isalnum() else " " for c in name).split()
    return "_".join(words) or "run"


def _from_mapping(kind: Any, values: Mapping[str, Any]) -> Any:
    """Make a dataclass of a mapping, sections that are dataclasses included."""
    hints = typing.get_type_hints(kind)
    made = {}
    for field in fields(kind):
        value, section = values[field.name], section_of(hints[field.name])
        if section is not None and isinstance(value, Mapping):
            value = _from_mapping(section, value)
        made[field.name] = value
    return kind(**made)
