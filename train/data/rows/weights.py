"""The weights of a mixture, from what a configuration says: names, shares, a temperature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from train.data.rows.interleave import by_temperature
from train.data.rows.order import require_known, require_weights
from train.data.rows.sets import DataSets
from train.errors import DataError

Sources = Mapping[str, float] | Sequence[str]


def chosen_weights(
    sets: DataSets, *, sources: Sources | None, temperature: float | None
) -> tuple[list[str], dict[str, float] | None]:
    """The sources that are read, and their weights; None for row for row.

    sources: a weight for each, or a list of names; by default all. The name of a data set stands
    for its sources: a weight is shared among them by their tokens.
    """
    weighted = isinstance(sources, Mapping)
    if weighted and sources and temperature is not None:
        raise DataError("rows.temperature makes the weights: make rows.sources a list, or null")
    named = sources or list(sets.sources)
    shares: dict[str, float] = {}
    for name in named:
        members = sets.members(name)
        if not members:
            require_known({name: 1}, known=sets.sources)
        twice = sorted(set(members) & set(shares))
        if twice:
            raise DataError(f"rows.sources: {name} names {twice[0]}, which is named already")
        weight = sources[name] if isinstance(sources, Mapping) and sources else 1.0
        shares |= _shared(sets, members, weight)
    require_weights(shares, known=sets.sources)
    names = [name for name, share in shares.items() if share > 0]
    if temperature is not None:
        tokens = {name: sets.counts(name, "train")["tokens"] for name in names}
        return names, by_temperature(tokens, temperature=temperature)
    return names, {name: shares[name] for name in names} if weighted and sources else None


def _shared(sets: DataSets, members: list[str], weight: float) -> dict[str, float]:
    if len(members) == 1:
        return {members[0]: weight}
    tokens = {name: sets.counts(name, "train")["tokens"] for name in members}
    return {name: weight * count / sum(tokens.values()) for name, count in tokens.items()}
