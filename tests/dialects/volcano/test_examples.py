"""Manifests that others wrote for Volcano, applied to `phalanx up`: each object is taken or refused as upstream does,
and each job runs, or waits with the right reason.

`EXPECT.tsv` has one line for each object: file, object, what becomes of it. Every file meets the same cluster of
simulated nodes; what a file makes is taken away after it.

`PHALANX_REWRITE=1 pytest tests/dialects/volcano/test_examples.py` writes EXPECT.tsv, and the counts in the docs, anew.
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
PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "volcano.md"
BATCH, SCHEDULING, FLOW = "batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1", "flow.volcano.sh/v1alpha1"
THEIRS = (
    *(f"{BATCH}/{plural}" for plural in ("jobs", "cronjobs")),
    *(f"{FLOW}/{plural}" for plural in ("jobflows", "jobtemplates")),
    *(f"{SCHEDULING}/{plural}" for plural in ("podgroups", "queues")),
    "topology.volcano.sh/v1alpha1/hypernodes",
    *("apps/v1/deployments", "batch/v1/jobs"),
)


class VolcanoCluster(Cluster):
    remains = ("/api/v1/pods", *(f"/apis/{each}" for each in THEIRS))

    async def outcomes(self) -> dict[str, str]:
        """`Kind name` of each job and PodGroup -> what becomes of it."""
        groups = (await self.api.request("GET", f"/apis/{SCHEDULING}/podgroups"))["items"]
        reasons = {_owner(one): _why(one) for one in groups}
        events = (await self.api.request("GET", "/api/v1/events"))["items"]
        reasons |= {one["involvedObject"]["uid"]: one["reason"] for one in events if one["reason"] == "FailedCreate"}
        found = {f"PodGroup {one['metadata']['name']}": f"is {_phase(one)}" for one in groups}
        for one in (await self.api.request("GET", f"/apis/{BATCH}/jobs"))["items"]:
            phase, uid = ((one.get("status") or {}).get("state") or {}).get("phase", "unseen"), one["metadata"]["uid"]
            found[f"Job {one['metadata']['name']}"] = (
                f"waits: {reasons.get(uid, 'unseen')}" if phase == "Pending" else f"is {phase}"
            )
        return found


def _owner(obj: Object) -> str:
    return next((str(one["uid"]) for one in obj["metadata"].get("ownerReferences") or ()), "")


def _phase(group: Object) -> str:
    return str((group.get("status") or {}).get("phase") or "unseen")


def _why(group: Object) -> str:
    """Our code, which the condition's message begins with."""
    for one in (group.get("status") or {}).get("conditions") or ():
        if one["type"] == "Unschedulable":
            found = re.search(r"([A-Z][A-Za-z]+): ", one["message"])
            return found[1] if found else str(one["reason"])
    return "unseen"


async def play(cluster: VolcanoCluster, file: Path) -> list[Line]:
    lines = []
    for obj in objects(file):
        if "apiVersion" not in obj:  # a piece of one
            lines.append((str(obj["kind"]), "no object"))
            continue
        said = await cluster.apply(obj)
        name = str(obj["metadata"].get("name", ""))
        if obj["metadata"].get("generateName") and said == "taken":
            name = re.sub(r".{5}$", "*", name)
        lines.append((f"{obj['kind']} {name}", said))
    if not any(name.split()[0] in ("Job", "PodGroup") for name, _ in lines):
        return lines
    return await cluster.settle(cluster.outcomes, partial(_told, lines), are_seen)


def _told(lines: list[Line], seen: Seen) -> list[Line]:
    return [(name, f"{said}, {seen[name]}" if said == "taken" and name in seen else said) for name, said in lines]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_example_ends_as_it_should(simulated: Up) -> None:
    files = {file.name: file for file in EXAMPLES}
    assert become_as_expected(simulated.data, EXPECT, files, VolcanoCluster, play, [(PAGE, counted)]) == []


def test_the_page_says_how_many() -> None:
    assert PAGE.read_text() == counted(PAGE.read_text())


def counted(page: str) -> str:
    lines = [line.split("\t") for line in EXPECT.read_text().splitlines()]
    tally = Counter(_class(said) for _, _, said in lines)
    jobs = Counter(_class(said) for _, name, said in lines if name.startswith("Job ") and said.startswith("taken"))
    text = (
        f"Of {len(lines)} objects in {len(EXAMPLES)} files of Volcano's own samples, documentation and designs "
        f"{tally['taken'] + tally['runs'] + tally['waits']} are taken as they are (of the Jobs among them "
        f"{jobs['runs']} start and {jobs['waits']} wait with a reason), {tally['refused']} are refused, and "
        f"{tally['not served']} are of kinds that `phalanx up` does not serve."
    )
    return with_counts(page, text)


def _class(said: str) -> str:
    for word, kind in (("not served", "not served"), ("refused", "refused"), ("waits", "waits")):
        if word in said:
            return kind
    return "runs" if re.search("is (Running|Completed)", said) else "taken"
