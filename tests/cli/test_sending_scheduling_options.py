"""`cli/submission/sending.py`: sending objects to the API, after a look at what would let them wait for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from phalanx.cli.submission.sending import not_known, require_class
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.errors import PhalanxError


class Cluster(Connection):
    """A server with the PriorityClass `high`, the Job lab/there and the gang lab/gang, or a server that refuses all
    lists."""

    def __init__(self, closed: bool = False) -> None:
        super().__init__("https://cluster", headers={}, tls=None)
        self.closed = closed

    async def request(self, method: str, path: str, **how: Any) -> Any:
        if self.closed:
            raise ApiRefusal(403, "Forbidden", "no")
        if path.endswith("/priorityclasses"):
            return {"metadata": {}, "items": [{"metadata": {"name": "high"}, "value": 100}]}
        if path.endswith("/pods") and how["params"]["labelSelector"] == "phalanx.dev/job=gang":
            return {"items": [{}]}
        if path.endswith(("/pods", "/jobs")):
            return {"items": []}
        if path.endswith("/lab/jobs/there"):
            return {"metadata": {"name": "there"}}
        raise ApiRefusal(404, "NotFound", "not found")


def test_a_priority_class_that_does_not_exist_is_refused_with_those_that_do() -> None:
    asyncio.run(require_class(Cluster(), "high"))
    asyncio.run(require_class(Cluster(closed=True), "hihg"))
    with pytest.raises(PhalanxError, match=r"--priority hihg: there is no such PriorityClass.*: high \(100\)\."):
        asyncio.run(require_class(Cluster(), "hihg"))


def test_a_job_to_be_waited_for_that_is_not_there_is_a_warning() -> None:
    assert asyncio.run(not_known(Cluster(), ("there", "gang:any"), "lab")) == []
    assert asyncio.run(not_known(Cluster(closed=True), ("nobody",), "lab")) == []
    [warning] = asyncio.run(not_known(Cluster(), ("there", "theer:any"), "lab"))
    assert warning.startswith("there is no job lab/theer now: the dependency waits until a job with this name exists")
