"""BiPE: position encodings that are aware of segments (He et al., 2401.16421).

Names are imported on first use, so that modules without torch (build, sealing) load quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bipe.cache import Cache
    from bipe.decoder import Decoder, DecoderConfig
    from bipe.positions import Carry, Positions

__version__ = "0.1.0"

__all__ = ["Cache", "Carry", "Decoder", "DecoderConfig", "Positions"]

_MODULES = {"Cache": "cache", "Decoder": "decoder", "DecoderConfig": "decoder"}
_MODULES |= {"Carry": "positions", "Positions": "positions"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
