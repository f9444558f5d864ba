"""sinfo: partitions and nodes."""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.jobs.nodes import Node, nodes, used_cpus
from phalanx.slurm.notation import times
from phalanx.slurm.notation.amounts import read_width
from phalanx.slurm.notation.hostlist import compress, expand
from phalanx.slurm.options import Reader, Usage, declare, say, unknown_cluster

OPTIONS = declare(
    "all,a clusters,M= dead,d exact,e federation Format,O= format,o= future,F help hide iterate,i= json list-reasons,R "
    "local long,l noconvert Node,N nodes,n= noheader,h partition,p= reservation,T responding,r sort,S= states,t= "
    "summarize,s usage verbose,v version,V"
) + declare("yaml", refused=True)
_ENVIRONMENT = {
    "SINFO_ALL": "all", "SINFO_FORMAT": "format", "SINFO_PARTITION": "partition", "SINFO_SORT": "sort",
    "SLURM_CLUSTERS": "clusters",
}  # fmt: skip
_READER = Reader("sinfo", OPTIONS)
DEFAULT = "%#P %.5a %.10l %.6D %.6t %N"
LONG = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
BY_NODE = "%#N %.6D %#P %6t"
BY_NODE_LONG = "%#N %.6D %.#P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
SUMMARY = "%#P %.5a %.10l %.16F %N"
REASONS = "%20E %9u %19H %N"
REASONS_LONG = "%20E %12U %19H %6t %N"
_STATES = (
    "unknown,down,idle,allocated,?,mixed,future,drain,drained,draining,no_respond,reserved,perfctrs,cloud,completing,"
    "powering_down,powered_down,power_down,powering_up,fail,maint,reboot,reboot^,unknown"
)
_SHORT = {"idle": "idle", "allocated": "alloc", "mixed": "mix", "down": "down", "drained": "drain", "draining": "drng"}
_ASKED = {"alloc": "allocated", "mix": "mixed", "drain": "drained", "drng": "draining"}
_FORM = re.compile(r"%(\.?)(#?\d*)([a-zA-Z])")


class Seen(Struct, frozen=True):
    """A node, its state, and how many of its CPUs jobs of Slurm's hold."""

    node: Node
    state: str
    used: int


class Row(Struct, frozen=True):
    partition: site.Partition
    seen: tuple[Seen, ...]
    state: str  # empty: no node


def run(words: Sequence[str]) -> int:
    typed, _ = _READER.read(words)
    said: dict[str, str | None] = dict(typed)
    for name, option in _ENVIRONMENT.items():
        if os.environ.get(name) and option not in said and not (option == "format" and "Format" in said):
            said[option] = os.environ[name]
    if "help" in said or "usage" in said:
        say("Usage: sinfo [OPTIONS]")
        return 0
    every_s = _every_s(said.get("iterate"))
    wanted = _wanted(said)
    api = Api.open()
    if "reservation" in said:
        return _reservations(api, "noheader" in said)
    here = site.load(api)
    if cluster := said.get("clusters"):
        if cluster not in (here.cluster, "all"):
            raise Usage(unknown_cluster("sinfo", cluster))
        print(f"CLUSTER: {here.cluster}")
    while True:
        _show(api, here, said, wanted)
        if not every_s:
            return 0
        time.sleep(every_s)  # --iterate: the user says how long


def _every_s(text: str | None) -> float:
    if text is not None and (not text.isdigit() or not int(text)):
        raise Usage(f"sinfo: error: Error: invalid entry for --iterate={text}")
    return float(text or 0)


def _show(api: Api, here: site.Site, said: Mapping[str, str | None], wanted: set[str] | None) -> None:
    found = [replace(one, node=replace(one.node, shape=here.sockets.get(one.node.name, ""))) for one in see(api)]
    if "json" in said:
        print(_json(here, found))
        return
    columns = _columns(said)
    rows = _rows(here, found, said, wanted, {field.letter for field in columns if isinstance(field, Column)})
    if "list-reasons" in said:
        rows = [row for row in rows if any(one.node.reason for one in row.seen)]
        rows = _reasons(rows)
    _print(columns, _sorted(rows, said), said)


