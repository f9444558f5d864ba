"""What a command that looks once asks a server that shows its user one namespace and no more."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from phalanx.cli.cluster.live_state import Snapshot, look
from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import JOBS, LIMIT_RANGES, NODES, RESOURCE_QUOTAS, VOLUME_CLAIMS, VOLUMES, Kind
from phalanx.client.tally import Tally
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.labels import REASON
from phalanx.model.job import Placement
from phalanx.model.plan import Nominate, Plan, Wait
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from tests import clockwork
from tests.kube.double import Api, Client, Object, job, node
from tests.kube.stage import Stage

WITHHELD = (LIMIT_RANGES, RESOURCE_QUOTAS, VOLUME_CLAIMS, VOLUMES)


class Shared(Client):
    """A server for a user who may list the namespace `default`, nodes, queues and classes. `asked`: path -> the number
    of requests."""

    lists_by_watch = False
    server = "https://shared"

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.asked, self.tally = Counter[str](), Tally()

    async def create(self, kind: Kind, body: Object, namespace: str = "", subresource: str = "", name: str = "") -> Any:
        return {"status": {"allowed": body["spec"]["resourceAttributes"]["namespace"] == "default"}}

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        raise ApiRefusal(404, "NotFound", f"{kind.plural} {name!r} not found")

    async def request(self, method: str, path: str, **_: Any) -> Any:
        self.asked[path] += 1
        if any(path == kind.path() for kind in WITHHELD):
            raise ApiRefusal(403, "Forbidden", f"you may not list {path}")
        return await super().request(method, path)

    @asynccontextmanager
    async def stream(self, *_: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        await asyncio.Event().wait()  # nothing changes any more
        yield  # type: ignore[misc]  # never reached


def test_what_a_user_may_not_list_is_asked_for_once_and_he_does_not_wait() -> None:
    """The patience of a scheduler, which asks a server that has just started again, is 3.5 s for each command."""

    async def scene() -> None:
        api = Api()
        api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {}})
        api.put(NODES, node("n1", 16))
        api.put(JOBS, job("his", 2))
        shared: Any = Shared(api)
        began_s = asyncio.get_running_loop().time()
        snapshot = await look(shared, "default")
        assert snapshot.partial
        assert list(snapshot.jobs) == ["default/his"]
        assert {kind.plural: shared.asked[kind.path()] for kind in WITHHELD} == {kind.plural: 1 for kind in WITHHELD}
        assert asyncio.get_running_loop().time() - began_s < 0.5

    clockwork.run(scene())


def test_what_only_the_scheduler_knows_about_requested_nodes_is_what_it_wrote() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)])
        texts = {
            "waits": "WaitingForNodes: waits for 2 nodes of spot, requested at 14:02:00 UTC, expected at 14:06:00 UTC",
            "failed": "NoRoom: no room; 2 nodes of spot, requested at 14:02:00 UTC, did not arrive by 14:17:00 UTC",
            "other": "NoRoom: these numbers are old",
            "limited": "WaitingForNodes: waits for 2 nodes of spot, requested at 14:02:00 UTC",
        }
        for name, text in texts.items():
            body = job(name, 2)
            body["metadata"]["annotations"] = {REASON: text}
            stage.put(body)
        async with stage.scheduler():
            short = Reason(code=ReasonCode.NO_ROOM, text="no room", more_nodes_help=True)
            limit = Reason(code=ReasonCode.QUEUE_LIMIT, text="no quota")
            reasons = {name: limit if name == "limited" else short for name in texts}
            seen = Snapshot(
                cluster=stage.cluster,
                events=(),
                plan=Plan(tuple(Wait(f"default/{name}", reason) for name, reason in reasons.items())),
                gangs=stage.world.gangs,
                objects={},
                wrong={},
                now_s=stage.now_s,
            )
            found = {name: seen.reasons[f"default/{name}"] for name in texts}
            assert found["waits"].code is ReasonCode.WAITING_FOR_NODES
            assert found["failed"].text.endswith("did not arrive by 14:17:00 UTC")
            assert (found["other"], found["limited"]) == (short, limit)

    clockwork.run(scene())


def test_a_job_is_promised_only_what_exists_or_was_promised() -> None:
    """Of three nominated jobs one waits for its victims, one for nodes that an autoscaler has promised, and one for
    nodes that were only requested."""
    cluster = Cluster()
    cluster.columns.groups.granted.add("promised")
    waits = Reason(code=ReasonCode.WAITING_FOR_NODES, text="waits for nodes")
    nominations = [Nominate(name, (Placement(0, 0, "n1"),)) for name in ("victims", "promised", "requested")]
    seen = Snapshot(
        cluster=cluster,
        events=(),
        plan=Plan((*nominations, Wait("promised", waits), Wait("requested", waits))),
        gangs={},
        objects={},
        wrong={},
        now_s=0.0,
    )
    assert seen.nominated == {"victims", "promised"}
