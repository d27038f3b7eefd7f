"""`bipe export DIR format=FORMAT out=FOLDER`: prepared data for other programs.

bipe export runs/mine/data format=megatron out=runs/megatron
bipe export runs/mine/data format=parquet out=runs/rows level=0
"""

from pathlib import Path
from typing import Any

from segmenters.wording import counted
from train.data.store.export import export
from train.words import Words


def main(words: Words) -> None:
    """Write the files, and print what there is."""
    options: dict[str, Any] = words.keys
    if options.get("level", "").isdecimal():
        options["level"] = int(options["level"])
    for done in export(Path(words.places[0]), **options):
        files = ", ".join(map(str, done.files)) or "left out"
        size = counted(done.documents, "document")
        print(f"{done.source}/{done.split}: {size}: {files}", flush=True)
