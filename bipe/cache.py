"""Keys and values of the tokens so far, with the positions of those tokens.

    cache = Cache(batch=2, capacity=4096)
    model(prompt, at, cache=cache)                       prefill, in as many chunks as wanted
    model(token, cache.next(marks), cache=cache)         a step
    cache.rewind(length)                                 drop tokens, for speculative decoding

Keys are kept as they enter the scores (rotated), with their ids, which a linear bias needs. Cached
equals uncached under a dynamic stretch too (bipe/extension), with `lengths` fixed for the request.
Unrotated keys would not give that: hidden states depend on the frequencies of their time.
"""

from dataclasses import replace

from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from bipe.positions import Carry, Lengths, Positions

_FIRST_CAPACITY = 256  # tokens


class Cache:
    """Keys and values of all layers for a batch of rows that grow together.

    batch: rows. capacity: maximum of tokens per row; with `grows`, only the first size, doubled
    when it is full. lengths: required by models with a dynamic stretch, ignored by others.
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
        # Keys and values of each layer, (batch, kv_head, capacity, width).
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._positions: Positions | None = None
        self._length = 0
        self._unbroken = True

    def __len__(self) -> int:
        """Return the tokens per row so far, padding included."""
        return self._length

    @property
    def positions(self) -> Positions | None:
        """Positions of the tokens so far; None for an empty cache."""
        if self._positions is None or not self._length:
            return None
        return self._positions[: self._length]

    def carry(self) -> Carry | None:
        """Return what the next chunk continues from; None for an empty cache."""
        return None if self.positions is None else self.positions.carry()

    def next(
        self,
        marks: UInt8[Tensor, "batch time"],
        *,
        padding: Bool[Tensor, "batch time"] | None = None,
        level: int = 0,
        levels: int = 1,
    ) -> Positions:
        """Return the positions of the next tokens of each row; see `Positions.from_marks`."""
        packed = padding is not None or not self._unbroken
        return Positions.from_marks(
            marks, carry=self.carry(), padding=padding, packed=packed, level=level, levels=levels
        )

    def extend(self, at: Positions) -> Positions:
        """Make room for tokens at `at` or raise ValueError; return the positions of all keys."""
        batch, time = at.document.shape
        if batch != self.batch:
            raise ValueError(f"the cache holds {self.batch} rows, was given {batch}")
        start, stop = self._length, self._length + time
        if stop > self.capacity:
            if not self.grows:
                raise ValueError(
                    f"the cache holds {self.capacity} tokens per row, was asked for {stop}: give "
                    "it a larger capacity, or grows=True"
                )
            self._grow(stop)
        if self._positions is None:
            empty = at.map(lambda ids: _enlarged(ids, self.capacity, 0, axis=1))
            self._positions = replace(empty, packed=True, lengths=None)
        for held, new in zip(self._positions.tensors(), at.tensors(), strict=True):
            held[:, start:stop] = new
        # One unpadded document per row needs no mask, and a later chunk continues it.
        self._unbroken = self._unbroken and not at.packed
        self._length = stop
        return replace(self._positions[:stop], packed=not self._unbroken)

    def complete(self, at: Positions) -> Positions:
        """Return `at` with the lengths of the cache; raise ValueError if it has none."""
        if self.lengths is None:
            raise ValueError(
                "the model has a dynamic stretch, whose frequencies depend on the length: give the "
                "cache the lengths to come, Cache(lengths=Lengths(token=..., inter=..., intra=...))"
            )
        return replace(at, lengths=self.lengths)

    def append(
        self,
        layer: int,
        k: Float[Tensor, "batch kv_head time width"],
        v: Float[Tensor, "batch kv_head time v_width"],
    ) -> tuple[Tensor, Tensor]:
        """Store keys and values of the tokens of the last `extend`; return all of the layer."""
        if layer not in self._layers:
            self._layers[layer] = self._enlarge(k, v, 0)
        stop, start = self._length, self._length - k.shape[2]
        keys, values = self._layers[layer]
        keys[:, :, start:stop] = k
        values[:, :, start:stop] = v
        return keys[:, :, :stop], values[:, :, :stop]

    def rewind(self, length: int) -> None:
        """Drop all tokens from index `length` on."""
        if not 0 <= length <= self._length:
            raise ValueError(f"length must be from 0 to {self._length} tokens, was: {length}")
        self._length = length
        if not length:
            self._unbroken = True

    def select(self, rows: Tensor, *, shared: int = 0) -> None:
        """Keep these rows in this order (beams repeat some); their first `shared` tokens agree."""
        if len(rows) != self.batch:
            shared = 0  # rows can be moved in place only if their number stays the same
        self.batch = len(rows)
        for layer, (keys, values) in self._layers.items():
            if shared:
                for kept in (keys, values):
                    kept[:, :, shared : self._length] = kept[rows, :, shared : self._length]
            else:
                self._layers[layer] = keys[rows], values[rows]
        if self.lengths is not None:
            names = ("token", "inter", "intra")
            self.lengths = Lengths(**{name: getattr(self.lengths, name)[rows] for name in names})
        if self._positions is not None:
            self._positions = self._positions.map(lambda ids: ids[rows])

    def _grow(self, needed: int) -> None:
        self.capacity = max(needed, 2 * self.capacity)
        for layer, held in self._layers.items():
            self._layers[layer] = self._enlarge(*held, self._length)
        if self._positions is not None:
            self._positions = self._positions.map(
                lambda ids: _enlarged(ids, self.capacity, self._length, axis=1)
            )

    def _enlarge(self, k: Tensor, v: Tensor, kept: int) -> tuple[Tensor, Tensor]:
        return tuple(_enlarged(x, self.capacity, kept, axis=2) for x in (k, v))  # type: ignore[return-value]


def _enlarged(old: Tensor, capacity: int, kept: int, *, axis: int) -> Tensor:
    """Return `capacity` zeros along an axis, the first `kept` replaced by those of `old`."""
    new = old.new_zeros(*old.shape[:axis], capacity, *old.shape[axis + 1 :])
    new.narrow(axis, 0, kept).copy_(old.narrow(axis, 0, kept))
    return new
