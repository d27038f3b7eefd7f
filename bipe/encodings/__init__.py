"""Position encodings, one file each, and the schemes that feed them ids (base.py)."""

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