def _reservations(api: Api, bare: bool) -> int:
    from phalanx.slurm.control.reservations import reservations

    found = reservations(api)
    if not found:
        print("No reservations in the system")
        return 0
    width = max(9, *(len(one.name) for one in found))
    if not bare:
        print(f"{'RESV_NAME':<{width}}  {'STATE':>8}  {'START_TIME':>19}  {'END_TIME':>19}  {'DURATION':>11}  NODELIST")
    for one in found:
        state, length = "ACTIVE" if one.active else "INACTIVE", times.long_elapsed(one.end_s - one.start_s)
        begin, end = times.moment(one.start_s), times.moment(one.end_s)
        listed = compress(one.nodes, ordered=True)
        print(f"{one.name:<{width}}  {state:>8}  {begin:>19}  {end:>19}  {length:>11}  {listed}")
    return 0


def see(api: Api) -> list[Seen]:
    """Every node, with what runs on it."""
    used = used_cpus(api)
    return [Seen(node, _state(node, used.get(node.name, 0)), used.get(node.name, 0)) for node in nodes(api)]


def _state(node: Node, used: int) -> str:
    if not node.ready:
        return "down"
    if node.drained:
        return "draining" if used else "drained"
    return "idle" if not used else "allocated" if used >= node.cpus else "mixed"


def _wanted(said: Mapping[str, str | None]) -> set[str] | None:
    if "dead" in said:
        return {"down"}
    text = said.get("states")
    if text is None:
        return {"idle", "allocated", "mixed", "drained", "draining"} if "responding" in said else None
    found: set[str] = set()
    for word in re.split(r"[,&]", text.lower()):
        word = word.rstrip("*~#!%$@^-")
        state = _ASKED.get(word, word)
        if state == "all":
            return None
        if state not in _STATES.split(","):
            raise Usage(f'sinfo: error: Bad state string: "{word}"\nsinfo: error: valid states: {_STATES}')
        found |= {"drain": {"drained", "draining"}, "alloc": {"allocated", "mixed"}}.get(word, {state})
    return found


def _default(said: Mapping[str, str | None]) -> str:
    if "list-reasons" in said:
        return REASONS_LONG if "long" in said else REASONS
    if "summarize" in said:
        return SUMMARY
    if "Node" in said:
        return BY_NODE_LONG if "long" in said else BY_NODE
    return LONG if "long" in said else DEFAULT


def _rows(
    here: site.Site,
    found: Iterable[Seen],
    said: Mapping[str, str | None],
    wanted: set[str] | None,
    letters: set[str],
) -> list[Row]:
    """Return one row for each partition and each group of its nodes that are equal in all columns."""
    partitions = here.all
    if names := said.get("partition"):
        partitions = [one for one in partitions if one.name in names.split(",")]
    only = set(expand(said.get("nodes") or ""))
    seen = [one for one in found if (not only or one.node.name in only) and (wanted is None or one.state in wanted)]
    rows: list[Row] = []
    if "summarize" not in said and "Node" not in said and not letters & _OF_PARTITION:
        partitions = partitions[:1]
        merged = [one for one in seen if any(not p.nodes or one.node.name in p.nodes for p in here.all)]
        partitions = [replace(partitions[0], nodes=[one.node.name for one in merged])] if partitions else []
    for partition in partitions:
        within = [one for one in seen if not partition.nodes or one.node.name in partition.nodes]
        if "Node" in said:
            rows += [Row(partition, (one,), one.state) for one in within]
            continue
        groups: dict[tuple[str, ...], list[Seen]] = {}
        for one in within:
            alone = Row(partition, (one,), one.state)
            apart = letters & (_APART if "exact" not in said else _APART | _EXACT)
            key = tuple(_FIELDS[letter][1](alone) for letter in sorted(apart))
            groups.setdefault(key if "summarize" not in said else (), []).append(one)
        rows += [
            Row(partition, tuple(some), some[0].state if "summarize" not in said else "any")
            for some in sorted(groups.values(), key=lambda some: _ORDER.index(some[0].state))
        ]
        if not within and "list-reasons" not in said:
            rows.append(Row(partition, (), ""))
    if "Node" in said:
        rows.sort(key=lambda row: row.seen[0].node.name)
    return rows


# Columns that keep nodes apart, always and with --exact (measured, 22.05: of other columns a span or a sum is shown).
_APART = frozenset("tTEuUHfbGn")
_EXACT = frozenset("cmdwzXYZ")
_OF_PARTITION = frozenset("PRalLsrhgpIMSB")  # without one of these, partitions are not told apart


