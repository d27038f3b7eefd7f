"""A trained model as it is handed over: tokenizer, segmenter and model card beside its weights.

    RUN/model/tokenizer.json, tokenizer_config.json    as any tool reads them
    RUN/model/segmenter.json                           the fingerprint of its data's segmenter
    RUN/model/README.md                                the card (card.md.j2)

The card says what the notes of the model say, and no more. `bipe convert` writes the same files.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from torch import Tensor

from bipe import Decoder
from bipe.build import TARGET
from bipe.checkpoint import save_model
from bipe.encodings.base import reads_segments
from bipe.sealing import SHARED, write_config
from train.config import encoding_name, slug
from train.data.rows.sets import DataSets
from train.data.store.folder import SEGMENTER, TOKENIZER
from train.disk.files import full_disk, write_changed
from train.disk.manifest import TOKENIZER_CONFIG, redacted
from train.errors import RunError
from train.fit import runs
from train.fit.lora import merged
from train.fit.machine import known_version

if TYPE_CHECKING:
    from train.data.rows.datamodule import LMDataModule

log = logging.getLogger("bipe")
CARD = "README.md"
# What travels with a model between folders, where it is there.
FILES = (TOKENIZER, TOKENIZER_CONFIG, SEGMENTER, "special_tokens_map.json", "chat_template.jinja",
         "generation_config.json")  # fmt: skip
_TEMPLATE = Path(__file__).with_name("card.md.j2")


def files_of_data(sets: DataSets, *, sources: Sequence[str], max_length: int) -> dict[str, str]:
    """Return tokenizer and segmenter of a model by file name; no segmenter if there are several."""
    import tokenizers

    text = (sets.folder / TOKENIZER).read_text(encoding="utf-8")
    fast = tokenizers.Tokenizer.from_str(text)
    eos, bos_id = str(fast.id_to_token(sets.tokenizer["eos_id"])), sets.tokenizer.get("bos_id")
    bos = None if bos_id is None else fast.id_to_token(bos_id)
    definition = json.loads(text)
    opening = None if bos_id is None else _opening(str(bos), bos_id)
    if definition.get("post_processor") != opening:  # what training puts before texts, no more
        text = json.dumps(definition | {"post_processor": opening}, ensure_ascii=False)
    files = {TOKENIZER: text, TOKENIZER_CONFIG: tokenizer_config(eos, bos, max_length=max_length)}
    notes = notes_of_data(sets, sources)["documents"].values()
    segmenters = {as_json(source["segmenter"]) for source in notes}
    return files | ({SEGMENTER: segmenters.pop()} if len(segmenters) == 1 else {})


def _opening(bos: str, bos_id: int) -> dict[str, Any]:
    """Return the post-processor of a tokenizer.json that begins each text with a token."""
    first = {"SpecialToken": {"id": bos, "type_id": 0}}
    single, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    return {
        "type": "TemplateProcessing",
        "single": [first, single],
        "pair": [first, single, second],
        "special_tokens": {bos: {"id": bos, "ids": [bos_id], "tokens": [bos]}},
    }


def tokenizer_config(eos: str, bos: str | None, *, max_length: int) -> str:
    """Return tokenizer_config.json: padding, at the left as generation needs it, is the end."""
    named = {"eos_token": eos, "pad_token": eos} | ({"bos_token": bos} if bos else {})
    return as_json(named | {"padding_side": "left", "model_max_length": max_length})


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def read_files(folder: Path, *, names: Sequence[str] = FILES) -> dict[str, str]:
    """Return the files of a model folder that travel with it, by name; RunError if not UTF-8."""
    texts = {}
    for path in (folder / name for name in names if (folder / name).is_file()):
        try:
            texts[path.name] = path.read_bytes().decode()
        except UnicodeDecodeError as fault:
            raise RunError(f"{path}: not UTF-8 at byte {fault.start}; convert it") from None
    return texts


def notes_of_data(sets: DataSets, sources: Sequence[str]) -> dict[str, Any]:
    """Return what a card says of each source: licence, provenance, segmenter, counts."""
    notes = {}
    for name in sources:
        folder, part = sets.sources[name]
        entry = sets.manifests[folder]["sources"][part]
        notes[name] = {key: entry.get(key) for key in ("licence", "provenance", "segmenter")}
        notes[name]["reader"] = (entry.get("documents") or {}).get("reader")
        notes[name]["counts"] = sets.counts(name, "train")
    return {"documents": notes}


def notes_of_rows(rows: LMDataModule, *, steps: int) -> dict[str, Any]:
    """Return what a model's notes say of the rows that it is trained on. steps: of the run."""
    return {
        "row_length": rows.row_length,
        "sources": rows.weights or dict.fromkeys(rows.source_names, 1.0),
        "level": rows.sets.level,
        "coarser": rows.sets.coarser or None,
        "tokenizer": rows.sets.tokenizer,
        "data": rows.data_digest(),
        "rows": [asdict(source) for source in rows.statistics(steps=steps)],
        **notes_of_data(rows.sets, rows.source_names),
    }


