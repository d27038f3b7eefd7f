"""Cut text into segments of prose, code and proofs, and align the cuts with tokens.

    cuts = Sentences().cut(text)                        # int64 [segments + 1] characters
    anchors = ByteTable.from_vocabulary(vocabulary).anchors(text, ids)
    marks = mark(anchors, (cuts,))                      # uint8 [tokens]

Names are imported on first use, so that whoever needs marks alone does not load every grammar; back
ends such as spaCy are imported at the first cut that needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segmenters.align import ByteTable, anchors_from_offsets, mark, segment_ids
    from segmenters.base import Segmenter, SegmenterError
    from segmenters.code.lines import Lines
    from segmenters.controls import (
        Clauses,
        Matched,
        Newline,
        Official,
        Pattern,
        RandomCuts,
        Stride,
        official_marks,
    )
    from segmenters.documents.mixed import Mixed
    from segmenters.documents.router import Auto, route
    from segmenters.levels.files import Repository
    from segmenters.levels.given import Called, Given
    from segmenters.levels.levels import Levels
    from segmenters.proofs.coq import Coq
    from segmenters.proofs.hol import Hol
    from segmenters.proofs.informal import ArithmeticSteps, ChainOfThought
    from segmenters.proofs.isabelle import Isabelle
    from segmenters.proofs.keywords import Metamath, Mizar, Tptp
    from segmenters.proofs.latex import LaTeXProofs
    from segmenters.proofs.layout import Agda, Lean
    from segmenters.prose.sentences import Sentences
    from segmenters.streaming.id_table import IdTable
    from segmenters.streaming.online import Online, TokenMarker
    from segmenters.turns.turns import Turns

__all__ = [
    "Agda",
    "ArithmeticSteps",
    "Auto",
    "ByteTable",
    "Called",
    "ChainOfThought",
    "Clauses",
    "Coq",
    "Given",
    "Hol",
    "IdTable",
    "Isabelle",
    "LaTeXProofs",
    "Lean",
    "Levels",
    "Lines",
    "Matched",
    "Metamath",
    "Mixed",
    "Mizar",
    "Newline",
    "Official",
    "Online",
    "Pattern",
    "RandomCuts",
    "Repository",
    "Segmenter",
    "SegmenterError",
    "Sentences",
    "Stride",
    "TokenMarker",
    "Tptp",
    "Turns",
    "anchors_from_offsets",
    "mark",
    "official_marks",
    "route",
    "segment_ids",
]

_NAMES = {
    "align": "ByteTable anchors_from_offsets mark segment_ids",
    "base": "Segmenter SegmenterError",
    "code.lines": "Lines",
    "controls": "Clauses Matched Newline Official Pattern RandomCuts Stride official_marks",
    "documents.mixed": "Mixed",
    "documents.router": "Auto route",
    "levels.files": "Repository",
    "levels.given": "Called Given",
    "levels.levels": "Levels",
    "proofs.coq": "Coq",
    "proofs.hol": "Hol",
    "proofs.informal": "ArithmeticSteps ChainOfThought",
    "proofs.isabelle": "Isabelle",
    "proofs.keywords": "Metamath Mizar Tptp",
    "proofs.latex": "LaTeXProofs",
    "proofs.layout": "Agda Lean",
    "prose.sentences": "Sentences",
    "streaming.id_table": "IdTable",
    "streaming.online": "Online TokenMarker",
    "turns.turns": "Turns",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
