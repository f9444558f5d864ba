"""The node agent makes probes, as root on a shared machine: the addresses that probes may connect to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from phalanx.embedded.node.container.attempt import Attempt, RunSpec
from phalanx.embedded.node.container.probe import check


def checked(folder: Path, probe: dict[str, Any], *, confined: bool) -> tuple[bool, str, list[str]]:
    """Return the result of a probe of a pod at 127.0.0.1, and the requests that arrived there and at a neighbour at
    127.0.0.2. `PORT` in a probe is replaced by the port on which both listen."""
    asked: list[str] = []

    async def run() -> tuple[bool, str]:
        async def answer(request: web.Request) -> web.Response:
            asked.append(f"{request.host.partition(':')[0]}{request.path}")
            if request.path == "/away":
                raise web.HTTPFound(f"http://127.0.0.2:{port}/")
            return web.Response()

        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        await web.TCPSite(runner, "127.0.0.2", port).start()
        given = {kind: {**said, "port": port} for kind, said in probe.items()}
        try:
            return await check({**given, "timeoutSeconds": 100}, attempt, "127.0.0.1", {})
        finally:
            await runner.cleanup()

    attempt = Attempt(folder, 0)
    attempt.path("spec.json").write_bytes(msgspec.json.encode(RunSpec(argv=("true",), env={}, confined=confined)))
    good, said = asyncio.run(run())
    return good, said, asked


@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket"])
def test_on_a_machine_that_is_shared_a_probe_asks_its_own_pod_alone(tmp_path: Path, kind: str) -> None:
    good, said, asked = checked(tmp_path, {kind: {"host": "127.0.0.2"}}, confined=True)
    assert (good, asked) == (False, [])
    assert said == "127.0.0.2 is not the pod's own address: on a shared machine, other hosts are not probed"
    assert checked(tmp_path, {kind: {"host": "127.0.0.1"}}, confined=True)[0]
    assert checked(tmp_path, {kind: {"host": "127.0.0.2"}}, confined=False)[0]


def test_nobody_sends_a_probe_elsewhere(tmp_path: Path) -> None:
    """A redirection is an answer, and is not followed."""
    good, _, asked = checked(tmp_path, {"httpGet": {"path": "/away"}}, confined=True)
    assert (good, asked) == (True, ["127.0.0.1/away"])
