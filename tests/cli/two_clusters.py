"""Both clusters of a move, in memory."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from phalanx.cli.submission.moving.ends import Ends
from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import Kind
from tests.kube.double import merge

Object = dict[str, Any]


class Server:
    """An API server with the rules of uids and resourceVersions. `writes`: what was written, in order, as `VERB
    KIND/NAME`. `before`: called before each write, and may change objects or raise. `unserved`: kinds that it does not
    serve."""

    def __init__(self, name: str, *objects: tuple[Kind, Object], unserved: tuple[Kind, ...] = ()) -> None:
        self.server, self._name = f"https://{name}", name
        self.objects: dict[tuple[Kind, str, str], Object] = {}
        self.writes: list[str] = []
        self.acting: dict[str, tuple[str, ...]] = {}
        self.before: Callable[[str], None] = lambda write: None
        self._unserved, self._version = unserved, 0
        for kind, obj in objects:
            self.put(kind, obj)

    def put(self, kind: Kind, obj: Object) -> Object:
        self._version += 1
        made = deepcopy(obj)
        meta = made["metadata"]
        meta.setdefault("uid", f"{self._name}-{meta['name']}-{self._version}")
        meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        meta["resourceVersion"] = str(self._version)
        self.objects[kind, meta.get("namespace", ""), meta["name"]] = made
        return deepcopy(made)

    def names(self, kind: Kind) -> list[str]:
        return [name for of, _, name in self.objects if of == kind]

    def at(self, kind: Kind, name: str, namespace: str = "ns") -> Object:
        return self.objects[kind, namespace, name]

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        if (kind, namespace, name) not in self.objects:
            raise ApiRefusal(404, "NotFound", f"{name} is not here")
        return deepcopy(self.objects[kind, namespace, name])

    async def list(self, kind: Kind, namespace: str = "", **_: str) -> Object:
        if kind in self._unserved:
            raise ApiRefusal(404, "NotFound", "no such kind")
        return {"items": [deepcopy(obj) for (of, _, _), obj in self.objects.items() if of == kind]}

    async def request(self, method: str, path: str, **_: Any) -> Any:
        kinds = [kind for kind, _, _ in self.objects if kind not in self._unserved]
        if path == "/apis":
            return {"groups": [{"versions": [{"groupVersion": kind.api_version}]} for kind in kinds]}
        return {"resources": [{"name": kind.plural} for kind in kinds if path == f"/apis/{kind.group}/{kind.version}"]}

    async def create(self, kind: Kind, body: Object, namespace: str = "", acting: tuple[str, ...] = ()) -> Object:
        name = body["metadata"]["name"]
        self._wrote(f"create {kind.name}/{name}")
        if (kind, namespace, name) in self.objects:
            raise ApiRefusal(409, "AlreadyExists", f"{name} exists")
        self.acting[name] = acting
        return self.put(kind, body)

    async def replace(self, kind: Kind, body: Object) -> Object:
        self._wrote(f"replace {kind.name}/{body['metadata']['name']}")
        return self.put(kind, body)

    async def patch(self, kind: Kind, name: str, body: Object, namespace: str = "") -> Object:
        self._wrote(f"patch {kind.name}/{name}")
        obj = await self.get(kind, name, namespace)
        self._require(obj, body.get("metadata", {}))
        merge(obj, deepcopy(body))
        return self.put(kind, obj)

    async def delete(self, kind: Kind, name: str, namespace: str = "", body: Object | None = None) -> None:
        self._wrote(f"delete {kind.name}/{name}")
        self._require(await self.get(kind, name, namespace), (body or {}).get("preconditions", {}))
        del self.objects[kind, namespace, name]

    def _wrote(self, write: str) -> None:
        self.before(write)
        self.writes.append(write)

    def _require(self, obj: Object, conditions: Object) -> None:
        for key in ("uid", "resourceVersion"):
            if key in conditions and conditions[key] != obj["metadata"][key]:
                raise ApiRefusal(409, "Conflict", "it has changed")


def ends(source: Any, target: Any) -> Ends:
    return Ends(source=source, target=target, source_id="SOURCE", target_id="TARGET", source_key=None, target_key=None)


def made(name: str, *owners: tuple[str, str], **fields: Any) -> Object:
    """An object in the namespace `ns` with these owners (kind, name)."""
    refs = [{"apiVersion": "v1", "kind": kind, "name": of, "uid": f"old-{of}"} for kind, of in owners]
    meta = {"name": name, "namespace": "ns", **({"ownerReferences": refs} if refs else {})}
    return {"metadata": meta, **fields}
