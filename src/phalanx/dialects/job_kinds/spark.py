"""Present a SparkApplication (`sparkoperator.k8s.io/v1beta2`) as a gang of the driver and its executors. The executors
start later than the driver.

A SparkApplication states the sizes of its pods instead of pod templates. The memory request of a pod is the stated
memory plus Spark's overhead. The overhead is a fraction of the stated memory (a larger fraction for Python and R), but
at least 384 MiB. Memory is written in Java's format, in which `512m` means 512 mebibytes. The cpu request of a pod is
`cores`, unless `coreRequest` is set.


Source: the API reference of spark-operator v2.5; Spark's running-on-kubernetes.html (memoryOverheadFactor).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from phalanx.client.kind import Kind
from phalanx.dialects.job_kinds.form import LATER, Object, as_job, patched

_DRIVER, _EXECUTOR = "driver", "executor"
_MIB = 1024 * 1024
_LEAST_OVERHEAD_BYTES = 384 * _MIB
_JAVA = {"": 1, "b": 1, "k": 1024, "m": _MIB, "g": 1024 * _MIB, "t": 1024 * 1024 * _MIB}
_DEFAULT_MEMORY = "1g"
_NOT_JVM = ("Python", "R")
_OF_POD = ("nodeSelector", "tolerations")
_WORDS = ("labels", "annotations")
_ENDED = {"COMPLETED": "Complete", "FAILED": "Failed", "SUBMISSION_FAILED": "Failed"}
_AGAIN = ("OnFailure", "Always")


@dataclass(frozen=True, slots=True)
class SparkApplications:
    """The implementation of `job_kinds.form.Framework` for SparkApplication."""

    kind: Kind = field(
        default=Kind(
            group="sparkoperator.k8s.io", version="v1beta2", plural="sparkapplications", name="SparkApplication"
        ),
        init=False,
    )
    suspend: tuple[str, ...] = field(default=("suspend",), init=False)

    def roles(self, obj: Object, made: Object | None = None) -> list[str]:
        spec = obj.get("spec") or {}
        return [_DRIVER, _EXECUTOR] if _executors(spec) else [_DRIVER] if spec else []

    def role_of(self, labels: Mapping[str, str]) -> str:
        return str(labels.get("spark-role") or "")

    def view(self, obj: Object, role: str, made: Object | None = None) -> Object:
        spec = obj["spec"]
        return as_job(
            obj,
            role,
            roles=self.roles(obj),
            count=_executors(spec) if role == _EXECUTOR else 1,
            template=_template(spec, role),
            suspended=spec.get("suspend"),
            words={LATER: "true"} if role == _EXECUTOR else {},
            status=_status(obj),
        )

    def edit(self, spec: Object, role: str, patch: Object) -> Object:
        found = {**spec, **({"suspend": patch["suspend"]} if "suspend" in patch else {})}
        template = patch.get("template") or {}
        pod, meta = template.get("spec") or {}, template.get("metadata") or {}
        change = {name: pod[name] for name in _OF_POD if name in pod}
        change |= {name: meta[name] for name in _WORDS if name in meta}
        if "schedulingGates" in pod:
            change["template"] = {"spec": {"schedulingGates": pod["schedulingGates"]}}
        return patched(found, {role: change}) if change else found


SPARK = SparkApplications()


def _executors(spec: Object) -> int:
    return int((spec.get(_EXECUTOR) or {}).get("instances") or 0)


def _template(spec: Object, role: str) -> Object:
    said = spec.get(role) or {}
    inner = said.get("template") or {}
    own = inner.get("spec") or {}
    requests = {"cpu": str(said.get("coreRequest") or said.get("cores") or 1), "memory": str(_memory(spec, said))}
    if gpu := said.get("gpu"):
        requests[str(gpu["name"])] = str(gpu["quantity"])
    container = {"name": f"spark-kubernetes-{role}", "resources": {"requests": requests}}
    pod: Object = {**own, "containers": [container]}
    pod["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **(said.get("nodeSelector") or {})} or None
    names = ("tolerations", "affinity", "schedulerName", "priorityClassName")
    pod |= {name: said[name] for name in names if said.get(name)}
    meta = inner.get("metadata") or {}
    return {"metadata": {name: {**(meta.get(name) or {}), **(said.get(name) or {})} for name in _WORDS}, "spec": pod}


def _memory(spec: Object, said: Object) -> int:
    """Return the memory request of one pod in bytes. Raise ValueError if a size is invalid."""
    asked = _bytes(str(said.get("memory") or _DEFAULT_MEMORY))
    if overhead := said.get("memoryOverhead"):
        return asked + _bytes(str(overhead))
    factor = float(spec.get("memoryOverheadFactor") or (0.4 if spec.get("type") in _NOT_JVM else 0.1))
    return asked + max(_LEAST_OVERHEAD_BYTES, ceil(asked * factor))


def _bytes(text: str) -> int:
    found = re.fullmatch(r"\s*(\d{1,15})([bkmgt]?)(?:b|i|ib)?\s*", text.lower())
    if found is None:
        raise ValueError(f"{text[:40]!r} is not an amount of memory in Java's form: write for instance 512m or 2g")
    return int(found[1]) * _JAVA[found[2]]


def _status(obj: Object) -> Object:
    state = str(((obj.get("status") or {}).get("applicationState") or {}).get("state") or "")
    again = (obj["spec"].get("restartPolicy") or {}).get("type") in _AGAIN
    if state not in _ENDED or (state == "SUBMISSION_FAILED" and again):
        return {}
    return {"conditions": [{"type": _ENDED[state], "status": "True"}]}
