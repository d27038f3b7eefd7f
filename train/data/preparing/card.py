"""The data card: what a prepared data set holds, in Markdown for a reader."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from train.data.reading.split import SPLITS


def card_data(manifest: dict[str, Any], statistics: dict[str, Any]) -> dict[str, Any]:
    """What the card says, as JSON-able values."""
    return {
        "tokenizer": manifest["tokenizer"],
        "deduplicated": manifest["request"]["deduplicate"],
        "sources": {
            name: {**entry, **statistics["sources"][name]}
            for name, entry in manifest["sources"].items()
        },
    }


def card(data: dict[str, Any]) -> str:
    """The card in Markdown."""
    tokenizer = data["tokenizer"]
    lines = [
        "# Data card",
        "",
        f"Vocabulary: {tokenizer['vocab_size']} pieces, sha256 {tokenizer['sha256'][:16]}.",
        "Lengths are in tokens; segments are those of the first level.",
        "",
        "| source | split | documents | tokens | segments | MB of text | replaced characters |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name, source in data["sources"].items():
        for split in SPLITS:
            counts = source["splits"][split]
            lines.append(
                f"| {name} | {split} | {counts['documents']} | {counts['tokens']} "
                f"| {counts['segments']} | {counts['bytes'] / 1e6:.2f} | {counts['replaced']} |"
            )
    for name, source in data["sources"].items():
        lines += ["", *_source(name, source)]
    return "\n".join(lines) + "\n"


def _source(name: str, source: dict[str, Any]) -> list[str]:
    lengths, sample = source["tokens_per_segment"], source["sample"]
    percentiles = ", ".join(f"{key}%: {value}" for key, value in lengths["percentiles"].items())
    clipped = ", ".join(f"{size}: {100 * s:.2f}%" for size, s in lengths["clipped"].items())
    left_out = {
        "empty": source["empty"],
        **source["bad"],
        "duplicates": source["duplicates"],
        **{f"by {name}": number for name, number in source["filtered"].items()},
    }
    lines = [
        f"## {name}",
        "",
        f"- licence: {source['licence'] or 'not stated'}; from {source['provenance']}: "
        f"{_corpus(source['documents'])}",
        f"- segmenter: {source['segmenter'].get('segmenter', 'not stated')}",
        *_choices(source),
        f"- tokens a segment: mean {lengths['mean']:.1f}; {percentiles}; longest {lengths['max']}",
        f"- segments of one token: {100 * lengths['share_of_length_1']:.1f}%",
        f"- tokens beyond the end of a table of intra positions, by its size: {clipped}",
        *(f"- left out, {rule}: {number}" for rule, number in left_out.items() if number),
        *(f"  - {example}" for example in source.get("left_out", [])),
        "",
        "| document length | documents | segments a document | tokens a segment |",
        "|---|---:|---:|---:|",
    ]
    for bucket in source["by_document_length"]:
        above = f"to {bucket['to'] - 1}" if bucket["to"] else "and more"
        lines.append(
            f"| {bucket['from']} {above} | {bucket['documents']} "
            f"| {bucket['segments_per_document']:.1f} | {bucket['mean']:.1f} |"
        )
    cuts, text = sample["cuts"], sample["text"]
    pieces = [text[start:stop] for start, stop in pairwise(cuts)]
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=2))
    return [
        *lines,
        "",
        f"A passage of {sample['document']} ({sample['split']}), segments between bars:",
        "",
        fence + "text",
        "|".join(pieces),
        fence,
    ]


def _corpus(documents: dict[str, Any]) -> str:
    """The reader and the address that it was given."""
    address = documents.get("path") or documents.get("packages")
    return documents["reader"] + (f" {address}" if address else "")


def _choices(source: dict[str, Any]) -> list[str]:
    chosen = source.get("segmenters")
    if not chosen:
        return []
    told = "; ".join(f"{number} by {segmenter}" for segmenter, number in chosen.items())
    return [f"- documents by segmenter: {told}"]
