"""The columns of who runs where (`state.running`), brought up to date from the records that changed."""

from __future__ import annotations

from collections.abc import Collection

from phalanx.core.fold.charging import pods_by_role
from phalanx.model.job import GangSize, Phase, Slot
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.running import RunningPods

MOST_DEMANDS = 1 << 16  # beyond that the columns are written anew, so that demands that nobody has are let go of


def residents(cluster: Cluster) -> RunningPods:
    """Up to date. The first call reads every record, later ones those that changed."""
    known = cluster.running_pods
    if known is None or len(known.demands) > MOST_DEMANDS:
        known = cluster.running_pods = RunningPods()
        known.touched = dict.fromkeys(job for job, record in cluster.jobs.items() if record.placements)
    touched, known.touched = known.touched, {}
    for job in touched:
        read(cluster, known, job)
    known.settle()
    return known


def read(cluster: Cluster, known: RunningPods, job: str) -> None:
    record = cluster.jobs.get(job)
    if record is None or not record.placements:
        known.forget(job)
        return
    rows = cluster.columns.row_of
    known.write(
        record.job,
        cluster.queue_of(record.job),
        record.gang.demands,
        {slot: rows[node] for slot, node in record.placements.items()},
        record.leaving,
        record.started_s,
        spare_pods(record),
    )


def spare_pods(record: JobRecord) -> list[int]:
    """By role, how many of its pods could go without breaking the gang: those above its minimum, and all of members
    that their group can do without."""
    roles = record.job.roles
    if record.job.size is not GangSize.ELASTIC or record.phase is Phase.STOPPING:
        return [0] * len(roles)
    going = pods_by_role(record.leaving, len(roles)) if record.leaving else [0] * len(roles)
    left = [has - less for has, less in zip(record.placed, going, strict=True)]
    spare = [max(0, has - role.minimum) for has, role in zip(left, roles, strict=True)]
    if record.gang.optional and record.gang.tree is not None:
        for role in record.gang.tree.spare(left):
            spare[role] = left[role]
    return spare


def with_their_members(record: JobRecord, slots: Collection[Slot]) -> tuple[Slot, ...]:
    """Those that go, in order; and with them what they leave of a member that is not whole without them, and that its
    group can do without: half of it would be of no use."""
    if not record.gang.optional or record.gang.tree is None:
        return tuple(sorted(slots))
    kept = [slot for slot in record.placements if slot not in slots and slot not in record.leaving]
    broken = record.gang.tree.incomplete_members(pods_by_role(kept, len(record.job.roles)))
    touched = {slot.role for slot in slots}
    useless = {role for roles in broken if not touched.isdisjoint(roles) for role in roles}
    return tuple(sorted([*slots, *(slot for slot in kept if slot.role in useless)]))
