"""The sections of the configuration, what each may name, and their check.

A node with `_target_` is a call: its keys are keyword arguments, so the signature is the schema
(bipe/build.py). What a section may name is a subclass of a kind, of ours or of a package among
allowed_targets, or one of our factories by its name. conf/config.yaml explains each key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, get_args

from bipe.arguments import Count, Rule, fits
from bipe.build import Of
from train.config.calls import Call
from train.data.rows.choices import (
    Budget,
    Curriculum,
    MicroBatch,
    Mixture,
    Packing,
    PackingName,
    SplitDocuments,
)
from train.errors import ConfigError

_OPTIM = "train.fit.optim"
_ENGINES = ("Local", "Ray", "Slurm")

CorpusCall = Annotated[Call, Of(("train.data.preparing.source.Corpus",))]
EngineCall = Annotated[Call, Of(tuple(f"train.data.preparing.engines.{name}" for name in _ENGINES))]
LaunchCall = Annotated[Call, Of(("train.launch.slurm.Local", "train.launch.slurm.Slurm"))]
TaskCall = Annotated[Call, Of(("train.tasks.scrolls.examples.Task",))]
ModelCall = Annotated[Call, Of(("bipe.decoder.DecoderConfig",), partial=True)]
EncodingCall = Annotated[Call, Of(("bipe.encodings.Encoding", "bipe.encodings.Scheme"))]
_STRETCHES = ("bipe.encodings.rope.Stretch", "bipe.encodings.far.Far")
StretchCall = Annotated[Call, Of(_STRETCHES, partial=True)]
StrategyCall = Annotated[Call, Of((*_STRETCHES, "bipe.extension.Retrofit"), partial=True)]
DrawCall = Annotated[Call, Of(("bipe.random_positions.Draw",))]
OPTIMIZER = Of(
    ("torch.optim.Optimizer",), names=(f"{_OPTIM}.adamw", f"{_OPTIM}.muon"), partial=True
)
OptimizerCall = Annotated[Call, OPTIMIZER]
_SHAPES = ("constant", "cosine", "linear", "wsd", "cooled")
SCHEDULE = Of((f"{_OPTIM}.Schedule",), names=tuple(f"{_OPTIM}.{name}" for name in _SHAPES))
ScheduleCall = Annotated[Call, SCHEDULE]
TrainerCall = Annotated[
    Call, Of(("lightning.Trainer",), names=("lightning.Trainer",), partial=True)
]
LOGGER = Of(("lightning.pytorch.loggers.Logger",), partial=True)
LoggerCall = Annotated[Call, LOGGER]
CALLBACK = Of(
    ("lightning.pytorch.callbacks.Callback",),
    names=("train.commands.during.evaluation.while_training",),
    partial=True,
)
CallbackCall = Annotated[Call, CALLBACK]
MeasurementCall = Annotated[Call, Of(("train.evals.loop.Measurement",))]

NONE = "none"  # the sweep's method that leaves a model as it is
SCORINGS = ("rank", "write")
LayerName = Literal["query", "key", "value", "output", "gate", "up", "down"]
SplitName = Literal["train", "validation", "test"]
ProtocolName = Literal["windows", "sliding", "last_k", "full_context", "bipe_blocks", "yarn"]

Candidates = Annotated[int, Rule("at least 2", lambda value: value >= 2)]
Lengths = Annotated[list[int], Rule("numbers from 1 up", lambda value: min(value, default=0) >= 1)]
Places = Annotated[str | list[str], Rule("at least one run", bool)]
Once = Rule("at least one, each once", lambda values: 0 < len(set(values)) == len(values))
Shares = Annotated[
    list[float],
    Rule("shares from 0 to 1", lambda values: values and all(0 <= x <= 1 for x in values)),
]


_STAGES = Rule("a list of {length: tokens, steps: steps}, or null",
               lambda value: fits(value, list[Mapping[str, int]] | None))  # fmt: skip
_STEPS = Rule("all, a list of steps, or null",
              lambda value: value == "all" or fits(value, list[int] | None))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """How a run reads its data; conf/rows/concat.yaml explains each key."""

    global_batch: Count
    micro_batch: MicroBatch
    sources: dict[str, float] | list[str] | None
    temperature: float | None
    max_epochs: float | None
    if_repeated: Literal["warn", "refuse"]
    packing: PackingName
    split_documents: SplitDocuments
    level: int | str | list[str] | None
    coarser: list[int | str | list[str]] | None
    prompt_level: int | str | None
    curriculum: Annotated[Any, _STAGES]
    budget: Budget
    drop_last: bool
    on_batch_change: Literal["refuse", "convert"]
    validation_rows: int
    verify: bool

    def values(self) -> dict[str, Any]:
        """Return the arguments of LMDataModule that these keys decide, without `coarser`."""
        rest = {field.name: getattr(self, field.name) for field in fields(self)}
        del rest["coarser"]  # depends on the encoding
        packing = {name: rest.pop(name) for name in ("split_documents", "prompt_level")}
        return rest | {
            "packing": Packing(strategy=rest["packing"], **packing),
            "mixture": Mixture(**{field.name: rest.pop(field.name) for field in fields(Mixture)}),
            "curriculum": Curriculum(stages=self.curriculum or (), budget=rest.pop("budget")),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LoRA:
    """Low ranks that are trained in place of all weights (fit/lora.py)."""

    rank: Count = 16
    alpha: Annotated[float, Rule("above 0", lambda value: 0 < value < float("inf"))] = 32.0
    layers: Annotated[list[LayerName], Once] = field(default_factory=lambda: [*get_args(LayerName)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """The options of `bipe extend`; conf/config.yaml explains each key."""

    unit: Literal["segments", "tokens"] | Count | None
    distill: Annotated[float, Rule("0 or more", lambda value: 0 <= value < float("inf"))]
    new_lr: Annotated[float, Rule("above 0", lambda value: 0 < value < float("inf"))]
    lora: LoRA | None
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrolls:
    """The options of `bipe scrolls`: making of examples, choice of weights, and decoding."""

    examples: str
    source: str | None
    segmenter: str | None
    on_long: Literal["cut", "error"]
    select: Literal["best", "last"]
    split: str | None
    rows: Count | None
    batch: Count
    max_new: Count | None
    beams: int
    length_penalty: float
    early_stopping: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """The options of all probes in `evaluate.probes` (evals/probes); lengths in tokens."""

    source: str | None
    lengths: Lengths | None
    depths: Shares
    trials: Count
    candidates: Candidates
    scoring: Annotated[
        list[str],
        Rule(f"some of {', '.join(SCORINGS)}", lambda value: value and {*value} <= {*SCORINGS}),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """The arithmetic problems to pose (evals/arithmetic.py)."""

    source: str | None
    operators: Annotated[
        list[int],
        Rule("rising numbers from 1 up", lambda v: v == sorted({*v}) and min(v, default=0) >= 1),
    ]
    problems: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class LongPPL:
    """Which tokens are key (evals/perplexity/measure.py); evaluator: a run that decides."""

    context: Count | None = None
    alpha: float = 2.0
    beta: float = -2.0
    evaluator: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The ways of stretching to compare; conf/sweep/stretch.yaml explains each key."""

    methods: Annotated[list[str], Once]
    units: Annotated[list[Literal["tokens", "segments"]], Once]
    factor: Annotated[float, Rule("at least 1", lambda value: value >= 1)] | None
    stretch: Mapping[str, StretchCall]

    def __post_init__(self) -> None:
        methods = [NONE, *self.stretch]
        for name in self.methods:
            if name not in methods:
                raise ConfigError(
                    f"evaluate.sweep.methods: {name!r} is not one of {', '.join(methods)};"
                    f" define it: +stretch@evaluate.sweep.stretch.{name}=..."
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate:
    """The options of `bipe evaluate`; lengths in training rows. measurements: own ones, by name."""

    runs: Places
    checkpoints: Annotated[Any, _STEPS]
    lengths: Lengths
    documents: Count
    split: SplitName
    sources: list[str] | None
    tokens_per_batch: Count
    protocol: ProtocolName
    stride: Count | None
    last: Count | None
    start_token: int | None
    long_ppl: LongPPL | None
    probes: list[str]
    probing: Probing
    arithmetic: Arithmetic | None
    sweep: Sweep | None
    measurements: dict[str, MeasurementCall]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The options of `bipe evaluate statistics`: the text to count, and the file of the numbers."""

    out: Annotated[str, Rule("a file, but no .html", lambda out: not out.endswith(".html"))]
    sources: Annotated[list[str], Once] | None
    splits: Annotated[list[SplitName], Once]
    documents: Count
    separator_tokens: Count | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """The options of `bipe generate`: what to continue, and how."""

    run: str
    data: str | list[str] | dict[str, str] | None
    source: str | None
    segmenter: str | None
    prompt: str | None
    file: str | None
    max_new: Count
    samples: Count
    stop: Annotated[list[str], Rule("strings that are not empty", all)]
    temperature: float
    top_k: int | None
    top_p: float
    repetition_penalty: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The options of `bipe report`: what to read, and where to write."""

    runs: Places
    out: str
    title: str
    figures: list[Literal["pdf", "png"]]
