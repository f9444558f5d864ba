"""sinfo: show partitions and nodes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.commands.cluster.sinfo_rows import FIELDS, NAMES, NodeUsage, SinfoRow, name_of, rows_of, sort_rows
from phalanx.slurm.jobs.nodes import NodeInfo, Used, nodes, used, with_cloud
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
    "SINFO_ALL": "all", "SINFO_PARTITION": "partition", "SINFO_SORT": "sort",
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
_NOTHING = "(null)"
# letter of a column -> its text in a row without nodes
_EMPTY = {
    **dict.fromkeys("cdemwXYZ", "0"), "O": "0.00", "z": "0:0:0", "u": "root", "U": "root(0)", "gres used": _NOTHING,
}  # fmt: skip
_SIZE = re.compile(r"(\.?)(\d*)(.*)", re.DOTALL)
_PART = re.compile(r"(\.?)(#?\d*)(.?)(.*)", re.DOTALL)


def run(words: Sequence[str]) -> int:
    typed, _ = _READER.read(words, _check)
    said: dict[str, str | None] = dict(typed)
    cluster_from = "--cluster"
    if formats := [(name, value) for name, value in typed if name in ("format", "Format")]:
        # As in Slurm, the value of the last -o or -O is used. It is parsed as -O if any -O was typed.
        said = {name: value for name, value in said.items() if name not in ("format", "Format")}
        said["Format" if any(name == "Format" for name, _ in formats) else "format"] = formats[-1][1]
    elif not {"summarize", "Node", "list-reasons"} & said.keys() and (form := os.environ.get("SINFO_FORMAT")):
        said["format"] = form
    for name, option in _ENVIRONMENT.items():
        if os.environ.get(name) and option not in said:
            said[option] = os.environ[name]
            cluster_from = name if option == "clusters" else cluster_from
    if "help" in said or "usage" in said:
        print("Usage: sinfo [OPTIONS]\n" + " ".join(f"--{one.spelled}" for one in OPTIONS if not one.refused))
        return 0
    every_s = _every_s(said.get("iterate"))
    wanted = _wanted(said)
    if {"all", "partition"} <= dict(typed).keys():
        raise Usage("sinfo: error: Conflicting options, -a and -p, specified. Please choose one or the other.")
    if "long" in said and {"format", "Format"} & dict(typed).keys():
        raise Usage(
            "sinfo: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry."
        )
    api = ApiClient.open()
    here = site.load(api)
    if (clusters := said.get("clusters")) is not None:
        require_cluster("sinfo", clusters, here.cluster, cluster_from)
        said["clusters"] = here.cluster
    if "reservation" in said:
        _columns(said)  # report an invalid format, although the format has no effect with --reservation
        _print_above(said)
        return _reservations(api, "noheader" in said)
    while True:
        _print_above(said)
        _show(api, here, said, wanted)
        if not every_s:
            return 0
        time.sleep(every_s)  # --iterate: the user chose this interval


def _print_above(said: Mapping[str, str | None]) -> None:
    """Print the lines above the heading: the date with --long, and the cluster name with --clusters."""
    if "noheader" in said or "json" in said:
        return
    if "long" in said:
        print(time.strftime("%a %b %d %H:%M:%S %Y"))
    if (cluster := said.get("clusters")) is not None:
        print(f"CLUSTER: {cluster}")


def _check(typed: Sequence[tuple[str, str | None]]) -> None:
    """Raise Usage if the value of the last option is invalid. `typed`: the options so far."""
    name, text = typed[-1]
    if name == "clusters":
        require_cluster("sinfo", text or "", site.load(ApiClient.open()).cluster)
    elif name == "states":
        _wanted({"states": text})
    elif name == "iterate":
        _every_s(text)


def _every_s(text: str | None) -> float:
    if text is not None and (not text.isdecimal() or not int(text)):
        raise Usage(f"sinfo: error: Error: invalid entry for --iterate={text}")
    return float(text or 0)


def _show(api: ApiClient, here: site.Site, said: Mapping[str, str | None], wanted: list[set[str]] | None) -> None:
    found = [replace(one, node=replace(one.node, shape=here.sockets.get(one.node.name, ""))) for one in see(api, here)]
    if "json" in said:
        from phalanx.slurm.commands.cluster.sinfo_rows import document

        print(document(here, found))
        return
    columns = _columns(said)
    letters = {field.letter for field in columns if isinstance(field, SinfoColumn)}
    partitions = here.all
    if (names := said.get("partition")) is not None:
        partitions = [one for one in partitions if one.name in names.split(",")]
    if (named := said.get("nodes")) is not None:
        only = set(expand(named))
        found = [one for one in found if one.node.name in only]
    order = said.get("sort")
    rows = rows_of(partitions, found, said, wanted, letters)
    _print(columns, sort_rows(rows, ("N" if "Node" in said else "#P,-t") if order is None else order, here.all), said)


def _reservations(api: ApiClient, bare: bool) -> int:
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


def see(api: ApiClient, here: site.Site) -> list[NodeUsage]:
    """Return every node with its state and its allocated amounts."""
    of_nodes, nothing = used(api), Used()
    found = [(node, of_nodes.get(node.name, nothing)) for node in with_cloud(here, nodes(api))]
    return [NodeUsage(node, _state(node, on.cpus), on.cpus, on.memory_mib, on.gpus) for node, on in found]


def _state(node: NodeInfo, used: int) -> str:
    if node.power == "#":
        return "allocated"  # the node is being switched on for a job
    if not node.ready:
        return "down"
    if node.drained:
        return "draining" if used else "drained"
    return "idle" if not used else "allocated" if used >= node.cpus else "mixed"


def _wanted(said: Mapping[str, str | None]) -> list[set[str]] | None:
    """Return the sets of states that the options select. A node is shown if it has at least one state of each set.
    Return None if every node is shown."""
    if "dead" in said:
        return [{"down"}]
    text = said.get("states")
    if text is None:
        return [{"idle", "allocated", "mixed", "drained", "draining"}] if "responding" in said else None
    if text.lower() == "all":
        return None
    found = [_states(word) for word in re.split("[,&]", text.lower()) if word]
    return found if "&" in text else [{state for states in found for state in states}]


def _states(word: str) -> set[str]:
    """Return the states that a word of --states, which may be abbreviated, selects. Raises Usage."""
    names = [name for name in _STATES.split(",") if name.startswith(_ASKED.get(word, word))]
    if not names:
        raise Usage(f'sinfo: error: Bad state string: "{word}"\nsinfo: error: valid states: {_STATES}')
    return _MEANT.get(names[0], {names[0]})


# state in --states -> the node states that it selects (measured with Slurm 22.05). For example, a drained node without
# jobs is also idle.
_MEANT = {
    "drain": {"drained", "draining"},
    "allocated": {"allocated", "mixed", "draining"},
    "idle": {"idle", "drained"},
}


def _default(said: Mapping[str, str | None]) -> str:
    if "summarize" in said:
        return SUMMARY
    if "Node" in said:
        return BY_NODE_LONG if "long" in said else BY_NODE
    if "list-reasons" in said:
        return REASONS_LONG if "long" in said else REASONS
    return LONG if "long" in said else DEFAULT


class SinfoColumn(Struct, frozen=True):
    """A column of a format. `letter`: the letter of its field. `right`: True if it is aligned to the right. `sized`:
    True if the column is as wide as its widest text."""

    letter: str
    width: int = 0
    right: bool = False
    sized: bool = False


def _columns(said: Mapping[str, str | None]) -> list[SinfoColumn | str]:
    """Return the columns of the format, and the literal texts between them."""
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
    """Return the columns for the field name `all`, with Slurm's separators between them."""
    found: list[SinfoColumn | str] = []
    for letter in _ALL:
        found += [SinfoColumn(letter), "|" if letter.islower() else " |" if letter != _ALL[-1] else " "]
    return found


