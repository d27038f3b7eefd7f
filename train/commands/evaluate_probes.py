"""The probes of `bipe evaluate`: what a run still finds, in a section of its evaluation.json.

bipe evaluate out=RUNS 'evaluate.probes=[passkey, niah_multikey, copy]'
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from bipe import Decoder
from train.commands.generate_marker import chosen_segmenter
from train.config import Config
from train.data.rows.sets import DataSets
from train.data.tokenizing.tokenizers import Tokenizer
from train.errors import ConfigError, nearest
from train.evals.probes import NAMES
from train.evals.probes.haystack import Haystack
from train.evals.probes.measure import Plan, probe
from train.evals.probes.text import Texts
from train.evals.probes.written import marker_for

_LOOKED_AT = 20_000  # tokens of the text by which a segmenter that chooses is asked


def require_probes(study: Config) -> None:
    """Before minutes of measuring, not after: ValueError for unknown probes or sources."""
    sets = DataSets(study.data)
    for name in study.evaluate.probes:
        if name not in NAMES:
            raise ConfigError(f"evaluate.probes: {name!r} is no probe; {nearest(name, NAMES)}")
    source = study.evaluate.probing.source
    if source is not None and source not in sets.sources:
        raise ConfigError(
            f"evaluate.probing.source: {source!r} is no source; {nearest(source, sets.sources)}"
        )


def probe_scores(
    study: Config, model: Decoder, tokenizer: Tokenizer, *, row_length: int, run: str
) -> dict[str, Any]:
    """Every probe that a study names, by its name; empty without any."""
    if not study.evaluate.probes:
        return {}
    options, sets = study.evaluate.probing, DataSets(study.data)
    source = options.source or next(iter(sets.sources))
    texts, hay = _laid_out(study, sets, tokenizer, source)
    if "write" in options.scoring:
        marker_for(model, texts)
    lengths = options.lengths or [factor * row_length for factor in study.evaluate.lengths]
    plan = Plan(
        lengths=sorted(set(lengths)),
        depths=options.depths,
        trials=options.trials,
        candidates=options.candidates,
        scoring=options.scoring,
        tokens_per_batch=study.evaluate.tokens_per_batch,
        seed=study.seed,
    )
    found = {}
    for name in study.evaluate.probes:
        begin = time.monotonic()
        found[name] = {"source": source, **probe(name, model, hay, texts, plan=plan)}
        print(f"{run}: {_told(name, found[name])} in {time.monotonic() - begin:.0f} s",
              file=sys.stderr, flush=True)  # fmt: skip
    return found


def _laid_out(
    study: Config, sets: DataSets, tokenizer: Tokenizer, source: str
) -> tuple[Texts, Haystack]:
    """The held-out text of a source, and its segmenter as for that text."""
    data = sets.open(source, study.evaluate.split)
    try:
        segmenter = chosen_segmenter(
            sets, trained_on=[source], source=source, wish=None, allowed=study.allowed
        )
    except ValueError as fault:
        told = str(fault).partition("; set generate.segmenter")[0]
        raise ConfigError(
            f"evaluate.probing.source={source}: {told}; name a source whose segmenter can be built"
        ) from None
    beginning = tokenizer.decode(data.tokens[: min(_LOOKED_AT, len(data.tokens))])
    name = Path(next(iter(data.document_ids()), "")).name or None
    chosen = segmenter.choose(text=beginning, name=name)
    texts = Texts(tokenizer=tokenizer, segmenter=chosen)
    return texts, Haystack(data, texts=texts)


def _told(name: str, found: dict[str, Any]) -> str:
    if "curves" in found:
        return f"{name} up to {found['length']} tokens"
    if not found["lengths"]:
        return f"{name} is left out: no length has room for it,"
    kept = found["accuracy"] if found["accuracy"][0][0] is not None else found["written"]
    means = "  ".join(f"{sum(row) / len(row):.2f}" for row in kept)
    chance = "" if found["chance"] is None else f" (chance {found['chance']:.2f})"
    return f"{name} at {found['lengths']}: {means}{chance}"
