"""Limits on the namespace of a user: a ResourceQuota and a LimitRange, written at the user's first login. After that,
admins may change them.

The quota is needed because the objects of one user use resources that all users share. Every object uses memory and
disk of the API server. A service uses an address, a listening port for each of its ports, and a line in the hosts file
of every pod. The cluster has few node ports. A pod uses one of the node's pod slots, however little it requests. So a
pod without requests gets the share of one slot as its request, and no pod may request less. If a user fills all slots
of a node, the user's pods then request all of the node's cpu."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import NODES, Kind
from phalanx.client.quantity import QuantityError, amount, parse
from phalanx.errors import PhalanxError

DEFAULT: Mapping[str, str] = {
    "phalanx.dev/objects": "20k",
    "phalanx.dev/bytes": "128Mi",
    "count/events": "20k",
    "services": "100",
    "services.nodeports": "20",
}
_QUOTAS = Kind(plural="resourcequotas", name="ResourceQuota")
_RANGES = Kind(plural="limitranges", name="LimitRange")
_NAME, _SYSTEM, _FORBIDDEN, _NOT_FOUND = "phalanx", "kube-system", 403, 404


def parse_quota(text: str) -> dict[str, str]:
    """Return the default quota with the changes that `text` states, such as `pods=100,phalanx.dev/objects=50k`. Raises
    PhalanxError."""
    found = dict(DEFAULT)
    for part in text.split(","):
        name, _, said = part.partition("=")
        try:
            parse(said)
        except QuantityError as error:
            raise PhalanxError(
                f"--user-quota {text!r}: {part!r} is not understood: {error}. Nothing was started. Write "
                "NAME=AMOUNT,NAME=AMOUNT as in `kubectl create quota --hard`, for example "
                "phalanx.dev/objects=50k,pods=100."
            ) from error
        found[name] = said
    return found


async def require_quota(api: Connection, quota: Mapping[str, str]) -> None:
    """Check the quota by a dry run at the API server, before the first user logs in. Raises PhalanxError, ApiError."""
    try:
        await api.request("POST", _QUOTAS.path(_SYSTEM), body=_object(quota), params={"dryRun": "All"})
    except ApiRefusal as error:
        raise PhalanxError(f"--user-quota: {error.message}. Correct it and start again.") from error


async def limit_system_priorities(api: Connection) -> None:
    """Allow the system's priority classes only in namespaces with a quota for these classes, for example kube-system.
    Raises ApiError."""
    names = ["system-node-critical", "system-cluster-critical"]
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": names}]}
    spec = {"hard": {"pods": "1G"}, "scopeSelector": selector}
    body = {"apiVersion": "v1", "kind": _QUOTAS.name, "metadata": {"name": "critical-pods"}, "spec": spec}
    try:
        await api.create(_QUOTAS, body, _SYSTEM)
    except ApiRefusal as error:
        if error.reason != "AlreadyExists":
            raise


async def give_quota(api: Connection, namespace: str, quota: Mapping[str, str]) -> None:
    """Create the ResourceQuota and the LimitRange, unless the namespace already has objects with these names. Raises
    ApiError."""
    if await _lacks(api, _RANGES, namespace) and (share := slot_share((await api.list(NODES))["items"])):
        try:
            await api.create(_RANGES, _range(share), namespace)
        except ApiRefusal as error:  # namespace is full: a later login tries again
            if error.code != _FORBIDDEN:
                raise
    if await _lacks(api, _QUOTAS, namespace):
        await api.create(_QUOTAS, _object(quota), namespace)


async def _lacks(api: Connection, kind: Kind, namespace: str) -> bool:
    """Return True if the namespace does not have the object of this kind. Raises ApiError."""
    try:
        await api.get(kind, _NAME, namespace)
    except ApiRefusal as error:
        if error.code != _NOT_FOUND:
            raise
        return True
    return False


def slot_share(nodes: Iterable[Object]) -> dict[str, str]:
    """Return the cpu and the memory for each pod slot. The node with the smallest amount per slot determines the
    result, for cpu and for memory separately. Return an empty mapping if there are no nodes."""
    offered = [found for one in nodes if (found := (one.get("status") or {}).get("allocatable") or {}).get("pods")]
    shares = [(amount("cpu", one["cpu"]), amount("memory", one["memory"]), int(one["pods"])) for one in offered]
    if not shares:
        return {}
    milli, size_bytes = (min(one[at] // max(1, one[2]) for one in shares) for at in (0, 1))
    return {"cpu": f"{max(1, milli)}m", "memory": f"{max(1, size_bytes >> 20)}Mi"}


def _range(share: Mapping[str, str]) -> Object:
    limits = [
        {"type": "Container", "defaultRequest": dict(share)},
        {"type": "Pod", "min": {"cpu": share["cpu"]}},
    ]
    return {"apiVersion": "v1", "kind": _RANGES.name, "metadata": {"name": _NAME}, "spec": {"limits": limits}}


def _object(quota: Mapping[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": _QUOTAS.name, "metadata": {"name": _NAME}, "spec": {"hard": dict(quota)}}
