"""The work of `bipe convert`: models between bipe and Hugging Face transformers.

Needs no transformers. What is read is checked first, and a folder is written whole or not at all.
"""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import tokenizers
import torch
from safetensors import safe_open
from torch import Tensor

from bipe import Decoder
from bipe.checkpoint import save_model
from bipe.encodings.base import reads_segments
from bipe.layouts.folders import MODEL_TYPE, SHARD_BYTES, read_folder, write_folder
from bipe.layouts.portable import of_decoder
from bipe.sealing import CONFIG, FORMAT, WEIGHTS, whole_folder
from segmenters import IdTable, Levels, Segmenter
from train.config import allowed_prefixes
from train.data.rows.named_segmenter import named_segmenter
from train.data.rows.sets import DataSets, read_by
from train.data.rows.source_segmenter import CURE, knows_segmenter, own_segmenter
from train.data.store.folder import SEGMENTER, TOKENIZER, folders_of
from train.data.store.shards import DataSet
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import KEY, LoadTokenizer
from train.disk.files import read_json
from train.disk.manifest import TOKENIZER_CONFIG, plain
from train.errors import ConfigError, DataError, RunError
from train.evals.grids import as_markdown
from train.evals.rows import FILE, Journal
from train.fit import runs
from train.fit.checkpoints import find_place
from train.fit.checkpoints.reading import BaseRun, find_base_run
from train.fit.handover import CARD, as_json, card, read_files, tokenizer_config

log = logging.getLogger("bipe")
NOTES = "bipe.json"  # the notes of a training, in a folder of transformers
_MEASURED = 20_000  # tokens that the table of ids is compared with the segmenter on
_NOTE_TYPES = {  # of notes that are read again
    "row_length": int,
    "stretch": list,
    **dict.fromkeys(("sources", "tokenizer", "documents", "training"), dict),
}
_KEPT = ("README.md", "LICENSE", "LICENSE.md", "LICENSE.txt")  # of a stranger's folder


def to_hf(
    place: str,
    out: Path,
    *,
    dtype: str | None = None,
    shard_bytes: int = SHARD_BYTES,
    tokenizer: str | None = None,
    segmenter: str | None = None,
    source: str | None = None,
    data: str | None = None,
    allowed: Sequence[str] = (),
) -> str:
    """Write a run as a folder of transformers; return what was done.

    source: of its data, whose segmenter is taken. allowed: packages that the class of its segmenter
    may be of, besides ours; by default those that were let in for the run.
    """
    _refuse_kind("transformers", place)
    home = find_place(place, key="RUN").home
    prefixes = allowed_prefixes([*allowed] or runs.allowed_of(home))
    run = find_base_run(place, key="RUN", allowed=prefixes)
    if of_decoder(run.model.config.encoding) is None:
        raise ConfigError(
            f"{place} has an encoding of your own, which bipe.hf does not build from a folder; in "
            "Python, BipeForCausalLM.of(model) makes it a model of transformers"
        )
    _warn_of_nan(run.model, place)
    held_out = _held_out(run, data)
    files, spoken = _spoken(run, tokenizer)
    keys = _ends(files, spoken)
    if reads_segments(run.model.scheme):
        chosen = _segmenter(run, segmenter, source, prefixes)
        files[SEGMENTER] = as_json(chosen.fingerprint())
        keys |= _segments(run.model, chosen, spoken, _texts(held_out, spoken))
    notes = _portable(run.notes)
    rows = Journal(run.home / FILE).rows_at(run.step)
    longest = _read_length(run.notes)

    def beside(config: dict[str, Any]) -> dict[str, str]:
        about = json.loads(files[TOKENIZER_CONFIG])
        about.pop("tokenizer_class", None)
        # That of a training row is no limit: transformers would warn of errors that do not come.
        about.pop("model_max_length", None)
        if config["model_type"] != MODEL_TYPE:  # LlamaTokenizer has a tokenizer.json of its own
            about["tokenizer_class"] = "PreTrainedTokenizerFast"
        ids = {key: keys[key] for key in keys if key.endswith("token_id")}
        return {
            "generation_config.json": as_json(ids),
            **files,
            TOKENIZER_CONFIG: as_json(about),
            NOTES: as_json({"notes": notes}),
            CARD: card(
                run.model, notes, name=out.name, config=config, evaluation=as_markdown(rows)
            ),
        }

    config = write_folder(
        run.model,
        out,
        max_length=longest,
        keys=keys,
        dtype=getattr(torch, dtype) if dtype else _stored_dtype(run),
        shard_bytes=shard_bytes,
        beside=beside,
    )
    return _said(out, config["model_type"], config["dtype"])


