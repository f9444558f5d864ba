"""Manifests that others wrote with AppWrappers, applied to `phalanx up`: each object is taken or refused as upstream
does, and each AppWrapper runs, waits, or has failed for the right reason.

`EXPECT.tsv` has one line for each object: file, object, what becomes of it. Every file meets the same cluster:
simulated nodes, and the queues of Kueue's that the samples name; what a file makes is taken away after it.

`PHALANX_REWRITE=1 pytest tests/dialects/job_kinds/appwrapper/test_examples.py` writes EXPECT.tsv and the docs' counts.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from phalanx.dialects.frame.dialect import Object
from tests.cli.upstart import Up
from tests.dialects.manifests import Cluster, Line, Seen, become_as_expected, objects, with_counts

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE / "examples").glob("*.yaml"))
EXPECT = HERE / "EXPECT.tsv"
PAGE = Path(__file__).parents[4] / "docs" / "dialects" / "appwrapper.md"
KUEUE = "kueue.x-k8s.io/v1beta2"
WRAPPERS = ("/apis/workload.codeflare.dev/v1beta2/appwrappers", "/apis/mcad.ibm.com/v1beta1/appwrappers")
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


class AppWrapperCluster(Cluster):
    around = AROUND
    remains = ("/apis/batch/v1/jobs", "/api/v1/pods", *WRAPPERS)

    async def outcomes(self) -> dict[str, str]:
        """`AppWrapper name` -> its phase, and why it failed or waits."""
        found = {}
        for one in [one for path in WRAPPERS for one in (await self.api.request("GET", path))["items"]]:
            status = one.get("status") or {}
            said = {each["type"]: each for each in status.get("conditions") or ()}
            text = status.get("phase") or status.get("state") or "unseen"
            if text == "Failed":
                said["Unhealthy"] = said.get("Unhealthy") or said["Failed"]  # the latter is MCAD's
                text += f": {said['Unhealthy']['message'].partition('. ')[0]}"
            elif text == "Pending":
                text += f", {status['queuejobstate']}"
            found[f"AppWrapper {one['metadata']['name']}"] = text
        return found


WAITED = ("unseen", "Suspended", "Resuming", "Pending, Queueing", "Pending, Backoff")


def _are_through(seen: Seen) -> bool:
    return not any(text in WAITED for text in seen.values())


async def play(cluster: AppWrapperCluster, file: Path) -> list[Line]:
    lines, generated = [], {}
    for obj in objects(file):
        said = await cluster.apply(obj)
        if "generateName" in (obj.get("metadata") or {}):
            generated[f"{obj['kind']} {obj['metadata'].get('name')}"] = (
                f"{obj['kind']} {obj['metadata']['generateName']}*"
            )
        lines.append((f"{obj['kind']} {obj['metadata'].get('name', '')}", said))
    return await cluster.settle(cluster.outcomes, partial(_told, lines, generated), _are_through)


def _told(lines: list[Line], generated: dict[str, str], seen: Seen) -> list[Line]:
    found = [(name, f"{said}, {seen[name]}" if name in seen else said) for name, said in lines]
    return [(generated.get(name, name), said) for name, said in found]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_example_ends_as_it_should(simulated: Up) -> None:
    files = {file.name: file for file in EXAMPLES}
    assert become_as_expected(simulated.data, EXPECT, files, AppWrapperCluster, play, [(PAGE, counted)]) == []


def test_the_page_says_how_many() -> None:
    assert PAGE.read_text() == counted(PAGE.read_text())


def counted(page: str) -> str:
    lines = [line.split("\t") for line in EXPECT.read_text().splitlines()]
    tally = Counter(_class(said) for _, _, said in lines)
    taken = sum(said.startswith("taken") for _, _, said in lines)
    text = (
        f"Of {len(lines)} objects in {len(EXAMPLES)} files of samples, documentation and tests, {taken} are taken as "
        f"they are: of the AppWrappers among them {tally['Running'] + tally['Succeeded']} run, "
        f"{tally['Suspended'] + tally['Pending']} wait, and {tally['Failed']} have failed, since what they wrap is of "
        "a kind that `phalanx up` does not serve. "
        f"{tally['refused']} are refused, and {tally['not served']} are of kinds that are not served."
    )
    return with_counts(page, text)


def _class(said: str) -> str:
    for word in ("Failed", "Running", "Succeeded", "Suspended", "Pending", "not served", "refused"):
        if word in said:
            return word
    return "taken"
