"""Invariants of the objects once the cluster is quiet. This module does not call the core; it only reads the cluster
state.

Charged equals existing. No node is over its capacity, in the cluster state or in truth. No nomination is left. No job
that fits waits, and no job waits for an ended one. No job starts or runs without a pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from phalanx.client.kind import NODES
from phalanx.client.quantity import amount
from phalanx.model.job import Phase
from phalanx.model.reason import SHORT, ReasonCode
from phalanx.state.cluster import JobRecord
from tests.kube.double import Object
from tests.kube.stage import Stage

ALIVE = {"Pending", "Running"}
PASSING = {ReasonCode.PREEMPTING, ReasonCode.RESERVED, ReasonCode.BACKOFF, ReasonCode.BEHIND_HEAD}


def judge(stage: Stage) -> list[str]:
    return [*miscounted(stage), *overfull(stage), *unsettled(stage), *wrongly_waiting(stage)]


def on_nodes(stage: Stage) -> list[Object]:
    return [pod for pod in stage.api.pods() if pod["spec"].get("nodeName") and pod["status"]["phase"] in ALIVE]


def is_foreign(pod: Object) -> bool:
    """Return True for a pod of another scheduler: its amounts are charged to its node, and to no job."""
    return bool(pod["spec"].get("schedulerName") == "default-scheduler")


def cpu_of(pod: Object) -> int:
    return sum(amount("cpu", each["resources"]["requests"]["cpu"]) for each in pod["spec"]["containers"])


def miscounted(stage: Stage) -> Iterator[str]:
    """Yield the differences between the charged pods and the existing pods."""
    charged = Counter(
        (name, node) for name, record in stage.cluster.jobs.items() for node in record.placements.values()
    )
    gang_of = stage.world.watch.workloads.gang_of_pod
    exist = Counter(
        (gang_of(pod["metadata"]["uid"]) or "nobody", pod["spec"]["nodeName"])
        for pod in on_nodes(stage)
        if not is_foreign(pod)
    )
    for (job, node), pods in sorted((charged - exist).items()):
        yield f"{pods} pods of {job} are charged on {node}, and do not exist"
    for (job, node), pods in sorted((exist - charged).items()):
        yield f"{pods} pods of {job} exist on {node}, and are not charged"


def overfull(stage: Stage) -> Iterator[str]:
    """Yield nodes over their capacity, and nodes whose usage in the cluster state differs from the existing pods."""
    columns = stage.cluster.columns
    shared = {pod["spec"]["nodeName"] for pod in on_nodes(stage) if is_foreign(pod)}
    for name, left in free_cpu(stage).items():
        known = columns.free_of(columns.row_of[name]).get("cpu", 0)
        if left < 0 and name not in shared:  # another scheduler may bind a pod while this one binds a gang
            yield f"{name} lacks {-left} cpu"
        if known != left:
            yield f"{name} has {left} cpu left, the books say {known}"


def free_cpu(stage: Stage) -> dict[str, int]:
    """Return the free amounts of each node, by the existing pods."""
    free = {name: amount("cpu", one["status"]["allocatable"]["cpu"]) for name, one in stage.api.objects[NODES].items()}
    for pod in on_nodes(stage):
        if pod["spec"]["nodeName"] in free:
            free[pod["spec"]["nodeName"]] -= cpu_of(pod)
    return free


def unsettled(stage: Stage) -> Iterator[str]:
    cluster = stage.cluster
    if cluster.nominated:
        yield f"nominated: {list(cluster.nominated)}"
    if cluster.leaving:
        yield f"leaving: {list(cluster.leaving)}"
    for name, record in cluster.jobs.items():
        is_idle = record.phase is Phase.STARTING or (record.phase is Phase.RUNNING and not record.open)
        if (is_idle and not record.placements) or record.phase is Phase.STOPPING:
            yield f"{name} is {record.phase}"


def wrongly_waiting(stage: Stage) -> Iterator[str]:
    """Yield jobs that fit and wait, and jobs that wait for nothing or for an ended job."""
    for name, record in stage.cluster.jobs.items():
        if record.phase is not Phase.QUEUED:
            missing = [least - placed for least, placed in zip(record.gang.minimums, record.placed, strict=True)]
            if record.open and any(lack > 0 for lack in missing) and fits(stage, record, missing):
                yield f"{name} lacks {missing} pods of its minimum, which fit"
            continue
        reason = stage.cluster.reason(name)
        if reason is None:
            yield f"{name} waits, and nobody says why"
        elif reason.code in PASSING:
            yield f"{name} waits for what is over: {reason}"
        elif reason.code is ReasonCode.NO_ROOM and fits(stage, record, record.gang.minimums):
            yield f"{name} waits, and fits: {reason}"


def fits(stage: Stage, record: JobRecord, pods: Sequence[int]) -> bool:
    """Return True if the pods of each role fit, the largest first, each on the node with the least free amounts."""
    free, asks = free_cpu(stage), list[int]()
    for role, count in zip(record.job.roles, pods, strict=True):
        asks += [dict(role.shape.requests).get("cpu", 0)] * max(0, count)
    for ask in sorted(asks, reverse=True):
        best = min((name for name, left in free.items() if left >= ask), key=lambda name: free[name], default=None)
        if best is None:
            return False
        free[best] -= ask
    return True


def reasons(stage: Stage) -> Mapping[str, str]:
    """Return the state of each job: started, or the reason code for waiting. If both quota and capacity are short,
    either code is right."""
    found = {}
    for name, record in stage.cluster.jobs.items():
        reason = stage.cluster.reason(name)
        said = "unsaid" if reason is None else "short" if reason.code in SHORT else str(reason.code)
        found[name] = said if record.phase is Phase.QUEUED else "started"
    return found
