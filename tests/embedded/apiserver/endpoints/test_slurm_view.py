"""`endpoints/paths/slurm_view.py`: the fields of Slurm jobs and pods that every user may see, and no others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.auth.rbac import AccessRequest
from phalanx.embedded.apiserver.endpoints.paths.slurm_view import ROOT, SHOWN, SlurmView
from phalanx.embedded.apiserver.transport.negotiation import accepted
from phalanx.embedded.apiserver.transport.request import HttpRequest, parse_query
from tests.embedded.apiserver.inprocess import InProcess, Scene, played
from tests.embedded.apiserver.registry.kinds.writes import resource

ADA, BOB, OPERATOR = User(name="ada"), User(name="bob"), User(name="oper")
PREFIX = "slurm.phalanx.dev/"
NUMBER, ASK = f"{PREFIX}number", f"{PREFIX}job"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Scene], None]]:
    """A server with the namespace of ada, and one that belongs to no user."""

    async def furnish(server: InProcess) -> None:
        notes = {"phalanx.dev/user": "ada", "phalanx.dev/uid": "1000", "phalanx.dev/gid": "1001"}
        await server.make("/api/v1/namespaces", {"metadata": {"name": "user-ada", "annotations": notes}})
        await server.make("/api/v1/namespaces", {"metadata": {"name": "common"}})

    with played(tmp_path_factory.mktemp("api")) as play:
        play(furnish)
        yield play


@pytest.fixture
def play(one_server: Callable[[Scene], None]) -> Iterator[Callable[[Scene], None]]:
    """Each test begins without Jobs and pods."""
    yield one_server
    one_server(emptied)


async def emptied(server: InProcess) -> None:
    for space in ("user-ada", "common"):
        await server.ask("DELETE", f"/apis/batch/v1/namespaces/{space}/jobs?propagationPolicy=Background")
        await server.ask("DELETE", f"/api/v1/namespaces/{space}/pods?gracePeriodSeconds=0")


def may(user: User, asked: AccessRequest, namespace: str) -> bool:
    """Users list the Jobs of their own namespace, and the operator those of all."""
    assert (asked.verb, asked.group, asked.resource) == ("list", "batch", "jobs")
    return user == OPERATOR or namespace == f"user-{user.name}"


def view(server: InProcess) -> SlurmView:
    return SlurmView(server.api.engine.store, resource("jobs", "batch"), resource("pods"), may)


def request(path: str, user: User = BOB, method: str = "GET") -> HttpRequest:
    path, _, query = path.partition("?")
    return HttpRequest(
        method=method, path=f"{ROOT}{path}", query=parse_query(query.encode()), user=user, accept=accepted("")
    )


async def seen(server: InProcess, path: str, user: User = BOB) -> list[Any]:
    items: list[Any] = json.loads((await view(server).answer(request(path, user))).body)["items"]
    return items


async def job(
    server: InProcess, number: int, ask: Any = None, *, namespace: str = "user-ada", **notes: str
) -> dict[str, Any]:
    """Create a Slurm job; `ask`: the description that its user wrote."""
    said = {"user": "ada", "uid": 1000, "gid": 1001, "name": "train"} if ask is None else ask
    text = said if isinstance(said, str) else json.dumps(said)
    meta = {
        "name": f"slurm-{number}",
        "labels": {NUMBER: str(number), "private": "x"},
        "annotations": {ASK: text, **notes},
    }
    container = {"name": "main", "image": "host", "env": [{"name": "TOKEN", "value": "hush"}]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    body = {"metadata": meta, "spec": {"template": template, "suspend": True}}
    made: dict[str, Any] = await server.make(f"/apis/batch/v1/namespaces/{namespace}/jobs", body)
    return made


def ask_of(item: Any) -> Any:
    return json.loads(item["metadata"]["annotations"][ASK])


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_others_see_the_shown_fields_and_nothing_else(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        secret = {"command": "hush", "workdir": "/hush", "comment": "hush", "unknown": "hush"}
        private = {"example.com/note": "hush", f"{PREFIX}environment": "hush", "phalanx.dev/reason": "NoRoom: full"}
        await job(server, 7, {"user": "ada", "uid": 1000, "gid": 1001, "name": "train", "tasks": 2} | secret, **private)
        [found] = await seen(server, "jobs")
        assert "hush" not in json.dumps(found)
        assert ask_of(found) == {"user": "ada", "uid": 1000, "gid": 1001, "name": "train", "tasks": 2}
        assert found["metadata"]["annotations"]["phalanx.dev/reason"] == "NoRoom: full"
        assert found["metadata"]["labels"] == {NUMBER: "7"}
        assert found["spec"] == {"suspend": True}
        assert found.keys() == {"metadata", "spec", "status"}

    play(scene)


def test_who_may_list_the_jobs_sees_all_of_them(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await job(server, 7, {"user": "ada", "uid": 1000, "command": "train.sh"})
        for user in (ADA, OPERATOR):
            [found] = await seen(server, "jobs", user)
            assert ask_of(found)["command"] == "train.sh"
            assert found["metadata"]["labels"]["private"] == "x"
            assert "template" not in found["spec"], "large parts are left out"

    play(scene)


@pytest.mark.parametrize("said", [{"user": "root", "uid": 0}, {"user": "ada", "uid": 0}, "{", "[]", '"x"'])
def test_a_job_shows_the_owner_of_its_namespace_whatever_it_says(play: Callable[[Scene], None], said: Any) -> None:
    async def scene(server: InProcess) -> None:
        await job(server, 7, said)
        for user in (BOB, ADA, OPERATOR):
            [found] = await seen(server, "jobs", user)
            if isinstance(said, dict):
                shown = ask_of(found)
                assert (shown["user"], shown["uid"], shown["gid"]) == ("ada", 1000, 1001), user
            elif user == BOB:
                assert ASK not in found["metadata"]["annotations"], "what cannot be read is not shown"

    play(scene)


def test_in_a_namespace_of_no_user_the_job_names_its_user(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await job(server, 7, {"user": "eve", "uid": 5}, namespace="common")
        [found] = await seen(server, "jobs")
        assert ask_of(found) == {"user": "eve", "uid": 5}
        assert len(await seen(server, "jobs?users=eve,bob")) == 1

    play(scene)


def test_steps_are_shown_without_their_command_lines(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        step = json.dumps({"name": "step", "tasks": 2, "line": "srun hush", "memory": 9})
        await job(server, 7, **{f"{PREFIX}step.0": step, f"{PREFIX}step.1": "no JSON hush"})
        [found] = await seen(server, "jobs")
        notes = found["metadata"]["annotations"]
        assert json.loads(notes[f"{PREFIX}step.0"]) == {"name": "step", "tasks": 2}
        assert f"{PREFIX}step.1" not in notes

    play(scene)


def test_of_a_start_its_time_is_shown(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await job(server, 7, **{"phalanx.dev/admitted": '{"at_s": 5.0, "queue": "hush"}'})
        [found] = await seen(server, "jobs")
        assert found["metadata"]["annotations"]["phalanx.dev/admitted"] == '{"at_s":5.0}'

    play(scene)


def test_jobs_that_are_not_slurms_are_left_out(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        body = {
            "metadata": {"name": "plain"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
        }
        await server.make("/apis/batch/v1/namespaces/user-ada/jobs", body)
        assert await seen(server, "jobs", OPERATOR) == []

    play(scene)


def test_live_jobs_have_not_ended_and_users_select(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        for number in (7, 8):
            await job(server, number)
        now = "2026-01-01T00:00:00Z"
        ended = [
            {"type": kind, "status": "True", "reason": "x", "lastTransitionTime": now}
            for kind in ("FailureTarget", "Failed")
        ]
        status = {"status": {"conditions": ended, "startTime": now}}
        path = "/apis/batch/v1/namespaces/user-ada/jobs/slurm-8/status"
        assert (await server.ask("PATCH", path, status, MERGE)).code == 200
        numbers = [one["metadata"]["name"] for one in await seen(server, "jobs?live=true")]
        assert numbers == ["slurm-7"]
        [_, failed] = await seen(server, "jobs?live=false")
        assert failed["status"]["startTime"] == now
        assert [one["type"] for one in failed["status"]["conditions"]] == ["FailureTarget", "Failed"]
        assert await seen(server, "jobs?users=bob") == []
        assert len(await seen(server, "jobs?users=bob,ada")) == 2
        [one] = await seen(server, f"jobs?labelSelector={NUMBER}%3D7")
        assert one["metadata"]["name"] == "slurm-7"

    play(scene)


def test_the_shown_fields_name_no_path_and_no_command() -> None:
    for private in ("command", "workdir", "stdin", "stdout", "stderr", "line", "comment", "mail_user", "image"):
        assert private not in SHOWN


# --- pods -------------------------------------------------------------------------------------------------------------


def test_of_pods_on_nodes_the_requests_are_shown(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        asks = {"cpu": "2", "memory": "1Gi", "example.com/secret": "1"}
        container = {
            "name": "c",
            "image": "hush",
            "args": ["hush"],
            "resources": {"requests": asks, "limits": {"example.com/secret": "1"}},
        }
        meta = {
            "labels": {NUMBER: "7", "hush": "x"},
            "annotations": {"batch.kubernetes.io/job-completion-index": "3", "n": "hush"},
        }
        path = "/api/v1/namespaces/user-ada/pods"
        await server.make(
            path, {"metadata": {"name": "p", **meta}, "spec": {"nodeName": "n1", "containers": [container]}}
        )
        await server.make(path, {"metadata": {"name": "waits"}, "spec": {"containers": [container]}})
        end = {"exitCode": 3, "reason": "Error", "message": "hush"}
        states = [
            {
                "name": "c",
                "image": "hush",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": end},
            }
        ]
        status = {"status": {"phase": "Failed", "containerStatuses": states}}
        assert (await server.ask("PATCH", f"{path}/p/status", status, MERGE)).code == 200
        [found] = await seen(server, "pods")
        assert "hush" not in json.dumps(found)
        assert found["spec"] == {
            "nodeName": "n1",
            "containers": [{"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
        }
        assert found["metadata"]["annotations"] == {"batch.kubernetes.io/job-completion-index": "3"}
        [ending] = found["status"]["containerStatuses"]
        assert {"exitCode": 3, "reason": "Error"}.items() <= ending["state"]["terminated"].items()

    play(scene)


# --- requests ---------------------------------------------------------------------------------------------------------


def test_the_paths_are_read_only(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        for path, method, code in (("jobs", "POST", 405), ("other", "GET", 404), ("", "GET", 404)):
            with pytest.raises(StatusError) as raised:
                await view(server).answer(request(path, method=method))
            assert raised.value.code == code
        with pytest.raises(StatusError) as raised:
            await view(server).answer(request("jobs?labelSelector=%21%21"))
        assert raised.value.code == 400

    play(scene)


def test_the_ledger_is_asked_in_the_name_of_the_user(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        forged = request("ledger?asker=root&all=true&since=5")
        assert view(server).asking(forged).query == {"since": ["5"], "asker": ["bob"], "all": ["false"]}
        assert view(server).asking(request("ledger", OPERATOR)).query == {"asker": ["oper"], "all": ["true"]}

    play(scene)
