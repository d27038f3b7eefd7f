"""Prepared data sets as one: the sources of one folder, or of several with the same tokenizer.

One folder, or a list of folders, is known by the names of its sources; a mapping gives each folder
a name of its own, and its sources are NAME/SOURCE.


The weights of a mixture, from what a configuration says: names, shares, a temperature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from train.data.rows.order import by_temperature, require_known, require_weights
from train.data.store.folder import TOKENIZER, differences, read_top
from train.data.store.shards import DataSet, open_dataset
from train.errors import DataError

Folders = str | Path | Sequence[str] | Mapping[str, str]


class DataSets:
    """What `bipe prepare` wrote into one folder or more.

    data: a folder, a list of folders, or a mapping from names to folders.
    """

    def __init__(self, data: Folders) -> None:
        self.named = isinstance(data, Mapping)
        folders = _folders(data)
        if not folders:
            raise DataError("data must name at least one folder, was empty")
        self.manifests = {folder: read_top(folder) for folder in folders.values()}
        self.folder = next(iter(self.manifests))
        self.sources: dict[str, tuple[Path, str]] = {}
        for name, folder in folders.items():
            _require_same_tokenizer(self.folder, folder, self.manifests)
            for source in self.manifests[folder]["sources"]:
                self._add(f"{name}/{source}" if self.named else source, folder, source)

    @property
    def tokenizer(self) -> dict[str, Any]:
        """Fingerprint of the tokenizer of all of them."""
        return dict(self.manifests[self.folder]["tokenizer"])

    @property
    def vocab_size(self) -> int:
        """Ids are below it."""
        return int(self.tokenizer["vocab_size"])

    @property
    def tokenizer_path(self) -> Path:
        """The tokenizer.json that made the ids."""
        return self.folder / TOKENIZER

    def counts(self, source: str, split: str) -> dict[str, int]:
        """Documents, tokens, segments and bytes, as the manifest counted them."""
        folder, own = self._place(source)
        return dict(self.manifests[folder]["sources"][own]["splits"][split])

    def open(self, source: str, split: str, *, verify: bool = False) -> DataSet:
        """Open one split of one source; DataError if another tokenizer or segmenter made it."""
        folder, own = self._place(source)
        top = self.manifests[folder]
        data = open_dataset(folder / own / split, verify=verify)
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
        """The sources of these names, as each folder calls its own."""
        found: dict[Path, list[str]] = {}
        for name in names:
            folder, own = self._place(name)
            found.setdefault(folder, []).append(own)
        return found

    def members(self, name: str) -> list[str]:
        """The source of this name, or the sources of the data set of this name."""
        if name in self.sources:
            return [name]
        return [source for source in self.sources if self.named and source.startswith(f"{name}/")]

    def _place(self, source: str) -> tuple[Path, str]:
        require_known({source: 1}, known=self.sources)
        return self.sources[source]

    def _add(self, name: str, folder: Path, source: str) -> None:
        if name in self.sources:
            raise DataError(
                f"data: {self.sources[name][0]} and {folder} both have a source {name}; name the "
                "folders to tell them apart: data={one: FOLDER, other: FOLDER}"
            )
        self.sources[name] = (folder, source)


def _folders(data: Folders) -> dict[str, Path]:
    if isinstance(data, str | Path):
        return {"data": Path(data)}
    if isinstance(data, Mapping):
        return {str(name): Path(folder) for name, folder in data.items()}
    return {str(number): Path(folder) for number, folder in enumerate(data)}


def _require_same_tokenizer(first: Path, other: Path, manifests: dict[Path, Any]) -> None:
    one, two = (manifests[folder]["tokenizer"] for folder in (first, other))
    if one != two:
        how = "; ".join(differences(one, two, key="tokenizer"))
        raise DataError(
            f"data: {other} was made with another tokenizer than {first} ({how}): their ids mean "
            "different things. Prepare it again with that one: tokenizer@corpus.tokenizer=load "
            f"corpus.tokenizer.path={first}"
        )


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
