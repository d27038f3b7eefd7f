"""What `bipe evaluate statistics` wrote, checked as far as the report relies on it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from train.report.entry import open_json

FORMAT = "bipe-segment-statistics/1"


def load_growth(file: Path) -> Mapping[str, Any]:
    """The whole file; ReportError if it is of another format or lacks a key."""
    cure = "`bipe evaluate statistics` writes it"
    root = open_json(file, cure=cure)
    if root["format"].text() != FORMAT:
        raise root["format"].fault(f"'{FORMAT}'", cure=cure)
    root["segment_edges"].rising()
    for _, source in root["sources"].items():
        for key in ("tokens_per_segment", "growth", "distance", "separators", "segmenter"):
            source[key]
        for bucket in source["by_document_length"].entries():
            bucket["histogram"].counts(length=len(root["segment_edges"].entries()))
    return root.mapping()
