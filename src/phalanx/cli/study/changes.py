"""Apply the changes of a what-if question to a copy of the cluster state, and simulate the copy.

`phalanx whatif` and `phalanx queue --dry-run` simulate the state with and without the changes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from phalanx import loop
from phalanx.cli.files.manifest import Document
from phalanx.cli.files.recording import decided, steps
from phalanx.cli.study.supposed import Objects, additions, deletions, supposed, told, unknown_classes
from phalanx.core.fold.fold import fold
from phalanx.core.fold.transitions import IllegalTransition
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.errors import PhalanxError
from phalanx.kube.gang.effects import GangTimeouts
from phalanx.model.event import PolicySeen, Submitted, Ticked
from phalanx.model.job import Phase
from phalanx.model.policy import Policy
from phalanx.model.reason import StartForecast
from phalanx.report.forecast import forecast
from phalanx.simulator.run.forward import Assumptions, Future, forward
from phalanx.state.cluster import Cluster, time_limit_s

MANY_JOBS = 1000  # if more jobs than this are pending, expected starts are not computed
PATIENCE_S = 60.0  # the longest computing time of each of the two simulations


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The options for the changes whose effect is forecast."""

    file: Annotated[tuple[Path, ...], Parameter(alias="-f", consume_multiple=True)] = ()
    """Files in YAML or JSON (`-` is standard input) with Jobs, Queues, Flavors, Reservations or Nodes. These objects
    are added, or replace objects with the same name."""

    delete: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    """Objects that are removed: job/NAMESPACE/NAME, node/NAME, queue/NAME, flavor/NAME, reservation/NAME."""

    add_nodes: tuple[str, ...] = ()
    """Add empty nodes that are like an existing node: COUNTxNODE, or COUNT together with --like."""

    like: str | None = None
    """The existing node that the nodes of --add-nodes are like."""

    policy: Path | None = None
    """The scheduling policy, as for `phalanx scheduler --policy`."""


def last_book(file: Path) -> Cluster:
    """Return the cluster state after the last step of the recording. Raises PhalanxError if the recording has no
    complete step."""
    cluster, whole = Cluster(), 0
    for step in steps(file):
        cluster = Cluster() if step.begins else cluster
        if step.actions is None:
            fold(cluster, (PolicySeen(step.policy), Ticked(step.now_s), *step.events))
        else:
            decided(cluster, step)
        whole += 1
    if not whole:
        raise PhalanxError(
            f"{file} has no complete step, so the state of the cluster is unknown. Write the file again with "
            "`phalanx snapshot`."
        )
    return cluster


def altered(
    before: Cluster,
    listed: Objects,
    documents: Sequence[Document],
    changes: Changes,
    policy: Policy | None,
    namespace: str,
) -> tuple[Cluster, list[str]]:
    """Return the cluster state with the changes, and notes about them.

    `listed`: the objects of a live cluster. Then the state is built again from these objects and the changed ones. For
    a recording `listed` is empty, and the changes are applied as events to a copy of its state."""
    policy = policy or before.policy
    after, remarks = before.copy(), list[str]()
    try:
        if documents:
            objects = supposed(documents, listed, before, namespace)
            after = Cluster() if listed else after
            fold(after, (PolicySeen(policy), Ticked(before.now_s)))
            events = told(objects, before, policy.default_queue, before.now_s)
            remarks = [*unknown_classes(documents, objects), *overtaken(after, events)]
            fold(after, events)
        fold(after, (PolicySeen(policy), *additions(after, changes.add_nodes, changes.like)))
        fold(after, list(deletions(after, changes.delete, namespace)))
    except IllegalTransition as error:
        raise PhalanxError(
            f"the changes cannot be applied to this cluster ({error}). Nothing was simulated."
        ) from error
    return after, remarks


def expected_starts(book: Cluster, now_s: float) -> Mapping[str, StartForecast]:
    """Return the expected start of each waiting job, computed from the run times of past jobs instead of time limits.
    The result is empty if no run times of past jobs are known, or if more than `MANY_JOBS` jobs wait."""
    waiting = [job for job, record in book.jobs.items() if record.phase is Phase.QUEUED]
    if not book.ends.run_times or len(waiting) > MANY_JOBS:
        return {}
    found = forecast(book, book.policy, now_s, waiting)
    return {job: each for job, each in found.items() if each.start_s > now_s}


def overtaken(book: Cluster, events: Sequence[object]) -> list[str]:
    """Return a note about each changed Job that has already started, because its change has no effect."""
    started = (
        event.job.id
        for event in events
        if isinstance(event, Submitted)
        and (record := book.jobs.get(event.job.id)) is not None
        and record.phase is not Phase.QUEUED
    )
    return [f"{job} has already started: the changes in its file have no effect" for job in started]


def played(book: Cluster, horizon_s: float, run_s: float) -> Future:
    """Simulate the cluster from its state `book` up to the horizon, and return what happens. The simulation changes
    `book`."""
    assumptions = Assumptions(
        limit_s=lambda job: time_limit_s(book, job), run_s=run_s, patience_s=GangTimeouts().place_s
    )
    now_s, give_up_s = book.now_s, time.monotonic() + PATIENCE_S
    return forward(
        book,
        book.policy,
        loop.step,
        now_s=now_s,
        until_s=now_s + horizon_s,
        assumptions=assumptions,
        patient=lambda: time.monotonic() < give_up_s,
    )


def seconds(option: str, text: str) -> float:
    try:
        return duration_s(text)
    except Misread as error:
        raise PhalanxError(f"{option} {error.text}. Nothing was simulated.") from None
