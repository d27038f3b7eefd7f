"""Where a text may be cut so that the parts have the ids of the whole.

The places follow from the structure of a tokenizer, as its definition (tokenizer.json) gives it,
and so hold for texts that were never tested; texts of a tokenizer whose structure proves
nothing are not cut. Proofs for a cut between two characters a|b:

- Splitting expressions: all alternatives must be known. None of them crosses a cut between a letter
  and a space followed by a letter, or between a letter or digit and a mark that can only begin a
  piece, and none looks more than one character beyond its run. Line ends: where only `\\s+(?!\\S)`
  takes white space (GPT-2), the last line end of a run before a visible character is a piece of its
  own: cut before it. Where `\\s*[\\r\\n]+` comes first (cl100k, o200k), runs end with their last
  line end: cut after it, but not before "/", which o200k appends to line ends.
- White space (BERT, Whitespace, Metaspace with splitting): each space begins a new piece.
- BPE without splitting (SentencePiece): merges only make pieces of the vocabulary, so no merge
  crosses a|b if no piece holds a followed by b. Unigram without splitting has no place: sums of
  scores round differently in parts, and rounding decides ties.

Parts after the first are encoded without the space that a tokenizer puts before a text
(`continued`). Other splitters before these (digits, punctuation) keep letters, spaces and line ends
together but cut elsewhere; with them, letters must be on both sides.
"""

import copy
import re
from collections.abc import Iterator
from typing import Any

from segmenters.align import SPACE_MARK

# Letters of common scripts, in every version of Unicode; `re` does not know \p{L}.
LETTER = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u00ff\u0391-\u03a1\u03a3-\u03a9\u03b1-\u03c9"
    "\u0410-\u044f\u05d0-\u05ea\u0621-\u063a\u0641-\u064a\u0905-\u0939\u3041-\u3096\u30a1-\u30fa"
    "\u4e00-\u9fa5\uac00-\ud7a3"
)
_WORD = f"(?<=[{LETTER}])(?= [{LETTER}])"
# Not "'", which begins contractions.
_MARK = f'(?<=[{LETTER}0-9])(?=[(),.;:=<>{{}}\\[\\]"\u3001\u3002\uff0c])'
# Before and after a line end that is followed by a visible character.
_BEFORE, _AFTER, _AFTER_NO_SLASH = r"(?=\n\S)", r"(?<=\n)(?=\S)", r"(?<=\n)(?=[^\s/])"
_BEFORE_LETTER, _AFTER_LETTER = f"(?=\n[{LETTER}])", f"(?<=\n)(?=[{LETTER}])"

_ENDINGS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
CONTRACTIONS = f"(?i:{'|'.join(_ENDINGS)})"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K_WORDS = [
    r"[^\r\n\p{L}\p{N}]?" + word for word in (f"{_UPPER}*{_LOWER}+", f"{_UPPER}+{_LOWER}*")
]
_TRAILING, _TRAILING_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
# Alternatives of the splitting expressions of GPT-2, cl100k and o200k: of runs of white space, of
# line ends, and of those that never reach over a line end.
_RUNS = {r"\s+(?!\S)", r"\s+"}
_LINES = {r"\s*[\r\n]+", r"\s*[\r\n]"}
_WITHIN_LINES = {
    *_ENDINGS,
    CONTRACTIONS,
    r" ?\p{L}+",
    r" ?\p{N}+",
    r"\p{N}+",
    r"\p{N}",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    *O200K_WORDS,
    *(f"{word}{CONTRACTIONS}?" for word in O200K_WORDS),
}
_KNOWN = _WITHIN_LINES | _RUNS | _LINES | {_TRAILING, _TRAILING_SLASH}
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# Splitters that never cut between letters, spaces and line ends.
_NEUTRAL = {"Digits", "Punctuation"}
_SPACED = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
# Normalisers that work by character, or by groups that never hold a space or line end.
_LOCAL = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Prepend"}
_LOCAL_BUT_LINES = {"BertNormalizer", "Nmt", "Precompiled", "Strip"}
EDGE_SPACES = r"\A +"
_BACK = 4096  # characters, in which a line end or a space is near
_REPLACED_RUNS = {" {2,}", " +", EDGE_SPACES, r" +\z"}


