"""RoPE with a decay per pair, strongest in fast pairs (XPOS; Sun et al., 2212.10554).

    score(i, j) = sum over pairs p of  zeta_p^((i - j) / scale_base) (R_i q)_p . (R_j k)_p
    zeta_p = (2p / head_width + gamma) / (1 + gamma)

A query is multiplied by zeta^(+n), a key by zeta^(-n), with n = (id - centre) / scale_base: far
from the centre one vanishes and the other overflows, with the paper's constants from about 4500 ids
in float16 and 32,000 in bfloat16 and float32, where an error is raised. Scores are the same for any
centre. It is a parameter, not half of the row as in the release: a cache needs one centre for keys
and for later queries. What decays are scores: a negative one grows.

The release turns neighbouring features (interleaved) and masks blocks beyond the training length.
"""

import math

import torch
from torch import Tensor

from bipe.arguments import require
from bipe.encodings.base import Encoding
from bipe.encodings.far import Ids
from bipe.encodings.rope import inverse_frequencies
from bipe.positions import require_at_most
from bipe.rotation import PlaneRotation, UnequalRotation

_LARGEST = 80.0  # nats of a factor in float32, with room for the features themselves


class XPos(Encoding):
    """Rotates, and scales by the distance to `centre`, in ids.

    scale_base: ids after which pair p has shrunk by zeta_p. gamma: 0.4 in the paper.
    """

    decays = True
    frequencies: Tensor
    shrinking: Tensor

    def __init__(
        self,
        *,
        head_width: int,
        theta: float = 10000.0,
        scale_base: float = 512.0,
        gamma: float = 0.4,
        centre: int = 0,
        interleaved: bool = True,
    ) -> None:
        super().__init__()
        require(head_width % 2 == 0, "even", head_width=head_width)
        require(scale_base > 0, "above 0", scale_base=scale_base)
        require(gamma > 0, "above 0", gamma=gamma)
        frequencies = inverse_frequencies(width=head_width, theta=theta)
        pair = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
        self.constant("frequencies", frequencies)
        self.constant("shrinking", ((pair + gamma) / (1 + gamma)).log() / scale_base)
        self.reach = int(_LARGEST * scale_base / -math.log(gamma / (1 + gamma)))
        self.centre, self.interleaved = centre, interleaved

    def rotation(self, ids: Ids) -> UnequalRotation:
        from_centre = ids - self.centre
        require_at_most(
            self.reach,
            from_centre.abs(),
            f"ids must be at most {self.reach} from the centre of XPos ({self.centre})",
            cure="use a larger scale_base or another centre",
        )
        angles = ids[..., None].double() * self.frequencies
        scale = (from_centre[..., None].double() * self.shrinking).exp()  # [b, t, d/2]
        cos, sin = angles.cos(), angles.sin()
        return UnequalRotation(
            of_query=self._turn(cos * scale, sin * scale),
            of_key=self._turn(cos / scale, sin / scale),
        )

    def _turn(self, cos: Tensor, sin: Tensor) -> PlaneRotation:
        return PlaneRotation(cos=cos, sin=sin, interleaved=self.interleaved)
