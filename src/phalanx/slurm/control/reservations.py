"""Create, change and show Slurm's advance reservations. Each advance reservation is a Reservation object of Phalanx
with the same name. It reserves nodes for users or accounts, or for no job.

An annotation stores further fields that Slurm shows (flags, users, accounts). The jobs of a user are in the group with
the user's name, so a Slurm reservation for users becomes a Reservation for these groups. A Slurm reservation for
accounts becomes a Reservation for the queues of these accounts.
"""

from __future__ import annotations

import re
import time

import msgspec

from phalanx.client.moment import write_moment
from phalanx.slurm.cluster.api import ApiClient, Object
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import PREFIX
from phalanx.slurm.jobs.chosen import is_user
from phalanx.slurm.jobs.nodes import nodes
from phalanx.slurm.notation import amounts, times
from phalanx.slurm.notation.hostlist import compress, expand
from phalanx.slurm.options import Usage

PATH = "/apis/phalanx.dev/v1/reservations"
_WORDS = PREFIX + "reservation"
_KNOWN = {
    "reservationname", "reservation", "starttime", "endtime", "duration", "users", "user", "accounts", "account",
    "nodes", "nodecnt", "partitionname", "partition", "flags", "features", "comment",
}  # fmt: skip
_FLAGS = (
    *("MAINT", "OVERLAP", "IGNORE_JOBS", "DAILY", "WEEKLY", "SPEC_NODES", "ANY_NODES", "STATIC_ALLOC", "PART_NODES"),
    *("REPLACE", "FLEX", "MAGNETIC", "PURGE_COMP", "TIME_FLOAT", "ALL_NODES"),
)
_HERE = {"MAINT", "IGNORE_JOBS", "SPEC_NODES", "ANY_NODES", "STATIC_ALLOC", "PART_NODES", "MAGNETIC", "OVERLAP"}
CREATING, CHANGING = "Error creating the reservation: ", "Error updating the reservation: "


class ReservationInfo(msgspec.Struct, kw_only=True):
    """A reservation as Slurm shows it. Times are in seconds since the epoch. `cores`: the CPUs of its nodes."""

    name: str
    start_s: float
    end_s: float
    nodes: list[str]
    users: list[str] = []
    accounts: list[str] = []
    flags: list[str] = []
    partition: str = ""
    features: str = ""
    cores: int = 0

    @property
    def active(self) -> bool:
        return self.start_s <= time.time() < self.end_s

    def allows(self, user: str, account: str) -> bool:
        def named(those: list[str], name: str) -> bool:
            excluded = [one[1:] for one in those if one.startswith("-")]
            return name not in excluded if excluded else name in those

        return bool(self.users and named(self.users, user)) or bool(self.accounts and named(self.accounts, account))


def reservations(api: ApiClient) -> list[ReservationInfo]:
    """Return all reservations that scontrol created, sorted by start and name."""
    found = []
    for obj in api.get(PATH).get("items") or ():
        text = (obj["metadata"].get("annotations") or {}).get(_WORDS, "")
        try:
            found.append(msgspec.json.decode(text, type=ReservationInfo))
        except msgspec.MsgspecError:
            continue  # not created by scontrol
    return sorted(found, key=lambda one: (one.start_s, one.name))


def object_name(name: str) -> str:
    """Return the name of the Reservation object for the Slurm reservation `name`. Names of objects must not contain
    capitals and underscores, which names in Slurm may contain."""
    return re.sub(r"[^a-z0-9.-]", "-", name.lower())


