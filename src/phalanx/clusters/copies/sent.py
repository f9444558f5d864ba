"""A job that another cluster is to run, as the gang of the job says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from phalanx.client.kind import PODS, Kind
from phalanx.clusters.copies import content
from phalanx.clusters.copies.sendable import SENDABLE, Key, Sendable
from phalanx.kube.gang.effects import Member
from phalanx.kube.gang.lifecycle import GangLifecycle
from phalanx.kube.read.records import StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob


class Sent(NamedTuple):
    """A job that another cluster is to run. `gang`: its gang. `members`: the job as it was read, namely the roles of an
    object, or one bare pod."""

    gang: str
    kind: Kind
    uid: str
    members: tuple[Member, ...]
    record: StartRecord

    @property
    def sendable(self) -> Sendable:
        return SENDABLE[self.kind]

    @property
    def roles(self) -> tuple[BatchJob, ...]:
        return tuple(one for one in self.members if isinstance(one, BatchJob))

    @property
    def cluster(self) -> str:
        return self.record.cluster

    @property
    def start(self) -> str:
        return content.start_of(self.record)

    def same(self, other: Sent | None) -> bool:
        """Return whether the other is the same start of the same job."""
        return other is not None and (self.uid, self.start) == (other.uid, other.start)


def sent_of(gang: GangLifecycle, record: StartRecord) -> Iterator[tuple[Key, Sent]]:
    """Yield the objects of a gang that another cluster is to run. A bare pod must have the record of this start."""
    found: dict[Key, list[BatchJob]] = {}
    for job in gang.jobs.values():
        if job.sent and not job.finished and job.adapter.kind in SENDABLE:
            found.setdefault(Key(job.adapter.kind, job.key), []).append(job)
    for key, roles in found.items():
        yield key, Sent(gang.id, key.kind, roles[0].object_uid, tuple(roles), record)
    for pod in gang.pods.values():
        known = pod.record
        if (
            known is not None
            and content.start_of(known) == content.start_of(record)
            and gang.objects.job_of(pod) is None
        ):
            yield Key(PODS, pod.key), Sent(gang.id, PODS, pod.uid, (pod,), record)


def waits_elsewhere(gang: GangLifecycle, objects: Mapping[Kind, Mapping[str, Any]]) -> bool:
    """Return whether another cluster is to run the gang, and has started nothing of it. `objects`: the
    objects of the manager, by kind and `namespace/name`."""
    record = gang.elsewhere
    found = [] if record is None else list(sent_of(gang, record))
    return bool(found) and not any(
        sent.sendable.runs((objects.get(key.kind, {}).get(key.name) or {}).get("status") or {}) for key, sent in found
    )
