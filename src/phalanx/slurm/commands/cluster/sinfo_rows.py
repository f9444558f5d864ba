"""Build the rows of sinfo and sort them, and define the columns of sinfo (-o and -O) and its JSON document.

The rules were measured with Slurm 22.05. Partitions are processed in the order of slurm.conf, and their nodes by name.
A node is added to the first row with the same values in the columns that separate rows (`_APART`). Other columns of a
row show the sum or the range of the values of its nodes."""

from __future__ import annotations

import math
import pwd
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise

from msgspec import Struct

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.site import Partition
from phalanx.slurm.jobs.nodes import NodeInfo
from phalanx.slurm.notation import times
from phalanx.slurm.notation.hostlist import compress, sort_key

_SHORT = {"idle": "idle", "allocated": "alloc", "mixed": "mix", "down": "down", "drained": "drain", "draining": "drng"}


class NodeUsage(Struct, frozen=True):
    """A node with its state and its allocated amounts: `used` CPUs, `memory_mib` and `gpus`."""

    node: NodeInfo
    state: str
    used: int
    memory_mib: int = 0
    gpus: int = 0


class SinfoRow(Struct, frozen=True):
    partition: site.Partition
    seen: tuple[NodeUsage, ...]
    state: str  # "": the row has no nodes


POWER_STATES = {"~": "powered_down", "#": "powering_up", "%": "powering_down"}


def states_of(one: NodeUsage) -> set[str]:
    """Return all states by which `sinfo --states` selects the node."""
    return {one.state, *power_states(one.node)}


def power_states(node: NodeInfo) -> list[str]:
    """Return the additional states of a cloud node, which programs switch on and off: `cloud`, and its power state if
    it has one."""
    return [*(["cloud"] if node.cloud else []), *([POWER_STATES[node.power]] if node.power else [])]


def _suffix(row: SinfoRow) -> str:
    return row.seen[0].node.power if row.seen else ""


def _complete(row: SinfoRow) -> str:
    return "+".join([row.state, *power_states(row.seen[0].node)]) if row.seen else "n/a"


def document(here: site.Site, found: Sequence[NodeUsage]) -> str:
    """Return the JSON document about the nodes. It has those fields of Slurm's REST API (22.05) for which Phalanx has
    values."""
    import msgspec

    rows = [
        {
            "name": one.node.name, "hostname": one.node.name, "address": one.node.name, "state": one.state,
            "state_flags": [name.upper() for name in (["drain"] if one.node.drained else []) + power_states(one.node)],
            "cpus": one.node.cpus, "alloc_cpus": one.used,
            "idle_cpus": max(0, one.node.cpus - one.used), "real_memory": one.node.memory_mib, "architecture": "x86_64",
            "sockets": int((one.node.shape or f"1:{one.node.cpus}:1").split(":")[0]),
            "cores": int((one.node.shape or f"1:{one.node.cpus}:1").split(":")[1]),
            "threads": int((one.node.shape or f"1:{one.node.cpus}:1").split(":")[2]),
            "boards": 1, "weight": 1, "temporary_disk": here.disks_mib.get(one.node.name, 0),
            "features": ",".join(one.node.features), "active_features": ",".join(one.node.features),
            "gres": f"gpu:{one.node.gpus}" if one.node.gpus else "", "reason": one.node.reason,
            "reason_set_by_user": one.node.reason_by, "tres": f"cpu={one.node.cpus},mem={one.node.memory_mib}M",
            "partitions": [part.name for part in here.all if not part.nodes or one.node.name in part.nodes],
            "slurmd_version": "22.05.8", "operating_system": "Linux",
        }
        for one in found
    ]  # fmt: skip
    meta = {"plugin": {"type": "openapi/v0.0.38", "name": "Slurm OpenAPI v0.0.38"},
            "Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": "22.05.8"}}  # fmt: skip
    return msgspec.json.format(msgspec.json.encode({"meta": meta, "errors": [], "nodes": rows}), indent=2).decode()


def name_of(row: SinfoRow) -> str:
    return row.partition.name + ("*" if row.partition.default else "")


def _counts(row: SinfoRow) -> str:
    """Return the numbers of allocated, idle, other and all nodes, separated by slashes."""
    used = sum(one.state in ("allocated", "mixed") for one in row.seen)
    idle = sum(one.state == "idle" for one in row.seen)
    return f"{used}/{idle}/{len(row.seen) - used - idle}/{len(row.seen)}"


def _cpus(row: SinfoRow) -> str:
    used = sum(one.used for one in row.seen)
    every = sum(one.node.cpus for one in row.seen)
    gone = sum(one.node.cpus for one in row.seen if one.state in ("down", "drained"))
    return f"{used}/{every - used - gone}/{gone}/{every}"


