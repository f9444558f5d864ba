"""Add hosts, key and remote shell to TrainJobs whose training runtime has the `mlPolicy` `mpi` (Open MPI, and DeepSpeed
and MLX over Open MPI).

The replicated job `launcher` runs mpirun, and the ranks run in the replicated job `node`. With `runLauncherAsNode`,
ranks run in the launcher as well. The pods of both replicated jobs have the job's key for ssh; the launcher also has
the list of hosts. In containers with the image `host`, `mpi_job.remote_shell` replaces ssh.

Source: Kubeflow Trainer v2.3, pkg/runtime/framework/plugins/mpi and pkg/constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.kind import CONFIG_MAPS, SECRETS, Kind
from phalanx.client.quantity import QuantityError, whole
from phalanx.embedded.controllers.operators.job_set.jobs import owner, replicated_jobs
from phalanx.embedded.controllers.operators.mpi_job.objects import (
    CONFIG_AT,
    KEY_ITEMS,
    SERVES,
    SINGLE_MACHINE,
    SSH_AT,
    on_this_machine,
    programs,
    secret_data,
    variables,
)

LAUNCHER, NODE = "launcher", "node"  # the names of the replicated jobs, and of their containers
_HOSTFILE = "hostfile"
_MOST_NODES = 10_000


class Unsupported(ValueError):
    """Raised if a policy requests a feature that is not supported. The message names a solution."""


def node_count(policy: Mapping[str, object], said: Mapping[str, Any]) -> int | None:
    """Return the number of pods of the replicated job `node`; None if the number in the runtime applies. `said`: the
    field `trainer` of the TrainJob."""
    if said.get("numNodes") is None:
        return None
    nodes = int(said["numNodes"])
    return max(nodes - 1, 1) if policy.get("runLauncherAsNode") else nodes


def check(policy: Mapping[str, object], said: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise Unsupported if the policy cannot be applied. `names`: the names of the runtime's replicated jobs."""
    kind = policy.get("mpiImplementation") or "OpenMPI"
    if kind != "OpenMPI":
        raise Unsupported(f"mlPolicy.mpi.mpiImplementation {kind} is not supported: only OpenMPI is; name that")
    several = int(said.get("numNodes") or 1) >= 2 and policy.get("runLauncherAsNode")
    if several and not {LAUNCHER, NODE} <= set(names):
        raise Unsupported(
            f"trainer.numNodes {said['numNodes']} with runLauncherAsNode needs a runtime with the replicated jobs "
            f"{LAUNCHER} and {NODE}: name another runtime, or 1"
        )


def tell(job: Object, policy: Mapping[str, object], said: Mapping[str, Any], parts: Mapping[str, Object]) -> None:
    """Add the key, the hosts and the variables to the pod templates of the launcher and the nodes."""
    slots = _slots(policy, said, _first(parts))
    for name, pod in _pods(parts):
        here = any(on_this_machine(container) for container in _members(pod))
        _put(pod, "volumes", *_volumes(job, with_hosts=name == LAUNCHER or here, here=here))
        for container in _members(pod):
            _mount(job, policy, container, is_launcher=name == LAUNCHER)
            if name == LAUNCHER:
                told = _open_mpi(slots) | (SINGLE_MACHINE if on_this_machine(container) else {})
                env = [{"name": key, "value": value} for key, value in told.items()]
                _put(container, "env", *env, *(said.get("env") or ()))


def companions(job: Object, policy: Mapping[str, object], job_set: Object) -> list[tuple[Kind, Object]]:
    """Return the Secret and the ConfigMap that the pods of the TrainJob's JobSet mount."""
    said, parts = job["spec"].get("trainer") or {}, {str(one["name"]): one for one in replicated_jobs(job_set)}
    subdomain = str((job_set["spec"].get("network") or {}).get("subdomain") or job["metadata"]["name"])
    slots = _slots(policy, said, _first(parts))
    where = (LAUNCHER, NODE) if policy.get("runLauncherAsNode") else (NODE,)
    found = (host for name, part in parts.items() if name in where for host in _hosts(job, part, subdomain))
    here = any(on_this_machine(container) for _, pod in _pods(parts) for container in _members(pod))
    data = {_HOSTFILE: "".join(f"{host} slots={slots}\n" for host in found)} | (programs() if here else {})
    secret = {"type": "kubernetes.io/ssh-auth", "immutable": True, "data": secret_data()}
    return [
        (SECRETS, {**_head(job, "Secret", _secret_name(job)), **secret}),
        (CONFIG_MAPS, {**_head(job, "ConfigMap", _config_name(job)), "data": data}),
    ]


