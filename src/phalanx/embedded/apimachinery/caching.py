"""A cache for functions whose arguments come from users. It holds a limited number of results, and does not store
results for long texts.

`functools.lru_cache` limits the number of entries, not their bytes. But a text in a request may have megabytes. Without
the limit on the length of texts, a user could fill the memory with long keys of cached results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

_LONG = 256
# The longest text that is cached if only administrators can write it, such as an expression of a definition or a
# policy.
RULE = 16_384

P = ParamSpec("P")
R = TypeVar("R")


def cached(most: int, longest: int = _LONG) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that caches at most `most` results of a function with positional arguments. If an argument is
    a text of more than `longest` characters, the result is computed at each call and not stored."""

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
