"""Programs and web servers as providers: their documents, their errors, and the removal of empty nodes alone."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from phalanx.providers.counted import calls
from phalanx.providers.counted.called import Program
from phalanx.providers.counted.calls import CountedProvider, Documents
from phalanx.providers.provider import ProviderError, Requested, Status

EXAMPLES = Path(__file__).parents[2] / "examples" / "autoscaling"


class Listed:
    """A provider that lists these nodes, and refuses those."""

    name = "the test"

    def __init__(self, *nodes: dict[str, str], **refused: str) -> None:
        self.nodes, self.refused = list(nodes), refused
        self.calls: list[dict[str, Any]] = []
        self.lost = 0  # answers that are lost

    async def call(self, call: str, group: str, body: bytes) -> bytes:
        said = json.loads(body)
        assert (said["apiVersion"], said["call"], said["group"], group) == ("phalanx.dev/v1", call, "g", "g")
        if call == "status":
            return json.dumps({"nodes": self.nodes}).encode()
        self.calls.append({key: said[key] for key in ("count", "add", "remove", "providerIDs")})
        if self.lost:
            self.lost -= 1
            raise ProviderError("lost")
        return json.dumps({"refused": self.refused}).encode()


def called(by: Listed) -> CountedProvider:
    return CountedProvider(Documents(by), lambda name: f"id://{name}" if name.startswith("ip-") else "")


def starting(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "state": "starting", "since": "1970-01-01T00:15:00Z"} for name in names]


def test_scale_has_the_number_of_nodes_and_their_names() -> None:
    by = Listed(
        {"name": "g-1", "state": "running", "node": "ip-1"}, {"name": "g-2", "state": "failed"}, **{"g-4": "no"}
    )
    refused = asyncio.run(called(by).scale("g", ["g-3", "g-4"], ["ip-1", "ip-9"]))
    ids = {"g-1": "id://ip-1", "ip-9": "id://ip-9"}
    assert by.calls == [{"count": 2, "add": ["g-3", "g-4"], "remove": ["g-1", "ip-9"], "providerIDs": ids}]
    assert refused == {"g-4": "no"}


def test_a_repeated_call_has_the_same_number_of_nodes() -> None:
    async def scene() -> None:
        by = Listed({"name": "own-1", "state": "running"})
        provider, by.lost = called(by), 1
        with pytest.raises(ProviderError):
            await provider.scale("g", ["g-1", "g-2"], ())
        by.nodes += starting("own-2", "own-3")  # the call had arrived
        await provider.scale("g", ["g-1", "g-2"], ())
        assert [each["count"] for each in by.calls] == [3, 3]
        status = await provider.status("g")
        assert [each.name for each in status.requested] == ["g-1", "g-2"], "its nodes stand for the requested ones"
        await provider.scale("g", (), ["g-2"])
        assert by.calls[-1] == {"count": 2, "add": [], "remove": ["own-3"], "providerIDs": {}}, "what stands for g-2"

    asyncio.run(scene())


def test_nodes_that_have_arrived_take_the_names_that_were_requested_first() -> None:
    """As in the scheduler. Otherwise a request that is late would not be cancelled."""

    async def scene() -> None:
        by = Listed()
        provider = called(by)
        await provider.scale("g", ["g-1", "g-2"], ())
        by.nodes = [{"name": "own-1", "state": "running"}, *starting("own-2")]
        assert [each.name for each in (await provider.status("g")).requested] == ["g-2"]
        await provider.scale("g", (), ["g-2"])
        assert by.calls[-1] == {"count": 1, "add": [], "remove": ["own-2"], "providerIDs": {}}

    asyncio.run(scene())


def test_a_node_that_is_lost_before_it_runs_has_failed() -> None:
    """A node that was never listed may be listed later."""

    async def scene() -> None:
        by = Listed()
        provider = called(by)
        await provider.scale("g", ["g-1", "g-2", "g-3"], ())
        assert (await provider.status("g")).failed == {}
        by.nodes = starting("own-1", "own-2", "own-3")
        provider = called(by)
        await provider.scale("g", ["g-1", "g-2", "g-3"], ())
        assert len((await provider.status("g")).requested) == 3
        by.nodes = [{"name": "own-1", "state": "running"}, *starting("own-3")]
        status = await provider.status("g")
        assert [each.name for each in status.requested] == ["g-3"]
        assert status.failed == {"g-2": "the provider no longer lists it"}

    asyncio.run(scene())


def test_status_names_nodes_that_start_and_nodes_that_failed() -> None:
    async def scene() -> Status:
        by = Listed(*starting("g-1"), {"name": "g-2", "state": "failed", "message": "no\n capacity\x1b[31m"})
        return await called(by).status("g")

    found = asyncio.run(scene())
    assert (found.requested, found.failed) == ((Requested("g-1", 900.0),), {"g-2": "no capacity[31m"})


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"{", "the answer of the test cannot be read: "),
        (b'{"nodes": 1}', "Expected `array`, got `int`"),
        (
            b'{"nodes": [{"name": "a", "state": "asleep"}]}',
            "'asleep' of node 'a' is not one of starting, running, failed",
        ),
        (b'{"nodes": [{"name": "a", "state": "starting", "since": "now"}]}', "`since` of node 'a'"),
        (
            b'{"nodes": [%s]}' % b",".join([b'{"name": "a", "state": "running"}'] * 3),
            "it lists 3 nodes, and at most 2",
        ),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error(answer: bytes, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(Listed):
        async def call(self, call: str, group: str, body: bytes) -> bytes:
            return answer

    monkeypatch.setattr(calls, "MOST_NODES", 2)
    with pytest.raises(ProviderError) as caught:
        asyncio.run(called(Wrong()).status("g"))
    assert error in str(caught.value)


@pytest.mark.slow
def test_the_example_program_switches_machines_on_and_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a program in place of ipmitool."""
    fake = tmp_path / "fake"
    fake.write_text(
        f"#!/bin/sh\ncd {tmp_path}\ncase $4 in on) touch $1.on;; off) rm -f $1.on;; status)\n"
        '[ -e $1.on ] && echo "Chassis Power is on" || echo "Chassis Power is off";; esac\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("POWER_PROGRAM", str(fake))
    machines = tmp_path / "machines.json"
    machines.write_text(json.dumps({"g": {"gpu-1": "10.0.0.1", "gpu-2": "10.0.0.2"}}))
    by = Program((sys.executable, "-S", str(EXAMPLES / "exec-provider.py"), str(machines)), 30.0)

    def on() -> list[str]:
        return sorted(each.name for each in tmp_path.glob("*.on"))

    async def scene() -> None:
        provider = CountedProvider(Documents(by), lambda name: "")
        assert await provider.scale("g", ["g-1"], ()) == {}
        assert await provider.scale("g", ["g-1"], ()) == {}
        assert on() == ["10.0.0.1.on"]
        assert await provider.scale("g", ["g-2", "g-3"], ()) == {"g-3": "all 2 machines are on"}
        assert await provider.scale("g", (), ["gpu-1", "g-2"]) == {}, "the name of a Node object, and of a request"
        assert on() == []
        with pytest.raises(ProviderError, match=r"machines\.json has no group h"):
            await provider.status("h")

    asyncio.run(scene())
    assert os.access(EXAMPLES / "exec-provider.py", os.X_OK)
