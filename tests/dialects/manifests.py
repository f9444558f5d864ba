"""Manifests that others wrote, applied to `phalanx up` one file after the other, as `kubectl apply` would.

A dialect's test says how it plays a file and what it sees then; this has the rest: a user of the API who knows kinds
by name only, and the list of what became of each object, which stands in the dialect's `EXPECT.tsv`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import yaml

from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection
from phalanx.dialects.frame import Object
from tests.cli.upstart import started

SIMULATED = ("--no-local-node", "--simulate-nodes", "4", "--node-cpu", "64", "--node-gpu", "8")
GONE_WITHIN_S = 40.0
LOOK_S = 0.25
Line = tuple[str, str]  # `Kind name`, what became of it


def documents(file: Path) -> list[Object]:
    """Return all mappings of the file, objects or not. Raises YAMLError."""
    found = [one for one in yaml.safe_load_all(file.read_text()) if isinstance(one, dict)]
    return [one for part in found for one in (part["items"] if part.get("kind") == "List" else [part])]


def objects(file: Path) -> list[Object]:
    """Return those of them that say their kind."""
    return [one for one in documents(file) if "kind" in one]


class Cluster:
    """A user of the API who knows kinds by name only, as kubectl does. `remains`: paths of what must be gone, too,
    before the next file. `made`: the paths of what it made."""

    remains: Sequence[str] = ()

    def __init__(self, api: Connection) -> None:
        self.api = api
        self._served: dict[tuple[str, str], tuple[str, str, bool] | None] = {}
        self.made: list[str] = []

    async def path(self, obj: Object) -> str | None:
        """Return where objects like this are listed; None: they are not served."""
        version, kind = str(obj["apiVersion"]), str(obj["kind"])
        if (version, kind) not in self._served:
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            try:
                listing = await self.api.request("GET", root)
            except ApiRefusal:
                listing = {"resources": []}
            found = [one for one in listing["resources"] if one["kind"] == kind and "/" not in one["name"]]
            self._served[version, kind] = (root, found[0]["name"], found[0]["namespaced"]) if found else None
        if (where := self._served[version, kind]) is None:
            return None
        root, plural, namespaced = where
        space = obj["metadata"].get("namespace", "default")
        return f"{root}/namespaces/{space}/{plural}" if namespaced else f"{root}/{plural}"

    async def apply(self, obj: Object) -> str:
        """Return what becomes of it at the door; its name is in it afterwards."""
        meta = obj["metadata"] = obj.get("metadata") or {}
        path = await self.path(obj)
        if path is None:
            return f"{obj['apiVersion']} is not served"
        if "namespace" in meta:
            await self._namespace(meta["namespace"])
        try:
            made = await self.api.request("POST", path, body=obj)
            self.made.append(f"{path}/{made['metadata']['name']}")
            meta["name"] = made["metadata"]["name"]
        except ApiUnknown:  # it was read from a cluster, with its resourceVersion: 500, as everywhere
            return "refused 500"
        except ApiRefusal as error:
            if error.reason != "AlreadyExists":
                return f"refused {error.code}"
            return await self._patch(f"{path}/{meta['name']}", obj)
        return "taken"

    async def _patch(self, path: str, obj: Object) -> str:
        patch = {key: value for key, value in obj.items() if key != "status"}
        try:
            await self.api.request("PATCH", path, body=patch, content_type="application/merge-patch+json")
        except ApiRefusal as error:
            return f"refused {error.code}"
        return "taken"

    async def _namespace(self, name: str) -> None:
        try:
            await self.api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        except ApiRefusal as error:
            if error.reason != "AlreadyExists":
                raise

    async def clear(self) -> None:
        """Take away what was made, the last first. What still has others below it is refused, and goes after them."""
        async with asyncio.timeout(GONE_WITHIN_S):
            while self.made or await self.left():
                self.made = [path for path in reversed(self.made) if not await self.delete(path)][::-1]
                await asyncio.sleep(0.05)

    async def delete(self, path: str, **params: str) -> bool:
        """Return whether it is on its way out."""
        try:
            await self.api.request("DELETE", path, params={"propagationPolicy": "Background", **params})
        except ApiRefusal as error:
            if error.code not in (403, 404):
                raise
            return error.code == 404
        return True

    async def left(self) -> bool:
        """Return whether anything remains of what was made."""
        return any([(await self.api.request("GET", path))["items"] for path in self.remains])


async def settled(
    look: Callable[[], Awaitable[dict[str, str]]],
    *,
    is_known: Callable[[dict[str, str]], bool] = lambda seen: True,
    same_s: float = 1.0,
    most_s: float = 12.0,
) -> dict[str, str]:
    """Return what is seen once it has been the same for a while, and is known; or at the latest then."""
    seen, waited_s, since_s = await look(), 0.0, 0.0
    while waited_s < most_s and not (waited_s - since_s >= same_s and is_known(seen)):
        await asyncio.sleep(LOOK_S)
        waited_s += LOOK_S
        before, seen = seen, await look()
        if before != seen:
            since_s = waited_s
    return seen


def are_seen(outcomes: dict[str, str]) -> bool:
    """Return whether each has been looked at by whoever answers."""
    return not any("unseen" in text for text in outcomes.values())


AnyCluster = TypeVar("AnyCluster", bound=Cluster)


def become_as_expected(
    data: Path,
    expect: Path,
    files: dict[str, Path],
    user: Callable[[Connection], AnyCluster],
    play: Callable[[AnyCluster, Path], Awaitable[list[Line]]],
    pages: Sequence[tuple[Path, Callable[[str], str]]],
    around: Sequence[Object] = (),
) -> None:
    """Play the `files`, by name, and compare what became of each object with `expect`. With `PHALANX_REWRITE` it is
    written anew, and with it the counts in the docs. `pages`: with how each is counted anew. `around`: what all files
    find."""

    async def scene() -> dict[str, list[Line]]:
        async with await Connection.open(data / "kubeconfig") as api:
            cluster = user(api)
            for obj in around:
                assert await cluster.apply({**obj, "metadata": dict(obj["metadata"])}) == "taken"
            cluster.made = []
            return {name: await play(cluster, file) for name, file in files.items()}

    with started(data, *SIMULATED):
        found = asyncio.run(scene())
    now = "".join(f"{file}\t{name}\t{said}\n" for file, lines in found.items() for name, said in lines)
    if os.environ.get("PHALANX_REWRITE"):
        expect.write_text(now)
        for page, counted in pages:
            page.write_text(counted(page.read_text()))
    assert now == expect.read_text()


def with_counts(page: str, text: str) -> str:
    """Return the page with that text where it counts the examples."""
    return re.sub(r"(<!-- examples -->\n).*?(\n<!-- end -->)", lambda at: at[1] + text + at[2], page, flags=re.DOTALL)
