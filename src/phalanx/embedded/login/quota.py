"""What the namespace of a user may hold: a ResourceQuota, written when he logs in and has none, and the admin's since.

What one user stores costs all: memory and disk of the API server for every object and byte of it, and for a service an
address, a listening port for each of its own, and a line in every pod's hosts file.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import Kind
from phalanx.client.quantity import QuantityError, parse
from phalanx.errors import PhalanxError

DEFAULT: Mapping[str, str] = {
    "phalanx.dev/objects": "20k",
    "phalanx.dev/bytes": "128Mi",
    "count/events": "20k",
    "services": "100",
}
_QUOTAS = Kind(plural="resourcequotas", name="ResourceQuota")
_NAME, _SYSTEM, _NOT_FOUND = "phalanx", "kube-system", 404


def parse_quota(text: str) -> dict[str, str]:
    """Return the default quota with the amounts of `pods=100,phalanx.dev/objects=50k`. Raises PhalanxError."""
    found = dict(DEFAULT)
    for part in text.split(","):
        name, _, amount = part.partition("=")
        try:
            parse(amount)
        except QuantityError as error:
            raise PhalanxError(
                f"--user-quota {text!r}: {part!r} is not understood: {error}. Nothing was started. Write "
                "NAME=AMOUNT,NAME=AMOUNT as for `kubectl create quota --hard`, for instance "
                "phalanx.dev/objects=50k,pods=100."
            ) from error
        found[name] = amount
    return found


async def require_quota(api: Connection, quota: Mapping[str, str]) -> None:
    """Have the server look at it before the first user logs in. Raises PhalanxError, ApiError."""
    try:
        await api.request("POST", _QUOTAS.path(_SYSTEM), body=_object(quota), params={"dryRun": "All"})
    except ApiRefusal as error:
        raise PhalanxError(f"--user-quota: {error.message}. Correct it and start again.") from error


async def limit_system_priorities(api: Connection) -> None:
    """Leave the system's priority classes to namespaces with a quota for them, of which kube-system is one. Raises
    ApiError."""
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
    """Limit the namespace, unless it has this quota, whatever it says. Raises ApiError."""
    try:
        await api.get(_QUOTAS, _NAME, namespace)
    except ApiRefusal as error:
        if error.code != _NOT_FOUND:
            raise
        await api.create(_QUOTAS, _object(quota), namespace)


def _object(quota: Mapping[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": _QUOTAS.name, "metadata": {"name": _NAME}, "spec": {"hard": dict(quota)}}
