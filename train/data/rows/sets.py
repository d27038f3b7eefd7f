"""Prepared data sets as one; the sources of {name: folder} are called NAME/SOURCE."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from train.data.rows.choices import Mixture, by_temperature, require_known, require_weights
from train.data.store.folder import Folders, differences, disagreements, folders_of, read_top
from train.data.store.shards import Coarser, DataSet, LevelWish, levels_read, open_dataset
from train.errors import DataError


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
        folders = folders_of(data)
        if not folders:
            raise DataError("data must name at least one folder, was: empty")
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
        folder, inner = self._place(source)
        return dict(self.manifests[folder]["sources"][inner]["splits"][split])

    def levels_of(self, source: str) -> tuple[int, ...]:
        """Return the numbers of the levels of a source that are read; DataError if it has none."""
        folder, inner = self._place(source)
        manifest = self.manifests[folder]["sources"][inner]
        return levels_read(manifest, self.level, self.coarser, what=f"{folder / inner}: rows.")

    def open(self, source: str, split: str, *, verify: bool = False) -> DataSet:
        """Open one split of one source; DataError if another tokenizer or segmenter made it."""
        folder, inner = self._place(source)
        level, *coarser = self.levels_of(source)
        data = open_dataset(folder / inner / split, verify=verify, level=level, coarser=coarser)
        for fault in disagreements(data.folder, data.manifest, self.manifests[folder]):
            raise DataError(str(fault))
        return data

    def by_folder(self, names: Sequence[str]) -> dict[Path, list[str]]:
        sources: dict[Path, list[str]] = {}
        for name in names:
            folder, inner = self._place(name)
            sources.setdefault(folder, []).append(inner)
        return sources

    def members(self, name: str) -> list[str]:
        inside = [source for source in self.sources if self.named and source.startswith(f"{name}/")]
        if name in self.sources or not inside:
            require_known(name, known=self.sources)
            return [name]
        return inside

    def weights(self, mixture: Mixture) -> tuple[list[str], dict[str, float] | None]:
        """Return the sources that a mixture reads, and their weights; None: by their rows."""
        asked = mixture.sources or list(self.sources)
        weighted = isinstance(asked, Mapping)
        if weighted and mixture.temperature is not None:
            fault = "rows.temperature sets the weights: rows.sources must be a list or null"
            raise DataError(fault)
        shares: dict[str, float] = {}
        for name in asked:
            members = self.members(name)
            if twice := sorted(set(members) & set(shares)):
                raise DataError(f"rows.sources: {name} contains {twice[0]}, which is already named")
            weight = asked[name] if isinstance(asked, Mapping) else 1.0
            tokens = self._tokens(members)
            whole = sum(tokens.values())
            for of_source, count in tokens.items():
                shares[of_source] = weight if len(members) == 1 else weight * count / whole
        require_weights(shares, known=self.sources)
        names = [name for name, share in shares.items() if share > 0]
        if mixture.temperature is not None:
            return names, by_temperature(self._tokens(names), temperature=mixture.temperature)
        return names, {name: shares[name] for name in names} if weighted else None

    def _tokens(self, names: Sequence[str]) -> dict[str, int]:
        return {name: self.counts(name, "train")["tokens"] for name in names}

    def _place(self, source: str) -> tuple[Path, str]:
        require_known(source, known=self.sources)
        return self.sources[source]

    def _require_same_tokenizer(self, folder: Path) -> None:
        tokenizer = self.manifests[folder]["tokenizer"]
        if tokenizer != self.tokenizer:
            how = "; ".join(differences(self.tokenizer, tokenizer, key="tokenizer"))
            raise DataError(
                f"data: {folder} was made with a different tokenizer than {self.folder} ({how}). "
                "Prepare it again with that one: "
                f"tokenizer@corpus.tokenizer=load corpus.tokenizer.path={self.folder}"
            )


def read_by(notes: Mapping[str, Any]) -> dict[str, Any]:
    return {"level": notes.get("level"), "coarser": notes.get("coarser") or 0}
