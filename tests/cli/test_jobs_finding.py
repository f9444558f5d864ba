"""Every form in which users name a job, against a real API server and a ledger."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.cluster.jobs.finding import Finder, FoundJob, pods_of, recorded
from phalanx.cli.commands.status.explain import _recorded
from phalanx.cli.views.entry_view import page, title
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import CRDS, JOBS, NAMESPACES, PODS, Kind
from phalanx.dialects.volcano.kinds import JOBS as VOLCANO_JOBS
from phalanx.errors import PhalanxError
from phalanx.ledger.entry import JobEntry, StartEntry, State, url_of
from phalanx.ledger.store import Ledger
from tests.cli.upstart import phalanx
from tests.embedded.apiserver.process import ServerProcess

QUEUE = {"phalanx.dev/queue": "default"}
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}


def job(name: str, namespace: str = "names", **labels: str) -> tuple[Kind, dict[str, Any]]:
    spec = {"suspend": True, "parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": {"spec": POD}}
    meta = {"name": name, "namespace": namespace, "labels": {**QUEUE, **labels}}
    return JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def pod(name: str, owner: dict[str, Any] | None = None, **labels: str) -> tuple[Kind, dict[str, Any]]:
    meta: dict[str, Any] = {"name": name, "namespace": "names", "labels": labels}
    if owner is not None:
        meta["ownerReferences"] = [owner]
    return PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": POD}


def volcano_job(name: str) -> tuple[Kind, dict[str, Any]]:
    meta = {"name": name, "namespace": "names"}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "any"}]}}
    spec = {"minAvailable": 1, "tasks": [{"name": "main", "replicas": 1, "template": template}]}
    return VOLCANO_JOBS, {"apiVersion": VOLCANO_JOBS.api_version, "kind": "Job", "metadata": meta, "spec": spec}


def definition(kind: Kind) -> dict[str, Any]:
    """Return the definition of a kind that takes any field."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower(), "listKind": f"{kind.name}List"}
    spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
    name = {"name": f"{kind.plural}.{kind.group}"}
    return {"apiVersion": CRDS.api_version, "kind": CRDS.name, "metadata": name, "spec": spec}


