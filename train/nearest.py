"""The name that was meant, for messages about names that do not exist. Imports nothing heavy."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """'did you mean ...', or the list of what there is."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known) or 'none'}"
