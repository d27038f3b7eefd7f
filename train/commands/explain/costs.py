"""What an encoding costs beyond none, and the path that attention takes with it.

Operations are counted while a small row is run, memory is reckoned as in plans of training, and
paths are those that plans and attention itself choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal

import torch

from bipe.attention.dispatch import Case, choose_attention, choose_rule
from bipe.attention.fused import bias_row_works
from bipe.build import build
from bipe.decoder import Decoder, DecoderConfig
from bipe.encodings.base import Encoding, Layers, as_scheme, far_of, levels_of
from bipe.positions import Positions
from segmenters.wording import counted, size
from train.errors import as_config_error
from train.fit.flops import counter
from train.fit.memory import Step, activations, attention_of, count_weights
from train.report.formats import short

_NOTHING = {"_target_": "bipe.encodings.NoPE"}
_RUN = 128  # tokens of the row whose operations are counted
_WRITE = "write a token"
_TRAINED = 16  # bytes of a weight, its gradient and its two moments
Device = Literal["cpu", "cuda"]


def costs(
    decoder: DecoderConfig, *, time: int, path: Any, allowed: tuple[str, ...]
) -> Iterator[str]:
    """Yield what the encoding takes beyond none, in a row of `time` tokens."""
    none = replace(decoder, encoding=_NOTHING)
    own, plain = (_kept(each, time, path, allowed) for each in (decoder, none))
    with torch.device("meta"):  # constants of encodings are computed all the same
        model = Decoder(decoder, allowed=allowed)
    count = count_weights(model).encoding
    if count:
        yield f"{count:,} parameters: {size(_TRAINED * count)} with gradients and two moments"
    tables = [each for part in model.scheme.modules() if isinstance(part, Encoding)
              for each in part.buffers(recurse=False)]  # fmt: skip
    held = sum(each.numel() * each.element_size() for each in tables)
    if held:
        yield f"{size(held)} of constants"
    yield (
        f"{size(own)} kept for the backward pass of a row of {time:,} tokens "
        f"on the CPU (without an encoding {size(plain)})"
    )
    run = min(time, _RUN)
    with_it, without = (_operations(each, run, allowed) for each in (decoder, none))
    scale = 1e3 * run * decoder.n_layer
    yield (
        f"{short((with_it - without) / scale)} kFLOP of matrix products per token and layer beyond "
        f"the {short(without / scale)} of attention without it, forward, over all pairs of {run} "
        "tokens"
    )


def paths(scheme: Any, *, lengths: Sequence[int], path: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield, per device of this machine and scheme of layers, the paths at these lengths."""
    own = scheme.schemes.items() if isinstance(scheme, Layers) else [("", as_scheme(scheme))]
    devices: list[Device] = ["cpu"]
    devices += ["cuda"] if torch.cuda.is_available() else []
    for device in devices:
        for name, each in own:
            head = f"{device}{name and ', scheme '}{name}"
            yield head, list(_paths(each, device, lengths, path))


def _paths(scheme: Any, device: Device, lengths: Sequence[int], path: Any) -> Iterator[str]:
    if path != "auto":
        _require_possible(scheme, path)
    passes = {time: _passes(scheme, time) for time in lengths}
    taken = {
        doing: [
            (time, *_taken(scheme, device, time, path, doing))
            for time, count in passes.items()
            if not count
        ]
        for doing in ("train, rows of one document", "train, packed rows", "read", _WRITE)
    }
    writing = taken.pop(_WRITE)
    yield from _joined(taken)
    for time, count in passes.items():
        if count:
            parts = f"{type(far_of(scheme)).__name__}: {counted(count, 'part')} of the keys"
            yield f"train, read: in passes at {time:,} ids ({parts} under one softmax)"
    yield from _joined({_WRITE: writing})


def _require_possible(scheme: Any, path: Any) -> None:
    """Raise ConfigError for a path that the bias cannot take; one by layer is not known here."""
    nothing = torch.zeros(1, 2, dtype=torch.uint8)
    at = Positions.from_marks(nothing, packed=False, levels=levels_of(scheme))
    bias = scheme.bias(at, at)
    leaves = () if bias is None else bias.leaves()
    if far_of(scheme) is None and not any(x.layered for x in leaves):
        with as_config_error("attention: "):
            choose_attention(bias=bias, q_at=at, k_at=at, path=path)


def _taken(scheme: Any, device: Device, time: int, path: Any, doing: str) -> tuple[str, str]:
    """Return the path of one length, and why."""
    if doing.startswith("train"):
        packed = "packed" in doing
        name, reason, *_ = attention_of(scheme, kind=device, time=time, packed=packed, path=path)
        return name, reason
    if path != "auto":
        return path, "as configured"
    _, _, kind, _ = attention_of(scheme, kind=device, time=1, packed=False, path="auto")
    rule = choose_rule(
        Case(
            device=device, bias=kind, queries="one" if doing == _WRITE else "all", time=time,
            packed=False, gradients=False, row_kernel=bias_row_works(),
        )
    )  # fmt: skip
    return rule.path, rule.reason


def _joined(doings: Mapping[str, Sequence[tuple[int, str, str]]]) -> Iterator[str]:
    """Yield a line for each stretch of lengths with one path; what is equal shares its lines."""
    same: dict[tuple[tuple[int, str, str], ...], list[str]] = {}
    for doing, found in doings.items():
        same.setdefault(tuple(found), []).append(doing)
    for found, names in same.items():
        for (name, reason), group in groupby(found, key=lambda each: each[1:]):
            times = ", ".join(f"{time:,}" for time, *_ in group)
            yield f"{'; '.join(names)}: {name} at {times} tokens ({reason})"


def _passes(scheme: Any, time: int) -> int:
    """Return the passes of attention if `time` ids count up from 0; 0: an ordinary path serves."""
    far = far_of(scheme)
    if far is None:
        return 0
    ids = torch.arange(time)[None]
    parts = far.passes(ids, ids)
    # A part that begins with the first key for all queries leaves none to those after it.
    begins = [part.first is None or not bool((part.first > 0).any()) for part in parts]
    if begins[0]:
        return 0
    return begins.index(True) + 1 if True in begins else len(parts)


def _kept(decoder: DecoderConfig, time: int, path: Any, allowed: tuple[str, ...]) -> int:
    with torch.device("meta"):
        model = Decoder(decoder, allowed=allowed)
    scheme = as_scheme(build(decoder.encoding, allowed=allowed))
    chosen, _, bias, rotated = attention_of(scheme, kind="cpu", time=time, packed=False, path=path)
    step = Step(
        decoder=decoder, weights=count_weights(model), rows=1, time=time, device="cpu",
        path=chosen, dense_bias=bias != "none", rotated=rotated, packed=False,
    )  # fmt: skip
    return activations(step)


def _operations(decoder: DecoderConfig, time: int, allowed: tuple[str, ...]) -> int:
    """Return the operations of a forward pass of one row, those that torch counts."""
    made = replace(decoder, vocab_size=1, mlp_width=1)
    model = Decoder(made, attention="eager", allowed=allowed).eval()
    model.init_weights(seed=0)
    nothing = torch.zeros(1, time, dtype=torch.uint8)
    at = Positions.from_marks(nothing, packed=False, levels=model.levels)
    with torch.no_grad(), counter() as counted:
        model(torch.zeros(1, time, dtype=torch.int64), at)
    return counted.get_total_flops()
