"""Sentences by a spaCy model, or by spaCy's own rules (`sentencizer`).

Boundaries are read as whole arrays: a Python loop over tokens is an order of magnitude slower.
"""

import re
from functools import lru_cache
from itertools import pairwise

import numpy as np
import spacy
from spacy.attrs import IDX, SENT_START
from spacy.language import Language

from segmenters.base import Cuts, SegmenterError
from segmenters.offsets import without_surrogates

# spaCy limits the length of texts for the memory of its models, which get paragraphs here.
NO_LIMIT = 2**62


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
    nlp.max_length = NO_LIMIT
    return nlp


# The pipes of a model that find sentences, the most trusted first.
_PIPES = ("parser", "senter")
# spaCy's own models are wheels of its releases, not on the index: one version per minor of spaCy.
_MODEL_NAME = re.compile(r"[a-z]{2,3}_[a-z]+_[a-z]+_(?:sm|md|lg|trf)")
_RELEASES = "https://github.com/explosion/spacy-models/releases/download"


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


def sentence_starts(text: str, *, backend: str, language: str) -> Cuts:
    """Return character offsets at which the pipeline starts a sentence; 0 included."""
    nlp, starts = build(backend, language), [np.zeros(0, dtype=np.int64)]
    for start, end in pairwise(_pieces(text)):
        starts.append(np.append(starts_of(nlp, text[start:end]) + start, start))
    return np.concatenate(starts)


# Where paragraphs start; one of more characters is read in pieces.
_PARAGRAPH = re.compile(r"\n[^\S\n]*+\n\s*+")
_LONGEST = 100_000


def _pieces(text: str) -> list[int]:
    """Return where paragraphs, and pieces of long ones, start; and the end of the text."""
    places = (0, *(match.end() for match in _PARAGRAPH.finditer(text)), len(text))
    inner = {place for a, b in pairwise(places) for place in range(a, b, _LONGEST)}
    return sorted(inner | {len(text)})


def starts_of(nlp: Language, text: str) -> Cuts:
    """Return character offsets at which a pipeline starts a sentence of the text."""
    # The memory zone frees the strings of this text; else the vocabulary would grow with each text.
    with nlp.memory_zone():
        table = nlp(without_surrogates(text)[0]).to_array([IDX, SENT_START])
        return table[table[:, 1] == 1, 0].astype(np.int64)
