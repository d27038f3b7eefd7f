"""What runs and encodings are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bipe.build import TARGET


def encoding_name(encoding: Any) -> str:
    """What papers call an encoding: RoPE, BiPE-RoPE + YaRN, or Bilevel(Sinusoidal, RoPE)."""
    if not isinstance(encoding, Mapping) or TARGET not in encoding:
        return "encoding"
    changes = [encoding_name(encoding[key]) for key in ("stretch", "far") if encoding.get(key)]
    return " + ".join([_unchanged_name(encoding), *changes])


def _unchanged_name(encoding: Mapping[str, Any]) -> str:
    kind = str(encoding[TARGET]).rpartition(".")[2]
    if kind == "Flat":
        return encoding_name(encoding.get("encoding"))
    if kind == "Chain":
        return f"Chain({', '.join(map(encoding_name, encoding.get('links', [])))})"
    if kind != "Bilevel":
        return kind
    intra, inter = encoding_name(encoding.get("intra")), encoding_name(encoding.get("inter"))
    return f"BiPE-{inter}" if intra == "Learned" else f"Bilevel({intra}, {inter})"


def slug(name: str) -> str:
    """A folder name: BiPE-RoPE -> bipe_rope."""
    words = "".join(c.lower() if c.isalnum() else " " for c in name).split()
    return "_".join(words) or "run"
