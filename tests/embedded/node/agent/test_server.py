"""`agent/server.py`: the endpoint of a node, from which the API server reads logs and opens streams into pods."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from phalanx.embedded.node.agent.server import serving, shared_token
from phalanx.embedded.node.machine.settings import NodeSettings
from phalanx.embedded.node.pod.lifecycle import ContainerStateWaiting, Known
from phalanx.errors import PhalanxError

LINE = "{}.000000000Z stdout F {}\n"


def log(folder: Path, number: int, *lines: str, ended: bool = True) -> None:
    """Write an attempt of a container, with a line for each second of 2026."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number}.spec.json").write_text("{}")
    times = (dt.datetime(2026, 1, 1) + dt.timedelta(seconds=at) for at in range(len(lines)))
    text = "".join(LINE.format(time.isoformat(), line) for time, line in zip(times, lines, strict=True))
    (folder / f"{number}.log").write_text(text)
    if ended:
        ending = {"exit_code": 0, "signal": 0, "finished_s": 1.0, "reason": "", "message": ""}
        (folder / f"{number}.exit.json").write_text(json.dumps(ending))


class Node:
    """A node with one pod `ns/p`, whose container `c` has these files."""

    def __init__(self, data: Path) -> None:
        self.settings = NodeSettings(data_dir=data)
        self.folder = data / "pods/c"
        self.container = SimpleNamespace(folder=self.folder, known=Known())
        self.pod = SimpleNamespace(containers={"c": self.container}, record=SimpleNamespace(pod_ip=""))
        self.around = SimpleNamespace(kept_logs=self)

    def find(self, namespace: str, name: str) -> Any:
        return self.pod if (namespace, name) == ("ns", "p") else None

    # the kept logs of deleted pods

    def of(self, namespace: str) -> list[dict[str, str]]:
        return [{"pod": "gone", "namespace": namespace}]

    def log(self, namespace: str, uid: str, container: str, *, previous: bool) -> Path | None:
        return self.folder / ("0.log" if previous else "1.log") if uid == "u" else None

    @asynccontextmanager
    async def asked(self, path: str, token: str | None = None) -> AsyncIterator[tuple[int, str]]:
        """The code and the text of the answer to a request; `token`: None for the right one."""
        agent: Any = self
        meter: Any = SimpleNamespace(summary=lambda: {"pods": []})
        async with serving(agent, meter, self.settings) as port, aiohttp.ClientSession() as session:
            right = shared_token(self.settings.token_file)
            headers = {"Authorization": f"Bearer {right if token is None else token}"}
            async with session.get(f"http://127.0.0.1:{port}{path}", headers=headers) as answer:
                yield answer.status, await answer.text()

    def ask(self, path: str, token: str | None = None) -> tuple[int, str]:
        async def scene() -> tuple[int, str]:
            async with self.asked(path, token) as found:
                return found

        return asyncio.run(scene())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


# --- access -----------------------------------------------------------------------------------------------------------


def test_the_token_is_made_once_and_is_the_owners_secret(tmp_path: Path) -> None:
    path = tmp_path / "data/kubelet.token"
    token = shared_token(path)
    assert len(token) >= 32
    assert shared_token(path) == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "path",
    [
        "/containerLogs/ns/p/c",
        "/keptLogs/ns",
        "/keptLogs/ns/u/c",
        "/exec/ns/p/c",
        "/attach/ns/p/c",
        "/portForward/ns/p",
        "/stats/summary",
    ],
)
def test_a_request_without_the_token_is_refused(node: Node, path: str) -> None:
    log(node.folder, 1, "secret")
    for token in ("", "wrong", "é"):
        assert node.ask(path, token) == (401, "Unauthorized")


def test_health_is_shown_to_everybody(node: Node) -> None:
    assert node.ask("/healthz", "") == (200, "ok")


def test_a_port_in_use_is_named(node: Node, tmp_path: Path) -> None:
    async def scene() -> None:
        agent: Any = node
        meter: Any = None
        async with serving(agent, meter, node.settings) as port:
            taken = NodeSettings(data_dir=tmp_path, port=port)
            with pytest.raises(PhalanxError, match=f"cannot listen on 127.0.0.1:{port}: .* Choose another port"):
                async with serving(agent, meter, taken):
                    pass

    asyncio.run(scene())


def test_usage_is_shown(node: Node) -> None:
    code, text = node.ask("/stats/summary")
    assert (code, json.loads(text)) == (200, {"pods": []})


