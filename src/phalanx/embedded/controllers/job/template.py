"""The pod that a Job creates from its template: names, labels, the index in its places, the owner, the finalizer."""

from __future__ import annotations

import copy
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.kind import JOBS
from phalanx.embedded.controllers.job.policy import judge
from phalanx.embedded.controllers.runtime.pod_state import (
    INDEX,
    INDEX_FAILURES,
    INDEX_IGNORED,
    TRACKING,
    index_failures,
    index_failures_ignored,
    owner_reference,
)

_MOST_OF_A_PREFIX = 58  # 63 characters of a label less the five that the server appends
_INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}},
}


class PodMaker:
    """Create the pods of one Job. Their common parts are created once and shared, so callers must not change a pod."""

    def __init__(self, job: Object, group: str = "") -> None:
        """`group`: the PodGroup that the pods name."""
        template = job["spec"]["template"]
        meta, spec = template.get("metadata") or {}, template["spec"]
        self._job, self._name = job, job["metadata"]["name"]
        self._labels, self._annotations = meta.get("labels") or {}, meta.get("annotations") or {}
        self._spec = _with_index_variable(spec) if job["spec"].get("completionMode") == "Indexed" else spec
        if group:
            self._spec = self._spec | {"schedulingGroup": {"podGroupName": group}}
        self._common: dict[str, Any] = {
            "namespace": job["metadata"]["namespace"],
            "finalizers": [*(one for one in meta.get("finalizers") or () if one != TRACKING), TRACKING],
            "ownerReferences": [owner_reference(JOBS, job)],
        }

    def make(self, index: int | None, replaced: Object | None = None) -> Object:
        """Return a new pod, for `index` if the Job is Indexed; `replaced` is the failed pod whose index it takes on."""
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


def _with_index_variable(spec: dict[str, Any]) -> dict[str, Any]:
    changed = copy.copy(spec)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            changed[field] = [_with_variable(container) for container in spec[field]]
    return changed


def _with_variable(container: dict[str, Any]) -> dict[str, Any]:
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
