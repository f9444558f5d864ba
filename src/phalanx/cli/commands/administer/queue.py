"""`phalanx queue`: create, edit, drain and delete queues. Before a change, show which jobs it would stop, and which
jobs would start earlier."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import App, Parameter

from phalanx.cli.cluster.jobs.choosing import live_jobs
from phalanx.cli.cluster.jobs.standing import OVER, standing
from phalanx.cli.cluster.live_state.installation import require_queues
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.commands.administer.queue_change import DRAINING, DryRun, QueueChange, carry_out, list_queues
from phalanx.cli.submission.queue_spec import changed
from phalanx.client.connection import Connection, Object
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.labels import QUEUE, option

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
        if name in await list_queues(connection):
            raise PhalanxError(
                f"queue {name} exists already. Nothing was changed. `phalanx queue edit {name}` changes it."
            )
        await carry_out(connection, QueueChange(name=name, action="created", before=None, after=obj), dry, target)


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
        change = QueueChange(name=name, action="changed", before=before, after=after)
        if not change.fields:
            raise PhalanxError(f"queue {name} has these settings already, or none was given. Nothing was changed.")
        await carry_out(connection, change, dry, target)


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
        after = {**before, "spec": {**(before.get("spec") or {}), "state": DRAINING}}
        change = QueueChange(name=name, action=DRAINING, before=before, after=after)
        if not change.fields:
            raise PhalanxError(f"queue {name} is draining already. Nothing was changed.")
        await carry_out(connection, change, dry, target)


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
            each
            for each, obj in (await list_queues(connection)).items()
            if (obj.get("spec") or {}).get("parent") == name
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
        await carry_out(connection, QueueChange(name=name, action="deleted", before=before, after=None), dry, target)


async def _require(connection: Connection, name: str) -> Object:
    """Return the object of the queue. Raises PhalanxError with the most similar name if there is no such queue."""
    await require_queues(connection)
    found = await list_queues(connection)
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
