"""How the number of segments grows with a document: lines by least squares over documents."""

from __future__ import annotations

from typing import Any

import numpy as np


def growth(tokens: np.ndarray, segments: np.ndarray) -> dict[str, Any]:
    """segments = slope * tokens + intercept, its R^2, and the exponent of segments ~ tokens^a.

    An exponent of 1 is growth in proportion. All are None where documents do not differ in length.
    """
    line = _line(tokens.astype(np.float64), segments.astype(np.float64))
    powers = _line(np.log(tokens), np.log(np.maximum(segments, 1)))
    return {
        "documents": len(tokens),
        "slope": line[0],
        "intercept": line[1],
        "r2": line[2],
        "exponent": powers[0],
    }


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float | None, float | None, float | None]:
    if len(x) < 2 or x.min() == x.max():
        return None, None, None
    dx, dy = x - x.mean(), y - y.mean()
    slope = float((dx * dy).sum() / (dx * dx).sum())
    spread = float((dy * dy).sum())
    left = float(((dy - slope * dx) ** 2).sum())
    r2 = 1 - left / spread if spread else 1.0
    return slope, float(y.mean() - slope * x.mean()), r2
