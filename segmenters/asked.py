"""A property of an object that is computed when it is first asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class Asked(Generic[T]):
    """`functools.cached_property` without its lock, which takes longer than most values."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Asked[T]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> T: ...
    def __get__(self, owner: object | None, kind: type) -> Asked[T] | T:
        if owner is None:
            return self
        value: T = self.compute(owner)
        owner.__dict__[self.name] = value
        return value
