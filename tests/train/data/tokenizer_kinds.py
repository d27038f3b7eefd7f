"""Small tokenizers of every kind, trained on the spot, and a slow walk that places their tokens."""

import json
import re
import unicodedata
from functools import cache

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from segmenters.align import byte_alphabet
from train.data.tokenizing.tiktoken_ranks import PATTERNS, byte_level

MARK = "\u2581"
FRAGMENTS = [
    *("a", "b", "The", "x", "don't", "'s", "  ", " ", "\n", "\n\n", "\r\n", "\t", ".", "(", "/"),
    '"',
    *("1", "23", "\u00e9", "e\u0301", "\u00df", "\ufb01", "\u4e2d", "\u304c", "\ud55c", "\u0130"),
    *("\N{GRINNING FACE}", "\N{FAMILY}", "\u00a0", "\u3000", "\u2460", "\u0915\u094d", "Zz", "=="),
    *("The cat", " the", " a b", "a\nb", "x (y)", '"', "\u4e2d\u3002"),
]
CORPUS = [
    *(" ".join(FRAGMENTS), "".join(FRAGMENTS), "\n".join(FRAGMENTS)),
    *["The cat the bat (a) x.\n  The end\n\n\u4e2d\u4e2d\u304c \u00e9\u00e9 don't == 123 Zz\n"] * 9,
]
ALPHABET = sorted(set("".join(CORPUS)) | {MARK})
# Every character in the middle of a word, so that WordPiece knows it there.
WORD = [c for c in ALPHABET if not c.isspace() and (c.isalnum() or not c.isascii())]
CORPUS.append("x" + "x".join(c for c in WORD if unicodedata.category(c)[0] != "P"))
SPECIAL = ["</s>", "<unk>"]


def _trained(model, normalizer=None, pre_tokenizer=None, *, trainer=None, extra=(), **options):
    fast = tokenizers.Tokenizer(model)
    if normalizer is not None:
        fast.normalizer = normalizer
    if pre_tokenizer is not None:
        fast.pre_tokenizer = pre_tokenizer
    fast.train_from_iterator(
        CORPUS,
        (trainer or trainers.BpeTrainer)(
            vocab_size=options.pop("vocab_size", 420),
            special_tokens=[*SPECIAL, *extra],
            show_progress=False,
            **options,
        ),
    )
    return fast


def _byte_level(pre_tokenizer=None, normalizer=None):
    pre = pre_tokenizer or pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    fast = _trained(models.BPE(), normalizer, pre, initial_alphabet=alphabet)
    fast.decoder = decoders.ByteLevel()
    return fast


def _after(first, *, prefix=False):
    return pre_tokenizers.Sequence([first, pre_tokenizers.ByteLevel(add_prefix_space=prefix)])


def _trimmed():
    fast = _byte_level()
    fast.post_processor = processors.ByteLevel(trim_offsets=True)
    return fast


def _sentencepiece_like(pre_tokenizer=None):
    """BPE over marked spaces whose unknown characters fall back to bytes, as LLaMA's."""
    words = pre_tokenizers.Metaspace(prepend_scheme="never", split=True)
    fast = _trained(
        models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True),
        pre_tokenizer=pre_tokenizers.Sequence([words, pre_tokenizers.Split("\n", "isolated")]),
        extra=[f"<0x{byte:02X}>" for byte in range(256)],
        vocab_size=420,
        initial_alphabet=[],
        limit_alphabet=30,
    )
    definition = json.loads(fast.to_str())
    definition["added_tokens"] = [
        token for token in definition["added_tokens"] if token["content"] in SPECIAL
    ]
    made = tokenizers.Tokenizer.from_str(json.dumps(definition))
    made.pre_tokenizer = pre_tokenizer
    if pre_tokenizer is None:
        marking = [normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)]
        made.normalizer = normalizers.Sequence(marking)
    steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence(steps)
    return made


def _metaspace(scheme, *, split=True, model="bpe"):
    pre = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    if model == "unigram":
        return _trained(
            models.Unigram(),
            pre_tokenizer=pre,
            trainer=trainers.UnigramTrainer,
            vocab_size=140,
            initial_alphabet=ALPHABET,
            unk_token="<unk>",
        )
    if model == "fallback":
        return _sentencepiece_like(pre_tokenizer=pre)
    return _trained(models.BPE(unk_token="<unk>"), pre_tokenizer=pre, initial_alphabet=ALPHABET)


def _word_piece(normalizer):
    return _trained(
        models.WordPiece(unk_token="<unk>"),
        normalizer,
        pre_tokenizers.BertPreTokenizer(),
        trainer=trainers.WordPieceTrainer,
        initial_alphabet=ALPHABET,
    )


