"""Memory, counts per node and generic resources, as Slurm reads and writes them."""

from __future__ import annotations

import re
from itertools import groupby

from phalanx.errors import PhalanxError

_MEMORY = re.compile(r"(\d+)\s*([KMGT]?)B?", re.IGNORECASE)
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}
_COUNT = re.compile(r"(\d+)([km]?)", re.IGNORECASE)


class AmountError(PhalanxError):
    """A text that is no amount."""


def read_mib(text: str) -> int:
    """Return an amount of memory in MiB. A number without a unit is in MiB. Raises AmountError."""
    found = _MEMORY.fullmatch(text.strip())
    if found is None:
        raise AmountError(text)
    return max(int(-(-int(found[1]) * _MIB[found[2].upper()] // 1)), 0)


def memory(mib: int) -> str:
    """Return `1000M`, `4G`, `62.50G`: the largest unit of which the amount has whole or half units, as Slurm does."""
    amount, unit = float(mib), 0
    while amount >= 1024 and amount % 512 == 0 and unit < 2:
        amount, unit = amount / 1024, unit + 1
    return f"{int(amount)}{'MGT'[unit]}" if amount == int(amount) else f"{amount:.2f}{'MGT'[unit]}"


def read_count(text: str) -> int:
    """Return a count, with k or m for thousands or millions. Raises AmountError."""
    found = _COUNT.fullmatch(text.strip())
    if found is None:
        raise AmountError(text)
    return int(found[1]) * {"": 1, "k": 1024, "m": 1048576}[found[2].lower()]


_MOST_NODES = 1 << 16


def read_range(text: str) -> tuple[int, int]:
    """Parse `2` or `2-4` into (least, most). Raises AmountError."""
    first, dash, last = text.partition("-")
    least = read_count(first)
    most = read_count(last) if dash else least
    if not 1 <= least <= most <= _MOST_NODES:
        raise AmountError(text)
    return least, most


def read_width(digits: str) -> int:
    """Return the width of a column; a larger number counts as 4096."""
    return min(int(digits[:9]), 4096)


def per_node(counts: list[int]) -> str:
    """`3,1(x2)`: the shorthand of SLURM_TASKS_PER_NODE."""
    runs = [(count, len(list(run))) for count, run in groupby(counts)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)


def spread(count: int, room: list[int], each: int = 0) -> list[int]:
    """Return how many of `count` tasks each node gets. Without `each`, the nodes are filled in their order up to their
    `room`, and every node gets at least one task. With `each`, every node gets that number as long as tasks are
    left."""
    if each:
        return [min(each, max(0, count - at * each)) for at in range(len(room))]
    found, left = [], count
    for at, most in enumerate(room):
        others = len(room) - at - 1
        found.append(max(1, min(left - others, max(1, most)) if others else left))
        left -= found[-1]
    return found
