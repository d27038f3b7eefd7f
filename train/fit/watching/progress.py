"""What a training shows while it goes: a progress bar on a terminal, else plain lines."""

from __future__ import annotations

import sys
from typing import Any

import lightning

from train.fit.watching.metrics import EachStep


class ProgressBar(EachStep):
    """Shows loss, rates and time left: a bar on a terminal, else a line every `every` steps."""

    def __init__(self, *, title: str, every: int = 50) -> None:
        super().__init__()
        self.title, self.every = title, every
        self._bar: Any = None

    def begin(self, trainer: lightning.Trainer) -> None:
        if sys.stderr.isatty():
            self._bar = _bar()
            self._task = self._bar.add_task(
                self.title, total=trainer.max_steps, completed=trainer.global_step, text=""
            )
            self._bar.start()

    def after_step(self, trainer: lightning.Trainer, module: Any) -> None:
        step, steps = trainer.global_step, trainer.max_steps
        if self._bar is not None:
            self._bar.update(self._task, completed=step, text=self._text(module.metrics))
        elif step % self.every == 0 or step == steps:
            text, left = self._text(module.metrics), self._clock.left(step, steps)
            print(f"{self.title}  step {step}/{steps}  {text}  {left}", file=sys.stderr, flush=True)

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
        if not trainer.is_global_zero:
            return
        loss = float(trainer.callback_metrics["validation/loss"])
        text = f"{self.title}  step {trainer.global_step}/{trainer.max_steps}"
        text += f"  validation loss {loss:.4f}"
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def on_train_end(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    on_exception = on_train_end  # type: ignore[assignment]

    def _text(self, metrics: Any) -> str:
        text = f"loss {metrics['loss']:.3f}  lr {metrics['lr']:.1e}"
        text += f"  {self._clock.rate():,.0f} tokens/s"
        skipped = metrics["skipped_steps"]
        return text + (f"  {skipped} steps skipped" if skipped else "")


def _bar() -> Any:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        "[bold]{task.description}",
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        "{task.fields[text]}",
        progress.TimeElapsedColumn(),
        "left",
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
    )
