"""What the report is made of: one frozen record a thing, filled by `load.py`.

A measurement that is not finite (null, NaN, infinite) is kept as such a float: a model that
diverges is a result, and the figures show it as a gap with a dagger. Units stand beside the fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from train.report.probes import Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    name: str
    family: str
    levels: str  # "flat" or "bilevel"
    parameters: int
    encoding: Mapping[str, Any]
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    row_length: int  # tokens
    tokens: float  # this and the next are whole, or not a number where nobody noted them
    steps: float
    seconds: float
    seed: int | None
    sources: Mapping[str, float]  # weight of each
    curve: tuple[tuple[float, float], ...]  # (tokens seen, loss in nats a token)
    skipped_steps: int
    clipped_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ByPosition:
    """Loss by place in the document: `nll[i]` is the mean over tokens in edges[i] .. edges[i+1]."""

    length: int  # tokens
    edges: tuple[int, ...]
    nll: tuple[float, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Perplexity of one model on one source; all tuples run along `lengths` (tokens)."""

    lengths: tuple[int, ...]
    perplexity: tuple[float, ...]
    bits_per_byte: tuple[float, ...]
    nll: tuple[float, ...]
    tokens_scored: tuple[int, ...]
    documents: tuple[int, ...]
    by_position: ByPosition | None
    # Of the means over seeds: half of their 95% intervals, in nats; none for a single run.
    half_widths: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkey:
    """Retrieval: `accuracy[l][d]` and `exact[l][d]` at lengths[l] tokens and depths[d]."""

    protocol: str
    lengths: tuple[int, ...]
    depths: tuple[float, ...]  # 0 is the start of the document
    accuracy: tuple[tuple[float, ...], ...]
    exact: tuple[tuple[float, ...], ...]
    trials: int  # of each cell
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """Shares of right answers, steps and tokens; all but `trained` run along `operators`."""

    protocol: str
    trained: tuple[int, ...]  # numbers of operators in training
    operators: tuple[int, ...]
    problems: tuple[int, ...]
    answer: tuple[float, ...]
    steps: tuple[float, ...]
    tokens: tuple[float, ...]
    interval: tuple[tuple[float, float], ...]  # of the answers, 95%


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretched:
    """One way to stretch a model (a line of a sweep); all tuples run along `lengths` (tokens)."""

    method: str
    unit: str  # tokens or segments; empty where the method asks for no original length
    lengths: tuple[int, ...]
    factors: tuple[float, ...]
    perplexity: Mapping[str, tuple[float, ...]]  # of each source
    bits_per_byte: Mapping[str, tuple[float, ...]]
    tokens_scored: Mapping[str, tuple[int, ...]]
    passkey: tuple[float, ...]  # share found; not a number where it was not asked for
    protocol: str

    @property
    def name(self) -> str:
        """The method, with its unit where it has one."""
        return f"{self.method} ({self.unit})" if self.unit else self.method


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    label: str  # the model's name, made unique among the runs of one report
    folder: str
    model: Model
    training: Training
    protocol: str
    scores: Mapping[str, Scores]
    passkey: Passkey | None
    environment: Mapping[str, Any]
    config: Mapping[str, Any]
    arithmetic: Arithmetic | None = None
    probes: Mapping[str, Probe] = field(default_factory=dict)
    stretched: tuple[Stretched, ...] = ()
    members: tuple["Run", ...] = ()  # the runs of several seeds that this one is the mean of


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """The distribution of tokens a segment."""

    segments: int
    mean: float
    percentiles: Mapping[str, float]
    longest: int
    share_of_length_1: float
    histogram: tuple[int, ...]  # segments in each bin of SourceStatistics.edges


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Documents of low to under high tokens; `high` is None where there is no upper end."""

    low: int
    high: int | None
    documents: int
    segments_per_document: float
    lengths: Lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A passage of one document; the cuts are characters of the passage."""

    document: str
    split: str
    text: str
    cuts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatistics:
    licence: str
    provenance: str
    segmenter: Mapping[str, Any]
    documents: int
    tokens: int
    bytes: int
    edges: tuple[float, ...]  # tokens a segment; the last is infinite
    lengths: Lengths
    buckets: tuple[Bucket, ...]
    sample: Sample | None
