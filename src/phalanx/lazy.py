"""An attribute that is found when it is first asked for, and kept: `functools.cached_property` without its lock, which
costs more than most of what is found here. What is thought in one cycle is one thread's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801  (it is written as a decorator)
    def __init__(self, find: Callable[[Any], Value]) -> None:
        self.find, self.__doc__ = find, find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Value:
        found = instance.__dict__[self.name] = self.find(instance)
        return found
