"""`bipe tokenizer train`: train a tokenizer on a corpus, in files that transformers can open.

    bipe tokenizer train corpus=text corpus.sources.text.documents.path=FOLDER

Writes OUT/tokenizer.json and OUT/tokenizer_config.json; if `out` ends in .json, it is the path of
the former. The same corpus and keys give the same bytes. The held-out part of the corpus is not
trained on: it serves to measure the bytes per token.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

from train.config import Config
from train.data.preparing.progress import Meter
from train.data.preparing.source import Corpus
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import END, TrainBPE
from train.disk.files import write_whole
from train.disk.manifest import TOKENIZER_CONFIG
from train.errors import DataError

# Of each source, to measure the bytes per token.
_MEASURED_CHARACTERS = 2_000_000


def train_tokenizer(config: Config) -> Path:
    """Train, measure and write a tokenizer; return its tokenizer.json.

    Raises DataError if the corpus loads its tokenizer, or if the files already exist.
    """
    assert config.corpus is not None
    corpus: Corpus = config.corpus.built
    trainer = corpus.tokenizer
    if not isinstance(trainer, TrainBPE):
        raise DataError(
            f"corpus.tokenizer must be one to train, was: {type(trainer).__name__}; set "
            "tokenizer@corpus.tokenizer=train"
        )
    about = _about(trainer)
    file = _target(Path(config.out), about, if_exists=config.if_exists)
    corpus = corpus.completed(limit=config.limit)
    began = time.monotonic()
    with Meter(show=True) as meter:
        meter.start("tokenizer")
        tokenizer = trainer.build(lambda limit: _watched(corpus.texts(limit), meter))
        meter.finish(f"{tokenizer.vocab_size} pieces")
    seconds = time.monotonic() - began
    measured = _measured(tokenizer, corpus)  # first: it may fail, and nothing be written then
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file.with_name(TOKENIZER_CONFIG), about)
    write_whole(file, tokenizer.json)  # last, so that a tokenizer is complete
    print(f"{file}: {tokenizer.vocab_size:,} pieces, {measured}, trained in {seconds:.1f} s")
    return file


def _target(out: Path, about: str, *, if_exists: str) -> Path:
    """Return the file to write; DataError if it, or a file beside it that is not ours, is there.

    about: the text of the file beside it, which a killed run may have left alone.
    """
    file = out if out.suffix == ".json" else out / "tokenizer.json"
    if file.name == TOKENIZER_CONFIG:
        raise DataError(
            f"out={out}: {TOKENIZER_CONFIG} is written next to the tokenizer; choose another name"
        )
    beside = file.with_name(TOKENIZER_CONFIG)
    left = beside.is_file() and not file.exists() and beside.read_bytes() == about.encode()
    for path in (file, beside):
        if path.exists() and if_exists != "overwrite" and not left:
            cure = "Choose another folder, or set if_exists=overwrite"
            raise DataError(f"out={out}: {path} already exists. {cure}")
    return file


def _watched(texts: Iterator[str], meter: Meter) -> Iterator[str]:
    total = 0
    for text in texts:
        yield text
        total += len(text)
        meter.update(f"{total:,} characters read")
    meter.update(f"{total:,} characters read, merging")


def _measured(tokenizer: Tokenizer, corpus: Corpus) -> str:
    for training, name in ((False, "held-out text"), (True, "text it was trained on")):
        size = tokens = 0
        for text in corpus.texts(_MEASURED_CHARACTERS, training=training):
            ((ids, _),) = tokenizer.encode_batch([text])
            size, tokens = size + len(text.encode()), tokens + len(ids)
        if tokens:
            return f"{size / tokens:.3f} bytes per token on {size / 1e6:.2f} MB of {name}"
    return "no text to measure on"


def _about(trainer: TrainBPE) -> str:
    """Return the text of tokenizer_config.json."""
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "additional_special_tokens": list(trainer.special_tokens),
        "clean_up_tokenization_spaces": False,
        "model_max_length": int(1e30),
    }
    return json.dumps(config, indent=2) + "\n"
