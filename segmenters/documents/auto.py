"""The segmenter that each document asks for: `segmenter: auto`.

`choose` decides by kind, name, fields and text (`route`) and gives a segmenter of the route; cut
without it, a text is judged by itself. Each decision is logged, at level DEBUG, with what it was
made by; whoever counts decisions calls `decide` and `of_decision`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from segmenters.base import Segmenter
from segmenters.code.lines import Lines
from segmenters.documents.mixed import FORMATS, Mixed, require_granularity, versions_of
from segmenters.documents.route import Decision, decide
from segmenters.proofs import (
    ArithmeticSteps,
    ChainOfThought,
    Coq,
    Isabelle,
    Lean,
    Metamath,
    Mizar,
)
from segmenters.prose.sentences import Sentences

_LOG = logging.getLogger(__name__)
_SEGMENTERS: Final[Mapping[str, Segmenter]] = {
    "arithmetic": ArithmeticSteps(),
    "chain_of_thought": ChainOfThought(),
    "coq": Coq(),
    "isabelle": Isabelle(),
    "lean": Lean(),
    "lines": Lines(),
    "metamath": Metamath(),
    "mizar": Mizar(),
    "prose": Sentences(backend="rules"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Auto(Segmenter):
    """Cuts each document by the segmenter of its kind.

    `granularity` of code, as in `Mixed`.
    """

    granularity: str = "physical"

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        require_granularity(self.granularity)

    @property
    def lookahead(self) -> int | None:
        return None

    def choose(
        self,
        *,
        text: str,
        kind: str | None = None,
        name: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Segmenter:
        """The segmenter of the document's route."""
        found = decide(kind=kind, name=name, meta=meta, text=text)
        _LOG.debug("document %s of kind %s: %s", name, kind, found)
        return self.of_decision(found, text=text, kind=kind, name=name, meta=meta)

    def of_decision(
        self,
        decision: Decision,
        *,
        text: str,
        kind: str | None = None,
        name: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Segmenter:
        """The segmenter for a document whose route is decided."""
        if decision.route == "code":
            code = Lines(granularity=self.granularity, fallback=True)
            return code.choose(text=text, kind=kind, name=name, meta=meta)
        if decision.route in FORMATS:
            return Mixed(format=decision.route, granularity=self.granularity)
        return _SEGMENTERS[decision.route]

    def versions(self) -> dict[str, str]:
        """What the segmenters of all routes depend on."""
        mixed = Mixed(granularity=self.granularity)
        return versions_of({**_SEGMENTERS, "mixed": mixed})

    def _ends(self, text: str) -> Iterable[int]:
        return self.choose(text=text).cut(text)
