"""Manifests that others wrote for Kueue, applied to `phalanx up`: each object is taken or refused as upstream does, and
each job runs, or waits with the right reason.

`EXPECT.tsv` has one line for each object: file, object, what becomes of it. Every file meets the same cluster:
simulated nodes and the queues of Kueue's own `single-clusterqueue-setup`; what a file makes is taken away after it.

`PHALANX_REWRITE=1 pytest tests/dialects/kueue/test_examples.py` writes EXPECT.tsv, and the counts in the docs, anew.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from phalanx.dialects.frame.dialect import Object
from tests.cli.upstart import Up
from tests.dialects.manifests import Cluster, Line, Seen, are_seen, become_as_expected, objects, with_counts

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE / "examples").glob("*.yaml"))
EXPECT = HERE / "EXPECT.tsv"
PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "kueue.md"
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


class KueueCluster(Cluster):
    around = AROUND
    remains = ("/apis/batch/v1/jobs", "/api/v1/pods", f"/apis/{API}/workloads")

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


async def play(cluster: KueueCluster, file: Path) -> list[Line]:
    lines = []
    for obj in objects(file):
        if obj["kind"] == "Configuration":  # a file of Kueue's controller, no object
            lines.append(("Configuration", "a ConfigMap has it"))
            continue
        said = await cluster.apply(obj)
        meta = obj["metadata"]
        generated = bool(meta.get("generateName"))
        lines.append((f"{obj['kind']} {meta.get('name', '')}", said if not generated else f"{said} (name generated)"))
    if not any(name.split()[0] in ("Job", "Pod") for name, _ in lines):
        return _told(lines, {})
    return await cluster.settle(cluster.outcomes, partial(_told, lines), are_seen)


def _told(lines: list[Line], seen: Seen) -> list[Line]:
    found = [(name, f"{said}, {seen[name]}" if name in seen else said) for name, said in lines]
    return [(_stable(name, said), said.replace(" (name generated)", "")) for name, said in found]


def _stable(name: str, said: str) -> str:
    return re.sub(r".{5}$", "*", name) if "(name generated)" in said else name


@pytest.mark.timeout(900)
def test_every_example_ends_as_it_should(simulated: Up) -> None:
    files = {file.name: file for file in EXAMPLES}
    assert become_as_expected(simulated.data, EXPECT, files, KueueCluster, play, [(PAGE, counted)]) == []


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
    return with_counts(page, text)


def _class(said: str) -> str:
    for word in ("not served", "refused", "admitted", "waits"):
        if word in said:
            return word
    return "taken"
