"""The data: tokens per segment by document length, and a sample with its segments coloured.

The histograms repeat Figure 1 of He et al. (2024, arXiv 2401.16421) on the data at hand: what a
bilevel encoding relies on is that segments keep their lengths while documents grow, so that longer
documents have more segments and not longer ones.
"""

import re
from collections.abc import Mapping
from typing import Any

from train.report.figures import Histogram, histograms
from train.report.formats import DASH, amount, count, percent, short, tick
from train.report.markup import Markup, join, tag
from train.report.records import Bucket, Sample, SourceStatistics
from train.report.tables import beside, section, table

_SAMPLE = 1400  # characters shown, up to the end of a segment
_LINES = 24  # and lines
_BLANKS = re.compile(r"[\n\t]|^ +| +$|(?<= ) +(?= )|  +")


def segments(statistics: Mapping[str, SourceStatistics]) -> Markup:
    """One part a source; nothing but a sentence where no data set was given."""
    if not statistics:
        return section("segments", "Segments", tag("p", "No prepared data set was given."))
    return section(
        "segments",
        "Segments of the data",
        tag("p", "Bilevel encodings count tokens inside a segment and segments inside a document. "
            "They can extrapolate where longer documents have more segments rather than longer "
            "ones: then the histograms of one source look alike in all rows, while segments per "
            "document grow. Every row is normalised to its own segments."),
        *(_source(name, held) for name, held in statistics.items()),
    )  # fmt: skip


def _source(name: str, held: SourceStatistics) -> Markup:
    parts = [tag("h3", name), tag("p", _facts(held), class_="facts")]
    if held.buckets:
        parts.append(beside(_drawing(name, held), table=_bucket_table(held)))
    if held.sample and held.sample.text:
        parts.append(_sample(name, held.sample))
    return tag("div", *parts, class_="source")


def _facts(held: SourceStatistics) -> str:
    lengths = held.lengths
    ranks = ", ".join(f"{rank}% up to {tick(v)}" for rank, v in lengths.percentiles.items())
    return (
        f"{count(held.documents)} documents, {amount(held.tokens)} tokens, "
        f"{amount(lengths.segments)} segments by the segmenter {_segmenter(held.segmenter)}. "
        f"Tokens a segment: mean {short(lengths.mean)}; {ranks}; longest "
        f"{count(lengths.longest)}; {percent(lengths.share_of_length_1, 1)} of the segments have "
        f"one token. Provenance: {held.provenance.rstrip('.')}. "
        f"Licence: {(held.licence or 'not stated').rstrip('.')}."
    )


def _segmenter(fingerprint: Mapping[str, Any]) -> str:
    return str(fingerprint.get("segmenter", "of no stated name"))


def _drawing(name: str, held: SourceStatistics) -> Markup:
    rows = [
        Histogram(
            label=_range(bucket),
            detail=f"{count(bucket.documents)} documents",
            share=tuple(n / max(1, bucket.lengths.segments) for n in bucket.lengths.histogram),
            mean=bucket.lengths.mean,
        )
        for bucket in held.buckets
    ]
    return histograms(
        title=f"Tokens per segment on {name}, by the length of the document",
        edges=held.edges,
        rows=rows,
        x_name="tokens per segment",
    )


def _bucket_table(held: SourceStatistics) -> Markup:
    most = max((b.segments_per_document for b in held.buckets), default=1.0) or 1.0
    rows = [
        [
            _range(bucket),
            count(bucket.documents),
            short(bucket.lengths.mean),
            join([short(bucket.segments_per_document), _bar(bucket.segments_per_document / most)]),
        ]
        for bucket in held.buckets
    ]
    head = ["document, tokens", "documents", "tokens / segment", "segments / document"]
    return table(head=head, rows=rows)


def _bar(share: float) -> Markup:
    wide = 0.0 if share != share else 100 * min(1.0, max(0.0, share))
    return tag("i", tag("i", style=f"width:{wide:.1f}%"), class_="meter", aria_hidden="true")


def _range(bucket: Bucket) -> str:
    if bucket.high is None:
        return f"{count(bucket.low)} and more"
    return f"{count(bucket.low)}{DASH}{count(bucket.high - 1)}"


def _sample(name: str, sample: Sample) -> Markup:
    shown = 1
    while (
        shown + 1 < len(sample.cuts)
        and sample.cuts[shown + 1] <= _SAMPLE
        and sample.text.count("\n", 0, sample.cuts[shown + 1]) <= _LINES
    ):
        shown += 1
    spans = [_span(sample, index) for index in range(shown)]
    caption = (
        f"A passage of {sample.document or 'a document'} ({name}, {sample.split} split): "
        f"{count(shown)} segments in turns of two tints, numbered from the passage's first. "
        "White space at the ends of segments is drawn."
    )
    return tag("figure", tag("figcaption", caption), tag("pre", *spans, class_="sample"))


def _span(sample: Sample, index: int) -> Markup:
    low, high = sample.cuts[index], sample.cuts[index + 1]
    # One segment may be the whole document, so the text is cut at the sample's size all the same.
    text = sample.text[low : min(high, max(low, 0) + _SAMPLE)]
    title = f"segment {index}: characters {count(low)} to {count(high)} ({count(high - low)})"
    rest = [tag("i", "\N{HORIZONTAL ELLIPSIS}")] if high - low > _SAMPLE else []
    return tag(
        "span", tag("sup", str(index)), *_drawn(text), *rest,
        class_=f"segment {'even' if index % 2 == 0 else 'odd'}", title=title,
    )  # fmt: skip


def _drawn(text: str) -> list[str]:
    parts: list[str] = []
    at = 0
    for match in _BLANKS.finditer(text):
        parts.append(text[at : match.start()])
        parts += _blank(match.group())
        at = match.end()
    return [*parts, text[at:]]


def _blank(blank: str) -> list[str]:
    if blank == "\n":
        return [tag("i", "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"), "\n"]
    if blank == "\t":
        return [tag("i", "\N{RIGHTWARDS ARROW}"), "\t"]
    return [tag("i", "\N{MIDDLE DOT}" * len(blank))]
