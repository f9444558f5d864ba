"""An API server's objects in memory, as Slurm's commands read and write them."""

from __future__ import annotations

import json
from typing import Any

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.slurm.cluster.api import ApiClient, RequestRefused


class FakeApi(ApiClient):
    """`objects`: path -> object. `stale`: how many of the next writes find that another writer was first."""

    def __init__(self, objects: dict[str, Any] | None = None, stale: int = 0) -> None:
        super().__init__(KubeconfigCluster(server="http://api"), KubeconfigUser())
        self.objects, self.stale = dict(objects or {}), stale

    def call(self, method: str, path: str, body: Any = None, kind: str = "", accept: str = "", **query: str) -> bytes:
        if path not in self.objects:
            raise RequestRefused(404, "not found")
        return json.dumps(self.objects[path]).encode()

    def find(self, path: str) -> Any:
        return self.objects.get(path)

    def create(self, path: str, body: Any) -> Any:
        self._require_fresh()
        self.objects[f"{path}/{body['metadata']['name']}"] = body
        return body

    def replace(self, path: str, body: Any) -> Any:
        self._require_fresh()
        self.objects[path] = body
        return body

    def patch(self, path: str, body: Any) -> Any:
        self._require_fresh()
        for part, values in body.items():
            self.objects[path][part] = {**self.objects[path].get(part, {}), **values}
        return self.objects[path]

    def delete(self, path: str, **query: str) -> None:
        del self.objects[path]

    def _require_fresh(self) -> None:
        if self.stale:
            self.stale -= 1
            raise RequestRefused(409, "the object has been modified")
