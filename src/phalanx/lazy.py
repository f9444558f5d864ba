"""An attribute that is computed when it is first needed, and stored. `functools.cached_property` does the same with a
lock, and the lock costs more than most of these values. Here no lock is needed, because one cycle runs in one
thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801  (it is written as a decorator)
    def __init__(self, find: Callable[[Any], Value]) -> None:
        self.find, self.__doc__ = find, find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> Value:
        found = instance.__dict__[self.name] = self.find(instance)
        return found
