"""Compute the events that Kueue would record on Workloads and jobs: when a write creates or changes a Workload, and
when a ProvisioningRequest is created.

Source: pkg/scheduler/scheduler.go, pkg/controller/jobframework/reconciler.go, pkg/workload/workload.go of v0.19.2;
pkg/controller/admissionchecks/provisioning/controller.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.client.moment import MomentError, read_moment
from phalanx.dialects.frame.dialect import GangView, Object, Occurrence
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers.conditions import Conditions


def occurrences(told: GangView, before: Object | None, after: Object) -> Iterator[Occurrence]:
    """Yield the events that a write causes. `before`: the object before the write; None if the write created it.
    `after`: the object after the write."""
    if after["kind"] == kinds.PROVISIONING_REQUESTS.name:
        yield from _of_request(after) if before is None else ()
    else:
        yield from _of_workload(told, before, after)


def _of_request(request: Object) -> Iterator[Occurrence]:
    """Yield the event about a new ProvisioningRequest. The event is recorded on the Workload for which the request asks
    for nodes."""
    meta = request["metadata"]
    for owner in meta.get("ownerReferences") or ():
        named = {"name": owner["name"], "namespace": meta.get("namespace", ""), "uid": owner["uid"]}
        about = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": named}
        yield Occurrence(about, "ProvisioningRequestCreated", f'Created ProvisioningRequest: "{meta["name"]}"')


def _of_workload(told: GangView, workload: Object | None, after: Object) -> Iterator[Occurrence]:
    meta = after["metadata"]
    name, job = f"{meta.get('namespace', '')}/{meta['name']}", told.owners[0]
    if workload is None:
        yield Occurrence(job, "CreatedWorkload", f"Created Workload: {name}")
    old, new = (
        Conditions(((each or {}).get("status") or {}).get("conditions") or (), "") for each in (workload, after)
    )
    queue = kinds.cluster_queue_of(told.queue)

    def became(kind: str) -> bool:
        return new.is_true(kind) and not old.is_true(kind)

    if became("Preempted"):
        yield Occurrence(after, "Preempted", new.message("Preempted"))
    if became("Evicted"):
        yield Occurrence(after, f"EvictedDueTo{new.reason('Evicted')}", new.message("Evicted"))
        yield Occurrence(job, "Stopped", new.message("Evicted"))
    if became("QuotaReserved"):
        waited = _between_s(str(meta.get("creationTimestamp") or ""), new.since("QuotaReserved"))
        text = f"Quota reserved in ClusterQueue {queue}, wait time since queued was {waited:.0f}s"
        yield Occurrence(after, "QuotaReserved", text)
    elif not new.is_true("QuotaReserved") and _said(new) and _said(new) != _said(old):
        yield Occurrence(after, "Pending", new.message("QuotaReserved"), warning=True)
    if became("Admitted"):
        waited = _between_s(new.since("QuotaReserved"), new.since("Admitted"))
        text = f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited:.0f}s"
        yield Occurrence(after, "Admitted", text)
        yield Occurrence(job, "Started", f"Admitted by clusterQueue {queue}")
    if became("Finished"):
        yield Occurrence(job, "FinishedWorkload", f"Workload '{name}' is declared finished")


def _said(conditions: Conditions) -> str:
    """Return the message that states why no quota is reserved. Its numbers are removed, because they change often."""
    return "" if conditions.is_true("QuotaReserved") else conditions.reason("QuotaReserved")


def _between_s(since: str, until: str) -> float:
    try:
        return max(0.0, read_moment(until) - read_moment(since)) if since and until else 0.0
    except MomentError:
        return 0.0
