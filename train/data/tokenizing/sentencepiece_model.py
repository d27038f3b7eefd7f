"""SentencePiece models (tokenizer.model, spm.model) -> fast tokenizers with exact offsets.

BPE: a piece may be merged from any two pieces that spell it, best score first. Unigram: pieces with
their scores. The conversion is checked on a sample against `sentencepiece` itself, which also reads
the file. A model whose ids differ, or that has no exact fast form, is refused. Known differences:
with a compiled normalisation (nmt_nfkc), several combining marks on one letter; with Unigram,
spellings of special tokens ("</s>") inside a text, if the vocabulary joins every two neighbours in
them.

Sources: sentencepiece_model.proto; Kudo and Richardson 2018.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from segmenters.align import SPACE_MARK
from train.data.tokenizing.chunks import EDGE_SPACES
from train.data.tokenizing.tiktoken_ranks import merges, probes
from train.errors import DataError, require_package

# ModelType and Type of sentencepiece_model.proto.
_UNIGRAM, _BPE, _WORD, _CHAR = 1, 2, 3, 4
_KINDS = {_WORD: "WORD", _CHAR: "CHAR"}
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
# Of several combining marks, compiled normalisation in `tokenizers` keeps only the first.
_STACKED = re.compile("[\u0300-\u036f]{2,}")


def convert(path: Path, *, samples: Sequence[str]) -> tokenizers.Tokenizer:
    """Return the fast tokenizer of a model file; raise DataError if none is exact."""
    require_package("sentencepiece", extra="sentencepiece", needed_by=str(path))
    import sentencepiece
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    try:
        model: Any = sentencepiece_model_pb2.ModelProto.FromString(  # type: ignore[attr-defined]
            path.read_bytes()
        )
        original = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    except (DecodeError, RuntimeError) as error:
        raise DataError(f"{path}: not a SentencePiece model: {error}") from None
    if not model.pieces:
        raise DataError(f"{path}: not a SentencePiece model: it has no pieces")
    if refused := _refusal(model):
        raise DataError(f"{path}: {refused}, which no fast tokenizer reproduces exactly")
    fast = _fast(model)
    if fault := _fault(fast, model, original, samples):
        raise DataError(f"{path}: the converted tokenizer is not exact: {fault}")
    return fast


def _of_kind(model: Any, *kinds: int) -> list[str]:
    return [piece.piece for piece in model.pieces if piece.type in kinds]


def _refusal(model: Any) -> str | None:
    trainer, kind = model.trainer_spec, model.trainer_spec.model_type
    if kind not in (_UNIGRAM, _BPE):
        return f"the model type is {_KINDS.get(kind, kind)}"
    if trainer.treat_whitespace_as_suffix:
        return "the model writes spaces as suffixes (treat_whitespace_as_suffix)"
    if not model.normalizer_spec.escape_whitespaces:
        return "the model does not mark spaces (escape_whitespaces is off)"
    if kind == _UNIGRAM and _of_kind(model, _USER):
        return "the Unigram model has user-defined symbols"
    return "the model has unused pieces" if _of_kind(model, _UNUSED) else None


def _fast(model: Any) -> tokenizers.Tokenizer:
    fast = (_bpe if model.trainer_spec.model_type == _BPE else _unigram)(model)
    fast.normalizer = _normaliser(model.normalizer_spec)
    steps = [decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    strip = [decoders.Strip(" ", 1, 0)] * model.normalizer_spec.add_dummy_prefix
    fast.decoder = decoders.Sequence(steps + strip)
    special = _of_kind(model, _UNKNOWN, _CONTROL)
    fast.add_special_tokens([AddedToken(p, special=True, normalized=False) for p in special])
    return fast


def _bpe(model: Any) -> tokenizers.Tokenizer:
    user = sorted(_of_kind(model, _USER), key=len, reverse=True)
    vocabulary = {piece.piece: index for index, piece in enumerate(model.pieces)}
    # Pieces of equal score are merged in the order of the pieces.
    order = {
        piece.piece: (-piece.score, index)
        for index, piece in enumerate(model.pieces)
        if piece.type == _NORMAL
    }
    fast = tokenizers.Tokenizer(
        models.BPE(
            vocabulary,
            merges(order, vocabulary),
            unk_token=_of_kind(model, _UNKNOWN)[0],
            fuse_unk=True,
            byte_fallback=model.trainer_spec.byte_fallback,
            ignore_merges=bool(user),
        )
    )
    if user:
        # ignore_merges takes a pre-token that is a piece whole, so the symbols stay untouched.
        cuts = Regex(_cuts(model, user))
        fast.pre_tokenizer = pre_tokenizers.Split(cuts, behavior="isolated")
    return fast


def _unigram(model: Any) -> tokenizers.Tokenizer:
    fallback = model.trainer_spec.byte_fallback
    scored = [(piece.piece, piece.score) for piece in model.pieces]
    place = [piece.type for piece in model.pieces].index(_UNKNOWN)
    fast = tokenizers.Tokenizer(models.Unigram(scored, unk_id=place, byte_fallback=fallback))
    splitters: list[pre_tokenizers.PreTokenizer] = []
    if not any(SPACE_MARK in text[1:] for text, _ in scored):
        splitters.append(pre_tokenizers.Metaspace(prepend_scheme="never", split=True))
    if inside := _inside_spellings(model, fallback=fallback):
        splitters.append(pre_tokenizers.Split(Regex(inside), behavior="merged_with_previous"))
    fast.pre_tokenizer = pre_tokenizers.Sequence(splitters) if splitters else None
    return fast


def _cuts(model: Any, user: Sequence[str]) -> str:
    """Return a pattern of the symbols, and of spellings that are no pieces in a text."""
    # Text between symbols that spells the unknown piece, a control or a byte ("<0x41>") would be
    # taken for that. It is cut behind its first piece, which leaves its pieces what they are.
    symbols = "|".join(map(_escaped, user))
    first_of = _first_pieces(model)
    ends: dict[str, list[str]] = {}
    for text in _of_kind(model, _UNKNOWN, _CONTROL, _BYTE):
        first = first_of(text)
        ends.setdefault(first, []).append(_escaped(text.removeprefix(first)))
    spelled = [
        f"(?<=\\A|{symbols}){_escaped(first)}(?=(?:{'|'.join(rest)})(?:\\z|{symbols}))"
        for first, rest in ends.items()
    ]
    return "|".join([symbols, *spelled])


def _first_pieces(model: Any) -> Callable[[str], str]:
    """Return a function that gives the first piece of a text, encoded as it is."""
    import sentencepiece

    plain = type(model)()
    plain.CopyFrom(model)
    plain.normalizer_spec.Clear()
    plain.normalizer_spec.add_dummy_prefix = False
    plain.normalizer_spec.remove_extra_whitespaces = False
    processor = sentencepiece.SentencePieceProcessor(model_proto=plain.SerializeToString())

    def first(text: str) -> str:
        ends = [end for _, end in processor.encode(text, out_type="offset_mapping")["offsets"]]
        return text[: next(filter(None, ends))]  # only the last byte of a character has one

    return first


def _inside_spellings(model: Any, *, fallback: bool) -> str:
    """Return a pattern of what to cut behind, where a text spells what is no piece in it."""
    # The cut is between two characters that no other piece joins, so it changes no other piece.
    normal = _of_kind(model, _NORMAL)
    joined = {text[i : i + 2] for text in normal for i in range(len(text) - 1)}
    known = {text for text in normal if len(text) == 1}
    ends: dict[str, list[str]] = {}
    for text in _of_kind(model, _UNKNOWN, _CONTROL, _BYTE):
        for place in range(1, len(text)):
            pair = text[place - 1 : place + 1]
            # Unknown neighbours would become one unknown piece.
            if pair not in joined and (fallback or known & {*pair}):
                ends.setdefault(text[:place], []).append(_escaped(text[place:]))
                break
    return "|".join(f"{_escaped(first)}(?={'|'.join(rest)})" for first, rest in ends.items())


def _escaped(text: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", text)


def _normaliser(asked: Any) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if asked.precompiled_charsmap:
        steps.append(normalizers.Precompiled(asked.precompiled_charsmap))
    if asked.remove_extra_whitespaces:
        steps += [
            normalizers.Replace(Regex(EDGE_SPACES), ""),
            normalizers.Replace(Regex(r" +\z"), ""),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    if asked.add_dummy_prefix:
        steps.append(normalizers.Prepend(SPACE_MARK))
    return normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE_MARK)])


def _fault(
    fast: tokenizers.Tokenizer, model: Any, original: Any, samples: Sequence[str]
) -> str | None:
    fast = tokenizers.Tokenizer.from_str(fast.to_str())
    fast.encode_special_tokens = True
    for text in [*samples, *_probes(model)]:
        if model.normalizer_spec.precompiled_charsmap:
            text = _STACKED.sub("", text)
        ids = fast.encode(text, add_special_tokens=False).ids
        if ids != original.encode(text):
            return f"SentencePiece gives other ids for {text[:40]!r}"
    return None


def _probes(model: Any) -> Iterator[str]:
    yield from probes(text.replace(SPACE_MARK, " ") for text in _of_kind(model, _NORMAL))
    user = _of_kind(model, _USER)
    for symbol in user[:50]:  # enough to show a fault of symbols, and soon encoded
        yield symbol + "a" + symbol + " b" + symbol * 2
    if user:
        yield from (piece.piece.replace(SPACE_MARK, " ") for piece in model.pieces[:2000])
