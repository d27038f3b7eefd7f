"""Numbers of papers to stand beside ours, from targets.json, each with its provenance.

A target without a model stands for every model that has none of its own. What nobody has read in
its source is not in the file: the page leaves such a place blank.
"""

import functools
import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """value: what the paper states; below: only that it is less than this. Shares, from 0 to 1.

    width: of the paper's model. provenance: "paper" if quoted from it.
    """

    model: str | None
    width: int
    measure: str
    value: float | None
    below: float | None
    source: str
    provenance: str


@functools.cache
def targets(experiment: str) -> tuple[Target, ...]:
    """The targets of an experiment."""
    held = json.loads(Path(__file__).with_name("targets.json").read_text(encoding="utf-8"))
    return tuple(Target(**target) for target in held[experiment])


def target_of(experiment: str, model: str) -> Target | None:
    """What a paper states of a model by name, or of all that it does not name."""
    own = {target.model: target for target in targets(experiment)}
    return own.get(model, own.get(None))
