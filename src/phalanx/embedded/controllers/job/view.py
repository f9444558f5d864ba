"""Read a Job and its pods once. `decide` and `track` apply their rules to the result, a `JobObservation`.

A *new* pod is a finished pod that the Job's counters do not include yet. It still has the tracking finalizer, and its
uid is in no list of `status.uncountedTerminatedPods` (KEP-2307).

`Indexes` is a set of completion indexes, which the API writes in the form `0,2-4,7`. Two consecutive indexes are
written `3,4`, longer runs `3-5` (k8s.io/api/batch/v1, JobStatus.completedIndexes). A set is stored as a sorted tuple of
runs (first, last). So the time to process a Job with a million indexes depends only on the number of gaps.

The last part evaluates podFailurePolicy, which determines the effect of a failed pod, and successPolicy, which
determines which successful indexes complete a Job. The first rule that matches applies (KEP-3329, KEP-3998). If no rule
matches, a failure counts towards the backoff limit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from phalanx.client.connection import Object
from phalanx.embedded.controllers.job.fields import BatchJobSpec, FailureRule, JobCondition, JobStatus, SuccessRule
from phalanx.embedded.controllers.runtime.pod_state import (
    completion_index,
    finished_at,
    index_failures,
    index_failures_all,
    is_active,
    is_deleting,
    is_ready,
    is_terminating,
    is_tracked,
    phase,
    uid_of,
)


@dataclass(frozen=True, slots=True)
class Indexes:
    """An immutable set of integers ≥ 0; `runs` are (first, last), sorted, with gaps between them."""

    runs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, members: Iterable[int]) -> Indexes:
        return cls(tuple(_joined((member, member) for member in sorted(members))))

    @classmethod
    def parse(cls, text: str | None, below: int) -> Indexes:
        """Return the indexes in `text` that are less than `below`. Parts of the string that are not numbers are
        ignored, as in kube-controller-manager."""
        runs = []
        for part in (text or "").split(","):
            first, _, last = part.partition("-")
            if first.isdigit() and (not last or last.isdigit()) and int(first) <= min(int(last or first), below - 1):
                runs.append((int(first), min(int(last or first), below - 1)))
        return cls(tuple(_joined(sorted(runs))))

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes(tuple(_joined(sorted(self.runs + other.runs)))) if other.runs else self

    def __contains__(self, member: int) -> bool:
        place = bisect_right(self.runs, (member, 1 << 62)) - 1
        return place >= 0 and self.runs[place][0] <= member <= self.runs[place][1]

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)

    def __str__(self) -> str:
        return ",".join(_shown(first, last) for first, last in self.runs)

    def common(self, other: Indexes) -> int:
        """Return the number of indexes that are in both sets."""
        return sum(
            max(0, min(last, end) - max(first, start) + 1) for first, last in self.runs for start, end in other.runs
        )

    def missing(self, count: int, below: int) -> list[int]:
        """Return the lowest `count` numbers less than `below` that are not in the set."""
        found: list[int] = []
        for number in self._gaps(below):
            if len(found) >= count:
                break
            found.append(number)
        return found

    def _gaps(self, below: int) -> Iterator[int]:
        start = 0
        for first, last in self.runs:
            yield from range(start, min(first, below))
            start = last + 1
        yield from range(start, below)


NO_INDEXES = Indexes()


def _joined(runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield sorted runs, with runs that touch or overlap joined into one."""
    current: tuple[int, int] | None = None
    for first, last in runs:
        if current is None:
            current = (first, last)
        elif first <= current[1] + 1:
            current = (current[0], max(current[1], last))
        else:
            yield current
            current = (first, last)
    if current is not None:
        yield current


