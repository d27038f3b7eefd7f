"""Other ids for training: gaps and offsets, so that a model meets positions beyond its rows.

    at = PoSE(reach=8192).drawn(at, keys)

One file a method; base.py says what they share, keys.py where the randomness comes from.
"""

from bipe.random_positions.base import Draw
from bipe.random_positions.keys import row_keys
from bipe.random_positions.pose import PoSE
from bipe.random_positions.randomised import Randomised
from bipe.random_positions.shifted import Shifted

__all__ = ["Draw", "PoSE", "Randomised", "Shifted", "row_keys"]
