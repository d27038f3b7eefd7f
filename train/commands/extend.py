"""`bipe extend`: continue a trained run on longer rows, with or without stretching its rotation;
`bipe retrofit`: the same at its own row length, to teach a model of flat RoPE segments.

    bipe extend checkpoint=runs/mine/bipe_rope out=runs/mine stretch=yarn row_length=4096
    bipe extend checkpoint=RUN out=OUT stretch=rerope steps=0       # without training
    bipe extend checkpoint=RUN out=OUT row_length=2048              # longer rows alone

    bipe retrofit checkpoint=runs/mine/rope out=runs/mine stretch=gated
    bipe retrofit -m checkpoint=RUN out=OUT stretch=gated,swap,drope  # with a control
    bipe retrofit checkpoint=RUN out=OUT stretch=split steps=0       # without training

Model and encoding are those of the checkpoint, and so is the data unless another is named.
Under BiPE the original length of a stretch is a number of segments (docs/stretch.md). Ways of a
retrofit are strategies as well (docs/retrofit.md), so that both commands take all of them.
"""

import dataclasses
import functools
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only
from torch import Tensor

from bipe import Decoder, DecoderConfig
from bipe.build import PARTIAL, TARGET, find
from bipe.extension import STRATEGY, Extension, Retrofit, Unrecorded, extend_config
from train.commands import pretrain
from train.commands.before import needs
from train.commands.pretrain import fit_of, rows_of
from train.config import Config, slug
from train.data.rows.datamodule import LMDataModule
from train.data.rows.loader import RowLoader
from train.data.store.folder import MANIFEST, folders_of
from train.errors import ConfigError, RunError, UserError
from train.fit import runs
from train.fit.checkpoints import find_place
from train.fit.checkpoints.reading import BaseRun, find_base_run
from train.fit.handover import read_files
from train.fit.module import Adaptation
from train.fit.training import Start, train_model, write_untrained
from train.fit.watching.counts import IndexCounts, positions_of, summary_of

log = logging.getLogger("bipe")
_COUNTED, _AT_ONCE = 1_000_000, 16_384  # tokens whose positions are counted, and of a batch of them
_ROW_LENGTH = 512  # tokens, in a plan whose checkpoint is not there yet to tell
_DEFAULTS = {"model": "small", "encoding": "bipe_rope"}  # of conf/config.yaml
_Command = Literal["extend", "retrofit"]


def base_of(config: Config) -> BaseRun:
    """Return the run to start from; ConfigError for other weights than those asked for."""
    needs.require_run(config.checkpoint, key="checkpoint")
    base = find_base_run(str(config.checkpoint), key="checkpoint", allowed=config.allowed)
    if config.extend.sha256 not in (None, base.sha256):
        raise ConfigError(
            f"extend.sha256 is {config.extend.sha256}, but that of {config.checkpoint} is "
            f"{base.sha256}: its weights differ. Name the checkpoint with this sha256, or set "
            "extend.sha256=null"
        )
    return base


def settled(
    config: Config, *, base: BaseRun | None = None, notes: list[str] | None = None
) -> Config:
    """Return the configuration with what its checkpoint decides; all of it is checked.

    notes: of a plan, gets what is assumed of a checkpoint or data that are not there yet.
    """
    try:
        config = config.on(_of_checkpoint(config, base or base_of(config)))
    except UserError as fault:
        named = isinstance(config.checkpoint, str)
        if notes is None or not isinstance(fault, RunError if named else ConfigError):
            raise
        note = f"{fault}; planned for the model and encoding of the configuration"
        assumed = {"data": config.data or f"{config.out}/data"}
        if config.row_length is None:  # retrofit has the checkpoint's
            assumed["row_length"] = _ROW_LENGTH
            note += f", row_length={_ROW_LENGTH}"
        notes.append(note)
        config = config.on(assumed)
    return pretrain.settled(config, notes=notes)


def _of_checkpoint(config: Config, base: BaseRun) -> dict[str, Any]:
    """Return model, encoding, data and rows as the checkpoint decides them, by key."""
    for group, default in _DEFAULTS.items():  # those of the command line are refused earlier
        if (choice := config.choices.get(group)) not in (None, default):
            say(f"{group}={choice} of the experiment is ignored: the checkpoint sets it")
    sizes = dataclasses.asdict(base.model.config)
    target = f"{DecoderConfig.__module__}.{DecoderConfig.__qualname__}"
    decided = {
        "encoding": sizes.pop("encoding"),
        "model": {TARGET: target, PARTIAL: True} | sizes,
        "extend.sha256": base.sha256,
    }
    if config.data is None and base.data is None and config.steps and config.task is None:
        raise ConfigError(f"{config.checkpoint} does not name its training data; set data=FOLDER")
    if config.data is None:  # without steps no data is read; scrolls has examples
        decided["data"] = f"{config.out}/data" if base.data is None else base.data
    if config.row_length is None:
        decided["row_length"] = base.notes.get("row_length")
    if config.rows.level is None and base.notes.get("level") is not None:
        decided["rows.level"] = base.notes["level"]
    coarser = base.notes.get("coarser")
    if config.rows.coarser is None and isinstance(coarser, list):
        decided["rows.coarser"] = coarser
    return decided


