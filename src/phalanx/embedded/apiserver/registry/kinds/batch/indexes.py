"""Lists of completion indexes in the notation of Jobs, such as `0,2-4,7`. Source: validateIndexesFormat of
pkg/apis/batch/validation."""

from __future__ import annotations

_DIGITS = 20  # no number of completions has more digits


class IndexListError(ValueError):
    """Raised for a text that is not a list of indexes. The message is that of kube-apiserver."""


def parsed(text: str, completions: int) -> list[tuple[int, int]]:
    """Return the list as (first, last) intervals, which are in ascending order and do not overlap. Raises
    IndexListError."""
    intervals: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        low, high = _interval(part, completions)
        if intervals and intervals[-1][1] >= low:
            raise IndexListError(f"non-increasing order, previous: {intervals[-1][1]}, current: {low}")
        intervals.append((low, high))
    return intervals


def _interval(part: str, completions: int) -> tuple[int, int]:
    limits = part.split("-")
    if len(limits) > 2:
        text = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise IndexListError(f'the fragment "{part}" {text}')
    low = _number(limits[0], completions)
    if len(limits) == 1:
        return low, low
    high = _number(limits[1], completions)
    if low >= high:
        raise IndexListError(f"non-increasing order, previous: {low}, current: {high}")
    return low, high


def _number(text: str, completions: int) -> int:
    if not text.isascii() or not text.isdigit():
        raise IndexListError(f'cannot convert string to integer for index: "{text}"')
    if len(text) > _DIGITS or int(text) >= completions:
        raise IndexListError(f'too large index: "{text}"')
    return int(text)


def counted(text: str, completions: int) -> tuple[int, str]:
    """Return the number of indexes in a list, and the error of the list; "" if it has none."""
    try:
        return sum(high - low + 1 for low, high in parsed(text, completions)), ""
    except IndexListError as error:
        return 0, str(error)


def overlap(left: str, right: str, completions: int) -> int | None:
    """Return the first index that both lists contain; None if there is none or a list cannot be read."""
    try:
        pairs = [(a, b) for a in parsed(left, completions) for b in parsed(right, completions)]
    except IndexListError:
        return None
    return next((max(a[0], b[0]) for a, b in pairs if a[0] <= b[1] and b[0] <= a[1]), None)
