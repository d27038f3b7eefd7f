"""What `bipe evaluate statistics` can be told."""

from __future__ import annotations

from dataclasses import dataclass

from train.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Which prepared text is counted, and where the numbers go."""

    out: str
    sources: list[str] | None
    splits: list[str]
    documents: int
    separator_tokens: int | None

    def __post_init__(self) -> None:
        if not self.splits:
            raise ConfigError("statistics.splits must name at least one split, was: []")
        if self.sources == []:
            raise ConfigError("statistics.sources must name some, or be null for all, was: []")
        for name in ("documents", "separator_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"statistics.{name} must be at least 1, was: {value}")