def _sorted(rows: list[Row], said: Mapping[str, str | None]) -> list[Row]:
    """By --sort: letters of columns, each with a minus for descending."""
    for key in reversed((said.get("sort") or "").split(",")):
        letter = key.strip().lstrip("+-#")
        if letter not in _FIELDS:
            continue

        def value(row: Row, letter: str = letter) -> tuple[int, str]:
            if letter in ("t", "T"):
                return (_ORDER.index(row.state) if row.state in _ORDER else 99), ""
            text = _FIELDS[letter][1](row)
            return (int(text), "") if text.isdigit() else (0, text)

        rows = sorted(rows, key=value, reverse=key.strip().startswith("-"))
    return rows


_ORDER = ("down", "drained", "draining", "mixed", "allocated", "idle")


def _reasons(rows: Sequence[Row]) -> list[Row]:
    """Return one row for each reason."""
    found: dict[str, dict[str, Seen]] = {}
    for row in rows:
        for one in row.seen:
            if one.node.reason:
                found.setdefault(one.node.reason, {})[one.node.name] = one
    return [Row(rows[0].partition, tuple(each.values()), next(iter(each.values())).state) for each in found.values()]


class Column(Struct, frozen=True):
    """A letter of a format: `sized`: as wide as its widest text."""

    letter: str
    width: int = 0
    right: bool = False
    sized: bool = False


def _columns(said: Mapping[str, str | None]) -> list[Column | str]:
    """Return the columns of the format and the texts between them."""
    if (names := said.get("Format")) is not None:
        return list(_by_names(names))
    form, at, found = said.get("format") or _default(said), 0, list[Column | str]()
    for match in _FORM.finditer(form):
        found.append(form[at : match.start()])
        at = match.end()
        if match[3] not in _FIELDS:
            say(f"Invalid node format specification: {match[3]}")
            found.append(match[0])
            continue
        found.append(Column(match[3], read_width(match[2].strip("#") or "0"), bool(match[1]), match[2] == "#"))
    return [*found, form[at:]]


def _by_names(text: str) -> Iterator[Column | str]:
    """The columns of -O: `name:.30`, 20 wide if nothing is said."""
    for word in text.split(","):
        name, _, size = word.strip().partition(":")
        if (letter := _NAMES.get(name.lower())) is None:
            if name:
                say(f"sinfo: error: Invalid job format specification: {name}")
            continue
        right = size.startswith(".")
        width = size.lstrip(".")
        yield Column(letter, read_width(width) if width.isdigit() else 20, right)


def _print(columns: Sequence[Column | str], rows: Sequence[Row], said: Mapping[str, str | None]) -> None:
    widths = {"P": _widest("PARTITION", (_name(row) for row in rows)), "N": 9}
    lines = []
    if "noheader" not in said:
        if "long" in said:
            print(time.strftime("%a %b %d %H:%M:%S %Y"))
        lines.append(_filled(columns, lambda letter: _FIELDS[letter][0], widths))
    for row in rows:
        lines.append(_filled(columns, partial(_shown, row), widths))
    if lines:
        print("\n".join(lines))


def _shown(row: Row, letter: str) -> str:
    return _FIELDS[letter][1](row)


def _filled(columns: Sequence[Column | str], text_of: Callable[[str], str], widths: Mapping[str, int]) -> str:
    return "".join(one if isinstance(one, str) else _fit(one, text_of(one.letter), widths) for one in columns)


def _widest(heading: str, names: Iterable[str]) -> int:
    return max(len(heading), *(len(name) for name in names), 9)


def _fit(column: Column, text: str, widths: Mapping[str, int]) -> str:
    width = widths.get(column.letter, 0) if column.sized else column.width
    if not width:
        return text
    cut = text if column.sized else text[:width]
    return cut.rjust(width) if column.right else cut.ljust(width)


def _name(row: Row) -> str:
    return row.partition.name + ("*" if row.partition.default else "")


def _counts(row: Row) -> str:
    """Allocated, idle, other and all nodes."""
    used = sum(one.state in ("allocated", "mixed") for one in row.seen)
    idle = sum(one.state == "idle" for one in row.seen)
    return f"{used}/{idle}/{len(row.seen) - used - idle}/{len(row.seen)}"


