"""Position encodings, one file each, and the schemes that feed them ids (base.py).

Names are imported on first use, so that a model loads only the encoding that it has.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bipe.encodings.alibi import ALiBi
    from bipe.encodings.base import Bilevel, Chain, Encoding, Flat, Scheme
    from bipe.encodings.learned import Learned
    from bipe.encodings.nope import NoPE
    from bipe.encodings.rope import RoPE
    from bipe.encodings.sinusoidal import Sinusoidal

__all__ = [
    "ALiBi",
    "Bilevel",
    "Chain",
    "Encoding",
    "Flat",
    "Learned",
    "NoPE",
    "RoPE",
    "Scheme",
    "Sinusoidal",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    base = ("Bilevel", "Chain", "Encoding", "Flat", "Scheme")
    module = import_module(f"{__name__}.{'base' if name in base else name.lower()}")
    return getattr(module, name)
