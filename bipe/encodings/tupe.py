"""Untied scores of positions and of words (TUPE; Ke et al., 2006.15595, eq. 7 and 8).

    TUPE-A   (q . k + (p_i U) . (p_j V)) / sqrt(2 head_width)
    TUPE-R   the same, and the bias of T5

p is a trained table, normalised, and U and V are shared by all layers. The paper unties the [CLS]
token from positions; a decoder has none. Ids beyond the table take its last row.
"""

from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor, nn

from bipe.arguments import require
from bipe.bias import Bias, KeyIds, QueryIds, TableBias, add_biases
from bipe.encodings.base import Encoding
from bipe.encodings.t5 import T5
from bipe.rotation import Scaled


class TUPE(Encoding):
    """A trained score per pair of positions. relative: TUPE-R, else TUPE-A. length: in ids."""

    relative: ClassVar[bool] = False

    def __init__(self, *, width: int, n_head: int, length: int, buckets: int | None = None) -> None:
        super().__init__()
        self.either_sign = buckets is None
        require(width % n_head == 0, f"a multiple of n_head ({n_head})", width=width)
        self.table = nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        for linear in (self.query, self.key):
            nn.init.zeros_(linear.bias)
        self.n_head = n_head
        self.t5 = None if buckets is None else T5(n_head=n_head, buckets=buckets)

    def rotation(self, ids: Int[Tensor, "batch time"]) -> Scaled:
        return Scaled(factor=2**-0.5)

    def bias(self, q_ids: QueryIds, k_ids: KeyIds) -> Bias:
        table = TableBias(function=self.of_pairs, q_ids=q_ids, k_ids=k_ids)
        bias = table if self.t5 is None else add_biases(table, self.t5.bias(q_ids, k_ids))
        assert bias is not None
        return bias

    def of_pairs(
        self, q_ids: Int[Tensor, "batch query 1"], k_ids: Int[Tensor, "batch 1 key"]
    ) -> Float[Tensor, "batch head query key"]:
        last = self.table.num_embeddings - 1
        q = self.query(self.norm(self.table(q_ids[:, :, 0].clamp(0, last))))
        k = self.key(self.norm(self.table(k_ids[:, 0].clamp(0, last))))
        q, k = (x.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for x in (q, k))
        return q @ k.transpose(-1, -2) * (2 * q.shape[-1]) ** -0.5
