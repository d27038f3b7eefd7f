"""Where a tokenizer comes from: trained on the corpus, or loaded from files.

`TrainBPE` trains a byte-level BPE; by default each digit is one token, so that numbers of any
length are spelled alike, and no space is put before the text. `LoadTokenizer` loads any tokenizer
whose tokens can be placed in the text exactly: tokenizer.json, SentencePiece models, tiktoken
ranks, or a folder with one of these, whose tokenizer_config.json counts as in transformers.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

from segmenters.offsets import without_surrogates
from train.data.tokenizing import sentencepiece_model, tiktoken_ranks
from train.data.tokenizing.bounds import bounded, in_one_line
from train.data.tokenizing.chunks import steps_of
from train.data.tokenizing.tiktoken_ranks import END, PATTERNS, byte_level
from train.data.tokenizing.tokenizers import SAMPLES, Tokenizer
from train.disk.files import read_json
from train.disk.manifest import TOKENIZER_CONFIG
from train.errors import DataError

KEY = "corpus.tokenizer."  # what is typed before the options, for messages
_KNOWN_ENDS = (END, "</s>", "<|end_of_text|>", "<eos>", "<|im_end|>", "[SEP]")
_DIGITS = {"single": r"\p{N}", "groups": r"\p{N}{1,3}"}
_SPLITS = {"gpt2": r" ?\p{N}+", "cl100k": r"\p{N}{1,3}"}  # how their patterns split digits
_BYTES = 256
_LARGEST = 10_000_000  # vocab_size: more would fill the memory before a pair is merged
# Yields texts to train on, about so many characters per source.
Texts = Callable[[int | None], Iterable[str]]
_PART_CHARACTERS = 100_000
# In a folder, the first of these that exists is loaded.
_NAMES = (
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
)
_ENDINGS = ("*.model", "*.model.v*", "*.tiktoken")
_FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")


@dataclass(frozen=True, kw_only=True)
class TrainBPE:
    """Train a byte-level BPE on the training split.

    vocab_size: includes the 256 bytes and the special tokens; a small corpus may have too few pairs
    to reach it. min_frequency: of a pair, to be merged. sample_characters: number to read per
    source; None reads all. special_tokens: added after the end-of-document token.
    split: no piece crosses its expression: gpt2 (words with the space before them), or cl100k
    (words with any mark before them, marks with line ends after them).
    digits: single (one token each), or groups of up to three.
    """

    vocab_size: int = 16_384
    min_frequency: int = 2
    sample_characters: int | None = 50_000_000
    split: Literal["gpt2", "cl100k"] = "gpt2"
    digits: Literal["single", "groups"] = "single"
    special_tokens: Sequence[str] = ()

    def __post_init__(self) -> None:
        special = [END, *self.special_tokens]
        least = _BYTES + len(special)
        if not least <= self.vocab_size <= _LARGEST:
            raise DataError(
                f"vocab_size must be above {least - 1} (the bytes, the end of a document and "
                f"special_tokens) and at most {_LARGEST}, was: {self.vocab_size}"
            )
        if not all(special) or len(set(special)) < len(special):
            raise DataError(
                f"special_tokens must not be empty, and differ from each other and from {END}, "
                f"were: {list(self.special_tokens)}"
            )

    def build(self, texts: Texts) -> Tokenizer:
        expression = PATTERNS[self.split].replace(_SPLITS[self.split], _DIGITS[self.digits])
        fast = tokenizers.Tokenizer(models.BPE())
        fast.pre_tokenizer = byte_level(expression)
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
        special = list(self.special_tokens)
        return {"tokenizer": "TrainBPE", **asdict(self), "special_tokens": special}


@dataclass(frozen=True, kw_only=True)
class LoadTokenizer:
    """Load a tokenizer from a file, or from the folder that holds one.

    eos: the piece that ends a document; by default that of prepared data in the folder, the one in
    tokenizer_config.json, or a known spelling.
    normaliser: what to do with one that changes characters: "keep" it (ids are those that models of
    this tokenizer know; tokens are mapped to the original text, but ids no longer spell it, so bits
    per byte count the bytes that ids do spell), "drop" it, or "refuse" such a tokenizer.
    pattern: how tiktoken files split text: gpt2, r50k, p50k, cl100k, o200k, or an expression.
    bos: "document": each document begins with the bos_token of tokenizer_config.json, or with what
    the tokenizer puts before texts; "none": it does not, unless prepared data in the folder do.
    """

    path: str | Path
    eos: str | None = None
    normaliser: Literal["keep", "drop", "refuse"] = "keep"
    pattern: str | None = None
    bos: Literal["none", "document"] = "none"

    def build(self, texts: Texts | None = None) -> Tokenizer:
        file = _find(Path(self.path))
        fast = _opened(file, pattern=self.pattern)
        definition = json.loads(fast.to_str())
        steps = steps_of(definition["normalizer"], "normalizers")
        marking = [step for step in steps if _marks_spaces(step)]
        changing = [step["type"] for step in steps if step not in marking]
        if changing and self.normaliser == "refuse":
            raise DataError(
                f"{KEY}path={self.path}: the tokenizer normalises text ({', '.join(changing)}), so "
                f"its ids do not decode to the text. Set {KEY}normaliser=keep to use it anyway, or "
                f"{KEY}normaliser=drop to remove the normaliser"
            )
        if changing and self.normaliser == "drop":
            kept = {"type": "Sequence", "normalizers": marking}
            definition["normalizer"] = kept if marking else None
            fast = tokenizers.Tokenizer.from_str(json.dumps(definition))
        try:
            with in_one_line():
                eos, bos = self.eos or self._end(fast, file), self._begin(fast, file)
            return Tokenizer(fast=fast, eos=eos, bos=bos)
        except DataError as fault:
            drops = changing and self.normaliser == "keep" and "aligned" in str(fault)
            cure = f". Set {KEY}normaliser=drop to encode the text as it is" if drops else ""
            raise DataError(f"{KEY}path={self.path}: {fault}{cure}") from None

    def fingerprint(self) -> dict[str, Any]:
        file = _find(Path(self.path))
        files = [file, *filter(Path.exists, [file.parent / TOKENIZER_CONFIG])]
        digest = hashlib.sha256(b"".join(map(Path.read_bytes, files)))
        digest.update(" ".join(map(str, _prepared(file).values())).encode())
        options = {key: value for key, value in asdict(self).items() if key != "path"}
        if self.bos == "none":
            del options["bos"]
        return {"tokenizer": "LoadTokenizer", "sha256": digest.hexdigest(), **options}

    def _begin(self, fast: tokenizers.Tokenizer, file: Path) -> str | None:
        if (prepared := _prepared(file).get("bos_id")) is not None:
            return fast.id_to_token(prepared)
        if self.bos == "none":
            return None
        fast.no_padding()  # it may be on the left
        encoding = fast.encode("x")
        put_before = encoding.tokens[0] if encoding.special_tokens_mask[:1] == [1] else None
        if not (piece := _token_of(_config(file), "bos_token") or put_before):
            raise DataError(
                "the tokenizer has no beginning-of-document token; name it as bos_token in "
                f"{TOKENIZER_CONFIG}, or set {KEY}bos=none"
            )
        return str(piece)

    def _end(self, fast: tokenizers.Tokenizer, file: Path) -> str:
        prepared = _prepared(file).get("eos_id")
        chosen = None if prepared is None else fast.id_to_token(prepared)
        spellings = (piece for piece in _KNOWN_ENDS if fast.token_to_id(piece) is not None)
        piece = chosen or _token_of(_config(file), "eos_token") or next(spellings, None)
        if not piece:
            raise DataError(f"the tokenizer has no end-of-document token; set {KEY}eos=PIECE")
        return str(piece)


@runtime_checkable
class TokenizerSource(Protocol):
    """What a corpus takes its tokenizer from."""

    def build(self, texts: Texts) -> Tokenizer: ...
    def fingerprint(self) -> dict[str, Any]: ...


def _parts(texts: Iterable[str]) -> Iterator[str]:
    """Cut long texts to bound memory; one pair per 100,000 characters is lost.

    The cut is before a word, in text without spaces anywhere.
    """
    for text in texts:
        start = 0
        while start + _PART_CHARACTERS < len(text):
            least = start + _PART_CHARACTERS
            word = text.find(" ", least, least + _PART_CHARACTERS)
            end = word if word >= 0 else least + _PART_CHARACTERS
            yield text[start:end]
            start = end
        yield text[start:]


def _marks_spaces(step: dict[str, Any]) -> bool:
    replaces = step.get("pattern") == {"String": " "} and len(step["content"]) == 1
    return replaces or step["type"] == "Prepend"


def _find(path: Path) -> Path:
    if not path.exists():
        raise DataError(f"{KEY}path={path}: there is no such tokenizer file or folder; set it")
    if not path.is_dir():
        return path
    usual = [path / name for name in _NAMES if (path / name).exists()][:1]
    files = usual or [file for ending in _ENDINGS for file in sorted(path.glob(ending))]
    if not files:
        raise DataError(
            f"{KEY}path={path}: contains none of {', '.join((*_NAMES, *_ENDINGS))}; save a "
            "slow tokenizer as tokenizer.json by "
            "AutoTokenizer.from_pretrained(...).save_pretrained(...)"
        )
    if len(files) > 1:
        several = ", ".join(file.name for file in files)
        raise DataError(
            f"{KEY}path={path}: contains several tokenizers ({several}); name one of them"
        )
    return files[0]


def _config(file: Path) -> dict[str, Any]:
    path = file.parent / TOKENIZER_CONFIG
    if not path.exists():
        return {}
    if (config := read_json(path)) is None:
        raise DataError(f"{path}: must be a JSON object")
    if without_surrogates(json.dumps(config, ensure_ascii=False))[1]:
        raise DataError(f"{path}: must not hold half of a character (\\ud800); copy it anew")
    return config


def _token_of(config: dict[str, Any], key: str) -> Any:
    """Return a token that tokenizer_config.json names: a text, or an object with its content."""
    token = config.get(key)
    return token.get("content") if isinstance(token, dict) else token


def _prepared(file: Path) -> dict[str, int]:
    """Return the ids that begin and end the documents of prepared data in the folder, if any."""
    tokenizer = (read_json(file.parent / "manifest.json") or {}).get("tokenizer")
    ids = tokenizer if isinstance(tokenizer, dict) else {}
    return {key: ids[key] for key in ("bos_id", "eos_id") if isinstance(ids.get(key), int)}


def _opened(file: Path, *, pattern: str | None) -> tokenizers.Tokenizer:
    """Open a file of any kind, with the added tokens of tokenizer_config.json; DataError."""
    try:
        if ".model" in file.suffixes:
            fast = sentencepiece_model.convert(file, samples=SAMPLES)
        elif file.suffix == ".tiktoken":
            fast = tiktoken_ranks.convert(file, pattern=pattern, samples=SAMPLES)
        else:
            fast = tokenizers.Tokenizer.from_file(str(file))
            bounded(fast)
    except DataError as fault:
        raise DataError(f"{file}: {str(fault).removeprefix(f'{file}: ')}") from None
    except Exception as fault:  # `tokenizers` raises Exception itself
        raise DataError(f"{file}: not a fast tokenizer: {fault}") from None
    return _configured(fast, file)


def _configured(fast: tokenizers.Tokenizer, file: Path) -> tokenizers.Tokenizer:
    config = _config(file)
    definition = json.loads(fast.to_str())
    for step in steps_of(definition["pre_tokenizer"], "pretokenizers")[:1]:
        if step["type"] == "ByteLevel" and isinstance(config.get("add_prefix_space"), bool):
            step["add_prefix_space"] = config["add_prefix_space"]
    fast = tokenizers.Tokenizer.from_str(json.dumps(definition))
    added = {token["content"] for token in definition["added_tokens"]}
    listed = config.get("added_tokens_decoder") or {}
    try:
        rows = sorted((int(id), str(token["content"]), token) for id, token in listed.items())
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DataError(
            f"{file.parent / TOKENIZER_CONFIG}: added_tokens_decoder must hold tokens with their "
            f"content by their ids, was: {str(listed)[:80]}; remove it, or copy the file anew"
        ) from None
    for index, content, token in rows:
        if content not in added or fast.token_to_id(content) is None:
            fast.add_tokens([AddedToken(content, **{key: bool(token.get(key)) for key in _FLAGS})])
        if fast.token_to_id(content) != index:
            raise DataError(
                f"{file.parent / TOKENIZER_CONFIG}: added token {content!r} must have id {index}, "
                f"was: {fast.token_to_id(content)} in the tokenizer next to it"
            )
    return fast
