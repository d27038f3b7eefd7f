"""What an encoding costs beyond none, and the path that attention takes with it.

Operations and the bytes kept for the backward pass are counted while a small row is run on the CPU;
paths are those that attention itself chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal

import torch
from torch import Tensor

from bipe.attention.dispatch import Case, bias_kind, choose_attention, choose_rule
from bipe.attention.fused import bias_row_works
from bipe.decoder import Decoder, DecoderConfig
from bipe.encodings.base import Encoding, Layers, as_scheme, far_of, levels_of
from bipe.positions import Positions
from segmenters.wording import counted, size
from train.commands.explain.counter import counter
from train.errors import as_config_error
from train.report.formats import short

_NOTHING = {"_target_": "bipe.encodings.NoPE"}
_RUN = 128  # tokens of the row that is run
# What attention is asked for: the fields of its cases.
_WRITING = {"write a token": {"packed": False, "queries": "one", "gradients": False}}
_READING = {
    "train, rows of one document": {"packed": False, "queries": "all", "gradients": True},
    "train, packed rows": {"packed": True, "queries": "all", "gradients": True},
    "read": {"packed": False, "queries": "all", "gradients": False},
}
_TRAINED = 16  # bytes of a weight, its gradient and its two moments
Device = Literal["cpu", "cuda"]
Choice = tuple[int, str, str]  # a length, the path of attention, and why


def costs(
    decoder: DecoderConfig, *, time: int, path: Any, allowed: tuple[str, ...]
) -> Iterator[str]:
    """Yield what the encoding takes beyond none, in a row of at most `time` tokens."""
    with torch.device("meta"):  # constants of encodings are computed all the same
        scheme = Decoder(decoder, allowed=allowed).scheme
    count = sum(parameter.numel() for parameter in scheme.parameters())
    if count:
        yield f"{count:,} parameters: {size(_TRAINED * count)} with gradients and two moments"
    buffers = [buffer for part in scheme.modules() if isinstance(part, Encoding)
               for buffer in part.buffers(recurse=False)]  # fmt: skip
    if constants := sum(buffer.numel() * buffer.element_size() for buffer in buffers):
        yield f"{size(constants)} of constants"
    run = min(time, _RUN)
    none = replace(decoder, encoding=_NOTHING)
    with as_config_error("attention: "):
        kept = _kept(decoder, run, path, allowed)
    plain = _kept(none, run, "auto", allowed)
    yield (
        f"{size(kept)} kept for the backward pass of a row of {run:,} tokens on the CPU (without "
        f"an encoding {size(plain)})"
    )
    beyond, plain = (_operations(model, run, allowed) for model in (decoder, none))
    scale = 1e3 * run * decoder.n_layer
    yield (
        f"{short((beyond - plain) / scale)} kFLOP of matrix products per token and layer beyond "
        f"the {short(plain / scale)} of attention without it, forward, over all pairs of {run} "
        "tokens"
    )


def _row(decoder: DecoderConfig, time: int, allowed: tuple[str, ...], **path: Any) -> Decoder:
    """Run a row of one document through a model without a vocabulary, and return the model."""
    model = Decoder(replace(decoder, vocab_size=1), allowed=allowed, **path).eval()
    model.init_weights(seed=0)
    nothing = torch.zeros(1, time, dtype=torch.uint8)
    at = Positions.from_marks(nothing, packed=False, levels=model.levels)
    model(torch.zeros(1, time, dtype=torch.int64), at)
    return model


def _kept(decoder: DecoderConfig, time: int, path: Any, allowed: tuple[str, ...]) -> int:
    """Return the bytes of what autograd keeps of a row, but for the weights."""
    kept: dict[int, torch.UntypedStorage] = {}  # alive, so that no address is used again

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with torch.enable_grad(), hooks:
        model = _row(decoder, time, allowed, attention=path)
    for weight in (*model.parameters(), *model.buffers()):
        kept.pop(weight.untyped_storage().data_ptr(), None)
    return sum(storage.nbytes() for storage in kept.values())


def _operations(decoder: DecoderConfig, time: int, allowed: tuple[str, ...]) -> int:
    """Return the operations of a forward pass of one row, those that torch counts."""
    with torch.no_grad(), counter() as operations:
        _row(replace(decoder, mlp_width=1), time, allowed, attention="eager")
    return operations.get_total_flops()


def paths(scheme: Any, *, lengths: Sequence[int], path: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield, per device of this machine and scheme of layers, the paths at these lengths."""
    schemes = scheme.schemes.items() if isinstance(scheme, Layers) else [("", as_scheme(scheme))]
    devices: list[Device] = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    for device in devices:
        for name, part in schemes:
            head = f"{device}{name and ', scheme '}{name}"
            yield head, list(_paths(part, device, lengths, path))


def _paths(scheme: Any, device: Device, lengths: Sequence[int], path: Any) -> Iterator[str]:
    if path != "auto":
        _require_possible(scheme, path)
    passes = {time: _passes(scheme, time) for time in lengths}

    def chosen(doings: Mapping[str, Any]) -> dict[str, list[Choice]]:
        return {
            doing: [(time, *_chosen(scheme, device, time, path, fields))
                    for time, count in passes.items() if not count]
            for doing, fields in doings.items()
        }  # fmt: skip

    yield from _joined(chosen(_READING))
    for time, count in passes.items():
        if count:
            parts = f"{type(far_of(scheme)).__name__}: {counted(count, 'part')} of the keys"
            yield f"train, read: in passes at {time:,} ids ({parts} under one softmax)"
    yield from _joined(chosen(_WRITING))


def _bias(scheme: Any) -> Any:
    nothing = torch.zeros(1, 2, dtype=torch.uint8)
    at = Positions.from_marks(nothing, packed=False, levels=levels_of(scheme))
    return at, scheme.bias(at, at)


def _require_possible(scheme: Any, path: Any) -> None:
    """Raise ConfigError for a path that the bias cannot take; one by layer is not known here."""
    at, bias = _bias(scheme)
    leaves = () if bias is None else bias.leaves()
    if far_of(scheme) is None and not any(leaf.layered for leaf in leaves):
        with as_config_error("attention: "):
            choose_attention(bias=bias, q_at=at, k_at=at, path=path)


def _chosen(
    scheme: Any, device: Device, time: int, path: Any, fields: Mapping[str, Any]
) -> tuple[str, str]:
    """Return the path of one length, and why."""
    if path != "auto":
        return path, "as configured"
    bias, row_kernel = bias_kind(_bias(scheme)[1]), bias_row_works()
    rule = choose_rule(Case(device=device, bias=bias, time=time, row_kernel=row_kernel, **fields))
    return rule.path, rule.reason


def _joined(doings: Mapping[str, Sequence[Choice]]) -> Iterator[str]:
    """Yield a line for each stretch of lengths with one path; what is equal shares its lines."""
    same: dict[tuple[Choice, ...], list[str]] = {}
    for doing, chosen in doings.items():
        same.setdefault(tuple(chosen), []).append(doing)
    for chosen, names in same.items():
        for (name, reason), group in groupby(chosen, key=lambda choice: choice[1:]):
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
