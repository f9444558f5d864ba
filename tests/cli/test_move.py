"""`phalanx move` from a real `phalanx up` to a second API server, killed after every single write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from phalanx.cli.cluster.jobs import choosing
from phalanx.cli.cluster.target import Target
from phalanx.cli.commands.administer.move import MoveOptions, move
from phalanx.client.connection import APPLY_PATCH, Connection
from phalanx.client.kind import CONFIG_MAPS, JOBS, NAMESPACES, PODS, SECRETS, Kind
from phalanx.embedded.controllers.run import run_controllers
from phalanx.embedded.controllers.runtime.calls import SharedInformers
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.install.installation import obtain_record_key
from phalanx.kube.read.labels import MOVED_FROM, MOVING, SUBMITTED
from phalanx.kube.read.records import submitted_s
from phalanx.kube.read.wire import epoch_s
from phalanx.ledger.entry import JobEntry, State, url_of
from phalanx.ledger.store import Ledger
from tests.cli.upstart import PHALANX, Up, started
from tests.embedded.apiserver.process import ServerProcess
from tests.ledger.postgresql import postgresql
from tests.providers.test_autoscaler import add_node

Object = dict[str, Any]
NAMESPACE = "user-ada"
USAGE = {"usage": json.dumps({"at_s": 1.0, "used": [["vision", "ada", 5.0]]})}


class Killed(BaseException):
    """The process was killed. No handler may catch this exception."""


class Mortal:
    """Kill the process after a number of writes to either cluster. `left`: the number of writes that it may still
    make."""

    def __init__(self, left: int) -> None:
        self.left, self.request = left, Connection.request

    async def __call__(self, connection: Connection, method: str, path: str, **named: Any) -> Any:
        if method == "GET" or path.endswith("selfsubjectaccessreviews"):
            return await self.request(connection, method, path, **named)
        if self.left == 0:
            raise Killed
        self.left -= 1
        answer = await self.request(connection, method, path, **named)
        if self.left == 0:
            raise Killed
        return answer


def job(name: str, image: str = "registry.example/lab:1", after: str = "", pods: int = 1, **labels: str) -> Object:
    container = {"name": "main", "image": image, "command": ["true"], "resources": {"requests": {"cpu": "3"}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    notes = {"phalanx.dev/after": after} if after else {}
    words = {key.replace("_", "-"): text for key, text in labels.items()}
    named = {f"phalanx.dev/{key}": text for key, text in ({"queue": "vision"} | words).items()}
    meta = {"name": name, "labels": named, "annotations": notes}
    spec = {"suspend": True, "parallelism": pods, "completions": pods, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


async def fill(api: Connection) -> None:
    """Make a lab: a queue, a user's namespace, and jobs of which one runs and the others wait."""
    notes = {"phalanx.dev/user": "ada", "phalanx.dev/uid": "1001"}
    await api.create(NAMESPACES, {"metadata": {"name": NAMESPACE, "annotations": notes}})
    await api.create(QUEUES, {"metadata": {"name": "lab"}, "spec": {"weight": 2}})
    await api.create(QUEUES, {"metadata": {"name": "vision"}, "spec": {"parent": "lab", "order": "multifactor"}})
    as_ada = ("ada", "system:masters")
    for one in (
        job("runs"),
        job("first"),
        job("second", after="first:ok"),
        job("needs-running", after="runs:ok"),
        job("on-host", image="host"),
        job("held", hold="true"),
        job("ps", job="mnist", job_roles="2"),
        job("worker", pods=2, job="mnist", job_roles="2"),
        job("slurm-12-0000001", image="host:latest"),
    ):
        made = await api.create(JOBS, one, NAMESPACE, acting=as_ada)
        if one["metadata"]["name"] == "runs":
            while not (await api.get(JOBS, "runs", NAMESPACE))["status"].get("active"):  # noqa: ASYNC110 (it decides)
                await asyncio.sleep(0.05)
        if one["metadata"]["name"] == "slurm-12-0000001":
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": made["metadata"]["name"]}
            meta = {"name": "slurm-12", "ownerReferences": [{**owner, "uid": made["metadata"]["uid"]}]}
            await api.create(SECRETS, {"metadata": meta, "stringData": {"A": "b", "PHALANX_PYTHON": "x"}}, NAMESPACE)
    lone = job("lone")["spec"]["template"]["spec"] | {"schedulerName": "phalanx"}
    await api.create(
        PODS, {"metadata": {"name": "lone", "labels": {"phalanx.dev/queue": "vision"}}, "spec": lone}, NAMESPACE
    )
    await api.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"a": "b"}}, NAMESPACE)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "phalanx-usage"}, "data": USAGE}
    how = {"fieldManager": "test", "force": "true"}
    await api.patch(CONFIG_MAPS, "phalanx-usage", body, "kube-system", content_type=APPLY_PATCH, **how)