def notes_of_training(config: Mapping[str, Any], *, command: str) -> dict[str, Any]:
    rows, trainer = config.get("rows") or {}, config.get("trainer") or {}
    notes = {"command": command, "global_batch": rows.get("global_batch")}
    notes |= {"precision": trainer.get("precision")}
    set_keys = [key for key in ("seed", "optimizer", "schedule") if config.get(key) is not None]
    return {"training": redacted(notes | {key: config[key] for key in set_keys})}


def write_shared(
    model: Decoder, folder: Path, *, notes: Mapping[str, Any], files: Mapping[str, str]
) -> None:
    """Write what all checkpoints of a run share (checkpoints/), before the first one."""
    shared = folder / runs.CHECKPOINTS / runs.MODEL
    shared.mkdir(parents=True, exist_ok=True)
    state = merged(model.state_dict())
    if model.config.tied_head:
        del state["head.weight"]
    parameters = sum(tensor.numel() for tensor in state.values())
    about = {"decoder": asdict(model.config), "parameters": parameters, "notes": dict(notes)}
    for name, text in files.items():
        write_changed(shared / name, text)
    write_config(shared, about, beside=[*files], format=SHARED)


def write_model(
    model: Decoder,
    folder: Path,
    *,
    state: Mapping[str, Tensor] | None = None,
    notes: Mapping[str, Any],
    files: Mapping[str, str],
) -> None:
    """Write the model of a run with its card; RunError names the file, which safetensors do not."""
    path = folder / runs.MODEL
    notes = {**notes, "versions": {name: known_version(name) for name in ("bipe", "torch")}}
    beside = dict(files)
    try:
        beside[CARD] = card(model, notes, name=folder.resolve().name)
    except Exception as fault:  # a card is a record: no reason to lose a training
        log.warning("%s has no card: %s", path, fault)
    try:
        with full_disk(path):
            save_model(model, path, state=state, notes=notes, beside=beside)
    except SafetensorError as error:
        raise RunError(
            f"{path} cannot be written ({error}); the checkpoints are complete: free space, then "
            "run the same command again"
        ) from error


def card(
    model: Decoder,
    notes: Mapping[str, Any],
    *,
    name: str,
    config: Mapping[str, Any] | None = None,
    evaluation: str = "",
) -> str:
    """Return the model card; config: of transformers, if it is theirs. evaluation: tables."""
    from jinja2 import UndefinedError

    scheme = encoding_name(model.config.encoding)
    table = (config or {}).get("segment_table")
    facts = {
        "name": name,
        "scheme": scheme,
        "tag": slug(scheme).replace("_", "-"),
        "decoder": model.config,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "segments": reads_segments(model.scheme),
        "intra": (model.config.encoding.get("intra") or {}).get("length"),
        "notes": notes,
        "config": config,
        "table": None if table is None else table["about"],
        "evaluation": evaluation,
    }
    try:
        return _template().render(facts)
    except (LookupError, TypeError, ValueError, ArithmeticError, UndefinedError) as error:
        raise RunError(f"the notes of {name} are not from training: {error}") from error


@cache
def _template() -> Any:
    from jinja2 import ChainableUndefined, Environment

    environment = Environment(undefined=ChainableUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": "{:,}".format, "described": _described, "cell": _cell}
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))


def _cell(value: Any) -> str:
    return " ".join(str(value or "not stated").replace("|", "\\|").split())


def _described(value: Any) -> str:
    """Return a description as a call: AdamW(lr=0.001)."""
    if not isinstance(value, Mapping):
        return str(value)
    arguments = ", ".join(f"{k}={_described(v)}" for k, v in value.items() if not k.startswith("_"))
    named = value.get(TARGET, value.get("segmenter"))
    return f"{str(named).rpartition('.')[2]}({arguments})" if named else arguments
