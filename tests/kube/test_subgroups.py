"""A gang of groups: optional pods of a group do not delay its start."""

from __future__ import annotations

import json

from phalanx.model.job import Phase
from tests.kube.double import Object, job, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

GROUPS = [{"name": "all", "minimum": 2}] + [{"name": name, "parent": "all"} for name in ("a", "b", "c")]


def replica(name: str) -> Object:
    """One of three Jobs of two pods, each a group of its own."""
    made = job(f"serve-{name}", 2, job="serve", job_roles="3", subgroup=name)
    made["metadata"]["annotations"] = {"phalanx.dev/subgroups": json.dumps(GROUPS)}
    return made


def test_two_of_three_replicas_start_and_the_third_follows_whole_when_there_is_room() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(*map(replica, "abc"))
        async with stage.scheduler():
            await stage.until(lambda: "default/serve" in stage.cluster.jobs and stage.phase("serve") is Phase.RUNNING)
            bound = stage.api.bound()
            assert len(bound) == 4
            assert {name.rsplit("-", 1)[0] for name in bound} == {"serve-a", "serve-b"}
        async with stage.scheduler():
            await stage.until(lambda: "default/serve" in stage.cluster.jobs)
            stage.now_s += 3600.0
            await settle(stage)
            assert stage.phase("serve") is Phase.RUNNING
            stage.put_node(node("n2", 1))
            stage.now_s += 3600.0
            await settle(stage)
            assert len(stage.api.bound()) == 4  # half a replica is of no use
            stage.put_node(node("n3", 1))
            await stage.until(lambda: len(stage.api.bound()) == 6)
            assert len({name.rsplit("-", 1)[0] for name in stage.api.bound()}) == 3

    play(scene())
