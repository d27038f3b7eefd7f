"""BiPE: position encodings that are aware of segments (He et al., 2401.16421)."""

from bipe.cache import Cache
from bipe.decoder import Decoder, DecoderConfig
from bipe.positions import Carry, Positions

__version__ = "0.1.0"

__all__ = ["Cache", "Carry", "Decoder", "DecoderConfig", "Positions"]
