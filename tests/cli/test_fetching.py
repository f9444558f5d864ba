"""Numbers that the scheduler computes, as commands read them."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

from phalanx.cli.cluster.numbers import fetching
from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.model.queue import QueueState


class Server:
    """Answers every request with this, or does not."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, list[tuple[str, Any]]()

    async def request(self, method: str, path: str, params: Any = None) -> Any:
        self.asked.append((path, params))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_what_is_not_served_is_none() -> None:
    for error in (ApiRefusal(404, "NotFound", ""), ApiRefusal(403, "Forbidden", ""), ApiUnknown("away")):
        server: Any = Server(error)
        assert asyncio.run(fetching.fetch_summaries(server)) is None
        assert asyncio.run(fetching.fetch_reasons(server, "ns")) == {}
        assert asyncio.run(fetching.fetch_page(server, "ns/j")) is None


def test_rows_of_all_namespaces_and_with_all_fields() -> None:
    server: Any = Server({"items": []})
    asyncio.run(fetching.fetch_rows(server, "", finished=True, recorded=True))
    asyncio.run(fetching.fetch_rows(server, "ns"))
    (all_, asked), (one, nothing) = server.asked
    assert (all_, asked) == (
        "/apis/visibility.phalanx.dev/v1/namespaces/-/jobs/-/row",
        {"finished": "true", "recorded": "true"},
    )
    assert (one, nothing) == ("/apis/visibility.phalanx.dev/v1/namespaces/ns/jobs/-/row", {})


def test_reasons_are_found_by_the_job() -> None:
    one = {"metadata": {"namespace": "ns", "name": "j"}}
    server: Any = Server({"items": [one]})
    assert asyncio.run(fetching.fetch_reasons(server, "ns")) == {"ns/j": one}


def test_a_summary_is_the_status_of_its_queue() -> None:
    usage = {"flavor": "", "resource": "cpu", "used": "1500m", "lendable": "1", "limit": "2", "borrowed": "500m"}
    summary = {"metadata": {"name": "q"}, "parent": "", "depth": 0, "running": 1, "pending": 2, "fault": "",
               "share": None, "usage": [usage], "state": "open", "heldBy": ""}  # fmt: skip
    found = fetching.standing_of(summary)
    assert (found.queue, found.share, found.state) == ("q", inf, QueueState("open"))
    [one] = found.usage
    assert (one.used, one.lendable, one.limit, one.owned) == (1500, 1000, 2000, True)


def test_a_start_that_is_not_expected_is_none() -> None:
    assert fetching.forecast_of({}) is None
    found = fetching.forecast_of({"expectedStart": "1970-01-01T00:01:00Z"})
    assert found is not None
    assert (found.start_s, found.latest_s) == (60.0, inf)
