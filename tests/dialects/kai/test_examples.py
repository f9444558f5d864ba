"""Manifests that others wrote for KAI, applied to `phalanx up`: each object is taken or refused as upstream does, and
the pods that name its scheduler run, or wait with the right reason.

`EXPECT.tsv` has one line for each object (file, object, outcome), and one for each created PodGroup. Every file is
applied to the same cluster: simulated nodes, and the queues and PriorityClasses of KAI's chart. The objects of a file
are deleted after it.

`PHALANX_REWRITE=1 pytest tests/dialects/kai/test_examples.py` writes EXPECT.tsv and the counts in the docs again.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.cli.upstart import Up
from tests.dialects.manifests import Cluster, Line, Seen, become_as_expected, objects, with_counts

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE / "examples").glob("*.yaml"))
EXPECT = HERE / "EXPECT.tsv"
PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "kai.md"
GROUP = "scheduling.run.ai/v2alpha2"


class KaiCluster(Cluster):
    remains = ("/apis/batch/v1/jobs", "/api/v1/pods", f"/apis/{GROUP}/podgroups")

    async def outcomes(self) -> dict[str, str]:
        """Return the outcomes: `PodGroup name` (for generated ones: the owner's name) -> its status."""
        found = {}
        for one in (await self.api.request("GET", f"/apis/{GROUP}/podgroups"))["items"]:
            status, owners = one.get("status") or {}, one["metadata"].get("ownerReferences") or ()
            waits = [each["message"].partition(":")[0] for each in status.get("schedulingConditions") or ()]
            pods = bool((status.get("resourcesStatus") or {}).get("requested"))
            text = f"waits: {waits[0]}" if waits else "placed" if pods else "no pods"
            whose = f" of {owners[0]['kind']} {re.sub(r'-[0-9a-z]{5}$', '-*', owners[0]['name'])}" if owners else ""
            found[f"PodGroup{whose}" if owners else f"PodGroup {one['metadata']['name']}"] = text
        return found


async def play(cluster: KaiCluster, file: Path) -> list[Line]:
    lines = []
    for obj in objects(file):
        said = await cluster.apply(obj)
        lines.append((f"{obj['kind']} {obj['metadata'].get('name', '')}", said))
    return await cluster.settle(cluster.outcomes, partial(_told, lines), bool)


def _told(lines: list[Line], seen: Seen) -> list[Line]:
    """The objects of the file, and after them the PodGroups that were made."""
    own = [(name, f"{said}, {seen[name]}" if name in seen else said) for name, said in lines]
    return own + sorted((name, said) for name, said in seen.items() if name not in dict(lines))


@pytest.mark.timeout(900)
def test_every_example_ends_as_it_should(simulated: Up) -> None:
    files = {file.name: file for file in EXAMPLES}
    assert become_as_expected(simulated.data, EXPECT, files, KaiCluster, play, [(PAGE, counted)]) == []


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
    return with_counts(page, text)


def _class(said: str) -> str:
    for word in ("not served", "refused", "placed", "waits", "no pods"):
        if word in said:
            return word
    return "taken"
