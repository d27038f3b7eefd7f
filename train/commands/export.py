"""`bipe export DIR format=FORMAT out=FOLDER`: prepared data for other programs."""

from pathlib import Path
from typing import Any

from segmenters.wording import counted
from train.commands.after.words import place_and_options
from train.data.store.export import FORMATS, SEQUENCES, export

USAGE = f"""usage: bipe export DIR format={"|".join(FORMATS)} out=FOLDER [sequences=...] [level=...]

Write prepared data for other programs: one set of files per split, verified first.
  DIR          prepared data
  format       megatron: .bin and .idx of Megatron-LM's IndexedDataset
               parquet: id, bytes, input_ids and segment_lengths, a row per document
  out          a new or empty folder
  sequences    what a sequence of Megatron's is: {" or ".join(SEQUENCES)}
  level        name or number of the finest level to write; its segments are the first"""
_KEYS = ("format", "out", "sequences", "level")


def main(words: list[str]) -> None:
    """Run the command on its arguments."""
    if {"-h", "--help"} & set(words):
        print(USAGE)
        return
    folder, found = place_and_options(words, keys=_KEYS, needed=("format", "out"), command="export")
    options: dict[str, Any] = dict(found)
    if options.get("level", "").isdecimal():
        options["level"] = int(options["level"])
    for done in export(Path(folder), **options):
        files = ", ".join(map(str, done.files)) or "left out"
        size = counted(done.documents, "document")
        print(f"{done.source}/{done.split}: {size}: {files}", flush=True)
