"""A cluster of a few objects, as phalanx doctor reads it."""

from __future__ import annotations

from typing import Any

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import Kind


class Cluster(Connection):
    """A cluster of these objects, by kind and name."""

    def __init__(self, *objects: tuple[Kind, str, dict[str, Any]]) -> None:
        super().__init__("http://nowhere.invalid", headers={}, tls=None)
        self.objects = {(kind, name): obj for kind, name, obj in objects}

    async def get(self, kind: Kind, name: str, namespace: str = "") -> dict[str, Any]:
        if (kind, name) not in self.objects:
            raise ApiRefusal(404, "NotFound", f"{name} not found")
        return self.objects[kind, name]

    async def list(self, kind: Kind, namespace: str = "", **params: str) -> dict[str, Any]:
        return {"items": [obj for (one, _), obj in self.objects.items() if one is kind]}
