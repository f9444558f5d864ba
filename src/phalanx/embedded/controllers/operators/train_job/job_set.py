"""Build the JobSet of a TrainJob from the template of its training runtime, the settings of the TrainJob, and the
environment variables that frameworks such as torchrun read.

The replicated job whose template has the label `trainer.kubeflow.org/trainjob-ancestor-step: trainer` is the trainer.
Its container `node` runs the image and the command of the TrainJob. The PET_* variables give torchrun the number of its
pods and the address of the first pod. The module `mpi` adds the settings of Open MPI.

Source: Kubeflow Trainer v2.3, pkg/runtime/framework/plugins/{jobset,torch,mpi,plainml}.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.kind import JOB_SETS
from phalanx.embedded.controllers.operators.job_set.jobs import owner
from phalanx.embedded.controllers.operators.train_job.mpi import (
    LAUNCHER,
    NODE,
    Unsupported,
    check,
    node_count,
    tell,
)

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_CONTAINER = "node"
_PORT = "29400"
_POD = ("template", "spec", "template", "spec")
_RUNTIME = ("trainingRuntimeSpec", "template")


class RuntimeFault(ValueError):
    """Raised if the runtime lacks a part that the TrainJob needs. The message names a solution."""


def make_job_set(job: Object, runtime: Object) -> Object:
    """Return the JobSet of a TrainJob that uses this runtime. Raises RuntimeFault."""
    spec, policy = runtime["spec"], runtime["spec"].get("mlPolicy") or {}
    template = copy.deepcopy(spec.get("template") or {})
    inner = template.get("spec") or {}
    parts = {str(one["name"]): one for one in inner.get("replicatedJobs") or ()}
    trainer = next((one for one in parts.values() if _step(one) == "trainer"), None)
    said = job["spec"].get("trainer") or {}
    if trainer is None:
        raise RuntimeFault(
            f"the runtime {runtime['metadata']['name']} has no replicated job with the label {STEP}: trainer; give its "
            "trainer's template that label"
        )
    over_mpi = policy.get("mpi")
    nodes = int((said.get("numNodes") if over_mpi is None else None) or policy.get("numNodes") or 1)
    _size(trainer, nodes)
    for container in _containers(trainer, _names(over_mpi)):
        _say(container, said)
        _tell(container, _torch(job, policy["torch"], said, nodes, trainer) if "torch" in policy else {})
    for name, part in (("dataset-initializer", "dataset"), ("model-initializer", "model")):
        _initialise(parts, name, (job["spec"].get("initializer") or {}).get(part) or {})
    labels, notes = _patch(job, template, parts)
    if over_mpi is not None:
        _over_mpi(job, over_mpi, said, parts)
    meta = {
        "name": job["metadata"]["name"],
        "labels": {**((template.get("metadata") or {}).get("labels") or {}), **labels},
        "annotations": {**((template.get("metadata") or {}).get("annotations") or {}), **notes},
        "ownerReferences": [owner(job)],
    }
    order = [parts[str(one["name"])] for one in inner.get("replicatedJobs") or ()]
    full = {**inner, "replicatedJobs": order, "suspend": bool(job["spec"].get("suspend"))}
    return {"apiVersion": JOB_SETS.api_version, "kind": JOB_SETS.name, "metadata": meta, "spec": full}


def at(obj: Object, path: Sequence[str]) -> Any:
    """Return the value at the path; None if it does not exist."""
    found: Any = obj
    for name in path:
        found = (found or {}).get(name)
    return found


def patched(value: Object, patch: Object) -> Object:
    """Return the value after a merge patch (RFC 7396)."""
    found = dict(value)
    for key, new in patch.items():
        if new is None:
            found.pop(key, None)
        elif isinstance(new, dict):
            old = found.get(key)
            found[key] = patched(old if isinstance(old, dict) else {}, new)
        else:
            found[key] = new
    return found


def _step(part: Object) -> str:
    return str((at(part, ("template", "metadata", "labels")) or {}).get(STEP) or "")


def _size(trainer: Object, nodes: int) -> None:
    spec = trainer["template"].setdefault("spec", {})
    spec |= {"parallelism": nodes, "completions": nodes}


def _names(over_mpi: Mapping[str, object] | None) -> tuple[str, ...]:
    """Return the names of the containers that run the command of the TrainJob. `over_mpi`: the MPI policy of the
    runtime; None: it has none."""
    return (_CONTAINER, LAUNCHER) if over_mpi is not None and over_mpi.get("runLauncherAsNode") else (_CONTAINER,)


def _over_mpi(
    job: Object, policy: Mapping[str, object], said: Mapping[str, object], parts: Mapping[str, Object]
) -> None:
    try:
        check(policy, said, parts)
        count = node_count(policy, said)
        if count is not None and NODE in parts:
            _size(parts[NODE], count)
        tell(job, policy, said, parts)
    except Unsupported as fault:
        raise RuntimeFault(str(fault)) from None


def _containers(part: Object, names: Sequence[str]) -> Iterator[Object]:
    for container in (at(part, _POD) or {}).get("containers") or ():
        if container.get("name") in names:
            yield container


def _say(container: Object, said: Mapping[str, Any]) -> None:
    """Set image, command, arguments and resources of the trainer's container to the values in the TrainJob, and merge
    the environment variables."""
    for field in ("image", "command", "args"):
        if said.get(field):
            container[field] = said[field]
    if said.get("resourcesPerNode"):
        container["resources"] = said["resourcesPerNode"]
    _merge_env(container, said.get("env") or ())


def _tell(container: Object, env: Mapping[str, Any]) -> None:
    _merge_env(container, [{"name": name, **value} for name, value in env.items()])


def _merge_env(container: Object, more: Sequence[Object]) -> None:
    names = {one["name"] for one in more}
    kept = [one for one in container.get("env") or () if one["name"] not in names]
    if kept or more:
        container["env"] = [*kept, *more]


def _torch(
    job: Object, policy: Mapping[str, object], said: Mapping[str, object], nodes: int, trainer: Object
) -> dict[str, Any]:
    """Return the environment variables that contain torchrun's settings (torch.distributed.run)."""
    processes = said.get("numProcPerNode") or policy.get("numProcPerNode") or "auto"
    name = job["metadata"]["name"]
    rank = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    return {
        "PET_NNODES": {"value": str(nodes)},
        "PET_NPROC_PER_NODE": {"value": str(processes)},
        "PET_NODE_RANK": {"valueFrom": rank},
        "PET_MASTER_ADDR": {"value": f"{name}-{trainer['name']}-0-0.{name}"},
        "PET_MASTER_PORT": {"value": _PORT},
    }


