"""The words of commands that take one place and KEY=VALUE options, without Hydra."""

from collections.abc import Sequence

from train.errors import ConfigError, nearest


def place_and_options(
    words: Sequence[str], *, keys: Sequence[str], needed: Sequence[str], command: str
) -> tuple[str, dict[str, str]]:
    """Return the place and the options; ConfigError for a missing, unknown or second one."""
    cure = f"bipe {command} --help explains it"
    places = [word for word in words if "=" not in word]
    if len(places) != 1:
        raise ConfigError(f"one folder must be given, was: {' '.join(places) or 'none'}; {cure}")
    options = dict(word.split("=", 1) for word in words if "=" in word)
    for key in options:
        if key not in keys:
            raise ConfigError(f"there is no key {key!r}; {nearest(key, keys)}")
    for key in needed:
        if not options.get(key):
            raise ConfigError(f"{key}= must be set; {cure}")
    return places[0], options
