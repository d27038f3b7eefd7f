"""The data: tokens per segment by document length, a cut passage, and growth (arXiv 2401.16421)."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from segmenters.wording import counted
from train.report.content import Block, Cell, Figure, Heading, Html, Line, Table, Words, note
from train.report.figures import Drawing
from train.report.figures.histograms import Histogram, histograms
from train.report.figures.lines import Lines, Series
from train.report.formats import DAGGER, DASH, count, percent, short
from train.report.palette import ordered_styles
from train.report.table import Results

_SAMPLE = 1400  # characters shown at most, up to the end of a segment
_LINES = 24  # lines shown at most
_BLANKS = re.compile(r"(\n|\t|^ +| +$|(?<= ) +(?= )|  +)")
_DRAWN = {"\n": "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}", "\t": "\N{RIGHTWARDS ARROW}"}


def segments(results: Results) -> Iterator[Block]:
    """Show one part for each source, or a sentence if no data set was given."""
    if not results.sources:
        yield Words(note("segments", "nothing"))
        return
    yield Words(note("segments", "claim"))
    for name, source in results.sources.items():
        buckets, sample = source["by_document_length"], source["sample"]
        yield Heading(name)
        yield Words(note("segments", "facts", **source), look="facts")
        if buckets:
            drawing = _histograms(f"segments_{name}", name, source["edges"], buckets)
            yield Figure(drawing, _buckets(buckets))
        if sample and sample["text"]:
            yield _passage(name, sample)


def _histograms(
    name: str, source: str, edges: Sequence[float], buckets: Sequence[Mapping[str, Any]]
) -> Drawing:
    rows = [
        Histogram(label=_range(bucket), detail=counted(bucket["documents"], "document"),
                  shares=tuple(n / max(1, bucket["segments"]) for n in bucket["histogram"]),
                  mean=bucket["mean"])
        for bucket in buckets
    ]  # fmt: skip
    title = f"Tokens per segment on {source}, by the length of the document"
    return histograms(rows, name=name, title=title, edges=(*edges, math.inf))


def _range(bucket: Mapping[str, Any]) -> str:
    end = " or more" if bucket["to"] is None else f"{DASH}{count(bucket['to'] - 1)}"
    return f"{count(bucket['from'])}{end}"


def _buckets(buckets: Sequence[Mapping[str, Any]]) -> Table:
    most = max(bucket["segments_per_document"] for bucket in buckets) or 1.0
    rows: list[Line] = [
        [_range(bucket), count(bucket["documents"]), short(bucket["mean"]),
         Cell(short(bucket["segments_per_document"]), meter=bucket["segments_per_document"] / most)]
        for bucket in buckets
    ]  # fmt: skip
    return Table(["document, tokens", "documents", "tokens / segment", "segments / document"], rows)


def _passage(name: str, sample: Mapping[str, Any]) -> Html:
    text, cuts = sample["text"], sample["cuts"]
    whole = [end <= _SAMPLE and text.count("\n", 0, end) <= _LINES for end in cuts]
    shown = max(1, sum(whole[1:]))  # `end` and its lines grow, so the true ones are first
    caption = note("segments", "passage", document=str(sample.get("document") or "a document"),
                   source=name, split=str(sample.get("split")),
                   segments=counted(shown, "segment"))  # fmt: skip
    parts = []
    for place, (low, high) in enumerate(itertools.pairwise(cuts[: shown + 1])):
        # A single segment may be the whole document, so it is cut as well.
        pieces = [*_drawn(text[low : min(high, low + _SAMPLE)])]
        pieces += [("\N{HORIZONTAL ELLIPSIS}", True)] if high - low > _SAMPLE else []
        tip = f"segment {place}: characters {count(low)} to {count(high)} ({count(high - low)})"
        parts.append((tip, pieces))
    return Html("passage", {"caption": caption, "segments": parts})


def _drawn(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a text, and whether each is a drawing of white space."""
    for piece in filter(None, _BLANKS.split(text)):
        if piece in _DRAWN:
            yield _DRAWN[piece], True
            yield piece, False
        elif set(piece) == {" "} and _BLANKS.fullmatch(piece):
            yield "\N{MIDDLE DOT}" * len(piece), True
        else:
            yield piece, False


