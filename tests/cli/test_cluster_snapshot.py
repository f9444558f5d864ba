"""`cli/cluster/live_state/cluster_snapshot.py`: what a snapshot shows of nominations and of requested nodes."""

from __future__ import annotations

from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.kube.read.labels import REASON
from phalanx.model.job import Placement
from phalanx.model.plan import Nominate, Plan, Wait
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from tests import clockwork
from tests.kube.double import job, node
from tests.kube.stage import Stage


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
