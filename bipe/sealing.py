"""A seal over a JSON text that vouches for other files: a changed byte is found in itself as well.

The seal is the last key: the sha256 of the text with zeros in place of the seal. It finds damage,
not forgery: anyone can seal.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SEAL = "seal"
_ZEROS = "0" * 64
_LONGEST = 1 << 28  # bytes; the block checksums of 32 TB of data


def sealed(content: Mapping[str, Any]) -> str:
    """Return the JSON text of a mapping with its seal."""
    unsealed = {key: value for key, value in content.items() if key != SEAL}
    blank = json.dumps({**unsealed, SEAL: _ZEROS}, indent=1) + "\n"
    return hashlib.sha256(blank.encode()).hexdigest().join(blank.rsplit(_ZEROS, 1))


def is_sealed(text: str, content: Mapping[str, Any]) -> bool:
    """Return whether a text is as `sealed` wrote it. content: what the text holds."""
    seal = content.get(SEAL)
    if not isinstance(seal, str) or len(seal) != len(_ZEROS):
        return False
    blank = _ZEROS.join(text.rsplit(seal, 1))
    return hashlib.sha256(blank.encode()).hexdigest() == seal


def read_object(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a JSON file and the object in it; OSError or ValueError if it has none."""
    if path.stat().st_size > _LONGEST:
        raise ValueError(f"it must be at most {_LONGEST} bytes, was: {path.stat().st_size}")
    text = path.read_bytes().decode()  # read_text would hide a changed line end
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError(f"it must hold an object, was: {type(content).__name__}")
    return text, content
