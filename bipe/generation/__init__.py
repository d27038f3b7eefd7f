"""Generation: sessions that keep a cache and segments, sampling, beam search."""

from bipe.generation.beam import Beams, Hypothesis, beam_search
from bipe.generation.sampling import Sampling, Written, generate
from bipe.generation.session import PREFILL_CHUNK, Marker, Session

__all__ = [
    "PREFILL_CHUNK",
    "Beams",
    "Hypothesis",
    "Marker",
    "Sampling",
    "Session",
    "Written",
    "beam_search",
    "generate",
]
