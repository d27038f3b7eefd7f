"""`bipe prepare`: documents -> segments -> tokens and marks on disk, once."""

from __future__ import annotations

from pathlib import Path

from train.data.prepare import Prepared
from train.study import Study


def prepare_study(study: Study) -> Prepared:
    """Prepare the corpus of a study; print what came of it."""
    if not isinstance(study.data, str):
        raise ValueError(f"data must be one folder to prepare, was: {study.data}")
    prepared: Prepared = study.call("corpus", out=Path(study.data), if_exists=study.if_exists)
    state = "is there already" if prepared.kept else "is ready"
    print(f"{prepared.folder} {state}:")
    for name, source in prepared.manifest["sources"].items():
        counts = {
            key: sum(split[key] for split in source["splits"].values())
            for key in ("documents", "tokens", "segments")
        }
        print(
            f"  {name}: {counts['documents']:,} documents, {counts['tokens']:,} tokens, "
            f"{counts['tokens'] / max(1, counts['segments']):.1f} tokens a segment"
        )
    return prepared
