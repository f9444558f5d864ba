"""Manifests that others wrote, applied to `phalanx up` one file after the other, as `kubectl apply` would.

A dialect's test says how it plays a file and what it sees then; this has the rest: a user of the API who knows kinds
by name only, and the list of what became of each object, which stands in the dialect's `EXPECT.tsv`.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

import yaml

from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection
from phalanx.dialects.frame.dialect import Object

SIMULATED = ("--no-local-node", "--simulate-nodes", "4", "--node-cpu", "64", "--node-gpu", "8")
GONE_WITHIN_S = 120.0
# Queues of Volcano that are created with its first object, and that no user may delete.
STANDING = frozenset(f"/apis/scheduling.volcano.sh/v1beta1/queues/{name}" for name in ("default", "root"))
MOST_S, THEN_MOST_S = 120.0, 2.0  # until a file is as expected; once one is not, the others are not waited for
HOLD_S = 0.5  # where it is expected that nothing happens
LOOK_S = 0.1
SAME_S, KNOWN_S = 3.0, 15.0  # without expectations: unchanged for this time, and the time-out
PASSIVE = {  # kinds without controllers: their deletion has no further effect
    "accountedresources", "admissionchecks", "clusterqueues", "clusterrolebindings", "clusterroles", "cohorts",
    "configmaps", "elasticquotas", "hypernodes", "localqueues", "multikueueclusters", "namespaces", "nodes",
    "persistentvolumes", "priorityclasses", "profilebindings", "provisioningrequestconfigs", "queues",
    "quotasubtrees", "resourceflavors", "rolebindings", "roles", "schedulingshards", "secrets", "serviceaccounts",
    "storageclasses", "topologies", "workloadpriorityclasses",
}  # fmt: skip
Objects = dict[str, Object]  # where each is -> it
Line = tuple[str, str]  # `Kind name`, what became of it
Seen = dict[str, str]
T = TypeVar("T")


def documents(file: Path) -> list[Object]:
    """Return all mappings of the file, objects or not. Raises YAMLError."""
    found = [one for one in yaml.safe_load_all(file.read_text()) if isinstance(one, dict)]
    return [one for part in found for one in (part["items"] if part.get("kind") == "List" else [part])]


def objects(file: Path) -> list[Object]:
    """Return the file's objects that state their kind."""
    return [one for one in documents(file) if "kind" in one]


class Cluster:
    """A client that knows kinds by name only, like kubectl. `remains`: paths of further objects that must be deleted
    before the next file. `around`: objects that exist for every file, unless the file contains them. `made`: the paths
    of created objects. `expected`: the outcomes of the present file's objects; None if unknown. `most_s`: the time-out
    for these outcomes."""

    remains: Sequence[str] = ()
    around: Sequence[Object] = ()
    expected: list[Line] | None = None

    def __init__(self, api: Connection) -> None:
        self.api = api
        self._served: dict[tuple[str, str], tuple[str, str, bool] | None] = {}
        self._standing: list[str] = []
        self.most_s = MOST_S
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
        """Apply the object, and return the server's answer; afterwards the object contains its generated name."""
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

    async def surround(self, own: Collection[tuple[str, str]]) -> None:
        """Create the objects around a file, except those with these kinds and names, which the file contains. They stay
        for the next file, unless this file contains one of them."""
        has_part = any((obj["kind"], obj["metadata"]["name"]) in own for obj in self.around)
        if self._standing and not has_part:
            return
        self.made, self._standing = self._standing, []
        await self.clear()
        for obj in self.around:
            if (obj["kind"], obj["metadata"]["name"]) not in own:
                assert await self.apply({**obj, "metadata": dict(obj["metadata"])}) == "taken"
        if not has_part:
            self._standing, self.made = self.made, []

    async def settle(
        self,
        look: Callable[[], Awaitable[Seen]],
        told: Callable[[Seen], list[Line]],
        is_known: Callable[[Seen], bool] = lambda seen: True,
    ) -> list[Line]:
        """Return the lines about the observed state once they are as expected, and stay so if nothing should happen, or
        at the time-out. Without expectations, return them once they are unchanged for a while."""
        if self.expected is None:
            return told(await the_same(look, is_known))
        wanted = self.expected
        seen = await until(look, lambda seen: told(seen) == wanted, self.most_s)
        if told(seen) == wanted and self._works() and not any(is_seen_to(said) for _, said in wanted):
            seen = await until(look, lambda seen: told(seen) != wanted, HOLD_S)
        if told(seen) != wanted:
            self.most_s = THEN_MOST_S
        return told(seen)

    def _works(self) -> bool:
        """Return whether anything may come of what was made."""
        return any(path.split("/")[-2] not in PASSIVE for path in self.made)

    async def clear(self) -> None:
        """Delete the created objects, the last first. An object with dependents is refused first, and deleted after
        them."""
        works = self._works()
        why, left = dict[str, str](), Objects()
        try:
            async with asyncio.timeout(GONE_WITHIN_S):
                while True:
                    why = {path: text for path in reversed(self.made) if (text := await self.delete(path))}
                    self.made = list(why)[::-1]
                    left = await self.left() if works else {}
                    if not self.made and not left:
                        return
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            there = [f"{path}: {text}" for path, text in why.items()]
            there += [f"{path}: {described(obj)}" for path, obj in left.items()]
            raise AssertionError("\n".join([f"not clear after {GONE_WITHIN_S:.0f} s:", *there])) from None

    async def delete(self, path: str, **params: str) -> str:
        """Return why it is not gone yet; empty: it is."""
        try:
            answer = await self.api.request("DELETE", path, params={"propagationPolicy": "Background", **params})
        except ApiRefusal as error:
            if error.code not in (400, 403, 404):
                raise
            return error.message if error.code == 403 or (error.code == 400 and path not in STANDING) else ""
        return described(answer) if answer["kind"] != "Status" else ""

    async def left(self) -> Objects:
        """Return the created objects that still exist."""
        return {
            f"{path} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}": one
            for path in self.remains
            for one in (await self.api.request("GET", path))["items"]
            if f"{path}/{one['metadata']['name']}" not in STANDING
        }


