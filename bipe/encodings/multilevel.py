"""Several levels: BiPE (2401.16421) with units of units, and Segatron's sums (2004.14996).

    encodings      counts                                          for example
    token          tokens in the sentence (intra)                  a learned table
    sentence       sentences in the paragraph (level0)             RoPE on a part of each head
    paragraph      paragraphs in the document (level1)             ALiBi

Names are free; units are those of the chosen levels (`rows.level`, `rows.coarser`), such as lines,
definitions and files. Two encodings would be `Bilevel`, three learned tables are
Segatron: token, sentence and paragraph embeddings, added up (section 3.1).

The last encoding may be any. Ids of the others restart in each unit: sentence 0 of the last
paragraph is nearer than sentence 5 of the first one, but has the smaller id. So these may be

    absolute (embed)       vectors of the index in the unit
    rotations, ALiBi       scores that depend on the difference of indices, of either sign

but not another bias or a rotation with a decay, which would treat an early unit with a high index
as a near or future one. Rotary encodings of several levels must rotate different features (`part`,
`pairs`): on the same ones their angles would be added, and the second token of the first sentence
would look like the first token of the second.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from bipe.encodings.base import Encoding, Fed, require_inner
from bipe.encodings.rope import RoPE
from bipe.positions import Level

MOST = 7  # levels that marks have bits for


class Multilevel(Fed):
    """A scheme: `encodings` by name, the first counts tokens, each next the units before it.

    Raises ValueError for combinations without a meaning, see above. Far methods and dynamic
    stretches are not supported, since they need the final number of units.
    """

    far = None

    def __init__(self, *, encodings: Mapping[str, Encoding]) -> None:
        super().__init__()
        if not 3 <= len(encodings) <= MOST + 1:
            raise ValueError(
                f"encodings must have 3 to {MOST + 1} entries, from tokens to the coarsest units "
                f"(use Flat for one, Bilevel for two), was: {len(encodings)}"
            )
        self.encodings = nn.ModuleDict(encodings)
        self.levels = len(encodings) - 1
        self.level = f"level{self.levels - 1}"
        for name, encoding in [*encodings.items()][:-1]:
            require_inner(name, encoding, unit="unit", last="the last encoding")
        for name, encoding in encodings.items():
            if encoding.counts_length:
                raise ValueError(
                    f"{name}: a dynamic stretch needs the final number of units, which is known for"
                    " tokens and segments only: choose a fixed stretch, such as yarn"
                )
        _require_apart({k: v for k, v in encodings.items() if isinstance(v, RoPE)})

    def fed(self) -> dict[Level, Encoding]:
        levels = ("intra", *(f"level{number}" for number in range(self.levels)))
        return dict(zip(levels, self.encodings.values(), strict=True))  # type: ignore[arg-type]


def _require_apart(ropes: Mapping[str, RoPE]) -> None:
    turned: dict[Any, str] = {}
    for name, rope in ropes.items():
        for feature in rope.turned():
            if (other := turned.setdefault(feature, name)) != name:
                raise ValueError(
                    f"{other} and {name}: both rotate feature {feature} of the heads, so their "
                    "angles would be added; give each RoPE its own part, such as part=[0.0, 0.5] "
                    "and part=[0.5, 1.0]"
                )
