"""What a user can mend: one line on the terminal and exit status 2. Any other error is our bug.

Imports nothing heavy and nothing of ours: every floor of `train` may raise these. `bipe` and
`segmenters`, which know nothing of `train`, have kinds of their own, which are named here.
"""

import contextlib
import difflib
import sys
from collections.abc import Iterable, Iterator


class UserError(ValueError):
    """Something that the user can mend; the message names the place, the rule, the value, the cure.

    The kinds below say what is at fault. `bipe` prints the message alone; whatever else escapes a
    command keeps its traceback.
    """


class ConfigError(UserError):
    """The configuration cannot be used; the message lists every fault."""


class DataError(UserError):
    """Data that cannot be read, written or used as asked."""


class RunError(UserError):
    """A run folder that cannot be used as asked; says what to set instead."""


class ReportError(UserError):
    """The report cannot be made from these inputs; the message names file, key and cure."""


class MissingPackage(UserError):
    """An optional package is not installed; the message says how to install it."""


@contextlib.contextmanager
def as_config_error(prefix: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn what refuses a configured value inside into a ConfigError that names its key.

    prefix: of the message, as "trainer: ". kinds: of errors beside ValueError. To be put around
    constructors alone, whose ValueErrors are about their arguments; elsewhere they may be bugs.
    """
    try:
        yield
    except UserError:
        raise
    except (ValueError, *kinds) as error:  # type: ignore[misc]
        raise ConfigError(f"{prefix}{error}") from error


# Looked up when an error arrives: to import these modules takes seconds.
_MENDABLE = (
    ("bipe.checkpoint", "CheckpointError"),
    ("bipe.encodings.learned", "PositionError"),
    ("segmenters.base", "SegmenterError"),
    ("hydra.errors", "HydraException"),
    ("omegaconf.errors", "OmegaConfBaseException"),
)


def is_mendable(error: BaseException) -> bool:
    """Return whether a user can mend an error, whose message then says all there is to say."""
    kinds = (getattr(sys.modules.get(module), name, ()) for module, name in _MENDABLE)
    names_a_file = isinstance(error, OSError) and error.filename is not None
    return names_a_file or isinstance(error, (UserError, *kinds))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return 'did you mean ...', or the list of what there is."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known) or 'none'}"
