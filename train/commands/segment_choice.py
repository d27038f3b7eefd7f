"""Which segmenter `bipe segment` uses: the one that is named, or that of `segmenter: auto`.

A name is that of a file in conf/segmenter, or of a class in other words, with its parameters behind
a colon: `stride:length=100`, `lines:granularity=block,language=python`, `matched:of=lines`. Without
one each document is asked for its kind, as `bipe prepare segmenter=auto` does.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from segmenters import Auto, Lines, Segmenter, registry
from segmenters.documents.router import decide
from train.errors import UserError, as_config_error, nearest

_KINDS = ("code", "proof", "prose", "text", *registry.ROUTES)


@dataclass(frozen=True, slots=True)
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
        if self.language and registry.route_of_language(self.language, is_code=True) is None:
            with as_config_error("--language: "):
                registry.language_named(self.language)

    def of(self, text: str, name: str) -> tuple[str, str, Segmenter]:
        """Return what is chosen for a text, why, and the segmenter, with two levels if it has."""
        meta = {"language": self.language} if self.language else {}
        kind, path = self.kind, None if name == "-" else name
        if self.segmenter is not None:
            asked = built(self.segmenter).choose(text=text, kind=kind, name=path, meta=meta)
            return self.segmenter, "as asked", asked
        if self.language:  # decides before the name of the file
            kind, path = kind or "code", None
        decision = decide(text=text, kind=kind, name=path, meta=meta)
        chosen = Auto(granularity="logical").of_route(decision.route, name=path, meta=meta)
        label = decision.route
        if isinstance(chosen, Lines):
            script = registry.language_of_script(text)
            language = chosen.language if chosen.language != "auto" else script
            label = f"{label} ({language})" if language else label
            if chosen.granularity == "logical":
                chosen = dataclasses.replace(chosen, granularity="block")
        return label, f"by {decision.by}" + (decision.said and f": {decision.said}"), chosen


def built(wish: str, *, option: str = "--segmenter") -> Segmenter:
    """Return the segmenter of a name with its parameters; option: that gives them, for messages."""
    name, _, rest = wish.partition(":")
    if name not in registry.SEGMENTERS:
        raise UserError(f"{option}: there is no {name!r}; {nearest(name, registry.SEGMENTERS)}")
    given: dict[str, Any] = {}
    known = [field.name for field in dataclasses.fields(registry.segmenter_class(name))]
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if key not in known or not equals:
            raise UserError(
                f"{option} {name}: there is no parameter {key!r}; {nearest(key, known)}"
                if equals
                else f"{option} {name}: parameters are KEY=VALUE,..., was: {pair!r}"
            )
        try:  # numbers, true and false as JSON spells them; anything else is text
            given[key] = built(value, option=option) if key == "of" else json.loads(value)
        except json.JSONDecodeError:
            given[key] = value
    with as_config_error(f"{option} {name}: ", TypeError):
        return registry.make(name, **given)
