"""What must not leave the machine: manifests, messages and notes travel farther than passwords.

Two rules: an address loses its user and the keys of its query that grant access; in a
configuration the value of a key that sounds like a secret is left out as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_USER = re.compile(r"(?<=://)[^/@\s]+@")
# Keys of a query that grant access: tokens, signatures of S3, Azure and Google, and the like.
_QUERY = re.compile(
    r"(?i)([?&][^=&#\s]*(?:token|secret|pass[wp]|pwd|key|signature|credential|auth|sig|session)"
    r"[^=&#\s]*=)[^&#\s]+"
)
_SECRET = re.compile(r"(?i)key|token|secret|pass[wp]|pwd|credential|signature")
_NO_SECRET = re.compile(
    r"tokens?_per_|(?:max|special)_tokens|tokenizer|(?:text|id|kind)_key|meta_keys|passkey"
)


def redacted(value: Any, *, name: str = "") -> Any:
    """Return a copy of a text or a configuration without what grants access to something.

    name: the key of the value, in a configuration.

    >>> redacted("https://me:secret@host/a.jsonl?token=abc&page=2")
    'https://...@host/a.jsonl?token=...&page=2'
    """
    if isinstance(value, Mapping):
        return {key: redacted(item, name=str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, name=name) for item in value]
    if not isinstance(value, str):
        return value
    if _SECRET.search(name) and not _NO_SECRET.search(name):
        return "(redacted)"
    return _QUERY.sub(r"\1...", _USER.sub("...@", value))