class _Unproved(Exception):
    """The structure proves no place to cut."""


def places_to_cut(definition: dict[str, Any]) -> re.Pattern[str] | None:
    """Return an expression of the places where texts may be cut; None if none is proved."""
    try:
        marks = _require_plain_additions(definition)
        lines = _require_local(definition["normalizer"])
        return re.compile(_by_steps(definition, marks=marks, lines=lines))
    except _Unproved:
        return None


def cut(text: str, places: re.Pattern[str] | None, *, at_least: int, at_most: int) -> Iterator[str]:
    """Yield parts of a text, each but the last of at least `at_least` characters.

    A part longer than `at_most` is cut there to bound memory, at a line end or space if one is
    near; its ids may then differ from those of the whole.
    """
    start = 0
    while len(text) - start > at_least:
        place = places.search(text, start + at_least, start + at_most) if places else None
        if place is None and len(text) - start <= at_most:
            break
        end = place.start() if place else _forced(text, start, start + at_most)
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _forced(text: str, start: int, end: int) -> int:
    for mark in "\n ":
        place = text.rfind(mark, max(start + 1, end - _BACK), end - 1)
        if place > 0:
            return place + (mark == "\n")
    return end


def continued(definition: dict[str, Any]) -> dict[str, Any] | None:
    """Return the definition for later parts, which prepends nothing; None if it is the same."""
    later = copy.deepcopy(definition)
    later["normalizer"] = _without_prefix(later["normalizer"])
    for place, step in enumerate(steps_of(later["pre_tokenizer"], "pretokenizers")):
        if step["type"] == "ByteLevel" and place == 0:
            step["add_prefix_space"] = False
        if step["type"] == "Metaspace" and (place == 0 or step["prepend_scheme"] == "first"):
            step["prepend_scheme"] = "never"
    return later if later != definition else None


