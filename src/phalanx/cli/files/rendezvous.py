"""Let the pods of one job find each other: set their host names, and the environment variables that torchrun and
`torch.distributed` read.

Pod 3 of the Job `train` is `train-3.train`: an Indexed Job gives its pods the host name NAME-INDEX, and a headless
Service with the Job's name is their domain. The Job owns the Service, so the Service is deleted together with the Job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from phalanx.client.connection import Object

_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_NAME_CHARS = 63
# Programs often listen on all addresses of a machine, so two jobs on one machine must use different ports. The range
# ends below 32768, because the kernel uses higher ports for outgoing connections (ip(7)).
_PORTS = range(20_000, 30_000)
_VARIABLES = frozenset(
    {
        *("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NPROC_PER_NODE"),
    }
)


def add_rendezvous(job: Object, chance: int, gpus: int = 0) -> None:
    """Add host names and environment variables to the pods of an Indexed Job. `chance`: a random number, which
    determines the port. `gpus`: the number of GPUs of each pod; torchrun starts one process for each GPU."""
    name, spec = job["metadata"]["name"], job["spec"]
    template = spec["template"]["spec"]
    template["subdomain"] = domain = _domain(name)
    address, port = f"{name}-0.{domain}", str(_PORTS[chance % len(_PORTS)])
    own = [
        {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}},
        {"name": "WORLD_SIZE", "value": str(spec["parallelism"])},
        {"name": "MASTER_ADDR", "value": address},
        {"name": "MASTER_PORT", "value": port},
        {"name": "PET_NNODES", "value": str(spec["parallelism"])},
        {"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}},
        {"name": "PET_MASTER_ADDR", "value": address},
        {"name": "PET_MASTER_PORT", "value": port},
    ]
    if gpus > 1:
        own.append({"name": "PET_NPROC_PER_NODE", "value": str(gpus)})
    # the variables of the user come later in the list, so they override these variables
    for container in template["containers"]:
        container["env"] = [*own, *(container.get("env") or ())]


def has_rendezvous(job: Object) -> bool:
    """Return True if `add_rendezvous` was called for the Job."""
    name, template = job["metadata"].get("name", ""), job["spec"]["template"]["spec"]
    addresses = {one.get("value") for one in _environment(template) if one.get("name") == "MASTER_ADDR"}
    return bool(name) and template.get("subdomain") == _domain(name) and f"{name}-0.{_domain(name)}" in addresses


def rename(job: Object, name: str) -> None:
    """Rename the Job, and change the host names and addresses of its pods to match the new name."""
    meets, before = has_rendezvous(job), job["metadata"]["name"]
    job["metadata"]["name"] = name
    if not meets:
        return
    template = job["spec"]["template"]["spec"]
    template["subdomain"] = _domain(name)
    old, new = f"{before}-0.{_domain(before)}", f"{name}-0.{_domain(name)}"
    for one in _environment(template):
        if one.get("name") in _VARIABLES and one.get("value") == old:
            one["value"] = new


def service_of(job: Object) -> Object:
    """Return the headless Service of the Job. If the Job exists already (has a uid), the Service gets an owner
    reference to it."""
    meta = job["metadata"]
    own: dict[str, Any] = {"name": _domain(meta["name"])}
    if meta.get("namespace"):
        own["namespace"] = meta["namespace"]
    if uid := meta.get("uid"):
        own["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": uid}]
    spec = {
        "clusterIP": "None",
        "selector": {"batch.kubernetes.io/job-name": meta["name"]},
        "publishNotReadyAddresses": True,  # pods can find each other while they start
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": own, "spec": spec}


def _environment(template: Object) -> Iterator[Object]:
    for container in template.get("containers") or ():
        yield from container.get("env") or ()


def _domain(name: str) -> str:
    """Return the name of the Job's Service. If the Job's name begins with a digit, it gets a prefix, because names of
    Services begin with a letter."""
    return name if name[:1].isalpha() else f"j-{name}"[:_NAME_CHARS].rstrip("-")
