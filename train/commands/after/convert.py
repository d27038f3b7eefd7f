"""`bipe convert PLACE to=hf|bipe out=FOLDER`: models between bipe and Hugging Face transformers.

Help and faults of the words load nothing heavy; converting.py does the work.
"""

from pathlib import Path
from typing import Any

from train.commands.after import hub
from train.commands.after.words import place_and_options
from train.errors import ConfigError

USAGE = """usage: bipe convert RUN to=hf out=FOLDER [key=value ...]
       bipe convert FOLDER to=bipe out=RUN [key=value ...]

Write a trained model as a folder of Hugging Face transformers, or such a folder as a run that bipe
evaluate, generate and extend accept: weights, config, tokenizer, segmenter and model card.
  RUN           a run, RUN@STEP, or the folder of a model
  FOLDER        LLaMA, Mistral, Qwen 2 or 3, a model saved by bipe.hf, or the released BiPE; or
                hf://OWNER/NAME[@REVISION], downloaded from the Hugging Face Hub
  out           a new folder
  dtype         float32, bfloat16 or float16; default: unchanged
  shard_gb      maximum gigabytes per weight file; default: 5
  tokenizer     a file or folder, if there is none next to the model
  segmenter     NAME:KEY=VALUE,... if there is none next to the model
  source        a source of the run's data, if their segmenters differ; default: the first
  data          prepared data of the run, if moved: to measure the id table
  allowed_targets  [yours]: your own packages with the segmenter of the run
  push          OWNER/NAME: also upload the folder to a private repository of the Hub

  bipe convert runs/mine/bipe_rope to=hf out=mine-hf dtype=bfloat16
  bipe convert mine-hf to=bipe out=runs/again"""
_KEYS = (
    *("to", "out", "dtype", "shard_gb", "tokenizer", "segmenter", "data", "push"),
    *("source", "allowed_targets"),
)
_DTYPES = ("float32", "bfloat16", "float16")


def main(words: list[str]) -> None:
    """Run the command on its arguments."""
    if {"-h", "--help"} & set(words):
        print(USAGE)
        return
    place, options = _parsed(words)
    out = Path(options.pop("out"))
    if out.exists():
        raise ConfigError(f"out={out} already exists: name a new folder")
    push = options.pop("push", None)
    from train.commands.after import converting
    from train.disk.files import full_disk

    to = converting.to_hf if options.pop("to") == "hf" else converting.to_bipe
    if place.startswith(hub.SCHEME):
        place = hub.fetched(place)
    with full_disk(out):
        print(to(place, out, **options))
    if push is not None:
        print(hub.uploaded(out, push))


def _parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the place and the options; ConfigError for what is not among them."""
    place, found = place_and_options(words, keys=_KEYS, needed=("to", "out"), command="convert")
    options: dict[str, Any] = dict(found)
    if options["to"] not in ("hf", "bipe"):
        raise ConfigError(f"to must be hf or bipe, was: {options['to']!r}")
    if "push" in options:
        hub.require_name(options["push"], f"push={options['push']}")
    for key in ("allowed_targets", "source", "data", "shard_gb", "push"):
        if options["to"] == "bipe" and key in options:
            raise ConfigError(f"{key} is for to=hf only; remove it")
    if (name := options.get("dtype")) is not None and name not in _DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(_DTYPES)}, was: {name!r}")
    if (own := options.pop("allowed_targets", None)) is not None:
        options["allowed"] = [name.strip() for name in own.strip("[]").split(",")]
    if (size := options.pop("shard_gb", None)) is not None:
        try:
            options["shard_bytes"] = int(float(size) * 1e9)
        except (OverflowError, ValueError):
            raise ConfigError(f"shard_gb must be a number of gigabytes, was: {size!r}") from None
        if options["shard_bytes"] < 1:
            raise ConfigError(f"shard_gb must be above 0, was: {size}")
    return place, options
