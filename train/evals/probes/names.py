"""Names that statements are about: two plain words with a hyphen, some hundreds of them."""

from train.evals.passkey import WORDS
from train.evals.probes.draw import Draw


def names(draw: Draw, count: int) -> list[str]:
    """Different names."""
    found = dict[str, None]()
    while len(found) < count:
        found["-".join(draw.sample(WORDS, 2))] = None
    return list(found)