def retrofit(config: Config) -> Path:
    """Teach segments, and return the run's folder: `extend` with other defaults."""
    return extend(config, command="retrofit")


def extend(config: Config, *, command: _Command = "extend") -> Path:
    """Stretch, fine-tune, and return the run's folder."""
    base = base_of(config)
    config = settled(config, base=base)
    done = stretched(base, config)
    folder = folder_of(config, base, config.name or default_name(config))
    notes = {"first_row_length": runs.first_row_length(base.notes)}
    start = start_of(base, done, notes, config=config)
    if config.steps == 0:
        return write_base(start, base, config, folder=folder, command=command)
    rows = rows_of(config)
    base.refuse_other_data(rows.sets)
    share = _report_long_documents(rows, steps=config.steps, before=base.notes.get("row_length"))
    start = dataclasses.replace(start, notes={**start.notes, "long_documents": share})
    fit = fit_of(config, folder=folder, command=command, encoding=start.decoder.encoding)
    return train_model(fit, start, rows=rows)


def stretched(base: BaseRun, config: Config) -> Extension | None:
    """Return the base run's model under the strategy, if any; ConfigError if it does not apply."""
    description, unit = config.stretch, config.extend.unit
    if not description:
        if unit is not None:
            raise ConfigError("extend.unit needs a stretch; set stretch=NAME")
        return None
    if TARGET not in description:
        raise ConfigError(f"stretch.{next(iter(description))} needs a stretch; set stretch=NAME")
    kind = find(description[TARGET], STRATEGY, allowed=config.allowed)
    if unit is not None and issubclass(kind, Retrofit):
        raise ConfigError("extend.unit is for a stretch, not a retrofit; remove it")
    if unit is not None and description.get("original_length") is not None:
        raise ConfigError(
            "extend.unit and stretch.original_length both set the original length; remove one"
        )
    scheme = functools.partial(
        extend_config, base.model.config, description, unit=unit, allowed=config.allowed
    )
    try:
        try:
            return scheme(notes=base.notes)
        except Unrecorded as fault:
            row_length = config.row_length if issubclass(kind, Retrofit) else None
            notes = counted_notes(base, config, row_length=row_length, lacking=fault)
            return scheme(notes=notes)
    except ValueError as fault:
        is_named = any(str(fault).startswith(f"{key} must") for key in description)
        cure = "; longer rows alone need no stretch: stretch=null" * ("cannot be" in str(fault))
        raise ConfigError(f"{'stretch.' if is_named else f'{base.home}: '}{fault}{cure}") from fault


def counted_notes(
    base: BaseRun, config: Config, *, row_length: int | None, lacking: Unrecorded
) -> dict[str, Any]:
    """Return the notes of a model from elsewhere with the positions that the data would give it.

    row_length: of the rows that are counted, in tokens; None: that of the model. Raises `lacking`,
    with its cure, if there is no data.
    """
    if not all((folder / MANIFEST).is_file() for folder in folders_of(config.data).values()):
        raise ValueError(f"{lacking}, or set data=FOLDER, data to count them in") from lacking
    plain = dataclasses.replace(
        config.rows, packing="concat", split_documents="restart", prompt_level=None, curriculum=None
    )
    length = row_length or int(base.notes.get("row_length") or config.row_length)
    rows = rows_of(dataclasses.replace(config, row_length=length, rows=plain, epochs=None))
    base.refuse_other_data(rows.sets)
    counts = _positions(rows)
    token, segment = (counts[name]["p99.9"] + 1 for name in ("token", "segment"))
    where = f"rows of {length} tokens of {rows.sets.folder}"
    say(
        f"{base.home} does not record the positions of its training; counted in {where}: "
        f"{token / segment:,.1f} tokens per segment, {segment} segments per row"
    )
    return {**base.notes, "positions": {**counts, "segment": {**counts["segment"], "rows": where}}}


