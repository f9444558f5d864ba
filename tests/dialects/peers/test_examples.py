"""Manifests that others wrote for Koordinator, scheduler-plugins, KWOK, slurm-bridge and Armada, applied to `phalanx
up`: each object is taken or refused, and each pod starts, or waits with the right reason.

`EXPECT.tsv` has one line for each object: file, object, what becomes of it. Every file meets the same cluster of
simulated nodes; what a file makes is taken away after it.

`PHALANX_REWRITE=1 pytest tests/dialects/peers/test_examples.py` writes EXPECT.tsv, and the counts in the docs, anew.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import yaml

from phalanx.dialects.frame import Object
from tests.dialects.manifests import Cluster, Line, become_as_expected, documents, with_counts
from tests.dialects.pages import PAGES

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE / "examples").glob("*/*.yaml"))
EXPECT = HERE / "EXPECT.tsv"
MOST_S = 3.0
WITH_PODS = ("Pod", "Job", "Deployment")
FILES = {  # what is read by a program of theirs, and is no object of an API
    "KubeSchedulerConfiguration": "a file of kube-scheduler",
    "KwokctlResource": "a file of kwokctl",
    "Config": "a file of kubectl",
    "Queue": "a file of armadactl",
    "RetryPolicy": "a file of armadactl",
}


class PeerCluster(Cluster):
    """As any user sees it."""

    async def left(self) -> bool:
        paths = ("/apis/batch/v1/jobs", "/apis/apps/v1/replicasets", "/api/v1/pods")
        left = [(await self.api.request("GET", path))["items"] for path in paths]
        for pod in left[-1]:  # some are on nodes that nobody plays
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            await self.delete(path, gracePeriodSeconds="0")
        return any(left)

    async def pods_of(self, obj: Object) -> list[Object]:
        """Its pods, by their names."""
        meta = obj["metadata"]
        space, name = meta.get("namespace", "default"), meta["name"]
        found = (await self.api.request("GET", f"/api/v1/namespaces/{space}/pods"))["items"]
        return [
            one for one in found if one["metadata"]["name"] == name or one["metadata"]["name"].startswith(f"{name}-")
        ]

    async def phase(self, obj: Object) -> str:
        """The phase that is answered on a PodGroup, once it is."""
        path, phase = f"{await self.path(obj)}/{obj['metadata']['name']}", ""
        async with asyncio.timeout(10.0):
            while not phase:
                phase = ((await self.api.request("GET", path)).get("status") or {}).get("phase") or ""
                await asyncio.sleep(0.05)
        return str(phase)


def said_of_pods(pods: list[Object]) -> str:
    """`started`, or why they wait; empty: it is not known yet."""
    for pod in pods:
        if pod["spec"].get("nodeName"):
            continue
        conditions = (pod.get("status") or {}).get("conditions") or ()
        said = next((one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"), None)
        if said is None:  # nobody has looked at it
            return ""
        return f"waits: {str(said.get('message') or said.get('reason')).partition(':')[0]}"
    return "started" if pods else ""


async def play(cluster: PeerCluster, file: Path) -> list[Line]:
    try:
        found = documents(file)
    except yaml.YAMLError:
        return [("–", "no YAML")]
    lines, applied = [], list[tuple[int, Object]]()
    for obj in found:
        kind = str(obj.get("kind", ""))
        if "apiVersion" not in obj or "metadata" not in obj or kind in FILES:
            lines.append((kind or "–", FILES.get(kind, "no object")))
            continue
        said = await cluster.apply(obj)
        lines.append((f"{kind} {(obj['metadata'] or {}).get('name', '')}", said))
        if said == "taken":
            applied.append((len(lines) - 1, obj))
    for at, obj in applied:
        if obj["kind"] in WITH_PODS:
            lines[at] = (lines[at][0], f"taken, {await settled(cluster, obj)}")
    for at, obj in applied:
        if obj["kind"] == "PodGroup" and "x-k8s.io" in obj["apiVersion"]:
            lines[at] = (lines[at][0], f"taken, {await cluster.phase(obj)}")
    await cluster.clear()
    return lines


async def settled(cluster: PeerCluster, obj: Object) -> str:
    """What becomes of its pods; those that nobody looks at within a while wait for the scheduler that they name."""
    waited_s, pods = 0.0, list[Object]()
    while waited_s < MOST_S:
        pods = await cluster.pods_of(obj)
        if said := said_of_pods(pods):
            return said
        await asyncio.sleep(0.25)
        waited_s += 0.25
    return f"waits for {pods[0]['spec']['schedulerName']}" if pods else "waits without pods"


@pytest.mark.slow
def test_every_example_ends_as_it_should(tmp_path: Path) -> None:
    files = {f"{file.parent.name}/{file.name}": file for file in EXAMPLES}
    pages = [(PAGES / page, partial(counted, peers=peers)) for page, peers in SHOWN.items()]
    become_as_expected(tmp_path, EXPECT, files, PeerCluster, play, pages)


SHOWN = {
    "koordinator.md": ("koordinator",),
    "scheduler-plugins.md": ("scheduler-plugins",),
    "others.md": ("kwok", "slurm-bridge", "armada"),
}


@pytest.mark.parametrize("page", SHOWN)
def test_the_page_says_how_many(page: str) -> None:
    text = (PAGES / page).read_text()
    assert "<!-- examples -->" in text
    assert text == counted(text, SHOWN[page])


def counted(page: str, peers: tuple[str, ...]) -> str:
    lines = [line.split("\t") for line in EXPECT.read_text().splitlines()]
    rows = [
        "| of its own samples, tests and documentation | files | objects | taken | of these, with pods that start "
        "| that wait | refused | of kinds that are not served | files of its programs |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for peer in peers:
        of = [said for file, _, said in lines if file.startswith(f"{peer}/")]
        files = sum(example.parent.name == peer for example in EXAMPLES)
        tally = Counter(_class(said) for said in of)
        tally["taken"] += tally["starts"] + tally["waits"]
        shown = (len(of), *(tally[word] for word in ("taken", "starts", "waits", "refused", "not served", "file")))
        rows.append(f"| {peer} | {files} | {' | '.join(map(str, shown))} |")
    text = "\n".join(rows)
    return with_counts(page, text)


def _class(said: str) -> str:
    for word, found in (
        ("not served", "not served"),
        ("refused", "refused"),
        ("waits", "waits"),
        ("started", "starts"),
    ):
        if word in said:
            return found
    return "taken" if said.startswith("taken") else "file"