def steps_of(part: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    """Return the steps of a (nested) sequence: themselves, not copies."""
    if part is None:
        return []
    if part["type"] == "Sequence":
        return [step for inner in part[key] for step in steps_of(inner, key)]
    return [part]


def _without_prefix(normaliser: dict[str, Any] | None) -> dict[str, Any] | None:
    steps = steps_of(normaliser, "normalizers")
    kept = [
        {**step, "strip_left": False} if step["type"] == "Strip" else step
        for step in steps
        if step["type"] != "Prepend" and step.get("pattern") != {"Regex": EDGE_SPACES}
    ]
    return normaliser if kept == steps else {"type": "Sequence", "normalizers": kept}


def _by_steps(definition: dict[str, Any], *, marks: bool, lines: bool) -> str:
    """Return the places of the first step that splits at spaces; marks, lines: do they reach it?"""
    steps = steps_of(definition["pre_tokenizer"], "pretokenizers")
    for place, step in enumerate(steps):
        kind, alone = step["type"], place == 0 and not definition["normalizer"]
        if kind in _NEUTRAL:
            continue
        if kind in _SPACED:
            return f"(?<=[{LETTER}])(?=[ \n][{LETTER}])"
        if kind == "Metaspace" and step["split"] and step["replacement"] == SPACE_MARK:
            return _WORD
        if kind == "Metaspace" and not step["split"] and place + 1 == len(steps):
            break
        # A prefix would be inserted before every piece of an earlier splitter.
        if kind == "ByteLevel" and step["use_regex"] and not (place and step["add_prefix_space"]):
            return _by_expression(GPT2, alone=alone, marks=marks, lines=lines)
        if kind == "Split" and step["behavior"] == "Isolated" and not step["invert"]:
            expression = step["pattern"].get("Regex", "")
            return _by_expression(expression, alone=alone, marks=marks, lines=lines)
        raise _Unproved
    # The model gets the text whole only if nothing, or a Metaspace alone, is before it.
    if len(steps) > (steps[-1:] != [] and steps[-1]["type"] == "Metaspace"):
        raise _Unproved
    marking = [*steps, *steps_of(definition["normalizer"], "normalizers")]
    marked = any(s["type"] == "Metaspace" or s.get("pattern") == {"String": " "} for s in marking)
    return _by_vocabulary(definition["model"], spaces=marked, lines=lines)


def _by_expression(expression: str, *, alone: bool, marks: bool, lines: bool) -> str:
    """Return the places of an expression; alone: nothing has changed or cut the text before."""
    alternatives = _alternatives(expression)
    if not is_known(expression) or alternatives[-2:] != [r"\s+(?!\S)", r"\s+"]:
        raise _Unproved
    inside = f"{_WORD}|{_MARK}" if alone and marks else _WORD
    ends = _LINES & {*alternatives}
    trailing = {_TRAILING, _TRAILING_SLASH} & {*alternatives}
    if not lines or (trailing and not ends):
        return inside
    before, after = _BEFORE_LETTER, _AFTER_LETTER
    if alone:
        before, after = _BEFORE, _AFTER_NO_SLASH if _TRAILING_SLASH in trailing else _AFTER
    return f"{after if ends else before}|{inside}"


def _by_vocabulary(model: dict[str, Any], *, spaces: bool, lines: bool) -> str:
    """Return the places of a model; spaces, lines: whether they reach it (spaces as SPACE_MARK)."""
    affixes = ("ignore_merges", "continuing_subword_prefix", "end_of_word_suffix")
    if model["type"] != "BPE" or any(map(model.get, affixes)):
        raise _Unproved
    pieces, places = model["vocab"], []
    across = re.compile(f"[^{SPACE_MARK}]{SPACE_MARK}")
    if spaces and SPACE_MARK in pieces and not any(map(across.search, pieces)):
        places.append(_WORD)
    # An unknown line end would form one unknown piece with what follows.
    known = "\n" in pieces or (model["byte_fallback"] and "<0x0A>" in pieces)
    ends = ("\n", "<0x0A>")
    alone = not any(end in piece and piece != end for piece in pieces for end in ends)
    if lines and known and alone:
        places.append(_AFTER)
    if not places:
        raise _Unproved
    return "|".join(places)


def _require_plain_additions(definition: dict[str, Any]) -> bool:
    """Return whether added tokens leave marks alone; _Unproved if they cross spaces or lines."""
    active = [token for token in definition["added_tokens"] if not token["special"]]
    for token in active:
        content = token["content"]
        bound = token["lstrip"] or token["rstrip"] or token["single_word"]
        if bound or re.search(r"\s\S|\S\s", content) or "\n" in content:
            raise _Unproved
    normalisers = steps_of(definition["normalizer"], "normalizers")
    if active and any(
        step["type"] == "Prepend"
        or step.get("prepend_scheme") == "always"
        or step.get("add_prefix_space")
        for step in normalisers + steps_of(definition["pre_tokenizer"], "pretokenizers")
    ):
        raise _Unproved  # a space is inserted after every added token
    return not any(re.search(f"{_WORD}|{_MARK}", token["content"]) for token in active)


def _require_local(normaliser: dict[str, Any] | None) -> bool:
    """Return whether line ends are kept; _Unproved if changes of a character depend on others."""
    lines_kept = True
    for step in steps_of(normaliser, "normalizers"):
        kind = step["type"]
        if kind == "Replace":
            pattern = step["pattern"]
            blank = pattern.get("String") == " " and not step["content"].isspace()
            runs = pattern.get("Regex") in _REPLACED_RUNS
            if not blank and not runs and re.search(r"\s", pattern.get("String", " ")):
                raise _Unproved
        elif kind in _LOCAL_BUT_LINES:
            lines_kept = False
        elif kind not in _LOCAL:
            raise _Unproved
    return lines_kept


def is_known(expression: str) -> bool:
    return bool(expression) and {*_alternatives(expression)} <= _KNOWN


def _alternatives(expression: str) -> list[str]:
    parts, depth = [""], 0
    # An escaped character, a class of characters, or a character.
    for token in re.findall(r"(?s)\\.|\[(?:\\.|[^]\\])*\]|.", expression):
        depth += (token == "(") - (token == ")")
        if token == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts
