"""Parse and print amounts of memory, counts, and numbers of tasks per node, as Slurm does."""

from __future__ import annotations

import re
from itertools import groupby

from phalanx.errors import PhalanxError

_MEMORY = re.compile(r"(\d+)\s*([KMGT]?)B?", re.IGNORECASE)
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}
_COUNT = re.compile(r"(\d+)([km]?)", re.IGNORECASE)


class AmountError(PhalanxError):
    """The error for a text that is not an amount."""


def read_mib(text: str) -> int:
    """Return an amount of memory in MiB. A number without a unit is in MiB. Raises AmountError."""
    found = _MEMORY.fullmatch(text.strip())
    if found is None:
        raise AmountError(text)
    return max(int(-(-int(found[1]) * _MIB[found[2].upper()] // 1)), 0)


def memory(mib: int) -> str:
    """Return an amount of memory as Slurm prints it, such as `1000M`, `4G` or `62.50G`. The unit is the largest unit of
    which the amount is a multiple of one half."""
    amount, unit = float(mib), 0
    while amount >= 1024 and amount % 512 == 0 and unit < 2:
        amount, unit = amount / 1024, unit + 1
    return f"{int(amount)}{'MGT'[unit]}" if amount == int(amount) else f"{amount:.2f}{'MGT'[unit]}"


def read_count(text: str) -> int:
    """Return a count. The suffix k means 1024, and m means 1024 * 1024. Raises AmountError."""
    found = _COUNT.fullmatch(text.strip())
    if found is None:
        raise AmountError(text)
    return int(found[1]) * {"": 1, "k": 1024, "m": 1048576}[found[2].lower()]


_MOST_NODES = 1 << 16


def read_range(text: str) -> tuple[int, int]:
    """Return the smallest and the largest number of a range such as `2-4`, or of a number such as `2`. Raises
    AmountError."""
    first, dash, last = text.partition("-")
    least = read_count(first)
    most = read_count(last) if dash else least
    if not 1 <= least <= most <= _MOST_NODES:
        raise AmountError(text)
    return least, most


def read_width(digits: str) -> int:
    """Return the width of a column, at most 4096."""
    return min(int(digits[:9]), 4096)


def per_node(counts: list[int]) -> str:
    """Return the counts in the notation of SLURM_TASKS_PER_NODE: `3,1(x2)` for the counts 3, 1, 1."""
    runs = [(count, len(list(run))) for count, run in groupby(counts)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)


def spread(count: int, room: list[int], each: int = 0) -> list[int]:
    """Distribute `count` tasks over nodes, and return the number of tasks of each node. `room`: the number of tasks
    that fit on each node. If `each` is 0, fill the nodes in their order, but give every node at least one task.
    Otherwise give `each` tasks to every node until no tasks are left."""
    if each:
        return [min(each, max(0, count - at * each)) for at in range(len(room))]
    found, left = [], count
    for at, most in enumerate(room):
        others = len(room) - at - 1
        found.append(max(1, min(left - others, max(1, most)) if others else left))
        left -= found[-1]
    return found
