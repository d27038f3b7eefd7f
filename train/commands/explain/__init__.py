"""`bipe explain encoding=...`: what an encoding is, does, costs and looks like, without data.

    bipe explain encoding=bipe_alibi model=tiny
    bipe explain encoding=bilevel encoding@encoding.inter=kerple --lengths 512,8192 --svg kerple.svg

Everything is read off the composed encoding itself: formulas and sources from the docstrings of its
modules, numbers from the objects that a training of this configuration would build.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from bipe.decoder import Decoder, DecoderConfig
from train.commands.explain import text
from train.commands.explain.costs import costs, paths
from train.commands.explain.curves import curves
from train.commands.explain.parts import about_far, parts_of
from train.config import Config, encoding_name
from train.errors import as_config_error

_VOCABULARY = 256  # where the model does not say: nothing here depends on it


def explain(
    config: Config, *, lengths: Sequence[int], svg: Path | None = None, pdf: Path | None = None
) -> None:
    """Print what there is to know of the configured encoding; draw it into files if asked."""
    decoder = _decoder(config)
    with torch.no_grad():
        lines = list(_lines(config, decoder, lengths))
        _write(lines)
        if svg is not None or pdf is not None:
            from train.commands.explain.picture import picture

            parts = parts_of(_scheme(config, decoder), n_layer=decoder.n_layer)
            drawn = picture(
                encoding_name(config.encoding), parts, curves(parts, decoder, config.row_length)
            )
            for file in (svg, pdf):
                if file is not None:
                    drawn.save(file)
                    print(f"picture: {file}")


def _lines(config: Config, decoder: DecoderConfig, lengths: Sequence[int]) -> Iterator[str]:
    scheme = _scheme(config, decoder)
    parts = parts_of(scheme, n_layer=decoder.n_layer)
    heads = f"{decoder.n_head} heads of width {decoder.head_width}"
    yield f"{encoding_name(config.encoding)}, for {decoder.n_layer} layers with {heads}"
    for part in parts:
        yield ""
        yield from text.part(part)
    for where, far in about_far(scheme):
        yield ""
        yield from text.far(where, far)
    yield ""
    yield "cost"
    yield from text.indented(costs(decoder, time=config.row_length, path=config.attention,
                                   allowed=config.allowed))  # fmt: skip
    for head, found in paths(scheme, decoder, lengths=lengths, path=config.attention):
        yield f"attention, {head}"
        yield from text.indented(found)
    yield ""
    yield from text.ids(parts)
    for curve in curves(parts, decoder, config.row_length):
        yield ""
        yield from text.chart(curve)


def _decoder(config: Config) -> DecoderConfig:
    """Return the model, whose vocabulary may be anything; ConfigError names a faulty key."""
    config.build("encoding")
    given = {} if "vocab_size" in config.model else {"vocab_size": _VOCABULARY}
    with as_config_error("model."):
        made: DecoderConfig = config.call("model", encoding=dict(config.encoding), **given)
    with as_config_error("encoding: "), torch.device("meta"):
        Decoder(made, allowed=config.allowed)
    return made


def _scheme(config: Config, decoder: DecoderConfig) -> torch.nn.Module:
    """Return the scheme as it starts: drawn with the seed of the configuration."""
    # Streams of weights are named after parameters: those of the encoding are the model's own.
    model = Decoder(decoder, allowed=config.allowed)
    model.init_weights(seed=config.seed)
    scheme: torch.nn.Module = model.scheme
    return scheme.eval()


def _write(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines))