def to_bipe(
    place: str,
    out: Path,
    *,
    dtype: str | None = None,
    tokenizer: str | None = None,
    segmenter: str | None = None,
) -> str:
    """Write a folder of transformers as a run without its training; return what was done."""
    _refuse_kind("bipe", place)
    folder = Path(place)
    model, config = read_folder(folder)
    _warn_of_nan(model, place)
    model.to(getattr(torch, dtype) if dtype else model.tokens.weight.dtype)
    spoken = _tokenizer(tokenizer or folder, model)
    if _begins(spoken):  # as pretrained models expect; by a token that is not special: by itself
        with suppress(DataError):
            spoken = LoadTokenizer(path=tokenizer or folder, bos="document").build()
    files = {} if tokenizer else read_files(folder)
    about = json.loads(files.get(TOKENIZER_CONFIG, "{}"))
    longest = _longest(folder, config)
    standard = json.loads(tokenizer_config(spoken.eos, spoken.bos, max_length=longest))
    files |= {TOKENIZER: spoken.json, TOKENIZER_CONFIG: as_json(standard | about)}
    if segmenter is not None:
        files[SEGMENTER] = as_json(named_segmenter(segmenter, option="segmenter").fingerprint())
    stored = _stored_notes(folder / NOTES)
    notes = stored or {
        "row_length": longest,
        "tokenizer": spoken.fingerprint(),
        "origin": {"model_type": config.get("model_type")},
    }
    kept = read_files(folder, names=_KEPT)
    if stored or CARD not in kept:
        kept[CARD] = card(model, notes, name=out.name)
    with whole_folder(out) as fresh:
        save_model(model, fresh / runs.MODEL, notes=notes, beside={**files, **kept})
    return _said(out, "bipe", str(model.tokens.weight.dtype).removeprefix("torch."))


def _refuse_kind(kind: str, place: str) -> None:
    """Raise ConfigError for a folder that is what it is to become."""
    folder = Path(place)
    ours = (folder / runs.MODEL).is_dir()
    config = {} if ours else read_json(folder / CONFIG) or {}
    ours = ours or str(config.get("format", "")).startswith(FORMAT.partition("/")[0])
    if kind == "bipe" and ours:
        raise ConfigError(f"{place} is already a model of bipe; use to=hf to convert it")
    if kind == "transformers" and not ours and config:
        raise ConfigError(
            f"{place} is not a run of bipe; use to=bipe to convert a folder of transformers"
        )


def _held_out(run: BaseRun, data: str | None) -> list[DataSet]:
    """Return held-out data of a run; none if it is gone, or cannot be read, which is said."""
    place = run.data if data is None else data
    if place is None:
        return []
    try:
        sets = DataSets(place, **read_by(run.notes))
        run.refuse_other_data(sets, cure="Set data to the folder of its data")
        names = [name for name in run.notes.get("sources", {}) if name in sets.sources]
        return [sets.open(name, "test", verify=True) for name in names]
    except (DataError, OSError) as fault:
        if data is not None:
            raise
        if any(folder.exists() for folder in folders_of(place).values()):
            print(f"bipe: convert: the data of the run is not used: {fault}", file=sys.stderr)
        return []


def _spoken(run: BaseRun, wish: str | None) -> tuple[dict[str, str], Tokenizer]:
    """Return the files of a run's tokenizer, and the tokenizer."""
    files = read_files(run.folder)
    if wish is not None:
        tokenizer = _tokenizer(wish, run.model)
        config = tokenizer_config(tokenizer.eos, tokenizer.bos, max_length=_read_length(run.notes))
        return {**files, TOKENIZER: tokenizer.json, TOKENIZER_CONFIG: config}, tokenizer
    if TOKENIZER not in files:
        raise RunError(f"{run.folder / TOKENIZER} is missing; set tokenizer=FILE")
    return files, _tokenizer(run.folder, run.model)


def _tokenizer(place: str | Path, model: Decoder) -> Tokenizer:
    """Return the tokenizer of a file or folder; ConfigError if its ids are not those of a model."""
    try:
        tokenizer = LoadTokenizer(path=place).build()
    except DataError as fault:
        raise ConfigError(
            f"tokenizer {str(fault).replace(KEY, '')}; set tokenizer=PATH to use another"
        ) from None
    if tokenizer.vocab_size > model.config.vocab_size:
        raise ConfigError(
            f"the tokenizer of {place} has ids up to {tokenizer.vocab_size - 1}, but vocab_size of "
            f"the model is {model.config.vocab_size}: set tokenizer=PATH to that of the model"
        )
    return tokenizer


def _begins(spoken: Tokenizer) -> bool:
    """Return whether the file of a tokenizer puts a special token before each text."""
    fast = tokenizers.Tokenizer.from_str(spoken.json)
    added = fast.get_added_tokens_decoder()
    first = added.get(next(iter(fast.encode("a").ids), -1))
    return first is not None and first.special


