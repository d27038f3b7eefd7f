"""No position encoding (NoPE; 2305.19466): only the causal mask gives the order."""

from bipe.encodings.base import Encoding


class NoPE(Encoding):
    """An encoding that changes nothing."""
