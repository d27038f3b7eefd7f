"""Where a tokenizer comes from: trained on the corpus, or loaded from the user's folder.

`TrainBPE` is a byte-level BPE with the GPT-2 splitting expression, except that every digit stands
alone (numbers of any length are spelled alike) and no space is put before the text. The same
documents give the same vocabulary. What is loaded must be fast (a tokenizer.json) and must leave
the text as it is: a normaliser that changes characters would make segments and bits per byte
speak of another text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from train.data.documents import DataError
from train.data.tokenizers import Tokenizer

END = "<|endoftext|>"
_KNOWN_ENDS = (END, "</s>", "<|end_of_text|>", "<eos>", "<|im_end|>", "[SEP]")
_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
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

    vocab_size: pieces, the 256 bytes and the end of a document included; a small corpus may not
    have pairs enough to reach it.
    min_frequency: how often a pair must occur to be merged.
    sample_characters: how much of each source the training reads; None reads all of it.
    """

    vocab_size: int = 16_384
    min_frequency: int = 2
    sample_characters: int | None = 50_000_000

    def __post_init__(self) -> None:
        if self.vocab_size <= _BYTES:
            raise DataError(
                f"vocab_size must be above {_BYTES} (the bytes and the end of a document), "
                f"was: {self.vocab_size}"
            )

    def build(self, texts: Callable[[int | None], Iterable[str]]) -> Tokenizer:
        fast = tokenizers.Tokenizer(models.BPE())
        fast.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        fast.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            min_frequency=self.min_frequency,
            special_tokens=[END],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        fast.train_from_iterator(_parts(texts(self.sample_characters)), trainer)
        return Tokenizer(fast=fast, eos=END)

    def fingerprint(self) -> dict[str, Any]:
        return {"tokenizer": "TrainBPE", **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class LoadTokenizer:
    """Load a fast tokenizer from a tokenizer.json or from the folder that holds one.

    eos: the piece that ends a document; by default what tokenizer_config.json names, or a known
    spelling.
    normaliser: "refuse" a tokenizer that changes characters, or "drop" its normaliser and encode
    the text as it stands.
    """

    path: str | Path
    eos: str | None = None
    normaliser: str = "refuse"

    def __post_init__(self) -> None:
        if self.normaliser not in ("refuse", "drop"):
            raise DataError(f"normaliser must be refuse or drop, was: {self.normaliser}")

    def build(self, texts: Callable[[int | None], Iterable[str]] | None = None) -> Tokenizer:
        definition = json.loads(self._fast().to_str())
        refused = _changing(definition["normalizer"])
        if refused and self.normaliser == "refuse":
            raise DataError(
                f"path={self.path}: the tokenizer normalises text ({', '.join(refused)}), so that "
                "its tokens cannot be mapped to the text. Set normaliser=drop to encode the text "
                "as it stands, or take another tokenizer"
            )
        if refused:
            definition["normalizer"] = None
        fast = tokenizers.Tokenizer.from_str(json.dumps(definition))
        return Tokenizer(fast=fast, eos=self.eos or self._end(fast))

    def fingerprint(self) -> dict[str, Any]:
        return {
            "tokenizer": "LoadTokenizer",
            "sha256": sha256(self._file().read_bytes()).hexdigest(),
            "eos": self.eos,
            "normaliser": self.normaliser,
        }

    def _file(self) -> Path:
        path = Path(self.path)
        if not path.exists():
            raise DataError(f"path={self.path}: there is no such tokenizer file or folder")
        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.exists() or file.suffix != ".json":
            raise DataError(
                f"path={self.path}: no tokenizer.json, so the tokenizer is not fast. Save a fast "
                "one: transformers.AutoTokenizer.from_pretrained(PATH, use_fast=True)"
                ".save_pretrained(FOLDER)"
            )
        return file

    def _fast(self) -> tokenizers.Tokenizer:
        file = self._file()
        try:
            return tokenizers.Tokenizer.from_file(str(file))
        except Exception as fault:  # `tokenizers` raises Exception itself
            raise DataError(f"{file}: not a fast tokenizer: {fault}") from None

    def _end(self, fast: tokenizers.Tokenizer) -> str:
        config = self._file().parent / "tokenizer_config.json"
        if config.exists():
            named = json.loads(config.read_text(encoding="utf-8")).get("eos_token")
            named = named.get("content") if isinstance(named, dict) else named
            if named:
                return str(named)
        for piece in _KNOWN_ENDS:
            if fast.token_to_id(piece) is not None:
                return piece
        raise DataError(f"path={self.path}: no piece that ends a document is known; set eos=PIECE")


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
    if normaliser is None:
        return []
    kind = normaliser["type"]
    if kind == "Sequence":
        return [name for part in normaliser["normalizers"] for name in _changing(part)]
    marks_spaces = kind == "Replace" and normaliser["pattern"] == {"String": " "}
    if kind == "Prepend" or (marks_spaces and len(normaliser["content"]) == 1):
        return []
    return [kind]
