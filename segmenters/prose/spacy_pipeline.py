"""spaCy pipelines that find sentences; the only file that imports spaCy.

The component `bipe_sentences` writes the causal rules of `rules` into a Doc, in any spaCy pipeline.
Boundaries are written and read as whole arrays (`Doc.from_array`): a Python loop over tokens is an
order of magnitude slower.
"""

import re
from functools import lru_cache
from itertools import pairwise

import numpy as np
import spacy
from spacy.attrs import IDX, SENT_START
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import DummyTokenizer
from spacy.vocab import Vocab

from segmenters.base import Cuts, SegmenterError
from segmenters.prose.rules import sentence_ends

COMPONENT = "bipe_sentences"
# The key in Doc.user_data of a Doc in which each token is a sentence.
_CUT = "bipe_sentences_cut"
_SURROGATE = re.compile("[\ud800-\udfff]")
# spaCy limits the length of texts for the memory of its models, which get paragraphs here.
_NO_LIMIT = 2**62
# A model reads one paragraph at a time, and long ones in pieces of this many characters.
_MODEL_PIECE = 100_000
# The pipes of a model that find sentences, the most trusted first.
_PIPES = ("parser", "senter")
# spaCy's own models are wheels of its releases, not on the index: one version per minor of spaCy.
_MODEL_NAME = re.compile(r"[a-z]{2,3}_[a-z]+_[a-z]+_(?:sm|md|lg|trf)")
_RELEASES = "https://github.com/explosion/spacy-models/releases/download"
_PARAGRAPH = re.compile(r"\n[^\S\n]*+\n\s*+")


class SentenceTokenizer(DummyTokenizer):
    """Text -> Doc with one token per sentence: words would take twice the time."""

    def __init__(self, vocab: Vocab, *, next_word: bool, language: str) -> None:
        self.vocab = vocab
        self.next_word, self.language = next_word, language

    def __call__(self, text: str) -> Doc:
        ends = sentence_ends(text, next_word=self.next_word, language=self.language)
        places = (0, *ends, len(text))
        words = [text[start:end] for start, end in pairwise(places)] if text else []
        doc = Doc(self.vocab, words=words, spaces=[False] * len(words))
        doc.user_data[_CUT] = True
        return doc


@spacy.registry.tokenizers("bipe_sentence_tokens")
def sentence_tokenizer(next_word: bool, language: str = "xx"):  # type: ignore[no-untyped-def]
    return lambda nlp: SentenceTokenizer(nlp.vocab, next_word=next_word, language=language)


class SentenceComponent:
    """Writes the rules' sentence ends into a Doc; one inside of a token moves to the next token."""

    def __init__(self, *, next_word: bool) -> None:
        self.next_word = next_word

    def __call__(self, doc: Doc) -> Doc:
        """Set `is_sent_start` of each token; return the same Doc."""
        if not len(doc):
            return doc
        if doc.user_data.pop(_CUT, False):
            starts = np.ones(len(doc), dtype=np.int64)
        else:
            starts = np.full(len(doc), -1, dtype=np.int64)
            ends = sentence_ends(doc.text, next_word=self.next_word)
            tokens = np.searchsorted(doc.to_array([IDX]), ends)
            starts[np.concatenate(([0], tokens[tokens < len(doc)]))] = 1
        return doc.from_array([SENT_START], starts.astype(np.uint64)[:, None])  # type: ignore[arg-type]


@Language.factory(COMPONENT, assigns=["token.is_sent_start"], default_config={"next_word": False})
def _sentence_component(nlp: Language, name: str, next_word: bool) -> SentenceComponent:
    return SentenceComponent(next_word=next_word)


@lru_cache(maxsize=8)
def _rules(next_word: bool, language: str) -> Language:
    options = {"next_word": next_word, "language": language}
    tokenizer = {"@tokenizers": "bipe_sentence_tokens", **options}
    nlp = spacy.blank("xx", config={"nlp": {"tokenizer": tokenizer}})
    nlp.add_pipe(COMPONENT, config={"next_word": next_word})
    # Lower case, shape and the like of each token take most of the time, and nobody reads them.
    nlp.vocab.lex_attr_getters = {}  # type: ignore[attr-defined]
    nlp.max_length = _NO_LIMIT
    return nlp


