"""The step daemon of a pod, reached through the API server: a WebSocket there, an ordinary socket here."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from aiohttp import web

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.jobs.steps.pods.channel import Broken
from phalanx.slurm.jobs.steps.pods.tunnel import pipe
from phalanx.slurm.jobs.steps.pods.tunnel.through import connect
from phalanx.slurm.submission.creation import give

PROTOCOL = "v4.channel.k8s.io"


class Server:
    """An API server whose pods send back what they are sent, in pieces, and then say how it ended."""

    def __init__(self) -> None:
        self.asked: list[web.Request] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        assert self._ready.wait(120)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(120)

    def api(self) -> ApiClient:
        return ApiClient(
            KubeconfigCluster(server=f"http://127.0.0.1:{self.port}"), KubeconfigUser(token="secret"), "lab"
        )

    def _run(self) -> None:
        async def serve() -> None:
            app = web.Application()
            app.router.add_get("/api/v1/namespaces/lab/pods/{name}/exec", self._answer)
            runner = web.AppRunner(app)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            assert isinstance(site._server, asyncio.Server)
            self.port = site._server.sockets[0].getsockname()[1]
            self._ready.set()

        self._loop.run_until_complete(serve())
        self._loop.run_forever()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        if request.match_info["name"] != "own":
            return web.json_response({"message": "the token of a job is for its own pods"}, status=403)
        link = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=1 << 24)
        await link.prepare(request)
        async for message in link:
            assert message.data[0] == 0
            if message.data[1:] == b"end":
                break
            await link.ping(b"there?")
            half = len(message.data) // 2
            await link.send_bytes(b"\x01" + message.data[1:half])
            await link.send_bytes(b"\x01" + message.data[half:])
        await link.send_bytes(b"\x03" + b'{"status": "Success"}')
        await link.close()
        return link


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as found:
        yield found


def exactly(link: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = link.recv(1 << 16)
        assert part, f"{len(found)} of {count} bytes"
        found += part
    return found


@pytest.mark.parametrize("length", [1, 125, 126, 70_000, 3_000_000])
def test_bytes_pass_both_ways(server: Server, length: int) -> None:
    sent = bytes(range(256)) * (length // 256 + 1)
    with connect(server.api(), "own", ["python", "-m", "pipe it"], 120) as link:
        sending = threading.Thread(target=link.sendall, args=(sent[:length],))  # both ways at once, as steps do
        sending.start()
        assert exactly(link, length) == sent[:length]
        sending.join(120)
    asked = server.asked[-1]
    assert asked.query.getall("command") == ["python", "-m", "pipe it"]
    assert (asked.query["container"], asked.query["stdin"], asked.query["stdout"]) == ("batch", "true", "true")
    assert (asked.headers["Authorization"], asked.headers["Sec-WebSocket-Protocol"]) == ("Bearer secret", PROTOCOL)


def test_the_end_there_is_the_end_here(server: Server) -> None:
    with connect(server.api(), "own", ["true"], 120) as link:
        link.sendall(b"end")
        assert link.recv(1) == b""


def test_a_refusal_is_told_with_the_servers_words(server: Server) -> None:
    with pytest.raises(Broken, match="pod other: the API server does not start a program in it: the token of a job is"):
        connect(server.api(), "other", ["true"], 120)


def test_a_server_that_is_gone_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Broken, match=r"pod own: .*Connect call failed"):
        connect(ApiClient(KubeconfigCluster(server=f"http://127.0.0.1:{port}"), KubeconfigUser()), "own", ["true"], 120)


def test_the_pipe_ends_with_either_side() -> None:
    with socket.create_server(("127.0.0.9", 0)) as listener:
        program = (
            f"import runpy, sys; sys.modules.pop('x', None); from phalanx.slurm.jobs.steps.pods import channel; "
            f"channel.PORT = {listener.getsockname()[1]}; runpy.run_module('{pipe.__name__}', run_name='__main__')"
        )
        for daemon_first in (True, False):
            started = subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env={"PHALANX_POD_IP": "127.0.0.9"},
            )  # fmt: skip
            assert started.stdin is not None
            assert started.stdout is not None
            daemon, _ = listener.accept()
            daemon.sendall(b"from the daemon")
            assert started.stdout.read(15) == b"from the daemon"
            started.stdin.write(b"to it")
            started.stdin.flush()
            assert exactly(daemon, 5) == b"to it"
            if daemon_first:
                daemon.close()
            else:
                started.stdin.close()
                assert daemon.recv(1) == b""
            assert started.wait(120) == 0
            started.stdout.close()


class Refusing(ApiClient):
    def __init__(self, code: int) -> None:
        super().__init__(KubeconfigCluster(server="http://api"), KubeconfigUser())
        self.code = code

    def create(self, path: str, body: object) -> dict[str, object]:
        raise RequestRefused(self.code, "roles are not yours to make")


def test_who_may_give_no_rights_has_jobs_without() -> None:
    secret = {"metadata": {"name": "slurm-7", "uid": "u"}}
    assert give(Refusing(403), ["slurm-7"], [secret]) == ""
    with pytest.raises(RequestRefused, match="not yours"):
        give(Refusing(422), ["slurm-7"], [secret])