def _with_added(fast):
    fast.add_tokens(
        [
            tokenizers.AddedToken("<tag>"),
            tokenizers.AddedToken("catfish"),
            tokenizers.AddedToken("    "),
        ]
    )
    return fast


CHARACTERS = {
    "nfc": normalizers.NFC(),
    "plain": normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
    ),
    "replace": normalizers.Replace("a", "bb"),
    "bert": normalizers.BertNormalizer(),
}
KINDS = {
    "gpt2": lambda: _byte_level(),
    "gpt2_prefix": lambda: _byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "gpt2_trimmed": lambda: _trimmed(),
    "cl100k": lambda: _byte_level(byte_level(PATTERNS["cl100k"])),
    "o200k": lambda: _byte_level(byte_level(PATTERNS["o200k"])),
    "digits": lambda: _byte_level(_after(pre_tokenizers.Digits(individual_digits=True))),
    "digits_prefix": lambda: _byte_level(_after(pre_tokenizers.Digits(), prefix=True)),
    "added": lambda: _with_added(_byte_level()),
    "llama": lambda: _sentencepiece_like(),
    "metaspace_first": lambda: _metaspace("first"),
    "metaspace_always": lambda: _metaspace("always"),
    "fallback_whole_always": lambda: _metaspace("always", split=False, model="fallback"),
    "unigram_first": lambda: _metaspace("first", model="unigram"),
    "unigram_whole": lambda: _metaspace("always", split=False, model="unigram"),
    **{
        f"gpt2_{name}": lambda name=name: _byte_level(normalizer=CHARACTERS[name])
        for name in CHARACTERS
        if name != "bert"
    },
    "word_piece_bert": lambda: _word_piece(CHARACTERS["bert"]),
}
kind = cache(lambda name: KINDS[name]())


def clusters(text, *, composing):
    """(begin, characters) of what a normaliser may compose; single characters otherwise."""
    if not composing:
        return list(enumerate(text))
    made = []
    for place, char in enumerate(text):
        before = made[-1][1] if made else ""
        alone = unicodedata.normalize("NFC", before) + char
        if made and unicodedata.normalize("NFC", before + char) != alone:
            made[-1] = (made[-1][0], before + char)
        else:
            made.append((place, char))
    return made


def walk(name, fast, text, pieces):
    """Spans of the pieces of a text, one character after the other; the oracle of placing."""
    normaliser = next((n for end, n in CHARACTERS.items() if name.endswith("_" + end)), None)
    composing = name.endswith("_nfc")
    stream = [(0x20, 0)] if text and _prefixed(name, text) else []
    stream += [
        (byte, place)
        for place, char in clusters(text, composing=composing)
        for byte in (normaliser.normalize_str(char) if normaliser else char).encode()
    ]
    drops = name.startswith("word_piece")
    marked = not drops and "ByteLevel" not in json.dumps(json.loads(fast.to_str())["pre_tokenizer"])
    spans, at = [], 0
    for piece in pieces:
        data = _spelled(piece, marked=marked, drops=drops)
        while drops and at < len(stream) and (stream[at][0] == 0x20 or _space(text, stream[at])):
            at += 1
        size = len(data)
        expected = bytes(byte for byte, _ in stream[at : at + size])
        if not drops and data != expected and data[:1] == b" ":  # a space put before the text
            size -= 1
            assert name == "digits_prefix"
            expected = b" " + expected[:size]
            if not size:  # it stands for the character that it is put before
                spans.append((stream[at][1], stream[at][1] + 1))
                continue
        assert data == expected, (piece, data, expected)
        places = [place for _, place in stream[at : at + size]]
        spans.append((places[0], places[-1] + 1) if places else (0, 0))
        at += size
    return spans


def _prefixed(name, text):
    """Whether a space is put before the text."""
    if name == "llama":
        return True
    if name.startswith("gpt2_prefix"):
        return not text.startswith(" ")
    return name.endswith(("first", "always", "unigram_whole")) and not text.startswith((" ", MARK))


def _space(text, unit):
    return text[unit[1]].isspace()


def _spelled(piece, *, marked, drops):
    if drops:
        return re.sub("^##", "", piece).encode()
    byte = re.fullmatch("<0x([0-9A-F]{2})>", piece)
    if marked and byte:
        return bytes([int(byte[1], 16)])
    if marked:
        return piece.replace(MARK, " ").encode()
    if piece in ("<tag>", "catfish", "    "):
        return piece.encode()
    return bytes(map(byte_alphabet().__getitem__, piece))
