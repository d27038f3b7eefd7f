"""spaCy pipelines that find sentences; the one file that imports spaCy.

The component `bipe_sentences` writes the causal rules of `sentence_rules` into a Doc, so that they
can stand in any spaCy pipeline; `build` makes the pipelines that `Sentences` names, and
`sentence_starts` reads boundaries back as character offsets. Boundaries are written and read as
whole arrays (`Doc.from_array`): a Python loop over tokens is an order of magnitude slower.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

import numpy as np
import spacy
from spacy.attrs import IDX, SENT_START
from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from segmenters.base import Cuts
from segmenters.sentence_rules import candidates, sentence_ends

COMPONENT = "bipe_sentences"
# A single blank is a flag of the word before it; other white space is a token of its own.
_PIECE = re.compile(r"(\S+)( ?)|(\s+)")
_SURROGATE = re.compile("[\ud800-\udfff]")
# spaCy refuses longer texts for the memory that its models need; the rules need none.
_NO_LIMIT = 2**62
# A model reads one paragraph at a time, and longer ones in pieces of this many characters.
_MODEL_PIECE = 100_000
_PARAGRAPH = re.compile(r"\n[^\S\n]*+\n\s*+")


def _glued(text: str) -> list[int]:
    """Places where the rules might cut without white space; none in ASCII text."""
    if text.isascii():
        return []
    places = (place for _, place in candidates(text) if place < len(text))
    return [place for place in places if not (text[place - 1].isspace() or text[place].isspace())]


class WhiteSpaceTokenizer:
    """Text -> Doc whose tokens are cut at white space and wherever a sentence might end.

    The second is for scripts without spaces, in which a boundary lies inside of a word.
    """

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab

    def __call__(self, text: str) -> Doc:
        words: list[str] = []
        spaces: list[bool] = []
        for start, end in pairwise((0, *_glued(text), len(text))):
            pieces = _PIECE.findall(text, start, end)
            words += [word or space for word, _, space in pieces]
            spaces += [bool(blank) for _, blank, _ in pieces]
        return Doc(self.vocab, words=words, spaces=spaces)

    def to_bytes(self, **kwargs: object) -> bytes:
        """Nothing is stored: the tokenizer has no state."""
        return b""

    def from_bytes(self, data: bytes, **kwargs: object) -> WhiteSpaceTokenizer:
        """Nothing to restore."""
        return self

    def to_disk(self, path: object, **kwargs: object) -> None:
        """Nothing is stored: the tokenizer has no state."""

    def from_disk(self, path: object, **kwargs: object) -> WhiteSpaceTokenizer:
        """Nothing to restore."""
        return self


@spacy.registry.tokenizers("bipe_white_space")
def _white_space_tokenizer():  # type: ignore[no-untyped-def]
    return lambda nlp: WhiteSpaceTokenizer(nlp.vocab)


@Language.component(COMPONENT, assigns=["token.is_sent_start"])
def bipe_sentences(doc: Doc) -> Doc:
    """Write the sentence boundaries of the causal rules into the Doc.

    A boundary inside of a token, which other tokenizers than ours can leave, moves to the next.
    """
    if not len(doc):
        return doc
    offsets = doc.to_array([IDX])
    starts = np.full(len(doc), -1, dtype=np.int64)
    tokens = np.searchsorted(offsets, sentence_ends(doc.text))
    starts[np.concatenate(([0], tokens[tokens < len(doc)]))] = 1
    return doc.from_array([SENT_START], starts.astype(np.uint64)[:, None])  # type: ignore[arg-type]


@lru_cache(maxsize=8)
def build(backend: str, language: str) -> Language:
    """The pipeline that `Sentences` names by these parameters; built once a process."""
    if backend == "spacy":
        config = {"nlp": {"tokenizer": {"@tokenizers": "bipe_white_space"}}}
        nlp = spacy.blank("xx", config=config)
        nlp.add_pipe(COMPONENT)
        # Lower case, shape, likeness to a URL of each word: half of the time, and nobody asks.
        nlp.vocab.lex_attr_getters = {}  # type: ignore[attr-defined]
    elif backend == "sentencizer":
        nlp = spacy.blank(language)
        nlp.add_pipe("sentencizer")
    else:
        nlp = _load(backend, language)
    nlp.max_length = _NO_LIMIT
    return nlp


def _load(backend: str, language: str) -> Language:
    """An installed model, reduced to what finds its sentences."""
    genre = "web" if language in ("en", "zh") else "news"
    name = f"{language}_core_{genre}_sm" if backend in ("senter", "parser") else backend
    try:
        nlp = spacy.load(name)
    except OSError as error:
        raise ValueError(
            f"backend must be rules, spacy, sentencizer, senter, parser or an installed spaCy "
            f"model, was: {backend!r}, and no model {name!r} is installed "
            f"(python -m spacy download {name})"
        ) from error
    wanted = (backend,) if backend in ("senter", "parser") else ("parser", "senter", "sentencizer")
    finders = [pipe for pipe in wanted if pipe in nlp.component_names]
    if not finders:
        raise ValueError(f"the spaCy model {name!r} must have a pipe {' or '.join(wanted)}")
    if finders[0] not in nlp.pipe_names:
        nlp.enable_pipe(finders[0])  # models ship with the senter disabled, in favour of the parser
    keep = {finders[0], "tok2vec", "transformer"}
    nlp.select_pipes(disable=[pipe for pipe in nlp.pipe_names if pipe not in keep])
    return nlp


def versions(backend: str, language: str) -> dict[str, str]:
    """What decides beyond the parameters: spaCy's version, and the model's name and version."""
    found = {"spacy": spacy.__version__}
    if backend != "sentencizer":
        meta = build(backend, language).meta
        found["model"] = f"{meta['lang']}_{meta['name']}-{meta['version']}"
    return found


def sentence_starts(text: str, *, backend: str, language: str) -> Cuts:
    """Character offsets at which the pipeline starts a sentence, 0 included."""
    nlp = build(backend, language)
    # spaCy keeps strings as UTF-8, which has no lone surrogates; the length stays.
    text = _SURROGATE.sub("\ufffd", text)
    if backend == "spacy":
        return _starts(nlp, text)
    found = [
        np.append(_starts(nlp, text[start:end]) + start, start)
        for start, end in pairwise(_pieces(text))
    ]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _pieces(text: str) -> list[int]:
    """Where paragraphs start, and pieces of those that are too long for a model; and the end."""
    places = (0, *(match.end() for match in _PARAGRAPH.finditer(text)), len(text))
    inner = {place for a, b in pairwise(places) for place in range(a, b, _MODEL_PIECE)}
    return sorted(inner | {len(text)})


def _starts(nlp: Language, text: str) -> Cuts:
    # The memory zone frees the strings of this text: the vocabulary would grow for ever.
    with nlp.memory_zone():
        table = nlp(text).to_array([IDX, SENT_START])
        return table[table[:, 1] == 1, 0].astype(np.int64)
