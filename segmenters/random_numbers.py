"""SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the random numbers of `segmenters` and `train`.

Only integers modulo 2**64, so that a seed gives the same numbers on every machine and with every
version of numpy. `bipe`, which imports only torch, has its own copy for the device.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

GOLDEN = 0x9E3779B97F4A7C15
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_BLOCK = 256  # numbers made at once


def mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the finaliser of each value: every bit of it affects every bit of the result."""
    values = (values ^ (values >> np.uint64(30))) * _MULTIPLIERS[0]
    values = (values ^ (values >> np.uint64(27))) * _MULTIPLIERS[1]
    return values ^ (values >> np.uint64(31))


def stream(seed: int) -> Iterator[int]:
    """Yield the generator's 64-bit numbers for a seed, without an end."""
    steps = np.arange(1, _BLOCK + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    while True:
        states = steps + np.uint64(seed % 2**64)
        yield from mix(states).tolist()
        seed = int(states[-1])