@dataclass(frozen=True)
class Lab:
    up: Up
    there: ServerProcess

    def move(self, *words: str) -> Any:
        return self.up.phalanx("move", "--to", str(self.there.kubeconfig), *words)

    @property
    def at(self) -> tuple[Path, Path]:
        return self.up.data / "kubeconfig", self.there.kubeconfig


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    data = tmp_path_factory.mktemp("move")
    words = ("--no-local-node", "--simulate-nodes", "1", "--node-cpu", "4", "--node-memory", "4Gi")
    with ServerProcess.started(data / "there") as there, started(data / "here", *words) as up:

        async def run() -> None:
            async with await Connection.open(up.data / "kubeconfig") as api:
                await fill(api)

        asyncio.run(run())
        with Ledger.open(url_of(up.data / "ledger.sqlite3")) as book:
            book.put(
                [JobEntry(uid=uid, job=f"{NAMESPACE}/past-{uid}", state=State.COMPLETED, end_s=9.0) for uid in "ab"]
            )
            gone = JobEntry(uid="c", job="x/moved", state=State.CANCELLED, end_s=9.0, words={"moved-to": "there"})
            book.put([gone])
        yield Lab(up=up, there=there)


async def moved_once(lab: Lab, writes: int, way: MoveOptions) -> bool:
    """Run the command, and kill it after `writes` writes. Return whether it ran to its end."""
    here, there = lab.at
    mortal = Mortal(writes)

    async def request(connection: Connection, method: str, path: str, **named: Any) -> Any:
        return await mortal(connection, method, path, **named)

    with mock.patch.object(Connection, "request", request), mock.patch.object(choosing, "_AT_ONCE", 1):
        try:
            await move(to=there, way=way, target=Target(kubeconfig=here), json=True)
        except (Killed, BaseExceptionGroup):
            return False
    return True


def of(text: str) -> dict[str, Object]:
    """Return the rows of the JSON that the command printed, by kind."""
    return {row["kind"]: row for row in json.loads(text)["kinds"]}


async def listed(api: Connection, kind: Kind) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in (await api.list(kind, NAMESPACE))["items"]}


def is_marked(obj: Object) -> bool:
    return MOVING in (obj["metadata"].get("annotations") or {})


async def check_in_one_place(here: Connection, there: Connection, kind: Kind, names: set[str]) -> None:
    """Check that no job is lost, and that no job may start in both clusters."""
    at_source, at_target = await listed(here, kind), await listed(there, kind)
    for name in names:
        copies = [end[name] for end in (at_source, at_target) if name in end]
        assert copies, f"{name} is lost"
        assert sum(not is_marked(one) for one in copies) <= 1, f"{name} may start in both clusters"


MOVES = {"first", "second", "held", "ps", "worker", "on-host", "slurm-12-0000001"}
STAYS = {"runs", "needs-running"}


