"""Manifests that others wrote with AppWrappers, applied to `phalanx up`: each object is taken or refused as upstream
does, and each AppWrapper runs, waits, or has failed for the right reason.

`EXPECT.tsv` has one line for each object: file, object, what becomes of it. Every file meets the same cluster:
simulated nodes, and the queues of Kueue's that the samples name; what a file makes is taken away after it.

`PHALANX_REWRITE=1 pytest tests/dialects/appwrapper/test_examples.py` writes EXPECT.tsv, and the counts in the docs.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.dialects.frame import Object
from tests.cli.upstart import started

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE / "examples").glob("*.yaml"))
EXPECT = HERE / "EXPECT.tsv"
PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "appwrapper.md"
SETTLED_S, MOST_S = 1.0, 12.0
KUEUE = "kueue.x-k8s.io/v1beta2"
WRAPPERS = "/apis/workload.codeflare.dev/v1beta2/appwrappers"
_COVERED = {"cpu": 100, "memory": "400Gi", "nvidia.com/gpu": 16}
_FLAVOR = {"name": "all", "resources": [{"name": name, "nominalQuota": quota} for name, quota in _COVERED.items()]}
_GROUP = {"coveredResources": list(_COVERED), "flavors": [_FLAVOR]}
_QUEUE = {"namespaceSelector": {}, "resourceGroups": [_GROUP]}
AROUND: tuple[Object, ...] = (
    {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "all"}},
    {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "cluster"}, "spec": _QUEUE},
    *(
        {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": name}, "spec": {"clusterQueue": "cluster"}}
        for name in ("default-queue", "user-queue", "local-queue-default")
    ),
)


def documents(file: Path) -> Iterator[Object]:
    for found in yaml.safe_load_all(file.read_text()):
        if isinstance(found, dict) and "kind" in found:
            yield from found.get("items", [found]) if found["kind"] == "List" else [found]


class Cluster:
    """A user of the API who knows kinds by name only, as kubectl does."""

    def __init__(self, api: Connection) -> None:
        self.api = api
        self._served: dict[tuple[str, str], tuple[str, bool] | None] = {}
        self.made: list[str] = []

    async def path(self, obj: Object) -> str | None:
        """Where objects like this are listed; None: they are not served."""
        version, kind = str(obj["apiVersion"]), str(obj["kind"])
        if (version, kind) not in self._served:
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            try:
                listing = await self.api.request("GET", root)
            except ApiRefusal:
                listing = {"resources": []}
            found = [one for one in listing["resources"] if one["kind"] == kind and "/" not in one["name"]]
            self._served[version, kind] = (f"{root}|{found[0]['name']}", found[0]["namespaced"]) if found else None
        if (where := self._served[version, kind]) is None:
            return None
        root, plural = where[0].split("|")
        space = obj["metadata"].get("namespace", "default")
        return f"{root}/namespaces/{space}/{plural}" if where[1] else f"{root}/{plural}"

    async def apply(self, obj: Object) -> str:
        """What becomes of it at the door."""
        meta = obj.setdefault("metadata", {}) or {}
        obj["metadata"] = meta
        path = await self.path(obj)
        if path is None:
            return f"{obj['apiVersion']} is not served"
        if "namespace" in meta:
            await self._namespace(meta["namespace"])
        try:
            made = await self.api.request("POST", path, body=obj)
            self.made.append(f"{path}/{made['metadata']['name']}")
            meta["name"] = made["metadata"]["name"]
        except ApiRefusal as error:
            if error.reason != "AlreadyExists":
                return f"refused {error.code}"
            patch = {key: value for key, value in obj.items() if key != "status"}
            try:
                await self.api.request(
                    "PATCH", f"{path}/{meta['name']}", body=patch, content_type="application/merge-patch+json"
                )
            except ApiRefusal as again:
                return f"refused {again.code}"
        return "taken"

    async def _namespace(self, name: str) -> None:
        try:
            await self.api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        except ApiRefusal as error:
            if error.reason != "AlreadyExists":
                raise

    async def clear(self) -> None:
        """What uses others goes before them."""
        async with asyncio.timeout(40.0):
            while self.made or await self._left():
                self.made = [path for path in reversed(self.made) if not await self._delete(path)][::-1]
                await asyncio.sleep(0.1)

    async def _delete(self, path: str) -> bool:
        try:
            await self.api.request("DELETE", path, params={"propagationPolicy": "Background"})
        except ApiRefusal as error:
            if error.code not in (403, 404):
                raise
            return error.code == 404
        return True

    async def _left(self) -> bool:
        paths = ("/apis/batch/v1/jobs", "/api/v1/pods", WRAPPERS)
        return any([(await self.api.request("GET", path))["items"] for path in paths])

    async def outcomes(self) -> dict[str, str]:
        """`AppWrapper name` -> its phase, and why it failed or waits."""
        found = {}
        for one in (await self.api.request("GET", WRAPPERS))["items"]:
            status = one.get("status") or {}
            said = {each["type"]: each for each in status.get("conditions") or ()}
            text = status.get("phase") or "unseen"
            if text == "Failed":
                text += f": {said['Unhealthy']['message'].partition('. ')[0]}"
            found[f"AppWrapper {one['metadata']['name']}"] = text
        return found


WAITED = ("unseen", "Suspended", "Resuming")


async def play(cluster: Cluster, file: Path) -> list[tuple[str, str]]:
    lines, generated = [], {}
    for obj in documents(file):
        said = await cluster.apply(obj)
        if "generateName" in (obj.get("metadata") or {}):
            generated[f"{obj['kind']} {obj['metadata'].get('name')}"] = (
                f"{obj['kind']} {obj['metadata']['generateName']}*"
            )
        lines.append((f"{obj['kind']} {obj['metadata'].get('name', '')}", said))
    seen, waited_s = await cluster.outcomes(), 0.0
    while waited_s < MOST_S and any(text in WAITED for text in seen.values()):
        await asyncio.sleep(SETTLED_S)
        waited_s += SETTLED_S
        before, seen = seen, await cluster.outcomes()
        if before == seen and waited_s > 4 * SETTLED_S:
            break
    lines = [(name, f"{said}, {seen[name]}" if name in seen else said) for name, said in lines]
    await cluster.clear()
    return [(generated.get(name, name), said) for name, said in lines]


def test_every_example_ends_as_it_should(tmp_path: Path) -> None:
    async def scene(data: Path) -> dict[str, list[tuple[str, str]]]:
        async with await Connection.open(data / "kubeconfig") as api:
            cluster = Cluster(api)
            for obj in AROUND:
                assert await cluster.apply({**obj, "metadata": dict(obj["metadata"])}) == "taken"
            cluster.made = []
            return {file.name: await play(cluster, file) for file in EXAMPLES}

    simulated = ("--no-local-node", "--simulate-nodes", "4", "--node-cpu", "64", "--node-gpu", "8")
    with started(tmp_path, *simulated):
        found = asyncio.run(scene(tmp_path))
    now = "".join(f"{file}\t{name}\t{said}\n" for file, lines in found.items() for name, said in lines)
    if os.environ.get("PHALANX_REWRITE"):
        EXPECT.write_text(now)
        PAGE.write_text(counted(PAGE.read_text()))
    assert now == EXPECT.read_text()


def test_the_page_says_how_many() -> None:
    assert PAGE.read_text() == counted(PAGE.read_text())


def counted(page: str) -> str:
    lines = [line.split("\t") for line in EXPECT.read_text().splitlines()]
    tally = Counter(_class(said) for _, _, said in lines)
    taken = sum(said.startswith("taken") for _, _, said in lines)
    old = sum(name.startswith("AppWrapper") and "v1beta1" in said for _, name, said in lines)
    text = (
        f"Of {len(lines)} objects in {len(EXAMPLES)} files of samples, documentation and tests, {taken} are taken as "
        f"they are: of the AppWrappers among them {tally['Running'] + tally['Succeeded']} run, {tally['Suspended']} "
        f"wait, and {tally['Failed']} have failed, since what they wrap is of a kind that `phalanx up` does not serve. "
        f"{tally['refused']} are refused, and {tally['not served']} are of kinds that are not served, {old} of them "
        "MCAD's AppWrappers."
    )
    return re.sub(r"(<!-- examples -->\n).*?(\n<!-- end -->)", lambda at: at[1] + text + at[2], page, flags=re.DOTALL)


def _class(said: str) -> str:
    for word in ("Failed", "Running", "Succeeded", "Suspended", "not served", "refused"):
        if word in said:
            return word
    return "taken"
