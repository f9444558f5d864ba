"""Which rows sinfo prints, and in which order.

The rules were measured on Slurm 22.05. Partitions are read in the order of slurm.conf and their nodes by name; a node
joins the first row that no shown column tells apart from it. For columns of other kinds a row shows the sum or the
range of its nodes' values.
"""

from __future__ import annotations

import math
import pwd
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from phalanx.slurm.cluster.site import Partition
from phalanx.slurm.commands.cluster.sinfo_fields import FIELDS, Seen, SinfoRow, states_of
from phalanx.slurm.notation.hostlist import sort_key

# Columns whose values separate nodes into rows: always (`_APART`), or only with --exact (`_EXACT`).
_APART = frozenset("tTEuUHfbGno") | {"memory allocated", "gres used", "complete state", "comment", "extra"}
_EXACT = frozenset("cCmdwzXYZOev") | {"port"}
_OF_PARTITIONS = frozenset("aglLsrhpIMB")
_BY_NAME = frozenset("PR")  # with the partition's name: each partition has its own rows, at least one
_REASON_STATES = ({"down", "drained", "draining"},)  # the states that --list-reasons shows without --states
_BITS = {"down": 1, "idle": 2, "allocated": 3, "mixed": 5, "drained": 0x202, "draining": 0x203}
_NOT_RESPONDING = 0x800
_STATES_UP = {"UP": 3, "DRAIN": 2, "DOWN": 1}


def rows_of(
    partitions: Sequence[Partition],
    found: Iterable[Seen],
    said: Mapping[str, str | None],
    wanted: Sequence[set[str]] | None,
    letters: set[str],
) -> list[SinfoRow]:
    """Return the rows, unsorted.

    `wanted`: sets of states, as `is_wanted` reads them. `letters`: the columns of the format.
    """
    reasons, each_node = "list-reasons" in said, "Node" in said
    if wanted is None and reasons:
        wanted = _REASON_STATES
    seen = [one for one in found if wanted is None or is_wanted(one, wanted)]
    apart = sorted(letters & (_APART | _EXACT if "exact" in said else _APART))
    of_partitions = sorted(letters & _OF_PARTITIONS)
    named = bool(letters & _BY_NAME)
    rows = [SinfoRow(one, (), "") for one in partitions] if named and not each_node else []
    for partition in partitions:
        for one in seen:
            if partition.nodes and one.node.name not in partition.nodes:
                continue
            alone = SinfoRow(partition, (one,), one.state)
            for at, row in enumerate(rows):
                if not reasons and not _is_alike(row.partition, partition, of_partitions, named=named):
                    continue
                if not row.seen:
                    rows[at] = SinfoRow(row.partition, (one,), one.state)
                elif each_node or not _shows_alike(row, alone, apart):
                    continue
                elif one not in row.seen:
                    rows[at] = SinfoRow(row.partition, (*row.seen, one), row.state)
                break
            else:
                rows.append(alone)
    return rows


def is_wanted(one: Seen, wanted: Sequence[set[str]]) -> bool:
    """Return whether the node has a state in each of the sets."""
    return all(states & states_of(one) for states in wanted)


def _is_alike(one: Partition, other: Partition, letters: Sequence[str], *, named: bool) -> bool:
    if one is other:
        return True
    return not named and _shows_alike(SinfoRow(one, (), ""), SinfoRow(other, (), ""), letters)


def _shows_alike(one: SinfoRow, other: SinfoRow, letters: Sequence[str]) -> bool:
    return all(FIELDS[letter][1](one) == FIELDS[letter][1](other) for letter in letters)


def sort_rows(rows: list[SinfoRow], text: str, partitions: Sequence[Partition]) -> list[SinfoRow]:
    """Return the rows in the order of --sort: letters of columns, the first one first. `-`: descending. `#P`: in the
    order of slurm.conf. Letters without a meaning do not count."""
    listed = {one.name: at for at, one in enumerate(partitions)}
    for before, letter in reversed([*pairwise(" " + text)]):
        key = partial(_key, letter=letter, listed=listed if before == "#" else {})
        rows = sorted(rows, key=key, reverse=before == "-")
    return rows


def _key(row: SinfoRow, letter: str, listed: Mapping[str, int]) -> tuple[Any, ...]:
    """Return the sort key of a row for one letter of --sort; () if Slurm ignores the letter.

    `listed`: partition -> its position in slurm.conf, if partitions are sorted by it; empty: by name.
    """
    first = row.seen[0] if row.seen else None
    partition = row.partition
    match letter:
        case "a":
            return (_STATES_UP.get(partition.state, 0),)
        case "A" | "F":
            return (sum(one.state in ("allocated", "mixed") for one in row.seen),)
        case "b" | "f":
            return (",".join(first.node.features) if first else "",)
        case "c":
            return (min((one.node.cpus for one in row.seen), default=0),)
        case "D":
            return (len(row.seen),)
        case "E":
            return (first.node.reason if first else "",)
        case "H":
            return (first.node.reason_s if first else "",)
        case "l":
            return (math.inf if partition.max_min is None else partition.max_min,)
        case "m":
            return (min((one.node.memory_mib for one in row.seen), default=0),)
        case "n" | "N" | "o":
            return (sort_key(first.node.name),) if first else ()
        case "P" | "R":
            return (listed.get(partition.name, partition.name),)
        case "s":
            return (math.inf if partition.max_nodes is None else partition.max_nodes,)
        case "S":
            return (partition.priority,)
        case "t" | "T":
            return (_bits(first) if first else 0,)
        case "u" | "U":
            return (_uid(first.node.reason_by) if first else 0,)
        case "X" | "Y" | "Z" | "z":
            return (FIELDS[letter][1](row),)
        case _:
            return ()


def _bits(one: Seen) -> int:
    """Return the number that Slurm gives the node's state. sinfo sorts rows by this number."""
    return _BITS[one.state] | (_NOT_RESPONDING if one.node.down_s is not None else 0)


def _uid(name: str) -> float:
    try:
        return pwd.getpwnam(name).pw_uid if name else math.inf
    except KeyError:
        return math.inf
