"""The data: tokens per segment by document length, a cut passage, and growth (arXiv 2401.16421)."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from segmenters.wording import counted
from train.report.content import Block, Cell, Figure, Heading, Line, Passage, Section, Table, Words
from train.report.figures import Drawing
from train.report.figures.cells import Histogram, histograms
from train.report.figures.lines import Lines, Series
from train.report.formats import DAGGER, DASH, amount, count, percent, short, tick
from train.report.palette import ordered_styles
from train.report.table import Results

GROWTH = "Segments against length"
_SAMPLE = 1400  # characters shown at most, up to the end of a segment
_LINES = 24  # lines shown at most
_BLANKS = re.compile(r"(\n|\t|^ +| +$|(?<= ) +(?= )|  +)")
_DRAWN = {"\n": "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}", "\t": "\N{RIGHTWARDS ARROW}"}


def segments(results: Results) -> Section:
    """Show one part for each source, or a sentence if no data set was given."""
    if not results.sources:
        return Section("segments", "Segments", [Words("No prepared data set was found.")])
    words = (
        "Bilevel encodings count tokens within a segment and segments within a document. They can "
        "extrapolate if longer documents have more segments, not longer ones: then the histograms "
        "of a source look alike in all rows, while segments per document grow. Each row is "
        "normalised separately."
    )
    blocks: list[Block] = [Words(words)]
    for name, held in results.sources.items():
        buckets, sample = held["by_document_length"], held["sample"]
        blocks += [Heading(name), Words(_facts(held), look="facts")]
        if buckets:
            drawing = _histograms(f"segments_{name}", name, held["edges"], buckets)
            blocks.append(Figure(drawing, _buckets(buckets)))
        if sample and sample["text"]:
            blocks.append(_passage(name, sample))
    return Section("segments", "Segments of the data", blocks, nav="Segments")


def _facts(held: Mapping[str, Any]) -> str:
    lengths, licence = held["tokens_per_segment"], str(held.get("licence") or "not stated")
    facts = (
        f"{counted(held['documents'], 'document')}, {amount(held['tokens'])} tokens, "
        f"{amount(lengths.get('segments', 0))} segments by the segmenter "
        f"{held['segmenter'].get('segmenter', 'without a stated name')}. "
    )
    if lengths:
        ranks = ", ".join(f"{rank}% up to {tick(n)}" for rank, n in lengths["percentiles"].items())
        facts += (
            f"Tokens per segment: mean {short(lengths['mean'])}; {ranks}; longest "
            f"{count(lengths['max'])}; {percent(lengths['share_of_length_1'], 1)} of the segments "
            "have one token. "
        )
    read = held.get("documents_read") or {}
    how = ", ".join(f"{key}={read[key]}" for key in ("path", "pattern", "split") if read.get(key))
    reader = f" ({read['reader']}{how and ' '}{how})" if read.get("reader") else ""
    facts += f"Provenance: {held['provenance'].rstrip('.')}{reader}. "
    return f"{facts}Licence: {licence.rstrip('.')}."


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


def _passage(name: str, sample: Mapping[str, Any]) -> Passage:
    text, cuts = sample["text"], sample["cuts"]
    whole = [end <= _SAMPLE and text.count("\n", 0, end) <= _LINES for end in cuts]
    shown = max(1, sum(whole[1:]))  # `end` and its lines grow, so the true ones are first
    document, split = sample.get("document"), sample.get("split")
    caption = (
        f"A passage of {document or 'a document'} ({name}, {split} split): "
        f"{counted(shown, 'segment')}, alternately tinted and numbered from the first. White space "
        "at segment ends is made visible."
    )
    pieces = []
    for place, (low, high) in enumerate(itertools.pairwise(cuts[: shown + 1])):
        # A single segment may be the whole document, so it is cut as well.
        own = [*_drawn(text[low : min(high, low + _SAMPLE)])]
        own += [("\N{HORIZONTAL ELLIPSIS}", True)] if high - low > _SAMPLE else []
        tip = f"segment {place}: characters {count(low)} to {count(high)} ({count(high - low)})"
        pieces.append((tip, own))
    return Passage(caption, pieces)


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


def growth(counted: Mapping[str, Any] | None) -> Section:
    """Show growth, distances, distributions and separators, or that nothing was counted."""
    if counted is None or not counted["sources"]:
        words = "Not counted yet: run bipe evaluate statistics with the same out= (needs no model)."
        return Section("growth", GROWTH, [Words(words)])
    sources = counted["sources"]
    words = (
        "Figure 1 of the BiPE paper shows that the distribution of tokens per segment is the same "
        "at every document length, while the number of segments grows with length. The table "
        "quantifies this: the Jensen-Shannon distance between the distributions of two bins of "
        "document length (0: identical, 1: disjoint), its expected value by chance for as many "
        "segments, and a linear fit of segments to tokens over documents."
    )
    looks = ordered_styles(list(sources))
    points = {name: tuple((float(bucket["segments_per_document"] * bucket["mean"]),
                           bucket["segments_per_document"])
                          for bucket in held["by_document_length"])
              for name, held in sources.items()}  # fmt: skip
    chart = Lines(
        name="growth", title="Segments per document against its tokens", x_scale="octaves",
        series=[Series(label=name, style=looks[name], points=points[name]) for name in sources],
        x_name="tokens per document, mean of a bin (log scale)", y_name="segments per document",
    ).draw()  # fmt: skip
    blocks: list[Block] = [Words(words), Figure(chart, _growth(sources))]
    for name, held in sources.items():
        blocks += _source(name, held, counted["segment_edges"])
    return Section("growth", GROWTH, blocks)


def _growth(sources: Mapping[str, Any]) -> Table:
    rows = []
    for name, held in sources.items():
        line, distance = held["growth"] or {}, held["distance"]
        chance = [pair["by_chance"] for pair in distance["pairs"]]
        slope = line.get("slope")
        numbers = [None if slope is None else 1000 * slope, line.get("intercept"), line.get("r2"),
                   line.get("exponent"), distance["mean"], distance["largest"],
                   sum(chance) / len(chance) if chance else None]  # fmt: skip
        rows.append([name, *(DAGGER if value is None else short(value) for value in numbers)])
    head = ["source", "segments / 1000 tokens", "intercept", "R\u00b2", "exponent"]
    head += ["JS, mean", "JS, largest", "JS by chance"]
    least = next(iter(sources.values()))["distance"]["least_documents"]
    note = (
        "Exponent: a in segments ~ tokens^a; 1 is proportional growth. Bins with fewer than "
        f"{count(least)} documents are not compared."
    )
    return Table(head, rows, note=note, title=GROWTH)


def _source(name: str, held: Mapping[str, Any], edges: Sequence[float]) -> list[Block]:
    buckets = held["by_document_length"]
    if not buckets:
        return []
    drawing = _histograms(f"growth_{name}", name, edges, buckets)
    segmenter = str(held["segmenter"].get("segmenter", "")).rpartition(".")[2]
    one = percent(held["tokens_per_segment"]["share_of_length_1"], 1)
    words = Words(f"Cut by {segmenter}; {one} of the segments have one token.")
    ends = [_separators(name, held["separators"])] if held["separators"] else []
    return [Heading(name), words, Figure(drawing, _distances(held["distance"])), *ends]


def _distances(distance: Mapping[str, Any]) -> Table:
    bins = distance["bins"]
    pairs = {tuple(pair["bins"]): pair for pair in distance["pairs"]}

    def cell(one: int, other: int) -> str:
        pair = pairs.get((min(one, other), max(one, other)))
        return f"{pair['distance' if one < other else 'by_chance']:.3f}" if pair else ""

    rows = [[f"{count(one)}+", *(cell(one, other) for other in bins)] for one in bins]
    note = "Above the diagonal: measured. Below: by chance. Bins by tokens per document."
    return Table(["JS distance", *(f"{count(one)}+" for one in bins)], rows, note=note)


def _separators(name: str, held: Mapping[str, Any]) -> Table:
    ends = [("a line end", held["line_end"])]
    ends += [(f"{row['character']} ({row['name'].lower()})", row) for row in held["characters"]]
    rows = [
        [end, percent(row["share"], 1), count(row["appearances"]),
         DAGGER if row["hit_rate"] is None else percent(row["hit_rate"], 1)]
        for end, row in ends
    ]  # fmt: skip
    note = (
        f"Over {count(held['tokens'])} tokens. {percent(held['blank_share'], 1)} of the segments "
        "are blank."
    )
    head = ["ends a segment", "share of segments", "occurrences", "hit rate"]
    return Table(head, rows, note=note, title=f"Ends of segments: {name}")