def create(api: ApiClient, here: Site, said: dict[str, str]) -> str:
    """Create a reservation, and return its name. `said`: the words of the command line, by lower-case name. Raises
    Usage."""
    _require_known(said, CREATING)
    name = said.get("reservationname") or said.get("reservation") or _name(api, said)
    now_s = time.time()
    if "starttime" not in said:
        raise Usage("scontrol: error: A start time must be given.  No reservation created.")
    if not {"users", "user", "accounts", "account"} & said.keys():
        raise Usage("Error: Either Users/Groups and/or Accounts must be specified.  No reservation created.")
    start_s = _moment(said["starttime"], now_s)
    end_s = _end(said, start_s, now_s, None)
    if any(one.name == name for one in reservations(api)):
        raise Usage(f"{CREATING}Reservation already exists")
    made = ReservationInfo(name=name, start_s=start_s, end_s=end_s, nodes=[])
    _change(api, here, made, said, CREATING)
    meta = {"name": object_name(name), "annotations": {_WORDS: msgspec.json.encode(made).decode()}}
    api.create(PATH, {"apiVersion": "phalanx.dev/v1", "kind": "Reservation", "metadata": meta, "spec": _spec(made)})
    return name


def update(api: ApiClient, here: Site, said: dict[str, str]) -> None:
    """Change the reservation that `said` names. `said`: the words of the command line, by lower-case name. Raises
    Usage."""
    _require_known(said, CHANGING)
    name = said.get("reservationname") or said.get("reservation") or ""
    found = next((one for one in reservations(api) if one.name == name), None)
    if found is None:
        raise Usage(f"{CHANGING}Requested reservation is invalid\nslurm_update error: Requested reservation is invalid")
    now_s = time.time()
    found.start_s = _moment(said["starttime"], now_s) if "starttime" in said else found.start_s
    found.end_s = _end(said, found.start_s, now_s, found.end_s)
    _change(api, here, found, said, CHANGING)
    words = {_WORDS: msgspec.json.encode(found).decode()}
    api.patch(f"{PATH}/{object_name(name)}", {"metadata": {"annotations": words}, "spec": _spec(found)})


def delete(api: ApiClient, name: str) -> bool:
    """Delete the reservation. Return False if it does not exist."""
    if not any(one.name == name for one in reservations(api)):
        return False
    api.delete(f"{PATH}/{object_name(name)}")
    return True


def page(found: ReservationInfo) -> list[list[str]]:
    """Return the lines that `scontrol show reservation` prints for the reservation."""
    return [
        [
            f"ReservationName={found.name} StartTime={times.moment(found.start_s)} EndTime={times.moment(found.end_s)}",
            f"Duration={times.long_elapsed(found.end_s - found.start_s)}",
        ],
        [
            f"Nodes={compress(found.nodes, ordered=True)} NodeCnt={len(found.nodes)} CoreCnt={found.cores}",
            f"Features={found.features or '(null)'} PartitionName={found.partition or '(null)'}",
            f"Flags={','.join(found.flags)}",
        ],
        [f"TRES=cpu={found.cores}"],
        [
            f"Users={','.join(found.users) or '(null)'} Groups=(null) Accounts={','.join(found.accounts) or '(null)'}",
            f"Licenses=(null) State={'ACTIVE' if found.active else 'INACTIVE'} BurstBuffer=(null) Watts=n/a",
        ],
        ["MaxStartDelay=(null)"],
    ]


def _require_known(said: dict[str, str], doing: str) -> None:
    for name in said:
        if name not in _KNOWN:
            raise Usage(f"{doing}{name} is not supported by Phalanx (docs/guide/slurm.md)")


def _change(api: ApiClient, here: Site, made: ReservationInfo, said: dict[str, str], doing: str) -> None:
    """Set the users, accounts, nodes and flags of the reservation `made` to those that `said` names. `doing`: the
    beginning of error messages."""
    users, accounts = said.get("users", said.get("user")), said.get("accounts", said.get("account"))
    if users is not None:
        made.users = [one for one in users.split(",") if one]
        if any(not one.lstrip("-").isdecimal() and not is_user(one.lstrip("-")) for one in made.users):
            raise Usage(f"{doing}Invalid user id")
    if accounts is not None:
        made.accounts = [one for one in accounts.split(",") if one]
    for one in made.accounts:
        if one.lstrip("-") not in here.accounts:
            raise Usage(f"{doing}Invalid account or account/partition combination specified")
    made.partition = said.get("partitionname", said.get("partition", made.partition))
    made.features = said.get("features", made.features)
    flags = [one.upper() for one in said.get("flags", "").split(",") if one]
    for flag in flags:
        if flag not in _FLAGS:
            raise Usage(f"Error parsing flags {said['flags']}.  No reservation created.")
        if flag not in _HERE:
            raise Usage(f"{doing}the flag {flag} is not supported by Phalanx (docs/guide/slurm.md)")
    if flags:
        made.flags = [flag for flag in _FLAGS if flag in flags]
    _choose_nodes(api, here, made, said, doing)