def _shown(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFailureEffect:
    """The effect of a failed pod on its Job. `message`: the message of the action FailJob. `counts`: True if the
    failure counts towards the backoff limits."""

    counts: bool = True
    fails_index: bool = False
    message: str | None = None


def replaces_only_failed(spec: BatchJobSpec) -> bool:
    """Return True if a terminating pod is replaced only when it has ended (podReplacementPolicy: Failed, KEP-3939)."""
    return spec.get("podReplacementPolicy") == "Failed" or "podFailurePolicy" in spec


def has_failed(pod: Object, spec: BatchJobSpec) -> bool:
    """Return True if the pod has failed. A pod that is being deleted and has not succeeded counts as failed if such
    pods are replaced at once."""
    if phase(pod) == "Failed":
        return True
    return not replaces_only_failed(spec) and is_deleting(pod) and phase(pod) != "Succeeded"


def judge(pod: Object, spec: BatchJobSpec) -> PodFailureEffect:
    """Return the effect that podFailurePolicy gives to a failed pod."""
    for number, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        reason = _exit_code(pod, rule) if rule.get("onExitCodes") else _pod_condition(pod, rule)
        if reason is None:
            continue
        match rule["action"]:
            case "FailJob":
                return PodFailureEffect(message=f"{reason} matching FailJob rule at index {number}")
            case "Ignore":
                return PodFailureEffect(counts=False)
            case "FailIndex":
                return PodFailureEffect(fails_index=True)
            case "Count":
                return PodFailureEffect()
    return PodFailureEffect()


def success_message(spec: BatchJobSpec, succeeded: Indexes) -> str | None:
    """Return the message of the first rule of successPolicy that the set of indexes `succeeded` satisfies."""
    for number, rule in enumerate((spec.get("successPolicy") or {}).get("rules") or ()):
        if len(succeeded) and _meets(rule, succeeded, spec["completions"]):
            return f"Matched rules at index {number}"
    return None


def _meets(rule: SuccessRule, succeeded: Indexes, completions: int) -> bool:
    count = rule.get("succeededCount")
    if (indexes := rule.get("succeededIndexes")) is None:
        return count is not None and len(succeeded) >= count
    wanted = Indexes.parse(indexes, completions)
    have = wanted.common(succeeded)
    return len(wanted) > 0 and (have == len(wanted) or (count is not None and have >= count))


def _exit_code(pod: Object, rule: FailureRule) -> str | None:
    wanted, status = rule["onExitCodes"], pod.get("status", {})
    for container in [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]:
        code = container.get("state", {}).get("terminated", {}).get("exitCode", 0)
        if code == 0 or wanted.get("containerName") not in {None, container["name"]}:
            continue
        if (code in wanted["values"]) == (wanted["operator"] == "In"):
            return f"Container {container['name']} for pod {_name(pod)} failed with exit code {code}"
    return None


def _pod_condition(pod: Object, rule: FailureRule) -> str | None:
    wanted = {(pattern["type"], pattern.get("status", "True")) for pattern in rule.get("onPodConditions") or ()}
    for entry in pod.get("status", {}).get("conditions") or ():
        if (entry["type"], entry.get("status")) in wanted:
            return f"Pod {_name(pod)} has condition {entry['type']}"
    return None


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """A Job and its pods. `succeeded` and `failed` include pods that are not yet in the status. `waiting`: index -> its
    failed pod. The finalizer of this pod stays until the index has its next pod, because the next pod takes over the
    count of failures."""

    job: Object
    pods: tuple[Object, ...]
    active: tuple[Object, ...]
    ready: int
    terminating: int
    new_succeeded: tuple[Object, ...]
    new_failed: tuple[Object, ...]
    succeeded: int
    failed: int
    counted_indexes: Indexes = NO_INDEXES
    done_indexes: Indexes = NO_INDEXES
    failed_indexes: Indexes | None = None
    waiting: dict[int, Object] = field(default_factory=dict)

    @property
    def spec(self) -> BatchJobSpec:
        spec: BatchJobSpec = self.job["spec"]
        return spec

    @property
    def status(self) -> JobStatus:
        status: JobStatus = self.job.get("status") or {}
        return status

    @property
    def completions(self) -> int | None:
        return self.spec.get("completions")

    @property
    def indexed(self) -> bool:
        return is_indexed(self.spec)

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def deleting(self) -> bool:
        return is_deleting(self.job)

    def condition(self, kind: str) -> JobCondition | None:
        """Return the condition of the type `kind` if it has the status True, otherwise None."""
        found = next((entry for entry in self.status.get("conditions") or () if entry["type"] == kind), None)
        return found if found is not None and found.get("status") == "True" else None


def is_indexed(spec: BatchJobSpec) -> bool:
    return spec.get("completionMode") == "Indexed"


def is_finished(job: Object) -> bool:
    """Return True if the Job has the condition Complete or Failed. The controller ignores such Jobs."""
    return any(
        entry["type"] in {"Complete", "Failed"} and entry.get("status") == "True"
        for entry in job.get("status", {}).get("conditions") or ()
    )


def valid_index(pod: Object, spec: BatchJobSpec) -> int | None:
    """Return the pod's completion index; None if the Job does not have this index any more."""
    index = completion_index(pod)
    return index if index is not None and index < spec["completions"] else None


def view_of(job: Object, pods: Sequence[Object]) -> JobObservation:
    """Return the observation of `job` and of all pods that it owns."""
    spec, status = job["spec"], job.get("status") or {}
    uncounted = status.get("uncountedTerminatedPods") or {}
    listed_succeeded, listed_failed = uncounted.get("succeeded") or (), uncounted.get("failed") or ()
    open_pods = [pod for pod in pods if is_tracked(pod) and (not is_indexed(spec) or _has_place(pod, spec))]
    new_succeeded = [pod for pod in open_pods if phase(pod) == "Succeeded" and uid_of(pod) not in listed_succeeded]
    new_failed = [pod for pod in open_pods if has_failed(pod, spec) and uid_of(pod) not in listed_failed]
    active = tuple(pod for pod in pods if is_active(pod))
    done = failed_indexes = Indexes()
    counted, waiting = Indexes(), {}
    succeeded = status.get("succeeded", 0) + len(new_succeeded) + len(listed_succeeded)
    if is_indexed(spec):
        counted = Indexes.parse(status.get("completedIndexes"), spec["completions"])
        done = counted | Indexes.of({completion_index(pod) or 0 for pod in open_pods if phase(pod) == "Succeeded"})
        succeeded = len(done)
        if _per_index(spec):
            failed_indexes = _failed_indexes(job, open_pods)
            waiting = _waiting(spec, open_pods, active, done, failed_indexes)
    return JobObservation(
        job=job,
        pods=tuple(pods),
        active=active,
        ready=sum(map(is_ready, active)),
        terminating=sum(map(is_terminating, pods)),
        new_succeeded=tuple(new_succeeded),
        new_failed=tuple(new_failed),
        succeeded=succeeded,
        failed=status.get("failed", 0) + sum(judge(pod, spec).counts for pod in new_failed) + len(listed_failed),
        counted_indexes=counted,
        done_indexes=done,
        failed_indexes=failed_indexes if _per_index(spec) else None,
        waiting=waiting,
    )


def _has_place(pod: Object, spec: BatchJobSpec) -> bool:
    return valid_index(pod, spec) is not None


def _per_index(spec: BatchJobSpec) -> bool:
    return "backoffLimitPerIndex" in spec


def _failed_indexes(job: Object, open_pods: Sequence[Object]) -> Indexes:
    spec = job["spec"]
    known = Indexes.parse(job.get("status", {}).get("failedIndexes"), spec["completions"])
    return known | Indexes.of({completion_index(pod) or 0 for pod in open_pods if _fails_its_index(pod, spec)})


def _fails_its_index(pod: Object, spec: BatchJobSpec) -> bool:
    if not has_failed(pod, spec):
        return False
    verdict = judge(pod, spec)
    return verdict.fails_index or (verdict.counts and index_failures(pod) >= spec["backoffLimitPerIndex"])


def _waiting(
    spec: BatchJobSpec, open_pods: Sequence[Object], active: Sequence[Object], done: Indexes, failed: Indexes
) -> dict[int, Object]:
    running = {completion_index(pod) for pod in active}
    last: dict[int, Object] = {}
    for pod in open_pods:
        index = completion_index(pod)
        if index is None or not has_failed(pod, spec) or index in running or index in done or index in failed:
            continue
        if index not in last or _age(pod) >= _age(last[index]):
            last[index] = pod
    return last


def _age(pod: Object) -> tuple[int, float]:
    return index_failures_all(pod), finished_at(pod)
