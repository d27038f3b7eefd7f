"""Variants of a trained model: ways to stretch it, without training, at each length of context.

A method that measures the length itself (dynamic) keeps its own factor. At a factor of 1 nothing is
stretched: every method is the model as it is.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bipe.arguments import nodes
from bipe.build import ALLOWED, PARTIAL, TARGET, find
from bipe.decoder import DecoderConfig
from bipe.encodings.base import Chain, Encoding, Fed, Flat, Scheme
from bipe.encodings.far import Far
from bipe.encodings.rope import Stretch
from bipe.extension import extend_config
from train.evals.loop import Subject

_FACTOR = "factor"


def variants(
    subject: Subject,
    methods: Mapping[str, Mapping[str, Any] | None],
    *,
    units: Sequence[str],
    factor: float | None,
    allowed: tuple[str, ...] = ALLOWED,
) -> Iterator[tuple[Subject, str]]:
    """Yield the variants of a model, each with the reason why a method does not fit, or "".

    methods: descriptions by name; None for the model as it is. units: what the original length
    counts. factor: None for length / training row. A variant is named "yarn (segments)", or
    "rerope" where both units give equal models. A model that was trained with a stretch takes no
    other.
    """
    config = subject.config

    def stretched(description: Mapping[str, Any], unit: Any, length: int) -> DecoderConfig:
        longer = length > subject.row_length
        times = (length / subject.row_length if factor is None else factor) if longer else 1.0
        described = {key: value for key, value in description.items() if key != PARTIAL}
        if _scales(described, allowed):
            described[_FACTOR] = times
        # Even at a factor of 1: an impossible method is refused at each length.
        notes = subject.run.notes
        done = extend_config(config, described, notes=notes, unit=unit, allowed=allowed)
        return done.config if times > 1 else config

    for name, description in methods.items():
        if description is None:
            yield replace(subject, variant=name), ""
            continue
        if _is_stretched(config.encoding):
            yield replace(subject, variant=name), "the model already has a stretch"
            continue
        by_unit: dict[str, Mapping[int, DecoderConfig]] = {}
        for unit in units if _has_segments(config.encoding, allowed) else ["tokens"]:
            try:
                by_unit[unit] = {at: stretched(description, unit, at) for at in subject.lengths}
            except ValueError as reason:
                yield replace(subject, variant=f"{name} ({unit})"), str(reason)
        first = next(iter(by_unit.values()), {})
        if len(by_unit) > 1 and all(configs_of == first for configs_of in by_unit.values()):
            by_unit = {"": first}
        for unit, configs in by_unit.items():
            named = f"{name} ({unit})" if unit else name
            yield replace(subject, variant=named, configs=configs), ""


def _is_stretched(encoding: Any) -> bool:
    """Return whether a description has a stretch or a far method."""
    values = (node.get(key) for _, node in nodes(encoding, "") for key in ("stretch", "far"))
    return any(value is not None for value in values)


def _scales(description: Mapping[str, Any], allowed: tuple[str, ...]) -> bool:
    kind = find(description[TARGET], Stretch | Far, allowed=allowed)
    dynamic = bool(getattr(kind, "dynamic", False))
    return _FACTOR in inspect.signature(kind).parameters and not dynamic


def _has_segments(node: Any, allowed: tuple[str, ...]) -> bool:
    kind = find(node[TARGET], Encoding | Scheme, allowed=allowed)
    if kind is Chain:
        return any(_has_segments(link, allowed) for link in node["links"])
    return issubclass(kind, Fed) and kind is not Flat
