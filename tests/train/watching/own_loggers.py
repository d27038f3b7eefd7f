"""A logger that writes down what it is given, and one that fails where loggers do."""

import json
from pathlib import Path

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import Logger

PLACES = ("construction", "hyperparameters", "first", "later", "save", "finish")


class Recording(Logger):
    """Appends to FOLDER/recorded.jsonl; the folder is that of the run unless it is set."""

    name, version = "recording", ""

    def __init__(self, save_dir=None):
        super().__init__()
        self.file = Path(save_dir) / "recorded.jsonl"

    @rank_zero_only
    def write(self, **what):
        with self.file.open("a") as file:
            file.write(json.dumps(what) + "\n")

    def log_metrics(self, metrics, step=None):
        self.write(step=step, **metrics)

    def log_hyperparams(self, params, *args, **kwargs):
        self.write(params=params)

    def finalize(self, status):
        self.write(status=status)


class Failing(Recording):
    """Raises at one of PLACES, each time that it comes there."""

    def __init__(self, where, save_dir=None):
        super().__init__(save_dir)
        self.where = where
        self.at("construction")

    def at(self, place):
        if place == self.where:
            raise ConnectionResetError(f"lost at {place}\nin the second line")

    def log_metrics(self, metrics, step=None):
        self.at("first")
        if step and step >= 3:
            self.at("later")

    def log_hyperparams(self, params, *args, **kwargs):
        self.at("hyperparameters")

    def save(self):
        self.at("save")

    def finalize(self, status):
        self.at("finish")
