"""Expand host lists such as `a[1-3,7],b02` to names, and compress names to host lists (scontrol(1), show hostnames and
show hostlist)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from phalanx.errors import PhalanxError

_MOST, _MOST_RANGES, _MOST_DIGITS = 1 << 16, 8, 18
_NAME = re.compile(r"(.*?)(\d+)?", re.DOTALL)


def expand(text: str) -> list[str]:
    """Return the names in the order of the host list; names may be repeated. Raises PhalanxError if there are more than
    65,536 names."""
    return _bounded(name for part in _parts(text) for name in _expanded(part))


def compress(names: Iterable[str], *, ordered: bool = False) -> str:
    """Return the host list of these names. `ordered`: True to sort the names and remove repetitions, as Slurm does for
    the nodes of jobs; False to keep the order, so that only adjacent names are joined to ranges."""
    found: list[tuple[str, list[tuple[str, int]]]] = []
    listed: Sequence[str] = sorted(set(names), key=sort_key) if ordered else list(names)
    for name in listed:
        match = _NAME.fullmatch(name)
        assert match is not None
        prefix, digits = match[1], match[2] or ""
        if found and digits and found[-1][0] == prefix and found[-1][1]:
            found[-1][1].append((digits, int(digits)))
        else:
            found.append((prefix, [(digits, int(digits))] if digits else []))
    return ",".join(_written(prefix, numbers) for prefix, numbers in found)


def sort_key(name: str) -> list[tuple[int, int | str]]:
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", name) if part]


def _written(prefix: str, numbers: Sequence[tuple[str, int]]) -> str:
    if not numbers:
        return prefix
    if len(numbers) == 1:
        return prefix + numbers[0][0]
    ranges: list[list[tuple[str, int]]] = []
    for text, number in numbers:
        last, before = ranges[-1][-1] if ranges else ("", -2)
        if number == before + 1 and (len(text) == len(last) or not text.startswith("0")):
            ranges[-1].append((text, number))
        else:
            ranges.append([(text, number)])
    spans = [run[0][0] if len(run) == 1 else f"{run[0][0]}-{run[-1][0]}" for run in ranges]
    return f"{prefix}[{','.join(spans)}]"


def _parts(text: str) -> Iterator[str]:
    depth, part = 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth <= 0:
            yield part
            part = ""
        else:
            part += letter
    if part:
        yield part


def _bounded(names: Iterator[str]) -> list[str]:
    found = list(islice(names, _MOST + 1))
    if len(found) > _MOST:
        raise PhalanxError(f"a host list stands for more than {_MOST} names: write fewer")
    return found


def _expanded(part: str) -> Iterator[str]:
    if part.count("[") > _MOST_RANGES:
        raise PhalanxError(f"a host list has more than {_MOST_RANGES} brackets in a name: write fewer")
    before, bracket, rest = part.partition("[")
    if not bracket:
        if part:
            yield part
        return
    inside, closed, after = rest.partition("]")
    if not closed:
        yield f"{before}]"
        return
    tails = _bounded(_expanded(after)) if after else [""]
    for span in inside.split(","):
        first, dash, last = span.partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            continue
        for number in range(int(first), int(last or first) + 1):
            for tail in tails:
                yield f"{before}{str(number).zfill(len(first))}{tail}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