_ALL = "abcdefghlmnoprstuvwzABCDEFGHILMNOPRSTUVXYZ"


def _by_names(text: str) -> Iterator[SinfoColumn | str]:
    """Yield the columns that a value of -O names, such as `name:.30`. A column without a width has 20 characters."""
    for word in filter(None, text.split(",")):
        name, colon, size = word.partition(":")
        match = _SIZE.fullmatch(size)
        assert match is not None  # each part may be empty
        right, width, rest = match.groups()
        if name.lower() == "all":
            yield from _every_column()
            continue
        if (letter := NAMES.get(name.lower())) is None:
            say(f"sinfo: error: Invalid job format specification: {name}")
        else:
            yield SinfoColumn(letter, read_width(width or "0") if colon else 20, bool(right))
        yield rest


def _print(columns: Sequence[SinfoColumn | str], rows: Sequence[SinfoRow], said: Mapping[str, str | None]) -> None:
    widths = {"P": _widest("PARTITION", (name_of(row) for row in rows)), "N": 9}
    lines = []
    if "noheader" not in said:
        # As measured, Slurm does not cut headings of node columns that are aligned to the right.
        heads = [
            SinfoColumn(one.letter, max(one.width, len(FIELDS[one.letter][0])), right=True)
            if isinstance(one, SinfoColumn) and one.right and one.width and one.letter in "Nno"
            else one
            for one in columns
        ]
        lines.append(_filled(heads, lambda letter: FIELDS[letter][0], widths))
    for row in rows:
        lines.append(_filled(columns, partial(_shown, row, said.get("clusters")), widths))
    if lines:
        print("\n".join(lines))


def _shown(row: SinfoRow, cluster: str | None, letter: str) -> str:
    if letter == "V" and cluster is not None:
        return cluster  # Slurm prints a cluster name only with --clusters
    return FIELDS[letter][1](row) if row.seen else _EMPTY.get(letter) or FIELDS[letter][1](row)


def _filled(columns: Sequence[SinfoColumn | str], text_of: Callable[[str], str], widths: Mapping[str, int]) -> str:
    return "".join(one if isinstance(one, str) else _fit(one, text_of(one.letter), widths) for one in columns)


def _widest(heading: str, names: Iterable[str]) -> int:
    return max(len(heading), *(len(name) for name in names), 9)


def _fit(column: SinfoColumn, text: str, widths: Mapping[str, int]) -> str:
    width = widths.get(column.letter, 0) if column.sized else column.width
    if not width:
        return text
    if text == _NOTHING and not column.right and width < len(_NOTHING):
        text = ""  # as printf(3) of the C library does
    if column.letter == "P" and text.endswith("*") and len(text) > width:
        text = text[: width - 1] + "*"  # the `*` of the default partition stays
    cut = text if column.sized else text[:width]
    return cut.rjust(width) if column.right else cut.ljust(width)