def described(obj: Object) -> str:
    """Return since when it is, and who keeps it."""
    meta = obj["metadata"]
    owners = [f"{one['kind']} {one['name']} {one['uid']}" for one in meta.get("ownerReferences") or ()]
    return (
        f"uid {meta.get('uid')}, made {meta.get('creationTimestamp')}, to be deleted {meta.get('deletionTimestamp')}, "
        f"finalizers {meta.get('finalizers') or []}, owners {owners}"
    )


async def until(look: Callable[[], Awaitable[T]], holds: Callable[[T], bool], most_s: float = MOST_S) -> T:
    """Return the observed state once the condition holds, or after `most_s`."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + most_s
    while not holds(seen := await look()) and clock() < until_s:  # noqa: ASYNC110 (the server is looked at)
        await asyncio.sleep(LOOK_S)
    return seen


async def the_same(look: Callable[[], Awaitable[Seen]], is_known: Callable[[Seen], bool]) -> Seen:
    """Return the observed state once it is known and unchanged for a while, or at the time-out. Used without
    expectations, to record them."""
    clock = asyncio.get_running_loop().time
    begun_s = since_s = clock()
    seen = await look()
    while not (is_known(seen) and clock() - since_s >= SAME_S) and clock() - begun_s < KNOWN_S:
        await asyncio.sleep(LOOK_S)
        before, seen = seen, await look()
        if before != seen:
            since_s = clock()
    return seen


def are_seen(outcomes: Seen) -> bool:
    """Return True if the responsible controller has processed each object."""
    return not any("unseen" in text for text in outcomes.values())


def is_seen_to(said: str) -> bool:
    """Return True if a controller has acted on the object."""
    return said.startswith("taken, ") and not said.startswith("taken, waits for ")


AnyCluster = TypeVar("AnyCluster", bound=Cluster)


def become_as_expected(
    data: Path,
    expect: Path,
    files: dict[str, Path],
    user: Callable[[Connection], AnyCluster],
    play: Callable[[AnyCluster, Path], Awaitable[list[Line]]],
    pages: Sequence[tuple[Path, Callable[[str], str]]],
) -> list[str]:
    """Apply the `files`, by name, to the `phalanx up` with this `data` directory, and return the differences of the
    outcomes from `expect`, as a diff. With `PHALANX_REWRITE`, write `expect` and the counts in the docs again. `pages`:
    each page with the function that computes its counts."""
    rewrites = bool(os.environ.get("PHALANX_REWRITE"))

    async def scene() -> dict[str, list[Line]]:
        async with await Connection.open(data / "kubeconfig") as api:
            cluster, found = user(api), dict[str, list[Line]]()
            for name, file in files.items():
                cluster.expected = None if rewrites else known.get(name, [])
                if cluster.around:
                    await cluster.surround({(obj["kind"], _name(obj)) for obj in objects(file)})
                found[name] = await play(cluster, file)
                await cluster.clear()
            return found

    known = {} if rewrites else lines_in(expect)
    found = asyncio.run(scene())
    now = "".join(f"{file}\t{name}\t{said}\n" for file, lines in found.items() for name, said in lines)
    if rewrites:
        expect.write_text(now)
        for page, counted in pages:
            page.write_text(counted(page.read_text()))
    return different(now, expect)


def different(now: str, expect: Path) -> list[str]:
    """Return how it differs from what the file has, as a diff without context."""
    lines = difflib.unified_diff(expect.read_text().splitlines(), now.splitlines(), lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _name(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("name"))


def lines_in(expect: Path) -> dict[str, list[Line]]:
    """Return file -> what is to become of its objects."""
    found: dict[str, list[Line]] = {}
    for line in expect.read_text().splitlines():
        file, name, said = line.split("\t")
        found.setdefault(file, []).append((name, said))
    return found


def with_counts(page: str, text: str) -> str:
    """Return the page with that text where it counts the examples."""
    return re.sub(r"(<!-- examples -->\n).*?(\n<!-- end -->)", lambda at: at[1] + text + at[2], page, flags=re.DOTALL)
