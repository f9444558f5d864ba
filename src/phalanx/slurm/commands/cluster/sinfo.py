"""sinfo: partitions and nodes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.jobs.nodes import Node, nodes, used_cpus
from phalanx.slurm.notation import times
from phalanx.slurm.notation.amounts import read_width
from phalanx.slurm.notation.hostlist import compress, expand
from phalanx.slurm.options import Reader, Usage, declare, say

OPTIONS = declare(
    "all,a dead,d exact,e format,o= help hide Node,N long,l nodes,n= noheader,h partition,p= reservation,T "
    "responding,r "
    "list-reasons,R summarize,s states,t= usage version,V"
) + declare(
    "clusters,M= Format,O= federation future,F iterate,i= json local noconvert sort,S= verbose,v yaml",
    refused=True,
)
_READER = Reader("sinfo", OPTIONS)
DEFAULT = "%#P %.5a %.10l %.6D %.6t %N"
LONG = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
BY_NODE = "%#N %.6D %#P %6t"
BY_NODE_LONG = "%#N %.6D %.#P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
SUMMARY = "%#P %.5a %.10l %.16F %N"
REASONS = "%20E %9u %19H %N"
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
    if "help" in said or "usage" in said:
        say("Usage: sinfo [OPTIONS]")
        return 0
    wanted = _wanted(said)
    api = Api.open()
    if "reservation" in said:
        return _reservations(api, "noheader" in said)
    here = site.load(api)
    found = [replace(one, node=replace(one.node, shape=here.sockets.get(one.node.name, ""))) for one in see(api)]
    rows = _rows(here, found, said, wanted)
    if "list-reasons" in said:
        rows = [row for row in rows if any(one.node.reason for one in row.seen)]
        rows = _reasons(rows)
    form = said.get("format") or _default(said)
    for match in _FORM.finditer(form):
        if match[3] not in _FIELDS:
            say(f"Invalid node format specification: {match[3]}")
    _print(form, rows, said)
    return 0


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
    found = set()
    for word in text.lower().split(","):
        state = _ASKED.get(word, word)
        if state not in _STATES.split(","):
            raise Usage(f'sinfo: error: Bad state string: "{word}"\nsinfo: error: valid states: {_STATES}')
        found |= {"drained", "draining"} if word == "drain" else {state}
    return found


def _default(said: Mapping[str, str | None]) -> str:
    if "list-reasons" in said:
        return REASONS
    if "summarize" in said:
        return SUMMARY
    if "Node" in said:
        return BY_NODE_LONG if "long" in said else BY_NODE
    return LONG if "long" in said else DEFAULT


def _rows(here: site.Site, found: Iterable[Seen], said: Mapping[str, str | None], wanted: set[str] | None) -> list[Row]:
    partitions = here.all
    if names := said.get("partition"):
        partitions = [one for one in partitions if one.name in names.split(",")]
    only = set(expand(said.get("nodes") or ""))
    seen = [one for one in found if (not only or one.node.name in only) and (wanted is None or one.state in wanted)]
    rows: list[Row] = []
    for partition in partitions:
        within = [one for one in seen if not partition.nodes or one.node.name in partition.nodes]
        if "Node" in said:
            rows += [Row(partition, (one,), one.state) for one in within]
        elif "summarize" in said:
            rows.append(Row(partition, tuple(within), "any"))
        else:
            states = sorted({one.state for one in within}, key=list(_ORDER).index)
            rows += [Row(partition, tuple(one for one in within if one.state == state), state) for state in states]
            if not within and "list-reasons" not in said:
                rows.append(Row(partition, (), ""))
    if "Node" in said:
        rows.sort(key=lambda row: row.seen[0].node.name)
    return rows


_ORDER = ("down", "drained", "draining", "mixed", "allocated", "idle")


def _reasons(rows: Sequence[Row]) -> list[Row]:
    """Return one row for each reason."""
    found: dict[str, dict[str, Seen]] = {}
    for row in rows:
        for one in row.seen:
            if one.node.reason:
                found.setdefault(one.node.reason, {})[one.node.name] = one
    return [Row(rows[0].partition, tuple(each.values()), "") for each in found.values()]


def _print(form: str, rows: Sequence[Row], said: Mapping[str, str | None]) -> None:
    widths = {"P": _widest("PARTITION", (_name(row) for row in rows)), "N": 9}
    lines = []
    if "noheader" not in said:
        if "long" in said:
            print(time.strftime("%a %b %d %H:%M:%S %Y"))
        lines.append(_filled(form, lambda letter: _FIELDS[letter][0], widths))
    for row in rows:
        lines.append(_filled(form, partial(_shown, row), widths))
    if lines:
        print("\n".join(lines))


def _shown(row: Row, letter: str) -> str:
    return _FIELDS[letter][1](row)


def _filled(form: str, text_of: Callable[[str], str], widths: Mapping[str, int]) -> str:
    return _FORM.sub(lambda match: _fit(match, text_of(match[3]), widths) if match[3] in _FIELDS else match[0], form)


def _widest(heading: str, names: Iterable[str]) -> int:
    return max(len(heading), *(len(name) for name in names), 9)


def _fit(match: re.Match[str], text: str, widths: Mapping[str, int]) -> str:
    width = widths.get(match[3], 0) if match[2] == "#" else read_width(match[2] or "0")
    if not width:
        return text
    cut = text if match[2] == "#" else text[:width]
    return cut.rjust(width) if match[1] else cut.ljust(width)


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
    "f": ("AVAIL_FE", _features),
    "b": ("ACTIVE_FEATURES", _features),
    "G": ("GRES", _gres),
    "z": ("S:C:T", lambda row: _most(row, lambda node: node.shape or f"1:{node.cpus}:1")),
    "s": ("JOB_SIZE", _size),
    "r": ("ROOT", lambda row: "no"),
    "h": ("OVERSUBS", lambda row: "NO"),
    "g": ("GROUPS", lambda row: "all"),
    "E": ("REASON", lambda row: next((one.node.reason for one in row.seen if one.node.reason), "none")),
    "u": ("USER", lambda row: next((one.node.reason_by for one in row.seen if one.node.reason), "Unknown")),
    "H": ("TIMESTAMP", lambda row: next((one.node.reason_s for one in row.seen if one.node.reason), "Unknown")),
    "p": ("PRIO_TIER", lambda row: "1"),
}
