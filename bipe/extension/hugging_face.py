"""Strategies as transformers writes them: `rope_scaling` (to 4) and `rope_parameters` (from 5).

    rope type    strategy
    linear       Linear          llama3      Llama3
    dynamic      DynamicNTK      longrope    LongRoPE (once: su)
    yarn         YaRN            default     none, or NTKAware: written as the larger theta it is

Here they are descriptions (build.py) in a DecoderConfig. There, positions always count tokens.
"""

from collections.abc import Mapping
from typing import Any

from bipe.build import TARGET, build
from bipe.encodings.rope import Stretch
from bipe.extension.frequencies import NTKAware

ORIGINAL = "original_max_position_embeddings"
_BETAS, _MSCALES = ("beta_fast", "beta_slow", "truncate"), ("mscale", "mscale_all_dim")
# Rope type -> our class and the parameters that have the same name here and there.
_TYPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "linear": ("Linear", ("factor",)),
    "dynamic": ("DynamicNTK", ("factor",)),
    "yarn": ("YaRN", ("factor", *_BETAS, "attention_factor", *_MSCALES)),
    "llama3": ("Llama3", ("factor", "low_freq_factor", "high_freq_factor")),
    "longrope": ("LongRoPE", ("factor", "short_factor", "long_factor", "attention_factor")),
}
_ALIASES = {"su": "longrope"}
_NAMES = ("rope_parameters", "rope_scaling")
# Keys that do not concern frequencies, or are read elsewhere.
_PASSED_OVER = {"rope_type", "type", "rope_theta", "finetuned", ORIGINAL}


def read_stretch(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a transformers config's stretch, None for plain RoPE; ValueError names a bad key."""
    names = [name for name in _NAMES if config.get(name)]
    stretches = [_read(config, name) for name in names]
    if stretches[1:] and stretches[0] != stretches[1]:
        raise ValueError(
            f"{' and '.join(names)} must agree, or one be removed; were: {stretches[0]} and "
            f"{stretches[1]}"
        )
    return stretches[0] if stretches else None


def read_theta(config: Mapping[str, Any]) -> float:
    """Return a transformers config's theta, of which older ones write a key of its own."""
    sections = [*(config.get(name) or {} for name in _NAMES), config]
    bases = (section["rope_theta"] for section in sections if section.get("rope_theta") is not None)
    return float(next(bases, 10000.0))


def _read(config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    options = {key: value for key, value in config[name].items() if value is not None}
    kind = options.get("rope_type", options.get("type", "default"))
    kind = _ALIASES.get(kind, kind)
    if options.pop("partial_rotary_factor", 1) != 1:
        raise ValueError(
            f"{name}.partial_rotary_factor must be 1: bipe rotates all features of a head"
        )
    if kind not in ("default", *_TYPES):
        types = ", ".join(("default", *_TYPES))
        raise ValueError(f"{name}.rope_type must be one of {types}, was: {kind!r}")
    target, parameters = _TYPES.get(kind, ("", ()))
    unknown = sorted(set(options) - set(parameters) - _PASSED_OVER)
    if unknown:
        raise ValueError(f"{name}: {unknown[0]!r} is not supported for {kind!r}")
    if kind == "default":
        return None
    stretch: dict[str, Any] = {TARGET: f"bipe.extension.{target}"}
    stretch |= {key: _number(options[key]) for key in parameters if key in options}
    longest = config.get("max_position_embeddings")
    if kind != "linear":
        originals = (options.get(ORIGINAL), config.get(ORIGINAL), longest)
        original = next((length for length in originals if length is not None), None)
        if original is None:
            raise ValueError(f"{name}.{ORIGINAL} or max_position_embeddings must be set")
        stretch["original_length"] = int(original)
    if "factor" not in stretch:
        if longest is None or kind == "linear":
            raise ValueError(f"{name}.factor must be set")
        stretch["factor"] = float(longest) / stretch["original_length"]
    if kind == "dynamic" and stretch["factor"] == 1:
        raise ValueError(
            f"{name}.factor of 'dynamic' must be above 1, was: 1, which changes nothing here but "
            "still scales with the length in transformers"
        )
    return stretch


def write_stretch(
    stretch: Mapping[str, Any] | None, *, theta: float, head_width: int
) -> dict[str, Any]:
    """Return `rope_parameters` for a strategy, or raise ValueError if transformers lacks it."""
    if stretch is None:
        return {"rope_type": "default", "rope_theta": theta}
    built = build(stretch, Stretch)
    if isinstance(built, NTKAware):
        larger = theta * built.factor ** (head_width / max(1, head_width - 2))
        return {"rope_type": "default", "rope_theta": larger}
    kinds = {target: kind for kind, (target, _) in _TYPES.items()}
    name = type(built).__name__
    if name not in kinds:
        raise ValueError(
            f"transformers has no rope type for {name}; it has {', '.join(kinds)} and, as a larger "
            "theta, NTKAware"
        )
    kind = kinds[name]
    written = {"rope_type": kind, "rope_theta": theta}
    values = {key: getattr(built, key) for key in _TYPES[kind][1]}
    written |= {key: _number(value) for key, value in values.items() if value is not None}
    if kind != "linear":
        written[ORIGINAL] = built.original_length
    return written


def _number(value: Any) -> Any:
    """Return numbers and lists of them as floats: JSON writes 8 for 8.0."""
    if isinstance(value, (list, tuple)):
        return [_number(part) for part in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