def _positions(rows: LMDataModule) -> dict[str, dict[str, int]]:
    """Return the notes on the positions in the first rows of a run."""
    counts, order, at_once = IndexCounts(), rows.order(), max(1, _AT_ONCE // rows.row_length)
    steps = -(-min(len(order) * rows.row_length, _COUNTED) // (at_once * rows.row_length))
    loader = RowLoader(order=order, micro_batch=at_once, global_batch=at_once, steps=steps)
    for batch in loader.batches():
        counts.add(positions_of(batch))
    return summary_of(counts.state(torch.device("cpu")))


def folder_of(config: Config, base: BaseRun, name: str) -> Path:
    """Return the folder of a run; ConfigError if it is that of the base run."""
    folder = Path(config.out) / name
    if folder.resolve() == base.home.resolve():
        raise ConfigError(f"{folder} is the checkpoint itself; set name= to use another folder")
    return folder


def start_of(
    base: BaseRun, done: Extension | None, notes: Mapping[str, Any], *, config: Config
) -> Start:
    """Return the model at the first step, with notes of its origin; report a stretch."""
    held = {"base_run": base.as_notes(), **notes}
    if done is not None:
        say(done.report)
        _report_reach(base, config)
        held["stretch"] = [report.as_notes() for report in done.reports]
    elif "stretch" in base.notes:  # still in effect
        held["stretch"] = base.notes["stretch"]
    decoder = base.model.config if done is None else done.config
    weights, options = _weights(base, decoder, config.allowed), config.extend
    weight = float(options.distill)
    teacher = (base.model.requires_grad_(False), weight) if weight else None
    lora = None if options.lora is None else dataclasses.asdict(options.lora)
    if lora is not None:
        lora["alpha"] = float(lora["alpha"])
    new = {*weights} - {*base.model.state_dict()}
    adaptation = Adaptation(new=new, new_lr=float(options.new_lr), lora=lora)
    return Start(
        decoder=decoder, weights=weights, notes=held, teacher=teacher, adaptation=adaptation
    )


def _report_reach(base: BaseRun, config: Config) -> None:
    """Report the length that a factor is for, if rows are trained that have another."""
    factor = config.stretch and config.stretch.get("factor")
    length = runs.first_row_length(base.notes)
    if not (factor and length and config.steps) or round(factor * length) == config.row_length:
        return
    say(
        f"stretch.factor={factor:g} is for texts of {factor * length:,.0f} tokens; for just "
        f"row_length={config.row_length}, set stretch.factor={config.row_length / length:g}"
    )


def _weights(base: BaseRun, decoder: DecoderConfig, allowed: tuple[str, ...]) -> dict[str, Tensor]:
    """Return the base run's weights; what only the new encoding has starts at zero."""
    weights = base.model.state_dict()
    with torch.device("meta"):
        shapes = Decoder(decoder, allowed=allowed).state_dict()
    dtype = base.model.tokens.weight.dtype
    return {
        name: weights[name] if name in weights else torch.zeros(weight.shape, dtype=dtype)
        for name, weight in shapes.items()
    }


def write_base(start: Start, base: BaseRun, config: Config, *, folder: Path, command: str) -> Path:
    """Write a run folder with the base run's weights; its notes are kept, since they still hold."""
    model = Decoder(start.decoder, allowed=config.allowed)
    model.load_state_dict(start.weights or {})
    notes = {**base.notes, **start.notes}
    stored = config.on({"encoding": start.decoder.encoding}).as_plain()
    return write_untrained(
        model, notes, files=read_files(base.folder), folder=folder, config=stored,
        command=command,
    )  # fmt: skip


def default_name(config: Config, *, changed: str = "", seeded: bool = False) -> str:
    """Return bipe_rope_yarn16, bipe_rope_yarn16_tokens_seed1, or bipe_rope_2048 (no stretch)."""
    assert config.checkpoint is not None
    name = find_place(config.checkpoint, key="checkpoint").name.replace("@", "_")
    if config.stretch:
        unit = "" if config.extend.unit is None else f"_{config.extend.unit}"
        name += f"_{strategy_name(config.stretch)}{unit}"
    else:
        name += f"_{config.row_length}"
    return name + changed + f"_seed{config.seed}" * bool(seeded or config.seed)


def strategy_name(stretch: Mapping[str, Any]) -> str:
    """Return yarn16, or yarn for a strategy without a factor."""
    factor = stretch.get("factor")
    words = slug(str(stretch.get(TARGET)).rpartition(".")[2])
    return words + ("" if factor is None else slug(f"{factor:g}"))


def _report_long_documents(rows: LMDataModule, *, steps: int, before: Any) -> float:
    """Return the share of tokens from documents of at least a row; warn if there are none.

    Documents in a row do not attend to each other: only long ones have positions that are new.
    """
    statistics = rows.statistics(steps=steps)
    read = sum(source.read * (1 - source.padding) for source in statistics)
    share = (
        sum(source.read * (1 - source.padding) * source.long_documents for source in statistics)
        / read
    )
    say(
        f"{share:.1%} of tokens come from documents of at least row_length ({rows.row_length}; "
        f"the checkpoint had {before})"
    )
    if not share:
        ends = [row.data.document_ends for row in rows.order().rows]
        log.warning(
            "no document has row_length=%d tokens (the longest: %d): positions beyond that are "
            "not trained; choose a shorter row_length, or data with longer documents",
            rows.row_length,
            max(int(np.diff(row, prepend=0).max()) for row in ends),
        )
    return share


@rank_zero_only
def say(text: str) -> None:
    """Print a line to the standard error, of one process of a run."""
    print(text, file=sys.stderr, flush=True)
