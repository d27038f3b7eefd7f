"""Joins the parts of all sources, in order, into data sets with statistics and a card."""

import json
import re
import shutil
from collections import Counter
from contextlib import ExitStack
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from bipe.build import TARGET
from segmenters.wording import counted
from train.data.preparing.flaws import Flaws
from train.data.preparing.progress import Meter
from train.data.preparing.statistics import (
    DOCUMENT_EDGES,
    SEGMENT_EDGES,
    Lengths,
    Sample,
    Shares,
)
from train.data.preparing.work import Work
from train.data.reading.documents import NOTHING
from train.data.store import folder as top
from train.data.store.shards import open_dataset
from train.disk.files import write_whole
from train.disk.manifest import SPLITS
from train.errors import DataError

_EXAMPLES = 5
_CARD = Path(__file__).with_name("card.md.j2")


class Tally:
    """The counts of the parts of a source, added in order."""

    def __init__(self, work: Work, name: str) -> None:
        self.work, self.name, self.source = work, name, work.sources[name]
        ranks = [rank for rank, task in enumerate(work.tasks) if task.source == name]
        self.results = {rank: result for rank in ranks if (result := work.result(rank))}
        self.levels = 1
        self.documents = self.empty = self.duplicates = 0
        self.bad, self.filtered = Counter[str](), Counter[str]()
        self.lengths, self.sample, self.flaws = Lengths(), Sample(), Flaws()
        self.segmenters, self.done = Shares(), Shares()
        for result in self.results.values():
            # From the workers, since segmenters take long to load.
            self.levels = max(self.levels, result["levels"])
            self.documents += result["counts"][0]
            self.empty += result["empty"]
            self.duplicates += result["duplicates"]
            self.bad += Counter(result["bad"])
            self.filtered += Counter(result["filtered"])
            for key in ("lengths", "sample", "segmenters", "done", "flaws"):
                getattr(self, key).merge(result[key])

    def require_documents(self) -> None:
        """Raise DataError for no document, an unknown one in split.ids, or too much broken text."""
        label = f"source {self.name} ({self.source.documents.label()})"
        counts = {"empty": self.empty, "duplicates": self.duplicates, **self.bad, **self.filtered}
        left_out = {rule: number for rule, number in counts.items() if number}
        if not self.documents:
            rules = ", ".join(f"{number} {rule}" for rule, number in left_out.items())
            reader = self.source.documents
            reason = f"all documents were left out ({rules})" if left_out else NOTHING
            if [*left_out] == ["empty"]:
                key = "text_key" if hasattr(reader, "text_key") else "path"
                reason = f"all documents ({self.empty}) are empty. Set {reader.keys}{key} to text"
            elif self.bad and (hint := reader.hint(next(iter(self.bad)))):
                reason += f". {hint.removesuffix('.')}"
            raise DataError(f"{label}: {reason}")
        seen = chain.from_iterable(result["named"] for result in self.results.values())
        unseen = sorted(self.source.drawn.named.keys() - set(seen))
        if unseen:
            raise DataError(
                f"{label}: corpus.split.ids names {', '.join(unseen[:3])}, which it does not "
                "contain; ids are listed in the .ids files of a prepared data set"
            )
        self.flaws.require_few(self.source.documents, label)

    def entry(self, splits: dict[str, Any]) -> dict[str, Any]:
        """Return what the manifest says of the source; splits: the counts of each."""
        chosen = self.segmenters.table()
        return {
            **self.work.descriptions[self.name],
            "levels": self.levels,
            "empty": self.empty,
            "bad": dict(self.bad),
            "filtered": dict(self.filtered),
            "duplicates": self.duplicates,
            **({"segmenters": chosen} if chosen else {}),
            "done": self.done.table(),
            **({"flaws": flaws} if (flaws := self.flaws.table()) else {}),
            **({"split": why} if (why := self.source.drawn.why) else {}),
            "splits": splits,
        }

    def statistics(self) -> dict[str, Any]:
        summary = {**self.lengths.summary(), "sample": self.sample.best[1]}
        examples = chain.from_iterable(result["examples"] for result in self.results.values())
        left_out = [*islice(examples, _EXAMPLES)]
        return {**summary, "left_out": left_out} if left_out else summary


