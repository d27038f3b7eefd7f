"""What `benchmarks.answers` trains: cuts of the text, arms, and the order of the runs of a study.

Any prefix of a study is a fair comparison: the arms of one seed stand together, and what tells most
comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.answers_text import SOURCES

Node = dict[str, Any]  # of a configuration
MILLION = 1_000_000
ROW, BATCH = 512, 8  # tokens of a row; rows of a step
LENGTHS = (1, 4, 16)  # rows, at which models are measured
MOST_PASSES = 1.2  # over any source, but for an arm that repeats text

# 1.9M weights without embeddings, and 7M.
MODELS = {
    "2M": {"width": 192, "n_layer": 4, "n_head": 4, "mlp_width": 576},
    "7M": {"width": 320, "n_layer": 5, "n_head": 5, "mlp_width": 960},
}
NATURAL: dict[str, Node] = {
    name: {"_target_": f"segmenters.{origin.segmenter}"} for name, origin in SOURCES.items()
}
_NEWLINE: Node = {"_target_": "segmenters.Newline"}
# Where LaTeX may end a segment besides its sentences: around displays, after their lines, and
# before and after environments.
_DISPLAYS = (
    r"\n(?=\$\$|\\\[|\\begin\{)|\$\$[.,;]?[ \t]*\n|\\\][.,;]?[ \t]*\n|\\\\[ \t]*\n"
    r"|\\end\{\w+\*?\}[ \t]*\n"
)


def _latex(ends: str) -> Node:
    return {"_target_": "benchmarks.answers_cuts.Also", "of": NATURAL["latex"], "ends": ends}


def _shuffled(of: Node) -> Node:
    return {"_target_": "segmenters.Matched", "of": of, "kind": "shuffled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """Segmenters by source, where they are not the natural ones; longest: a bound by source.

    text: the folder of documents, below that of all of them.
    """

    segmenters: Mapping[str, Node] = field(default_factory=dict)
    longest: Mapping[str, str] = field(default_factory=dict)
    text: str = "."


def _stride(length: int) -> Cuts:
    node = {"_target_": "benchmarks.answers_cuts.TokenStride", "length": length}
    node["tokenizer"] = None  # that of the corpus
    return Cuts(segmenters=dict.fromkeys(SOURCES, node))


def _longest(tokens: int, names: Iterable[str] = tuple(SOURCES)) -> Cuts:
    return Cuts(longest=dict.fromkeys(names, f"{tokens} tokens"))


STRIDES, BOUNDS = (4, 8, 16, 32, 64), (16, 32)
CUTS: dict[str, Cuts] = {
    "natural": Cuts(),
    "newline": Cuts(segmenters=dict.fromkeys(SOURCES, _NEWLINE)),
    "shuffled": Cuts(segmenters={name: _shuffled(node) for name, node in NATURAL.items()}),
    "quarter": Cuts(text="quarter"),
    **{f"stride_{length}": _stride(length) for length in STRIDES},
    **{f"longest_{length}": _longest(length) for length in BOUNDS},
    # One source by newlines; code is cut alike in both.
    **{
        f"newline_{name}": Cuts(segmenters={name: _NEWLINE})
        for name, origin in SOURCES.items()
        if not origin.code
    },
    # LaTeX cut more finely than its sentences.
    "latex_lines": Cuts(segmenters={"latex": _latex("\n")}),
    "latex_displays": Cuts(segmenters={"latex": _latex(_DISPLAYS)}),
    "latex_clauses": Cuts(
        segmenters={"latex": {"_target_": "segmenters.Clauses", "of": NATURAL["latex"]}}
    ),
    "latex_longest_16": _longest(16, ["latex"]),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What is compared. only: the one source of text; repeats: text may be read more often."""

    cuts: str = "natural"
    encoding: str = "bipe_rope"
    model: str = "2M"
    only: str | None = None
    repeats: bool = False