@lru_cache(maxsize=8)
def build(backend: str, language: str) -> Language:
    """Return the pipeline of spaCy's own that these parameters name, built once per process.

    Raises ModuleNotFoundError if its model is not installed, and SegmenterError for an unknown
    language or a model that finds no sentences.
    """
    if backend == "sentencizer":
        try:
            nlp = spacy.blank(language)
        except ImportError as error:
            why = " ".join(str(error).split())
            raise SegmenterError(
                f"language must be one that spaCy can load (xx for any), was: {language!r} ({why})"
            ) from error
        nlp.add_pipe("sentencizer")
    else:
        nlp = _load(backend, language)
    nlp.max_length = _NO_LIMIT
    return nlp


def _load(backend: str, language: str) -> Language:
    """Return the named model, or the language's small one, reduced to what finds sentences."""
    name = backend
    if backend in _PIPES:
        kind = "web" if language in ("en", "zh") else "news"
        name = "xx_sent_ud_sm" if language == "xx" else f"{language}_core_{kind}_sm"
    try:
        nlp = spacy.load(name)
    except OSError as error:
        cure = "backend is rules, spacy, sentencizer, senter, parser, or a model's name or path"
        if _MODEL_NAME.fullmatch(name):
            release = f"{name}-{'.'.join(spacy.__version__.split('.')[:2])}.0"
            cure = f"pip install {_RELEASES}/{release}/{release}-py3-none-any.whl"
        raise ModuleNotFoundError(f"no spaCy model {name!r} is installed: {cure}") from error
    wanted = (backend,) if backend in _PIPES else (*_PIPES, "sentencizer")
    finders = [pipe for pipe in wanted if pipe in nlp.component_names]
    if not finders:
        raise SegmenterError(f"the spaCy model {name!r} must have a pipe {' or '.join(wanted)}")
    if finders[0] not in nlp.pipe_names:
        nlp.enable_pipe(finders[0])  # models ship with the senter disabled, in favour of the parser
    keep = {finders[0], "tok2vec", "transformer"}
    nlp.select_pipes(disable=[pipe for pipe in nlp.pipe_names if pipe not in keep])
    return nlp


def versions(backend: str, language: str) -> dict[str, str]:
    """Return spaCy's version, and the name and version of the model if one decides."""
    numbers = {"spacy": spacy.__version__}
    if backend != "sentencizer":
        meta = build(backend, language).meta
        numbers["model"] = f"{meta['lang']}_{meta['name']}-{meta['version']}"
    return numbers


def rule_ends(text: str, *, next_word: bool, language: str) -> Cuts:
    """Return character offsets at which the rules, run by spaCy, start a sentence; 0 included."""
    pipeline = _rules(next_word, language)
    return _starts(pipeline, _valid(text)) if text else np.zeros(0, dtype=np.int64)


def sentence_starts(text: str, *, backend: str, language: str) -> Cuts:
    """Return character offsets at which the pipeline starts a sentence; 0 included."""
    nlp, starts = build(backend, language), [np.zeros(0, dtype=np.int64)]
    text = _valid(text)
    for start, end in pairwise(_pieces(text)):
        starts.append(np.append(_starts(nlp, text[start:end]) + start, start))
    return np.concatenate(starts)


def _valid(text: str) -> str:
    """Replace lone surrogates, which spaCy cannot encode as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def _pieces(text: str) -> list[int]:
    """Return where paragraphs, and pieces of long ones, start; and the end of the text."""
    places = (0, *(match.end() for match in _PARAGRAPH.finditer(text)), len(text))
    inner = {place for a, b in pairwise(places) for place in range(a, b, _MODEL_PIECE)}
    return sorted(inner | {len(text)})


def _starts(nlp: Language, text: str) -> Cuts:
    # The memory zone frees the strings of this text; else the vocabulary would grow with each text.
    with nlp.memory_zone():
        table = nlp(text).to_array([IDX, SENT_START])
        return table[table[:, 1] == 1, 0].astype(np.int64)
