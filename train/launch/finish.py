"""`bipe finish RUN[@STEP] [key=value ...]`: end an unfinished run now, and write its model.

    bipe finish runs/mine/bipe_rope
    bipe finish runs/mine/bipe_rope@1600 cooldown=200 name=cool_1600

What runs, connects or writes is decided by the words, as for bipe pretrain --config-file: a run on
several devices or with a logger needs trainer=... and logger=... again. Its precision stays.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bipe.build import TARGET
from train.data.store.folder import folders_of
from train.disk.files import is_name
from train.errors import ConfigError, RunError, nearest
from train.fit import runs
from train.fit.checkpoints import Place, at_step, find_place, manifest_of, named_step
from train.fit.record import read_sessions
from train.launch.commands import COMMANDS
from train.launch.composition import OWN
from train.launch.reader import read
from train.words import Words

_COOLED = "train.fit.optim.cooled"
_SHARE = 10  # of the steps so far, by default
_HOW = runs.FREE | {"validate_every"}


def main(words: Words) -> int:
    """End a run; return the exit status."""
    options, run = words.keys, words.places[0]
    plain = ("cooldown", "name", "out")
    rest = [word for word in words.overrides if word.partition("=")[0] not in plain]
    for key in (word.partition("=")[0].lstrip("+") for word in rest):
        if not {key, key.partition(".")[0]} & _HOW:
            near = nearest(key, [*plain, *_HOW])
            raise ConfigError(f"{key} cannot be set here, since it may change the run; {near}")
    if not is_name(options.get("name", "x")):
        raise ConfigError(f"name must be one folder name, without a path, was: {options['name']!r}")
    place, cooldown = find_place(run, key="RUN"), _number(options.get("cooldown"))
    apart, made = bool(named_step(run) or {"name", "out"} & {*options}), False
    if place.checkpoint is None and (apart or cooldown):
        raise RunError(
            f"{place.home} is finished; name one of its checkpoints, {place.home}@STEP, to end a "
            f"run of its own from there, or train it further: bipe extend checkpoint={place.home}"
        )
    if apart:
        place, made = _of_its_own(place, options, cooldown)
    if place.checkpoint is None:
        if (place.home / runs.LOCK).exists():  # of a process that was killed at its end
            with runs.in_use(place.home, command="finish"):
                runs.remove_partial(place.home)
        print(f"{place.home} is finished", file=sys.stderr)
        return 0
    if "allowed_targets" not in options:
        rest.append(f"allowed_targets=[{','.join(runs.allowed_of(place.home))}]")
    before = len(read_sessions(place.home))
    try:
        return _trained(_command_of(place), planned(place, cooldown), [*rest, "if_exists=change"])
    except Exception:
        if made and len(read_sessions(place.home)) == before:  # refused before it began
            shutil.rmtree(place.home)
        raise


def planned(place: Place, cooldown: int | None) -> dict[str, Any]:
    """Return the configuration of a run that is to end from a checkpoint.

    cooldown: optimizer steps; None: a tenth of those so far. A plan that is under way is kept.
    """
    home, step = place.home, place.step or 0
    config = runs.read_config(home)
    config |= {"data": runs.data_of(config, home), "out": str(home.parent), "name": home.name}
    for folder in folders_of(config["data"]).values():
        if not folder.exists():
            raise RunError(f"data={folder} of {home} is gone; set data=FOLDER")
    schedule, steps = config["schedule"], int(config["steps"])
    if schedule.get(TARGET) == _COOLED:
        begin = schedule["begin"]
        if step >= begin and cooldown in (None, steps - begin):
            return config
        if step > begin:
            raise RunError(
                f"{home} is cooling down already, from step {begin} to {steps}: remove cooldown to "
                "go on"
            )
        schedule = schedule["before"]
    if cooldown is None:
        cooldown = min(max(1, step // _SHARE), max(0, steps - step))
    end = step + cooldown
    if cooldown:
        schedule = {TARGET: _COOLED, "before": schedule, "begin": step, "steps": end}
    return config | {"steps": end, "epochs": None, "schedule": schedule}


def _trained(command: str, config: Mapping[str, Any], typed: list[str]) -> int:
    """Run the command of a run on a configuration, with further words."""
    from train.launch.start import start

    words = [f"out={config['out']}", f"name={config['name']}"]
    if isinstance(precision := config["trainer"].get("precision"), str):
        words.append(f"trainer.precision={precision}")
    config = {key: value for key, value in config.items() if key not in OWN} | {
        "out": config["out"]
    }
    # Variables of the environment stay the texts that they are: the run may be from anyone.
    config = json.loads(json.dumps(config).replace("${", r"\\${"))
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / runs.CONFIG
        file.write_text(runs.as_yaml(config), encoding="utf-8")
        return start(read(COMMANDS[command], ["--config-file", str(file), *words, *typed]))


def _of_its_own(
    place: Place, options: Mapping[str, str], cooldown: int | None
) -> tuple[Place, bool]:
    """Return the same checkpoint in a run of its own, and whether that had to be copied."""
    trunk, name = place.home, options.get("name", place.name.replace("@", "_"))
    folder = Path(options.get("out", trunk.parent)) / name
    if _command_of(place) == "scrolls":
        raise ConfigError("bipe scrolls keeps the best weights, not those of a step: finish RUN")
    schedule = runs.read_config(trunk)["schedule"]
    if schedule.get(TARGET) == _COOLED and (place.step or 0) > schedule["begin"]:
        raise RunError(
            f"{trunk} itself cools down from step {schedule['begin']}: name one up to that"
        )
    if not folder.exists():
        _copy(place, folder)
        return at_step(folder, "last", key="RUN"), True
    if not _is_copy(folder, of=place, cooldown=cooldown):
        raise RunError(
            f"{folder} already contains something else: set name= to use another folder, or the "
            "cooldown that it was begun with"
        )
    return find_place(str(folder), key="RUN"), False


def _is_copy(folder: Path, *, of: Place, cooldown: int | None) -> bool:
    """Return whether a folder is a copy of a checkpoint, in whatever state of that cooldown."""
    if not (folder / runs.CONFIG).is_file():
        return False
    config, newest = runs.read_config(folder), at_step(folder, "last", key="RUN")
    schedule, end = config.get("schedule") or {}, config["steps"]
    cooled = schedule.get(TARGET) == _COOLED
    begin = schedule["begin"] if cooled else newest.step
    plan = runs.FREE | {*runs.PLAN}
    same = runs.decisive(config, free=plan) == runs.decisive(runs.read_config(of.home), free=plan)
    return same and begin == of.step and cooldown in (None, end - begin if cooled else cooldown)


def _copy(place: Place, folder: Path) -> None:
    """Copy what a run had at a checkpoint into a new folder, which is whole or absent."""
    from bipe.sealing import whole_folder

    assert place.checkpoint is not None
    with whole_folder(folder, {runs.METRICS: _lines_to(place)}) as fresh:
        into = fresh / runs.CHECKPOINTS
        shutil.copytree(place.folder, into / runs.MODEL)
        if place.checkpoint.is_dir():
            shutil.copytree(place.checkpoint, into / place.checkpoint.name)
        else:
            for path in (place.checkpoint, manifest_of(place.checkpoint)):
                shutil.copy2(path, into)
        for name in (runs.CONFIG, runs.SESSIONS):
            if (place.home / name).is_file():
                shutil.copy2(place.home / name, fresh)


def _lines_to(place: Place) -> str:
    """Return metrics.csv up to the step of a checkpoint."""
    path = place.home / runs.METRICS
    head, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    at = head.rstrip("\n").split(",").index("step")
    step = place.step or 0
    return head + "".join(line for line in lines if int(line.split(",")[at] or 0) <= step)


def _command_of(place: Place) -> str:
    """Return the command that began a run."""
    about = json.loads((place.folder / "config.json").read_text(encoding="utf-8"))
    return str(about["notes"]["training"]["command"])


def _number(word: str | None) -> int | None:
    if word is None or word.isdecimal():
        return None if word is None else int(word)
    raise ConfigError(f"cooldown must be a number of steps, 0 or more, was: {word!r}")
