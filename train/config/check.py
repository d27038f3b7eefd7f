"""Check the composed configuration against the signatures that it will call.

A node with `_target_` is a call: its keys are keyword arguments, so the signature is the schema
(bipe/build.py). What each section may name is listed here: a subclass of a kind, of ours or of a
package among allowed_targets, or one of our factories by its name.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from bipe.arguments import Rule, fits
from bipe.build import Of, faults_of
from train.errors import ConfigError

__all__ = ["Rule", "check", "fits"]

Call = Mapping[str, Any]  # a description that `bipe.build.build` turns into an object
_OPTIM, _LOGGERS = "train.fit.optim", "train.fit.watching.loggers"
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
OptimizerCall = Annotated[
    Call,
    Of(("torch.optim.Optimizer",), names=(f"{_OPTIM}.adamw", f"{_OPTIM}.muon"), partial=True),
]
_SHAPES = ("constant", "cosine", "linear", "wsd", "cooled")
SCHEDULE = Of((f"{_OPTIM}.Schedule",), names=tuple(f"{_OPTIM}.{name}" for name in _SHAPES))
ScheduleCall = Annotated[Call, SCHEDULE]
TrainerCall = Annotated[
    Call, Of(("lightning.Trainer",), names=("lightning.Trainer",), partial=True)
]
LOGGER = Of((f"{_LOGGERS}.RunLogger", "lightning.pytorch.loggers.Logger"))
LoggerCall = Annotated[Call, LOGGER]
CALLBACK = Of(
    ("lightning.pytorch.callbacks.Callback",),
    names=("train.commands.during.evaluation.while_training",),
    partial=True,
)
CallbackCall = Annotated[Call, CALLBACK]
MeasurementCall = Annotated[Call, Of(("train.evals.loop.Measurement",))]


def check(
    config: Mapping[str, Any],
    *,
    schema: Callable[..., Any],
    allowed: tuple[str, ...],
    calls: bool = True,
) -> None:
    """Raise `ConfigError` with all faults; the top level is the argument list of `schema`.

    calls: False leaves out what needs torch to check, the keys of the calls.
    """
    faults = faults_of(config, schema, allowed=allowed, name="the configuration", calls=calls)
    if len(faults) == 1:
        raise ConfigError(faults[0])
    if faults:
        raise ConfigError(f"{len(faults)} errors:\n" + "\n".join(f"  {f}" for f in faults))
