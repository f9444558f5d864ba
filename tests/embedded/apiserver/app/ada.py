"""The user ada, who has only the rights that a scene grants."""

from __future__ import annotations

from typing import Any

from phalanx.embedded.apiserver.auth.authentication import token_of
from phalanx.embedded.apiserver.transport.request import Response
from tests.embedded.apiserver.inprocess import InProcess

SPACE = "/api/v1/namespaces/default"
MAPS, LEASES = f"{SPACE}/configmaps", "/apis/coordination.k8s.io/v1/namespaces/default/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE, APPLY, JSON_PATCH = (
    f"application/{word}" for word in ("merge-patch+json", "apply-patch+yaml", "json-patch+json")
)


def as_ada(server: InProcess) -> InProcess:
    return InProcess(server.api, token_of(server.api.settings.tokens, "ada"))


async def grant(server: InProcess, name: str, *rules: dict[str, Any], namespace: str = "default") -> None:
    """Give ada these rights in the namespace; "" for the whole cluster."""
    kind = "Role" if namespace else "ClusterRole"
    space = f"/namespaces/{namespace}" if namespace else ""
    await server.make(f"{RBAC}{space}/{kind.lower()}s", {"metadata": {"name": name}, "rules": list(rules)})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}]
    body = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
    await server.make(f"{RBAC}{space}/{kind.lower()}bindings", body)


def rule(resource: str, *verbs: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}


async def answered(server: InProcess, method: str, path: str, **headers: str) -> Response:
    request = server.request(method, path)
    request.headers.update({name.replace("_", "-").encode(): text.encode() for name, text in headers.items()})
    return await server.api(request)
