"""`bipe verify DIR`: list every fault of a data set with its file and bytes, one per line.

Takes the folder of `bipe prepare`, or that of one split. Needs no configuration and no torch.
Exit status: 0 no faults, 1 faults, 2 the folder cannot be read.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from segmenters.wording import counted, size
from train.data.store.shards import FORMAT, MANIFEST, read_manifest
from train.data.store.verify import Advance, data_faults, split_faults, splits_of
from train.disk.files import read_json
from train.errors import EXIT_FAILED_CHECK, DataError
from train.words import Words


def main(words: Words) -> int:
    """List the faults; return the exit status."""
    folder = Path(words.places[0])
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    faulty: set[Path] = set()
    total = _bytes_of(folder)
    with _progress(total) as advance:
        check = split_faults if _is_split(folder) else data_faults
        for fault in check(folder, advance=advance):
            faulty.add(fault.path)
            print(fault, flush=True)
    files = counted(len(faulty), "file")
    result = f"faults in {files}; exit status {EXIT_FAILED_CHECK}" if faulty else "no fault"
    print(f"{folder}: {size(total)}, {result}")
    return EXIT_FAILED_CHECK if faulty else 0


def _is_split(folder: Path) -> bool:
    """Return whether a folder holds one split, or had one: its manifest may be damaged."""
    path = folder / MANIFEST
    if (manifest := read_json(path)) is None:
        return path.exists()
    return manifest.get("format") == FORMAT and "tensors" not in manifest  # not a checkpoint


def _bytes_of(folder: Path) -> int:
    total = 0
    for split in [folder] if _is_split(folder) else splits_of(folder):
        with suppress(DataError):
            total += sum(file["bytes"] for file in read_manifest(split)["files"].values())
    return total


@contextmanager
def _progress(total: int) -> Iterator[Advance]:
    """Show a bar, only on a terminal: elsewhere faults and totals are lines already."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("verify", total=total)
        yield lambda size: bar.advance(task, size)
