"""The trained run that another goes on from: its model, its notes, and where its data is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from bipe.checkpoint import CONFIG, WEIGHTS, load_model
from bipe.decoder import DecoderConfig
from train.data.rows.sets import DataSets
from train.data.store.folder import differences
from train.disk.files import sha256
from train.errors import DataError, RunError
from train.fit import runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """home: the folder of the run. data: as its configuration says it; None where it does not.

    sha256: of the file of weights.
    """

    home: Path
    decoder: DecoderConfig
    weights: Mapping[str, Tensor]
    notes: Mapping[str, Any]
    data: Any
    sha256: str

    @property
    def name(self) -> str:
        return self.home.resolve().name

    def as_notes(self) -> dict[str, Any]:
        """For the notes of what comes of it: with its own notes, and so with its own parents."""
        return {"run": str(self.home), "sha256": self.sha256, "notes": dict(self.notes)}

    def refuse_other_data(self, sets: DataSets) -> None:
        """Raise ValueError for data whose ids mean other tokens than those of the model."""
        known, found = self.notes.get("tokenizer"), sets.tokenizer
        if known is not None and known != found:
            how = "; ".join(differences(known, found, key="tokenizer"))
            raise DataError(
                f"data: {sets.folder} was made with another tokenizer than {self.home} was trained "
                f"with ({how}): its ids mean different things. Prepare it with that one: "
                f"tokenizer@corpus.tokenizer=load corpus.tokenizer.path={self.data or 'FOLDER'}"
            )
        if sets.vocab_size > self.decoder.vocab_size:
            raise DataError(
                f"data: {sets.folder} has a vocabulary of {sets.vocab_size}, {self.home} one of "
                f"{self.decoder.vocab_size}: it was trained on other data"
            )


def find_parent(checkpoint: str, *, allowed: tuple[str, ...]) -> Parent:
    """Read a run, the folder of one run, or the folder of a model. RunError says what is wrong."""
    place = Path(checkpoint)
    if (place / CONFIG).is_file():
        folder = place
        home = place.parent if (place.parent / runs.CONFIG).is_file() else place
    else:
        found = runs.find_runs(checkpoint, key="checkpoint")
        if len(found) > 1:
            names = ", ".join(map(str, found))
            raise RunError(f"checkpoint must be one run, was: {checkpoint} with {names}")
        folder, home = found[0] / runs.MODEL, found[0]
    model, notes = load_model(folder, allowed=allowed)
    config = runs.read_config(home) if (home / runs.CONFIG).is_file() else {}
    return Parent(
        home=home,
        decoder=model.config,
        weights=model.state_dict(),
        notes=notes,
        data=runs.data_of(config, home),
        sha256=sha256(folder / WEIGHTS),
    )