# --- logs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "one\ntwo\nthree\n"),
        ("?tailLines=2", "two\nthree\n"),
        ("?tailLines=0", ""),
        ("?limitBytes=5", "one\nt"),
        ("?sinceTime=2026-01-01T00:00:01Z", "two\nthree\n"),
        ("?sinceTime=2026-01-01T02:00:01%2B02:00", "two\nthree\n"),
        ("?sinceTime=0926-01-01T00:00:00Z", "one\ntwo\nthree\n"),
        ("?sinceTime=0001-01-01T00:00:00%2B02:00", "one\ntwo\nthree\n"),
        ("?sinceSeconds=1", ""),
        ("?sinceSeconds=9223372036854775807", "one\ntwo\nthree\n"),
        ("?tailLines=1&timestamps=true", "2026-01-01T00:00:02.000000000Z three\n"),
        ("?timestamps=false&follow=0", "one\ntwo\nthree\n"),
        ("?follow=true", "one\ntwo\nthree\n"),
    ],
)
def test_a_log_is_read_with_the_options_of_kubectl(
    node: Node, query: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Later(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return dt.datetime(2026, 6, 1, tzinfo=tz)

    monkeypatch.setattr(dt, "datetime", Later)
    log(node.folder, 0, "one", "two", "three")
    assert node.ask(f"/containerLogs/ns/p/c{query}") == (200, text)


@pytest.mark.parametrize("query", ["tailLines=x", "sinceSeconds=1.5", "sinceTime=yesterday", "limitBytes=%20"])
def test_wrong_options_are_refused(node: Node, query: str) -> None:
    log(node.folder, 0, "one")
    assert node.ask(f"/containerLogs/ns/p/c?{query}")[0] == 400


def test_the_last_attempt_is_read_and_the_one_before_on_request(node: Node) -> None:
    for number, line in enumerate(("first", "second", "third")):
        log(node.folder, number, line)
    assert node.ask("/containerLogs/ns/p/c") == (200, "third\n")
    assert node.ask("/containerLogs/ns/p/c?previous=true") == (200, "second\n")


def test_without_an_earlier_attempt_there_is_no_previous_log(node: Node) -> None:
    log(node.folder, 0, "first")
    text = 'previous terminated container "c" in pod "p" not found'
    assert node.ask("/containerLogs/ns/p/c?previous=1") == (400, text)


def test_a_container_that_has_not_started_says_what_it_waits_for(node: Node) -> None:
    text = 'container "c" in pod "p" is waiting to start: '
    assert node.ask("/containerLogs/ns/p/c") == (400, text + "ContainerCreating")
    node.container.known = Known(waiting=ContainerStateWaiting(reason="ImagePullBackOff", message="", retry_s=0.0))
    assert node.ask("/containerLogs/ns/p/c") == (400, text + "ImagePullBackOff")


@pytest.mark.parametrize("path", ["ns/p/other", "ns/q/c", "other/p/c"])
def test_what_is_not_on_this_node_is_not_found(node: Node, path: str) -> None:
    log(node.folder, 0, "one")
    code, text = node.ask(f"/containerLogs/{path}")
    assert code == 404
    assert text.endswith("is not on this node: it was never started")


def test_a_log_that_is_deleted_meanwhile_ends(node: Node) -> None:
    log(node.folder, 0, "one")
    (node.folder / "0.log").unlink()
    assert node.ask("/containerLogs/ns/p/c") == (200, "")


# --- logs of deleted pods ---------------------------------------------------------------------------------------------


def test_kept_logs_are_listed_and_read(node: Node) -> None:
    log(node.folder, 0, "before")
    log(node.folder, 1, "one", "two")
    code, text = node.ask("/keptLogs/ns")
    assert (code, json.loads(text)) == (200, {"items": [{"pod": "gone", "namespace": "ns"}]})
    assert node.ask("/keptLogs/ns/u/c?tailLines=1") == (200, "two\n")
    assert node.ask("/keptLogs/ns/u/c?previous=true") == (200, "before\n")
    assert node.ask("/keptLogs/ns/u/c?tailLines=x")[0] == 400
    assert node.ask("/keptLogs/ns/other/c") == (404, 'no log of container "c" of that pod is kept')


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["exec", "attach"])
def test_a_stream_into_a_container_that_does_not_run_is_refused(node: Node, what: str) -> None:
    for path in ("ns/p/c", "ns/p/other", "ns/q/c"):
        container = path.rpartition("/")[2]
        assert node.ask(f"/{what}/{path}") == (404, f'container not found ("{container}")')


def test_connections_are_forwarded_to_a_pod_with_an_address_only(node: Node) -> None:
    for path in ("ns/p", "ns/q"):
        name = path.rpartition("/")[2]
        assert node.ask(f"/portForward/{path}") == (404, f'pod "{name}" does not run on this node')
