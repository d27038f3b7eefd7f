"""`bipe scrolls`: fine-tune a trained run on a task of long documents, decode, and score.

    bipe scrolls task=qmsum path=qmsum.zip checkpoint=RUN out=runs/scrolls
    bipe scrolls task=qmsum path=qmsum.zip checkpoint=RUN steps=0   # without training

Tokenizer and segmenter are those of the run's training data. A run folder is written as by
`bipe pretrain`, and in addition:

    RUN/scrolls/SPLIT/journal.jsonl    predictions as they are made; decoding resumes from here
    RUN/scrolls/SPLIT/TASK.json        the official format, checked
    RUN/evaluation.jsonl               scores, lengths, what was cut, as rows for the report
    OUT/scrolls.json                   all runs of the folder, grouped over seeds

after/submission.py has the forms that check predictions and write what is submitted.
"""

import logging
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only

from bipe.build import TARGET
from bipe.checkpoint import WEIGHTS, load_model
from bipe.generation import Beams
from segmenters.wording import counted
from train import stop
from train.commands import extend
from train.commands.extend import (
    base_of,
    folder_of,
    say,
    start_of,
    strategy_name,
    stretched,
    write_base,
)
from train.commands.generate import is_whole, segmenter_of, tokenizer_of
from train.commands.pretrain import fit_of
from train.config import Config
from train.data.preparing.progress import Meter
from train.data.rows.datamodule import LMDataModule
from train.data.rows.sets import DataSets
from train.data.store.folder import MANIFEST, folders_of
from train.disk.files import sha256, write_changed
from train.errors import ConfigError, DataError, as_config_error
from train.evals.rows import FILE, Journal, key_of, of_run
from train.evals.scoring import Outputs, as_json, find_scores, over_seeds, table
from train.fit import runs
from train.fit.checkpoints import Place, find_place
from train.fit.checkpoints.reading import BaseRun
from train.fit.trained_run import read_run
from train.fit.training import train_model
from train.tasks.scrolls.decoding import Decoding, PredictionJournal, decode, output_marker
from train.tasks.scrolls.encoding import Counts, Encoder, Truncation, counts_of
from train.tasks.scrolls.examples import SPLITS, Example, Task
from train.tasks.scrolls.prepared import OUTPUT_LEVEL, prepare_examples
from train.tasks.scrolls.submission import write_predictions

log = logging.getLogger("bipe")


def scrolls(config: Config) -> Path:
    """Fine-tune, decode, score, and return the run's folder."""
    base = base_of(config)
    config = settled(config, base=base)
    task = _task(config)
    if config.rows.prompt_level != OUTPUT_LEVEL:
        raise ConfigError("bipe scrolls needs rows=examples")
    _decoding(config, task)  # checked before hours of training
    room = _room(config, task)
    sets = _data_of(config, base)
    if base.model.levels > 1:
        raise ConfigError(
            f"checkpoint={config.checkpoint}: its encoding reads {base.model.levels} levels of "
            "units, and bipe scrolls has one: use a model with a bilevel or flat encoding"
        )
    whole = _examples_of_split(config, task)
    samples = task.examples("validation") if config.steps else whole
    text = next((example.prompt for example in samples), "")
    segmenter = segmenter_of(config, sets, base, section="scrolls", text=text)
    tokenizer = tokenizer_of(base, sets)
    encoder = Encoder(tokenizer=tokenizer, segmenter=segmenter, truncation=room)
    wanted = whole[: config.scrolls.rows]
    encoding = str(base.model.config.encoding.get(TARGET))
    if wanted and encoding.endswith((".Bilevel", ".Chain")):  # a flat one needs no segments
        _refuse_unfollowed(encoder, wanted)
    name = config.name or default_name(config)
    folder = folder_of(config, base, name)
    _train(config, task, base, encoder, folder=folder)
    finished = not config.steps or (folder / runs.MODEL).is_dir()  # else a callback stopped it
    if rank_zero_only.rank == 0 and wanted and finished:  # type: ignore[attr-defined]
        with runs.in_use(folder, command="scrolls"):
            _decode(config, task, encoder, wanted, total=len(whole), folder=folder)
        out = Path(config.out)
        if models := over_seeds(find_scores(out)):
            write_changed(out / "scrolls.json", as_json(models))
            say(table(models))
        command = shlex.join(["bipe", "report", f"out={out}"])
        if config.scrolls.split != "test":
            command += " (the same command with scrolls.split=test decodes that split)"
        say(f"next       {command}")
    return folder