def _ends(files: Mapping[str, str], spoken: Tokenizer) -> dict[str, Any]:
    """Return the keys of config.json for special tokens, as tokenizer_config.json names them."""
    about = json.loads(files[TOKENIZER_CONFIG])
    keys = {}
    for name in ("bos", "eos", "pad"):
        piece = about.get(f"{name}_token")
        piece = piece.get("content") if isinstance(piece, dict) else piece
        keys[f"{name}_token_id"] = None if piece is None else spoken.fast.token_to_id(piece)
    return keys


def _segmenter(
    run: BaseRun, wish: str | None, source: str | None, allowed: tuple[str, ...]
) -> Segmenter:
    """Return the segmenter that a model was trained with, or the one that is asked for."""
    if wish is not None:
        segmenter = named_segmenter(wish, option="segmenter")
    elif knows_segmenter(run.folder, run.notes, source=source):
        segmenter = own_segmenter(run.folder, run.notes, source=source, allowed=allowed)
    else:
        raise RunError(f"{run.folder / SEGMENTER} is missing; set segmenter to {CURE}")
    levels = run.model.levels
    if levels > 1 and not isinstance(segmenter, Levels):
        segmenter = Levels(of=segmenter, keep=segmenter.level_names[:levels])
    return segmenter


def _segments(
    model: Decoder, segmenter: Segmenter, spoken: Tokenizer, texts: list[str]
) -> dict[str, Any]:
    """Return the keys of config.json for segments: the segmenter, and how new tokens are marked."""
    keys = {"segmenter": plain(segmenter.fingerprint())}
    if model.levels > 1:
        return keys | {"segmentation": "exact"}
    try:
        table = IdTable.compile(spoken.pieces(), segmenter, texts=texts or [""])
        if texts:
            table = table.measured(
                texts, lambda text: spoken.encode_batch([text])[0][0].tolist(), by=segmenter
            )
    except ValueError as fault:
        print(
            f"bipe: convert: no id table is written: {fault}; pass segment_marks to the model",
            file=sys.stderr,
        )
        return keys
    return keys | {"segment_table": plain(table.packed(size=model.config.vocab_size))}


def _texts(held_out: list[DataSet], spoken: Tokenizer) -> list[str]:
    """Return held-out documents, of some thousand tokens in all."""
    texts, left = [], _MEASURED
    for data in held_out:
        for document in range(len(data.document_ends)):
            if left <= 0:
                break
            start, end = data.span(document)
            ids = data.tokens[start : min(end, start + left)]
            text = spoken.decode(id for id in ids.tolist() if id != spoken.eos_id)
            texts += [text] if text else []
            left -= len(ids)
    return texts


def _portable(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return notes with the names of base runs in place of their paths on this machine."""
    made, base = dict(notes), notes.get("base_run")
    if isinstance(base, Mapping):
        inner = base.get("notes")
        name = Path(str(base.get("run"))).name
        made["base_run"] = {**base, "run": name, "notes": _portable(inner or {})}
    return made


def _warn_of_nan(model: Decoder, place: str) -> None:
    odd = [name for name, values in model.named_parameters() if not values.isfinite().all()]
    if odd:
        cure = "what it predicts means nothing; convert an earlier step (RUN@STEP)"
        log.warning(
            "%s: %s holds NaN or infinity, one of %d such: %s", place, odd[0], len(odd), cure
        )


def _stored_notes(path: Path) -> dict[str, Any]:
    """Return the notes of a training in a folder of transformers; empty if it has none."""
    if not path.exists():
        return {}
    notes = (read_json(path) or {}).get("notes")
    if not isinstance(notes, dict):
        raise ConfigError(f"{path}: must be an object with notes; remove it if they are lost")
    for key, kind in _NOTE_TYPES.items():
        if not isinstance(value := notes.get(key), kind | None):
            rule = f"notes.{key} must be of type {kind.__name__}, was: {value!r:.80}"
            raise ConfigError(f"{path}: {rule}; correct it, or remove the file")
    return notes


def _stored_dtype(run: BaseRun) -> torch.dtype:
    if run.checkpoint is not None:
        return run.model.norm.weight.dtype
    with safe_open(run.folder / WEIGHTS, framework="pt") as file:
        weight: Tensor = file.get_tensor("norm.weight")
    return weight.dtype


def _read_length(notes: Mapping[str, Any]) -> int:
    """Return the tokens that a run reads: of a row, or of a first row times its stretch."""
    stretch = (notes.get("stretch") or [{}])[-1].get("strategy", {})
    stretched = (runs.first_row_length(notes) or 0) * (stretch.get("factor") or 1)
    return max(round(stretched), int(notes.get("row_length") or 1024))


def _longest(folder: Path, config: Mapping[str, Any]) -> int:
    longest = config.get("max_position_embeddings") or 1024
    if not isinstance(longest, int):
        raise ConfigError(
            f"{folder / CONFIG}: max_position_embeddings must be a whole number, was: {longest!r}"
        )
    return longest


def _said(out: Path, kind: str, dtype: str) -> str:
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
    return f"{out}: model type {kind}, {dtype}, {size:.1f} MB"
