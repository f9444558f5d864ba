"""svc: a headless Service of the job's name, so that its pods have names, and the names as files and variables.

ConfigMap `<job>-svc`, mounted at /etc/volcano, has for each task T (`-` as `_`) `T.host`, one host a line, and the keys
`VC_<T>_HOSTS` (comma separated) and `VC_<T>_NUM`, which every container has as variables too. A NetworkPolicy lets only
the job's own pods in. Source: pkg/controllers/job/plugins/svc of Volcano v1.15.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.kind import CONFIG_MAPS, SERVICES, Kind
from phalanx.embedded.controllers.operators.volcano.job_spec import JobSpec
from phalanx.embedded.controllers.operators.volcano.kinds import JOB_NAME, JOB_NAMESPACE, NETWORK_POLICIES
from phalanx.embedded.controllers.operators.volcano.plugins.flags import read_flags
from phalanx.embedded.controllers.operators.volcano.plugins.hosts import hosts

_MOUNT = "/etc/volcano"
_DEFAULTS: dict[str, str | int | bool] = {"publish-not-ready-addresses": False, "disable-network-policy": False}


def service_objects(job: JobSpec, arguments: Sequence[str]) -> Iterator[tuple[Kind, Object]]:
    """Yield the further objects of the job, without owner references."""
    said, own = read_flags(arguments, _DEFAULTS), {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace}
    spec: dict[str, Any] = {"clusterIP": "None", "selector": own}
    if said["publish-not-ready-addresses"]:
        spec["publishNotReadyAddresses"] = True
    yield CONFIG_MAPS, {"metadata": {"name": f"{job.name}-svc"}, "data": host_data(job)}
    yield SERVICES, {"metadata": {"name": job.name}, "spec": spec}
    if not said["disable-network-policy"]:
        chosen = {"matchLabels": own}
        rule = {"podSelector": chosen, "ingress": [{"from": [{"podSelector": chosen}]}], "policyTypes": ["Ingress"]}
        yield NETWORK_POLICIES, {"metadata": {"name": job.name}, "spec": rule}


def host_data(job: JobSpec) -> dict[str, str]:
    """Return the data of the ConfigMap."""
    found = {}
    for task in job.tasks:
        name, listed = task.name.replace("-", "_"), hosts(job, task)
        found[f"{name}.host"] = "\n".join(listed)
        found[f"VC_{name.upper()}_HOSTS"] = ",".join(listed)
        found[f"VC_{name.upper()}_NUM"] = str(task.replicas)
    return found


def join_service(job: JobSpec, pod: Object) -> None:
    """Give the pod its host name in the Service, the mounted host files, and the variables."""
    spec, config = pod["spec"], f"{job.name}-svc"
    if not spec.get("hostname"):
        spec["hostname"] = pod["metadata"]["name"]
    if not spec.get("subdomain"):
        spec["subdomain"] = job.name
    variables = []
    for task in job.tasks:
        name = task.name.replace("-", "_").upper()
        for key in (f"VC_{name}_HOSTS", f"VC_{name}_NUM"):
            variables.append({"name": key, "valueFrom": {"configMapKeyRef": {"name": config, "key": key}}})
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        container["env"] = [*(container.get("env") or ()), *variables]
        mounts = container.get("volumeMounts") or []
        container["volumeMounts"] = [*mounts, {"name": config, "mountPath": _MOUNT}]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": config, "configMap": {"name": config}}]