def settled(
    config: Config, *, base: BaseRun | None = None, notes: list[str] | None = None
) -> Config:
    """Return the configuration with what its checkpoint decides, as `extend.settled`."""
    if config.epochs is not None:
        raise ConfigError("epochs must be null for bipe scrolls; set steps instead")
    return extend.settled(config, base=base, notes=notes)


def default_name(config: Config, *, changed: str = "", seeded: bool = True) -> str:
    """Return bipe_rope_qmsum_seed0, or bipe_rope_yarn8_qmsum_seed0 if stretched."""
    assert config.checkpoint is not None
    base = find_place(config.checkpoint, key="checkpoint").name.replace("@", "_")
    stretch = f"_{strategy_name(config.stretch)}" if config.stretch else ""
    return f"{base}{stretch}{changed}_{_task(config).name}_seed{config.seed}"


def _task(config: Config) -> Task:
    if not config.task or TARGET not in config.task:
        raise ConfigError("bipe scrolls needs task=NAME, one of conf/task (task=qmsum path=ZIP)")
    return cast(Task, config.task.built)


def _data_of(config: Config, base: BaseRun) -> DataSets | None:
    """Return the data of the run; None if they are gone, and its model has what is needed."""
    ours = config.data in (base.data, f"{config.out}/data")  # nobody set others
    gone = not all((folder / MANIFEST).is_file() for folder in folders_of(config.data).values())
    if ours and gone and is_whole(base, config.scrolls):
        return None
    sets = DataSets(config.data, level=base.notes.get("level"))
    base.refuse_other_data(sets)
    return sets


def _room(config: Config, task: Task) -> Truncation:
    room = Truncation(
        row_length=config.row_length,
        output=task.output_tokens,
        last=task.last_tokens,
        on_long=config.scrolls.on_long,
    )
    room.refuse_large_output()
    return room


def _examples_of_split(config: Config, task: Task) -> Sequence[Example]:
    """Return the examples of the split to decode; faults are raised before hours of training."""
    split = config.scrolls.split
    if split is None:
        return []
    if split not in SPLITS:
        raise ConfigError(f"scrolls.split must be one of {', '.join(SPLITS)}, was: {split!r}")
    examples = task.examples(split)
    if not examples:
        raise DataError(f"task {task.name}: split {split} has no examples")
    return examples


def _refuse_unfollowed(encoder: Encoder, examples: Sequence[Example]) -> None:
    """Raise ConfigError for a segmenter that cannot mark an output while it is generated."""
    pieces = encoder.tokenizer.pieces()
    for example in examples:
        segmenter = encoder.segmenter.choose(text=example.prompt)
        try:
            output_marker(segmenter, tokenizer=encoder.tokenizer, pieces=pieces)
        except ValueError as fault:
            raise ConfigError(
                f"scrolls.segmenter: {fault}; it cannot segment example {example.id}. Set "
                "scrolls.segmenter to one that works during generation (newline, sentences, lines "
                "...)"
            ) from None


def _train(
    config: Config,
    task: Task,
    base: BaseRun,
    encoder: Encoder,
    *,
    folder: Path,
) -> None:
    start = start_of(
        base,
        stretched(base, config),
        {"task": dict(config.task or {}), "level": base.notes.get("level")},
        config=config,
    )
    if config.steps == 0:
        write_base(start, base, config, folder=folder, command="scrolls")
        return
    prepared = prepare_examples(
        task, encoder=encoder, out=Path(config.scrolls.examples), limit=config.limit
    )
    cut = {split: asdict(counts) for split, counts in prepared.truncation.items()}
    start = replace(start, notes={**start.notes, "truncation": cut})
    for split, counts in prepared.truncation.items():
        _report_cut(counts, encoder.truncation, what=f"{task.name} {split}")
    rows = LMDataModule(
        folder=str(prepared.folder),
        row_length=config.row_length,
        seed=config.seed,
        context_parallel=config.context_parallel,
        **{**config.rows.values(), "level": None},  # examples hold the level of the base run
    )
    best = config.scrolls.select == "best"
    encoding = start.decoder.encoding
    fit = fit_of(config, folder=folder, command="scrolls", best=best, encoding=encoding)
    train_model(fit, start, rows=rows)


