"""Keys and values of the tokens so far, with the positions of those tokens.

    cache = Cache(batch=2, capacity=4096)
    model(prompt, at, cache=cache)                       prefill, in as many chunks as wanted
    model(token, cache.next(marks), cache=cache)         a step
    cache.rewind(length)                                 drop tokens, for speculative decoding

Keys are kept as they enter the scores (rotated), with their ids, which a linear bias needs. Cached
equals uncached under a dynamic stretch too (bipe/extension), with `lengths` fixed for the request.
Unrotated keys would not give that: hidden states depend on the frequencies of their time.

Layers with a far method that forgets (`Far.forgets`) keep only the keys that later tokens may
attend to. They drop other keys to make room, and grow if that is not enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from bipe.arguments import require
from bipe.positions import NO_DOCUMENT, Carry, Lengths, Positions

_FIRST_CAPACITY = 256  # tokens
# Tokens by which a cache can be rewound although keys were dropped; each is held a little longer.
REWINDABLE = 64
# seen(at, queries=n): the keys that the last n tokens see, or that any later one may see.
Seen = Callable[..., Tensor]


class Cache:
    """Keys and values of all layers for a batch of rows that grow together.

    batch: rows. capacity: maximum tokens per row; with `grows`, the initial size, doubled when
    full. lengths: required by models with a dynamic stretch, ignored by others.
    drops: whether keys that no later token attends to may be dropped (`held`).
    """

    drops: ClassVar[bool] = True

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
        require(capacity is None or capacity >= 1, "at least 1 token", capacity=capacity)
        self.batch, self.grows, self.lengths = batch, grows, lengths
        self.capacity = capacity or _FIRST_CAPACITY
        # Keys and values of each layer, (batch, kv_head, capacity, width).
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._held: dict[Any, Held] = {}
        self._positions: Positions | None = None
        self._length = 0
        self._unbroken = True  # each row is one document without padding

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
        """Return the positions of the next tokens of each row; see `Positions.from_marks`.

        Waits for the device: whether a document opens among them decides the path of attention.
        """
        carry = self.carry()
        at = Positions.from_marks(marks, carry=carry, padding=padding, level=level, levels=levels)
        document = at.document[:, 0] if carry is None else carry.document
        broken = padding is not None or not self._unbroken
        return replace(at, packed=broken or bool((at.document != document[:, None]).any()))

    def extend(self, at: Positions) -> Positions:
        """Make room for tokens at `at` or raise ValueError; return the positions of all keys."""
        batch, time = at.document.shape
        if batch != self.batch:
            raise ValueError(
                f"batch must be {self.batch}, as in earlier calls with this cache, was: {batch}"
            )
        start, stop = self._length, self._length + time
        if stop > self.capacity:
            if not self.grows:
                raise ValueError(
                    f"the cache has room for {self.capacity} tokens per row, {stop} are needed: "
                    "set a larger capacity, or grows=True"
                )
            self._grow(stop)
        if self._positions is None:
            empty = at.map(lambda ids: _enlarged(ids, self.capacity, 0, axis=1))
            self._positions = replace(empty, packed=True, lengths=None)
        for old, new in zip(self._positions.tensors(), at.tensors(), strict=True):
            old[:, start:stop] = new
        # One unpadded document per row needs no mask, and a later chunk continues it.
        self._unbroken = self._unbroken and not at.packed
        self._length = stop
        return replace(self._positions[:stop], packed=not self._unbroken)

    def complete(self, at: Positions) -> Positions:
        """Return `at` with the lengths of the cache; raise ValueError if it has none."""
        if self.lengths is None:
            raise ValueError(
                "the model has a dynamic stretch, whose frequencies depend on the length: give the "
                "cache the final lengths, Cache(lengths=Lengths(token=..., inter=..., intra=...))"
            )
        return replace(at, lengths=self.lengths)

    def held(self, scheme: Any, seen: Seen) -> Held:
        """Return what layers of a scheme that forgets hold, with room for the last `extend`."""
        assert self._positions is not None
        keys = self._held.setdefault(scheme, Held(self.batch, seen))
        keys.extend(self._positions, self._length, packed=not self._unbroken)
        return keys

    @property
    def oldest(self) -> int:
        """Return the shortest length, other than 0, to which the cache can be rewound."""
        return max((keys.oldest for keys in self._held.values()), default=0)

    def append(
        self,
        layer: int,
        k: Float[Tensor, "batch kv_head time width"],
        v: Float[Tensor, "batch kv_head time v_width"],
    ) -> tuple[Tensor, Tensor]:
        """Store keys and values of the tokens of the last `extend`; return all of the layer."""
        return _stored(self._layers, layer, (k, v), room=self.capacity, stop=self._length)

    def rewind(self, length: int) -> None:
        """Drop all tokens from index `length` on."""
        if not 0 <= length <= self._length:
            raise ValueError(f"length must be from 0 to {self._length} tokens, was: {length}")
        if 0 < length < self.oldest:
            raise ValueError(
                f"length must be 0 or at least {self.oldest} tokens, was: {length}; keys that "
                "they attend to have been dropped; rewind to 0 and read the text again"
            )
        self._length = length
        if not length:
            self._unbroken = True
            self._held.clear()
        for keys in self._held.values():
            keys.rewind(length)

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
        for held in self._held.values():
            held.select(rows)
        if self.lengths is not None:
            names = ("token", "inter", "intra")
            self.lengths = Lengths(**{name: getattr(self.lengths, name)[rows] for name in names})
        if self._positions is not None:
            self._positions = self._positions.map(lambda ids: ids[rows])

    def _grow(self, needed: int) -> None:
        self.capacity = max(needed, 2 * self.capacity)
        for layer, (k, v) in self._layers.items():
            kept = (_enlarged(x, self.capacity, self._length, axis=2) for x in (k, v))
            self._layers[layer] = tuple(kept)  # type: ignore[assignment]
        if self._positions is not None:
            self._positions = self._positions.map(
                lambda ids: _enlarged(ids, self.capacity, self._length, axis=1)
            )


class Held:
    """The keys and values that later tokens may see, in all layers of one scheme.

        index    -1 0 3 6 7 8        of row 0: tokens 1, 2, 4 and 5 were dropped, 9 ... come behind
                  0 2 5 6 7 8        of row 1, which holds one more

    positions: of what is held, the tokens of the last `Cache.extend` among them; gaps at the front
    of a row are padding.
    """

    def __init__(self, batch: int, seen: Seen) -> None:
        self.batch, self.seen = batch, seen
        self.oldest = 0
        self.positions: Positions
        self._index: Int[Tensor, "batch held"] | None = None
        self._room, self._stop = 0, 0
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def __len__(self) -> int:
        return 0 if self._index is None else self._index.shape[1]

    def extend(self, at: Positions, length: int, *, packed: bool) -> None:
        """Hold the tokens up to `length` as well, dropping others if there is no room."""
        device = at.document.device
        if self._index is None:
            self._index = torch.empty(self.batch, 0, dtype=torch.long, device=device)
        new = length - self._stop
        if len(self) + new > self._room:
            self._drop(at, new)
        added = torch.arange(self._stop, length, device=device).expand(self.batch, -1)
        self._index, self._stop = torch.cat((self._index, added), 1), length
        self.positions = replace(self._at(at), packed=packed or bool((self._index[:, 0] < 0).any()))

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values of the tokens of the last `extend`; return all that are held."""
        return _stored(self._layers, layer, (k, v), room=self._room, stop=len(self))

    def rewind(self, length: int) -> None:
        """Drop the tokens from index `length` on, which no earlier one has been dropped between."""
        assert self._index is not None and length >= self.oldest
        self._index = self._index[:, : len(self) - max(0, self._stop - length)]
        self._stop = min(self._stop, length)

    def select(self, rows: Tensor) -> None:
        assert self._index is not None
        self.batch, self._index = len(rows), self._index[rows]
        self._layers = {layer: (k[rows], v[rows]) for layer, (k, v) in self._layers.items()}

    def _at(self, at: Positions) -> Positions:
        index = self._index
        assert index is not None
        gathered = at.map(lambda ids: ids.gather(1, index.clamp(min=0)).masked_fill(index < 0, 0))
        return replace(gathered, document=gathered.document.masked_fill(index < 0, NO_DOCUMENT))

    def _drop(self, at: Positions, new: int) -> None:
        """Drop what no later token sees, and make room for `new` tokens and half as many again."""
        index = self._index
        assert index is not None
        order = index  # the places of what is kept, which is all where nothing is held
        if len(self):
            kept = self.seen(self._at(at), queries=REWINDABLE) & (index >= 0)
            count = kept.sum(-1)
            if int(count.min()) < len(self):
                self.oldest = max(self.oldest, self._stop - REWINDABLE)
            # What is dropped comes first, and what is kept ends each row, in its order.
            order = kept.byte().argsort(stable=True)[:, len(self) - int(count.max()) :]
            self._index = index.gather(1, order).masked_fill(~kept.gather(1, order), -1)
        self._room = max(_FIRST_CAPACITY, 3 * (len(self) + new) // 2)
        for layer, keys in self._layers.items():
            self._layers[layer] = tuple(self._moved(x, order) for x in keys)  # type: ignore[assignment]

    def _moved(self, x: Tensor, order: Tensor) -> Tensor:
        places = order[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3])
        return _enlarged(x.gather(2, places), self._room, len(self), axis=2)


def _stored(
    layers: dict[int, tuple[Tensor, Tensor]], layer: int, new: Any, *, room: int, stop: int
) -> tuple[Tensor, Tensor]:
    """Write new keys and values before `stop`; return all that the layer has up to there."""
    if layer not in layers:
        layers[layer] = tuple(_enlarged(x, room, 0, axis=2) for x in new)  # type: ignore[assignment]
    for stored, x in zip(layers[layer], new, strict=True):
        stored[:, :, stop - x.shape[2] : stop] = x
    keys, values = layers[layer]
    return keys[:, :, :stop], values[:, :, :stop]


def _enlarged(old: Tensor, capacity: int, kept: int, *, axis: int) -> Tensor:
    """Return `capacity` zeros along an axis, the first `kept` replaced by those of `old`."""
    new = old.new_zeros(*old.shape[:axis], capacity, *old.shape[axis + 1 :])
    new.narrow(axis, 0, kept).copy_(old.narrow(axis, 0, kept))
    return new
