"""Select the jobs that a command's options name: by number, task, name, user, account, partition, QOS, state and
node."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.jobs.view import SHORT, JobInfo
from phalanx.slurm.notation.hostlist import expand

_ID = re.compile(r"(\d+)(?:_(?:(\d+)|\[([\d,:-]+)(?:%\d+)?\])|\+(\d+))?")


class NoJob(PhalanxError):
    """The error for a text that is not a job id."""


class Id(msgspec.Struct, frozen=True, kw_only=True):
    """A job id. `number`: the number of the job or array. `tasks`: the selected tasks of the array; None: all tasks.
    `offset`: the offset of one component of a heterogeneous job; None: all components."""

    number: int
    tasks: frozenset[int] | None = None
    offset: int | None = None


def read_ids(text: str) -> list[Id]:
    """Return the job ids in a comma-separated list. Examples of an id: `12`, `12+1`, `12_3`, `12_[1-3]`. Raises
    NoJob."""
    return [read_id(part) for part in re.split(r",(?![^\[]*\])", text) if part]


def read_id(text: str) -> Id:
    """Parse a job id. Raises NoJob."""
    found = _ID.fullmatch(text.strip())
    if found is None:
        raise NoJob(text)
    if found[2]:
        return Id(number=int(found[1]), tasks=frozenset({int(found[2])}))
    if found[3]:
        from phalanx.slurm.notation.arrays import ArrayError, read_array

        try:
            return Id(number=int(found[1]), tasks=frozenset(read_array(found[3], 1 << 30).tasks))
        except ArrayError:
            raise NoJob(text) from None
    return Id(number=int(found[1]), offset=int(found[4]) if found[4] else None)


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions by which a command selects jobs. An empty field is no condition."""

    ids: tuple[Id, ...] = ()
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    any_case: bool = False  # True if upper and lower case in job names are equal, as in squeue

    def _is_named(self, name: str) -> bool:
        return name.lower() in {one.lower() for one in self.names}

    def has(self, job: JobInfo) -> bool:
        ask = job.ask
        return (
            (not self.states or job.state in self.states)
            and (not self.users or ask.user in self.users)
            and (not self.accounts or ask.account in self.accounts)
            and (not self.partitions or ask.partition in self.partitions)
            and (not self.qos or ask.qos in self.qos)
            and (not self.names or ask.name in self.names or (self.any_case and self._is_named(ask.name)))
            and (not self.nodes or not self.nodes.isdisjoint(job.nodes))
            and (not self.ids or any(_is(each, job) for each in self.ids))
        )

    @property
    def numbers(self) -> list[int] | None:
        return [each.number for each in self.ids] or None


def _is(each: Id, job: JobInfo) -> bool:
    if each.tasks is not None:
        return job.base == each.number and job.ask.task in each.tasks
    if each.offset is not None:
        return job.ask.het == each.number and job.ask.het_offset == each.offset
    return each.number in (job.number, job.first)


def chosen(said: Mapping[str, str | None], states: frozenset[str] = frozenset()) -> Chosen:
    """Return the selection for the options in `said`. Several commands share these options (--jobs, --user, --partition
    and others). An option with an empty value selects no job. Raises NoJob."""

    def some(name: str) -> frozenset[str]:
        text = said.get(name)
        return frozenset({""} if text == "" else (part for part in (text or "").split(",") if part))

    users = frozenset(_user(one) for one in some("user"))
    if "me" in said:
        users |= {pwd.getpwuid(os.getuid()).pw_name}
    return Chosen(
        ids=tuple(read_ids(said.get("jobs") or "")),
        users=users,
        accounts=frozenset(one.lower() for one in some("account")),
        partitions=some("partition"),
        qos=some("qos"),
        names=some("name"),
        states=states,
        nodes=some("nodelist") if said.get("nodelist") == "" else frozenset(expand(said.get("nodelist") or "")),
    )


def _user(text: str) -> str:
    if text.isdecimal():
        try:
            return pwd.getpwuid(int(text)).pw_name
        except KeyError:
            return text
    return text


def is_user(name: str) -> bool:
    """Return whether the operating system has a user with this name or uid."""
    try:
        pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        return False
    return True


def read_states(text: str) -> frozenset[str] | None:
    """Return the full names of the states in `text`; None for ALL. The text may have full or short names. Raises
    KeyError with the name of an unknown state."""
    long = {short: state for state, short in SHORT.items()}
    found = set()
    for said in text.split(","):
        word = said.upper()
        if word == "ALL":
            return None
        if word not in long and word not in SHORT:
            raise KeyError(said)
        found.add(long.get(word, word))
    return frozenset(found)
