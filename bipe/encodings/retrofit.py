"""Encodings between tokens and segments, which start as the RoPE of a trained model, bit for bit.

    angle of pair p = (token + m_p * (step * segment - token)) * frequency_p

With m = 0 and a table of zeros this is the RoPE of the model; with m = 1 it is BiPE-RoPE
(2401.16421, eq. 3 and 4) whose segments count `step` tokens each.

    GatedBiPE       a gate m_p per rotary pair is learned, initialised to 0
    AnnealedBiPE    m goes from 0 to 1 in training, and is 1 otherwise

bipe/extension/retrofit.py builds them from the RoPE of a model.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from bipe.arguments import require, require_at_least
from bipe.bias import Bias
from bipe.encodings.learned import Absolute
from bipe.encodings.rope import RoPE
from bipe.positions import Level, Positions
from bipe.rotation import Rotation


class _Between(nn.Module, ABC):
    """A scheme: `intra` adds vectors of places in a segment, `inter` turns.

    step: tokens that a segment counts for. ValueError for a dynamic stretch, which counts one kind
    of ids.
    """

    level: Level = "token"
    far = None

    def __init__(self, *, intra: Absolute, inter: RoPE, step: float) -> None:
        super().__init__()
        require_at_least(0, step=step)
        if inter.counts_length:
            raise ValueError(
                f"inter must not have a dynamic stretch, was: {type(inter.stretch).__name__}"
            )
        self.intra, self.inter, self.step = intra, inter, step

    @abstractmethod
    def mix(self) -> Tensor | float:
        """Return m of all pairs, or of each one: ``(pair)``."""

    def embed(self, x: Tensor, at: Positions) -> Tensor:
        return self.intra.embed(x, at.intra)

    def rotation(self, at: Positions) -> Rotation:
        token, segment = (ids[..., None].double() for ids in (at.token, at.inter))
        return self.inter.turn(token + self.mix() * (self.step * segment - token))

    def bias(self, q_at: Positions, k_at: Positions) -> Bias | None:
        return None


class GatedBiPE(_Between):
    """Each rotary pair learns how far it moves from tokens to segments."""

    def __init__(self, *, intra: Absolute, inter: RoPE, step: float) -> None:
        super().__init__(intra=intra, inter=inter, step=step)
        self.gate = nn.Parameter(torch.zeros(len(inter.moves)))

    def mix(self) -> Tensor:
        return self.gate.double()


class AnnealedBiPE(_Between):
    """All pairs move from tokens to segments in training. over: share of the steps."""

    def __init__(self, *, intra: Absolute, inter: RoPE, step: float, over: float = 0.8) -> None:
        super().__init__(intra=intra, inter=inter, step=step)
        require(0 < over <= 1, "above 0 and at most 1", over=over)
        self.over, self._mix = over, 1.0

    def anneal(self, done: float) -> None:
        """Set m; done: the share of training that is over, 0 in the first step, 1 in the last."""
        self._mix = min(1.0, done / self.over)

    def mix(self) -> float:
        return self._mix
