"""RoPE over two levels, for RoPE checkpoints (HiRoPE; Zhang et al., 2403.19115).

    angle of pair p = (id in the segment if p is among the fast pairs, else segment) * frequency_p

Frequencies are those of plain RoPE over the whole head. The nearest `window` tokens keep plain
positions, as the model was trained; beyond, both ids stay as small as segments are short and few.
Distances may be negative there: an earlier segment may contain later ids. Without a window this is
Bilevel(intra=RoPE(pairs=(0, s)), inter=RoPE(pairs=(s, 1))), the form to train. The paper's upper
level is functions; here it is segments.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor, nn

from bipe.arguments import at_least, require, require_at_least
from bipe.bias import Bias, KeyIds, QueryIds
from bipe.encodings.far import Far, Fit, Ids, Pass
from bipe.encodings.rope import RoPE
from bipe.positions import Level, Positions
from bipe.rotation import Rotation, compose


@dataclass(frozen=True, kw_only=True)
class PlainWindow(Far):
    """Two passes: the nearest `window` tokens, the query itself among them, and all before them."""

    fit: ClassVar[Fit] = {"window": (1, 0)}
    window: int = field(metadata=at_least(1))

    def passes(self, q_ids: QueryIds, k_ids: KeyIds) -> tuple[Pass, ...]:
        # Ids in a pass say that it is the far one; the scheme reads both levels from positions.
        return Pass(first=q_ids - self.window + 1), Pass(q_ids=q_ids, k_ids=k_ids)


class HiRoPE(nn.Module):
    """A scheme: fast pairs count tokens of the segment, slow ones segments.

    split: share of the pairs that are fast. window: in tokens, at most the row length of training.
    """

    level: Level = "token"

    def __init__(
        self,
        *,
        head_width: int,
        window: int | None = None,
        split: float = 0.5,
        theta: float = 10000.0,
        interleaved: bool = False,
    ) -> None:
        super().__init__()
        require_at_least(1, window=window)
        require(0 < split < 1, "above 0 and below 1", split=split)
        common: dict[str, Any] = {"theta": theta, "interleaved": interleaved}
        self.plain = RoPE(head_width=head_width, **common)
        self.fast = RoPE(head_width=head_width, pairs=(0.0, split), **common)
        self.slow = RoPE(head_width=head_width, pairs=(split, 1.0), **common)
        self.far = None if window is None else PlainWindow(window=window)

    def embed(self, x: Tensor, at: Positions) -> Tensor:
        return x

    def rotation(self, at: Positions, *, ids: Ids | None = None) -> Rotation | None:
        """Return plain RoPE for the near pass of a window, else that of both levels."""
        if self.far is not None and ids is None:
            return self.plain.rotation(at.token)
        return compose(self.fast.rotation(at.intra), self.slow.rotation(at.inter))

    def bias(
        self, q_at: Positions, k_at: Positions, *, ids: tuple[Ids, Ids] | None = None
    ) -> Bias | None:
        return None
