"""All faults of a data set, not only the first.

The sealed top manifest holds the checksums of the split manifests, which hold those of all other
files, so any changed byte is found. Also, the manifests must agree with each other and with the
tokenizer, and (`structure`) the shards must follow the format. For each broken rule, the first
place and the number of places are reported.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.wording import counted
from train.data.store import folder as top
from train.data.store.shards import MANIFEST, Shard, read_manifest
from train.disk.files import sha256
from train.disk.manifest import Fault, file_faults
from train.errors import DataError

Advance = Callable[[int], object]
_BLOCK = 1 << 22  # items checked at once
_INT64 = 8


def data_faults(
    folder: Path,
    *,
    sources: Sequence[str] | None = None,
    structure: bool = True,
    advance: Advance = lambda _: None,
) -> Iterator[Fault]:
    """Yield the faults of a prepared data set.

    sources: check only these. structure: also check the contents of shards, and report unknown
    files. advance: gets the size in bytes of each piece read for a checksum.
    """
    manifest: dict[str, Any] | None = None
    try:
        manifest = top.read_top(folder)
    except DataError as fault:
        yield _as_fault(folder / top.MANIFEST, fault)
    else:
        yield from _top_faults(folder, manifest, sources)
        if structure:
            known = {name.partition("/")[0] for name in manifest["files"]}
            yield from _unlisted(folder, known | set(manifest["sources"]) | {top.MANIFEST})
    for split in splits_of(folder, sources=sources):
        if (split / MANIFEST).exists():
            yield from split_faults(split, structure=structure, advance=advance)
        if manifest is not None:
            with suppress(DataError):  # reported elsewhere
                yield from top.disagreements(split, read_manifest(split), manifest)


def split_faults(
    folder: Path, *, structure: bool = True, advance: Advance = lambda _: None
) -> Iterator[Fault]:
    path = folder / MANIFEST
    try:
        manifest = read_manifest(folder)
    except DataError as fault:
        yield _as_fault(path, fault)
        return
    yield from file_faults(folder, manifest["files"], advance=advance)
    if structure:
        yield from _unlisted(folder, {*manifest["files"], MANIFEST})
    for key in ("documents", "tokens", "segments"):
        total, stated = sum(shard[key] for shard in manifest["shards"]), manifest["counts"][key]
        if total != stated:
            yield Fault(path=path, what=f"counts {stated} {key}, its shards {total}")
    for number, counts in enumerate(manifest["shards"] if structure else ()):
        begin = f"{manifest['name']}.{number:05d}."
        files = {name: file for name, file in manifest["files"].items() if name.startswith(begin)}
        if not any(True for _ in file_faults(folder, files, hashes=False)):
            shard = Shard(folder=folder, manifest=manifest, number=number)
            yield from structure_faults(shard, counts=counts, vocab_size=manifest["vocab_size"])


def splits_of(folder: Path, *, sources: Sequence[str] | None = None) -> list[Path]:
    there = {path.parent for path in folder.glob(f"*/*/{MANIFEST}")}
    with suppress(DataError):  # reported elsewhere
        for source, entry in top.read_top(folder)["sources"].items():
            there |= {folder / source / split for split in entry["splits"]}
    return sorted(path for path in there if sources is None or path.parent.name in sources)


def _top_faults(
    folder: Path, manifest: dict[str, Any], sources: Sequence[str] | None
) -> Iterator[Fault]:
    files = {
        name: file
        for name, file in manifest["files"].items()
        if "/" not in name or sources is None or name.partition("/")[0] in sources
    }
    yield from file_faults(folder, files)
    tokenizer = folder / top.TOKENIZER
    expected = manifest["tokenizer"]["sha256"]
    if tokenizer.is_file() and sha256(tokenizer) != expected:
        what = f"is not the tokenizer of {folder / top.MANIFEST}, whose sha256 is {expected}"
        yield Fault(path=tokenizer, what=what)


def _unlisted(folder: Path, known: set[str]) -> Iterator[Fault]:
    for path in sorted(folder.iterdir()):
        if path.name not in known:
            yield Fault(path=path, what="is not of this data set; move it away")


def _as_fault(path: Path, fault: DataError) -> Fault:
    return Fault(path=path, what=str(fault).removeprefix(str(path)).lstrip(": "))


def structure_faults(shard: Shard, *, counts: dict[str, int], vocab_size: int) -> Iterator[Fault]:
    """Yield the faults inside a shard whose files have the sizes that `counts` give them."""
    yield from _ids_below(shard, vocab_size)
    yield from _documents(shard)
    for level in range(len(shard.bits)):
        yield from _bitmap(shard, level)
    segments = int(np.bitwise_count(shard.bits[0]).sum(dtype=np.int64))
    if segments != counts["segments"]:
        what = f"segments: {segments}, but the manifest counts {counts['segments']}"
        yield Fault(path=shard.paths["level0.bits"], what=what)
    yield from _id_lines(shard.paths["ids"], counts["documents"])


def _ids_below(shard: Shard, vocab_size: int) -> Iterator[Fault]:
    blocks = range(0, len(shard.tokens), _BLOCK)
    wrong = [at + np.flatnonzero(shard.tokens[at : at + _BLOCK] >= vocab_size) for at in blocks]
    places = np.concatenate([np.empty(0, np.int64), *wrong])
    was = shard.tokens[places[0]] if len(places) else None
    what = f"ids must be below {vocab_size}, was: {was}"
    yield from _at(shard.paths["bin"], what, places, shard.tokens.dtype.itemsize)


def _documents(shard: Shard) -> Iterator[Fault]:
    path = shard.paths["documents"]
    falls = np.flatnonzero(np.diff(shard.ends, prepend=np.int64(0)) <= 0)
    yield from _at(path, "document ends must rise", falls, _INT64)
    last = int(shard.ends[-1]) if len(shard.ends) else 0
    if last != len(shard.tokens):
        what = f"the last document must end with token {len(shard.tokens)}, was: {last}"
        yield from _at(path, what, np.array([max(0, len(shard.ends) - 1)]), _INT64)
    negative = np.flatnonzero(shard.sizes < 0)
    yield from _at(shard.paths["bytes"], "sizes must be at least 0", negative, _INT64)


def _bitmap(shard: Shard, level: int) -> Iterator[Fault]:
    path, bits, tokens = shard.paths[f"level{level}.bits"], shard.bits[level], len(shard.tokens)
    if tokens % 8 and bits[-1] >> (tokens % 8):
        yield from _at(path, "bits are set beyond the last token", np.array([len(bits) - 1]), 1)
    starts = np.concatenate(([0], shard.ends[:-1]))[: len(shard.ends)]
    starts = starts[(starts >= 0) & (starts < tokens)]  # others are reported elsewhere
    unset = starts[(bits[starts >> 3] >> (starts & 7) & 1) == 0]
    yield from _at(path, "a document must start a segment", unset >> 3, 1)


def _id_lines(path: Path, documents: int) -> Iterator[Fault]:
    at = number = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not _is_id(line):
                what = f"line {number} must be a JSON string"
                yield Fault(path=path, what=what, start=at, stop=at + len(line))
                return
            at += len(line)
    if number != documents:
        what = f"{counted(number, 'line')} for {counted(documents, 'document')}"
        yield Fault(path=path, what=what)


def _is_id(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line), str)
    except (ValueError, RecursionError):
        return False


def _at(path: Path, what: str, places: npt.NDArray[Any], width: int) -> Iterator[Fault]:
    for first in places[:1].tolist():
        more = f", and at {counted(len(places) - 1, 'more place')}" if len(places) > 1 else ""
        yield Fault(path=path, what=what + more, start=first * width, stop=(first + 1) * width)
