"""Everything that is wrong with a data set: all of it, not the first.

The top manifest is sealed and holds the checksums of the manifests of the splits, which hold those
of all other files: so any byte that changed is found. Beyond that the manifests must agree with
each other and with the tokenizer, and (`structure`) the shards with the format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from train.data.store import folder as top
from train.data.store.integrity import Fault, file_faults
from train.data.store.shards import MANIFEST, Shard, read_manifest
from train.data.store.structure import structure_faults
from train.disk.files import sha256
from train.errors import DataError

Advance = Callable[[int], object]


def data_faults(
    folder: Path,
    *,
    sources: Sequence[str] | None = None,
    structure: bool = True,
    advance: Advance = lambda _: None,
) -> Iterator[Fault]:
    """What is wrong with a prepared data set.

    sources: look at these only. structure: look into the shards as well, and for files that do
    not belong there. advance: is told of every piece read for a checksum, in bytes.
    """
    manifest: dict[str, Any] | None = None
    try:
        manifest = top.read_top(folder)
    except DataError as fault:
        yield _told(folder / top.MANIFEST, fault)
    else:
        yield from _top_faults(folder, manifest, sources)
        if structure:
            known = {name.partition("/")[0] for name in manifest["files"]}
            yield from _unlisted(folder, known | set(manifest["sources"]) | {top.MANIFEST})
    for split in splits_of(folder, sources=sources):
        if (split / MANIFEST).exists():
            yield from split_faults(split, structure=structure, advance=advance)
        if manifest is not None:
            yield from _disagreements(split, manifest)


def split_faults(
    folder: Path, *, structure: bool = True, advance: Advance = lambda _: None
) -> Iterator[Fault]:
    """What is wrong with one split of one source."""
    path = folder / MANIFEST
    try:
        manifest = read_manifest(folder)
    except DataError as fault:
        yield _told(path, fault)
        return
    yield from file_faults(folder, manifest["files"], advance=advance)
    if structure:
        yield from _unlisted(folder, {*manifest["files"], MANIFEST})
    for key in ("documents", "tokens", "segments"):
        total = sum(shard[key] for shard in manifest["shards"])
        if total != manifest["counts"][key]:
            what = f"counts {manifest['counts'][key]} {key}, its shards {total}"
            yield Fault(path=path, what=what)
    for number, counts in enumerate(manifest["shards"] if structure else ()):
        if not any(True for _ in file_faults(folder, _files_of(manifest, number), hashes=False)):
            shard = Shard(folder=folder, manifest=manifest, number=number)
            yield from structure_faults(shard, counts=counts, vocab_size=manifest["vocab_size"])


def splits_of(folder: Path, *, sources: Sequence[str] | None = None) -> list[Path]:
    """The folders of the splits that are there or that the manifest lists, in their order."""
    there = {path.parent for path in folder.glob(f"*/*/{MANIFEST}")}
    try:
        told = top.read_top(folder)["sources"]
    except DataError:
        told = {}
    there |= {folder / source / split for source in told for split in told[source]["splits"]}
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


def _disagreements(split: Path, manifest: dict[str, Any]) -> Iterator[Fault]:
    """What the manifest of a split says otherwise than the one of the whole."""
    try:
        own = read_manifest(split)
    except DataError:
        return  # told of elsewhere
    source = manifest["sources"].get(split.parent.name, {})
    expected = {
        "tokenizer": manifest["tokenizer"],
        "segmenter": source.get("segmenter"),
        "split": split.name,
        "counts": source.get("splits", {}).get(split.name),
    }
    for key, value in expected.items():
        if own.get(key) != value:
            what = f"its {key} is not that of the data set: {own.get(key)}, not {value}"
            yield Fault(path=split / MANIFEST, what=what)


def _unlisted(folder: Path, known: set[str]) -> Iterator[Fault]:
    for path in sorted(folder.iterdir()):
        if path.name not in known:
            yield Fault(path=path, what="is not of this data set; move it away")


def _files_of(manifest: dict[str, Any], number: int) -> dict[str, Any]:
    begin = f"{manifest['name']}.{number:05d}."
    return {name: file for name, file in manifest["files"].items() if name.startswith(begin)}


def _told(path: Path, fault: DataError) -> Fault:
    return Fault(path=path, what=str(fault).removeprefix(f"{path}: "))
