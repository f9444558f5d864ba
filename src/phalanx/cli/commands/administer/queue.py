"""`phalanx queue`: create, edit, drain and delete queues, and preview which jobs a change stops or starts earlier."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from phalanx.cli.cluster.jobs.choosing import live_jobs
from phalanx.cli.cluster.jobs.standing import OVER, standing
from phalanx.cli.cluster.live_state import look, require_queues
from phalanx.cli.cluster.target import Target, connected, find_ledger_of
from phalanx.cli.files.manifest import Document
from phalanx.cli.study.changes import Changes, altered, expected_starts, played, seconds
from phalanx.cli.study.outlook import WhatIfOutlook, assumptions, effects, effects_record, lines
from phalanx.cli.submission.queue_spec import changed, differences, require_valid
from phalanx.cli.terminal.output import note, print_json
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.core.fold.fold import fold
from phalanx.dialects.schema.fields import Misread
from phalanx.dialects.schema.policy import read_flavor
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import FLAVORS, QUEUES
from phalanx.kube.read.labels import QUEUE, option
from phalanx.kube.read.queue import read_queue
from phalanx.model.event import Event, FlavorSeen, PolicySeen, QueueSeen
from phalanx.model.policy import Policy
from phalanx.report.status import queue_statuses
from phalanx.state.cluster import Cluster

_DRAINING = "draining"
queue = App(
    name="queue",
    help="Create, edit, drain or delete a queue; --dry-run shows which jobs the change stops or starts earlier.",
    help_epilogue="For example:\n\n    phalanx queue edit research --limit nvidia.com/gpu=16 --dry-run\n",
    help_format="markdown",
)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """Settings of the queue. A setting whose option is not given keeps its value."""

    parent: str | None = None
    """The parent queue; '' for none."""

    guaranteed: tuple[str, ...] = ()
    """The amounts that the queue may always use: cpu=64,nvidia.com/gpu=8; `cpu=` for no guarantee."""

    limit: tuple[str, ...] = ()
    """The most that the queue and the queues below it may use: cpu=128; `cpu=` for no limit."""

    lend: tuple[str, ...] = ()
    """The part of an unused guarantee that other queues may use: cpu=16; `cpu=` for all of it."""

    flavor: str = ""
    """The flavor to whose nodes these amounts apply. [default: all nodes]"""

    weight: float | None = None
    """The weight of the queue in comparison with its sibling queues."""

    order: Literal["priority", "fifo", "fair", "tiered", "fill", "multifactor", "usage"] | None = None
    """The order of the queue's jobs, and of the queues below it."""

    strict: Annotated[bool | None, Parameter(negative="--no-strict")] = None
    """While the first job of the queue waits, no other job of the queue starts, even if it would fit."""

    state: Literal["open", "held", "draining", "closed"] | None = None
    """Held: the queue accepts jobs, but starts none. Draining: it accepts no jobs, but starts waiting jobs. Closed: it
    accepts and starts no jobs."""

    within: Literal["never", "lower", "lower-or-newer"] | None = None
    """The jobs of the same queue that its jobs may preempt."""

    reclaim: Literal["never", "lower", "any"] | None = None
    """The jobs that its jobs may preempt in other queues that use more than their guarantee."""

    def applied(self, spec: Mapping[str, object]) -> dict[str, object]:
        """Return the spec of a queue with these settings. Raises PhalanxError if a value is invalid."""
        fields = {
            **{name: getattr(self, name) for name in ("parent", "weight", "order", "strict", "state")},
            **({"preemption.within": self.within} if self.within else {}),
            **({"preemption.reclaim": self.reclaim} if self.reclaim else {}),
        }
        return changed(
            spec, fields, {"guaranteed": self.guaranteed, "limit": self.limit, "lend": self.lend}, self.flavor
        )


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The options of a preview of the change."""

    dry_run: bool = False
    """Change nothing; show which jobs the change stops, and which start earlier or later."""

    horizon: Annotated[str, Parameter(name="--for")] = "7d"
    """With --dry-run: the length of the forecast."""

    assume_run: str = "1h"
    """With --dry-run: the assumed run time of a job without a time limit."""

    json: bool = False
    """Print JSON: queue, action, changes; with --dry-run also stopped, earlier, later, never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A change of one queue. `before`, `after`: the Queue object before and after the change; None if it does not
    exist."""

    name: str
    action: str
    before: Object | None
    after: Object | None

    @property
    def fields(self) -> list[str]:
        return differences(*((each or {}).get("spec") or {} for each in (self.before, self.after)))


@queue.command
async def create(
    name: str,
    /,
    *,
    options: QueueOptions | None = None,
    dry: DryRun | None = None,
    target: Target | None = None,
) -> None:
    """Create a queue.

    For example:

        phalanx queue create research --guaranteed cpu=64,nvidia.com/gpu=8
        phalanx queue create vision --parent research --limit nvidia.com/gpu=4 --dry-run

    Parameters
    ----------
    name
        The queue.
    """
    async with connected(target) as connection:
        await require_queues(connection)
        spec = (options or QueueOptions()).applied({})
        obj = {"apiVersion": QUEUES.api_version, "kind": QUEUES.name, "metadata": {"name": name}, "spec": spec}
        if name in await _queues(connection):
            raise PhalanxError(
                f"queue {name} exists already. Nothing was changed. `phalanx queue edit {name}` changes it."
            )
        await _carry_out(connection, _Change(name=name, action="created", before=None, after=obj), dry, target)


@queue.command
async def edit(
    name: str,
    /,
    *,
    options: QueueOptions | None = None,
    dry: DryRun | None = None,
    target: Target | None = None,
) -> None:
    """Change settings of a queue. `kubectl edit queue NAME` can also change the settings that have no option here.

    For example:

        phalanx queue edit research --limit nvidia.com/gpu=16 --dry-run
        phalanx queue edit research --guaranteed cpu=32 --weight 2
        phalanx queue edit research --state open

    Parameters
    ----------
    name
        The queue.
    """
    async with connected(target) as connection:
        before = await _require(connection, name)
        after = {**before, "spec": (options or QueueOptions()).applied(before.get("spec") or {})}
        change = _Change(name=name, action="changed", before=before, after=after)
        if not change.fields:
            raise PhalanxError(f"queue {name} has these settings already, or none was given. Nothing was changed.")
        await _carry_out(connection, change, dry, target)


@queue.command
async def drain(name: str, /, *, dry: DryRun | None = None, target: Target | None = None) -> None:
    """Let a queue accept no further jobs. Running jobs go on, and waiting jobs still start.

    `phalanx queue edit NAME --state open` opens the queue again; with `--state held` it starts no job.

    For example:

        phalanx queue drain research

    Parameters
    ----------
    name
        The queue.
    """
    async with connected(target) as connection:
        before = await _require(connection, name)
        after = {**before, "spec": {**(before.get("spec") or {}), "state": _DRAINING}}
        change = _Change(name=name, action=_DRAINING, before=before, after=after)
        if not change.fields:
            raise PhalanxError(f"queue {name} is draining already. Nothing was changed.")
        await _carry_out(connection, change, dry, target)


@queue.command
async def delete(
    name: str,
    /,
    *,
    yes: Annotated[bool, Parameter(alias="-y")] = False,
    dry: DryRun | None = None,
    target: Target | None = None,
) -> None:
    """Delete a queue that has no queues below it. If the queue has jobs, --yes is needed.

    Running jobs go on. Waiting jobs of the queue wait until a queue with this name exists again.

    For example:

        phalanx queue drain research
        phalanx queue delete research --dry-run
        phalanx queue delete research

    Parameters
    ----------
    name
        The queue.
    yes
        Delete the queue even if jobs run or wait in it.
    """
    async with connected(target) as connection:
        before = await _require(connection, name)
        below = [
            each for each, obj in (await _queues(connection)).items() if (obj.get("spec") or {}).get("parent") == name
        ]
        if below:
            raise PhalanxError(
                f"queue {name} has queues below it: {', '.join(sorted(below))}. Nothing was changed. Delete them "
                f"first, or give them another parent: phalanx queue edit {below[0]} --parent ''."
            )
        inside = await _jobs_in(connection, name)
        if inside and not yes and not (dry and dry.dry_run):
            raise PhalanxError(
                f"queue {name} has {', '.join(f'{count} {state}' for state, count in sorted(inside.items()))} "
                f"{'job' if sum(inside.values()) == 1 else 'jobs'}. Nothing was changed. Drain it first "
                f"(phalanx queue drain {name}), see the effect with --dry-run, or add --yes."
            )
        await _carry_out(connection, _Change(name=name, action="deleted", before=before, after=None), dry, target)


async def _carry_out(connection: Connection, change: _Change, dry: DryRun | None, target: Target | None) -> None:
    """Make the change or, with --dry-run, show its effects."""
    dry = dry or DryRun()
    if change.after is not None:
        require_valid(change.name, change.after["spec"])
        for fault in await _faults(connection, change):
            note(f"phalanx: warning: {fault}")
    found: dict[str, Any] = {"queue": change.name, "action": change.action, "changes": change.fields}
    if dry.dry_run:
        outlook = await _outlook(connection, change, dry, target)
        found |= effects_record(effects(outlook))
    else:
        await _write(connection, change)
    if dry.json:
        print_json(found)
        return
    verb = "would be " if dry.dry_run else "is " if change.action == _DRAINING else ""
    print(f"queue {change.name} {verb}{change.action}")
    if change.before is not None and change.after is not None:
        print("\n".join(f"  {each}" for each in change.fields))
    if dry.dry_run:
        print("\n".join(lines(effects(outlook), outlook)))
        for text in assumptions(outlook):
            note(text)
        note("Nothing was changed.")


async def _outlook(connection: Connection, change: _Change, dry: DryRun, target: Target | None) -> WhatIfOutlook:
    horizon_s, run_s = seconds("--for", dry.horizon), seconds("--assume-run", dry.assume_run)
    sight = await look(connection, ledger=find_ledger_of(target, os.environ))
    documents = [] if change.after is None else [Document(file=f"queue {change.name}", obj=change.after)]
    gone = Changes(delete=(f"queue/{change.name}",)) if change.after is None else Changes()
    after, remarks = altered(sight.cluster, sight.objects, documents, gone, None, "default")
    for remark in remarks:
        note(remark)
    return WhatIfOutlook(
        before=played(sight.cluster.copy(), horizon_s, run_s),
        after=played(after.copy(), horizon_s, run_s),
        now_s=sight.now_s,
        horizon_s=horizon_s,
        run_s=run_s,
        expected=expected_starts(after, sight.now_s),
    )


async def _write(connection: Connection, change: _Change) -> None:
    try:
        if change.after is None and change.before is not None:
            body = {"preconditions": {"uid": change.before["metadata"]["uid"]}}
            await connection.delete(QUEUES, change.name, body=body)
        elif change.after is not None and change.before is None:
            await connection.create(QUEUES, change.after)
        elif change.after is not None:
            await connection.replace(QUEUES, change.after)
    except ApiRefusal as error:
        again = " Another user changed the queue at the same time: try again." if error.code == 409 else ""
        raise PhalanxError(f"queue {change.name} was not {change.action}: {error.message}.{again}") from error


async def _queues(connection: Connection) -> dict[str, Object]:
    return {obj["metadata"]["name"]: obj for obj in (await connection.list(QUEUES))["items"]}


async def _require(connection: Connection, name: str) -> Object:
    """Return the object of the queue. Raises PhalanxError with the most similar name if there is no such queue."""
    await require_queues(connection)
    found = await _queues(connection)
    if name in found:
        return {"apiVersion": QUEUES.api_version, "kind": QUEUES.name, **found[name]}
    near = difflib.get_close_matches(name, found, 1)
    hint = f"Did you mean {near[0]}? " if near else ""
    raise PhalanxError(
        f"there is no queue {name}. Nothing was changed. {hint}Queues: {', '.join(sorted(found)) or 'none'}."
    )


async def _jobs_in(connection: Connection, name: str) -> dict[str, int]:
    """Return the number of the queue's jobs in each state, without jobs that have ended."""
    jobs = [
        standing(job.members, ()).state
        for job in await live_jobs(connection, "")
        if name in {option(member.obj["metadata"], QUEUE) for member in job.members}
    ]
    return dict(Counter(state for state in jobs if state not in OVER))


async def _faults(connection: Connection, change: _Change) -> list[str]:
    """Return the reasons for which the queue would start no jobs after the change: configuration errors in the queue
    tree."""
    objects = {**await _queues(connection), change.name: change.after}
    events: list[Event] = [PolicySeen(Policy())]
    for obj in (await connection.list(FLAVORS))["items"]:
        events.append(FlavorSeen(read_flavor(obj["metadata"]["name"], obj.get("spec") or {})))
    for obj in objects.values():
        try:
            events.append(QueueSeen(read_queue(obj or {})))
        except Misread:  # another queue reports the fault in its own status
            continue
    cluster = Cluster()
    fold(cluster, events)
    found = [one for one in queue_statuses(cluster, places=0) if one.queue == change.name and one.fault]
    return [f"queue {one.queue} will start no jobs: {one.fault}" for one in found]
