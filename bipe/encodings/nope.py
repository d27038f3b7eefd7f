"""No position encoding (NoPE): the causal mask alone tells order (Kazemnejad et al., 2305.19466)."""

from bipe.encodings.base import Encoding


class NoPE(Encoding):
    """Leaves embeddings, queries, keys and scores alone."""
