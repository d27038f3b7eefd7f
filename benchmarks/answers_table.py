"""Tables and pictures of `benchmarks.answers`: perplexity over that of a rival, with intervals.

Both models of a ratio had the same tokens, batches and seed. By documents: losses are averaged over
the seeds of both, and the difference is drawn again over held-out documents (bootstrap); it says
what other texts of these sources would give. By seeds: Student's interval of the logarithm of the
ratio on each seed; it says what other seeds would give.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.answers_plan import FIRST, RIVALS, ROW
from train.disk.files import write_whole
from train.evals.rows import half_width, over_documents

Row = Mapping[str, Any]  # of the results
ALL = "all"  # sources together: the mean of their logarithms
BLOCKS = 8  # of a run, for its curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Perplexity over that of a rival, at a length in tokens.

    log: the mean over seeds of its logarithm. documents: half the width of its interval by
    documents, seeds: by seeds (infinite for one); agree: its sign is the same on all seeds.
    """

    arm: str
    rival: str
    source: str
    length: int
    numbers: tuple[int, ...]  # of the seeds of both
    log: float
    documents: float
    seeds: float
    agree: bool

    def shown(self) -> str:
        """Return percent of the rival, and half-widths by documents and by seeds."""
        shares = [100 * math.exp(self.log)]
        shares += [100 * math.expm1(half) for half in (self.documents, self.seeds)]
        last = f"{shares[2]:.1f}" if math.isfinite(self.seeds) else "?"
        return f"{shares[0]:.1f} ±{shares[1]:.1f} ±{last}{'' if self.agree else ' (signs differ)'}"


