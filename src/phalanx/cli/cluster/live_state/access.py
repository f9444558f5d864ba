"""Find out which namespaces the user may list."""

from __future__ import annotations

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.errors import PhalanxError

_ACCESS = Kind(
    group="authorization.k8s.io", plural="selfsubjectaccessreviews", name="SelfSubjectAccessReview", namespaced=False
)


async def seen_namespace(connection: Connection, namespace: str) -> str:
    """Return "" if the user may list the jobs of all namespaces; otherwise `namespace`. Raises PhalanxError if the user
    may list neither."""
    if await may_see(connection, ""):
        return ""
    if namespace and await may_see(connection, namespace):
        return namespace
    raise PhalanxError(
        f"you may list jobs neither in all namespaces nor in {namespace or 'the named one'}. Nothing "
        "was shown. Name a namespace whose jobs you may list with -n."
    )


async def may_see_all(connection: Connection) -> bool:
    """Return True if the user may list the jobs of all namespaces, or if the server does not serve access reviews."""
    return await may_see(connection, "")


async def may_list(connection: Connection, namespace: str) -> bool:
    """Return True if this user may list the pods and the Jobs of the namespace ("": of all namespaces). Raises
    ApiError."""
    for kind in (PODS, JOBS):
        what = {"verb": "list", "group": kind.group, "resource": kind.plural, "namespace": namespace}
        body = {"apiVersion": _ACCESS.api_version, "kind": _ACCESS.name, "spec": {"resourceAttributes": what}}
        if (((await connection.create(_ACCESS, body)).get("status")) or {}).get("allowed") is not True:
            return False
    return True


async def may_see(connection: Connection, namespace: str) -> bool:
    """Return the result of `may_list`. If the server does not serve access reviews, return True, so that the caller
    tries to list the objects."""
    try:
        return await may_list(connection, namespace)
    except ApiRefusal:
        return True
