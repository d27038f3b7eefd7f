"""A trained run with its weights, from which another run starts or which generates text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bipe import Decoder
from train.data.rows.sets import DataSets
from train.errors import DataError
from train.fit import runs
from train.fit.checkpoints.places import Place, find_place
from train.fit.checkpoints.reading import load_place


@dataclass(frozen=True, kw_only=True)
class BaseRun(Place):
    """See above. data: as the configuration of the run names it, if it does."""

    model: Decoder
    notes: Mapping[str, Any]
    data: Any

    def as_notes(self) -> dict[str, Any]:
        """Return this run's entry in the notes of the next one, with its own notes inside."""
        return {"run": str(self), "sha256": self.sha256, "notes": dict(self.notes)}

    def refuse_other_data(self, sets: DataSets, *, cure: str | None = None) -> None:
        """Raise DataError for data whose tokenizer or vocabulary does not fit the model's."""
        if differing := runs.other_tokenizer(self.notes, sets.tokenizer):
            how = "; ".join(differing)
            words = f"tokenizer@corpus.tokenizer=load corpus.tokenizer.path={self.data or 'FOLDER'}"
            cure = cure or f"Prepare it with that one: {words}"
            raise DataError(
                f"data: {sets.folder} was made with a different tokenizer than {self.home} was "
                f"trained with ({how}). {cure}"
            )
        if sets.vocab_size > self.model.config.vocab_size:
            raise DataError(
                f"data: {sets.folder} has a vocabulary of {sets.vocab_size}, but {self.home} one "
                f"of {self.model.config.vocab_size}: it was trained on other data"
            )


def find_base_run(place: str, *, key: str, allowed: tuple[str, ...]) -> BaseRun:
    """Read a run, RUN@STEP, the only run of a folder, or a model folder; RunError names `key`."""
    found = find_place(place, key=key)
    model, notes = load_place(found, allowed=allowed)
    config = runs.read_config(found.home) if (found.home / runs.CONFIG).is_file() else {}
    where: Any = {"home": found.home, "folder": found.folder, "checkpoint": found.checkpoint}
    return BaseRun(**where, model=model, notes=notes, data=runs.data_of(config, found.home))