def spelled(whole: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Return JSON with one line for each row."""
    head = json.dumps(whole, indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return f'{head},\n "rows": [\n{lines}\n ]\n}}\n' if rows else f'{head},\n "rows": []\n}}\n'


def rows_of(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the name of a study and its rows."""
    whole = json.loads(path.read_text(encoding="utf-8"))
    return whole["study"], whole["rows"]


def rival_of(study: str, arm: str) -> str:
    """Return the arm that an arm is compared with."""
    return RIVALS[study].get(arm, FIRST[study])


def ratios(study: str, rows: Sequence[Row]) -> list[Ratio]:
    """Return all ratios of arms to their rivals, on seeds that both have with as many tokens."""
    by_arm: dict[str, dict[tuple[int, int], Row]] = {}
    for row in rows:
        by_arm.setdefault(row["arm"], {})[row["seed"], row["tokens"]] = row
    made = []
    for arm, own in by_arm.items():
        rival = rival_of(study, arm)
        if arm == rival or rival not in by_arm:
            continue
        if shared := sorted(own.keys() & by_arm[rival].keys()):
            pairs = [(own[key], by_arm[rival][key]) for key in shared]
            numbers = tuple(seed for seed, _ in shared)
            made += _compared(arm, rival, numbers, pairs)
    return made


def _compared(
    arm: str, rival: str, numbers: tuple[int, ...], pairs: Sequence[tuple[Row, Row]]
) -> list[Ratio]:
    """Compare rows seed by seed, at each length and source, and all sources together."""
    made = []
    cells = [(s, n) for s, by_length in pairs[0][0]["document_nats"].items() for n in by_length]
    for length in sorted({int(length) for _, length in cells}):
        every = [_difference(pairs, source, str(length)) for source, n in cells if int(n) == length]
        named = {source: found for (source, n), found in zip(
            [cell for cell in cells if int(cell[1]) == length], every, strict=True)}  # fmt: skip
        together = [fmean(logs) for logs in zip(*(logs for logs, _ in every), strict=True)]
        half = math.sqrt(sum(half**2 for _, half in every)) / len(every)
        if len(every) > 1:
            named[ALL] = together, half
        for source, (logs, documents) in named.items():
            made.append(
                Ratio(
                    arm=arm, rival=rival, source=source, length=length, numbers=numbers,
                    log=fmean(logs), documents=documents, seeds=half_width(logs),
                    agree=len({log > 0 for log in logs}) == 1,
                )
            )  # fmt: skip
    return made


def _difference(
    pairs: Sequence[tuple[Row, Row]], source: str, length: str
) -> tuple[list[float], float]:
    """Return the logarithm of the ratio on each seed, and half its interval by documents."""
    more, logs = [], []
    for one, other in pairs:
        tokens = np.array(one["document_tokens"][source][length])
        if other["document_tokens"][source][length] != tokens.tolist():
            raise ValueError(
                f"{one['arm']} and {other['arm']} were measured on other texts of {source}: "
                "compare rows of one study"
            )
        nats = (np.array(row["document_nats"][source][length]) for row in (one, other))
        own, rival = nats
        more.append(own - rival)
        logs.append(float(more[-1].sum() / tokens.sum()))
    low, high = over_documents(np.mean(more, axis=0), tokens)
    return logs, (high - low) / 2


def table(path: Path) -> list[str]:
    """Return lines of Markdown: perplexities, ratios at each length, and tokens per segment."""
    study, rows = rows_of(path)
    lines = [f"Study {study}: perplexity, mean over seeds"]
    for length in _lengths(rows):
        lines += ["", *_perplexities(rows, length)]
    found = ratios(study, rows)
    note = "percent of the rival ± by documents ± by seeds (half of 95% intervals; ?: one seed)"
    for length in sorted({each.length for each in found}):
        at = [each for each in found if each.length == length]
        sources = list(dict.fromkeys(each.source for each in at))
        lines += ["", f"At {length // ROW} rows ({length} tokens), {note}", ""]
        lines += [f"| arm / rival | seeds | {' | '.join(sources)} |"]
        lines += ["|---" * (len(sources) + 2) + "|"]
        for arm in dict.fromkeys(each.arm for each in at):
            own = {each.source: each for each in at if each.arm == arm}
            first = next(iter(own.values()))
            cells = [own[source].shown() if source in own else "" for source in sources]
            head = f"{arm} / {first.rival} | {len(first.numbers)}"
            lines.append(f"| {head} | {' | '.join(cells)} |")
    return lines


def _lengths(rows: Sequence[Row]) -> list[int]:
    return sorted({int(n) for row in rows for by in row["perplexity"].values() for n in by})


def _perplexities(rows: Sequence[Row], length: int) -> list[str]:
    sources = list(dict.fromkeys(source for row in rows for source in row["perplexity"]))
    lines = [
        f"| at {length} tokens | tokens | seeds | {' | '.join(sources)} | tokens per segment |"
    ]
    lines += ["|---" * (len(sources) + 4) + "|"]
    for arm, tokens in dict.fromkeys((row["arm"], row["tokens"]) for row in rows):
        own = [row for row in rows if (row["arm"], row["tokens"]) == (arm, tokens)]
        cells = []
        for source in sources:
            values = [row["perplexity"].get(source, {}).get(str(length)) for row in own]
            there = [value for value in values if value is not None]
            cells.append(f"{fmean(there):#.4g}" if there else "")
        sizes = ", ".join(f"{value:.3g}" for value in own[0]["tokens_per_segment"].values())
        head = f"| {arm} | {tokens / 1e6:.1f}M | {len(own)} |"
        lines.append(f"{head} {' | '.join(cells)} | {sizes} |")
    return lines


def curves(study: str, rows: Sequence[Row]) -> dict[str, list[tuple[float, float, float]]]:
    """Return, for each arm, millions of tokens and the ratio of training losses up to there.

    Each is (tokens, ratio, half-width by sources and seeds), over one block of the run. Text is
    read once, so these are losses on new text, on the same rows for both models.
    """
    by_arm: dict[str, dict[tuple[int, int], Row]] = {}
    for row in rows:
        by_arm.setdefault(row["arm"], {})[row["seed"], row["tokens"]] = row
    made = {}
    for arm, own in by_arm.items():
        other = by_arm.get(rival_of(study, arm), {})
        shared = sorted(own.keys() & other.keys())
        if not shared or rival_of(study, arm) == arm:
            continue
        points = []
        for block in range(BLOCKS):
            pairs = [
                (own[key]["curve"][source][block], other[key]["curve"][source][block])
                for key in shared
                for source in own[key]["curve"]
            ]
            logs = [one - two for one, two in pairs if None not in (one, two)]
            if not logs:
                continue
            tokens = shared[0][1] * (block + 1) / BLOCKS / 1e6
            points.append((tokens, math.exp(fmean(logs)), math.expm1(half_width(logs))))
        made[arm] = points
    return made


def curve_of(metrics: Sequence[Mapping[str, float]], sources: Sequence[str]) -> dict[str, Any]:
    """Return the mean training loss of each source in each eighth of a run, of logged steps."""
    last = metrics[-1]["step"]
    made: dict[str, list[float | None]] = {}
    for source in sources:
        name = f"loss/source/{source}"
        for block in range(BLOCKS):
            held = [
                row[name]
                for row in metrics
                if row.get(name) is not None
                and block < BLOCKS * row["step"] / last <= block + 1
                and math.isfinite(row[name])
            ]
            made.setdefault(source, []).append(round(fmean(held), 5) if held else None)
    return made


def draw(path: Path, svg: Path) -> None:
    """Draw the ratios of each source with intervals by documents, and the curves."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": svg.name}
    study, rows = rows_of(path)
    found = ratios(study, rows)
    arms = list(dict.fromkeys(each.arm for each in found))
    lengths = sorted({each.length for each in found})
    if not arms:
        raise SystemExit(f"{path} has no two arms to compare yet")
    rivals = {each.rival for each in found}
    shown = f"perplexity in percent of {rivals.pop() if len(rivals) == 1 else 'the rival'}"
    figure = Figure(figsize=(11.5, 1.6 + 0.75 * len(arms)), layout="constrained")
    panels = figure.subplots(1, len(lengths) + 1, width_ratios=[1] * len(lengths) + [1.3])
    for panel, length in zip(panels, lengths, strict=False):
        sources = list(dict.fromkeys(each.source for each in found))
        for place, source in enumerate(sources):
            own = [each for each in found if (each.source, each.length) == (source, length)]
            heights = [arms.index(each.arm) + 0.7 * (place / len(sources) - 0.5) for each in own]
            values = [100 * math.exp(each.log) for each in own]
            halves = [100 * math.expm1(each.documents) for each in own]
            panel.errorbar(values, heights, xerr=halves, fmt="o", ms=3, lw=1, label=source)
        panel.axvline(100, color="#59636f", lw=0.8)
        panel.set(title=f"{length:,} tokens")
        panel.set_yticks(range(len(arms)), arms if panel is panels[0] else [""] * len(arms))
        panel.invert_yaxis()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=len(labels), frameon=False)
    for arm, points in curves(study, rows).items():
        tokens, ratio, half = np.array(points).T
        panels[-1].plot(tokens, 100 * ratio, label=arm)
        panels[-1].fill_between(
            tokens, 100 * ratio / (1 + half), 100 * ratio * (1 + half), alpha=0.15, lw=0
        )
    panels[-1].axhline(100, color="#59636f", lw=0.8)
    panels[-1].set(title="on new text, in training", xlabel="million tokens")
    panels[-1].legend(frameon=False)
    figure.suptitle(shown)
    svg.parent.mkdir(parents=True, exist_ok=True)
    part = svg.with_name(f".{svg.name}")
    figure.savefig(part, format="svg", metadata={"Date": None})
    write_whole(svg, part.read_text(encoding="utf-8"))
    part.unlink()
