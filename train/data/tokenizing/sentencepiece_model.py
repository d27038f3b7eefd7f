"""SentencePiece models (tokenizer.model, spm.model) -> fast tokenizers with exact offsets.

A model file is a protocol buffer; pieces, type of model and normalisation are read here. BPE: a
piece may be merged from any two pieces that spell it, best score first. Unigram: pieces with their
scores. The conversion is checked on a sample against the `sentencepiece` package or, if that is not
installed, for BPE against a slow implementation (`merge`). A model whose ids differ, or that has no
exact fast form, is refused. Known differences: with a compiled normalisation (nmt_nfkc), several
combining marks on one letter; with Unigram, spellings of special tokens ("</s>") inside a text, if
the vocabulary joins every two neighbours in them.

Sources: sentencepiece_model.proto; Kudo and Richardson 2018.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from segmenters.align import SPACE_MARK
from train.data.tokenizing.chunks import EDGE_SPACES
from train.data.tokenizing.tiktoken_ranks import merged, merges, probes
from train.errors import DataError

_UNIGRAM, _BPE = 1, 2
_KINDS = {3: "WORD", 4: "CHAR"}
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
# Of several combining marks, compiled normalisation in `tokenizers` keeps only the first.
_STACKED = re.compile("[\u0300-\u036f]{2,}")
# The slow implementation takes quadratic time: short lines, and not all of them.
_TWIN_LINE, _TWIN_LINES = r".{1,48}", 600


class Piece(NamedTuple):
    text: str
    score: float
    kind: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """The parts of a model file that decide ids. charsmap: compiled normalisation, or empty."""

    pieces: tuple[Piece, ...]
    kind: int
    charsmap: bytes
    dummy_prefix: bool
    remove_extra: bool
    escape: bool
    suffix: bool
    bytes_for_unknown: bool

    def of_kind(self, *kinds: int) -> list[str]:
        return [piece.text for piece in self.pieces if piece.kind in kinds]


def read_model(data: bytes) -> Model:
    """Parse a model file; raise ValueError if it is not one."""
    try:
        fields = [*_fields(data)]
        pieces = tuple(_piece(dict(_fields(value))) for number, value in fields if number == 1)
        whole = dict(reversed(fields))  # the first of repeated fields
        trainer, normaliser = (dict(_fields(whole.get(number, b""))) for number in (2, 3))
    except (
        DecodeError,
        LookupError,
        OverflowError,
        ValueError,
        TypeError,
        AttributeError,
    ) as error:
        raise ValueError(f"not a SentencePiece model: {error}") from None
    if not pieces:
        raise ValueError("not a SentencePiece model: it has no pieces")
    return Model(
        pieces=pieces,
        kind=trainer.get(3, _UNIGRAM),
        charsmap=bytes(normaliser.get(2, b"")),
        dummy_prefix=bool(normaliser.get(3, 1)),
        remove_extra=bool(normaliser.get(4, 1)),
        escape=bool(normaliser.get(5, 1)),
        suffix=bool(trainer.get(24, 0)),
        bytes_for_unknown=bool(trainer.get(35, 0)),
    )


def convert(path: Path, *, samples: Sequence[str]) -> tokenizers.Tokenizer:
    """Return the fast tokenizer of a model file; raise DataError if none is exact."""
    data = path.read_bytes()
    try:
        model = read_model(data)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None
    refused = _refusal(model)
    if refused:
        raise DataError(f"{path}: {refused}, which no fast tokenizer reproduces exactly")
    fast = _fast(model)
    fault = _fault(fast, model, data, samples)
    if fault:
        raise DataError(f"{path}: the converted tokenizer is not exact: {fault}")
    return fast


def merge(model: Model, text: str) -> list[str]:
    """Return the pieces of normalised text by SentencePiece's BPE: slow, a check of conversions."""
    ranks = {p.text: -p.score for p in model.pieces if p.kind in (_NORMAL, _USER, _UNUSED)}
    frozen = dict.fromkeys(sorted(model.of_kind(_USER), key=len, reverse=True))
    symbols = re.findall("|".join([*map(re.escape, frozen), "(?s:.)"]), text)
    return merged(symbols, lambda a, b: None if a in frozen or b in frozen else ranks.get(a + b))


