"""`bipe generate`: continue a prompt with a trained run.

    bipe generate runs/mine/bipe_rope --prompt 'It was'
    bipe generate runs/mine/bipe_rope@200 --file prompt.txt generate.temperature=0
    echo 'It was' | bipe generate runs/mine/bipe_rope

Tokenizer and segmenter are those of the run's training data; the segmenter marks token by token.
The text is shown as it is generated. Without a terminal the output is only the generated text.
"""

import codecs
import functools
import io
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from bipe.encodings.base import reads_segments
from bipe.generation import Sampling, Written, generate
from segmenters import Segmenter, TokenMarker
from segmenters.wording import counted, visible
from train.config import Config
from train.config.sections import Generate, Scrolls
from train.data.reading.encodings import decode, fault_of
from train.data.rows.named_segmenter import named_segmenter
from train.data.rows.sets import DataSets, read_by
from train.data.rows.source_segmenter import (
    CURE,
    at_levels,
    knows_segmenter,
    own_segmenter,
    source_segmenter,
)
from train.data.store.folder import TOKENIZER
from train.data.store.shards import levels_read
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import LoadTokenizer
from train.errors import ConfigError, DataError, as_config_error
from train.fit.checkpoints.reading import BaseRun, find_base_run
from train.stop import Stopped, kept

_ENDED = {"length": "ended at generate.max_new", "stop": "ended at a stop"}
_DIM, _RESET = "\x1b[2m", "\x1b[0m"


def generate_text(config: Config) -> list[Written]:
    """Write the model's continuation of the prompt on the standard output."""
    logging.getLogger("bipe.attention").setLevel(logging.WARNING)  # the screen is for the text
    options = config.generate
    with as_config_error("generate."):
        sampling = Sampling(
            temperature=float(options.temperature),
            top_k=options.top_k,
            top_p=float(options.top_p),
            repetition_penalty=float(options.repetition_penalty),
        )
    prompt = read_prompt(options)
    trained = find_base_run(options.run, key="generate.run", allowed=config.allowed)
    trained.model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
    sets = None if is_whole(trained, options) else _data_of(trained, options)
    tokenizer = tokenizer_of(trained, sets)
    if sets is not None:
        trained.refuse_other_data(sets, cure="Set generate.data to the folder of its data")
    marker = None
    if reads_segments(trained.model.scheme):
        name = None if options.prompt is not None else options.file
        levels = trained.model.levels
        segmenter = segmenter_of(config, sets, trained, section="generate", text=prompt, name=name)
        marker = marker_of(
            prompt, tokenizer=tokenizer, segmenter=segmenter, name=name, levels=levels
        )
    write = functools.partial(
        generate, max_new=options.max_new, sampling=sampling, marker=marker, seed=config.seed
    )
    return _shown(write, trained, tokenizer, prompt, options)


def _shown(
    write: Callable[..., list[Written]],
    trained: BaseRun,
    tokenizer: Tokenizer,
    prompt: str,
    options: Generate,
) -> list[Written]:
    ((ids, _),) = tokenizer.encode_documents([prompt])
    if not len(ids):
        raise ConfigError("the prompt has no tokens: the tokenizer drops all its characters")
    pieces, begin = tokenizer.pieces(), time.monotonic()
    stream = Stream(rows=options.samples, pieces=pieces, stops=options.stop, show=Screen(prompt))
    try:
        with kept(lambda: f"tokens written: {stream.tokens}"):
            written = write(
                trained.model,
                [ids.tolist()] * options.samples,
                stop_ids=[tokenizer.eos_id],
                stop_strings=options.stop,
                decode=lambda ids: b"".join(pieces[id] for id in ids).decode("utf-8", "replace"),
                on_token=stream.push,
            )
        stream.finish()
    except Stopped:
        stream.finish()
        raise
    seconds = time.monotonic() - begin
    ends = ", ".join(f"{n} {_ENDED[how]}" for how, n in Counter(w.ended for w in written).items())
    print(
        f"{trained.home}: {counted(len(ids), 'token')} read, {stream.tokens} written, "
        f"{stream.tokens / max(seconds, 1e-9):.0f} tokens/s ({ends})",
        file=sys.stderr,
    )
    return written


def is_whole(run: BaseRun, options: Generate | Scrolls) -> bool:
    """Return whether the folder of a model has all that is asked for, so that no data is needed."""
    if getattr(options, "data", None) is not None or not (run.folder / TOKENIZER).is_file():
        return False
    if options.segmenter is not None or not reads_segments(run.model.scheme):
        return True
    return knows_segmenter(run.folder, run.notes, source=options.source)


def tokenizer_of(run: BaseRun, sets: DataSets | None) -> Tokenizer:
    """Return the tokenizer of a run's data, or the one beside its model."""
    begins = sets is None and "bos_id" in (run.notes.get("tokenizer") or {})
    folder = run.folder if sets is None else sets.folder
    return LoadTokenizer(path=folder, bos="document" if begins else "none").build()


