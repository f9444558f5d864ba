"""Write the pods of Jobs: create pods in growing batches, delete, adopt and release pods, and remove their finalizers.

Pods are created in batches of 1, 2, 4, 8 … (slow start). After a batch with a failed creation, no other batch begins.
So if a quota or a webhook refuses all pods of a Job, the server gets one request instead of a thousand
(k8s.io/kubernetes/pkg/controller, SlowStartInitialBatchSize).

`PodMaker` makes a pod from the template of a Job. It sets the name, the labels, the completion index, the owner and the
finalizer."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, ApiUnknown, Object
from phalanx.client.kind import JOBS, PODS
from phalanx.embedded.controllers.job.view import JobObservation, judge
from phalanx.embedded.controllers.runtime.calls import STRATEGIC_PATCH, Calls, gone
from phalanx.embedded.controllers.runtime.pod_state import (
    INDEX,
    INDEX_FAILURES,
    INDEX_IGNORED,
    TRACKING,
    OwnerPodIndex,
    index_failures,
    index_failures_ignored,
    is_deleting,
    is_ready,
    is_tracked,
    owner_reference,
    selects,
    uid_of,
)
from phalanx.embedded.controllers.runtime.recorder import EventRecorder

_MOST_OF_A_PREFIX = 58  # a label has at most 63 characters, and the server appends five characters
_INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}},
}


class PodMaker:
    """Builds the pods of one Job. The pods share their common parts, so callers must not change a pod."""

    def __init__(self, job: Object, group: str = "") -> None:
        """`group`: the name of the PodGroup that the pods name; "" for none."""
        template = job["spec"]["template"]
        meta, spec = template.get("metadata") or {}, template["spec"]
        self._job, self._name = job, job["metadata"]["name"]
        self._labels, self._annotations = meta.get("labels") or {}, meta.get("annotations") or {}
        self._spec = _with_index_variable(spec) if job["spec"].get("completionMode") == "Indexed" else spec
        if group:
            self._spec = self._spec | {"schedulingGroup": {"podGroupName": group}}
        self._common: dict[str, object] = {
            "namespace": job["metadata"]["namespace"],
            "finalizers": [*(one for one in meta.get("finalizers") or () if one != TRACKING), TRACKING],
            "ownerReferences": [owner_reference(JOBS, job)],
        }

    def make(self, index: int | None, replaced: Object | None = None) -> Object:
        """Return a new pod, for `index` if the Job is Indexed; `replaced`: the failed pod that the new pod replaces."""
        labels, annotations, spec = self._labels, self._annotations, self._spec
        prefix = f"{self._name}-"
        if index is not None:
            place = {INDEX: str(index)}
            labels, annotations = labels | place, annotations | place
            spec = spec | {"hostname": f"{self._name}-{index}"}
            ending = f"-{index}-"
            prefix = self._name[: _MOST_OF_A_PREFIX - len(ending)] + ending
            if "backoffLimitPerIndex" in self._job["spec"]:
                annotations |= _failure_counts(self._job, replaced)
        metadata = {"generateName": prefix, **self._common, "labels": labels}
        if annotations:
            metadata["annotations"] = annotations
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _with_index_variable(spec: dict[str, Any]) -> dict[str, object]:
    changed = copy.copy(spec)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            changed[field] = [_with_variable(container) for container in spec[field]]
    return changed


def _with_variable(container: dict[str, Any]) -> dict[str, object]:
    env = container.get("env") or []
    if any(entry["name"] == _INDEX_VARIABLE["name"] for entry in env):
        return container
    return {**container, "env": [*env, _INDEX_VARIABLE]}


def _failure_counts(job: Object, replaced: Object | None) -> dict[str, str]:
    if replaced is None:
        return {INDEX_FAILURES: "0"}
    counts = judge(replaced, job["spec"]).counts
    failures, ignored = index_failures(replaced) + counts, index_failures_ignored(replaced) + (not counts)
    return {INDEX_FAILURES: str(failures)} | ({INDEX_IGNORED: str(ignored)} if ignored else {})


COMPONENT = "job-controller"


class IndexedPods:
    """Reads and writes the pods of Jobs through the API."""

    def __init__(self, calls: Calls, index: OwnerPodIndex, recorder: EventRecorder) -> None:
        self._calls, self._index, self._recorder = calls, index, recorder

    async def claim(self, job: Object) -> list[Object]:
        """Return the pods of `job`: the pods that the Job owns and its selector still matches, and matching pods
        without an owner, which the Job adopts. Owned pods that the selector does not match any more are released."""
        mine: list[Object] = []
        foreign: list[Object] = []
        for pod in self._index.owned_by(uid_of(job)):
            (mine if self._selects(job, pod) else foreign).append(pod)
        strays = [pod for pod in self._index.loose(job) if self._selects(job, pod) and not is_deleting(pod)]
        if is_deleting(job) or not (foreign or strays):
            return mine
        for pod in foreign:
            await self._let_go(job, pod)
        if strays and await self._still_there(job):
            mine += [await self._adopt(job, pod) for pod in strays]
        return mine

    async def create(
        self, view: JobObservation, indexes: Sequence[int | None], group: str = ""
    ) -> tuple[int, list[ApiError]]:
        """Create pods for these indexes. Return the number of created pods, and the errors. After a batch with an
        error, no other batch begins. `group`: the PodGroup that the pods name. The first pods of a Job get no Event,
        because the status of the Job shows their creation."""
        counted = view.status.get("succeeded") or view.status.get("failed")
        is_routine = not view.pods and not counted
        created = 0
        errors: list[ApiError] = []
        maker, taken = PodMaker(view.job, group), view.waiting
        for batch in slow_start(indexes):
            pods = [maker.make(index, taken.get(index) if index is not None else None) for index in batch]
            results = await asyncio.gather(*(self._create(view.job, pod, is_routine=is_routine) for pod in pods))
            failures = [result for result in results if result is not None]
            created, errors = created + len(batch) - len(failures), errors + failures
            if failures:
                break
        return created, errors

    async def delete(self, job: Object, pods: Sequence[Object], *, uncounted: bool) -> tuple[int, int, list[ApiError]]:
        """Delete the pods. Return the number of deleted pods, the number of ready pods among these, and the errors.
        `uncounted`: True to remove the tracking finalizer first, so that the pods are not counted."""
        results = await asyncio.gather(*(self._delete(job, pod, uncounted) for pod in pods))
        errors = [result for result in results if result is not None]
        went = [pod for pod, result in zip(pods, results, strict=True) if result is None]
        return len(went), sum(map(is_ready, went)), errors

    async def untrack_all(self, pods: Sequence[Object]) -> tuple[set[str], list[ApiError]]:
        """Remove the tracking finalizers of the pods. Return the uids of the pods that do not have this finalizer any
        more, and the errors of the calls for the remaining pods."""
        results = await asyncio.gather(*(_caught(self.untrack, pod) for pod in pods))
        errors = [result for result in results if result is not None]
        return {uid_of(pod) for pod, result in zip(pods, results, strict=True) if result is None}, errors

    async def untrack(self, pod: Object) -> None:
        """Remove the tracking finalizer of the pod. If the pod does not exist any more, do nothing."""
        body = {"metadata": {"uid": uid_of(pod), "$deleteFromPrimitiveList/finalizers": [TRACKING]}}
        try:
            await self._calls.patch(PODS, pod, body, content_type=STRATEGIC_PATCH)
        except ApiRefusal as refusal:
            if not gone(refusal):
                raise
            self._calls.forget(PODS, pod)

    # --- internal -------------------------------------------------------------------------------------------------

    def _selects(self, job: Object, pod: Object) -> bool:
        return selects(job["spec"].get("selector"), pod["metadata"].get("labels") or {})

    async def _create(self, job: Object, body: Object, *, is_routine: bool) -> ApiError | None:
        try:
            pod = await self._calls.create(PODS, body, job["metadata"]["namespace"])
        except ApiError as error:
            if not _namespace_ends(error):
                self._recorder.tell(COMPONENT, job, "Warning", "FailedCreate", f"Error creating: {error}")
            return error
        if not is_routine:
            name = pod["metadata"]["name"]
            self._recorder.tell(COMPONENT, job, "Normal", "SuccessfulCreate", f"Created pod: {name}")
        return None

    async def _delete(self, job: Object, pod: Object, uncounted: bool) -> ApiError | None:
        name = pod["metadata"]["name"]
        try:
            if uncounted and is_tracked(pod):
                await self.untrack(pod)
            await self._calls.delete(PODS, pod)
        except ApiError as error:
            if isinstance(error, ApiRefusal) and gone(error):
                return None
            self._recorder.tell(COMPONENT, job, "Warning", "FailedDelete", f"Error deleting: {error}")
            return error
        self._recorder.tell(COMPONENT, job, "Normal", "SuccessfulDelete", f"Deleted pod: {name}")
        return None

    async def _still_there(self, job: Object) -> bool:
        """Return True if the Job exists and is not being deleted. The Job is read from the API server instead of the
        cache, because a deleted Job must not adopt pods that the garbage collector has just orphaned."""
        meta = job["metadata"]
        fresh = await self._calls.get(JOBS, meta["name"], meta["namespace"])
        return uid_of(fresh) == uid_of(job) and not is_deleting(fresh)

    async def _adopt(self, job: Object, pod: Object) -> Object:
        meta = {"uid": uid_of(pod), "ownerReferences": [owner_reference(JOBS, job)], "finalizers": [TRACKING]}
        return await self._calls.patch(PODS, pod, {"metadata": meta}, content_type=STRATEGIC_PATCH)

    async def _let_go(self, job: Object, pod: Object) -> None:
        meta: dict[str, Any] = {
            "uid": uid_of(pod),
            "ownerReferences": [{"$patch": "delete", "uid": uid_of(job)}],
            "$deleteFromPrimitiveList/finalizers": [TRACKING],
        }
        await self._calls.patch(PODS, pod, {"metadata": meta}, content_type=STRATEGIC_PATCH)


def slow_start(indexes: Sequence[int | None]) -> Iterator[Sequence[int | None]]:
    """Yield the indexes in batches of 1, 2, 4, 8 …"""
    start, size = 0, 1
    while start < len(indexes):
        yield indexes[start : start + size]
        start, size = start + size, size * 2


def is_unknown(errors: Sequence[ApiError]) -> bool:
    """Return True if the API server did not respond to one of the writes. Such a write may have been performed or
    not."""
    return any(isinstance(error, ApiUnknown) for error in errors)


def _namespace_ends(error: ApiError) -> bool:
    """Return True if the API server refused a pod because the namespace is terminating. The API server will also refuse
    all other pods, so no Event is needed."""
    causes = error.details.get("causes") or () if isinstance(error, ApiRefusal) else ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


async def _caught(call: Callable[[Object], Awaitable[None]], pod: Object) -> ApiError | None:
    try:
        await call(pod)
    except ApiError as error:
        return error
    return None
