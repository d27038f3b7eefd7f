"""Sinusoids of distances as they are, and scores without a scale (TENER; Yan et al., 1911.04474).

    score(i, j) = q_i . k_j + u . k_j + q_i . R_d + v . R_d,   d = id(i) - id(j)

Sharper than others by sqrt(head_width), which the paper found to help small models. TENER's keys
are the hidden states themselves; here they are projected as in every encoding. Its sinusoids tell
left from right, of which a decoder uses one side.
"""

from torch import Tensor

from bipe.arguments import require
from bipe.encodings.content import Content, by_distance, distances
from bipe.encodings.rope import inverse_frequencies
from bipe.encodings.transformer_xl import waves_up_to


class TENER(Content):
    """Unscaled scores with unprojected relative sinusoids of the width of a head."""

    frequencies: Tensor

    def __init__(
        self, *, n_head: int, head_width: int, theta: float = 10000.0, n_layer: int = 1
    ) -> None:
        super().__init__(n_layer=n_layer)
        require(head_width % 2 == 0, "even", head_width=head_width)
        self.constant("frequencies", inverse_frequencies(width=head_width, theta=theta))
        self.u, self.v = self.parameter(n_head, head_width), self.parameter(n_head, head_width)

    def state(self, layer: int, q_ids: Tensor, k_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        at = self.of(layer)
        return waves_up_to(q_ids, k_ids, self.frequencies), self.u[at], self.v[at]

    def content(self, q, k, plain, q_ids, k_ids, allowed, state):  # type: ignore[no-untyped-def]
        waves, u, v = (x.to(q.dtype) for x in state)
        far = by_distance((q + v[:, None]) @ waves.T, distances(q_ids, k_ids).clamp(min=0))
        unscaled = plain * (1 - q.shape[-1] ** -0.5)
        return unscaled + (u[:, None] * k).sum(-1)[:, :, None] + far
