"""Numbers of a step that stay on the device until somebody reads them.

To fetch a number waits for the device: a training step fetches none, whoever logs does.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from torch import Tensor


class Metrics(MutableMapping[str, float]):
    """A mapping of names to numbers; tensors of one number become numbers when they are read."""

    def __init__(self) -> None:
        self._values: dict[str, float | Tensor] = {}

    def __getitem__(self, name: str) -> float:
        value = self._values[name]
        if isinstance(value, Tensor):
            value = self._values[name] = value.item()
        return value

    def __setitem__(self, name: str, value: float | Tensor) -> None:
        self._values[name] = value.detach() if isinstance(value, Tensor) else value

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def take(self, **values: float | Tensor) -> None:
        """Note several numbers at once."""
        for name, value in values.items():
            self[name] = value

    def as_they_are(self) -> dict[str, float | Tensor]:
        """Names and numbers, those on the device left there."""
        return dict(self._values)