ALONE = ("prose", "latex", "coq")
ARMS: dict[str, dict[str, Arm]] = {
    "A": {
        **{name: Arm(cuts=name) for name in CUTS if name != "quarter"},
        "flat": Arm(encoding="rope"),
        "rope_inside": Arm(encoding="bilevel_rope"),
        **{
            f"only_{name}_{cuts}": Arm(cuts=cuts, only=name)
            for name in ALONE
            for cuts in ("natural", "newline")
        },
        **{
            f"alibi_{cuts}": Arm(cuts=cuts, encoding="bipe_alibi")
            for cuts in ("natural", "newline", "shuffled")
        },
    },
    "B": {
        "fox": Arm(encoding="fox"),
        "fox_segments": Arm(encoding="fox_segments"),
        "fox_segments_shuffled": Arm(encoding="fox_segments", cuts="shuffled"),
        "fox_rope": Arm(encoding="fox_rope"),
        "alibi": Arm(encoding="alibi"),
        "bipe_alibi": Arm(encoding="bipe_alibi"),
        "fox_repeated": Arm(encoding="fox", cuts="quarter", repeats=True),
        "fox_segments_repeated": Arm(encoding="fox_segments", cuts="quarter", repeats=True),
    },
    "C": {
        name: Arm(encoding=name, model="7M")
        for name in ("fox", "fox_segments", "bipe_rope", "rope")
    },
}
# The arm that others of a study are compared with; an arm of ALiBi, of one source or of repeated
# text has a rival of its own.
FIRST = {"A": "natural", "B": "fox", "C": "fox"}
RIVALS = {
    "A": {
        **{
            f"only_{name}_{cuts}": f"only_{name}_natural"
            for name in ALONE
            for cuts in ("natural", "newline")
        },
        "alibi_newline": "alibi_natural",
        "alibi_shuffled": "alibi_natural",
    },
    "B": {"bipe_alibi": "alibi", "fox_segments_repeated": "fox_repeated"},
    "C": {"bipe_rope": "rope"},
}
# An encoding that conf/encoding lacks: FoX over tokens, RoPE in segments.
ENCODINGS: dict[str, Node] = {
    "fox_rope": {
        "_target_": "bipe.encodings.Chain",
        "links": [
            {
                "_target_": "bipe.encodings.Flat",
                "encoding": {
                    "_target_": "bipe.encodings.fox.FoX",
                    "width": "${model.width}",
                    "n_head": "${model.n_head}",
                    "n_layer": "${model.n_layer}",
                },
            },
            {
                "_target_": "bipe.encodings.Bilevel",
                "intra": {
                    "_target_": "bipe.encodings.RoPE",
                    "head_width": "${head_width:${model.width},${model.n_head}}",
                    "theta": 10000.0,
                },
                "inter": {"_target_": "bipe.encodings.NoPE"},
            },
        ],
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One model: its name is that of its folder."""

    study: str
    arm: str
    seed: int
    tokens: int

    @property
    def name(self) -> str:
        return f"{self.study}_{self.arm}_{self.seed}"

    @property
    def what(self) -> Arm:
        return ARMS[self.study][self.arm]

    @property
    def steps(self) -> int:
        return max(1, round(self.tokens / (ROW * BATCH)))

    @property
    def shares(self) -> dict[str, float]:
        """Return the share of each source in the tokens."""
        if self.what.only:
            return {self.what.only: 1.0}
        return {name: origin.share for name, origin in SOURCES.items()}


def _runs(study: str, arms: Iterable[str], *seeds: int, tokens: int | None = None) -> Iterator[Run]:
    usual = 10 * MILLION if study == "A" else 20 * MILLION
    for seed in seeds:
        for arm in arms:
            yield Run(study=study, arm=arm, seed=seed, tokens=tokens or usual)


def _study_a() -> Iterator[Run]:
    four = ("natural", "newline", "shuffled", "flat")
    yield from _runs("A", four, 0, 1)
    yield from _runs("A", ("rope_inside", "newline_latex"), 0)
    yield from _runs("A", ("stride_16", "longest_16"), 0)
    yield from _runs("A", four, 2)  # two seeds leave a half-width of 9 deviations, three of 2.5
    lengths = ("stride_32", "stride_8", "longest_32", "stride_64", "stride_4")
    yield from _runs("A", lengths, 0)
    finer = ("latex_displays", "latex_lines", "latex_clauses", "latex_longest_16")
    yield from _runs("A", (*finer, "newline_prose", "newline_coq", "newline_hol"), 0)
    for name in ALONE:  # as many tokens as the source has in the mixture
        own = round(10 * MILLION * SOURCES[name].share)
        arms = [f"only_{name}_{cuts}" for cuts in ("natural", "newline")]
        yield from _runs("A", arms, 0, tokens=own)
    yield from _runs("A", four, 3)
    yield from _runs("A", [f"alibi_{cuts}" for cuts in four[:3]], 0, 1, 2)


def _study_b() -> Iterator[Run]:
    six = ("fox", "fox_segments", "fox_segments_shuffled", "fox_rope", "alibi", "bipe_alibi")
    repeated = ("fox_repeated", "fox_segments_repeated")
    yield from _runs("B", six, 0)
    yield from _runs("B", repeated, 0)
    yield from _runs("B", six, 1)
    yield from _runs("B", six[:3], 2)
    yield from _runs("B", repeated, 1)


STUDIES: dict[str, tuple[Run, ...]] = {
    "A": tuple(_study_a()),
    "B": tuple(_study_b()),
    "C": tuple(_runs("C", ("fox", "fox_segments", "rope", "bipe_rope"), 0)),
}
