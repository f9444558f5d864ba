"""Apply the changes of a what-if question to a copy of the cluster state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.files.manifest import Document
from phalanx.cli.files.recording import decided, steps
from phalanx.cli.study.named_changes import additions, deletions
from phalanx.cli.study.supposed import Objects, supposed, told, unknown_classes
from phalanx.core.fold.fold import fold
from phalanx.core.fold.transitions import IllegalTransition
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.errors import PhalanxError
from phalanx.model.event import PolicySeen, Submitted, Ticked
from phalanx.model.job import Phase
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The options that describe the changes of a what-if question."""

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


def last_state(file: Path) -> Cluster:
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

    `listed`: the objects of a live cluster. For a live cluster, the state is built again from the unchanged and the
    changed objects. For a recording, `listed` is empty, and the changes are applied as events to a copy of the
    state."""
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


def overtaken(cluster: Cluster, events: Sequence[object]) -> list[str]:
    """Return a note for each changed Job that has already started, because changes of such a Job have no effect."""
    started = (
        event.job.id
        for event in events
        if isinstance(event, Submitted)
        and (record := cluster.jobs.get(event.job.id)) is not None
        and record.phase is not Phase.QUEUED
    )
    return [f"{job} has already started: the changes in its file have no effect" for job in started]


def seconds(option: str, text: str) -> float:
    try:
        return duration_s(text)
    except Misread as error:
        raise PhalanxError(f"{option} {error.text}. Nothing was simulated.") from None
