"""`bipe generate`: write on behind a prompt, with a trained run.

    bipe generate out=runs/demo/bipe_rope generate.prompt='In the beginning'
    bipe generate out=runs/demo/bipe_rope generate.temperature=0 generate.max_new=50 < prompt.txt

The tokenizer is that of the data that the run was trained on, and so is the segmenter, which is
followed token by token (generate_marker.py). Text appears as it is written; where the output is
no terminal, it is what was written and nothing else.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch

from bipe.encodings import Flat
from bipe.generation import Written, generate
from segmenters.show import visible
from train.commands.generate_marker import chosen_segmenter, marker_of
from train.commands.generate_model import Trained, data_of, find_model
from train.commands.generate_stream import Stream
from train.config import Config, Generate
from train.data.rows.sets import DataSets
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import LoadTokenizer
from train.errors import ConfigError

_DIM, _RESET = "\x1b[2m", "\x1b[0m"


class Prompt(NamedTuple):
    """A text to go on with, and the name of the file that it is from."""

    text: str
    name: str | None


def generate_study(study: Config) -> list[Written]:
    """Write as a study asks for, on the standard output."""
    logging.getLogger("bipe.attention").setLevel(logging.WARNING)  # the screen is for the text
    options = study.generate
    prompt = read_prompt(options)
    trained = find_model(study)
    trained.model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
    sets = data_of(trained, options)
    tokenizer = LoadTokenizer(path=sets.folder).build()
    _refuse_other_vocabulary(trained, sets)
    ids = _encoded(prompt, tokenizer)
    marker = None
    if not isinstance(trained.model.scheme, Flat):  # a flat encoding asks for no segments
        segmenter = chosen_segmenter(
            sets,
            trained_on=list(trained.notes.get("sources", {})),
            source=options.source,
            wish=options.segmenter,
            allowed=study.allowed,
        )
        marker = marker_of(prompt.text, tokenizer=tokenizer, segmenter=segmenter, name=prompt.name)
    return _write(study, trained, tokenizer, prompt, ids, marker)


def _write(
    study: Config,
    trained: Trained,
    tokenizer: Tokenizer,
    prompt: Prompt,
    ids: list[int],
    marker: Any,
) -> list[Written]:
    options, pieces = study.generate, tokenizer.pieces()
    show = _Screen(prompt.text)
    begin = time.monotonic()
    stream = Stream(
        rows=options.samples, pieces=pieces, stops=options.stop, show=show, title=show.title
    )
    try:
        written = generate(
            trained.model,
            [ids] * options.samples,
            max_new=options.max_new,
            sampling=options.sampling,
            marker=marker,
            stop_ids=[tokenizer.eos_id],
            stop_strings=options.stop,
            decode=lambda tokens: b"".join(pieces[id] for id in tokens).decode("utf-8", "replace"),
            seed=study.seed,
            on_token=stream.push,
        )
        stream.finish()
    except KeyboardInterrupt:
        stream.finish()
        raise KeyboardInterrupt(f"interrupted after {stream.tokens} tokens") from None
    except BrokenPipeError:  # whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + signal.SIGPIPE) from None
    seconds = time.monotonic() - begin
    ends = ", ".join(f"{how} {count}" for how, count in Counter(w.ended for w in written).items())
    print(
        f"{trained.where}: {len(ids)} tokens read, {stream.tokens} written, "
        f"{stream.tokens / max(seconds, 1e-9):.0f} tokens/s (ended by {ends})",
        file=sys.stderr,
    )
    return written


class _Screen:
    """The standard output in UTF-8; a terminal gets the prompt, too, and no control characters."""

    def __init__(self, prompt: str) -> None:
        self._prompt, self._terminal = prompt, sys.stdout.isatty()
        if self._terminal:
            self(prompt, dim=not os.environ.get("NO_COLOR"))

    def __call__(self, text: str, *, dim: bool = False) -> None:
        shown = visible(text) if self._terminal else text
        shown = f"{_DIM}{shown}{_RESET}" if dim else shown
        sys.stdout.buffer.write(shown.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()

    def title(self, row: int, rows: int) -> str:
        """What stands above one of several samples."""
        return f"{chr(10) * self._terminal}--- {row} of {rows}\n"


def read_prompt(options: Generate) -> Prompt:
    """The prompt from its key, a file or the standard input; ValueError says what is wrong."""
    if options.prompt is not None and options.file is not None:
        raise ConfigError("generate.prompt and generate.file are both set; leave one out")
    key, data, name = "generate.prompt", b"", options.file
    if options.prompt is not None:
        data = options.prompt.encode("utf-8", "surrogateescape")
    elif options.file is not None:
        key, path = f"generate.file={options.file}", Path(options.file)
        if not path.is_file():
            raise ConfigError(f"{key}: there is no such file")
        data = path.read_bytes()
    else:
        key = "the prompt on the standard input"
        if sys.stdin.isatty():
            print("bipe: type the prompt, end it by Ctrl-D", file=sys.stderr)
        data = sys.stdin.buffer.read()
    try:
        text = data.decode()
    except UnicodeDecodeError as fault:
        raise ConfigError(f"{key}: not UTF-8 at byte {fault.start}; convert it first") from None
    if not text:
        raise ConfigError(f"{key} is empty: a model goes on from at least one character")
    return Prompt(text=text, name=name)


def _refuse_other_vocabulary(trained: Trained, sets: DataSets) -> None:
    known, vocabulary = trained.notes.get("tokenizer"), trained.model.config.vocab_size
    if (known is not None and known != sets.tokenizer) or sets.vocab_size > vocabulary:
        raise ConfigError(
            f"{trained.where} was trained with another tokenizer than that of {sets.folder}; "
            "set generate.data to the folder of its data"
        )


def _encoded(prompt: Prompt, tokenizer: Tokenizer) -> list[int]:
    ((ids, _),) = tokenizer.encode_batch([prompt.text])
    if not len(ids):
        raise ConfigError("the prompt has no tokens: the tokenizer drops all of its characters")
    return [int(id) for id in ids]
