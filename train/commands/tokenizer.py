"""`bipe tokenizer train`: a tokenizer of a corpus, in files that transformers opens, too.

    bipe tokenizer train corpus=text corpus.sources.text.documents.path=FOLDER out=FOLDER \\
        corpus.tokenizer.vocab_size=32000 corpus.tokenizer.split=cl100k

Writes OUT/tokenizer.json and OUT/tokenizer_config.json, or these beside each other where `out` is
the path of a .json; the same corpus and keys give the same bytes. What the corpus holds out is not
trained on: it tells how many bytes a token stands for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bipe.build import build
from train.config import Config
from train.data.preparing.progress import Meter
from train.data.preparing.source import Source, completed
from train.data.reading.split import Split
from train.data.tokenizing.tokenizer_files import CONFIG
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import END, TrainBPE
from train.disk.files import write_whole
from train.errors import DataError

# How much of each source is held out to measure on, at most.
_MEASURED_CHARACTERS = 2_000_000


def train_tokenizer(study: Config, *, progress: bool = True) -> Path:
    """Train, measure and write a tokenizer; returns the path of its tokenizer.json.

    Raises DataError for a corpus whose tokenizer is loaded, or files that stand there already.
    """
    opened = build(study.corpus, allowed=study.allowed).keywords
    trainer = opened["tokenizer"]
    if not isinstance(trainer, TrainBPE):
        raise DataError(
            f"corpus.tokenizer must be trained, was: {type(trainer).__name__}; set "
            "tokenizer@corpus.tokenizer=train"
        )
    file = _target(Path(study.out), if_exists=study.if_exists)
    sources = completed(
        opened["sources"], split=opened.get("split") or Split(), limit=opened.get("limit")
    )
    for source in sources.values():
        source.documents.check()
    began = time.monotonic()
    with Meter(show=progress) as meter:
        meter.start("tokenizer")
        made = trainer.build(lambda limit: _texts(sources, "train", limit, meter.update))
        meter.finish(f"{made.vocab_size} pieces")
    seconds = time.monotonic() - began
    # Measured before it is written: what stands there is complete.
    told = _measured(made, sources)
    _write(file, made, trainer)
    print(f"{file}: {made.vocab_size:,} pieces, {told}, trained in {seconds:.1f} s")
    return file


def _target(out: Path, *, if_exists: str) -> Path:
    file = out if out.suffix == ".json" else out / "tokenizer.json"
    standing = [path for path in (file, file.with_name(CONFIG)) if path.exists()]
    if standing and if_exists != "overwrite":
        raise DataError(
            f"out={out}: {standing[0]} is there already. Choose another folder, or set "
            "if_exists=overwrite"
        )
    if file.name == CONFIG:
        raise DataError(f"out={out}: {CONFIG} is written beside the tokenizer; take another name")
    return file


def _texts(
    sources: Mapping[str, Source],
    split: str,
    limit: int | None,
    tell: Callable[[str], None] | None = None,
) -> Iterator[str]:
    """About `limit` characters a source of one split; `held out` is all but training."""
    total = 0
    for source in sources.values():
        assert source.split is not None
        read = 0
        for document in source.documents:
            if (source.split.of(document.id) == "train") is not (split == "train"):
                continue
            yield document.text
            read += len(document.text)
            total += len(document.text)
            if tell is not None:
                tell(f"{total / 1e6:.1f}M characters read")
            if limit is not None and read >= limit:
                break
    if tell is not None:
        tell(f"{total / 1e6:.1f}M characters read, merging")


def _measured(tokenizer: Tokenizer, sources: Mapping[str, Source]) -> str:
    for split, name in (("held out", "held-out text"), ("train", "text it was trained on")):
        size = tokens = 0
        for text in _texts(sources, split, _MEASURED_CHARACTERS):
            ((ids, _),) = tokenizer.encode_batch([text])
            size, tokens = size + len(text.encode()), tokens + len(ids)
        if tokens:
            return f"{size / tokens:.3f} bytes a token on {size / 1e6:.2f} MB of {name}"
    return "no text to measure on"


def _write(file: Path, made: Tokenizer, trainer: TrainBPE) -> None:
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "additional_special_tokens": list(trainer.special_tokens),
        "clean_up_tokenization_spaces": False,
        "model_max_length": int(1e30),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file.with_name(CONFIG), json.dumps(config, indent=2) + "\n")
    write_whole(file, made.json)
