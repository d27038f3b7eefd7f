"""How `bipe evaluate` probes retrieval and long contexts (evals/probes)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from train.errors import ConfigError

SCORINGS = ("rank", "write")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """What the probes of `evaluate.probes` share; lengths in tokens."""

    source: str | None
    lengths: list[int] | None
    depths: list[float]
    trials: int
    candidates: int
    scoring: list[str]

    def __post_init__(self) -> None:
        lengths = self.lengths is None or (bool(self.lengths) and min(self.lengths) >= 1)
        _require("lengths", self.lengths, lengths, "numbers of tokens from 1 up, or null")
        inside = all(0 <= depth <= 1 for depth in self.depths)
        _require("depths", self.depths, bool(self.depths) and inside, "shares from 0 to 1")
        _require("trials", self.trials, self.trials >= 1, "at least 1")
        _require("candidates", self.candidates, self.candidates >= 2, "at least 2")
        known = bool(self.scoring) and set(self.scoring) <= set(SCORINGS)
        _require("scoring", self.scoring, known, f"some of {', '.join(SCORINGS)}")


def _require(key: str, value: Any, holds: bool, rule: str) -> None:
    if not holds:
        raise ConfigError(f"evaluate.probing.{key} must be {rule}, was: {value}")