def _report_cut(counts: Counts, room: Truncation, *, what: str) -> None:
    say(f"{what}: {room.report(counts)}")
    if (lost := room.lost(counts)) > 1 / 2:
        message = "%s: most prompts are cut to %d tokens and lose %.0f%% of their text: the model "
        message += "sees little of what it is asked about; set row_length to more"
        log.warning(message, what, room.prompt, 100 * lost)


def _decoding(config: Config, task: Task) -> Decoding:
    options = config.scrolls
    with as_config_error("scrolls."):
        search = Beams(
            beams=options.beams,
            length_penalty=float(options.length_penalty),
            early_stopping=options.early_stopping,
        )
    return Decoding(
        max_new=options.max_new or task.output_tokens, search=search, batch=options.batch
    )


def _decode(
    config: Config,
    task: Task,
    encoder: Encoder,
    examples: Sequence[Example],
    *,
    total: int,
    folder: Path,
) -> None:
    """Decode a split, and write its predictions and scores into the run's folder.

    total: the number of all its examples.
    """
    split = str(config.scrolls.split)
    decoder, _ = load_model(folder / runs.MODEL, allowed=config.allowed)
    decoder.eval().to("cuda" if torch.cuda.is_available() else "cpu")
    how = _decoding(config, task)
    prompts = list(encoder.prompts(examples))
    cut = counts_of(prompt.kept for prompt in prompts)
    if config.steps == 0:  # else the training has reported it
        _report_cut(cut, encoder.truncation, what=f"{task.name} {split}")
    place = folder / runs.SCROLLS / split
    weights = sha256(folder / runs.MODEL / WEIGHTS)
    made_by = {
        "model": weights,
        "max_new": how.max_new,
        **asdict(how.search),
        "prompts": dict(config.task or {}),
        **encoder.fingerprint(),
    }
    journal = PredictionJournal(place / "journal.jsonl", request=made_by)
    with Meter(show=True) as meter:
        meter.start(f"{task.name} {split}")
        tokenizer, tell = encoder.tokenizer, meter.update
        with stop.kept(
            lambda: f"outputs kept: {len(journal.made)} of {len(prompts)}; {stop.AGAIN}"
        ):
            decoded = decode(
                decoder, prompts, tokenizer=tokenizer, how=how, journal=journal, tell=tell
            )
        meter.finish()
    texts = {id: output.text for id, output in decoded.items()}
    path = place / f"{task.name}.json"
    write_predictions(path, texts)
    outputs = Outputs(
        task=task.name,
        split=split,
        metric=task.metric,
        texts=texts,
        references={example.id: example.references for example in examples if example.references},
        tokens={id: output.tokens for id, output in decoded.items()},
        ended=Counter(output.ended for output in decoded.values()),
        cut=cut,
        examples=total,
        how=f"{how.search}, max_new {how.max_new}",
    )
    rows = of_run(outputs.rows(), read_run(Place.of(folder)))
    measured = Journal(folder / FILE)
    if (key := key_of([made_by, list(map(asdict, rows))])) not in measured:
        name = f"scrolls {task.name} of {split}"  # replaces older scores
        measured.append(key, rows, name=name, weights=weights)
    scored = outputs.score
    result = "no references to score" if scored is None else f"{task.metric} {scored.score:.2f}"
    part = f" of {total}, so this is no official score" if outputs.is_part else ""
    empty = sum(not text.strip() for text in texts.values())
    blank = f", {empty} of them empty but for white space and special tokens" if empty else ""
    say(f"{path}: {counted(len(texts), 'output')} of {split}{part}{blank}: {result}")
