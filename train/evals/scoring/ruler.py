"""The rules of retrieval probes: those of RULER (Hsieh et al., 2404.06654), and passkey's.

RULER looks for each reference inside the prediction, ignoring case: "1234567" is found inside
"12345678". Passkey retrieval (Mohtashami and Jaggi, 2305.16300) reads the first number: "12,345" is
12, and digits of any script count.
"""

import re
from collections.abc import Sequence
from statistics import fmean

_CONTROL = re.compile(r"[\x00-\x1f]")
_NUMBER = re.compile(r"\d+")
_PLACES = 2
# int() refuses numbers with more digits (4300 by default); no key is as long.
_LONGEST = 4000


def postprocessed(prediction: str) -> str:
    """Return the prediction as RULER scores it: stripped, with control characters as line ends."""
    return _CONTROL.sub("\n", prediction.strip()).strip()


def string_match_all(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return the percent of references found in their prediction: a mean over examples."""
    return _percent([fmean(row) for row in _found(predictions, references)])


def string_match_part(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return the percent of predictions in which some reference is found."""
    return _percent([max(row) for row in _found(predictions, references)])


def passkey_found(response: str) -> int | None:
    """Return the first number of a response; None without one."""
    match = _NUMBER.search(response)
    return int(match.group()) if match and len(match.group()) <= _LONGEST else None


def passkey_correct(response: str, *, key: int) -> bool:
    """Return whether the first number of a response is the key."""
    return passkey_found(response) == key


def _found(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[float]]:
    if not predictions or not all(references):
        raise ValueError("each of at least one prediction must have a reference")
    return [
        [float(one.lower() in prediction.lower()) for one in wanted]
        for prediction, wanted in zip(predictions, references, strict=True)
    ]


def _percent(shares: Sequence[float]) -> float:
    return round(100 * fmean(shares), _PLACES)