def tallies(work: Work) -> dict[str, Tally]:
    """Return the counts of each source; DataError where a source has nothing to prepare."""
    tallies = {name: Tally(work, name) for name in work.sources}
    for tally in tallies.values():
        tally.require_documents()
    return tallies


def merge(
    by_source: dict[str, Tally], out: Path, meter: Meter, *, request: dict[str, Any]
) -> dict[str, Any]:
    """Write the whole data set into an empty folder, the manifest last; return the manifest."""
    tokenizer = next(iter(by_source.values())).work.tokenizer
    sources = {}
    meter.start("shards")
    for name, tally in by_source.items():
        sources[name] = tally.entry(_shards(tally, out / name, meter, request["shard_tokens"]))
    meter.finish()
    statistics = {name: tally.statistics() for name, tally in by_source.items()}
    edges = {"segment_edges": SEGMENT_EDGES, "document_edges": DOCUMENT_EDGES}
    card = {
        "tokenizer": tokenizer.fingerprint(),
        "deduplicated": request["deduplicate"],
        "sources": {name: {**entry, **statistics[name]} for name, entry in sources.items()},
    }
    write_whole(out / top.TOKENIZER, tokenizer.json)
    write_whole(out / top.STATISTICS, json.dumps({**edges, "sources": statistics}) + "\n")
    write_whole(out / top.CARD_DATA, json.dumps(card, indent=1) + "\n")
    write_whole(out / top.CARD, markdown(card))
    head = {"format": top.FORMAT, "version": top.VERSION, "request": request}
    manifest = {**head, "tokenizer": tokenizer.fingerprint(), "sources": sources}
    return top.write_top(out, manifest)


def _shards(tally: Tally, folder: Path, meter: Meter, shard_tokens: int) -> dict[str, Any]:
    """Write the splits of a source; return their counts. Removes damaged parts, to be remade."""
    work = tally.work
    with ExitStack() as stack:
        writers = {}
        for split in SPLITS:
            writer = work.writer(tally.name, split, folder, tally.levels, shard_tokens)
            writers[split] = stack.enter_context(writer)
        for number, (rank, result) in enumerate(tally.results.items(), start=1):
            for split in result["splits"]:
                try:
                    part = open_dataset(work.place(rank) / split)
                except (DataError, OSError) as fault:
                    shutil.rmtree(work.place(rank), ignore_errors=True)
                    raise DataError(f"{fault}: run again to rebuild this part") from None
                writers[split].extend(part)
            meter.update(f"{number} of {counted(len(tally.results), 'part')}")
    return {split: writer.counts for split, writer in writers.items()}


def markdown(card: dict[str, Any]) -> str:
    """Return the card of a data set, for people, from that for programs."""
    from jinja2 import Environment, StrictUndefined

    # Not HTML: only the passage is escaped, by a fence that is longer than any in it.
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"fence": _fence, "passage": _passage, "left_out": left_out_of}
    environment.filters |= {"segmenter": _segmenter}
    template = environment.from_string(_CARD.read_text(encoding="utf-8"))
    return template.render(**card, splits=SPLITS)


def _fence(text: str) -> str:
    return "`" * (1 + max(map(len, re.findall("`+", text)), default=2))


def _passage(sample: dict[str, Any]) -> str:
    return "|".join(sample["text"][start:stop] for start, stop in pairwise(sample["cuts"]))


def _segmenter(fingerprint: dict[str, Any]) -> str:
    name = str(fingerprint.get("segmenter", "not stated"))
    inner = fingerprint.get("parameters", {}).get("of", {})
    return f"{name} of {inner[TARGET]}" if TARGET in inner else name


def left_out_of(source: dict[str, Any]) -> dict[str, int]:
    """Return how many documents of a source in the manifest were left out, by rule."""
    filtered = {f"by {name}": number for name, number in source["filtered"].items()}
    duplicates = {"duplicates": source["duplicates"]}
    return {"empty": source["empty"], **source["bad"], **duplicates, **filtered}
