"""Prepared data sets as one, and which of their sources a run reads, in what proportions.

The sources of {name: folder} are called NAME/SOURCE.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from train.data.store.folder import differences, read_top
from train.data.store.shards import Coarser, DataSet, LevelWish, levels_read, open_dataset
from train.errors import DataError, nearest

Folders = str | Path | Sequence[str] | Mapping[str, str]


class DataSets:
    """The data that `bipe prepare` wrote into a folder, a list of folders, or {name: folder}.

    level: the stored one that is read as the segments (rows.level), and coarser: those that an
    encoding of several levels reads as well (rows.coarser); see `shards.levels_read`.
    """

    def __init__(
        self, data: Folders, *, level: LevelWish | None = None, coarser: Coarser = 0
    ) -> None:
        self.level, self.coarser = level, coarser
        self.named = isinstance(data, Mapping)
        folders = _folders(data)
        if not folders:
            raise DataError("data must name at least one folder, was empty")
        self.manifests = {folder: read_top(folder) for folder in folders.values()}
        self.folder = next(iter(self.manifests))
        self.sources: dict[str, tuple[Path, str]] = {}
        for prefix, folder in folders.items():
            self._require_same_tokenizer(folder)
            for source in self.manifests[folder]["sources"]:
                name = f"{prefix}/{source}" if self.named else source
                if name in self.sources:
                    raise DataError(
                        f"data: {self.sources[name][0]} and {folder} both have a source {name}; "
                        "name the folders to tell them apart: data={one: FOLDER, other: FOLDER}"
                    )
                self.sources[name] = (folder, source)

    @property
    def tokenizer(self) -> dict[str, Any]:
        return dict(self.manifests[self.folder]["tokenizer"])

    @property
    def vocab_size(self) -> int:
        return int(self.tokenizer["vocab_size"])

    def counts(self, source: str, split: str) -> dict[str, int]:
        folder, own = self._place(source)
        return dict(self.manifests[folder]["sources"][own]["splits"][split])

    def levels_of(self, source: str) -> tuple[int, ...]:
        """Return the numbers of the levels of a source that are read; DataError if it has none."""
        folder, own = self._place(source)
        manifest = self.manifests[folder]["sources"][own]
        return levels_read(manifest, self.level, self.coarser, what=f"{folder / own}: rows.")

    def open(self, source: str, split: str, *, verify: bool = False) -> DataSet:
        """Open one split of one source; DataError if another tokenizer or segmenter made it."""
        folder, own = self._place(source)
        top = self.manifests[folder]
        level, *coarser = self.levels_of(source)
        data = open_dataset(folder / own / split, verify=verify, level=level, coarser=coarser)
        for key, expected in (
            ("tokenizer", top["tokenizer"]),
            ("segmenter", top["sources"][own]["segmenter"]),
        ):
            if data.manifest[key] != expected:
                raise DataError(
                    f"{data.folder / 'manifest.json'}: its {key} is not that of "
                    f"{folder / 'manifest.json'}; prepare again"
                )
        return data

    def by_folder(self, names: Sequence[str]) -> dict[Path, list[str]]:
        found: dict[Path, list[str]] = {}
        for name in names:
            folder, own = self._place(name)
            found.setdefault(folder, []).append(own)
        return found

    def members(self, name: str) -> list[str]:
        """Return the source of this name, or the sources of the folder of this name."""
        found = [each for each in self.sources if self.named and each.startswith(f"{name}/")]
        if name in self.sources or not found:
            require_known([name], known=self.sources)
            return [name]
        return found

    def _place(self, source: str) -> tuple[Path, str]:
        require_known([source], known=self.sources)
        return self.sources[source]

    def _require_same_tokenizer(self, folder: Path) -> None:
        own = self.manifests[folder]["tokenizer"]
        if own != self.tokenizer:
            how = "; ".join(differences(self.tokenizer, own, key="tokenizer"))
            raise DataError(
                f"data: {folder} was made with another tokenizer than {self.folder} ({how}): their "
                "ids mean different things. Prepare it again with that one: "
                f"tokenizer@corpus.tokenizer=load corpus.tokenizer.path={self.folder}"
            )


def read_by(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `DataSets` for the levels that a trained model reads."""
    return {"level": notes.get("level"), "coarser": notes.get("coarser") or 0}


def require_known(names: Iterable[str], *, known: Mapping[str, object]) -> None:
    """Raise DataError for an unknown source, with the nearest known name."""
    for name in names:
        if name not in known:
            raise DataError(f"sources.{name}: no such source; {nearest(name, known)}")


def _folders(data: Folders) -> dict[str, Path]:
    if isinstance(data, str | Path):
        return {"data": Path(data)}
    if isinstance(data, Mapping):
        return {str(name): Path(folder) for name, folder in data.items()}
    return {str(number): Path(folder) for number, folder in enumerate(data)}


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
