"""`bipe evaluate statistics`: how prepared text falls into segments, without a model.

    bipe evaluate statistics out=runs/mine

Several segmenters are compared by 'data={sentences: A, newlines: B}'. Writes
segment_statistics.json and a page of the same name, and prints a table.
"""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from segmenters.wording import counted
from train.commands.before.needs import data_of_study
from train.config import Config
from train.data.preparing.statistics import SEGMENT_EDGES
from train.data.rows.sets import DataSets
from train.data.rows.source_segmenter import require_source
from train.data.store.shards import LevelWish
from train.data.tokenizing.vocabulary import LoadTokenizer
from train.disk.files import write_whole
from train.errors import DataError
from train.evals.statistics import source_statistics
from train.fit.machine import environment
from train.report.content import terminal_tables
from train.report.load import GROWTH
from train.report.page import statistics_page
from train.report.sections import growth_section


def count_segments(config: Config) -> Path:
    """Count the segments of the configured sources; return the JSON file that was written."""
    options = config.statistics
    sets = _folders(data_of_study(config.out, config), config.rows.level)
    places = {
        f"{prefix}/{name}" if prefix else name: (prefix, name)
        for prefix, data in sets.items()
        for name in data.sources
    }
    for name in options.sources or ():
        require_source(name, places, key="statistics.sources")
    pieces = {prefix: _pieces(data) for prefix, data in sets.items()}
    counts: dict[str, Any] = {}
    for called, (prefix, name) in places.items():
        if options.sources is not None and called not in options.sources:
            continue
        begin = time.monotonic()
        data = sets[prefix]
        folder, inner = data.sources[name]
        counts[called] = {
            "segmenter": data.manifests[folder]["sources"][inner]["segmenter"],
            **source_statistics(
                [data.open(name, split, verify=True) for split in options.splits],
                pieces=pieces[prefix],
                separator_tokens=options.separator_tokens,
                least=options.documents,
            ),
        }
        tokens, seconds = counts[called]["tokens"], time.monotonic() - begin
        print(
            f"{called}: {counted(tokens, 'token')} in {seconds:.1f} s", file=sys.stderr, flush=True
        )
    result = {
        "format": GROWTH,
        "splits": options.splits,
        "segment_edges": list(SEGMENT_EDGES),
        "sources": counts,
        "environment": environment(),
    }
    path = Path(options.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    page = path.with_suffix(".html")
    write_whole(page, statistics_page(result))
    write_whole(path, json.dumps(result, indent=1) + "\n")
    for table in terminal_tables([growth_section(result)]):
        Console().print(table)
    print(f"\nnumbers: {path}\nfigures: {page}")
    return path


def _folders(data: Any, level: LevelWish | None) -> dict[str, DataSets]:
    """Open prepared folders by name: unlike a model's data, they may differ in tokenizer."""
    if isinstance(data, Mapping):
        return {str(name): DataSets(folder, level=level) for name, folder in data.items()}
    return {"": DataSets(data, level=level)}


def _pieces(sets: DataSets) -> tuple[bytes, ...] | None:
    """Return the bytes of each id; None, with a line on stderr, if they are not known."""
    try:
        return LoadTokenizer(path=sets.folder).build().pieces()
    except DataError as fault:
        print(f"{sets.folder}: separators are not shown: {fault}", file=sys.stderr)
        return None
