"""`bipe explain encoding=...`: what an encoding is, does, costs and looks like, without data.

    bipe explain encoding=bipe_alibi
    bipe explain encoding=fox --lengths 512,8192        # of rows, in tokens
    bipe explain encoding=t5 --svg FILE.svg             # or --pdf FILE.pdf: the curves
    bipe explain encoding=rope --page FILE.html --file TEXT   # a page to type texts in

Everything is read off the composed encoding itself: formulas and sources from the docstrings of its
modules, numbers from the objects that a training of this configuration would build.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bipe.decoder import Decoder, DecoderConfig
from bipe.extension import extend_config
from segmenters.wording import counted
from train.commands.explain import text
from train.commands.explain.costs import costs, paths
from train.commands.explain.curves import curves
from train.commands.explain.laws import laws
from train.commands.explain.parts import about_far, parts_of, together
from train.config import Config, encoding_name
from train.config.decoders import decoder_of
from train.disk.files import write_whole
from train.errors import ConfigError, as_config_error

_LENGTHS = "128,512,2048,8192"
_VOCABULARY = 256  # where the model does not say: nothing here depends on it


def explain(config: Config, *, study: str, options: Mapping[str, str]) -> None:
    """Print what there is to know of the configured encoding; draw it into files if asked.

    options: lengths of rows, in tokens ("512,2048"); files to write: svg, pdf, page; file: a text
    for the page to begin with.
    """
    lengths = _lengths(options.get("lengths", _LENGTHS))
    files = {name: _writable(name, options[name]) for name in ("svg", "pdf", "page")
             if name in options}  # fmt: skip
    file = Path(options["file"]) if "file" in options else None
    if file is not None and "page" not in files:
        raise ConfigError(f"--file {file}: needs --page FILE")
    if file is not None and not file.is_file():
        raise ConfigError(f"--file {file}: there is no such file")
    decoder = _decoder(config)
    name = encoding_name(decoder.encoding)
    with torch.no_grad():
        scheme = _scheme(config, decoder)
        parts = list(parts_of(scheme, decoder.n_layer))
        drawn = list(curves([*parts, *together(scheme, parts)], decoder, config.row_length))
        heads = f"{counted(decoder.n_head, 'head')} of width {decoder.head_width}"
        # A small model is run to count; its paths are not those of the lengths asked for.
        logging.getLogger("bipe.attention").setLevel(logging.WARNING)
        path, allowed = config.attention, config.allowed
        costly = [*costs(decoder, time=config.row_length, path=path, allowed=allowed)]
        served = [*paths(scheme, lengths=lengths, path=path)]  # may be refused, before a word
        far = [list(text.far(*pair)) for pair in about_far(scheme)]
        said = [f"{name}, for {counted(decoder.n_layer, 'layer')} with {heads}"]
        kept = [*laws(decoder, allowed=allowed)]
        head = "laws, tried with random weights"
        for lines in (
            *map(text.part, parts),
            *far,
            [head, *text.indented(kept)],
            ["cost", *text.indented(costly)],
        ):
            said += ["", *lines]
        for head, lines in served:
            said += [f"attention, {head}", *text.indented(lines)]
        for lines in (text.ids(parts), *map(text.chart, drawn)):
            said += ["", *lines]
    print("\n".join(line.rstrip() for line in said), flush=True)
    if files:
        from train.commands.explain import page

        for kind, target in files.items():
            if kind == "page":
                sentences = [" ".join(lines) for lines in far]
                write_whole(target, page.explorer(name, parts, sentences, decoder.head_width, file))
            else:
                page.picture(name, parts, drawn).save(target)
            print(f"{'page' if kind == 'page' else 'picture'}: {target}")


def _lengths(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ConfigError(f"--lengths must be numbers from 1 up, was: {text}")
    return tuple(sorted(set(map(int, parts))))


def _writable(name: str, given: str) -> Path:
    """Return the file of an option; ConfigError if its name or folder will not do."""
    path, suffix = Path(given), ".html" if name == "page" else f".{name}"
    if path.suffix != suffix:
        raise ConfigError(f"--{name} must name a file that ends in {suffix}, was: {path}")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"--{name} {path}: there is no folder {path.parent}")
    return path


def _decoder(config: Config) -> DecoderConfig:
    """Return the model, whose vocabulary may be anything; ConfigError names a faulty key."""
    decoder = decoder_of(config, vocab_size=config.model.get("vocab_size", _VOCABULARY))
    with as_config_error("encoding: "), torch.device("meta"):
        Decoder(decoder, allowed=config.allowed)
    if not config.stretch:
        return decoder
    # As `bipe extend stretch=...` would make it after rows of `row_length`.
    strategy = dict(config.stretch)
    unit = None if strategy.get("original_length") is not None else config.row_length
    with as_config_error("stretch: "):
        return extend_config(decoder, strategy, notes={}, unit=unit, allowed=config.allowed).config


def _scheme(config: Config, decoder: DecoderConfig) -> Any:
    """Return the scheme as it starts: drawn with the seed of the configuration."""
    # Streams of weights are named after parameters: those of the rest may be few.
    model = Decoder(replace(decoder, vocab_size=1, mlp_width=1), allowed=config.allowed)
    model.init_weights(seed=config.seed)
    return model.scheme.eval()
