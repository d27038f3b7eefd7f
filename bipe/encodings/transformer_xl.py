"""Sinusoids of distances, projected (Transformer-XL; Dai et al., 1901.02860, section 3.3).

    score(i, j) = ((q_i + u) . k_j + (q_i + v) . W R_d) / sqrt(head_width),   d = id(i) - id(j)

R_d = [sin(d w), cos(d w)], w_p = theta^(-2p / width); u, v and W are trained. The recurrence of
Transformer-XL over earlier rows is not part of the encoding.
"""

import torch
from torch import Tensor

from bipe.arguments import require
from bipe.encodings.content import Content, by_distance, distances
from bipe.encodings.rope import inverse_frequencies


class TransformerXL(Content):
    """Relative sinusoids, projected per layer. theta: of the slowest wave; width: of the model."""

    frequencies: Tensor

    def __init__(
        self,
        *,
        width: int,
        n_head: int,
        head_width: int | None = None,
        theta: float = 10000.0,
        n_layer: int = 1,
    ) -> None:
        super().__init__(n_layer=n_layer)
        require(width % 2 == 0, "even", width=width)
        of_head = width // n_head if head_width is None else head_width
        self.constant("frequencies", inverse_frequencies(width=width, theta=theta))
        self.project = self.parameter(n_head, of_head, width)
        self.make_vectors(n_head, of_head)

    def make_vectors(self, n_head: int, head_width: int) -> None:
        """Make the vectors that are added to queries."""
        self.u, self.v = (self.parameter(n_head, head_width) for _ in range(2))

    def state(self, layer: int, q_ids: Tensor, k_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the projected waves of all distances ``(head, distance, width)``, and u and v."""
        at = self.of(layer)
        waves = waves_up_to(q_ids, k_ids, self.frequencies).to(self.project.dtype)
        return torch.einsum("nc,hdc->hnd", waves, self.project[at]), self.u[at], self.v[at]

    def content(self, q, k, plain, q_ids, k_ids, allowed, state):  # type: ignore[no-untyped-def]
        waves, u, v = (x.to(q.dtype) for x in state)
        far = (q + v[:, None]) @ waves.transpose(-1, -2)
        near = (u[:, None] * k).sum(-1)[:, :, None]
        return (near + by_distance(far, distances(q_ids, k_ids).clamp(min=0))) * k.shape[-1] ** -0.5


def waves_up_to(q_ids: Tensor, k_ids: Tensor, frequencies: Tensor) -> Tensor:
    """Return [sin, cos] of the distances 0, 1, .. up to the largest, which is read on the host."""
    largest = int((q_ids.amax(-1) - k_ids.amin(-1)).max().clamp(min=0))
    angles = torch.arange(largest + 1, device=q_ids.device)[:, None] * frequencies
    return torch.cat((angles.sin(), angles.cos()), -1)
