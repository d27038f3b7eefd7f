"""BiPE: position encodings that know how text is segmented (He et al., 2401.16421). torch only."""

from bipe.cache import Cache
from bipe.decoder import Decoder, DecoderConfig
from bipe.positions import Carry, Positions

__version__ = "0.1.0"

__all__ = ["Cache", "Carry", "Decoder", "DecoderConfig", "Positions"]
