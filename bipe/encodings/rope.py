"""Rotary position embedding (RoPE; Su et al., RoFormer, 2104.09864, eq. 34).

    score(i, j) = (R_id(i) q_i) . (R_id(j) k_j),   angle of pair p = id * theta^(-2p / head_width)

`Bilevel(inter=RoPE)`, over segment indices, is BiPE-RoPE (2401.16421, eq. 3). bipe/extension has
the strategies that change the frequencies for longer contexts. Forms of it in the literature:

    partial rotary   part=(0, 0.25): the first quarter of a head rotates, as if it were the head
                     (GPT-NeoX, 2204.06745)
    p-RoPE           pairs=(0, 0.75): the slowest quarter is not rotated (Barbero, 2410.06205)
    BilevelRoPE      Bilevel(intra=RoPE(part=(0, 0.5)), inter=RoPE(part=(0.5, 1)))
    HiRoPE           Bilevel(intra=RoPE(pairs=(0, 0.5)), inter=RoPE(pairs=(0.5, 1))): the pairs keep
                     the frequencies of plain RoPE, so that its checkpoints work without training
                     (Zhang et al., 2403.19115; hirope.py has its window of plain positions)
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bipe.arguments import Bounded, require, require_at_least
from bipe.encodings.base import Encoding
from bipe.encodings.far import Ids
from bipe.rotation import PartRotation, PlaneRotation, Rotation

# theta^(-2p / head_width), fastest first, float64 radians per position.
InvFreq = Float[Tensor, " pair"]
Length = Int[Tensor, " ..."] | None
Stretched = tuple[Float[Tensor, "... pair"], float | Tensor]
# Two shares of a whole, between which something lies: (0, 0.5) is the first half.
Shares = Sequence[float]
ALL: Shares = (0.0, 1.0)
_SLACK = 1e-6  # of shares such as 1/3


class Stretch(Bounded, ABC):
    """A frozen dataclass that changes rotary frequencies; if `dynamic`, according to the length."""

    dynamic: ClassVar[bool] = False

    @abstractmethod
    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        """Return new frequencies and a factor on both cosines and sines.

        length: positions in use, for dynamic strategies; None: at most the original length. Shape
        ``(...)`` gives frequencies ``(..., pair)`` and a factor ``(..., 1)`` or a number.
        """


def inverse_frequencies(*, width: int, theta: float) -> InvFreq:
    """Return theta^(-2p / width) for p = 0 .. width / 2 - 1, in float64 radians per position."""
    require(theta > 0, "above 0", theta=theta)
    return theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def span_of(shares: Shares, *, name: str, whole: int, step: int = 1) -> slice:
    """Return the features or pairs of `whole` between two shares of it; ValueError if not whole.

    step: of what their bounds must be multiples. name: of the parameter, for messages.
    """
    first, last = (share * whole for share in shares) if len(shares) == 2 else (-1, -1)
    start, stop = round(first), round(last)
    exact = max(abs(first - start), abs(last - stop)) < _SLACK * whole
    rule = f"two increasing fractions from 0 to 1, multiples of {step}/{whole}"
    inside = 0 <= start < stop <= whole and start % step == stop % step == 0
    require(exact and inside, rule, **{name: tuple(shares)})
    return slice(start, stop)


class RoPE(Encoding):
    """Rotates queries and keys by angles proportional to their ids.

    interleaved: which features form pairs, see `PlaneRotation`; halves in LLaMA checkpoints.
    part: the features that rotate, as two fractions of the head; frequencies are those of a head
        of that width. pairs: the rotated pairs among these, fastest first, as two fractions.
    stretch: changes the frequencies. A dynamic one depends on the number of ids per document, which
        a cache must know beforehand (`Lengths`); in packed rows each document has its own.
    """

    frequencies: Tensor
    moves: Tensor  # 1 for each pair that turns, else 0

    def __init__(
        self,
        *,
        head_width: int,
        theta: float = 10000.0,
        interleaved: bool = False,
        part: Shares = ALL,
        pairs: Shares = ALL,
        stretch: Stretch | None = None,
    ) -> None:
        super().__init__()
        require_at_least(2, head_width=head_width)
        require(head_width % 2 == 0, "even", head_width=head_width)
        self.features = span_of(part, name="part", whole=head_width, step=2)
        width = self.features.stop - self.features.start
        moves = torch.zeros(width // 2, dtype=torch.float64)
        self.pairs = span_of(pairs, name="pairs", whole=width // 2)
        moves[self.pairs] = 1.0
        self.constant("moves", moves)
        self.whole = width == head_width
        frequencies = inverse_frequencies(width=width, theta=theta)
        self.attention_factor: float | Tensor = 1.0
        self.counts_length = stretch is not None and stretch.dynamic
        if stretch is not None:
            # Call a dynamic one as well, so that it raises here for what it cannot take.
            slowed, factor = stretch.frequencies(frequencies, theta=theta)
            if not stretch.dynamic:
                frequencies, self.attention_factor = slowed, factor
        self.constant("frequencies", frequencies)
        self.interleaved, self.theta, self.stretch = interleaved, theta, stretch

    def turned(self) -> list[int]:
        """Return the features of a head that are rotated."""
        pairs = range(len(self.moves))[self.pairs]
        if self.interleaved:
            dims = [at for pair in pairs for at in (2 * pair, 2 * pair + 1)]
        else:
            dims = [*pairs, *(len(self.moves) + pair for pair in pairs)]
        return [self.features.start + at for at in dims]

    def rotation(self, ids: Ids, *, length: Int[Tensor, " batch #time"] | None = None) -> Rotation:
        """Return the rotation at `ids`. length: ids in use, by default the row's largest + 1."""
        if self.counts_length and length is None:
            length = ids.amax(-1, keepdim=True) + 1
        return self.turn(ids[..., None].double(), length=length)

    def turn(self, places: Float[Tensor, "batch time #pair"], *, length: Length = None) -> Rotation:
        """Return the rotation at float64 positions, which may differ between pairs."""
        frequencies, factor = self.frequencies, self.attention_factor
        if self.stretch is not None and self.counts_length:
            frequencies, factor = self.stretch.frequencies(
                frequencies, theta=self.theta, length=length
            )
        angles = places * frequencies * self.moves  # [b, t, d/2]
        cos, sin = angles.cos(), angles.sin()
        if self.stretch is not None:
            cos, sin = cos * factor, sin * factor
        turn = PlaneRotation(cos=cos, sin=sin, interleaved=self.interleaved)
        return turn if self.whole else PartRotation(features=self.features, inner=turn)
