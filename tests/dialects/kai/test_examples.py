"""Manifests that others wrote for KAI, applied to `phalanx up`: each object is taken or refused as upstream does, and
the pods that name its scheduler run, or wait with the right reason.

`EXPECT.tsv` has one line for each object: file, object, what becomes of it; and one for each PodGroup that came to be.
Every file meets the same cluster: simulated nodes, and the queues and PriorityClasses that KAI's chart installs; what a
file makes is taken away after it.

`PHALANX_REWRITE=1 pytest tests/dialects/kai/test_examples.py` writes EXPECT.tsv, and the counts in the docs, anew.
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
PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "kai.md"
SETTLED_S, MOST_S = 1.0, 12.0
GROUP = "scheduling.run.ai/v2alpha2"


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
        """What has others below it goes after them, and its status says so a moment later."""
        async with asyncio.timeout(30.0):
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
        paths = ("/apis/batch/v1/jobs", "/api/v1/pods", f"/apis/{GROUP}/podgroups")
        return any([(await self.api.request("GET", path))["items"] for path in paths])

    async def outcomes(self) -> dict[str, str]:
        """`PodGroup name` (of those that were made: of its owner) -> what its status says."""
        found = {}
        for one in (await self.api.request("GET", f"/apis/{GROUP}/podgroups"))["items"]:
            status, owners = one.get("status") or {}, one["metadata"].get("ownerReferences") or ()
            waits = [each["message"].partition(":")[0] for each in status.get("schedulingConditions") or ()]
            pods = bool((status.get("resourcesStatus") or {}).get("requested"))
            text = f"waits: {waits[0]}" if waits else "placed" if pods else "no pods"
            whose = f" of {owners[0]['kind']} {re.sub(r'-[0-9a-z]{5}$', '-*', owners[0]['name'])}" if owners else ""
            found[f"PodGroup{whose}" if owners else f"PodGroup {one['metadata']['name']}"] = text
        return found


RUNS = frozenset({"Job", "Pod", "Deployment", "PyTorchJob"})


async def play(cluster: Cluster, file: Path) -> list[tuple[str, str]]:
    lines = []
    for obj in documents(file):
        said = await cluster.apply(obj)
        lines.append((f"{obj['kind']} {obj['metadata'].get('name', '')}", said))
    seen, waited_s = await cluster.outcomes(), 0.0
    while waited_s < MOST_S and any(name.split()[0] in RUNS and said == "taken" for name, said in lines):
        await asyncio.sleep(SETTLED_S)
        waited_s += SETTLED_S
        before, seen = seen, await cluster.outcomes()
        if before == seen and seen:
            break
    lines = [(name, f"{said}, {seen.pop(name)}" if name in seen else said) for name, said in lines]
    await cluster.clear()
    return lines + sorted(seen.items())


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
    made = [line for line in lines if line[1].startswith("PodGroup of ")]
    tally = Counter(_class(said) for _, name, said in lines if not name.startswith("PodGroup of "))
    tally["taken"] += tally["placed"] + tally["waits"] + tally["no pods"]
    groups = Counter(_class(said) for _, name, said in lines if name.startswith("PodGroup"))
    objects, files = len(lines) - len(made), len(EXAMPLES)
    text = (
        f"Of {objects} objects in {files} of KAI's own samples and documentation blocks, {tally['taken']} are taken "
        f"as they are (of the gangs that come of them {groups['placed']} are placed and {groups['waits']} wait with a "
        f"reason), {tally['refused']} are refused, and {tally['not served']} are of kinds that `phalanx up` does not "
        "serve."
    )
    return re.sub(r"(<!-- examples -->\n).*?(\n<!-- end -->)", lambda at: at[1] + text + at[2], page, flags=re.DOTALL)


def _class(said: str) -> str:
    for word in ("not served", "refused", "placed", "waits", "no pods"):
        if word in said:
            return word
    return "taken"