def _most(row: SinfoRow, of: Callable[[NodeInfo], int | str]) -> str:
    values = sorted({of(one.node) for one in row.seen})
    return "" if not values else str(values[0]) if len(values) == 1 else f"{values[0]}+"


def _long_user(row: SinfoRow) -> str:
    """Return the name and the id of the user who set the reason, such as `root(0)`."""
    name = next((one.node.reason_by for one in row.seen if one.node.reason), "")
    try:
        return f"{name}({pwd.getpwnam(name).pw_uid})" if name else "Unknown"
    except KeyError:
        return name


def _shape(row: SinfoRow, part: int) -> str:
    return _most(row, lambda node: int((node.shape or f"1:{node.cpus}:1").split(":")[part]))


def _ai(row: SinfoRow) -> str:
    """Return the numbers of allocated and idle nodes, separated by a slash."""
    return "/".join(_counts(row).split("/")[:2])


def _features(row: SinfoRow) -> str:
    return ",".join(sorted({feature for one in row.seen for feature in one.node.features})) or "(null)"


def _gres(row: SinfoRow) -> str:
    gpus = sorted({one.node.gpus for one in row.seen if one.node.gpus})
    return f"gpu:{gpus[0]}" if gpus else "(null)"


def _size(row: SinfoRow) -> str:
    most = row.partition.max_nodes
    return f"1-{'infinite' if most is None else most}"


FIELDS: dict[str, tuple[str, Callable[[SinfoRow], str]]] = {
    "P": ("PARTITION", name_of),
    "R": ("PARTITION", lambda row: row.partition.name),
    "a": ("AVAIL", lambda row: {"UP": "up", "DOWN": "down", "DRAIN": "drain"}.get(row.partition.state, "inact")),
    "l": ("TIMELIMIT", lambda row: times.limit(row.partition.max_min, none="infinite")),
    "L": ("DEFAULTTIME", lambda row: times.limit(row.partition.default_min, none="n/a")),
    "D": ("NODES", lambda row: str(len(row.seen))),
    "t": ("STATE", lambda row: _SHORT.get(row.state, "n/a") + _suffix(row)),
    "T": ("STATE", lambda row: (row.state or "n/a") + _suffix(row)),
    "N": ("NODELIST", lambda row: compress((one.node.name for one in row.seen), ordered=True)),
    "n": ("HOSTNAMES", lambda row: compress((one.node.name for one in row.seen), ordered=True)),
    "F": ("NODES(A/I/O/T)", _counts),
    "C": ("CPUS(A/I/O/T)", _cpus),
    "c": ("CPUS", lambda row: _most(row, lambda node: node.cpus)),
    "m": ("MEMORY", lambda row: _most(row, lambda node: node.memory_mib)),
    "d": ("TMP_DISK", lambda row: "0"),
    "w": ("WEIGHT", lambda row: "1"),
    "f": ("AVAIL_FEATURES", _features),
    "b": ("ACTIVE_FEATURES", _features),
    "G": ("GRES", _gres),
    "z": ("S:C:T", lambda row: _most(row, lambda node: node.shape or f"1:{node.cpus}:1")),
    "s": ("JOB_SIZE", _size),
    "r": ("ROOT", lambda row: "no"),
    "h": ("OVERSUBSCRIBE", lambda row: "NO"),
    "g": ("GROUPS", lambda row: "all"),
    "E": ("REASON", lambda row: next((one.node.reason for one in row.seen if one.node.reason), "none")),
    "u": ("USER", lambda row: next((one.node.reason_by for one in row.seen if one.node.reason), "Unknown")),
    "H": ("TIMESTAMP", lambda row: next((one.node.reason_s for one in row.seen if one.node.reason), "Unknown")),
    "p": ("PRIO_TIER", lambda row: "1"),
    "A": ("NODES(A/I)", _ai),
    "B": ("MAX_CPUS_PER_NODE", lambda row: "UNLIMITED"),
    "e": ("FREE_MEM", lambda row: "N/A"),
    "I": ("PRIO_JOB_FACTOR", lambda row: str(row.partition.priority)),
    "M": ("PREEMPT_MODE", lambda row: "OFF"),
    "o": ("NODE_ADDR", lambda row: compress((one.node.name for one in row.seen), ordered=True)),
    "O": ("CPU_LOAD", lambda row: "N/A"),
    "S": ("ALLOCNODES", lambda row: "all"),
    "U": ("USER", _long_user),
    "v": ("VERSION", lambda row: "22.05.8"),
    "V": ("CLUSTER", lambda row: "N/A"),
    "X": ("SOCKETS", lambda row: _shape(row, 0)),
    "Y": ("CORES", lambda row: _shape(row, 1)),
    "Z": ("THREADS", lambda row: _shape(row, 2)),
    "memory allocated": ("ALLOCMEM", lambda row: str(row.seen[0].memory_mib) if row.seen else "0"),
    "comment": ("COMMENT", lambda row: "(null)"),
    "extra": ("EXTRA", lambda row: "(null)"),
    "port": ("PORT", lambda row: "6818"),
    "gres used": ("GRES_USED", lambda row: f"gpu:{row.seen[0].gpus if row.seen else 0}"),
    "complete state": ("STATECOMPLETE", _complete),
}
# The names of -O (sinfo(1)).
NAMES = {
    "allocmem": "memory allocated", "allocnodes": "S", "available": "a", "cluster": "V",
    "comment": "comment",
    "cores": "Y", "cpus": "c", "cpusload": "O", "cpusstate": "C", "defaulttime": "L", "disk": "d", "extra": "extra",
    "features": "f", "features_act": "b", "freemem": "e", "gres": "G", "gresused": "gres used", "groups": "g",
    "maxcpuspernode": "B", "memory": "m", "nodeai": "A", "nodeaiot": "F", "nodeaddr": "o", "nodehost": "n",
    "nodelist": "N", "nodes": "D", "oversubscribe": "h", "partition": "P", "partitionname": "R", "port": "port",
    "preemptmode": "M", "priorityjobfactor": "I", "prioritytier": "p", "reason": "E", "root": "r", "share": "h",
    "size": "s", "socketcorethread": "z", "sockets": "X", "statecompact": "t", "statelong": "T",
    "statecomplete": "complete state",
    "threads": "Z",
    "time": "l", "timestamp": "H", "user": "u", "userlong": "U", "version": "v", "weight": "w",
}  # fmt: skip


