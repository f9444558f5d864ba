"""Read the API objects that the start of a container needs: ConfigMaps, Secrets and tokens of service accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import SERVICE_ACCOUNTS, Kind
from phalanx.embedded.node.pod.environment import EnvironmentFault

_TOKEN_S = 3607  # the lifetime of tokens, as in Kubernetes' admission plugin


@dataclass(frozen=True, slots=True)
class ApiObjects:
    """Reads API objects over the connection of the node."""

    connection: Connection

    async def look_up(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Return a ConfigMap or Secret; None if it does not exist. Raises ApiError."""
        try:
            return await self.connection.get(kind, name, namespace)
        except ApiRefusal as error:
            if error.code == 404:
                return None
            raise

    async def token(self, namespace: str, account: str, source: Mapping[str, object]) -> str:
        """Request a token of a service account (TokenRequest API), and return it. Raises ApiError, EnvironmentFault."""
        spec: dict[str, Any] = {"expirationSeconds": source.get("expirationSeconds") or _TOKEN_S}
        if source.get("audience"):
            spec["audiences"] = [source["audience"]]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self.connection.create(SERVICE_ACCOUNTS, body, namespace, "token", account)
        token = (answer.get("status") or {}).get("token")
        if not token:
            raise EnvironmentFault(f"the API server gave no token for service account {namespace}/{account}")
        return str(token)
