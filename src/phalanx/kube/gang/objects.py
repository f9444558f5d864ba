"""The API objects of one gang: its Jobs, its pods, and the outcomes of the Jobs and pods that have ended."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.kube.gang.spec.members import GangMembers
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.job import Outcome


class GangObjects:
    """The objects of one gang. `id`: the gang's id in the core. `jobs`: the existing Jobs, by uid. `pods`: the pods
    that exist and have not ended, by uid. `changed_pods`: the pods that `Seating.seat_pods` has not handled since they
    were created or changed."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.jobs: dict[str, BatchJob] = {}
        self.pods: dict[str, Pod] = {}
        self.changed_pods: dict[str, None] = {}
        self._succeeded: dict[str, set[str]] = {}  # Job uid -> its pods that have succeeded and still exist
        self._outcomes: dict[str, Outcome] = {}  # outcomes of Jobs and bare pods that have ended

    def see_job(self, job: BatchJob) -> None:
        if job.outcome is not None:
            self._outcomes[job.uid] = job.outcome
        self.jobs[job.uid] = job

    def end_pod(self, pod: Pod, *, gone: bool = False) -> None:
        """Record that the pod has ended or is deleted. `gone`: True if it is deleted. This class no longer counts a
        deleted pod as succeeded, for two reasons. When the pod is deleted, the status of its Job already counts it
        (JobTrackingWithFinalizers). Also, a framework that resumes a suspended job creates all of its pods again."""
        if pod.over and pod.phase == "Succeeded" and pod.owner is not None:
            succeeded = self._succeeded.setdefault(pod.owner[1], set())
            succeeded.discard(pod.uid) if gone else succeeded.add(pod.uid)
        if pod.over and self.job_of(pod) is None:
            self._outcomes[pod.uid] = Outcome.SUCCEEDED if pod.phase == "Succeeded" else Outcome.FAILED
        self.pods.pop(pod.uid, None)
        self.changed_pods.pop(pod.uid, None)

    def size(self, job: BatchJob) -> int:
        """Return how many pods the Job could run at once from now on. Completions that have already succeeded need no
        further pod, even if the Job's status does not count them yet."""
        return job.size(len(self._succeeded.get(job.uid, ())))

    def succeeded(self, job: BatchJob) -> int:
        """Return the number of succeeded pods of the Job, including pods that the Job's status does not count yet."""
        return max(job.succeeded, len(self._succeeded.get(job.uid, ())))

    def has_succeeded(self, job: BatchJob) -> bool:
        """Return whether the Job, or at least one of its pods, has succeeded."""
        return bool(job.succeeded or self._succeeded.get(job.uid)) or job.outcome is Outcome.SUCCEEDED

    def job_of(self, pod: Pod) -> BatchJob | None:
        """Return the Job of this gang that the pod belongs to; None if it is a bare pod."""
        return self.jobs.get(pod.owner[1]) if pod.owner is not None else None

    @property
    def succeeded_bare(self) -> int:
        """Return the number of bare pods that have succeeded."""
        return sum(end is Outcome.SUCCEEDED for uid, end in self._outcomes.items() if uid not in self.jobs)

    @property
    def outcome(self) -> Outcome:
        """Return the outcome of the gang. The gang failed if any of its Jobs or bare pods failed. It counts as deleted
        if no Job or bare pod is known to have succeeded or failed."""
        former = self._former()
        known = [end for uid, end in self._outcomes.items() if uid not in former]
        return next((end for end in (Outcome.FAILED, Outcome.SUCCEEDED) if end in known), Outcome.DELETED)

    @property
    def over(self) -> bool:
        """Return whether the gang has ended: at least one Job or bare pod has an outcome, all Jobs have finished, and
        no bare pod is left."""
        alive = any(self.job_of(pod) is None for pod in self.pods.values())
        return bool(self._outcomes) and not alive and all(job.finished for job in self.jobs.values())

    @property
    def idle(self) -> bool:
        """Return whether the gang has neither pods nor unfinished Jobs that Phalanx may start."""
        return not self.pods and not any(job.ours and not job.finished for job in self.jobs.values())

    @property
    def empty(self) -> bool:
        return not self.jobs and not self.pods

    def waiting(self) -> GangMembers:
        """Return the members that wait for a start, oldest first: unfinished Jobs, and bare pods that are on no
        node."""
        return self._members(pod for pod in self.pods.values() if not pod.node and not pod.going)

    def unfinished(self) -> GangMembers:
        """Return the unfinished members, oldest first, including bare pods that are already on nodes."""
        return self._members(self.pods.values())

    def _members(self, among: Iterable[Pod]) -> GangMembers:
        jobs = [job for job in self.jobs.values() if job.ours and not job.finished]
        pods = [pod for pod in among if self.job_of(pod) is None]
        jobs.sort(key=lambda job: (job.created_s, job.name))
        pods.sort(key=lambda pod: (pod.created_s, pod.name))
        former = self._former()
        finished = sum(job.finished and job.ours and job.uid not in former for job in self.jobs.values())
        sizes = {job.uid: self.size(job) for job in jobs}
        return GangMembers(id=self.id, jobs=jobs, pods=pods, finished=finished, sizes=sizes)

    def _former(self) -> set[str]:
        """Return the uids of finished Jobs that are left from an earlier run with the same gang name. For example, a
        finished PyTorchJob is left from an earlier run if a new JobSet has the same name. Objects without the label
        `phalanx.dev/job` belong to the same gang if they have the same name. The newest unfinished object, with its
        finished Jobs, is the present run. If all objects have finished, the newest object is the present run."""
        unlabelled = [job for job in self.jobs.values() if labels.JOB not in job.options]
        newest = max(unlabelled, key=lambda job: (not job.finished, job.created_s, job.object_uid), default=None)
        if newest is None:
            return set()
        return {job.uid for job in unlabelled if job.finished and job.object_uid != newest.object_uid}