# Nodes with different values in these columns are in different rows: always (`_APART`), or only with --exact
# (`_EXACT`).
_APART = frozenset("tTEuUHfbGno") | {"memory allocated", "gres used", "complete state", "comment", "extra"}
_EXACT = frozenset("cCmdwzXYZOev") | {"port"}
_OF_PARTITIONS = frozenset("aglLsrhpIMB")
_BY_NAME = frozenset("PR")  # if one of these columns is shown, each partition has at least one row of its own
_REASON_STATES = ({"down", "drained", "draining"},)  # the states that --list-reasons shows without --states
_BITS = {"down": 1, "idle": 2, "allocated": 3, "mixed": 5, "drained": 0x202, "draining": 0x203}
_NOT_RESPONDING = 0x800
_STATES_UP = {"UP": 3, "DRAIN": 2, "DOWN": 1}


def rows_of(
    partitions: Sequence[Partition],
    found: Iterable[NodeUsage],
    said: Mapping[str, str | None],
    wanted: Sequence[set[str]] | None,
    letters: set[str],
) -> list[SinfoRow]:
    """Return the rows, unsorted.

    `found`: all nodes. `said`: the options. `wanted`: sets of states (see `is_wanted`); None for all nodes. `letters`:
    the letters of the shown columns.
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


def is_wanted(one: NodeUsage, wanted: Sequence[set[str]]) -> bool:
    """Return True if the node has at least one state of each set."""
    return all(states & states_of(one) for states in wanted)


def _is_alike(one: Partition, other: Partition, letters: Sequence[str], *, named: bool) -> bool:
    if one is other:
        return True
    return not named and _shows_alike(SinfoRow(one, (), ""), SinfoRow(other, (), ""), letters)


def _shows_alike(one: SinfoRow, other: SinfoRow, letters: Sequence[str]) -> bool:
    return all(FIELDS[letter][1](one) == FIELDS[letter][1](other) for letter in letters)


def sort_rows(rows: list[SinfoRow], text: str, partitions: Sequence[Partition]) -> list[SinfoRow]:
    """Return the rows in the order of --sort. `text`: letters of columns, the most significant first. A `-` before a
    letter means descending order, and `#P` means the order of slurm.conf. Unknown letters are ignored. `partitions`:
    all partitions in the order of slurm.conf."""
    listed = {one.name: at for at, one in enumerate(partitions)}
    for before, letter in reversed([*pairwise(" " + text)]):
        key = partial(_key, letter=letter, listed=listed if before == "#" else {})
        rows = sorted(rows, key=key, reverse=before == "-")
    return rows


def _key(row: SinfoRow, letter: str, listed: Mapping[str, int]) -> tuple[object, ...]:
    """Return the sort key of a row for one letter of --sort; () if Slurm ignores the letter.

    `listed`: name of a partition -> its position in slurm.conf; empty if partitions are sorted by name.
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


def _bits(one: NodeUsage) -> int:
    """Return Slurm's number for the state of the node. sinfo sorts rows by this number."""
    return _BITS[one.state] | (_NOT_RESPONDING if one.node.down_s is not None else 0)


def _uid(name: str) -> float:
    try:
        return pwd.getpwnam(name).pw_uid if name else math.inf
    except KeyError:
        return math.inf
