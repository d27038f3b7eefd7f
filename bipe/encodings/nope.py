"""No position encoding (NoPE; 2305.19466): the causal mask alone tells order."""

from bipe.encodings.base import Encoding


class NoPE(Encoding):
    """Leaves embeddings, queries, keys and scores alone."""