# --- internal ---------------------------------------------------------------------------------------------------------


def _head(job: Object, kind: str, name: str) -> Object:
    meta = {"name": name, "namespace": job["metadata"]["namespace"], "ownerReferences": [owner(job)]}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta}


def _secret_name(job: Object) -> str:
    return f"{job['metadata']['name']}-mpi-ssh-auth"


def _config_name(job: Object) -> str:
    return f"{job['metadata']['name']}-mpi-hostfile"


def _pods(parts: Mapping[str, Object]) -> Iterator[tuple[str, Object]]:
    for name in (LAUNCHER, NODE):
        spec = (parts[name]["template"].get("spec") or {}) if name in parts else {}
        if pod := (spec.get("template") or {}).get("spec"):
            yield name, pod


def _members(pod: Object) -> Iterator[Object]:
    for container in pod.get("containers") or ():
        if container["name"] in (LAUNCHER, NODE):
            yield container


def _first(parts: Mapping[str, Object]) -> Object:
    """Return the container whose resources determine the resources of one training node."""
    return next((container for _, pod in _pods(parts) for container in _members(pod)), {})


def _hosts(job: Object, part: Object, subdomain: str) -> Iterator[str]:
    """Yield the host names of the pods of a replicated job. Raises ValueError if there are more than `_MOST_NODES`."""
    name, nodes = job["metadata"]["name"], int((part["template"].get("spec") or {}).get("parallelism") or 1)
    if nodes > _MOST_NODES:
        raise ValueError(f"{nodes} nodes, but at most {_MOST_NODES} are allowed")
    for index in range(nodes):
        yield f"{name}-{part['name']}-0-{index}.{subdomain}"


def _slots(policy: Mapping[str, Any], said: Mapping[str, Any], container: Object) -> int:
    """Return the number of ranks in each pod of `node`: the configured number, or one for each GPU."""
    if said.get("numProcPerNode") is not None:
        return int(said["numProcPerNode"])
    found = int(policy.get("numProcPerNode") or 1)
    return max(_gpus(container), 1) if found == 1 else found


def _gpus(container: Object) -> int:
    asked = container.get("resources") or {}
    amounts = {**(asked.get("requests") or {}), **(asked.get("limits") or {})}
    try:
        return max((whole(amount) for name, amount in amounts.items() if "gpu" in name.lower()), default=0)
    except QuantityError as fault:
        raise Unsupported(f"the resources of container {container['name']}: {fault}") from None


def _open_mpi(slots: int) -> dict[str, str]:
    return {
        "OMPI_MCA_orte_default_hostfile": f"{CONFIG_AT}/{_HOSTFILE}",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": str(slots),
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }


def _volumes(job: Object, *, with_hosts: bool, here: bool) -> Iterator[Object]:
    key = {"secretName": _secret_name(job), "defaultMode": 0o640, "items": [*KEY_ITEMS]}
    yield {"name": "mpi-ssh-auth", "secret": key}
    if with_hosts:
        items = {"items": [{"key": _HOSTFILE, "path": _HOSTFILE, "mode": 0o444}]}
        hosts = {"name": _config_name(job), **({"defaultMode": 0o555} if here else items)}
        yield {"name": "mpi-hostfile", "configMap": hosts}


def _mount(job: Object, policy: Mapping[str, object], container: Object, *, is_launcher: bool) -> None:
    here = on_this_machine(container)
    if here:  # the .ssh folder of the user on this machine must not change
        _put(container, "env", *variables(_secret_name(job)))
        if not is_launcher and not container.get("command") and not container.get("args"):
            container["command"] = [*SERVES]
    else:
        at = policy.get("sshAuthMountPath") or SSH_AT
        _put(container, "volumeMounts", {"name": "mpi-ssh-auth", "mountPath": at}, key="mountPath")
    if is_launcher or here:
        _put(container, "volumeMounts", {"name": "mpi-hostfile", "mountPath": CONFIG_AT}, key="mountPath")


def _put(obj: Object, field: str, *more: Object, key: str = "name") -> None:
    """Add objects to the list `field` of `obj`. A new object replaces an object with the same name (or the same
    `key`)."""
    found = {one[key]: one for one in (*(obj.get(field) or ()), *more)}
    obj[field] = list(found.values())
