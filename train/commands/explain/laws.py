"""What every encoding must keep to, tried on a model of its sizes: for encodings of one's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from bipe.cache import Cache
from bipe.decoder import Decoder, DecoderConfig
from bipe.encodings.base import Fed, as_scheme, counts_length, far_of, has_hook
from bipe.positions import DOCUMENT_BIT, SEGMENT_BIT, Positions

_TOKENS, _SHIFT = 40, 7
_READ = (0, 17, 18, 19, 20, 36, 40)  # tokens before and after each call with a cache
_VOCABULARY, _MLP = 64, 8
_STD = 0.2  # of weights: large, so that what is wrong shows
_SAME = 1e-5  # of the largest output; hooks may compute in float32
_MOST_WEIGHTS = 50e6
# What each says, and what to do where it is broken.
_LAWS = {
    "forward": ("outputs are numbers", "look for infinities"),
    "causal": ("no output depends on later tokens", "hooks may only look back"),
    "packed": ("documents in one row are as each of them alone", "read ids, not places in a row"),
    "cached": (
        "tokens read one by one, as bipe generate does, are as all at once",
        "a hook may depend on its arguments alone, and treat a token without looking at others",
    ),
    "relative": ("outputs stay when ids are shifted", "set relative = False"),
}


@torch.no_grad()
def laws(decoder: DecoderConfig, *, allowed: tuple[str, ...]) -> Iterator[str]:
    """Yield for each law whether the encoding keeps to it, or how it does not."""
    small = replace(decoder, vocab_size=_VOCABULARY, mlp_width=_MLP, init_std=_STD)
    with torch.device("meta"):
        weights = sum(weight.numel() for weight in Decoder(small, allowed=allowed).parameters())
    if weights > _MOST_WEIGHTS:
        yield "not tried in a model of this size: add model=small"
        return
    model = Decoder(small, allowed=allowed).double().eval()
    if counts_length(model.scheme):
        yield "not tried: outputs depend on the length of the document"
        return
    model.init_weights(seed=0)
    for name, difference in _tries(model):
        try:
            share = difference()
        except (ArithmeticError, IndexError, RuntimeError, ValueError) as error:
            yield f"{name}: FAILS: {str(error).strip().splitlines()[0]}"
            return
        law, cure = _LAWS[name]
        broken = f"BROKEN by {share:.2g} of the largest output (the law: {law}); {cure}"
        yield f"{name}: {f'holds: {law}' if share < _SAME else broken}"


def _tries(model: Decoder) -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the laws that apply: each gives the largest difference, as a share of outputs."""
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(_VOCABULARY, (2, _TOKENS), generator=draw)
    marks = torch.zeros(2, _TOKENS, dtype=torch.uint8)
    for level in range(model.levels):
        opens = torch.rand(2, _TOKENS, generator=draw) < 0.2
        marks |= opens.to(torch.uint8) << (SEGMENT_BIT + level)
    marks[:, 0] |= 1 << DOCUMENT_BIT

    def positions(marks: Tensor, *, packed: bool = False) -> Positions:
        return Positions.from_marks(marks, packed=packed, levels=model.levels)

    @functools.cache
    def whole() -> Tensor:
        return model(tokens, positions(marks))

    def share(outputs: Tensor, until: int = _TOKENS) -> float:
        difference = (outputs - whole())[:, :until].abs().max()
        return float(difference / whole().abs().max())

    def causal() -> float:
        half = _TOKENS // 2
        later = torch.arange(_TOKENS) >= half
        others = torch.where(later, tokens.flip(0), tokens)
        others_marks = torch.where(later, marks.flip(0), marks)
        return share(model(others, positions(others_marks)), until=half)

    def packed() -> float:
        row = model(tokens.reshape(1, -1), positions(marks.reshape(1, -1), packed=True))
        return share(row.reshape(whole().shape))

    def cached() -> float:
        cache = Cache(batch=2, capacity=_TOKENS)
        parts = []
        for begin, end in pairwise(_READ):
            at = cache.next(marks[:, begin:end], levels=model.levels)
            parts.append(model(tokens[:, begin:end], at, cache=cache))
        return share(torch.cat(parts, 1))

    def relative() -> float:
        at = positions(marks)
        ids: dict[str, Any] = {level: at.ids(level) + _SHIFT for level in shifted}
        return share(model(tokens, replace(at, **ids)))

    yield "forward", lambda: share(whole())
    yield from (("causal", causal), ("packed", packed), ("cached", cached))
    if shifted := _relative_levels(model.scheme):
        yield "relative", relative


def _relative_levels(scheme: Any) -> list[str]:
    """Return the levels whose ids an encoding says that it may be shifted in."""
    scheme = as_scheme(scheme)
    if not isinstance(scheme, Fed) or far_of(scheme) is not None:
        return []
    return [
        level
        for level, encoding in scheme.fed().items()
        if level in ("token", "inter")
        and encoding.relative
        and not has_hook(type(encoding), "embed")
    ]