def _choose_nodes(api: ApiClient, here: Site, made: ReservationInfo, said: dict[str, str], doing: str) -> None:
    if not {"nodes", "nodecnt"} & said.keys() and made.nodes:
        return
    every = nodes(api)
    partition = here.partition(made.partition) if made.partition else None
    usable = [one.name for one in every if partition is None or not partition.nodes or one.name in partition.nodes]
    text = said.get("nodes", "")
    if text.upper() == "ALL":
        made.nodes = usable
        made.flags = [
            *(flag for flag in made.flags if flag not in ("SPEC_NODES", "ALL_NODES")),
            "SPEC_NODES",
            "ALL_NODES",
        ]
    elif text:
        made.nodes = expand(text)
        if set(made.nodes) - {one.name for one in every}:
            raise Usage(f"{doing}Invalid node name specified")
        made.flags = [*(flag for flag in made.flags if flag != "SPEC_NODES"), "SPEC_NODES"]
    elif count := said.get("nodecnt", ""):
        try:
            wanted, _ = amounts.read_range(count)
        except amounts.AmountError:
            raise Usage(f"{doing}Invalid node count {count}") from None
        if wanted > len(usable):
            raise Usage(f"{doing}Requested nodes are busy" if wanted <= len(every) else
                        f"{doing}Node count specification invalid")  # fmt: skip
        made.nodes = usable[:wanted]
    else:
        raise Usage(
            "scontrol: error: CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or Watts must be specified.  "
            "No reservation created."
        )
    made.cores = sum(one.cpus for one in every if one.name in made.nodes)


def _end(said: dict[str, str], start_s: float, now_s: float, before_s: float | None) -> float:
    if "endtime" in said:
        return _moment(said["endtime"], now_s)
    if "duration" in said:
        try:
            minutes = times.read_limit_min(said["duration"])
        except times.TimeError:
            raise Usage(
                f"scontrol: error: Invalid duration duration={said['duration']}.  No reservation created."
            ) from None
        return start_s + (365 * 24 * 60 if minutes is None else minutes) * 60
    if before_s is None:
        raise Usage("Error: Reservation needs a duration or an endtime")
    return before_s


def _moment(text: str, now_s: float) -> float:
    try:
        return times.read_moment(text, now_s)
    except times.TimeError:
        raise Usage(f"Invalid time specification (pos=0): {text}") from None


def _name(api: ApiClient, said: dict[str, str]) -> str:
    """Return a free name for a new reservation: the first account or user, `_` and a number, as in Slurm."""
    first = (said.get("accounts") or said.get("users") or said.get("user") or "resv").split(",")[0].lstrip("-")
    names = {one.name for one in reservations(api)}
    return next(f"{first}_{number}" for number in range(1, 10_000) if f"{first}_{number}" not in names)


def _spec(made: ReservationInfo) -> Object:
    """Return the spec of the Reservation object. A reservation that names only `root` admits no job, because jobs of
    root cannot have a group."""
    spec: Object = {
        "start": write_moment(made.start_s),
        "end": write_moment(made.end_s),
        "nodes": made.nodes,
        "groups": [one for one in made.users if not one.startswith("-")],
        "queues": [one for one in made.accounts if not one.startswith("-")],
    }
    return {**spec, "magnetic": True} if "MAGNETIC" in made.flags else spec
