"""`bipe prepare`: documents -> segments -> tokens and marks on disk, once.

bipe prepare corpus=text corpus.sources.text.documents.path=FOLDER out=runs/mine
bipe prepare corpus=jsonl corpus.sources.text.documents.path=FILE --dry-run
bipe prepare segmenter@corpus.sources.text.segmenter=auto --limit 100
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segmenters.code.parsed import NO_GRAMMAR, cure
from segmenters.wording import counted
from train.config import Config
from train.data.preparing.merge import left_out_of
from train.data.preparing.prepare import Prepared, describe, prepare
from train.data.preparing.source import Corpus
from train.data.preparing.statistics import sentences
from train.data.reading.repositories import Repositories
from train.disk.manifest import SPLITS
from train.errors import ConfigError

_WARNED = 0.01  # the least share of characters to warn of


def prepare_data(config: Config) -> Prepared | None:
    """Prepare the corpus and print a summary; with dry_run, print what would be done."""
    if not isinstance(config.data, str):
        raise ConfigError(f"data must be one folder to prepare, was: {config.data}")
    corpus, engine = config.build("corpus"), config.build("engine")
    options: dict[str, Any] = {"limit": config.limit, "if_exists": config.if_exists}
    if config.dry_run:
        print(describe(corpus, out=Path(config.data), engine=engine, **options))
        return None
    return _print(prepare(corpus, out=Path(config.data), engine=engine, **options), corpus)


def _print(prepared: Prepared, corpus: Corpus) -> Prepared:
    sources = {name: each["splits"] for name, each in prepared.manifest["sources"].items()}
    lacks = {name: told for name in sources if (told := _lacking(corpus, name, sources[name]))}
    state = "written, and lacks documents" if lacks else "ready"
    print(f"{prepared.folder} is {'already prepared' if prepared.kept else state}:")
    for name, splits in sources.items():
        stated = prepared.manifest["sources"][name]
        tokens, segments = (
            sum(split[key] for split in splits.values()) for key in ("tokens", "segments")
        )
        documents = {each: splits.get(each, {}).get("documents", 0) for each in SPLITS}
        within = prepared.manifest["request"]["sources"][name]["split"].get("within")
        # With `within` each document is in every split.
        total = max(documents.values()) if within else sum(documents.values())
        each = ", ".join(f"{count:,} for {split}" for split, count in documents.items())
        print(
            f"  {name}: {counted(total, 'document')} ({each}), {counted(tokens, 'token')}, "
            f"{tokens / max(1, segments):.1f} tokens per segment"
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
    return prepared


def _lacking(corpus: Corpus, name: str, splits: Mapping[str, Mapping[str, int]]) -> str:
    """Return what to do about splits of a source that have a share and no document; "" if none."""
    split = corpus.sources[name].split or corpus.split
    shares = (1 - split.validation - split.test, split.validation, split.test)
    none = [
        each
        for each, share in zip(SPLITS, shares, strict=True)
        if share > 1e-9 and not splits.get(each, {}).get("documents")
    ]
    if not none:
        return ""
    key = f"corpus.sources.{name}.split" if corpus.sources[name].split else "corpus.split"
    missing = f"no document for {' and '.join(none)}, since"
    if split.within is True:
        return f"{missing} all are too short to be split; add more or longer ones"
    whole = isinstance(corpus.sources[name].documents, Repositories)
    draw = "Draw" if whole else f"Split each of them by {key}.within=true, draw"
    return (
        f"{missing} whole documents are drawn. {draw} more by {key}.validation=0.2 "
        f"{key}.test=0.2 (and add if_exists=overwrite), or add documents"
    )


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
