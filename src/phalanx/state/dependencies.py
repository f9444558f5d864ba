"""An index of the jobs that wait for other jobs (dependencies, singletons, arrays), and the outcomes of finished jobs.

The index maps each job to the jobs that depend on it. So when a job starts or ends, its dependents are found at once.
The index also stores the outcome of each finished job that a live job names as a dependency, and the outcomes of at
least the `KEPT` jobs that finished last.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import islice
from typing import TypeAlias

from phalanx.model.job import Job, Outcome

KEPT = 10_000

JobFamily: TypeAlias = tuple[str, str]  # (user, the name of the singleton or array)
Members: TypeAlias = list[tuple[float, str]]  # sorted pairs (submission time in seconds since the epoch, job)


class JobDependencies:
    """The index of dependencies.

    `dependents`: job -> the live jobs that name this job as a dependency.
    `active`: array -> the jobs that count against the array's cap. These are running and nominated jobs, and waiting
        jobs that are candidates for a start.
    `passed`: array jobs that cannot start at present; another job of their array may start instead."""

    def __init__(self) -> None:
        self.dependents: dict[str, dict[str, None]] = {}
        self.singletons: dict[JobFamily, Members] = {}
        self.arrays: dict[JobFamily, Members] = {}
        self.active: dict[JobFamily, dict[str, None]] = {}
        self.passed: dict[str, None] = {}
        self.outcomes: dict[str, Outcome] = {}

    def enter(self, job: Job) -> None:
        """Add a live job to the index."""
        self.outcomes.pop(job.id, None)
        for dependency in job.after:
            self.dependents.setdefault(dependency.job, {})[job.id] = None
        for kin, families in self._families(job) if job.singleton or job.array_cap is not None else ():
            insort(families.setdefault(kin, []), (job.submitted_s, job.id))

    def leave(self, job: Job) -> None:
        """Remove a job from the index, because it has ended, or because its fields have changed. If its fields have
        changed, the caller then adds it again."""
        if not (job.after or job.singleton or job.array_cap is not None):
            return
        for dependency in job.after:
            names = self.dependents.get(dependency.job, {})
            names.pop(job.id, None)
            if not names:
                self.dependents.pop(dependency.job, None)
        for kin, families in self._families(job):
            members = families[kin]
            del members[bisect_left(members, (job.submitted_s, job.id))]
            if not members:
                del families[kin]
        self.rest(job)
        self.passed.pop(job.id, None)

    def ended(self, job: str, outcome: Outcome) -> None:
        """Store the outcome of a job. When more than twice `KEPT` outcomes are stored, the oldest of them are removed,
        except outcomes of jobs on which a live job depends."""
        self.outcomes.pop(job, None)
        self.outcomes[job] = outcome
        if len(self.outcomes) > 2 * KEPT:
            latest = dict(islice(self.outcomes.items(), len(self.outcomes) - KEPT, None))
            named = {job: self.outcomes[job] for job in self.dependents if job in self.outcomes}
            self.outcomes = named | latest

    def work(self, job: Job) -> None:
        """Count the job against the cap of its array."""
        if job.array_cap is not None:
            self.active.setdefault((job.user, job.array), {})[job.id] = None

    def rest(self, job: Job) -> None:
        """Stop counting the job against the cap of its array. The job neither runs nor is a candidate for a start any
        more."""
        if job.array_cap is not None and (active := self.active.get((job.user, job.array))):
            active.pop(job.id, None)
            if not active:
                del self.active[job.user, job.array]

    def contends(self, job: Job) -> bool:
        """Return whether the job counts against the cap of its array."""
        return job.id in self.active.get((job.user, job.array), ())

    def copy(self) -> JobDependencies:
        other = JobDependencies()
        other.dependents = {job: dict(names) for job, names in self.dependents.items()}
        other.singletons = {kin: list(members) for kin, members in self.singletons.items()}
        other.arrays = {kin: list(members) for kin, members in self.arrays.items()}
        other.active = {kin: dict(jobs) for kin, jobs in self.active.items()}
        other.passed = dict(self.passed)
        other.outcomes = dict(self.outcomes)
        return other

    def _families(self, job: Job) -> list[tuple[JobFamily, dict[JobFamily, Members]]]:
        found = []
        if job.singleton:
            found.append(((job.user, job.singleton), self.singletons))
        if job.array_cap is not None:
            found.append(((job.user, job.array), self.arrays))
        return found