def _refusal(model: Model) -> str | None:
    reasons = {
        f"the model type is {_KINDS.get(model.kind, model.kind)}": model.kind
        not in (_UNIGRAM, _BPE),
        "the model writes spaces as suffixes (treat_whitespace_as_suffix)": model.suffix,
        "the model does not mark spaces (escape_whitespaces is off)": not model.escape,
        "the Unigram model has user-defined symbols": model.kind == _UNIGRAM
        and model.of_kind(_USER),
        "the model has unused pieces": model.of_kind(_UNUSED),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _fast(model: Model) -> tokenizers.Tokenizer:
    unknown = model.of_kind(_UNKNOWN)[0]
    user = sorted(model.of_kind(_USER), key=len, reverse=True)
    if model.kind == _BPE:
        vocabulary = {piece.text: index for index, piece in enumerate(model.pieces)}
        # Pieces of equal score are merged in the order of the pieces.
        order = {
            piece.text: (-piece.score, index)
            for index, piece in enumerate(model.pieces)
            if piece.kind == _NORMAL
        }
        fast = tokenizers.Tokenizer(
            models.BPE(
                vocabulary,
                merges(order, vocabulary),
                unk_token=unknown,
                fuse_unk=True,
                byte_fallback=model.bytes_for_unknown,
                ignore_merges=bool(user),
            )
        )
        if user:
            # ignore_merges takes a pre-token that is a piece whole, so the symbols stay untouched.
            cuts = Regex(_cuts(model, user))
            fast.pre_tokenizer = pre_tokenizers.Split(cuts, behavior="isolated")
    else:
        scored = [(piece.text, piece.score) for piece in model.pieces]
        place = [piece.kind for piece in model.pieces].index(_UNKNOWN)
        fast = tokenizers.Tokenizer(
            models.Unigram(scored, unk_id=place, byte_fallback=model.bytes_for_unknown)
        )
        splitters: list[pre_tokenizers.PreTokenizer] = []
        if not any(SPACE_MARK in piece.text[1:] for piece in model.pieces):
            splitters.append(pre_tokenizers.Metaspace(prepend_scheme="never", split=True))
        if inside := _inside_spellings(model):
            splitters.append(pre_tokenizers.Split(Regex(inside), behavior="merged_with_previous"))
        fast.pre_tokenizer = pre_tokenizers.Sequence(splitters) if splitters else None
    fast.normalizer = _normaliser(model)
    steps = [decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    fast.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * model.dummy_prefix)
    special = model.of_kind(_UNKNOWN, _CONTROL)
    fast.add_special_tokens([AddedToken(p, special=True, normalized=False) for p in special])
    return fast


def _cuts(model: Model, user: Sequence[str]) -> str:
    """Return a pattern of the symbols, and of spellings that are no pieces in a text.

    Text between symbols that spells the unknown piece, a control or a byte ("<0x41>") would be
    taken for that. It is cut behind its first piece, which leaves its pieces what they are.
    """
    symbols = "|".join(map(_escaped, user))
    ends: dict[str, list[str]] = {}
    for text in model.of_kind(_UNKNOWN, _CONTROL, _BYTE):
        first = merge(model, text)[0]
        ends.setdefault(first, []).append(_escaped(text.removeprefix(first)))
    spelled = [
        f"(?<=\\A|{symbols}){_escaped(first)}(?=(?:{'|'.join(rest)})(?:\\z|{symbols}))"
        for first, rest in ends.items()
    ]
    return "|".join([symbols, *spelled])


def _inside_spellings(model: Model) -> str:
    """Return a pattern of what to cut behind, where a text spells a piece that is none in a text.

    The cut is between two characters that no other piece joins, so it changes no other piece.
    """
    normal = model.of_kind(_NORMAL)
    joined = {text[i : i + 2] for text in normal for i in range(len(text) - 1)}
    known = {text for text in normal if len(text) == 1}
    ends: dict[str, list[str]] = {}
    for text in model.of_kind(_UNKNOWN, _CONTROL, _BYTE):
        for place in range(1, len(text)):
            pair = text[place - 1 : place + 1]
            # Unknown neighbours would become one unknown piece.
            if pair not in joined and (model.bytes_for_unknown or known & {*pair}):
                ends.setdefault(text[:place], []).append(_escaped(text[place:]))
                break
    return "|".join(f"{_escaped(first)}(?={'|'.join(rest)})" for first, rest in ends.items())


def _escaped(text: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", text)


def _normaliser(model: Model) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if model.charsmap:
        steps.append(normalizers.Precompiled(model.charsmap))
    if model.remove_extra:
        steps += [
            normalizers.Replace(Regex(EDGE_SPACES), ""),
            normalizers.Replace(Regex(r" +\z"), ""),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    if model.dummy_prefix:
        steps.append(normalizers.Prepend(SPACE_MARK))
    return normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE_MARK)])


def _fault(
    fast: tokenizers.Tokenizer, model: Model, data: bytes, samples: Sequence[str]
) -> str | None:
    """Return a message about the first sample whose ids differ from SentencePiece's, or None."""
    texts = [*samples, *_probes(model)]
    try:
        import sentencepiece
    except ImportError:
        return _twin_fault(fast, model, texts) if model.kind == _BPE else None
    original = sentencepiece.SentencePieceProcessor(model_proto=data)
    fast = tokenizers.Tokenizer.from_str(fast.to_str())
    fast.encode_special_tokens = True
    for text in texts:
        if model.charsmap:
            text = _STACKED.sub("", text)
        ids = fast.encode(text, add_special_tokens=False).ids
        if ids != original.encode(text):
            return f"SentencePiece gives other ids for {text[:40]!r}"
    return None


def _twin_fault(fast: tokenizers.Tokenizer, model: Model, texts: Sequence[str]) -> str | None:
    known = {piece.text for piece in model.pieces}
    normal = map(fast.normalizer.normalize_str, reversed(texts))
    lines = dict.fromkeys(line for text in normal for line in re.findall(_TWIN_LINE, text))
    for line in [*lines][:_TWIN_LINES]:
        if not known.issuperset(line):
            continue
        split = fast.pre_tokenizer
        words = [(line, None)] if split is None else split.pre_tokenize_str(line)
        pieces = [token.value for word, _ in words for token in fast.model.tokenize(word)]
        if pieces != merge(model, line):
            return f"merging by score gives other pieces for {line!r}"
    return None


def _probes(model: Model) -> Iterator[str]:
    yield from probes(text.replace(SPACE_MARK, " ") for text in model.of_kind(_NORMAL))
    for symbol in model.of_kind(_USER)[:50]:
        yield symbol + "a" + symbol + " b" + symbol * 2
    if model.of_kind(_USER):
        yield from (piece.text.replace(SPACE_MARK, " ") for piece in model.pieces[:2000])


def _piece(fields: dict[int, Any]) -> Piece:
    score = struct.unpack("<f", fields[2].to_bytes(4, "little"))[0] if 2 in fields else 0.0
    return Piece(fields[1].decode("utf-8"), score, fields.get(3, _NORMAL))


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of each field of a protocol buffer; numbers are not decoded."""
    message = Empty.FromString(data)
    for field in UnknownFieldSet(message):
        yield field.field_number, field.data