def segmenter_of(
    config: Config,
    sets: DataSets | None,
    run: BaseRun,
    *,
    section: Literal["generate", "scrolls"],
    text: str,
    name: str | None = None,
) -> Segmenter:
    """Return the segmenter of the options (NAME:KEY=VALUE,...), of the run's data, or its own.

    text: chooses the source where their segmenters differ; name: of its file.
    """
    options: Generate | Scrolls = getattr(config, section)
    if options.segmenter is not None:
        segmenter = named_segmenter(options.segmenter, option=f"{section}.segmenter")
        levels: tuple[int, ...] = (0,)
        stored = {"levels": len(segmenter.level_names), "level_names": [*segmenter.level_names]}
        try:
            levels = levels_read(stored, **read_by(run.notes), what=f"{section}.segmenter: ")
        except DataError:  # one without that level is followed at its finest
            if run.model.levels > 1:
                raise
        return at_levels(segmenter, levels)
    wish: dict[str, Any] = {"source": options.source, "text": text, "name": name}
    wish |= {"allowed": config.allowed, "section": section}
    if sets is None:
        return own_segmenter(run.folder, run.notes, **wish)
    return source_segmenter(sets, trained_on=list(run.notes.get("sources", {})), **wish)


def marker_of(
    prompt: str, *, tokenizer: Tokenizer, segmenter: Segmenter, name: str | None, levels: int
) -> TokenMarker:
    """Return the marker of the tokens of the prompt and of its continuation.

    name: the file of the prompt, for a segmenter that depends on the document. levels: how many the
    model reads. Raises ConfigError for a segmenter with lookahead, which cannot mark token by
    token.
    """
    chosen = segmenter.choose(text=prompt, name=name)
    skip = tokenizer.spelling.prefix(prompt) if tokenizer.spelling else 0
    try:
        return TokenMarker(segmenter=chosen, pieces=tokenizer.pieces(), skip=skip, levels=levels)
    except ValueError as fault:
        raise ConfigError(
            f"generate.segmenter: {fault}; set generate.segmenter to {CURE}"
        ) from None


def read_prompt(options: Generate) -> str:
    """Return the prompt from its key, a file or the standard input; ConfigError if empty.

    The last line end of a file or of the standard input ends the prompt and is no part of it.
    """
    if options.prompt is not None and options.file is not None:
        raise ConfigError("generate.prompt and generate.file are both set; remove one")
    key = "generate.prompt"
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
            print("bipe: type the prompt, then press Ctrl-D", file=sys.stderr)
        data = sys.stdin.buffer.read()
    decoded = decode(data)
    if decoded.replaced:
        raise ConfigError(f"{key}: not UTF-8{fault_of(io.BytesIO(data))}; convert it first")
    if decoded.zeros:
        raise ConfigError(
            f"{key}: contains {counted(decoded.zeros, 'zero or control byte')}, no text"
        )
    if decoded.encoding:
        print(f"bipe: {key}: read as {decoded.encoding}", file=sys.stderr)
    text = decoded.text
    if options.prompt is None:
        text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise ConfigError(f"{key} is empty: a prompt needs at least one character")
    return text


def _data_of(trained: BaseRun, options: Generate) -> DataSets:
    data = trained.data if options.data is None else options.data
    if data is None:
        raise ConfigError(
            f"{trained.home} does not name its training data; set generate.data=FOLDER"
        )
    try:
        return DataSets(data, **read_by(trained.notes))
    except ValueError as fault:
        raise ConfigError(f"{fault}. Set generate.data=FOLDER to the data of the model") from None


class Screen:
    """The standard output in UTF-8; a terminal also gets the prompt, and no control characters."""

    def __init__(self, prompt: str) -> None:
        self.terminal = sys.stdout.isatty()
        if self.terminal:
            self(prompt, dim=not os.environ.get("NO_COLOR"))

    def __call__(self, text: str, *, dim: bool = False) -> None:
        shown = visible(text) if self.terminal else text
        shown = f"{_DIM}{shown}{_RESET}" if dim else shown
        sys.stdout.buffer.write(shown.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


class Text:
    """The text of one row, from the bytes of its tokens: whole characters, up to a stop string.

    Text is held back while a character is incomplete or a stop string, itself left out, may begin.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held, self._over = "", False

    def push(self, piece: bytes) -> str:
        """Return the text that is certain once `piece` has followed."""
        self._held += self._decoder.decode(piece)
        sizes = (
            size
            for stop in self._stops
            for size in range(1, min(len(stop), len(self._held) + 1))
            if stop.startswith(self._held[-size:])
        )
        return self._release(len(self._held) - max(sizes, default=0))

    def finish(self) -> str:
        """Return the rest; an incomplete character becomes U+FFFD."""
        self._held += self._decoder.decode(b"", final=True)
        return self._release(len(self._held))

    def _release(self, size: int) -> str:
        places = (place for stop in self._stops if (place := self._held.find(stop)) >= 0)
        # A longer stop that is still open behind `size` may begin before one that is complete.
        first = min(places, default=size + 1)
        ready, self._held = self._held[: min(size, first)], self._held[size:]
        ready, self._over = "" if self._over else ready, self._over or first <= size
        return ready


@dataclass(kw_only=True)
class Stream:
    """Shows rows one below the other: the first as it is generated, the others at the end."""

    rows: int
    pieces: Sequence[bytes]
    stops: Sequence[str]
    show: Callable[[str], None]
    tokens: int = 0

    def __post_init__(self) -> None:
        self._texts = [Text(self.stops) for _ in range(self.rows)]
        self._later = [""] * self.rows
        self._title(0)

    def push(self, row: int, token: int) -> None:
        self.tokens += 1
        text = self._texts[row].push(self.pieces[token])
        if row:
            self._later[row] += text
        elif text:
            self.show(text)

    def finish(self) -> None:
        for row, text in enumerate(self._texts):
            if row:
                self._title(row)
            self.show(f"{self._later[row]}{text.finish()}\n")

    def _title(self, row: int) -> None:
        if len(self._texts) > 1:
            below = "\n" * getattr(self.show, "terminal", False)
            self.show(f"{below}--- {row + 1} of {len(self._texts)}\n")
