"""Which segmenter is followed while text is written: that of the data of the run.

A prepared data set holds the segmenter of each source as a fingerprint, from which it is built
again. One that decides by document is asked for the prompt; one that reads on cannot be followed,
and another has to be named.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bipe.build import TARGET, build
from segmenters import Segmenter, TokenMarker
from train.commands.segment_choice import built
from train.data.rows.sets import DataSets
from train.data.tokenizing.tokenizers import Tokenizer
from train.disk.manifest import plain
from train.errors import ConfigError, nearest

_CURE = "set generate.segmenter to one that is followed (newline, sentences, lines, stride ...)"


def marker_of(
    prompt: str, *, tokenizer: Tokenizer, segmenter: Segmenter, name: str | None
) -> TokenMarker:
    """Return what marks the tokens of the prompt and of all that is written behind it.

    name: of the file that the prompt is from. Raises ConfigError for a segmenter that cannot be
    followed.
    """
    chosen = segmenter.choose(text=prompt, name=name)
    skip = tokenizer.spelling.prefix(prompt) if tokenizer.spelling else 0
    try:
        return TokenMarker(segmenter=chosen, pieces=tokenizer.pieces(), skip=skip)
    except ValueError as fault:
        raise ConfigError(f"generate.segmenter: {fault}; {_CURE}") from None


def chosen_segmenter(
    sets: DataSets,
    *,
    trained_on: Sequence[str],
    source: str | None,
    wish: str | None,
    allowed: tuple[str, ...],
    section: str = "generate",
) -> Segmenter:
    """Return the segmenter that is wished for (NAME:KEY=VALUE,...), or that of a source.

    trained_on: names of the sources that a model has seen; without `source` they must agree.
    section: of the configuration that asks, for messages.
    """
    if wish is not None:
        try:
            return built(wish)
        except ValueError as fault:
            message = str(fault).replace("--segmenter", f"{section}.segmenter", 1)
            raise ConfigError(message) from None
    if source is not None and source not in sets.sources:
        raise ConfigError(
            f"{section}.source: {source!r} is no source; {nearest(source, sets.sources)}"
        )
    names = [source] if source else [name for name in trained_on if name in sets.sources]
    found: dict[str, Mapping[str, Any]] = {}
    for name in names or sets.sources:
        folder, own = sets.sources[name]
        found[name] = sets.manifests[folder]["sources"][own]["segmenter"]
    if len({json.dumps(each, sort_keys=True) for each in found.values()}) > 1:
        kinds = ", ".join(f"{name} ({each['segmenter']})" for name, each in found.items())
        raise ConfigError(
            f"{section}.source must name one of the sources, which are cut by different "
            f"segmenters: {kinds}"
        )
    name, fingerprint = next(iter(found.items()))
    return _rebuilt(fingerprint, name=name, allowed=allowed)


def _rebuilt(fingerprint: Mapping[str, Any], *, name: str, allowed: tuple[str, ...]) -> Segmenter:
    """Return the segmenter of a source by its fingerprint; warn if its rules have changed."""
    try:
        description = {TARGET: fingerprint["segmenter"], **fingerprint["parameters"]}
        made = build(description, allowed=allowed)
    except (ImportError, KeyError, TypeError, ValueError) as fault:
        raise ConfigError(
            f"the segmenter of source {name} cannot be built from its manifest ({fault}); {_CURE}"
        ) from None
    if not isinstance(made, Segmenter):
        raise ConfigError(f"the segmenter of source {name} is none: {made!r}; {_CURE}")
    if plain(made.fingerprint()) != fingerprint:
        print(
            f"bipe: source {name} was cut by an older rule or table of {type(made).__name__}; "
            "the one of today is followed",
            file=sys.stderr,
        )
    return made
