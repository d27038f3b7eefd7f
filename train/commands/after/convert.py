"""`bipe convert PLACE to=hf|bipe out=FOLDER`: models between bipe and Hugging Face transformers.

bipe convert runs/mine/bipe_rope to=hf out=mine-hf dtype=bfloat16
bipe convert mine-hf to=bipe out=runs/again
"""

from pathlib import Path
from typing import Any

from train.commands.after import hub
from train.errors import ConfigError
from train.words import Words


def main(words: Words) -> None:
    """Convert a model, and print where it is."""
    place, options = words.places[0], _checked(words.keys)
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


def _checked(keys: dict[str, str]) -> dict[str, Any]:
    """Return the options; ConfigError for what does not go together."""
    options: dict[str, Any] = dict(keys)
    if "push" in options:
        hub.require_name(options["push"], f"push={options['push']}")
    for key in ("allowed_targets", "source", "data", "shard_gb", "push"):
        if options["to"] == "bipe" and key in options:
            raise ConfigError(f"{key} is for to=hf only; remove it")
    if (packages := options.pop("allowed_targets", None)) is not None:
        options["allowed"] = [name.strip() for name in packages.strip("[]").split(",")]
    if (size := options.pop("shard_gb", None)) is not None:
        try:
            options["shard_bytes"] = int(float(size) * 1e9)
        except (OverflowError, ValueError):
            raise ConfigError(f"shard_gb must be a number of gigabytes, was: {size!r}") from None
        if options["shard_bytes"] < 1:
            raise ConfigError(f"shard_gb must be above 0, was: {size}")
    return options
