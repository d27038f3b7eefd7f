"""Sentences of prose as segments.

By default a spaCy pipeline whose one component applies the causal rules of `sentence_rules`; the
same rules without spaCy (identical cuts, faster); or spaCy's own sentencizer, senter or parser,
which read ahead. Trailing white space stays with the sentence before, and a blank line is always a
boundary. Nothing here trains or downloads a model.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from segmenters.base import Segmenter, SegmenterError
from segmenters.prose import rules as sentence_rules
from segmenters.prose.next_word import REACH

_LOG = logging.getLogger(__name__)
_SPACE = re.compile(r"\s*+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentences(Segmenter):
    """Ends a segment where a sentence ends.

    `backend`: "spacy" (the causal rules as a spaCy component), "rules" (the same cuts without
    spaCy), "sentencizer", "senter" or "parser" (spaCy's own; the last two need the small model of
    `language`), or the name or path of an installed spaCy model. `language` is a code of spaCy
    ("en"; "xx" for any) and is read by spaCy's own back ends alone. A model reads paragraph by
    paragraph, and a paragraph beyond its size in pieces.

    `next_word` lets the rules read the next word where the next character leaves a doubt (after
    "U.S.", at "2)" inside of a line): more exact, for text that is there as a whole.

    `fallback` lets the rules cut, without spaCy, where spaCy or the model is not installed; a
    warning says so, and the fingerprint tells.

    Raises SegmenterError, when it cuts, if spaCy or the model is not installed or the model does
    not find sentences.
    """

    backend: str = "spacy"
    language: str = "xx"
    next_word: bool = False
    fallback: bool = False

    version: ClassVar[int] = 3

    def __post_init__(self) -> None:
        for name in ("backend", "language"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a str, was: {type(value).__name__}")
            if not value:
                raise ValueError(f"{name} must not be empty")
        for name in ("next_word", "fallback"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be a bool, was: {type(value).__name__}")
        if self.next_word and not self._is_causal:
            raise ValueError(
                f"next_word must be false unless backend is rules or spacy, was: {self.backend!r}"
            )

    @property
    def lookahead(self) -> int | None:
        if not self._is_causal:
            return None
        return REACH if self.next_word else 1

    @property
    def _is_causal(self) -> bool:
        return self.backend in ("rules", "spacy")

    @property
    def _without_spacy(self) -> bool:
        """Whether the rules cut alone. Raises SegmenterError for what is missing."""
        if self.backend == "rules":
            return True
        missing = _missing(self.backend, self.language)
        if missing is None:
            return False
        if not self.fallback:
            raise SegmenterError(f"{missing}, or set fallback=true for the rules without spaCy")
        _warn_once(missing)
        return True

    def versions(self) -> dict[str, str]:
        """The tables of our rules, or the versions of spaCy and of the model that decides."""
        if self._is_causal or self._without_spacy:
            return {"tables": sentence_rules.tables()}
        from segmenters.prose import spacy_pipeline

        return spacy_pipeline.versions(self.backend, self.language)

    def _ends(self, text: str) -> Iterable[int]:
        if self._without_spacy:
            return sentence_rules.sentence_ends(text, next_word=self.next_word)
        from segmenters.prose import spacy_pipeline

        if self.backend == "spacy":
            return spacy_pipeline.rule_ends(text, next_word=self.next_word)
        starts = spacy_pipeline.sentence_starts(text, backend=self.backend, language=self.language)
        # spaCy's own back ends may start a sentence with the white space in front of it.
        first = _after_space(text, 0)
        ends = {_after_space(text, start) for start in starts.tolist()}
        return sorted(end for end in ends if end > first)


@lru_cache(maxsize=32)
def _missing(backend: str, language: str) -> str | None:
    """What the back end needs and is not installed, with its cure; None if all is there."""
    wrong = f"backend {backend!r} of Sentences:"
    try:
        from segmenters.prose import spacy_pipeline
    except ImportError as error:
        wrong = f"{wrong} spaCy is not installed ({error}): pip install spacy"
    else:
        try:
            if backend != "spacy":
                spacy_pipeline.build(backend, language)
            return None
        except ModuleNotFoundError as error:
            wrong = f"{wrong} {error}"
    return wrong


@lru_cache(maxsize=32)
def _warn_once(wrong: str) -> None:
    _LOG.warning("%s; the rules cut in its stead", wrong)


def _after_space(text: str, place: int) -> int:
    """The first place from `place` on that does not hold white space."""
    match = _SPACE.match(text, place)
    assert match is not None
    return match.end()
