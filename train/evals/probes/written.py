"""What a model writes behind the context of a trial, scored by RULER's rules (2404.06654).

Greedy decoding with a cache; segments of what is written are followed token by token.
"""

from __future__ import annotations

from collections.abc import Sequence

from bipe import Decoder
from bipe.encodings import Flat
from bipe.generation import generate
from segmenters import TokenMarker
from train.errors import ConfigError
from train.evals.probes.draft import Kind
from train.evals.probes.layout import Trial
from train.evals.probes.text import Texts
from train.evals.scoring.ruler import postprocessed, string_match_all, string_match_part


def marker_for(model: Decoder, texts: Texts) -> TokenMarker | None:
    """What follows the segments; None for a model that asks for none.

    Raises ValueError for a segmenter that reads on, and so cannot be followed.
    """
    if isinstance(model.scheme, Flat):
        return None
    try:
        return TokenMarker(segmenter=texts.segmenter, pieces=texts.pieces)
    except ValueError as fault:
        raise ConfigError(
            f"evaluate.probing.scoring: answers cannot be written ({fault}); leave out 'write', or "
            "evaluate on data that is cut by a segmenter that can be followed"
        ) from None


def matches(
    model: Decoder, trials: Sequence[Trial], *, kind: Kind, texts: Texts
) -> list[tuple[float, str]]:
    """For each trial the share of the answers that was written, and what was written."""
    written = generate(
        model,
        [each.tokens.tolist() for each in trials],
        max_new=kind.max_new,
        marker=marker_for(model, texts),
        stop_ids=[texts.tokenizer.eos_id],
    )
    score = string_match_part if kind.any_of else string_match_all
    found = []
    for each, row in zip(trials, written, strict=True):
        text = b"".join(texts.pieces[id] for id in row.tokens).decode("utf-8", "replace")
        found.append((score([postprocessed(text)], [each.answers]) / 100, text))
    return found
