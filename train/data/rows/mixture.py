"""Which sources a run reads, in what proportions, and how often at most."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from train.data.rows.sets import DataSets, require_known
from train.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """The sources of a run and their weights.

    sources: weights by name, or a list of names; by default all sources, weighted by their rows.
    The name of a folder means all its sources, which share its weight by their tokens. temperature:
    weights are tokens^(1/T) instead. max_epochs: maximum per source, above which if_repeated warns
    or refuses.
    """

    sources: Mapping[str, float] | Sequence[str] | None = None
    temperature: float | None = None
    max_epochs: float | None = None
    if_repeated: Literal["warn", "refuse"] = "warn"

    def weights(self, sets: DataSets) -> tuple[list[str], dict[str, float] | None]:
        weighted = isinstance(self.sources, Mapping) and bool(self.sources)
        if weighted and self.temperature is not None:
            raise DataError("rows.temperature makes the weights: make rows.sources a list, or null")
        shares: dict[str, float] = {}
        for name in self.sources or sets.sources:
            members = sets.members(name)
            if twice := sorted(set(members) & set(shares)):
                raise DataError(f"rows.sources: {name} names {twice[0]}, which is named already")
            weight = self.sources[name] if weighted else 1.0  # type: ignore[index, call-overload]
            shares |= _shared(sets, members, weight)
        require_weights(shares, known=sets.sources)
        names = [name for name, share in shares.items() if share > 0]
        if self.temperature is not None:
            return names, by_temperature(_tokens(sets, names), temperature=self.temperature)
        return names, {name: shares[name] for name in names} if weighted else None


def by_temperature(tokens: Mapping[str, int], *, temperature: float) -> dict[str, float]:
    """Return weights proportional to tokens^(1/T), as mT5 (2010.11934) does with alpha = 1/T."""
    if not 0 < temperature < math.inf:
        raise DataError(f"rows.temperature must be above 0, was: {temperature}")
    # Relative to the largest, because powers of token counts can overflow for T below 1.
    largest = max(tokens.values())
    return {name: (count / largest) ** (1 / temperature) for name, count in tokens.items()}


def require_weights(
    weights: Mapping[str, float | Fraction], *, known: Mapping[str, object]
) -> None:
    """Raise DataError for an invalid weight, or the weight of an unknown source."""
    require_known(weights, known=known)
    for name, weight in weights.items():
        if not 0 <= weight < math.inf:
            raise DataError(f"sources.{name}: a weight must be 0 or more, was: {weight}")
    if not any(weights.values()):
        raise DataError("sources: at least one weight must be above 0")


def _shared(sets: DataSets, members: list[str], weight: float) -> dict[str, float]:
    if len(members) == 1:
        return {members[0]: weight}
    tokens = _tokens(sets, members)
    return {name: weight * count / sum(tokens.values()) for name, count in tokens.items()}


def _tokens(sets: DataSets, names: Sequence[str]) -> dict[str, int]:
    return {name: sets.counts(name, "train")["tokens"] for name in names}
