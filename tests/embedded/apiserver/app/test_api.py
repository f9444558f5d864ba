"""`apiserver/app/api.py`: the steps of a request, and what a client gets if one of them fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apimachinery.fair_queue import TooManyRequests
from phalanx.embedded.apiserver.transport.request import Response
from tests.embedded.apiserver.app.ada import MAPS, SPACE, answered, as_ada, grant, rule
from tests.embedded.apiserver.inprocess import InProcess, Scene, played


def test_a_defect_is_answered_by_500_and_harms_no_other_request(
    play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(server: InProcess) -> None:
        async def broken(*about: Any) -> Response:
            raise KeyError("spec")

        with monkeypatch.context() as patched:
            patched.setattr(server.api.engine.reader, "show", broken)
            found = await server.ask("GET", MAPS)
        assert found.code == 500
        assert (found.body["reason"], found.body["status"]) == ("InternalError", "Failure")
        assert "spec" not in found.body["message"], "the client gets no details"
        assert f"GET {MAPS}" in caplog.text
        assert "KeyError: 'spec'" in caplog.text
        assert (await server.ask("GET", MAPS)).code == 200

    play(scene)


def test_a_refusal_is_a_status_in_the_form_that_the_client_accepts(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        found = await answered(server, "GET", f"{MAPS}/gone", accept="application/yaml")
        assert (found.code, found.media) == (404, "application/yaml")
        assert b"reason: NotFound\n" in found.body
        found = await answered(server, "GET", f"{MAPS}/gone", accept="text/html")
        assert found.code == 406
        assert json.loads(found.body)["kind"] == "Status", "an error has no other form than JSON then"

    play(scene)


def test_a_wrong_token_is_refused_before_anything_else(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        for path in (MAPS, "/no/such/path", "/healthz"):
            assert (await InProcess(server.api, "wrong").ask("GET", path)).code == 401, path

    play(scene)


def test_rights_are_checked_before_the_path(play: Callable[[Scene], None]) -> None:
    """A user learns nothing of what exists, as from kube-apiserver."""

    async def scene(server: InProcess) -> None:
        ada = as_ada(server)
        for path in (f"{MAPS}/gone", "/api/v1/things", "/apis/batch/v1/namespaces/default/jobs/j/nothing", "/metrics"):
            assert (await ada.ask("GET", path)).code == 403, path
            assert (await answered(server, "GET", path)).code == 404, path

    play(scene)


def test_a_method_that_a_path_does_not_have_is_refused(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        assert (await server.ask("PUT", MAPS, {})).code == 405
        assert (await server.ask("POST", f"{MAPS}/m", {})).code == 405

    play(scene)


def test_a_busy_server_asks_its_users_to_come_again(
    play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(server: InProcess) -> None:
        async def full(payer: str, work: Any) -> Response:
            work.close()
            raise TooManyRequests

        monkeypatch.setattr(server.api._turns, "run", full)
        request = as_ada(server).request("GET", MAPS)
        found = await server.api(request)
        assert (found.code, found.body) == (429, b"Too many requests, please try again later.\n")
        assert found.headers == ((b"retry-after", b"1"),)
        assert (await server.ask("GET", MAPS)).code == 200, "admins and the control plane do not wait in line"

    play(scene)


def test_each_warning_is_sent_once(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        found = await server.ask("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "m"}, "colour": 1})
        assert found.code == 201
        assert found.warnings == ('unknown field "colour"',)
        refused = await server.ask("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "M"}, "colour": 1})
        assert refused.code == 422
        assert refused.warnings == ('unknown field "colour"',), "also with a refusal"

    play(scene)


def test_a_stream_into_a_pod_needs_the_right_to_create_it(play: Callable[[Scene], None]) -> None:
    """A WebSocket begins with GET; kube-apiserver asks for `create` since 1.35."""

    async def scene(server: InProcess) -> None:
        await grant(server, "streams", rule("pods/exec", "get"))
        await server.make(
            f"{SPACE}/pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        )
        found = await as_ada(server).ask("GET", f"{SPACE}/pods/p/exec?command=id&stdout=1")
        assert found.code == 403
        assert 'cannot create resource "pods/exec"' in found.body["message"]

    play(scene)


def test_after_the_shutdown_all_writes_are_there(tmp_path: Path) -> None:
    async def write(server: InProcess) -> None:
        await server.make(MAPS, {"metadata": {"name": "m"}})

    async def read(server: InProcess) -> None:
        assert (await server.ask("GET", f"{MAPS}/m")).code == 200

    for scene in (write, read):
        with played(tmp_path / "data") as playing:
            playing(scene)
