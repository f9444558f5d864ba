"""Find the reason for which a gang cannot be planned yet: a member is held or is being moved to another cluster, or
members are missing.

The reason becomes `Job.blocked`. Members that contradict each other, or that Phalanx cannot queue, raise a
GangSpecError.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.dialects.frame.dialect import GroupClaim
from phalanx.kube.gang.spec.declared_roles import GangSpecError, missing_of_declared
from phalanx.kube.gang.spec.job_options import job_options
from phalanx.kube.gang.spec.members import GangMembers, number_of, pods_by_role
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.job import Group
from phalanx.model.reason import Reason, ReasonCode


def _require_queueable(jobs: Sequence[BatchJob]) -> None:
    for job in jobs:
        if job.pinned and not job.suspended and labels.GATE not in job.gates:
            raise GangSpecError(
                f"the pods of Job {job.name} name the scheduler {job.scheduler!r}, and the Job runs without "
                "Phalanx, which only counts its pods: to queue it, delete the Job and create it with suspend: true"
            )


def obstacle(members: GangMembers) -> Reason | None:
    """Return why the gang must wait if a member is held, is being moved to another cluster, or has an error. Return
    None if there is no such member. Raises GangSpecError if a Job's pods name another scheduler, and the Job already
    runs although Phalanx has not started it."""
    _require_queueable(members.jobs)
    if moving := next((each for each in members.everyone if labels.MOVING in each.options), None):
        text = f"{moving.name} is being moved to another cluster: `phalanx move` can continue or undo the move"
        return Reason(code=ReasonCode.HELD, text=text)
    for job in members.jobs:
        if job.held:
            why = job.options.get(labels.HOLD, "")
            why = f" ({why})" if " " in why else ""
            return Reason(code=ReasonCode.HELD, text=f"Job {job.name} is held{why}: remove {labels.HOLD} to queue it")
        if job.suspended and job.record is not None:
            text = (
                f"Job {job.name} was suspended by another client after it was admitted: remove the annotation "
                f"{labels.ADMITTED} to queue it again"
            )
            return Reason(code=ReasonCode.HELD, text=text)
        if job.fault:
            return Reason(code=ReasonCode.INVALID, text=job.fault)
        if job.requirements.obstacle is not None:
            return job.requirements.obstacle
    for pod in members.pods:
        if pod.options.get(labels.HOLD, "false") != "false":
            return Reason(code=ReasonCode.HELD, text=f"pod {pod.name} is held: remove {labels.HOLD} to queue it")
        if pod.gated:
            return Reason(
                code=ReasonCode.HELD, text=f"pod {pod.name} has scheduling gates: it waits until they are removed"
            )
        if pod.obstacle is not None:
            return pod.obstacle
    return None


def missing_members(members: GangMembers) -> Reason | None:
    """Return a reason with the number of missing members; None if the gang is complete. Raises GangSpecError if no
    member sets the number of members."""
    if members.jobs and len(members.jobs) == 1 and not members.pods and labels.JOB not in members.jobs[0].options:
        return None
    if members.jobs:
        return _missing_objects(members)
    if members.group is not None and (missing := _missing_of_group(members.group, members.pods)):
        return missing
    if members.declared:
        groups: Sequence[Group] = job_options(members, "").get("groups", ())
        return missing_of_declared(pods_by_role(members.pods), members.declared, groups)
    if members.group is not None:
        return None
    minimum, whole = number_of(members, labels.MIN_AVAILABLE), members.options(labels.MIN_RESOURCES)
    if not any(labels.JOB in pod.options for pod in members.pods) or (whole and minimum is None):
        return None
    if minimum is None:
        raise GangSpecError(
            f"no pod of the gang {members.id} sets how many pods start together: annotate the pods with "
            f'{labels.MIN_AVAILABLE}: "8", or with {labels.MIN_RESOURCES} if a driver creates the other pods later'
        )
    return None if whole else _waiting(len(members.pods), minimum, "pods")


def _missing_objects(members: GangMembers) -> Reason | None:
    wanted, existing = number_of(members, labels.JOB_ROLES), len(members.jobs) + len(members.pods) + members.finished
    if wanted is None:
        raise GangSpecError(
            f"no member of the gang {members.id} sets how many objects form it: annotate each with {labels.JOB_ROLES}: "
            '"2" (the number of its Jobs and bare pods)'
        )
    if existing > wanted:
        names = ", ".join(dict.fromkeys(members.titles(members.everyone)))  # an object with several roles is named once
        raise GangSpecError(
            f"{labels.JOB_ROLES} of the gang {members.id} is {wanted}, but it has {existing} members ({names}): raise "
            f"the number, or give the members of another gang another name or {labels.JOB}"
        )
    return _waiting(existing, wanted, "members")


def _missing_of_group(group: GroupClaim, pods: Sequence[Pod]) -> Reason | None:
    existing = pods_by_role(pods)
    for role, wanted in group.of_role.items():
        if (missing := _waiting(existing.get(role, 0), wanted, f"pods of the task {role}")) is not None:
            return missing
    return _waiting(len(pods), group.minimum, "pods")


def _waiting(existing: int, wanted: int, what: str) -> Reason | None:
    if existing >= wanted:
        return None
    text = f"waiting for members: {existing} of {wanted} {what} exist"
    return Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=text, numbers={"exist": existing, "wanted": wanted})
