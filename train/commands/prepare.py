"""`bipe prepare`: documents -> segments -> tokens and marks on disk, once.

bipe prepare corpus=text corpus.sources.text.documents.path=FOLDER out=runs/mine
bipe prepare corpus=jsonl corpus.sources.text.documents.path=FILE --dry-run
bipe prepare segmenter@corpus.sources.text.segmenter=auto --limit 100
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from segmenters.code.advice import NO_GRAMMAR, cure
from segmenters.wording import counted
from train.config import Config
from train.data.preparing.description import describe
from train.data.preparing.flaws import sentences
from train.data.preparing.merge import left_out_of
from train.data.preparing.prepare import Prepared, prepare
from train.data.preparing.source import Corpus
from train.data.reading.documents import Document, Reader
from train.data.reading.repositories import Repositories
from train.data.reading.split import Split
from train.disk.manifest import SPLITS
from train.errors import ConfigError

_WARNED = 0.01  # the least share of characters to warn of
_TRIED = 500  # documents that a cure is tried on


def prepare_data(config: Config) -> Prepared | None:
    """Prepare the corpus and print a summary; with dry_run, print what would be done."""
    if not isinstance(config.data, str):
        raise ConfigError(f"data must be one folder to prepare, was: {config.data}")
    assert config.corpus is not None
    corpus, engine = config.corpus.built, config.engine.built
    options: dict[str, Any] = {"limit": config.limit, "if_exists": config.if_exists}
    if config.dry_run:
        print(describe(corpus, out=Path(config.data), engine=engine, **options))
        return None
    return _print(prepare(corpus, out=Path(config.data), engine=engine, **options), corpus)


def _print(prepared: Prepared, corpus: Corpus) -> Prepared:
    sources = {name: source["splits"] for name, source in prepared.manifest["sources"].items()}
    lacks = {name: told for name in sources if (told := _lacking(corpus, name, sources[name]))}
    state = "written, and lacks documents" if lacks else "ready"
    print(f"{prepared.folder} is {'already prepared' if prepared.kept else state}:")
    for name, splits in sources.items():
        stated = prepared.manifest["sources"][name]
        tokens, segments = (
            sum(split[key] for split in splits.values()) for key in ("tokens", "segments")
        )
        documents = _documents(splits)
        within = prepared.manifest["request"]["sources"][name]["split"].get("within")
        # With `within` each document is in every split.
        total = max(documents.values()) if within else sum(documents.values())
        counts = ", ".join(f"{count:,} for {split}" for split, count in documents.items())
        print(
            f"  {name}: {counted(total, 'document')} ({counts}), {counted(tokens, 'token')}, "
            f"{tokens / max(1, segments):,.1f} tokens per segment"
        )
        if split := stated.get("split"):
            print(f"    {split}")
        rules = left_out_of(stated).items()
        if told := ", ".join(f"{number:,} {rule}" for rule, number in rules if number):
            print(f"    left out: {told}")
        reader = corpus.sources[name].documents.keyed(f"corpus.sources.{name}.documents.")
        for told, warning in sentences(stated.get("flaws", {}), reader):
            if warning:
                print(f"bipe: warning: {name}: {told}", file=sys.stderr)
            else:
                print(f"    {told}")
        _print_done(name, stated.get("done", {}))
    for name, told in lacks.items():
        print(f"bipe: warning: {name}: {told}", file=sys.stderr)
    untested = [name for name in sources if not _documents(sources[name])["validation"]]
    if untested:
        print(
            f"bipe: warning: {', '.join(untested)}: no document for validation; to train without, "
            "set rows.validation_rows=0",
            file=sys.stderr,
        )
    return prepared


def _documents(splits: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {split: splits.get(split, {}).get("documents", 0) for split in SPLITS}


def _lacking(corpus: Corpus, name: str, splits: Mapping[str, Mapping[str, int]]) -> str:
    """Return what to do about splits of a source that have a share and no document; "" if none."""
    source = corpus.sources[name]
    split = source.split or corpus.split
    shares = (1 - split.validation - split.test, split.validation, split.test)
    documents = _documents(splits)
    none = [name for name, share in zip(SPLITS, shares, strict=True)
            if share > 1e-9 and not documents[name]]  # fmt: skip
    if not none:
        return ""
    key = f"corpus.sources.{name}.split" if source.split else "corpus.split"
    missing = f"no document for {' and '.join(none)}, since"
    if split.within is True:
        return f"{missing} all are too short to be split; add more or longer ones"
    cures = [*_cures(split, source.documents, key), "add more or longer documents"]
    listed = " or ".join(filter(None, (", ".join(cures[:-1]), cures[-1])))
    return (
        f"{missing} whole documents are drawn. {listed[0].upper()}{listed[1:]} "
        "(with if_exists=overwrite)"
    )


def _cures(split: Split, reader: Reader, key: str) -> Iterator[str]:
    """Yield what gives every split a document, of what helps with the documents that there are."""
    read = (
        document
        for document in reader.read()
        if isinstance(document, Document) and document.text.strip()
    )
    documents = [*islice(read, _TRIED)]
    wanted = {name for name in SPLITS[1:] if getattr(split, name)} | {SPLITS[0]}
    inside = replace(split, within=True, ids={})
    pieces = (piece for document in documents for piece in inside.pieces(document))
    if not isinstance(reader, Repositories) and wanted <= {inside.of(piece.id) for piece in pieces}:
        yield f"split each of them by {key}.within=true"
    for share in (0.2, 0.4):
        drawn = replace(split, validation=share, test=share, within=False)
        if wanted <= {drawn.of(document.id) for document in documents}:
            yield f"draw more by {key}.validation={share} {key}.test={share}"
            return


def _print_done(name: str, done: Mapping[str, Mapping[str, int]]) -> None:
    """Print what cut a source, if several rules did, and warn of physical lines for logical."""
    total = sum(counts["characters"] for counts in done.values())
    for rule, counts in done.items():
        size, help = counts["characters"] / total, cure(rule)
        share = f"{size:.1%} of characters, {counted(counts['documents'], 'document')}"
        if help is not None or len(done) > 1:
            print(f"    {share}: {rule}")
        if help is not None and (size >= _WARNED or rule.startswith(NO_GRAMMAR)):
            print(f"bipe: warning: {name}: {share}: {rule}; {help}", file=sys.stderr)
