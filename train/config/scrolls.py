"""What `bipe scrolls` can be told beside the task, the checkpoint and the training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bipe.generation import Beams
from train.errors import ConfigError
from train.tasks.scrolls.encoding import OnLong


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrolls:
    """How examples are made, which weights are kept, and how the outputs are decoded.

    conf/config.yaml explains each key.
    """

    examples: str
    source: str | None
    segmenter: str | None
    on_long: OnLong
    select: Literal["best", "last"]
    split: str | None
    rows: int | None
    batch: int
    max_new: int | None
    beams: int
    length_penalty: float
    early_stopping: bool

    def __post_init__(self) -> None:
        for name in ("rows", "batch", "max_new"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"scrolls.{name} must be at least 1, was: {value}")
        try:
            self.search  # noqa: B018 (checks its numbers)
        except ValueError as fault:
            raise ConfigError(f"scrolls.{fault}") from None

    @property
    def search(self) -> Beams:
        return Beams(
            beams=self.beams,
            length_penalty=float(self.length_penalty),
            early_stopping=self.early_stopping,
        )
