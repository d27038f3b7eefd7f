"""Exact match and token F1 of short answers, by the rules of SQuAD (Rajpurkar et al., 1606.05250).

Before two answers are compared they are normalised: lower case, no ASCII punctuation, no "a",
"an", "the", single spaces. Of several references the best counts. Two answers of which nothing is
left match exactly, though their F1 is 0, since they share no token.

Copies of the SCROLLS scorer differ in one point: some also transliterate to ASCII, after all else.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from train.errors import MissingPackage

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str, *, transliterate: bool = False) -> str:
    """The text as it is compared; transliterate: to ASCII at the end (needs unidecode)."""
    words = _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()
    plain = " ".join(words)
    return _ascii(plain) if transliterate else plain


def exact_match(
    prediction: str, references: Sequence[str], *, transliterate: bool = False
) -> float:
    """1 if the prediction equals a reference once both are normalised, else 0."""
    found = normalized(prediction, transliterate=transliterate)
    return float(any(found == normalized(one, transliterate=transliterate) for one in references))


def f1(prediction: str, references: Sequence[str], *, transliterate: bool = False) -> float:
    """The harmonic mean of precision and recall of tokens, 0 to 1, of the best reference."""
    found = Counter(normalized(prediction, transliterate=transliterate).split())
    return max(
        _f1(found, Counter(normalized(one, transliterate=transliterate).split()))
        for one in references
    )


def _f1(found: Counter[str], right: Counter[str]) -> float:
    shared = (found & right).total()
    if not shared:
        return 0.0
    precision, recall = shared / found.total(), shared / right.total()
    return 2 * precision * recall / (precision + recall)


def _ascii(text: str) -> str:
    try:
        from unidecode import unidecode
    except ImportError as fault:
        raise MissingPackage(
            "scores of transliterated text need unidecode: pip install unidecode"
        ) from fault
    return unidecode(text)
