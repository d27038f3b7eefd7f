"""What `bipe evaluate` can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from train.config.arithmetic import Arithmetic
from train.config.probing import Probing
from train.config.sweep import Sweep
from train.errors import ConfigError

ProtocolName = Literal["windows", "sliding", "last_k", "full_context", "bipe_blocks", "yarn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkey:
    """How retrieval is probed (evals/passkey.py)."""

    source: str | None
    depths: list[float]
    trials: int
    candidates: int

    def __post_init__(self) -> None:
        inside = all(0 <= depth <= 1 for depth in self.depths)
        _require("passkey.depths", self.depths, bool(self.depths) and inside, "shares from 0 to 1")
        _require("passkey.trials", self.trials, self.trials >= 1, "at least 1")
        _require("passkey.candidates", self.candidates, self.candidates >= 2, "at least 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate:
    """What `bipe evaluate` measures; lengths in training rows."""

    runs: str | list[str]
    lengths: list[int]
    documents: int
    split: str
    sources: list[str] | None
    tokens_per_batch: int
    protocol: ProtocolName
    stride: int | None
    last: int | None
    start_token: int | None
    passkey: Passkey | None
    probes: list[str]
    probing: Probing
    arithmetic: Arithmetic | None
    sweep: Sweep | None

    def __post_init__(self) -> None:
        whole = bool(self.lengths) and min(self.lengths) >= 1
        _require("lengths", self.lengths, whole, "multiples of row_length, from 1 up")
        _require("documents", self.documents, self.documents >= 1, "at least 1")
        _require(
            "tokens_per_batch", self.tokens_per_batch, self.tokens_per_batch >= 1, "at least 1"
        )
        for name in ("stride", "last"):
            value = getattr(self, name)
            _require(name, value, value is None or value >= 1, "at least 1 token, or null")
        if self.sources == []:
            _require("passkey", "set", self.passkey is None, "null where sources are []")


def _require(key: str, value: Any, holds: bool, rule: str) -> None:
    if not holds:
        raise ConfigError(f"evaluate.{key} must be {rule}, was: {value}")
