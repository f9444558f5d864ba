"""A cache for functions of what users write: it holds so many results, and none of a long text.

`functools.lru_cache` counts entries, not bytes. Texts of a request may have megabytes, so whoever sends enough of them
would fill the memory with keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

_LONG = 256

P = ParamSpec("P")
R = TypeVar("R")


def cached(most: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep the results of a function of positional arguments, `most` of them; those of texts longer than 256 signs are
    computed each time."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        kept = lru_cache(maxsize=most, typed=True)(function)

        @wraps(function)
        def ask(*arguments: P.args, **named: P.kwargs) -> R:
            for one in arguments:
                if isinstance(one, str | tuple) and _is_long(one):
                    return function(*arguments, **named)
            return kept(*arguments, **named)  # type: ignore[arg-type]  # hashable, or the caller is wrong

        return ask

    return decorate


def _is_long(argument: str | tuple[object, ...]) -> bool:
    if isinstance(argument, str):
        return len(argument) > _LONG
    return any(isinstance(one, str) and len(one) > _LONG for one in argument)