def _initialise(parts: Mapping[str, Object], step: str, said: Mapping[str, Any]) -> None:
    """Set the environment variables of an initializer, which fetches the data set or the model. The variables name the
    source to fetch. `step`: the step of the initializer. `said`: the settings in the TrainJob."""
    part = next((one for one in parts.values() if _step(one) == step), None)
    env = list(said.get("env") or ())
    if said.get("storageUri"):
        env.append({"name": "STORAGE_URI", "value": said["storageUri"]})
    for container in _containers(part, (step,)) if part is not None else ():
        _merge_env(container, env)
        if said.get("secretRef"):
            container["envFrom"] = [*(container.get("envFrom") or ()), {"secretRef": said["secretRef"]}]


def _patch(job: Object, template: Object, parts: dict[str, Object]) -> tuple[dict[str, str], dict[str, str]]:
    """Apply the `runtimePatches` in their order. Return labels and annotations for the JobSet."""
    labels: dict[str, str] = {}
    notes: dict[str, str] = {}
    for entry in job["spec"].get("runtimePatches") or ():
        said = at(entry, _RUNTIME) or {}
        labels |= (said.get("metadata") or {}).get("labels") or {}
        notes |= (said.get("metadata") or {}).get("annotations") or {}
        for one in (said.get("spec") or {}).get("replicatedJobs") or ():
            if one["name"] not in parts:
                raise RuntimeFault(f"runtimePatches name the replicated job {one['name']}, which the runtime lacks")
            parts[one["name"]] = _patched_part(parts[one["name"]], one)
    return labels, notes


def _patched_part(part: Object, change: Object) -> Object:
    """Return a patched pod template. Containers are merged by name; all other lists are replaced by the lists of the
    patch."""
    pod = at(change, _POD) or {}
    by_name = {}
    for kind in ("containers", "initContainers"):
        if kind in pod:
            there = {one["name"]: one for one in (at(part, _POD) or {}).get(kind) or ()}
            for one in pod[kind]:
                there[one["name"]] = _patched_container(there.get(one["name"], {}), one)
            by_name[kind] = list(there.values())
    found = patched(part, change)
    if by_name:
        found = patched(found, {"template": {"spec": {"template": {"spec": by_name}}}})
    return found


def _patched_container(container: Object, change: Object) -> Object:
    found = patched(container, {name: value for name, value in change.items() if name != "env"})
    _merge_env(found, change.get("env") or ())
    return found
