"""What `bipe evaluate` is told of arithmetic by chains."""

from __future__ import annotations

from dataclasses import dataclass

from train.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """Which problems are asked (evals/arithmetic.py)."""

    source: str | None
    operators: list[int]
    problems: int

    def __post_init__(self) -> None:
        rising = self.operators == sorted(set(self.operators)) and min(self.operators, default=0)
        if not (rising and rising >= 1):
            raise ConfigError(
                "evaluate.arithmetic.operators must be rising numbers from 1 up, was: "
                f"{self.operators}"
            )
        if self.problems < 1:
            raise ConfigError(
                f"evaluate.arithmetic.problems must be at least 1, was: {self.problems}"
            )
