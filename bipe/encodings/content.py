"""Encodings whose bias depends on what the model computes, with parameters for each layer.

    content(q, k, plain, ...)  what is added to the scores of queries and keys (Shaw, CoPE, ...)
    gates(x, layer)            what a token takes off the scores of all earlier ones (FoX, CABLE)

Both are exact. Content is computed for a block of queries at a time, and again in the backward
pass; gates need no tensor of query x key at all. Parameters have a first axis of layers: `n_layer`
of them, or one that all layers share.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bipe.arguments import require_at_least
from bipe.bias import ContentBias, KeyIds, QueryIds
from bipe.encodings.base import Encoding


class Layered(Encoding):
    """An encoding with parameters for each layer. n_layer: of the model; 1: all layers share."""

    layered: ClassVar[bool] = True

    def __init__(self, *, n_layer: int = 1) -> None:
        super().__init__()
        require_at_least(1, n_layer=n_layer)
        self.n_layer = n_layer

    def parameter(self, *shape: int) -> nn.Parameter:
        """Return a parameter of this shape for each layer, drawn as a matrix of the model is."""
        return nn.Parameter(torch.randn(self.n_layer, *shape) * 0.02)

    def of(self, layer: int) -> int:
        return layer % self.n_layer


class Content(Layered):
    """An encoding that adds to scores, or to values, what depends on queries and keys."""

    def bias(self, q_ids: QueryIds, k_ids: KeyIds) -> ContentBias:
        return ContentBias(encoding=self, q_ids=q_ids, k_ids=k_ids)

    def state(self, layer: int, q_ids: Tensor, k_ids: Tensor) -> Any:
        """Return what `content` and `valued` need once a layer; by default the index `of` it."""
        return self.of(layer)

    @abstractmethod
    def content(
        self,
        q: Float[Tensor, "batch head query width"],
        k: Float[Tensor, "batch head key width"],
        plain: Float[Tensor, "batch head query key"],
        q_ids: QueryIds,
        k_ids: KeyIds,
        allowed: Bool[Tensor, "batch query key"],
        state: Any,
    ) -> Float[Tensor, "batch head query key"]:
        """Return what is added to plain / sqrt(width), where plain = q k^T.

        allowed: which keys each query may see; what is returned for others does not matter.
        """

    def valued(
        self, weights: Tensor, q_ids: Tensor, k_ids: Tensor, state: Any
    ) -> Float[Tensor, "batch head query width"] | None:
        """Return what is added to the values that are read with `weights`; None: nothing."""
        return None


def by_distance(
    scores: Float[Tensor, "batch head query bucket"], index: Int[Tensor, "batch query key"]
) -> Float[Tensor, "batch head query key"]:
    """Return for each query and key the score of the bucket at `index`."""
    return scores.gather(-1, index[:, None].expand(-1, scores.shape[1], -1, -1))


def distances(q_ids: QueryIds, k_ids: KeyIds) -> Int[Tensor, "batch query key"]:
    return q_ids[:, :, None] - k_ids[:, None, :]