def growth(
    counts: Mapping[str, Any] | None, drawn: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[Block]:
    """Show growth, distances, distributions and separators, or that nothing was counted.

    drawn: the sources whose distributions are on the page already.
    """
    if counts is None or not counts["sources"]:
        yield Words(note("growth", "nothing"))
        return
    sources = counts["sources"]
    looks = ordered_styles(list(sources))
    points = {name: tuple((float(bucket["segments_per_document"] * bucket["mean"]),
                           bucket["segments_per_document"])
                          for bucket in source["by_document_length"])
              for name, source in sources.items()}  # fmt: skip
    chart = Lines(
        name="growth", title="Segments per document against its tokens", x_scale="octaves",
        series=[Series(label=name, style=looks[name], points=points[name]) for name in sources],
        x_name="tokens per document, mean of a bin (log scale)", y_name="segments per document",
    ).draw()  # fmt: skip
    yield Words(note("growth", "claim"))
    yield Figure(chart, _growth(sources))
    for name, source in sources.items():
        if source["by_document_length"]:
            yield from _source(name, source, counts["segment_edges"], drawn.get(name, {}))


def _growth(sources: Mapping[str, Any]) -> Table:
    rows = []
    for name, source in sources.items():
        line, distance = source["growth"] or {}, source["distance"]
        chance = [pair["by_chance"] for pair in distance["pairs"]]
        slope = line.get("slope")
        numbers = [None if slope is None else 1000 * slope, line.get("intercept"), line.get("r2"),
                   line.get("exponent"), distance["mean"], distance["largest"],
                   sum(chance) / len(chance) if chance else None]  # fmt: skip
        rows.append([name, *(DAGGER if value is None else short(value) for value in numbers)])
    head = ["source", "segments / 1000 tokens", "intercept", "R\u00b2", "exponent"]
    head += ["JS, mean", "JS, largest", "JS by chance"]
    least = next(iter(sources.values()))["distance"]["least_documents"]
    text = note("growth", least=count(least))
    return Table(head, rows, note=text, title=note("growth", "title"))


def _source(
    name: str, source: Mapping[str, Any], edges: Sequence[float], drawn: Mapping[str, Any]
) -> Iterator[Block]:
    buckets, table = source["by_document_length"], _distances(source["distance"])
    segmenter = str(source["segmenter"].get("segmenter", "")).rpartition(".")[2]
    single = percent(source["tokens_per_segment"]["share_of_length_1"], 1)
    yield Heading(name)
    yield Words(f"Cut by {segmenter}; {single} of the segments have one token.")
    if buckets == drawn.get("by_document_length"):
        yield table
    else:
        yield Figure(_histograms(f"growth_{name}", name, edges, buckets), table)
    if source["separators"]:
        yield _separators(name, source["separators"])


def _distances(distance: Mapping[str, Any]) -> Table:
    bins = distance["bins"]
    pairs = {tuple(pair["bins"]): pair for pair in distance["pairs"]}

    def cell(low: int, other: int) -> str:
        pair = pairs.get((min(low, other), max(low, other)))
        return f"{pair['distance' if low < other else 'by_chance']:.3f}" if pair else ""

    rows = [[f"{count(low)}+", *(cell(low, other) for other in bins)] for low in bins]
    head = ["JS distance", *(f"{count(low)}+" for low in bins)]
    return Table(head, rows, note=note("growth", "distances"))


def _separators(name: str, ends: Mapping[str, Any]) -> Table:
    rows_of = [("a line end", ends["line_end"])]
    rows_of += [(f"{row['character']} ({row['name'].lower()})", row) for row in ends["characters"]]
    rows = [
        [end, percent(row["share"], 1), count(row["appearances"]),
         DAGGER if row["hit_rate"] is None else percent(row["hit_rate"], 1)]
        for end, row in rows_of
    ]  # fmt: skip
    blank = percent(ends["blank_share"], 1)
    text = note("growth", "ends", tokens=count(ends["tokens"]), blank=blank)
    head = ["ends a segment", "share of segments", "occurrences", "hit rate"]
    return Table(head, rows, note=text, title=f"Ends of segments: {name}")
