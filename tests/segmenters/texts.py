"""Texts that segmenters find hard, their segments, a small tokenizer, and a clock."""

import time
from itertools import pairwise

from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from segmenters import Lines

# What the rules look at, from many scripts, with white space of all kinds, NUL and lone surrogates.
PIECES = [
    *".!?,;:=()[]'\"*-_ \t\n\r\f\v\0",
    *"\u2026\u3002\uff01\uff0e\u300c\u300d\u0964\u061f\u06d4\u0589\u2022\u00ab\u00bb\u201c\u201d\u2019",
    *"\u00a0\u2028\u2029\u3000\u0085\x1c\u200b\ufeff",
    *"\u1362\u1367\u0f0d\u17d4\u1803\u07f9\ufe52\u203d\u2024\u200d\u200f\u1203\u0f40\U00020000",
    *"\ud800\udfff\U0001f600\u00e9e\u0301\u3042\u4e2d\u3068\u0915\u0627",
    *"aBI1",
    *(" .", ". ", ".\n\n", "\r\n", "==", "<= ", " = ", "...", "Mr. ", "e.g. ", "U.S. ", "5 p.m. "),
    *(":)", " :-( ", "------", "------ A", "<a@b.c> ", " ''", "..", "\u0561:", "\u03b1; "),
    *("Yes", "no", "I. ", "1. ", " [1]", "am 3. ", "\u3002\u300d", "\u2022 x", "    "),
    *("\n***\n", "\n%\n", "\n- - -", '"?" (', "Chapter 7. ", "\u2060"),
]
soup = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
# A few pieces that come back: what follows what is met far more often.
few = st.lists(st.sampled_from(PIECES), min_size=2, max_size=5, unique=True).flatmap(
    lambda pieces: st.lists(st.sampled_from(pieces), max_size=40).map("".join)
)
any_text = st.one_of(soup, few, st.text(st.characters(codec=None), max_size=60))
# What a tokenizer can read: no lone surrogates.
utf8_text = any_text.map(lambda text: text.encode("utf-8", "replace").decode())


def logical(language, **options):
    return Lines(granularity="logical", language=language, **options)


def pieces(text, segmenter, *, level=0):
    """The segments of a text on a level; a name is a language, whose logical lines are meant."""
    chosen = logical(segmenter) if isinstance(segmenter, str) else segmenter
    cuts = chosen.levels(text)[level] if level else chosen.cut(text)
    return [text[start:end] for start, end in pairwise(cuts)]


def grows_too_fast(cut, short, long, *, most, slack):
    """Whether the long text takes more than `most` times the seconds of the short one, and `slack`.

    A time below the slack, or well within the bound, decides at once; else the best of three runs
    each counts, in turns, so that a busy machine disturbs both.
    """
    best = [float("inf")] * 2
    for _ in range(3):
        for which, text in ((1, long), (0, short)):
            start = time.process_time()
            cut(text)
            best[which] = min(best[which], time.process_time() - start)
            if best[1] <= slack:
                return False
        if best[1] < 0.75 * most * best[0]:
            return False
    return best[1] > most * best[0] + slack


def trained(kind, corpus, *, size, special=("<s>", "<unk>")):
    """A BPE so small that it splits characters beyond ASCII: of bytes, or of words."""
    if kind == "bytes":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
    else:
        made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    alphabet = pre_tokenizers.ByteLevel.alphabet() if kind == "bytes" else []
    how = {"special_tokens": [*special], "initial_alphabet": alphabet, "show_progress": False}
    made.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=size, **how))
    return made
