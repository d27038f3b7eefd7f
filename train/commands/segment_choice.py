"""Which segmenter `bipe segment` uses: the one that is named, or that of `segmenter: auto`.

A name is that of a file in conf/segmenter, or of a class in other words, with its parameters behind
a colon: `stride:length=100`, `lines:granularity=block,language=python`, `matched:of=lines`. Without
one each document is asked for its kind, as `bipe prepare segmenter=auto` does.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import segmenters
from segmenters import Auto, Lines, Mixed, Segmenter, Sentences
from segmenters.code.languages import language_named, language_of_script
from segmenters.documents import ROUTES, decide
from segmenters.documents.languages import route_of_language
from train.errors import UserError, nearest

# Sentences are cut by the rules alone, which are those that spaCy runs: spaCy starts slowly.
NAMES: dict[str, tuple[type[Segmenter], dict[str, Any]]] = {
    "arithmetic": (segmenters.ArithmeticSteps, {}),
    "auto": (Auto, {"granularity": "logical"}),
    "chain_of_thought": (segmenters.ChainOfThought, {}),
    "clauses": (segmenters.Clauses, {"of": Sentences(backend="rules")}),
    "coq": (segmenters.Coq, {}),
    "isabelle": (segmenters.Isabelle, {}),
    "latex": (segmenters.LaTeXProofs, {}),
    "lean": (segmenters.Lean, {}),
    "lines": (Lines, {}),
    "logical": (Lines, {"granularity": "logical", "fallback": True}),
    "block": (Lines, {"granularity": "block", "fallback": True}),
    "matched": (segmenters.Matched, {"of": Sentences(backend="rules"), "kind": "shuffled"}),
    "metamath": (segmenters.Metamath, {}),
    "mixed": (Mixed, {}),
    "mizar": (segmenters.Mizar, {}),
    "newline": (segmenters.Newline, {}),
    "next_word": (Sentences, {"backend": "rules", "next_word": True}),
    "official": (segmenters.Official, {}),
    "pattern": (segmenters.Pattern, {}),
    "random": (segmenters.RandomCuts, {"mean": 100, "seed": 0}),
    "sentences": (Sentences, {"backend": "rules"}),
    "spacy": (Sentences, {"backend": "spacy"}),
    "stride": (segmenters.Stride, {"length": 100}),
}
_KINDS = ("code", "proof", "prose", "text", *ROUTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the command line says about the segmenter; checked before a file is read."""

    segmenter: str | None = None
    kind: str | None = None
    language: str | None = None

    def __post_init__(self) -> None:
        if self.segmenter is not None:
            built(self.segmenter)
        if self.kind is not None and self.kind not in _KINDS:
            raise UserError(f"--kind: there is no {self.kind!r}; {nearest(self.kind, _KINDS)}")
        if self.language and route_of_language(self.language, is_code=True) is None:
            try:
                language_named(self.language)
            except ValueError as fault:
                raise UserError(f"--language: {fault}") from None

    def of(self, text: str, name: str) -> tuple[str, str, Segmenter]:
        """What was chosen for a text, why, and the segmenter, showing two levels if it has them."""
        meta = {"language": self.language} if self.language else {}
        path = None if name == "-" else name
        if self.segmenter is not None:
            own = built(self.segmenter)
            chosen = own.choose(text=text, kind=self.kind, name=path, meta=meta)
            return self.segmenter, "as asked", chosen
        auto = built("auto")
        assert isinstance(auto, Auto)
        # A language that is asked for decides before the name of the file.
        told: Mapping[str, Any] = {
            "text": text,
            "kind": "code" if self.language and not self.kind else self.kind,
            "name": None if self.language else path,
            "meta": meta,
        }
        decision = decide(**told)
        chosen = auto.of_decision(decision, **told)
        label = decision.route
        if isinstance(chosen, Lines):
            language = chosen.language if chosen.language != "auto" else language_of_script(text)
            label = f"{label} ({language})" if language else label
            if chosen.granularity == "logical":
                chosen = dataclasses.replace(chosen, granularity="block")
        why = f"by {decision.by}" + (f": {decision.said}" if decision.said else "")
        return label, why, chosen


def built(wish: str) -> Segmenter:
    """The segmenter of a name with its parameters; ValueError says what is wrong with them."""
    name, _, rest = wish.partition(":")
    if name not in NAMES:
        raise UserError(f"--segmenter: there is no {name!r}; {nearest(name, NAMES)}")
    kind, given = NAMES[name]
    known = [field.name for field in dataclasses.fields(kind)]
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if key not in known or not equals:
            raise UserError(
                f"--segmenter {name}: there is no parameter {key!r}; {nearest(key, known)}"
                if equals
                else f"--segmenter {name}: parameters are KEY=VALUE,..., was: {pair!r}"
            )
        given = {**given, key: built(value) if key == "of" else _value(value)}
    try:
        return kind(**given)
    except (TypeError, ValueError) as fault:
        raise UserError(f"--segmenter {name}: {fault}") from None


def _value(text: str) -> Any:
    """Numbers, true and false as JSON spells them; anything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
