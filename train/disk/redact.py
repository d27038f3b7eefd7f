"""Addresses without what must not be told: manifests and messages travel farther than passwords."""

from __future__ import annotations

import re

_HIDDEN = "..."
_USER = re.compile(r"(?<=://)[^/@\s]+@")
# Keys of a query that grant access: tokens, signatures of S3, Azure and Google, and the like.
_SECRET = re.compile(
    r"(?i)([?&][^=&#\s]*(?:token|secret|passw|pwd|key|signature|credential|auth|sig|session)"
    r"[^=&#\s]*=)[^&#\s]+"
)


def redacted(address: str) -> str:
    """The address with user, password and access tokens hidden; other text as it is.

    >>> redacted("https://me:secret@host/a.jsonl?token=abc&page=2")
    'https://...@host/a.jsonl?token=...&page=2'
    """
    if "://" not in address:
        return address
    return _SECRET.sub(rf"\1{_HIDDEN}", _USER.sub(f"{_HIDDEN}@", address))
