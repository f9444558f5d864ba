"""What a new cluster has from the start: its namespaces and the system priority classes."""

from __future__ import annotations

from typing import Any

from phalanx.embedded.apiserver.resource import User
from phalanx.embedded.apiserver.routing import Registry, Target
from phalanx.embedded.apiserver.status import ApiError
from phalanx.embedded.apiserver.write import Intent, Writer

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_SELF = User(name="system:apiserver", groups=("system:masters",))
_PRIORITIES = {
    "system-node-critical": (
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2000000000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}


async def furnish(writer: Writer, registry: Registry) -> None:
    """Create what is missing. Does nothing to a cluster that has it all."""
    for name in NAMESPACES:
        await _ensure(writer, registry, "", "namespaces", "", {"metadata": {"name": name}})
    for name, (value, description) in _PRIORITIES.items():
        obj = {"metadata": {"name": name}, "value": value, "description": description}
        await _ensure(writer, registry, "scheduling.k8s.io", "priorityclasses", "", obj)


async def _ensure(
    writer: Writer, registry: Registry, group: str, plural: str, namespace: str, obj: dict[str, Any]
) -> None:
    resource = registry.any_version(group, plural)
    if resource is None:
        return
    try:
        intent = Intent(user=_SELF, manager="kube-apiserver")
        await writer.create(Target(resource=resource, namespace=namespace), obj, intent)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
