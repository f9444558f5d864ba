"""Limits on the number of submitted jobs (Slurm's MaxSubmitJobs) of a queue, a user or a group, and the live jobs that
count against each limit.

A limit of n admits the n live jobs that were submitted first; jobs that were submitted later wait until one of these
jobs has ended. So only the submission times decide which jobs are admitted; the order in which events report the jobs
does not matter. `SubmittedJobs` has a list of jobs only for those limits that a queue sets."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from phalanx.model.job import Job
from phalanx.state.queues.branch import Branch

SubmitOrder: TypeAlias = tuple[float, str]  # the submission time (seconds since the epoch) and the id of a job


class SubmitLimit(NamedTuple):
    """A limit on submitted jobs.

    `kind`: "queue", "user" or "group".
    `whose`: the name of the user or group; empty for a queue."""

    queue: str
    kind: str
    whose: str
    allowed: int


class SubmittedJobs:
    """For each limit, the live jobs that count against it, in the order of their submission."""

    def __init__(self) -> None:
        self.lists: dict[SubmitLimit, list[SubmitOrder]] = {}

    def enter(self, branch: Branch, job: Job) -> Iterator[str]:
        """Add a live job. Yield the jobs that a limit no longer admits because of the added job."""
        turn = (job.submitted_s, job.id)
        for gate in submit_limits(branch, job):
            turns = self.lists.setdefault(gate, [])
            insort(turns, turn)
            if len(turns) > gate.allowed and turn < turns[gate.allowed]:
                yield turns[gate.allowed][1]

    def leave(self, branch: Branch, job: Job) -> Iterator[str]:
        """Remove a job. Yield the jobs that limits now admit instead of the removed job."""
        turn = (job.submitted_s, job.id)
        for gate in submit_limits(branch, job):
            turns = self.lists.get(gate, [])
            at = bisect_left(turns, turn)
            if at == len(turns) or turns[at] != turn:
                continue
            del turns[at]
            if not turns:
                del self.lists[gate]
            elif at < gate.allowed <= len(turns):
                yield turns[gate.allowed - 1][1]

    def kept_out(self, branch: Branch, job: Job) -> SubmitLimit | None:
        """Return the first limit, from the queue up, that does not admit the job; None if all limits admit it."""
        turn = (job.submitted_s, job.id)
        for gate in submit_limits(branch, job):
            turns = self.lists.get(gate, [])
            if len(turns) > gate.allowed and turn >= turns[gate.allowed]:
                return gate
        return None

    def copy(self) -> SubmittedJobs:
        other = SubmittedJobs()
        other.lists = {gate: list(turns) for gate, turns in self.lists.items()}
        return other


def submit_limits(branch: Branch, job: Job) -> Iterator[SubmitLimit]:
    """Yield the limits on submitted jobs that apply to the job, from those of its queue up to those of the highest
    queue."""
    for each in branch.path if branch.rules.limits.submissions else ():
        queue = each.queue
        if queue is None:
            continue
        for kind, whose, limits in (
            ("queue", "", queue.total),
            ("user", job.user, queue.per_user),
            ("group", job.group, queue.per_group),
        ):
            if limits.submitted is not None:
                yield SubmitLimit(each.name, kind, whose, max(0, limits.submitted))
