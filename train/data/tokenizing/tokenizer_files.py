"""Files that hold a tokenizer -> a fast tokenizer.

tokenizer.json; SentencePiece models; tiktoken ranks; GPT-2's vocab.json with merges.txt; BERT's
vocab.txt; or a Hugging Face folder with one of these. What tokenizer_config.json adds or overrides
counts, as it does in transformers: added tokens, add_prefix_space, do_lower_case and its kin.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from train.data.tokenizing import sentencepiece_model, tiktoken_ranks
from train.data.tokenizing.chunks import steps_of
from train.errors import DataError

CONFIG = "tokenizer_config.json"
# In a folder, the first of these that is there.
_NAMES = (
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
    "vocab.json",
    "vocab.txt",
)
_ENDINGS = ("*.model", "*.model.v*", "*.tiktoken")
# Key of tokenizer_config.json -> that of BertNormalizer.
_BERT_FLAGS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


def find_file(path: Path) -> Path:
    """The file that defines the tokenizer of a path. Raises DataError if there is none."""
    if not path.exists():
        raise DataError(f"path={path}: there is no such tokenizer file or folder")
    if not path.is_dir():
        return path
    named = [path / name for name in _NAMES if (path / name).exists()]
    other = [file for ending in _ENDINGS for file in sorted(path.glob(ending))]
    if not named and len(other) != 1:
        raise DataError(
            f"path={path}: holds none of {', '.join((*_NAMES, *_ENDINGS))}"
            if not other
            else f"path={path}: holds several tokenizers ({', '.join(f.name for f in other)}); "
            "name one of them"
        )
    return named[0] if named else other[0]


def read_config(file: Path) -> dict[str, Any]:
    """What tokenizer_config.json beside a file says; empty if there is none."""
    path = file.parent / CONFIG
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"{path}: must hold an object, was: {type(found).__name__}")
    return found


def prepared_end(file: Path) -> int | None:
    """The id that ends documents in the prepared data a tokenizer.json belongs to, if it does."""
    try:
        manifest = json.loads((file.parent / "manifest.json").read_text(encoding="utf-8"))
        return int(manifest["tokenizer"]["eos_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def open_file(file: Path, *, pattern: str | None, samples: Sequence[str]) -> tokenizers.Tokenizer:
    """The fast tokenizer of a file, tokenizer_config.json applied. Raises DataError.

    pattern: see `tiktoken_ranks.convert`; samples: texts on which a conversion is verified.
    """
    if ".model" in file.suffixes:
        fast = sentencepiece_model.convert(file, samples=samples)
    elif file.suffix == ".tiktoken":
        fast = tiktoken_ranks.convert(file, pattern=pattern, samples=samples)
    elif file.name == "vocab.json":
        fast = _guarded(file, _gpt2)
    elif file.name == "vocab.txt":
        fast = _guarded(file, _bert)
    else:
        fast = _guarded(file, lambda path: tokenizers.Tokenizer.from_file(str(path)))
    return _configured(fast, read_config(file), file.parent / CONFIG)


def _guarded(file: Path, opening: Callable[[Path], tokenizers.Tokenizer]) -> tokenizers.Tokenizer:
    try:
        return opening(file)
    except DataError:
        raise
    except Exception as fault:  # `tokenizers` raises Exception itself
        raise DataError(f"{file}: not a fast tokenizer: {fault}") from None


def _gpt2(file: Path) -> tokenizers.Tokenizer:
    merges = file.parent / "merges.txt"
    if not merges.exists():
        raise DataError(f"{file}: needs merges.txt beside it")
    fast = tokenizers.Tokenizer(models.BPE.from_file(str(file), str(merges)))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    return fast


def _bert(file: Path) -> tokenizers.Tokenizer:
    fast = tokenizers.Tokenizer(models.WordPiece.from_file(str(file), unk_token="[UNK]"))
    fast.normalizer = normalizers.BertNormalizer()
    fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast.decoder = decoders.WordPiece()
    named = [piece for piece in ("[PAD]", "[CLS]", "[SEP]", "[MASK]") if fast.token_to_id(piece)]
    fast.add_special_tokens(["[UNK]", *named])
    return fast


def _configured(
    fast: tokenizers.Tokenizer, config: dict[str, Any], path: Path
) -> tokenizers.Tokenizer:
    definition = json.loads(fast.to_str())
    for step in steps_of(definition["pre_tokenizer"], "pretokenizers")[:1]:
        if step["type"] == "ByteLevel" and isinstance(config.get("add_prefix_space"), bool):
            step["add_prefix_space"] = config["add_prefix_space"]
    for step in steps_of(definition["normalizer"], "normalizers"):
        if step["type"] == "BertNormalizer":
            step |= {own: config[key] for key, own in _BERT_FLAGS.items() if key in config}
    made = tokenizers.Tokenizer.from_str(json.dumps(definition))
    added = config.get("added_tokens_decoder") or {}
    for index, token in sorted(added.items(), key=lambda item: int(item[0])):
        content = token["content"]
        known = made.token_to_id(content)
        if known is None or all(content != t["content"] for t in definition["added_tokens"]):
            flags = ("lstrip", "rstrip", "single_word", "normalized", "special")
            made.add_tokens([AddedToken(content, **{key: bool(token.get(key)) for key in flags})])
        if made.token_to_id(content) != int(index):
            raise DataError(
                f"{path}: added token {content!r} must have id {index}, "
                f"was: {made.token_to_id(content)} in the tokenizer beside it"
            )
    return made