async def fill(connection: Connection) -> None:
    for namespace in ("names", "team"):
        await connection.create(NAMESPACES, {"metadata": {"name": namespace}})
    with contextlib.suppress(ApiRefusal):  # another test has defined it on this server
        await connection.create(CRDS, definition(VOLCANO_JOBS))
    while "batch.volcano.sh" not in str(await connection.request("GET", "/apis")):  # noqa: ASYNC110 (a server says it)
        await asyncio.sleep(0.05)
    indexed = {"batch.kubernetes.io/job-name": "train"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    for kind, obj in (
        *(job("train"), job("train", "team"), job("elsewhere", "team"), job("claimant"), volcano_job("claimant")),
        *(job(f"sweep-{task}", **{"phalanx.dev/array": "sweep"}) for task in (5, 7, 10)),
        job("slurm-12", **{"slurm.phalanx.dev/number": "12"}),
        job("slurm-30-0000007", **{"slurm.phalanx.dev/array": "30", "slurm.phalanx.dev/number": "37"}),
        *(job(f"mnist-{role}", **{"phalanx.dev/job": "mnist"}) for role in ("server", "worker")),
        *(pod(f"train-{n}", owner, **indexed, **{"batch.kubernetes.io/job-completion-index": str(n)}) for n in (1, 0)),
        *(
            pod(f"spark-{role}", **{"phalanx.dev/job": "spark", "phalanx.dev/role": role})
            for role in ("driver", "exec")
        ),
        job("job"),
        pod("job-1", **{"batch.kubernetes.io/job-name": "job", "batch.kubernetes.io/job-completion-index": "1"}),
        *(volcano_job("native"), pod("native-main-0", **{"volcano.sh/job-name": "native"}), pod("lone")),
        *(pod(f"co-{n}", **{"scheduling.x-k8s.io/pod-group": "co"}) for n in range(2)),
    ):
        await connection.create(kind, obj, obj["metadata"]["namespace"])


@pytest.fixture(scope="module")
def server(api_server: ServerProcess) -> ServerProcess:
    async def run() -> None:
        async with await Connection.open(api_server.kubeconfig) as connection:
            await fill(connection)

    asyncio.run(run())
    return api_server


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    url = url_of(tmp_path / "ledger.sqlite3")
    words = {"object": "Job.batch.volcano.sh/yesterday"}
    starts = (StartEntry(at_s=60.0, state=State.FAILED, end_s=90.0, nodes=("n1", "n1")),)
    with Ledger.open(url) as book:
        book.put(
            [
                JobEntry(uid="a", job="names/gone", state=State.COMPLETED, end_s=10.0),
                JobEntry(uid="b", job="names/gone", state=State.FAILED, end_s=90.0, exit_code=3, starts=starts, pods=2),
                JobEntry(uid="c", job="names/podgroup:yesterday-1", kind="Gang", words=words, state=State.COMPLETED),
                JobEntry(uid="d", job="names/pod:solo", kind="Pod", state=State.COMPLETED, end_s=5.0),
                JobEntry(uid="e", job="names/slurm-99", number=99, state=State.COMPLETED, end_s=5.0),
                JobEntry(uid="f", job="names/night-3", words={"task-of": "night"}, submit_s=1.0, end_s=5.0),
                JobEntry(uid="h", job="team/old", state=State.COMPLETED, end_s=5.0),
                JobEntry(uid="g", job="names/night-4", words={"task-of": "night"}, submit_s=2.0, end_s=5.0),
            ]
        )
    return url


def find(server: ServerProcess, text: str, ledger: str | None = None) -> tuple[FoundJob, list[str]]:
    """Return the job of that name, and the names of its pods."""

    async def run() -> tuple[FoundJob, list[str]]:
        async with await Connection.open(server.kubeconfig) as connection:
            found = await Finder(connection, "names", ledger).one(text)
            return found, [pod["metadata"]["name"] for pod in await pods_of(connection, found)]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "kind", "name", "members", "pods"),
    [
        ("train", "job", "names/train", ["train"], ["train-0", "train-1"]),
        ("names/train", "job", "names/train", ["train"], ["train-0", "train-1"]),
        ("team/train", "job", "team/train", ["train"], []),
        ("job/train", "job", "names/train", ["train"], ["train-0", "train-1"]),
        ("train/1", "job", "names/train", ["train"], ["train-1"]),
        ("names/train/0", "job", "names/train", ["train"], ["train-0"]),
        ("sweep", "array", "names/sweep", ["sweep-5", "sweep-7", "sweep-10"], []),
        ("sweep/7", "job", "names/sweep-7", ["sweep-7"], []),
        ("12", "job", "names/slurm-12", ["slurm-12"], []),
        ("30_7", "job", "names/slurm-30-0000007", ["slurm-30-0000007"], []),
        ("30", "array", "names/30", ["slurm-30-0000007"], []),
        ("37", "job", "names/slurm-30-0000007", ["slurm-30-0000007"], []),
        ("mnist", "gang", "names/mnist", ["mnist-server", "mnist-worker"], []),
        ("spark", "gang", "names/spark", ["spark-driver", "spark-exec"], ["spark-driver", "spark-exec"]),
        ("spark/exec", "gang", "names/spark", ["spark-driver", "spark-exec"], ["spark-exec"]),
        ("claimant", "job", "names/claimant", ["claimant"], []),
        ("vcjob/claimant", "vcjob", "names/claimant", ["claimant"], []),
        ("native", "vcjob", "names/native", ["native"], ["native-main-0"]),
        ("job/1", "job", "names/job", ["job"], ["job-1"]),
        ("job/job", "job", "names/job", ["job"], ["job-1"]),
        ("lone", "pod", "names/lone", ["lone"], ["lone"]),
        ("co", "gang", "names/co", ["co-0", "co-1"], ["co-0", "co-1"]),
        ("pod:lone", "pod", "names/lone", ["lone"], ["lone"]),
        ("names/pod:lone", "pod", "names/lone", ["lone"], ["lone"]),
    ],
)
def test_a_job_is_found_in_each_form(
    server: ServerProcess, text: str, kind: str, name: str, members: list[str], pods: list[str]
) -> None:
    found, its_pods = find(server, text)
    assert (found.kind, found.id, [member.name for member in found.members]) == (kind, name, members)
    assert its_pods == pods


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trian", r"there is no job names/trian\. Did you mean train\?"),
        ("elsewhere", r"there is no job names/elsewhere\. There is team/elsewhere\."),
        ("sweep/8", r"there is no job"),
        ("vcjob/train", r"there is no job names/train"),
        ("a//b", r"'a//b' names no job: write NAME, NAMESPACE/NAME"),
    ],
)
def test_an_unknown_name_gets_the_nearest_one(server: ServerProcess, text: str, message: str) -> None:
    with pytest.raises(PhalanxError, match=message):
        find(server, text)


