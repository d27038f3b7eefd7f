"""Errors that a user can fix: one line on the terminal, exit status 2. Any other is a bug of ours.

Imports nothing heavy, since all of `train` raises these. `bipe` and `segmenters`, which do not
import `train`, have error types of their own, listed in `_MENDABLE`.
"""

import contextlib
import difflib
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from bipe.arguments import nearest as nearest  # for all of `train`

# Exit status: of bugs; of what the user can fix; of commands that check, where a check failed.
EXIT_BUG, EXIT_FAULT, EXIT_FAILED_CHECK = 1, 2, 1
_CHECKOUT = Path(__file__).parents[1]


class UserError(ValueError):
    """An error that the user can fix; the message names place, rule, value and fix."""


class ConfigError(UserError):
    """The configuration cannot be used; the message lists every fault."""


class DataError(UserError):
    """Data cannot be read, written or used as requested."""


class RunError(UserError):
    """A run folder cannot be used as requested; the message names the setting to change."""


class ReportError(UserError):
    """The report cannot be made from these inputs; the message names file, key and fix."""


class MissingPackage(UserError):
    """An optional package is not installed; the message says how to install it."""


@contextlib.contextmanager
def as_config_error(prefix: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn a ValueError, or one of `kinds`, into a ConfigError that begins with `prefix`.

    Use it only around constructors, where it is about arguments; elsewhere it may be a bug. An
    argument that it says to set is named by its key, if the prefix is a section's ("model: ").
    """
    try:
        yield
    except UserError:
        raise
    except (ValueError, *kinds) as error:  # type: ignore[misc]
        told = str(error)
        if section := re.fullmatch(r"([a-z_.]+): ", prefix):
            told = re.sub(rf"\bset (?!{section[1]}=)(?=[a-z_]+=)", f"set {section[1]}.", told)
        raise ConfigError(f"{prefix}{told}") from error


def refuse(faults: Sequence[str], kind: type[UserError] = ConfigError, *, where: str = "") -> None:
    """Raise an error that lists all faults, if there are any; where: what its text begins with."""
    if len(faults) == 1:
        raise kind(f"{where}{faults[0]}")
    if faults:
        lines = "".join(f"\n  {fault}" for fault in faults)
        raise kind(f"{where}{len(faults)} errors:{lines}")


def near(path: str | Path) -> str:
    """Return "; did you mean ...?" with the neighbour of a missing path that is named alike."""
    folder, name = Path(path).parent, Path(path).name
    with contextlib.suppress(OSError):
        others = (each.name for each in folder.iterdir() if each.name != name)
        close = difflib.get_close_matches(name, others, n=1)
        return f"; did you mean {str(folder / close[0])!r}?" if close else ""
    return ""


# Looked up by name when an error occurs, because importing these modules takes seconds.
_MENDABLE = (
    ("bipe.sealing", "CheckpointError"),
    ("bipe.encodings.learned", "PositionError"),
    ("segmenters.base", "SegmenterError"),
    ("hydra.errors", "HydraException"),
    ("omegaconf.errors", "OmegaConfBaseException"),
)


def is_mendable(error: BaseException) -> bool:
    """Return whether a user can fix an error, so that its message needs no traceback."""
    kinds = (getattr(sys.modules.get(module), name, ()) for module, name in _MENDABLE)
    names_a_file = isinstance(error, OSError) and error.filename is not None
    return names_a_file or isinstance(error, (UserError, *kinds))


def require_package(module: str, *, extra: str, needed_by: str) -> None:
    """Raise MissingPackage with the cure if a module of an extra is not installed."""
    if find_spec(module) is None:
        raise MissingPackage(f"{needed_by} needs {module}: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the command that installs an extra of bipe, which is on no package index."""
    # From a checkout with its pinned versions; else the extra's own packages.
    pins = _CHECKOUT / "constraints.txt"
    if pins.is_file() and (_CHECKOUT / "pyproject.toml").is_file():
        return f"pip install -c {shlex.quote(str(pins))} -e {shlex.quote(f'{_CHECKOUT}[{extra}]')}"
    from importlib.metadata import requires

    marker = re.compile(rf"extra == ['\"]{re.escape(extra)}['\"]")
    with contextlib.suppress(Exception):  # a copy of the files, without metadata
        lines = [line for line in requires("bipe") or () if marker.search(line)]
        return f"pip install {shlex.join(line.partition(';')[0].strip() for line in lines)}"
    return f"pip install the packages of the extra {extra}, listed in bipe's pyproject.toml"
