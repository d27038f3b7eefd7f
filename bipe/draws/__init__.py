"""Other ids for training: gaps and offsets, so that a model meets positions beyond its rows.

    at = PoSE(reach=8192).drawn(at, keys)

One file a method; base.py says what they share, keys.py where the randomness comes from.
"""

from bipe.draws.base import Draw
from bipe.draws.keys import row_keys
from bipe.draws.pose import PoSE
from bipe.draws.randomised import Randomised
from bipe.draws.shifted import Shifted

__all__ = ["Draw", "PoSE", "Randomised", "Shifted", "row_keys"]
