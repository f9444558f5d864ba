"""Manifests that others wrote for batch frameworks and for Kubernetes' own gangs, applied to `phalanx up`: each object
is taken or refused as upstream does, and each job runs, or waits with the right reason.

All files meet one large cluster at once, each in a namespace of its own, beside the definitions of the kinds that
`phalanx up` does not serve. A job of a framework is applied twice: as it is, and in a queue (with the label
`kueue.x-k8s.io/queue-name`), where its Workload says with which pods it was admitted. `EXPECT.tsv` has one line for
each object: file, object, what becomes of it.

`PHALANX_REWRITE=1 pytest tests/dialects/job_kinds/test_examples.py` writes EXPECT.tsv, and the counts in the
docs, anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import CRDS
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from tests.cli.upstart import started
from tests.dialects.manifests import Cluster, are_seen, different, documents, the_same, until, with_counts
from tests.dialects.pages import PAGES

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE / "examples").glob("*/*.yaml"))
EXPECT = HERE / "EXPECT.tsv"
SIMULATED = ("--no-local-node", "--simulate-nodes", "60", "--node-cpu", "96", "--node-gpu", "8", "--node-memory", "2Ti")
KUEUE = "kueue.x-k8s.io/v1beta2"
QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
PLENTY = 1_000_000
JOB_KINDS = {(kind.api_version, kind.name) for kind in FRAMEWORKS}
RUN = {"JobSet", "MPIJob", "PyTorchJob", "TrainJob"}  # `phalanx up` has their controllers
CLUSTER_WIDE = {"Namespace", "PriorityClass", "ClusterTrainingRuntime", "ClusterRole", "ClusterRoleBinding"}


def around() -> list[Object]:
    covered = ("cpu", "memory", "nvidia.com/gpu", "google.com/tpu", "pods", "ephemeral-storage")
    quotas = [{"name": name, "nominalQuota": f"{PLENTY}Gi" if "or" in name else PLENTY} for name in covered]
    groups = [{"coveredResources": list(covered), "flavors": [{"name": "default-flavor", "resources": quotas}]}]
    return [
        {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "default-flavor"}},
        {
            "apiVersion": KUEUE,
            "kind": "ClusterQueue",
            "metadata": {"name": "cluster-queue"},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups},
        },
    ]


class Line(NamedTuple):
    """An object that was applied. `key`: where what becomes of it is seen; empty: nowhere. `said`: at the door."""

    file: str
    what: str
    key: str
    said: str


class Played(Cluster):
    """All files at once. `lines`: their objects, in order."""

    def __init__(self, api: Connection) -> None:
        super().__init__(api)
        self.lines: list[Line] = []
        self.seen: dict[str, str] = {}

    async def install(self) -> None:
        """Apply the definitions that are not served, and the queue."""
        definitions = json.loads(gzip.decompress((HERE / "definitions.json.gz").read_bytes()))
        for body in definitions:
            with contextlib.suppress(ApiRefusal):  # `phalanx up` has it: below it is waited for in any case
                await self.api.create(CRDS, body)
        for body in definitions:
            served = next(version["name"] for version in body["spec"]["versions"] if version["served"])
            path = f"/apis/{body['spec']['group']}/{served}/{body['spec']['names']['plural']}"
            assert await until(partial(self._is_served, path), bool), f"{path} is not served"
        for obj in around():
            assert await self.apply(obj) == "taken"

    async def _is_served(self, path: str) -> bool:
        try:
            await self.api.request("GET", path, params={"limit": "1"})
        except ApiRefusal:
            return False
        return True

    async def play(self, number: int, file: Path) -> None:
        name, plain, queued = f"{file.parent.name}/{file.name}", f"plain-{number}", f"queued-{number}"
        for space in (plain, queued):
            await self._namespace(space)
        local = {"apiVersion": KUEUE, "kind": "LocalQueue", "spec": {"clusterQueue": "cluster-queue"}}
        assert await self.apply({**local, "metadata": {"name": "user-queue", "namespace": queued}}) == "taken"
        for obj in read(file):
            if "kind" not in obj or "apiVersion" not in obj:
                self.lines.append(Line(name, "no object", "", "a file of a program"))
                continue
            await self._both(name, plain, queued, obj)

    async def _both(self, name: str, plain: str, queued: str, obj: Object) -> None:
        is_job = (obj["apiVersion"], obj["kind"]) in JOB_KINDS
        said = await self.apply(_in(plain, obj))
        self.lines.append(Line(name, named(obj), plain if obj["kind"] in RUN else "", said))
        if not is_job:
            await self.apply(_in(queued, obj))  # what its jobs need: runtimes, claims, configurations
        elif said == "taken":
            labels = {**((obj.get("metadata") or {}).get("labels") or {}), **QUEUE}
            copy = _in(queued, {**obj, "metadata": {**obj["metadata"], "labels": labels}})
            said = await self.apply(copy)
            key = f"{queued} {obj['kind']} {copy['metadata'].get('name', '')}"
            self.lines.append(Line(name, f"{named(obj)} in a queue", key, said))

    def told(self, seen: dict[str, str]) -> str:
        """All lines, with what became of the jobs."""
        return "".join(f"{one.file}\t{one.what}\t{_became(one, seen)}\n" for one in self.lines)

    async def outcomes(self) -> dict[str, str]:
        """Return the outcomes: `NAMESPACE Kind name` of each job with a Workload -> the Workload's state; for other
        namespaces, whether pods have nodes. An outcome that was admitted or started once is kept, because without an
        operator the start is taken back after a minute."""
        found = dict[str, str]()
        for pod in (await self.api.request("GET", "/api/v1/pods"))["items"]:
            space = pod["metadata"]["namespace"]
            found[space] = "starts" if pod["spec"].get("nodeName") else found.get(space, "its pods wait")
        for one in (await self.api.request("GET", f"/apis/{KUEUE}/workloads"))["items"]:
            meta = one["metadata"]
            for owner in (meta.get("ownerReferences") or ())[:1]:
                found[f"{meta['namespace']} {owner['kind']} {owner['name']}"] = _said(one)
        found |= {key: text for key, text in self.seen.items() if text.startswith(("admitted", "starts"))}
        self.seen = found
        return found


def read(file: Path) -> list[Object]:
    try:
        return documents(file)
    except yaml.YAMLError:
        return [{}]


def named(obj: Object) -> str:
    meta = obj.get("metadata") or {}
    return f"{obj['kind']} {meta.get('name') or meta.get('generateName', '')}".strip()


def _in(space: str, obj: Object) -> Object:
    meta = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "namespace"}
    return {**obj, "metadata": meta if obj["kind"] in CLUSTER_WIDE else {**meta, "namespace": space}}


def _said(workload: Object) -> str:
    said = {each["type"]: each for each in (workload.get("status") or {}).get("conditions") or ()}
    quota = said.get("QuotaReserved", {"status": "Unknown", "reason": ""})
    if quota["status"] != "True":
        return f"waits: {quota['reason'] or 'unseen'}"
    sets = workload["status"]["admission"]["podSetAssignments"]
    return "admitted: " + ", ".join(f"{each['name']} {each['count']}" for each in sets)


def _became(line: Line, seen: dict[str, str]) -> str:
    if line.said != "taken" or not line.key:
        return line.said
    found = seen.get(line.key, "no Workload" if " " in line.key else "")
    return f"{line.said}; {found}" if found else line.said


async def scene(data: Path) -> str:
    """Return the outcomes of all objects once they are as expected, or at the time-out."""
    async with await Connection.open(data / "kubeconfig") as api:
        cluster = Played(api)
        await cluster.install()
        for number, file in enumerate(EXAMPLES):
            await cluster.play(number, file)
        if os.environ.get("PHALANX_REWRITE"):
            return cluster.told(await the_same(cluster.outcomes, are_seen))
        expected = EXPECT.read_text()
        return cluster.told(await until(cluster.outcomes, lambda seen: cluster.told(seen) == expected))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_example_ends_as_it_should(tmp_path: Path) -> None:
    with started(tmp_path, *SIMULATED):
        now = asyncio.run(scene(tmp_path))
    if os.environ.get("PHALANX_REWRITE"):
        EXPECT.write_text(now)
        for page in ("frameworks.md", "kubernetes.md"):
            (PAGES / page).write_text(counted(page))
    assert different(now, EXPECT) == []


@pytest.mark.parametrize("page", ["frameworks.md", "kubernetes.md"])
def test_the_page_says_how_many(page: str) -> None:
    assert (PAGES / page).read_text() == counted(page)


def counted(page: str) -> str:
    """The page with its table of what became of the manifests."""
    own = "kubernetes-workload"
    rows: dict[str, Counter[str]] = {}
    files: dict[str, set[str]] = {}
    for line in EXPECT.read_text().splitlines():
        file, what, said = line.split("\t")
        project = file.partition("/")[0]
        files.setdefault(project, set()).add(file)
        rows.setdefault(project, Counter())[_class(what, said)] += 1
    heads = ("taken", "refused", "not served", "admitted", "waits", "starts")
    lines = [
        "| of | files | objects taken | refused | of kinds that are not served | of its jobs, in a queue: admitted "
        "| wait with a reason | without a queue: run on `phalanx up` alone |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for project, tally in rows.items():
        if (project == own) == (page == "kubernetes.md"):
            tally["taken"] += tally["starts"]
            lines.append(f"| {project} | {len(files[project])} | {' | '.join(str(tally[head]) for head in heads)} |")
    return with_counts((PAGES / page).read_text(), "\n".join(lines))


def _class(what: str, said: str) -> str:
    if what.endswith(" in a queue"):
        return "admitted" if "admitted" in said else "waits"
    if said.startswith("refused"):
        return "refused"
    if "not served" in said:
        return "not served"
    return "starts" if said.endswith("starts") else "taken" if said.startswith("taken") else "other"
