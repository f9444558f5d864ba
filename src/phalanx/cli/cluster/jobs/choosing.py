"""Select the jobs of a command: by name, or by user, queue and state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from cyclopts import Parameter

from phalanx.cli.cluster.jobs.finding import Finder, FoundJob, Member, controller_of, kind_text, kind_word
from phalanx.cli.cluster.jobs.standing import HELD, OVER, standing
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import JOB, OURS, QUEUE, USER, option

_AT_ONCE = 16  # the maximum number of parallel calls
# A function that takes a connection and a namespace ("" for all), and returns (kind, NAMESPACE/NAME) -> the state of
# the job.
States = Callable[[Connection, str], Awaitable[Mapping[tuple[str, str], str]]]
Item = TypeVar("Item")
Answer = TypeVar("Answer")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The options that select jobs by other properties than their names. A job is selected if it matches all given
    options."""

    user: tuple[str, ...] = ()
    """Only jobs of this user. The option may be repeated."""

    queue: Annotated[tuple[str, ...], Parameter(alias="-q")] = ()
    """Only jobs of this queue. The option may be repeated."""

    state: tuple[Literal["queued", "held", "promised", "starting", "running", "stuck", "stopping"], ...] = ()
    """Only jobs in this state, as `phalanx jobs` prints it, or held jobs. The option may be repeated."""

    @property
    def given(self) -> bool:
        return bool(self.user or self.queue or self.state)

    def holds(self, job: FoundJob, states: Mapping[tuple[str, str], str]) -> bool:
        """Return True if the filters select the job. `states`: (kind, NAMESPACE/NAME) -> the state that `phalanx jobs`
        prints for the job."""
        own = standing(job.members, ()).state
        state = own if own == HELD else states.get((job.kind, job.id), own)
        metas = [member.obj["metadata"] for member in job.members]
        users = {(meta.get("annotations") or {}).get(USER) for meta in metas}
        queues = {option(meta, QUEUE) for meta in metas}
        return (
            (not self.user or not users.isdisjoint(self.user))
            and (not self.queue or not queues.isdisjoint(self.queue))
            and (not self.state or state in self.state)
        )


async def chosen(
    connection: Connection,
    names: Sequence[str],
    filters: Filters,
    namespace: str,
    ledger: str | None,
    everywhere: bool,
    states: States,
) -> list[FoundJob]:
    """Return the jobs with these names, or the live jobs that the filters select. `everywhere`: True to select jobs of
    all namespaces. `states`: a function that returns the states of jobs; it is called only if `--state` names a state
    that the objects of jobs do not show. Raises PhalanxError if neither names nor filters are given, or if a name is
    unknown."""
    if names and filters.given:
        raise PhalanxError("names of jobs cannot be combined with --user, --queue or --state. Nothing was done.")
    if names:
        return await Finder(connection, namespace, ledger).all(names)
    if not filters.given:
        raise PhalanxError("no job is named: write its name, or choose jobs by --user, --queue or --state.")
    where = "" if everywhere else namespace
    found = await live_jobs(connection, where)
    known = await states(connection, where) if set(filters.state) - {HELD} else {}
    return [job for job in found if filters.holds(job, known) and standing(job.members, ()).state not in OVER]


async def live_jobs(connection: Connection, namespace: str) -> list[FoundJob]:
    """Return the jobs of all kinds that Phalanx schedules in a namespace ("": in all namespaces)."""
    kinds = (JOBS, PODS, *await Finder(connection, namespace).served())
    listed = await asyncio.gather(*(_listed(connection, kind, namespace) for kind in kinds))
    jobs: dict[tuple[str, str], list[Member]] = {}
    for kind, items in zip(kinds, listed, strict=True):
        for obj in items:
            meta = obj["metadata"]
            if (kind is PODS and not _is_alone(obj)) or (kind is not PODS and not _is_queued(obj)):
                continue
            gang = option(meta, JOB)
            jobs.setdefault((meta["namespace"], gang or f"{kind_text(kind)}/{meta['name']}"), []).append(
                Member(kind=kind, obj=obj)
            )
    return [_job(namespace, name, members) for (namespace, name), members in jobs.items()]


async def for_each(items: Iterable[Item], work: Callable[[Item], Awaitable[Answer]]) -> list[Answer]:
    """Call `work` for each item, with up to `_AT_ONCE` calls at the same time. Return the results in the order of the
    items."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(item: Item) -> Answer:
        async with turns:
            return await work(item)

    return list(await asyncio.gather(*(one(item) for item in items)))


def _job(namespace: str, name: str, members: list[Member]) -> FoundJob:
    alone = members[0]
    if "/" in name:
        word = kind_word(kind_text(alone.kind))
        return FoundJob(kind=word, namespace=namespace, name=alone.name, members=(alone,))
    return FoundJob(kind="gang", namespace=namespace, name=name, members=tuple(members))


def _is_alone(pod: Object) -> bool:
    return pod["spec"].get("schedulerName") in OURS and controller_of(pod) is None


def _is_queued(obj: Object) -> bool:
    """Return True if the object names a queue and no other object controls it."""
    return option(obj["metadata"], QUEUE) is not None and controller_of(obj) is None


async def _listed(connection: Connection, kind: Kind, namespace: str) -> list[Object]:
    try:
        items: list[Object] = (await connection.list(kind, namespace))["items"]
    except ApiRefusal as error:
        if error.code not in {403, 404}:
            raise
        return []
    return items