def test_past_jobs_are_proposed_but_not_listed_as_there(server: ServerProcess, ledger: str) -> None:
    with pytest.raises(PhalanxError, match=r"there is no job names/gon\. Did you mean gone"):
        find(server, "gon", ledger)
    with pytest.raises(PhalanxError, match=r"The jobs there are: elsewhere, train\. "):
        find(server, "team/qqqqqq", ledger)


@pytest.mark.parametrize(
    ("text", "uid", "name"),
    [
        ("gone", "b", "names/gone"),
        ("names/gone", "b", "names/gone"),
        ("yesterday", "c", "names/yesterday"),
        ("vcjob/yesterday", "c", "names/yesterday"),
        ("solo", "d", "names/pod:solo"),
        ("99", "e", "names/slurm-99"),
        ("night/4", "g", "names/night-4"),
        ("names/night/3", "f", "names/night-3"),
    ],
)
def test_a_job_that_is_gone_is_found_in_the_ledger(
    server: ServerProcess, ledger: str, text: str, uid: str, name: str
) -> None:
    found, _ = find(server, text, ledger)
    assert found.entry is not None
    assert (found.members, found.entry.uid, title(found.entry)) == ((), uid, name)


def test_an_array_that_is_gone_says_how_to_name_its_tasks(server: ServerProcess, ledger: str) -> None:
    with pytest.raises(PhalanxError, match=r"the tasks of array names/night were deleted\. Name one of them: night/4"):
        find(server, "night", ledger)
    with pytest.raises(PhalanxError, match=r"there is no job names/night/5\."):
        find(server, "night/5", ledger)
    with Ledger.open(ledger, read_only=True) as book:
        assert [entry.uid for entry in recorded(book, "night", "names")] == ["f", "g"]
        assert [entry.uid for entry in recorded(book, "night/4", "names")] == ["g"]


def test_submit_creates_the_objects_of_other_operators(server: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "claim.json"
    file.write_text(json.dumps(volcano_job("claim")[1]))
    done = phalanx("submit", str(file), "-n", "names", KUBECONFIG=str(server.kubeconfig))
    assert (done.returncode, done.stdout, done.stderr) == (0, "job names/claim created\n", "")


def test_a_name_finds_no_longer_name_in_the_ledger(ledger: str) -> None:
    with Ledger.open(ledger, read_only=True) as book:
        assert recorded(book, "terday", "names") == []
        assert recorded(book, "gon%", "names") == []
        assert [entry.uid for entry in recorded(book, "gone", "names")] == ["a", "b"]


def test_the_page_of_a_job_that_is_gone(server: ServerProcess, ledger: str) -> None:
    found, _ = find(server, "gone", ledger)
    assert found.entry is not None
    lines = page(found.entry, 100.0).splitlines()
    assert lines[0].startswith("names/gone: FAILED after 30s, ")
    assert lines[0].endswith(", exit code 3, queue ")
    assert any(line.startswith("  FAILED from ") and line.endswith(" on n1") for line in lines)


def test_a_job_that_the_scheduler_leaves_alone_says_so(server: ServerProcess) -> None:
    found, _ = find(server, "native")
    with pytest.raises(PhalanxError, match=r"vcjob names/native exists.*it has no label phalanx\.dev/queue"):
        _recorded(found, None)
