"""Keys and values of the tokens so far, and where those tokens stand.

    cache = Cache(batch=2, capacity=4096)
    model(prompt, at, cache=cache)                       prefill, in as many chunks as wanted
    model(token, cache.next(marks), cache=cache)         a step
    cache.rewind(length)                                 speculative decoding takes tokens back

Keys are kept as they enter the scores (rotated), each with its ids: a linear bias needs those. A
cache of fixed capacity never moves, one that grows doubles. Positions go on from the last token
kept (`carry`), whatever the length. Under a dynamic stretch (bipe/extension) the length that it
counts with is fixed for the request, by `lengths`: so keys stay as they are, and cached equals
uncached. Keys kept unrotated would not give that: hidden states above the first layer were
computed with the frequencies of their time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from bipe.positions import Carry, Lengths, Positions

_FIRST_CAPACITY = 256  # tokens


@dataclass(slots=True)
class Layer:
    """Keys and values of one layer: ``(batch, kv_head, capacity, head_width)`` each."""

    keys: Tensor
    values: Tensor


class Cache:
    """Keys and values of all layers for a batch of rows that grow together.

    batch: rows. capacity: tokens a row that there is room for; with `grows` a first guess,
    otherwise a limit. lengths: what dynamic stretches count with from the first token on; needed by
    models that have one, ignored by others.
    """

    def __init__(
        self,
        *,
        batch: int,
        capacity: int | None = None,
        grows: bool = False,
        lengths: Lengths | None = None,
    ) -> None:
        if capacity is None and not grows:
            raise ValueError("capacity must be given, in tokens, for a cache that does not grow")
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity must be at least 1 token, was: {capacity}")
        self.batch, self.grows, self.lengths = batch, grows, lengths
        self.capacity = capacity or _FIRST_CAPACITY
        self._layers: dict[int, Layer] = {}
        self._positions: Positions | None = None
        self._length = 0
        self._unbroken = True

    def __len__(self) -> int:
        """Tokens a row so far, padding included."""
        return self._length

    @property
    def positions(self) -> Positions | None:
        """Where the tokens so far stand; None before the first."""
        if self._positions is None or not self._length:
            return None
        return self._positions[: self._length]

    def carry(self) -> Carry | None:
        """What the next chunk goes on from; None before the first."""
        return None if self.positions is None else self.positions.carry()

    def next(
        self,
        marks: UInt8[Tensor, "batch time"],
        *,
        padding: Bool[Tensor, "batch time"] | None = None,
        level: int = 0,
    ) -> Positions:
        """Positions of the tokens that come next in the document of each row, from their marks."""
        packed = padding is not None or not self._unbroken
        return Positions.from_marks(
            marks, carry=self.carry(), padding=padding, packed=packed, level=level
        )

    def extend(self, at: Positions) -> Positions:
        """Make room for tokens at `at`; the positions of all keys, these included.

        Raises ValueError if they do not fit.
        """
        batch, time = at.document.shape
        if batch != self.batch:
            raise ValueError(f"the cache holds {self.batch} rows, was given {batch}")
        start, stop = self._length, self._length + time
        if stop > self.capacity:
            if not self.grows:
                raise ValueError(
                    f"the cache holds {self.capacity} tokens a row, {stop} were asked for: give it "
                    "a larger capacity, or grows=True"
                )
            self._grow(stop)
        if self._positions is None:
            self._positions = _empty_positions(at, self.capacity)
        for name in ("document", "token", "inter", "intra"):
            getattr(self._positions, name)[:, start:stop] = getattr(at, name)
        # One unpadded document a row needs no mask; a later chunk goes on with it.
        self._unbroken = self._unbroken and not at.packed
        self._length = stop
        found = self._positions[:stop]
        return Positions(
            document=found.document,
            token=found.token,
            inter=found.inter,
            intra=found.intra,
            packed=not self._unbroken,
        )

    def complete(self, at: Positions) -> Positions:
        """Return the same positions with the lengths of the cache; raise ValueError without any."""
        if self.lengths is None:
            raise ValueError(
                "the model has a dynamic stretch, whose frequencies depend on the length: give the "
                "cache the length to come, Cache(lengths=Lengths(token=..., inter=..., intra=...))"
            )
        return replace(at, lengths=self.lengths)

    def append(
        self,
        layer: int,
        k: Float[Tensor, "batch kv_head time width"],
        v: Float[Tensor, "batch kv_head time width"],
    ) -> tuple[Tensor, Tensor]:
        """Keep the keys and values of the tokens of the last `extend`; return all of the layer."""
        if layer not in self._layers:
            self._layers[layer] = Layer(_room(k, self.capacity), _room(v, self.capacity))
        held = self._layers[layer]
        stop, start = self._length, self._length - k.shape[2]
        held.keys[:, :, start:stop] = k
        held.values[:, :, start:stop] = v
        return held.keys[:, :, :stop], held.values[:, :, :stop]

    def rewind(self, length: int) -> None:
        """Forget all tokens from `length` on."""
        if not 0 <= length <= self._length:
            raise ValueError(f"length must be from 0 to {self._length} tokens, was: {length}")
        self._length = length
        if not length:
            self._unbroken = True

    def select(self, rows: Tensor, *, shared: int = 0) -> None:
        """Keep these rows in this order, each as often as it is named: beams, finished rows.

        shared: tokens at the start that are the same in all rows, and so need not be moved.
        """
        if len(rows) != self.batch:
            shared = 0  # there are other rows than there is memory for
        self.batch = len(rows)
        for held in self._layers.values():
            if shared:
                for kept in (held.keys, held.values):
                    kept[:, :, shared : self._length] = kept[rows, :, shared : self._length]
            else:
                held.keys, held.values = held.keys[rows], held.values[rows]
        if self.lengths is not None:
            old = self.lengths
            self.lengths = Lengths(
                token=old.token[rows], inter=old.inter[rows], intra=old.intra[rows]
            )
        if self._positions is not None:
            at = self._positions
            self._positions = Positions(
                document=at.document[rows],
                token=at.token[rows],
                inter=at.inter[rows],
                intra=at.intra[rows],
            )

    def _grow(self, needed: int) -> None:
        self.capacity = max(needed, 2 * self.capacity)
        for held in self._layers.values():
            for name in ("keys", "values"):
                old = getattr(held, name)
                setattr(held, name, _room(old, self.capacity))
                getattr(held, name)[:, :, : self._length] = old[:, :, : self._length]
        if self._positions is not None:
            old_at = self._positions
            self._positions = _empty_positions(old_at, self.capacity)
            for name in ("document", "token", "inter", "intra"):
                getattr(self._positions, name)[:, : self._length] = getattr(old_at, name)[
                    :, : self._length
                ]


def _room(like: Tensor, capacity: int) -> Tensor:
    batch, head, _, width = like.shape
    return like.new_zeros(batch, head, capacity, width)


def _empty_positions(like: Positions, capacity: int) -> Positions:
    def empty(ids: Tensor) -> Tensor:
        return ids.new_zeros(ids.shape[0], capacity)

    return Positions(
        document=empty(like.document),
        token=empty(like.token),
        inter=empty(like.inter),
        intra=empty(like.intra),
    )
