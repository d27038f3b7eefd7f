"""Segments against the length of documents: figure 1 of He et al. (2401.16421), in numbers.

`growth` is a section from what `bipe evaluate statistics` wrote; `statistics_page` a page of it
alone, for there need not be a model.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from train.report.document import document
from train.report.figures import Histogram, Series, histograms, line_chart
from train.report.formats import DAGGER, DASH, count, percent, short
from train.report.markup import Markup, tag
from train.report.palette import HUES, Style
from train.report.tables import beside, section, table

_TITLE = "Segments against length"
_SHAPES = ("circle", "square", "diamond", "triangle")


def growth(statistics: Mapping[str, Any] | None) -> Markup:
    """Growth, distances, distributions and separators; a sentence where nothing was counted."""
    if statistics is None or not statistics["sources"]:
        said = "Not counted: `bipe evaluate statistics` does, without a model."
        return section("growth", _TITLE, tag("p", said))
    sources = statistics["sources"]
    edges = (*statistics["segment_edges"], float("inf"))
    return section(
        "growth",
        _TITLE,
        tag("p", "Figure 1 of the BiPE paper says that the distribution of tokens a segment is the "
            "same at every document length, while the number of segments grows with it. As "
            "numbers: the Jensen-Shannon distance between the distributions of two bins of "
            "document length (0: alike, 1: nothing in common) beside what chance alone gives for "
            "so many segments, and a line of segments against tokens over documents."),
        beside(_chart(sources), table=_numbers(sources)),
        *(part for name, held in sources.items() for part in _source(name, held, edges)),
    )  # fmt: skip


def statistics_page(statistics: Mapping[str, Any]) -> str:
    """The section as an HTML document of its own."""
    return document("Segments of prepared data", tag("h1", _TITLE), growth(statistics))


def _style(index: int) -> Style:
    return Style(hue=index % len(HUES), dashed=False, shape=_SHAPES[index % len(_SHAPES)])


def _chart(sources: Mapping[str, Any]) -> Markup:
    return line_chart(
        title="Segments a document against its tokens",
        series=[
            Series(
                label=name,
                style=_style(index),
                points=tuple(
                    (_tokens(bucket), bucket["segments_per_document"])
                    for bucket in held["by_document_length"]
                ),
            )
            for index, (name, held) in enumerate(sources.items())
        ],
        x_name="tokens a document, mean of a bin (log scale)",
        y_name="segments a document",
        x_scale="octaves",
    )


def _tokens(bucket: Mapping[str, Any]) -> float:
    """Mean tokens a document of a bin."""
    return float(bucket["segments_per_document"] * bucket["mean"])


def _numbers(sources: Mapping[str, Any]) -> Markup:
    rows = []
    for name, held in sources.items():
        line, distance = held["growth"] or {}, held["distance"]
        chance = [pair["by_chance"] for pair in distance["pairs"]]
        rows.append(
            [
                name,
                _shown(line.get("slope"), 1000),
                _shown(line.get("intercept")),
                _shown(line.get("r2")),
                _shown(line.get("exponent")),
                _shown(distance["mean"]),
                _shown(distance["largest"]),
                _shown(sum(chance) / len(chance) if chance else None),
            ]
        )
    head = ["source", "segments / 1000 tokens", "intercept", "R\u00b2", "exponent"]
    head += ["JS, mean", "JS, largest", "JS by chance"]
    least = next(iter(sources.values()))["distance"]["least_documents"]
    note = (
        "Exponent: of segments ~ tokens^a, 1 is growth in proportion. Bins with fewer than "
        f"{count(least)} documents are not compared."
    )
    return table(head=head, rows=rows, note=note)


def _shown(value: float | None, times: float = 1) -> str:
    return DAGGER if value is None else short(times * value)


def _source(name: str, held: Mapping[str, Any], edges: Sequence[float]) -> list[Markup]:
    buckets = held["by_document_length"]
    if not buckets:
        return []
    drawing = histograms(
        title=f"Tokens a segment on {name}, by the length of the document",
        edges=edges,
        rows=[
            Histogram(
                label=_range(bucket),
                detail=f"{count(bucket['documents'])} documents",
                share=tuple(n / max(1, bucket["segments"]) for n in bucket["histogram"]),
                mean=bucket["mean"],
            )
            for bucket in buckets
        ],
        x_name="tokens a segment",
    )
    segmenter = str(held["segmenter"].get("segmenter", "")).rpartition(".")[2]
    length_1 = percent(held["tokens_per_segment"]["share_of_length_1"], 1)
    told = f"Cut by {segmenter}; {length_1} of the segments have one token."
    parts = [tag("h3", name), tag("p", told), beside(drawing, table=_distances(held))]
    return [*parts, _separators(held["separators"])] if held["separators"] else parts


def _range(bucket: Mapping[str, Any]) -> str:
    if bucket["to"] is None:
        return f"{count(bucket['from'])} and more"
    return f"{count(bucket['from'])}{DASH}{count(bucket['to'] - 1)}"


def _distances(held: Mapping[str, Any]) -> Markup:
    """The matrix of distances, with what chance gives below each."""
    distance = held["distance"]
    bins = distance["bins"]
    pairs = {tuple(pair["bins"]): pair for pair in distance["pairs"]}
    rows = []
    for one in bins:
        cells = []
        for other in bins:
            pair = pairs.get((min(one, other), max(one, other)))
            shown = "" if pair is None else pair["distance" if one < other else "by_chance"]
            cells.append(shown if isinstance(shown, str) else f"{shown:.3f}")
        rows.append([f"{count(one)}+", *cells])
    head = ["JS distance", *(f"{count(one)}+" for one in bins)]
    note = "Above the diagonal: measured. Below: by chance. Bins by tokens a document."
    return table(head=head, rows=rows, note=note)


def _separators(held: Mapping[str, Any]) -> Markup:
    rows = [["a line end", *_rates(held["line_end"])]]
    rows += [[f"{row['character']} ({row['name'].lower()})", *_rates(row)]
             for row in held["characters"]]  # fmt: skip
    note = (
        f"Over {count(held['tokens'])} tokens. {percent(held['blank_share'], 1)} of the segments "
        "have nothing visible."
    )
    head = ["ends a segment", "share of segments", "appearances", "hit rate"]
    return table(head=head, rows=rows, note=note)


def _rates(row: Mapping[str, Any]) -> list[str]:
    rate = row["hit_rate"]
    return [
        percent(row["share"], 1),
        count(row["appearances"]),
        DAGGER if rate is None else percent(rate, 1),
    ]
