"""Methods for contexts longer than in training, without training: changed distances or fewer keys.

Distances are in tokens or segments, the unit of the encoding; i is the id of a query, j that of
a key. bipe/encodings/far.py defines passes; bipe/attention/passes computes them.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool
from torch import Tensor

from bipe.arguments import at_least, require, require_at_least
from bipe.bias import KeyIds, QueryIds
from bipe.encodings.far import Far, Fit, Hook, Pass, QueryScale
from bipe.positions import Positions, document_runs


@dataclass(frozen=True, kw_only=True)
class ReRoPE(Far):
    """Distances are min(i - j, w), w the window in ids (Su, 2023; kexue.fm/archives/9708).

    log_n: the original length of log-n scaling, in ids, which the released patch adds (`LogN`).
    """

    # The author advises at most half of the original length: larger distances are rare in
    # training.
    fit: ClassVar[Fit] = {"window": (1 / 2, 1)}

    window: int = field(metadata=at_least(1))
    log_n: int | None = field(default=None, metadata=at_least(2))

    def passes(self, q_ids: QueryIds, k_ids: KeyIds) -> tuple[Pass, ...]:
        far = Pass(q_ids=_constant(self.window, q_ids), k_ids=_constant(0, k_ids))
        return _near(q_ids, self.window), far

    def scale(self, q_ids: QueryIds) -> QueryScale:
        return None if self.log_n is None else log_n_scale(q_ids, self.log_n, clip=True)


@dataclass(frozen=True, kw_only=True)
class LeakyReRoPE(ReRoPE):
    """Distances beyond a window grow more slowly (Su, 2023; kexue.fm/archives/9731).

        distance(i, j) = i - j                   within the window w
                         w + (i - j - w) / s     beyond it

    For far keys, i becomes i / s + w - w / s and j becomes j / s. factor: s, at least 1; a large
    one gives ReRoPE, 1 changes nothing.
    """

    factor: float = field(metadata=at_least(1))

    def passes(self, q_ids: QueryIds, k_ids: KeyIds) -> tuple[Pass, ...]:
        if self.factor == 1:
            return (Pass(),)
        offset = self.window * (self.factor - 1)
        far = Pass(
            q_ids=(q_ids.double() + offset) / self.factor, k_ids=k_ids.double() / self.factor
        )
        return _near(q_ids, self.window), far

    def longest(self, original: int) -> int | None:
        return int(self.window + (original - self.window) * self.factor)


@dataclass(frozen=True, kw_only=True)
class SelfExtend(Far):
    """Grouped positions for far tokens, ordinary ones for near tokens (Jin et al., 2401.01325).

        distance(i, j) = i - j                                     within the window w
                         floor(i/G) - floor(j/G) + w - floor(w/G)  beyond it

    See its eq. 3 and algorithm 1. group: G; 1 changes nothing. window: w, in ids.
    """

    # A quarter of the original length for near keys leaves three quarters for groups.
    fit: ClassVar[Fit] = {"window": (1 / 4, 1)}

    window: int = field(metadata=at_least(1))
    group: int = field(metadata=at_least(1))

    def passes(self, q_ids: QueryIds, k_ids: KeyIds) -> tuple[Pass, ...]:
        if self.group == 1:
            return (Pass(),)
        shift = self.window - self.window // self.group
        far = Pass(q_ids=q_ids // self.group + shift, k_ids=k_ids // self.group)
        return _near(q_ids, self.window), far

    def longest(self, original: int) -> int | None:
        return (original - self.window) * self.group + self.window


@dataclass(frozen=True, kw_only=True)
class DualChunk(Far):
    """Ids count inside chunks (dual chunk attention; An et al., ChunkLlama, 2402.17463).

    With chunks of s ids, an original length c >= s and m = i mod s, keys have ids j mod s, queries

        m                    for keys in the query's chunk     (eq. 3)
        min(s + m, c - 1)    for keys in the chunk before it   (eq. 7)
        c - 1                for all earlier keys              (eq. 5)

    The release places far queries one id further than the paper. chunk: s, length: c, in ids.
    """

    # Three quarters, as in section 4.1.
    fit: ClassVar[Fit] = {"chunk": (3 / 4, 1), "length": (1, 0)}

    chunk: int = field(metadata=at_least(1))
    length: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self.chunk, length=self.length)

    def passes(self, q_ids: QueryIds, k_ids: KeyIds) -> tuple[Pass, ...]:
        inside, k_inside = q_ids % self.chunk, k_ids % self.chunk
        start = q_ids - inside
        before = (inside + self.chunk).clamp(max=self.length - 1)
        return (
            Pass(first=start, q_ids=inside, k_ids=k_inside),
            Pass(first=start - self.chunk, q_ids=before, k_ids=k_inside),
            Pass(q_ids=_constant(self.length - 1, q_ids), k_ids=k_inside),
        )


@dataclass(frozen=True, kw_only=True)
class Clip(Far):
    """Distances are min(i - j, c) (position clipping; Shaw et al., 1803.02155, 3.2).

    As ReRoPE, but also for biases (a far key costs ALiBi at most slope times c), and by default at
    the largest distance of training. distance: c, in ids.
    """

    serves: ClassVar[tuple[Hook, ...]] = ("rotation", "bias")

    distance: int = field(metadata=at_least(1))

    def passes(self, q_ids: QueryIds, k_ids: KeyIds) -> tuple[Pass, ...]:
        far = Pass(q_ids=_constant(self.distance, q_ids), k_ids=_constant(0, k_ids))
        return _near(q_ids, self.distance + 1), far

    @classmethod
    def fitted(cls, original: int) -> dict[str, Any]:
        return {"distance": max(1, original - 1)}


@dataclass(frozen=True, kw_only=True)
class _AnyEncoding(Far):
    """A mask or a factor for any encoding. unit: None: what drives the encoding."""

    serves: ClassVar[tuple[Hook, ...]] = ()

    unit: Literal["tokens", "segments"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        choices = (None, "tokens", "segments")
        require(self.unit in choices, "tokens, segments or null", unit=self.unit)


@dataclass(frozen=True, kw_only=True)
class Window(_AnyEncoding):
    """Only keys at distances below w: i - w < j <= i (sliding window; 2004.05150, 3.1)."""

    forgets: ClassVar[bool] = True
    fit: ClassVar[Fit] = {"window": (1, 0)}

    window: int = field(metadata=at_least(1))

    def passes(self, q_ids: QueryIds, k_ids: KeyIds) -> tuple[Pass, ...]:
        return (_near(q_ids, self.window),)


@dataclass(frozen=True, kw_only=True)
class Separators(_AnyEncoding):
    """A window, and beyond it only the last token of each segment (after SepLLM; 2412.12094).

    A query at i sees a key at j <= i of its document if one of these holds:

        i - j < w                          the window, in tokens unless `unit` says otherwise
        j is among the first `sinks`       of the document, or of the part of it in the row
        the token after j opens a segment  j is the last token of its own

    A query beyond the window comes after the token that opened the next segment, so training,
    prefill and decoding use the same keys. In SepLLM separators are punctuation tokens; here they
    are segment ends, and a document of one segment keeps the sinks and the window (StreamingLLM;
    2309.17453). Ids do not change.
    """

    forgets: ClassVar[bool] = True
    fit: ClassVar[Fit] = {"window": (1, 0)}

    window: int = field(metadata=at_least(1))
    sinks: int = field(default=4, metadata=at_least(0))
    unit: Literal["tokens", "segments"] | None = "tokens"

    @property
    def reads_segments(self) -> bool:
        return True

    def passes(self, q_ids: QueryIds, k_ids: KeyIds) -> tuple[Pass, ...]:
        return _near(q_ids, self.window), Pass()

    def beyond(self, at: Positions) -> Bool[Tensor, "batch key"]:
        document, place = document_runs(at.document), torch.arange(at.inter.shape[1])
        opens = torch.ones_like(document, dtype=torch.bool)
        opens[:, 1:] = document[:, 1:] != document[:, :-1]
        # The last token of the row counts as one too: no query sees it beyond a window.
        ends = opens.roll(-1, 1)
        ends[:, :-1] |= at.inter[:, 1:] != at.inter[:, :-1]
        place = place.to(document.device)
        return ends | (place - torch.where(opens, place, 0).cummax(-1).values < self.sinks)


@dataclass(frozen=True, kw_only=True)
class Blockwise(_AnyEncoding):
    """Keys of the query's block and of the one before it (XPOS's blockwise causal attention).

        floor(i / s) - floor(j / s) <= 1

    Blocks of s ids, half of the original length, start with the document: shorter documents are
    not affected (Sun et al., 2212.10554, section 3.3, inference only).
    """

    forgets: ClassVar[bool] = True
    fit: ClassVar[Fit] = {"block": (1 / 2, 1)}

    block: int = field(metadata=at_least(1))

    def passes(self, q_ids: QueryIds, k_ids: KeyIds) -> tuple[Pass, ...]:
        return (Pass(first=q_ids - q_ids % self.block - self.block),)


@dataclass(frozen=True, kw_only=True)
class LogN(_AnyEncoding):
    """Log-n scaling: sharper scores for queries with more keys (Su, 2021; kexue.fm/archives/8823).

        score(i, j) * ln n / ln L0,   n = id of the query + 1

    original_length: L0, in ids. clip: keep the factor at least 1, as the released ReRoPE does;
    without it, as in `log_scale` of the released BiPE, scores in the first segment become 0.
    """

    fit: ClassVar[Fit] = {"original_length": (1, 2)}

    original_length: int = field(metadata=at_least(2))
    clip: bool = True

    def passes(self, q_ids: QueryIds, k_ids: KeyIds) -> tuple[Pass, ...]:
        return (Pass(),)

    def scale(self, q_ids: QueryIds) -> QueryScale:
        return log_n_scale(q_ids, self.original_length, clip=self.clip)


def log_n_scale(q_ids: QueryIds, original_length: int, *, clip: bool) -> QueryScale:
    """Return ln n / ln L0 of queries that see n ids, at least 1 with `clip`."""
    scale = (q_ids + 1).double().log() / torch.tensor(float(original_length)).double().log()
    return scale.clamp(min=1.0) if clip else scale


def _near(q_ids: QueryIds, window: int) -> Pass:
    """Return the pass over the keys at distances below `window`, at their own ids."""
    return Pass(first=q_ids - (window - 1))


def _constant(value: int, like: Tensor) -> Tensor:
    return torch.full((1, 1), value, dtype=like.dtype, device=like.device)
