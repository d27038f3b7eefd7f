"""The account: protocol, versions, configurations, and the limits of it all."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from train.report.compare import flatten
from train.report.formats import DASH
from train.report.markup import Markup, join, tag
from train.report.records import Run
from train.report.tables import section, table

_SECRETS = ("api_key", "apikey", "password", "secret", "access_token", "auth_token", "hf_token")
_LIMITS = (
    "The models are as small and as briefly trained as the first paragraph says. Which encoding "
    "is ahead can change with size and with training; nothing here is a claim about large models.",
    "A curve without bars is one training run; bars are 95% intervals over seeds, or of Wilson for "
    "the right answers of a single run.",
    "Perplexity beyond the training length rewards a model that looks only at the nearest tokens. "
    "Read it beside retrieval and beside the loss at each position.",
    "A bilevel encoding extrapolates over segments: how far it carries depends on how many "
    "segments a training row holds, and so on the source and its segmenter.",
    "Sources differ in their bytes per token; compare them by bits per byte, not by perplexity.",
)


def account(runs: Sequence[Run]) -> Markup:
    """How the numbers were made, and what they do not say."""
    if not runs:
        return join([])
    return section(
        "account",
        "Protocol, configuration, limits",
        *_measured(runs),
        tag("h3", "How to read it, and its limits"),
        tag("ul", *(tag("li", limit) for limit in _LIMITS)),
        tag("h3", "Where it ran"),
        _compared(runs, lambda run: run.environment, every=True),
        tag("h3", "Configuration"),
        _differences(runs),
        *(_details(run) for run in runs),
    )


def _measured(runs: Sequence[Run]) -> list[Markup]:
    told = [
        *_protocols("Perplexity", runs, lambda run: run.protocol),
        *_protocols("Retrieval", runs, lambda run: run.passkey.protocol if run.passkey else ""),
        *_protocols(
            "Arithmetic", runs, lambda run: run.arithmetic.protocol if run.arithmetic else ""
        ),
    ]
    return [tag("h3", "How it was measured"), *told] if told else []


def _protocols(name: str, runs: Sequence[Run], read: Callable[[Run], str]) -> list[Markup]:
    said: dict[str, list[str]] = {}
    for run in runs:
        if read(run):
            said.setdefault(read(run), []).append(run.label)
    return [
        tag("p", tag("b", f"{name}{_whose(labels, len(said))}: "), protocol)
        for protocol, labels in said.items()
    ]


def _whose(labels: Sequence[str], protocols: int) -> str:
    return "" if protocols == 1 else f" ({', '.join(labels)})"


def _differences(runs: Sequence[Run]) -> Markup:
    if len(runs) == 1:
        return tag("p", "There is one run; its whole configuration follows.")
    return _compared(runs, lambda run: hidden(run.config), every=False)


def _compared(runs: Sequence[Run], read: Callable[[Run], Any], *, every: bool) -> Markup:
    """A table of dotted keys: one value where all agree, one column a run where they do not."""
    flats = [flatten(read(run)) for run in runs]
    keys = list(dict.fromkeys(key for flat in flats for key in flat))
    told = {key: [_shown(flat, key) for flat in flats] for key in keys}
    same = [[key, values[0]] for key, values in told.items() if len(set(values)) == 1]
    differ = [[key, *values] for key, values in told.items() if len(set(values)) > 1]
    parts = []
    if every and same:
        parts.append(table(head=["key", "value"], rows=same))
    if differ:
        head = ["differs in", *(run.label for run in runs)]
        parts.append(table(head=head, rows=differ))
    elif not every:
        parts.append(tag("p", "The configurations of these runs are identical."))
    return tag("div", *parts, class_="words")


def _shown(flat: Mapping[str, Any], key: str) -> str:
    if key not in flat:
        return DASH
    value = flat[key]
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _details(run: Run) -> Markup:
    whole = {
        "model": {"encoding": run.model.encoding, "config": run.model.config},
        "config": run.config,
    }
    text = json.dumps(hidden(whole), indent=2, ensure_ascii=False, default=str)
    return tag("details", tag("summary", f"{run.label}: encoding, model and run"), tag("pre", text))


def hidden(value: Any) -> Any:
    """The same value with whatever is named like a credential struck out."""
    if isinstance(value, Mapping):
        return {
            key: "(hidden)" if str(key).lower() in _SECRETS and held else hidden(held)
            for key, held in value.items()
        }
    return [hidden(item) for item in value] if isinstance(value, list) else value