@pytest.mark.long
async def test_a_move_that_is_killed_after_every_write_loses_and_doubles_nothing(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    way = MoveOptions(image="registry.example/lab:1", mount=("/home",), ledger=url_of(tmp_path / "there.sqlite3"))
    async with await Connection.open(lab.at[0]) as here, await Connection.open(lab.at[1]) as there:
        before = await listed(here, JOBS)
        dry = replace(way, dry_run=True, requeue=True)
        assert await moved_once(lab, 0, dry), "a dry run writes nothing"
        assert of(capsys.readouterr().out)["job"] == {"kind": "job", "found": 9, "moved": 7, "there": 0, "left": 2}
        runs, doctor = 0, ""
        while not await moved_once(lab, 1, way):
            runs += 1
            assert runs < 100, "it makes no progress"
            if not doctor and any(map(is_marked, (await listed(here, JOBS)).values())):
                doctor = (await asyncio.to_thread(lab.up.call, *PHALANX, "doctor")).stdout
            await check_in_one_place(here, there, JOBS, MOVES | STAYS)
            await check_in_one_place(here, there, PODS, {"lone"})
        assert runs > 25, "it was killed after each write"
        assert "`phalanx move` that is unfinished or still runs" in doctor
        left, copies = await listed(here, JOBS), await listed(there, JOBS)
        assert set(left) == STAYS
        assert set(copies) == MOVES
        assert not any(map(is_marked, (*left.values(), *copies.values())))
        key = await obtain_record_key(there, lambda: 0.0)
        for name, copy in copies.items():
            meta, old = copy["metadata"], before[name]["metadata"]
            notes = meta["annotations"]
            assert notes["phalanx.dev/user"] == "ada"
            assert notes[MOVED_FROM].endswith(old["uid"])
            at_s = submitted_s(notes[SUBMITTED], meta["uid"], epoch_s(meta["creationTimestamp"]), key)
            assert at_s == epoch_s(old["creationTimestamp"])
            assert submitted_s(notes[SUBMITTED], "another", 9e9, key) == 9e9, "it is signed for this Job alone"
            assert meta["labels"]["phalanx.dev/queue"] == "vision"
            assert copy["spec"]["suspend"]
        assert copies["held"]["metadata"]["labels"]["phalanx.dev/hold"] == "true"
        assert copies["second"]["metadata"]["annotations"]["phalanx.dev/after"] == "first:ok"
        pod = copies["on-host"]["spec"]["template"]["spec"]
        assert pod["containers"][0]["image"] == "registry.example/lab:1"
        assert pod["volumes"] == [{"name": "shared-0", "hostPath": {"path": "/home", "type": ""}}]
        assert pod["securityContext"]["runAsUser"] == 1001, "it runs as its user, as it did here"
        secret = (await listed(there, SECRETS))["slurm-12"]
        assert set(secret["data"]) == {"A"}, "the step daemon of this machine is not there"
        assert [one["uid"] for one in secret["metadata"]["ownerReferences"]] == [
            copies["slurm-12-0000001"]["metadata"]["uid"]
        ]
        assert "lone" in await listed(there, PODS)
        assert (await there.get(QUEUES, "vision"))["spec"]["parent"] == "lab"
        assert (await there.get(NAMESPACES, NAMESPACE))["metadata"]["annotations"]["phalanx.dev/uid"] == "1001"
        assert (await listed(there, CONFIG_MAPS))["settings"]["data"] == {"a": "b"}
        assert (await there.get(CONFIG_MAPS, "phalanx-usage", "kube-system"))["data"] == USAGE
        with Ledger.open(way.ledger, read_only=True) as book:
            assert {one.uid for one in book.jobs()} == {"a", "b"}, "a job that moved is no job that was cancelled"
        capsys.readouterr()
        assert await moved_once(lab, 0, way), "a second move writes nothing"
        left_again = json.loads(capsys.readouterr().out)["left"]
        assert [(one["kind"], one["name"]) for one in left_again] == [
            ("job", f"{NAMESPACE}/{name}") for name in ("needs-running", "runs")
        ]


@pytest.mark.slow
async def test_what_differs_at_the_target_is_reported_and_running_jobs_are_moved_on_demand(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    async with await Connection.open(lab.at[0]) as here, await Connection.open(lab.at[1]) as there:
        assert await moved_once(lab, 1000, MoveOptions(image="any"))
        capsys.readouterr()
        await there.patch(CONFIG_MAPS, "settings", {"data": {"a": "another"}}, NAMESPACE)
        await there.create(JOBS, job("namesake"), NAMESPACE)
        await here.create(JOBS, job("namesake"), NAMESPACE)
        assert await moved_once(lab, 1000, MoveOptions())
        left = {one["name"]: one["why"] for one in json.loads(capsys.readouterr().out)["left"]}
        assert left[f"{NAMESPACE}/settings"] == "the target has another object with this name; --replace overwrites it"
        assert "another job with this name" in left[f"{NAMESPACE}/namesake"]
        assert not is_marked((await listed(here, JOBS))["namesake"]), "it waits on here"
        assert (await listed(there, CONFIG_MAPS))["settings"]["data"] == {"a": "another"}

        await here.patch(JOBS, "needs-running", {"metadata": {"annotations": {MOVING: "an earlier move"}}}, NAMESPACE)
        assert await moved_once(lab, 1000, MoveOptions(undo=True))
        assert not is_marked((await listed(here, JOBS))["needs-running"])

        capsys.readouterr()
        assert await moved_once(lab, 1000, MoveOptions(replace=True, requeue=True))
        assert (await listed(there, CONFIG_MAPS))["settings"]["data"] == {"a": "b"}
        assert set(await listed(here, JOBS)) == {"namesake"}
        copies = await listed(there, JOBS)
        assert {"runs", "needs-running"} <= set(copies)
        assert "phalanx.dev/admitted" not in copies["runs"]["metadata"]["annotations"]


async def reached(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(120):
        while not await condition():  # noqa: ASYNC110 (another process decides)
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_scheduler_at_the_target_starts_what_was_moved_and_its_ledger_is_postgresql(
    lab: Lab, tmp_path: Path
) -> None:
    """Start jobs in the right order. A dependency holds at the target too, and a held job stays held."""
    with postgresql() as ledger, (tmp_path / "log").open("w") as log:
        assert await moved_once(lab, 1000, MoveOptions(replace=True, image="any", ledger=ledger))
        with Ledger.open(ledger, read_only=True) as book:
            assert {one.uid for one in book.jobs()} >= {"a", "b"}
        words = ("scheduler", "--kubeconfig", str(lab.at[1]), "--ledger", ledger)
        async with await Connection.open(lab.at[1]) as there, SharedInformers(there) as informers:
            controllers = asyncio.create_task(run_controllers(there, informers))
            process = await asyncio.create_subprocess_exec(*PHALANX, *words, stderr=log)

            async def bound() -> set[str]:
                pods = (await listed(there, PODS)).values()
                return {
                    (one["metadata"].get("labels") or {}).get("job-name", one["metadata"]["name"])
                    for one in pods
                    if one["spec"].get("nodeName")
                }

            async def has_started(*names: str) -> None:
                async def are_bound() -> bool:
                    return {*names} <= await bound()

                await reached(are_bound)

            try:
                await add_node(there, "n1", {}, cpu=64)
                await has_started(*MOVES - {"second", "held"}, "lone")
                assert not {"second", "held"} & await bound()
                for name, pod in (await listed(there, PODS)).items():
                    if (pod["metadata"].get("labels") or {}).get("job-name") == "first":
                        await there.patch(PODS, name, {"status": {"phase": "Succeeded"}}, NAMESPACE, "status")
                await has_started("second")
                assert "held" not in await bound()

                def has_ended() -> bool:
                    with Ledger.open(ledger, read_only=True) as book:
                        return f"{NAMESPACE}/first" in {one.job for one in book.jobs()}

                await reached(lambda: asyncio.to_thread(has_ended))
            finally:
                process.terminate()
                await process.wait()
                controllers.cancel()
                await asyncio.gather(controllers, return_exceptions=True)


@pytest.mark.slow
def test_a_target_that_cannot_be_moved_to_is_refused(lab: Lab, tmp_path: Path) -> None:
    same = lab.up.phalanx("move", "--to", str(lab.at[0]))
    assert "is the source cluster itself" in same.stderr
    (tmp_path / "broken").write_text("{")
    assert "not a kubeconfig" in lab.up.phalanx("move", "--to", str(tmp_path / "broken")).stderr
    assert "there is no such file" in lab.up.phalanx("move", "--to", str(tmp_path / "none")).stderr
    assert "the full path" in lab.move("--image", "x", "--mount", "home").stderr
    assert "cannot be used" in lab.move("--ledger", "postgresql://nobody@127.0.0.1:1/none").stderr
    told: dict[str, Any] = {"major": "1", "minor": "27+", "gitVersion": "v1.27.3"}
    request = Connection.request

    async def old(connection: Connection, method: str, path: str, **named: Any) -> Any:
        is_target = connection.server == lab.there.url and path == "/version"
        return told if is_target else await request(connection, method, path, **named)

    with mock.patch.object(Connection, "request", old):
        refused = lab.move()
    assert refused.returncode == 1
    assert "is Kubernetes v1.27.3, and Phalanx needs 1.29 or newer. Nothing was changed" in refused.stderr
