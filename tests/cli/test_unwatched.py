"""`cli/views/page/unwatched.py`: facts that are read from time to time, from a server that may be away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from phalanx.cli.cluster.live_state import installation
from phalanx.cli.files.policy_file import settings_from
from phalanx.cli.views.page import unwatched
from phalanx.cli.views.page.unwatched import UnwatchedFacts
from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.dashboard.rows import Facts


class Server:
    """A server with one Lease. `error`: the answer to reads; None: they succeed."""

    def __init__(self, renewed: str = "2026-01-02T03:04:05Z") -> None:
        self.renewed, self.error = renewed, None

    async def get(self, *_: Any) -> Mapping[str, Any]:
        if self.error is not None:
            raise self.error
        return {"spec": {"renewTime": self.renewed}}


def unwatched_facts(server: Any) -> UnwatchedFacts:
    return UnwatchedFacts(server, Facts(), None)


async def test_the_time_of_the_last_renewal_is_kept_while_the_server_is_away() -> None:
    server: Any = Server()
    found = unwatched_facts(server)
    renewed_s = (await found.alive()).alive_s
    assert renewed_s == 1_767_323_045.0
    server.error = ApiUnknown("no answer")
    assert (await found.alive()).alive_s == renewed_s
    server.error = ApiRefusal(404, "NotFound", "there is no Lease")
    assert (await found.alive()).alive_s is None
    assert (await unwatched_facts(Server("soon")).alive()).alive_s is None


async def test_the_policy_is_read_once_a_minute_and_kept_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [settings_from(""), settings_from('{"defaultQueue": "q"}'), ApiUnknown("no answer")]
    usage: list[Any] = [["usage"], TimeoutError()]

    async def settings_of_leader(connection: Any) -> Any:
        return given(answers)

    async def load_usage(connection: Any) -> Any:
        return given(usage)

    def given(values: list[Any]) -> Any:
        value = values.pop(0)
        if isinstance(value, Exception):
            raise value
        return value

    monkeypatch.setattr(installation, "settings_of_leader", settings_of_leader)
    monkeypatch.setattr(unwatched, "load_usage", load_usage)
    found = unwatched_facts(None)
    await found.begin()
    assert found.settings.default_queue == "default"
    await found.reload(0.0)
    await found.reload(59.0)
    assert (found.settings.default_queue, list(found.usage)) == ("q", ["usage"])
    await found.reload(60.0)
    assert (found.settings.default_queue, list(found.usage)) == ("q", ["usage"])
    assert answers == usage == []
