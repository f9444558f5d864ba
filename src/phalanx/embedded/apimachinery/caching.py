"""A cache for functions whose arguments come from users. It holds a limited number of results, and does not store
results for long strings.

`functools.lru_cache` limits the number of entries, not their bytes. But a string in a request may have several
megabytes. Without the limit on the length of strings, a user could fill the memory with long cache keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

_LONG = 256
# The value of `longest` for strings that only administrators can write, such as the expressions in a
# CustomResourceDefinition or an admission policy.
RULE = 16_384

P = ParamSpec("P")
R = TypeVar("R")


def cached(most: int, longest: int = _LONG) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that caches at most `most` results of a function with positional arguments. If an argument is
    a string of more than `longest` characters, the result is computed at each call and not stored."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        kept = lru_cache(maxsize=most, typed=True)(function)

        @wraps(function)
        def ask(*arguments: P.args, **named: P.kwargs) -> R:
            for one in arguments:
                if (isinstance(one, str) and len(one) > longest) or (isinstance(one, tuple) and _is_long(one, longest)):
                    return function(*arguments, **named)
            return kept(*arguments, **named)  # type: ignore[arg-type]  # hashable, or the caller is wrong

        return ask

    return decorate


def _is_long(argument: tuple[object, ...], longest: int) -> bool:
    return any(isinstance(one, str) and len(one) > longest for one in argument)
