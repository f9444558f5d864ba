"""Manifests that others wrote for Koordinator, scheduler-plugins, YuniKorn, KWOK, slurm-bridge and Armada, applied to
`phalanx up`: each object is taken or refused, and each pod starts, or waits with the right reason. YuniKorn's queue
configurations are taken or refused as the tests that they are of say.

`EXPECT.tsv` has one line for each object: file, object, what becomes of it. Every file meets the same cluster of
simulated nodes; what a file makes is taken away after it.

`PHALANX_REWRITE=1 pytest tests/dialects/peers/test_examples.py` writes EXPECT.tsv, and the counts in the docs, anew.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import yaml

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.yunikorn.checks import read
from phalanx.dialects.yunikorn.configuration import YuniKornConfigurationError
from tests.cli.upstart import Up
from tests.dialects.manifests import Cluster, Line, Objects, Seen, are_seen, become_as_expected, documents, with_counts
from tests.dialects.pages import PAGES

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE / "examples").glob("*/*.yaml"))
EXPECT = HERE / "EXPECT.tsv"
WITH_PODS = ("Pod", "Job", "Deployment")
FILES = {  # files for a peer's own program, which are no API objects
    "KubeSchedulerConfiguration": "a file of kube-scheduler",
    "KwokctlResource": "a file of kwokctl",
    "Config": "a file of kubectl",
    "Queue": "a file of armadactl",
    "RetryPolicy": "a file of armadactl",
}


class PeerCluster(Cluster):
    """As any user sees it."""

    remains = ("/apis/batch/v1/jobs", "/apis/apps/v1/replicasets", "/api/v1/pods")

    async def left(self) -> Objects:
        left = await super().left()
        for path, pod in left.items():  # some are on nodes that are not simulated
            if path.startswith("/api/v1/pods"):
                meta = pod["metadata"]
                await self.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", gracePeriodSeconds="0")
        return left

    async def pods_of(self, obj: Object) -> list[Object]:
        """Its pods, by their names."""
        meta = obj["metadata"]
        space, name = meta.get("namespace", "default"), meta["name"]
        found = (await self.api.request("GET", f"/api/v1/namespaces/{space}/pods"))["items"]
        return [
            one for one in found if one["metadata"]["name"] == name or one["metadata"]["name"].startswith(f"{name}-")
        ]

    async def outcomes(self, applied: dict[int, Object]) -> Seen:
        """Line of an object -> what becomes of it, of those that something becomes of."""
        found = {}
        for at, obj in applied.items():
            if obj["kind"] in WITH_PODS:
                found[str(at)] = said_of_pods(await self.pods_of(obj))
            elif obj["kind"] == "PodGroup" and "x-k8s.io" in obj["apiVersion"]:
                group = await self.api.request("GET", f"{await self.path(obj)}/{obj['metadata']['name']}")
                found[str(at)] = str((group.get("status") or {}).get("phase") or "unseen")
        return found


def configuration(file: Path) -> str:
    """`valid`, or the line for which it is refused."""
    try:
        read(file.read_text())
    except YuniKornConfigurationError as error:
        return f"refused: {error}"
    return "valid"


def said_of_pods(pods: list[Object]) -> str:
    """Return `started`, or the reason for waiting; the scheduler's name if no scheduler has processed the pods."""
    for pod in pods:
        if pod["spec"].get("nodeName"):
            continue
        conditions = (pod.get("status") or {}).get("conditions") or ()
        said = next((one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"), None)
        if said is None:
            return f"waits for {pod['spec']['schedulerName']}"
        return f"waits: {str(said.get('message') or said.get('reason')).partition(':')[0]}"
    return "started" if pods else "waits without pods"


async def play(cluster: PeerCluster, file: Path) -> list[Line]:
    try:
        found = documents(file)
    except yaml.YAMLError:
        return [("–", "no YAML")]
    lines, applied = [], dict[int, Object]()
    for obj in found:
        kind = str(obj.get("kind", ""))
        if "partitions" in obj:
            lines.append(("queue configuration", f"a file of YuniKorn, {configuration(file)}"))
            continue
        if "apiVersion" not in obj or "metadata" not in obj or kind in FILES:
            lines.append((kind or "–", FILES.get(kind, "no object")))
            continue
        said = await cluster.apply(obj)
        lines.append((f"{kind} {(obj['metadata'] or {}).get('name', '')}", said))
        if said == "taken":
            applied[len(lines) - 1] = obj
    return await cluster.settle(partial(cluster.outcomes, applied), partial(_told, lines), are_seen)


def _told(lines: list[Line], seen: Seen) -> list[Line]:
    return [(name, f"{said}, {seen[str(at)]}" if str(at) in seen else said) for at, (name, said) in enumerate(lines)]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_example_ends_as_it_should(simulated: Up) -> None:
    files = {f"{file.parent.name}/{file.name}": file for file in EXAMPLES}
    pages = [(PAGES / page, partial(counted, peers=peers)) for page, peers in SHOWN.items()]
    assert become_as_expected(simulated.data, EXPECT, files, PeerCluster, play, pages) == []


VALID = [line.split("\t") for line in (HERE / "examples/yunikorn/VALID.tsv").read_text().splitlines()[1:]]
# A sample with a field `children`, which its own test does not load; YuniKorn's parser refuses unknown fields.
_NOT_LOADED = "yunikorn-core--pkg-examples-simple-example-l114.yaml"


@pytest.mark.parametrize(("name", "wanted"), [(name, wanted) for name, wanted in VALID if wanted != "unknown"])
def test_a_queue_configuration_is_valid_where_its_own_test_says_so(name: str, wanted: str) -> None:
    said = configuration(HERE / "examples/yunikorn" / name).partition(":")[0]
    assert {"valid": "valid", "refused": "invalid"}[said] == ("invalid" if name == _NOT_LOADED else wanted)


SHOWN = {
    "yunikorn.md": ("yunikorn",),
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
        ("a file of", "file"),
        ("not served", "not served"),
        ("refused", "refused"),
        ("waits", "waits"),
        ("started", "starts"),
    ):
        if word in said:
            return found
    return "taken" if said.startswith("taken") else "file"
