"""sinfo: partitions and nodes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.commands.cluster.sinfo_fields import FIELDS, NAMES, Seen, SinfoRow, name_of, states_of
from phalanx.slurm.jobs.nodes import Node, Used, nodes, used, with_cloud
from phalanx.slurm.notation import times
from phalanx.slurm.notation.amounts import read_width
from phalanx.slurm.notation.hostlist import compress, expand
from phalanx.slurm.options import OptionReader, Usage, declare, require_cluster, say

OPTIONS = declare(
    "all,a cluster|clusters,M= dead,d exact,e federation format,o= Format,O= help hide iterate,i= json local long,l "
    "list-reasons,R nodes,n= noconvert Node,N noheader,h partition,p= responding,r reservation,T summarize,s sort,S= "
    "states,t= usage verbose,v version,V"
) + declare("yaml", refused=True)
_ENVIRONMENT = {
    "SINFO_ALL": "all", "SINFO_FORMAT": "format", "SINFO_PARTITION": "partition", "SINFO_SORT": "sort",
    "SLURM_CLUSTERS": "clusters",
}  # fmt: skip
_READER = OptionReader("sinfo", OPTIONS)
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
_ASKED = {"drain": "drained", "drng": "draining", "resv": "reserved", "comp": "completing"}
_PART = re.compile(r"(\.?)(#?\d*)(.?)(.*)", re.DOTALL)


def run(words: Sequence[str]) -> int:
    typed, _ = _READER.read(words)
    said: dict[str, str | None] = dict(typed)
    cluster_from = "--cluster"
    for name, option in _ENVIRONMENT.items():
        if os.environ.get(name) and option not in said and not (option == "format" and "Format" in said):
            said[option] = os.environ[name]
            cluster_from = name if option == "clusters" else cluster_from
    if "help" in said or "usage" in said:
        print("Usage: sinfo [OPTIONS]\n" + " ".join(f"--{one.spelled}" for one in OPTIONS if not one.refused))
        return 0
    every_s = _every_s(said.get("iterate"))
    wanted = _wanted(said)
    if "long" in said and {"format", "Format"} & dict(typed).keys():
        raise Usage(
            "sinfo: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry."
        )
    api = Api.open()
    if "reservation" in said:
        return _reservations(api, "noheader" in said)
    here = site.load(api)
    if (clusters := said.get("clusters")) is not None:
        require_cluster("sinfo", clusters, here.cluster, cluster_from)
        if "noheader" not in said:
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
    found = [replace(one, node=replace(one.node, shape=here.sockets.get(one.node.name, ""))) for one in see(api, here)]
    if "json" in said:
        from phalanx.slurm.commands.cluster.sinfo_fields import document

        print(document(here, found))
        return
    columns = _columns(said)
    rows = _rows(here, found, said, wanted, {field.letter for field in columns if isinstance(field, SinfoColumn)})
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


def see(api: Api, here: site.Site) -> list[Seen]:
    """Return every node, with what runs on it."""
    of_nodes, nothing = used(api), Used()
    found = [(node, of_nodes.get(node.name, nothing)) for node in with_cloud(here, nodes(api))]
    return [Seen(node, _state(node, on.cpus), on.cpus, on.memory_mib, on.gpus) for node, on in found]


def _state(node: Node, used: int) -> str:
    if node.power == "#":
        return "allocated"  # to the job for which it is switched on
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
    for word in re.split(r"[,&]", text.lower()) if text else ():
        if word == "all":
            return None
        names = [name for name in _STATES.split(",") if word and name.startswith(_ASKED.get(word, word))]
        if not names:
            raise Usage(f'sinfo: error: Bad state string: "{word}"\nsinfo: error: valid states: {_STATES}')
        state = names[0]
        also = {"drain": {"drained", "draining"}, "allocated": {"allocated", "mixed"}, "drained": {"drained"}}
        found |= {"drained", "draining"} if word == "drain" else also.get(state, {state})
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
) -> list[SinfoRow]:
    """Return one row for each partition and each group of its nodes that are equal in all columns.

    Partitions that are equal in all columns of partitions share their rows.
    """
    partitions = here.all
    if (names := said.get("partition")) is not None:
        partitions = [one for one in partitions if one.name in names.split(",")]
    only = None if said.get("nodes") is None else set(expand(said["nodes"] or ""))
    seen = [
        one for one in found
        if (only is None or one.node.name in only) and (wanted is None or wanted & states_of(one))
    ]  # fmt: skip
    rows: dict[tuple[str, ...], SinfoRow] = {}
    for partition in partitions:
        within = [one for one in seen if not partition.nodes or one.node.name in partition.nodes]
        if "Node" in said:
            rows |= {(partition.name, one.node.name): SinfoRow(partition, (one,), one.state) for one in within}
            continue
        groups = _groups(partition, within, letters, exact="exact" in said, summed="summarize" in said)
        of_partition = SinfoRow(partition, (), "")
        shown = tuple(FIELDS[letter][1](of_partition) for letter in sorted(letters & _OF_PARTITION))
        for key, some in groups.items():
            whole = (partition.name,) if "summarize" in said else (*shown, "|", *key)
            known = rows[whole].seen if whole in rows else ()
            every = (*known, *(one for one in some if one not in known))
            state = some[0].state if "summarize" not in said else "any"
            rows[whole] = SinfoRow(rows[whole].partition if known else partition, every, state)
        if not within and "list-reasons" not in said:
            rows[(partition.name,)] = of_partition
    listed = list(rows.values())
    return sorted(listed, key=lambda row: row.seen[0].node.name) if "Node" in said else listed


def _groups(
    partition: site.Partition, within: Sequence[Seen], letters: set[str], *, exact: bool, summed: bool
) -> dict[tuple[str, ...], list[Seen]]:
    """Return the nodes of each kind. `summed`: all are one kind."""
    groups: dict[tuple[str, ...], list[Seen]] = {}
    apart = sorted(letters & (_APART | _EXACT if exact else _APART))
    for one in within:
        key = tuple(FIELDS[letter][1](SinfoRow(partition, (one,), one.state)) for letter in apart)
        groups.setdefault(() if summed else key, []).append(one)
    return dict(sorted(groups.items(), key=lambda group: _ORDER.index(group[1][0].state)))


# Columns that keep nodes apart, always and with --exact (measured, 22.05: of other columns a span or a sum is shown).
_APART = frozenset("tTEuUHfbGno") | {"memory allocated", "gres used", "complete state"}
_EXACT = frozenset("cmdwzXYZ")
_OF_PARTITION = frozenset("PRalLsrhgpIMSB")


def _sorted(rows: list[SinfoRow], said: Mapping[str, str | None]) -> list[SinfoRow]:
    """By --sort: letters of columns, each with a minus for descending."""
    for key in reversed((said.get("sort") or "").split(",")):
        letter = key.strip().lstrip("+-")
        as_listed, letter = letter.startswith("#"), letter.lstrip("#")[:1]
        if letter not in FIELDS:
            continue
        names = list(dict.fromkeys(row.partition.name for row in rows)) if as_listed else []

        def value(row: SinfoRow, letter: str = letter, names: Sequence[str] = names) -> tuple[int, str]:
            if letter in ("t", "T"):
                return _NUMBERS.get(row.state, 99), ""
            if names:
                return names.index(row.partition.name), ""
            text = row.seen[0].node.name if letter == "N" and row.seen else FIELDS[letter][1](row)
            return (int(text), "") if text.isdigit() else (0, text)

        rows = sorted(rows, key=value, reverse=key.strip().startswith("-"))
    return rows


_NUMBERS = {"down": 1, "idle": 2, "allocated": 3, "mixed": 5, "drained": 8, "draining": 9}  # in Slurm's order
_ORDER = ("down", "drained", "draining", "mixed", "allocated", "idle")


def _reasons(rows: Sequence[SinfoRow]) -> list[SinfoRow]:
    """Return one row for each reason."""
    found: dict[str, dict[str, Seen]] = {}
    for row in rows:
        for one in row.seen:
            if one.node.reason:
                found.setdefault(one.node.reason, {})[one.node.name] = one
    return [
        SinfoRow(rows[0].partition, tuple(each.values()), next(iter(each.values())).state) for each in found.values()
    ]


class SinfoColumn(Struct, frozen=True):
    """A letter of a format: `sized`: as wide as its widest text."""

    letter: str
    width: int = 0
    right: bool = False
    sized: bool = False


def _columns(said: Mapping[str, str | None]) -> list[SinfoColumn | str]:
    """Return the columns of the format and the texts between them."""
    if (names := said.get("Format")) is not None:
        return list(_by_names(names))
    own = said.get("format")
    before, _, rest = (_default(said) if own is None else own).partition("%")
    found: list[SinfoColumn | str] = [before]
    for word in filter(None, rest.split("%")):
        if word == "all":
            found += _every_column()
            continue
        match = _PART.fullmatch(word)
        assert match is not None  # each part may be empty
        letter = "#" if own is not None and match[2].startswith("#") else match[3]
        if letter not in FIELDS:
            say(f"Invalid node format specification: {letter}")
            found.append(f"%{word}")
            continue
        found += [
            SinfoColumn(letter, read_width(match[2].strip("#") or "0"), bool(match[1]), match[2] == "#"),
            match[4],
        ]
    return found


def _every_column() -> list[SinfoColumn | str]:
    """Return the columns of `all`, with what Slurm puts between them."""
    found: list[SinfoColumn | str] = []
    for letter in _ALL:
        found += [SinfoColumn(letter), "|" if letter.islower() else " |" if letter != _ALL[-1] else ""]
    return found


_ALL = "abcdefghlmnoprstuvwzABCDEFGHILMNOPRSTUVXYZ"


def _by_names(text: str) -> Iterator[SinfoColumn | str]:
    """The columns of -O: `name:.30`, 20 wide if nothing is said."""
    for word in text.split(","):
        name, _, size = word.strip().partition(":")
        if name.lower() == "all":
            yield from _every_column()
            continue
        if (letter := NAMES.get(name.lower())) is None:
            if name:
                say(f"sinfo: error: Invalid job format specification: {name}")
            continue
        right = size.startswith(".")
        width = size.lstrip(".")
        yield SinfoColumn(letter, read_width(width) if width.isdigit() else 20, right)


def _print(columns: Sequence[SinfoColumn | str], rows: Sequence[SinfoRow], said: Mapping[str, str | None]) -> None:
    widths = {"P": _widest("PARTITION", (name_of(row) for row in rows)), "N": 9}
    lines = []
    if "noheader" not in said:
        if "long" in said:
            print(time.strftime("%a %b %d %H:%M:%S %Y"))
        # As measured, headings of nodes are not cut where they are aligned to the right.
        heads = [
            SinfoColumn(one.letter, max(one.width, len(FIELDS[one.letter][0])), right=True)
            if isinstance(one, SinfoColumn) and one.right and one.width and one.letter in "Nno"
            else one
            for one in columns
        ]
        lines.append(_filled(heads, lambda letter: FIELDS[letter][0], widths))
    for row in rows:
        lines.append(_filled(columns, partial(_shown, row), widths))
    if lines:
        print("\n".join(lines))


def _shown(row: SinfoRow, letter: str) -> str:
    return FIELDS[letter][1](row)


def _filled(columns: Sequence[SinfoColumn | str], text_of: Callable[[str], str], widths: Mapping[str, int]) -> str:
    return "".join(one if isinstance(one, str) else _fit(one, text_of(one.letter), widths) for one in columns)


def _widest(heading: str, names: Iterable[str]) -> int:
    return max(len(heading), *(len(name) for name in names), 9)


def _fit(column: SinfoColumn, text: str, widths: Mapping[str, int]) -> str:
    width = widths.get(column.letter, 0) if column.sized else column.width
    if not width:
        return text
    cut = text if column.sized else text[:width]
    return cut.rjust(width) if column.right else cut.ljust(width)