def _cpus(row: Row) -> str:
    used = sum(one.used for one in row.seen)
    every = sum(one.node.cpus for one in row.seen)
    gone = sum(one.node.cpus for one in row.seen if one.state in ("down", "drained"))
    return f"{used}/{every - used - gone}/{gone}/{every}"


def _most(row: Row, of: Callable[[Node], int | str]) -> str:
    values = sorted({of(one.node) for one in row.seen})
    return "" if not values else str(values[0]) if len(values) == 1 else f"{values[0]}+"


def _long_user(row: Row) -> str:
    """Return who gave the reason, with the user's number: `root(0)`."""
    name = next((one.node.reason_by for one in row.seen if one.node.reason), "")
    try:
        return f"{name}({pwd.getpwnam(name).pw_uid})" if name else "Unknown"
    except KeyError:
        return name


def _shape(row: Row, part: int) -> str:
    return _most(row, lambda node: int((node.shape or f"1:{node.cpus}:1").split(":")[part]))


def _ai(row: Row) -> str:
    """Allocated and idle nodes."""
    return "/".join(_counts(row).split("/")[:2])


def _json(here: site.Site, found: Sequence[Seen]) -> str:
    """Return the nodes as JSON, with the field names of Slurm's REST API of 22.05 for the known facts."""
    import msgspec

    rows = [
        {
            "name": one.node.name, "hostname": one.node.name, "address": one.node.name, "state": one.state,
            "state_flags": ["DRAIN"] if one.node.drained else [], "cpus": one.node.cpus, "alloc_cpus": one.used,
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


def _features(row: Row) -> str:
    return ",".join(sorted({feature for one in row.seen for feature in one.node.features})) or "(null)"


def _gres(row: Row) -> str:
    gpus = sorted({one.node.gpus for one in row.seen if one.node.gpus})
    return f"gpu:{gpus[0]}" if gpus else "(null)"


def _size(row: Row) -> str:
    most = row.partition.max_nodes
    return f"1-{'infinite' if most is None else most}"


_FIELDS: dict[str, tuple[str, Callable[[Row], str]]] = {
    "P": ("PARTITION", _name),
    "R": ("PARTITION", lambda row: row.partition.name),
    "a": ("AVAIL", lambda row: {"UP": "up", "DOWN": "down", "DRAIN": "drain"}.get(row.partition.state, "inact")),
    "l": ("TIMELIMIT", lambda row: times.limit(row.partition.max_min, none="infinite")),
    "L": ("DEFAULTTIME", lambda row: times.limit(row.partition.default_min, none="n/a")),
    "D": ("NODES", lambda row: str(len(row.seen))),
    "t": ("STATE", lambda row: _SHORT.get(row.state, "n/a")),
    "T": ("STATE", lambda row: row.state or "n/a"),
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
    "memory allocated": ("ALLOCMEM", lambda row: "0"),
    "comment": ("COMMENT", lambda row: "(null)"),
    "extra": ("EXTRA", lambda row: "(null)"),
    "port": ("PORT", lambda row: "6818"),
    "gres used": ("GRES_USED", _gres),
}
# The names of -O (sinfo(1)).
_NAMES = {
    "all": "N", "allocmem": "memory allocated", "allocnodes": "S", "available": "a", "cluster": "V",
    "comment": "comment",
    "cores": "Y", "cpus": "c", "cpusload": "O", "cpusstate": "C", "defaulttime": "L", "disk": "d", "extra": "extra",
    "features": "f", "features_act": "b", "freemem": "e", "gres": "G", "gresused": "gres used", "groups": "g",
    "maxcpuspernode": "B", "memory": "m", "nodeai": "A", "nodeaiot": "F", "nodeaddr": "o", "nodehost": "n",
    "nodelist": "N", "nodes": "D", "oversubscribe": "h", "partition": "P", "partitionname": "R", "port": "port",
    "preemptmode": "M", "priorityjobfactor": "I", "prioritytier": "p", "reason": "E", "root": "r", "share": "h",
    "size": "s", "socketcorethread": "z", "sockets": "X", "statecompact": "t", "statelong": "T", "threads": "Z",
    "time": "l", "timestamp": "H", "user": "u", "userlong": "U", "version": "v", "weight": "w",
}  # fmt: skip
