"""Manifests that others wrote for Kueue, applied to `phalanx up`: each object is taken or refused as upstream does, and
each job runs, or waits with the right reason.

`EXPECT.tsv` has one line for each object: file, object, what becomes of it. Every file meets the same cluster:
simulated nodes and the queues of Kueue's own `single-clusterqueue-setup`; what a file makes is taken away after it.

`PHALANX_REWRITE=1 pytest tests/dialects/kueue/test_examples.py` writes EXPECT.tsv, and the counts in the docs, anew.
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
PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "kueue.md"
SETTLED_S, MOST_S = 1.0, 12.0
API = "kueue.x-k8s.io/v1beta2"
QUOTAS = [{"name": "cpu", "nominalQuota": 9}, {"name": "memory", "nominalQuota": "36Gi"}]
AROUND: tuple[Object, ...] = (
    {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "default-flavor"}},
    {
        "apiVersion": API,
        "kind": "ClusterQueue",
        "metadata": {"name": "cluster-queue"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", "memory"],
                    "flavors": [{"name": "default-flavor", "resources": QUOTAS}],
                }
            ],
        },
    },
    {
        "apiVersion": API,
        "kind": "LocalQueue",
        "metadata": {"name": "user-queue", "namespace": "default"},
        "spec": {"clusterQueue": "cluster-queue"},
    },
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
        for path in reversed(self.made):
            try:
                await self.api.request("DELETE", path, params={"propagationPolicy": "Background"})
            except ApiRefusal as error:
                if error.code != 404:
                    raise
        self.made = []
        async with asyncio.timeout(30.0):
            while await self._left():  # noqa: ASYNC110 (what it waits for is the server)
                await asyncio.sleep(0.1)

    async def _left(self) -> bool:
        theirs = ("workloads", "localqueues", "clusterqueues", "cohorts", "resourceflavors")
        paths = ("/apis/batch/v1/jobs", "/api/v1/pods", *(f"/apis/{API}/{plural}" for plural in theirs))
        return any([(await self.api.request("GET", path))["items"] for path in paths])

    async def outcomes(self) -> dict[str, str]:
        """`Kind name` of each job that has a Workload -> what that says."""
        found = {}
        for one in (await self.api.request("GET", f"/apis/{API}/workloads"))["items"]:
            said = {each["type"]: each for each in (one.get("status") or {}).get("conditions") or ()}
            if not one["metadata"].get("ownerReferences"):
                continue
            owner = one["metadata"]["ownerReferences"][0]
            quota = said.get("QuotaReserved", {"status": "Unknown", "reason": ""})
            text = "admitted" if quota["status"] == "True" else f"waits: {quota['reason'] or 'unseen'}"
            found[f"{owner['kind']} {owner['name']}"] = text
        return found


async def play(cluster: Cluster, file: Path) -> list[tuple[str, str]]:
    own = {(obj["kind"], (obj.get("metadata") or {}).get("name")) for obj in documents(file)}
    for obj in (one for one in AROUND if (one["kind"], one["metadata"]["name"]) not in own):
        await cluster.apply({**obj, "metadata": dict(obj["metadata"])})
    lines = []
    for obj in documents(file):
        if obj["kind"] == "Configuration":  # a file of Kueue's controller, no object
            lines.append(("Configuration", "a ConfigMap has it"))
            continue
        said = await cluster.apply(obj)
        meta = obj["metadata"]
        generated = bool(meta.get("generateName"))
        lines.append((f"{obj['kind']} {meta.get('name', '')}", said if not generated else f"{said} (name generated)"))
    seen, waited_s = await cluster.outcomes(), 0.0
    while waited_s < MOST_S and any(name.split()[0] in ("Job", "Pod") for name, _ in lines):
        await asyncio.sleep(SETTLED_S)
        waited_s += SETTLED_S
        before, seen = seen, await cluster.outcomes()
        if before == seen and not any("unseen" in text for text in seen.values()):
            break
    lines = [(name, f"{said}, {seen[name]}" if name in seen else said) for name, said in lines]
    await cluster.clear()
    return [(_stable(name, said), said.replace(" (name generated)", "")) for name, said in lines]


def _stable(name: str, said: str) -> str:
    return re.sub(r".{5}$", "*", name) if "(name generated)" in said else name


def test_every_example_ends_as_it_should(tmp_path: Path) -> None:
    async def scene(data: Path) -> dict[str, list[tuple[str, str]]]:
        async with await Connection.open(data / "kubeconfig") as api:
            cluster = Cluster(api)
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
    tally["taken"] += tally["admitted"] + tally["waits"]
    objects, files = len(lines), len(EXAMPLES)
    text = (
        f"Of {objects} objects in {files} of Kueue's own samples and documentation blocks, {tally['taken']} are taken "
        f"as they are (of the jobs among them {tally['admitted']} are admitted and {tally['waits']} wait with a "
        f"reason), {tally['refused']} are refused, and {tally['not served']} are of kinds that `phalanx up` does not "
        "serve."
    )
    return re.sub(r"(<!-- examples -->\n).*?(\n<!-- end -->)", lambda at: at[1] + text + at[2], page, flags=re.DOTALL)


def _class(said: str) -> str:
    for word in ("not served", "refused", "admitted", "waits"):
        if word in said:
            return word
    return "taken"
