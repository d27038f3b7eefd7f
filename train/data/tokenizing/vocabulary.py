"""Where a tokenizer comes from: trained on the corpus, or loaded from the user's files.

`TrainBPE` is a byte-level BPE; by default with the GPT-2 splitting expression, except that every
digit stands alone (numbers of any length are spelled alike) and no space is put before the text.
The same documents give the same vocabulary. `LoadTokenizer` takes any tokenizer whose tokens can
be placed in the text exactly, and refuses others with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from train.data.tokenizing.chunks import steps_of
from train.data.tokenizing.tiktoken_ranks import PATTERNS
from train.data.tokenizing.tokenizer_files import (
    CONFIG,
    find_file,
    open_file,
    prepared_end,
    read_config,
)
from train.data.tokenizing.tokenizers import SAMPLES, Tokenizer
from train.errors import DataError

END = "<|endoftext|>"
NORMALISERS = ("keep", "drop", "refuse")
_KNOWN_ENDS = (END, "</s>", "<|end_of_text|>", "<eos>", "<|im_end|>", "[SEP]")
# Where an expression says how digits are split.
_NUMBERS = "NUMBERS"
_SPLITS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|NUMBERS| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": PATTERNS["cl100k"].replace(r"\p{N}{1,3}", _NUMBERS),
}
_DIGITS = {"single": r"\p{N}", "groups": r"\p{N}{1,3}"}
_BYTES = 256
_PART_CHARACTERS = 100_000


class TokenizerSource(Protocol):
    """What `prepare` asks for a tokenizer."""

    def build(self, texts: Callable[[int | None], Iterable[str]]) -> Tokenizer:
        """Make the tokenizer; `texts(n)` opens about n characters a source to train on."""

    def fingerprint(self) -> dict[str, Any]:
        """What decides which tokenizer is built, known before it is."""


@dataclass(frozen=True, kw_only=True)
class TrainBPE:
    """Train a byte-level BPE on the training split.

    vocab_size: pieces, the 256 bytes and the special tokens included; a small corpus may not have
    pairs enough to reach it.
    min_frequency: how often a pair must occur to be merged.
    sample_characters: how much of each source the training reads; None reads all of it.
    split: the expression that no piece crosses: gpt2 (words with the space before them), or cl100k
    (words with any mark before them, marks with line ends behind them).
    digits: single (each alone), or groups of up to three.
    special_tokens: further ones, behind the end of a document.
    """

    vocab_size: int = 16_384
    min_frequency: int = 2
    sample_characters: int | None = 50_000_000
    split: Literal["gpt2", "cl100k"] = "gpt2"
    digits: Literal["single", "groups"] = "single"
    special_tokens: Sequence[str] = ()

    def __post_init__(self) -> None:
        special = [END, *self.special_tokens]
        if self.vocab_size < _BYTES + len(special):
            raise DataError(
                f"vocab_size must be above {_BYTES + len(special) - 1} (the bytes and the end of a "
                f"document{', special_tokens' if self.special_tokens else ''}), "
                f"was: {self.vocab_size}"
            )
        if self.split not in _SPLITS or self.digits not in _DIGITS:
            raise DataError(
                f"split must be {' or '.join(_SPLITS)} and digits {' or '.join(_DIGITS)}, "
                f"were: {self.split}, {self.digits}"
            )
        if not all(special) or len(set(special)) < len(special):
            raise DataError(
                f"special_tokens must differ from each other and from {END}, and not be empty, "
                f"were: {list(self.special_tokens)}"
            )

    def build(self, texts: Callable[[int | None], Iterable[str]]) -> Tokenizer:
        fast = tokenizers.Tokenizer(models.BPE())
        expression = _SPLITS[self.split].replace(_NUMBERS, _DIGITS[self.digits])
        fast.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(expression), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        fast.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            min_frequency=self.min_frequency,
            special_tokens=[END, *self.special_tokens],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        fast.train_from_iterator(_parts(texts(self.sample_characters)), trainer)
        return Tokenizer(fast=fast, eos=END)

    def fingerprint(self) -> dict[str, Any]:
        told = {**asdict(self), "special_tokens": list(self.special_tokens)}
        return {"tokenizer": "TrainBPE", **told}


@dataclass(frozen=True, kw_only=True)
class LoadTokenizer:
    """Load a tokenizer from a file, or from the folder that holds one (tokenizer_files.py).

    eos: the piece that ends a document; by default that of the prepared data in the folder, what
    tokenizer_config.json names, or a known spelling.
    normaliser: what becomes of one that changes characters: "keep" it (the ids are those that
    models of this tokenizer know; tokens are mapped to the text as it was, but ids no longer spell
    it: bits per byte count the bytes that they do spell), "drop" it and encode the text as it
    stands, or "refuse" such a tokenizer.
    pattern: how tiktoken files split text: gpt2, r50k, p50k, cl100k, o200k, or an expression.
    """

    path: str | Path
    eos: str | None = None
    normaliser: str = "keep"
    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.normaliser not in NORMALISERS:
            raise DataError(f"normaliser must be {', '.join(NORMALISERS)}, was: {self.normaliser}")

    def build(self, texts: Callable[[int | None], Iterable[str]] | None = None) -> Tokenizer:
        file = find_file(Path(self.path))
        fast = open_file(file, pattern=self.pattern, samples=SAMPLES)
        definition = json.loads(fast.to_str())
        changing = _changing(definition["normalizer"])
        if changing and self.normaliser == "refuse":
            raise DataError(
                f"path={self.path}: the tokenizer normalises text ({', '.join(changing)}), so that "
                "its ids do not spell the text. Set normaliser=keep to use it as it is, or "
                "normaliser=drop to encode the text as it stands"
            )
        if changing and self.normaliser == "drop":
            definition["normalizer"] = _unchanging(definition["normalizer"])
            fast = tokenizers.Tokenizer.from_str(json.dumps(definition))
        try:
            return Tokenizer(fast=fast, eos=self.eos or self._end(fast, file))
        except DataError as fault:
            cure = ". Set normaliser=drop to encode the text as it stands" if changing else ""
            raise DataError(f"path={self.path}: {fault}{cure}") from None

    def fingerprint(self) -> dict[str, Any]:
        file = find_file(Path(self.path))
        digest = sha256(file.read_bytes())
        for beside in (CONFIG, *(["merges.txt"] if file.name == "vocab.json" else [])):
            if (file.parent / beside).exists():
                digest.update((file.parent / beside).read_bytes())
        if (prepared := prepared_end(file)) is not None:
            digest.update(str(prepared).encode())
        return {
            "tokenizer": "LoadTokenizer",
            "sha256": digest.hexdigest(),
            "eos": self.eos,
            "normaliser": self.normaliser,
            "pattern": self.pattern,
        }

    def _end(self, fast: tokenizers.Tokenizer, file: Path) -> str:
        prepared = prepared_end(file)
        if prepared is not None and (piece := fast.id_to_token(prepared)) is not None:
            return piece
        named = read_config(file).get("eos_token")
        named = named.get("content") if isinstance(named, dict) else named
        if named:
            return str(named)
        for piece in _KNOWN_ENDS:
            if fast.token_to_id(piece) is not None:
                return piece
        raise DataError("no piece that ends a document is known; set eos=PIECE")


def _parts(texts: Iterable[str]) -> Iterator[str]:
    """Cut long texts before a word: memory stays bounded, and only a pair in 100,000 is lost."""
    for text in texts:
        start = 0
        while (end := text.find(" ", start + _PART_CHARACTERS)) >= 0:
            yield text[start:end]
            start = end
        yield text[start:]


def _changing(normaliser: dict[str, Any] | None) -> list[str]:
    """Names of the normalisers that change characters; SentencePiece's space mark does not."""
    steps = steps_of(normaliser, "normalizers")
    return [step["type"] for step in steps if not _marks_spaces(step)]


def _unchanging(normaliser: dict[str, Any]) -> dict[str, Any] | None:
    steps = [step for step in steps_of(normaliser, "normalizers") if _marks_spaces(step)]
    return {"type": "Sequence", "normalizers": steps} if steps else None


def _marks_spaces(step: dict[str, Any]) -> bool:
    """Whether a normaliser writes one character for each space, or puts one before the text."""
    if step["type"] == "Replace":
        return step["pattern"] == {"String": " "} and len(step["content"]) == 1
    return step["type"] == "Prepend"
