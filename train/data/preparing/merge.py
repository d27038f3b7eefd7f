"""The parts of all sources, in order, into one data set a split.

Order alone decides the bytes: which worker made a part, and when, leaves no trace.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from train.data.preparing.engine.work import Work
from train.data.preparing.progress import Meter
from train.data.preparing.statistics import Lengths, Sample
from train.data.reading.split import SPLITS
from train.data.store.shards import open_dataset
from train.data.store.writer import SHARD_TOKENS, ShardWriter
from train.errors import DataError

_EXAMPLES = 5


class Tally:
    """What the parts of a source counted, added in their order."""

    def __init__(self, work: Work, name: str) -> None:
        self.work, self.name, self.source = work, name, work.sources[name]
        self.ranks = [rank for rank, task in enumerate(work.tasks) if task.source == name]
        self.documents = self.empty = self.duplicates = 0
        self.bad: Counter[str] = Counter()
        self.filtered: Counter[str] = Counter()
        self.chosen: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.examples: list[str] = []
        self.splits: dict[int, list[str]] = {}
        self.levels = 1
        self.lengths, self.sample = Lengths(), Sample()
        for rank in self.ranks:
            self._add(rank)

    def _add(self, rank: int) -> None:
        result = self.work.result(rank)
        assert result is not None
        self.documents += result["counts"][0]
        self.empty += result["empty"]
        self.duplicates += result["duplicates"]
        self.bad.update(result["bad"])
        self.filtered.update(result["filtered"])
        self.chosen.update(result["segmenters"])
        self.seen.update(result["named"])
        self.examples = (self.examples + result["examples"])[:_EXAMPLES]
        self.splits[rank] = result["splits"]
        self.levels = result["levels"]  # as the workers say: segmenters take long to load
        self.lengths.merge(result["lengths"])
        self.sample.merge(result["sample"])

    def require_documents(self) -> None:
        """Raise DataError if there is nothing to train on, or a document is named in vain."""
        reader = self.source.documents
        label = f"source {self.name} ({reader.label()})"
        left_out = {
            "empty": self.empty,
            "duplicates": self.duplicates,
            **self.bad,
            **self.filtered,
        }
        if not self.documents and any(left_out.values()):
            told = ", ".join(f"{number} {rule}" for rule, number in left_out.items() if number)
            if self.empty and sum(left_out.values()) == self.empty:
                raise DataError(
                    f"{label}: all {self.empty} documents are empty; check its text_key"
                )
            raise DataError(f"{label}: every document was left out ({told})")
        if not self.documents:
            raise DataError(f"{label}: no document was found. {reader.cure_of_nothing()}")
        unseen = sorted(self.source.split.named() - self.seen) if self.source.split else []
        if unseen:
            raise DataError(
                f"{label}: split.ids names {', '.join(unseen[:3])}, which is no document of it; "
                "ids are listed in the .ids files of a prepared data set"
            )

    def entry(self, counts: dict[str, Any]) -> dict[str, Any]:
        """What the top manifest says of the source."""
        return {
            **self.work.descriptions[self.name],
            "levels": self.levels,
            "empty": self.empty,
            "bad": dict(self.bad),
            "filtered": dict(self.filtered),
            "duplicates": self.duplicates,
            **({"segmenters": dict(self.chosen.most_common())} if self.chosen else {}),
            "splits": counts,
        }

    def statistics(self) -> dict[str, Any]:
        """What the statistics say of the source."""
        found = {**self.lengths.summary(), "sample": self.sample.passage()}
        return {**found, "left_out": self.examples} if self.examples else found


def tallies(work: Work) -> dict[str, Tally]:
    """A tally for each source; DataError if one of them cannot be a source of data."""
    made = {name: Tally(work, name) for name in work.sources}
    for tally in made.values():
        tally.require_documents()
    return made


def merge_source(
    tally: Tally, folder: Path, meter: Meter, *, shard_tokens: int = SHARD_TOKENS
) -> dict[str, Any]:
    """Write FOLDER/{train,validation,test}; return the entry for the top manifest.

    A part that is not as it was written is forgotten, so that another run makes it again.
    """
    work, name = tally.work, tally.name
    with ExitStack() as stack:
        writers = {
            split: stack.enter_context(
                ShardWriter(
                    folder=folder / split,
                    name=name,
                    vocab_size=work.tokenizer.vocab_size,
                    levels=tally.levels,
                    description={"split": split, **work.descriptions[name]},
                    shard_tokens=shard_tokens,
                )
            )
            for split in SPLITS
        }
        for number, rank in enumerate(tally.ranks):
            for split in tally.splits[rank]:
                try:
                    part = open_dataset(work.place(rank) / split)
                except (DataError, OSError) as fault:
                    work.remove(rank)
                    raise DataError(f"{fault}: run again to make this part anew") from None
                writers[split].extend(part)
            meter.update(f"{number + 1} of {len(tally.ranks)} parts")
    counts = {split: writer.counts for split, writer in writers.items()}
    return tally.entry(counts)
