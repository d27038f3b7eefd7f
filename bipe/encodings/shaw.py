"""Trained vectors of clipped distances (Shaw et al., 1803.02155, eq. 3 to 5).

    score(i, j) = q_i . (k_j + a_d) / sqrt(head_width),   output_i = sum_j weight_ij (v_j + b_d)

with d = min(id(i) - id(j), longest). The original also has rows for keys behind the query, which a
decoder never reads. `values=False` leaves out b, which helps little.
"""

from torch import Tensor

from bipe.arguments import require_at_least
from bipe.encodings.content import Content, by_distance, distances


class Shaw(Content):
    """Trained vectors per distance, shared by the heads of a layer. longest: in ids."""

    def __init__(
        self, *, head_width: int, longest: int = 16, values: bool = True, n_layer: int = 1
    ) -> None:
        super().__init__(n_layer=n_layer)
        require_at_least(1, longest=longest)
        self.keys = self.parameter(longest + 1, head_width)
        self.values = self.parameter(longest + 1, head_width) if values else None

    def state(self, layer: int, q_ids: Tensor, k_ids: Tensor) -> tuple[Tensor, Tensor | None]:
        at = self.of(layer)
        return self.keys[at], None if self.values is None else self.values[at]

    def content(self, q, k, plain, q_ids, k_ids, allowed, state):  # type: ignore[no-untyped-def]
        vectors, _ = state
        scores = q @ vectors.to(q.dtype).T * q.shape[-1] ** -0.5
        return by_distance(scores, self._index(q_ids, k_ids))

    def valued(self, weights, q_ids, k_ids, state):  # type: ignore[no-untyped-def]
        _, vectors = state
        if vectors is None:
            return None
        index = self._index(q_ids, k_ids)[:, None].expand_as(weights)
        # [b, h, query, distance]: what the keys at a distance have of the weights.
        share = weights.new_zeros(*weights.shape[:3], len(vectors)).scatter_add(-1, index, weights)
        return share @ vectors.to(weights.dtype)

    def _index(self, q_ids: Tensor, k_ids: Tensor) -> Tensor:
        return distances(q_ids, k_ids).clamp(0, self.keys.shape[1] - 1)
