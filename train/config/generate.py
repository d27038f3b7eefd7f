"""What `bipe generate` can be told."""

from __future__ import annotations

from dataclasses import dataclass

from bipe.generation import Sampling
from train.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """What `bipe generate` goes on from, and how."""

    run: str
    checkpoint: str | int | None
    data: str | list[str] | dict[str, str] | None
    source: str | None
    segmenter: str | None
    prompt: str | None
    file: str | None
    max_new: int
    samples: int
    stop: list[str]
    temperature: float
    top_k: int | None
    top_p: float
    repetition_penalty: float

    def __post_init__(self) -> None:
        for name in ("max_new", "samples"):
            value = getattr(self, name)
            if value < 1:
                raise ConfigError(f"generate.{name} must be at least 1, was: {value}")
        if not all(self.stop):
            raise ConfigError(f"generate.stop must hold no empty string, was: {self.stop}")
        try:
            self.sampling  # noqa: B018 (checks its numbers)
        except ValueError as fault:
            raise ConfigError(f"generate.{fault}") from None

    @property
    def sampling(self) -> Sampling:
        return Sampling(
            temperature=float(self.temperature),
            top_k=self.top_k,
            top_p=float(self.top_p),
            repetition_penalty=float(self.repetition_penalty),
        )
