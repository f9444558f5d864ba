"""`kube/world/plan_execution.py`: how the actions of plans reach the gangs, at once or in slices."""

from __future__ import annotations

import pytest

from phalanx.kube.world import plan_execution
from phalanx.model.job import Placement
from phalanx.model.plan import Nominate, Plan, ReleaseNodes, Start, Wait
from phalanx.model.reason import Reason, ReasonCode
from tests import clockwork
from tests.kube.double import job, node
from tests.kube.stage import Stage

LATER = Reason(code=ReasonCode.BACKOFF, text="later")


def test_a_large_plan_is_carried_out_while_the_world_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(*(job(f"j{number}", 1) for number in range(6)))
        async with stage.scheduler():
            await stage.turn()
            told: list[str] = []
            monkeypatch.setattr(stage.world.effects.reporter, "waits", lambda gang, reason: told.append(gang.id))
            monkeypatch.setattr(plan_execution, "MANY", 4)
            plan = Plan(actions=tuple(Wait(f"default/j{number}", LATER) for number in range(6)))
            stage.world.apply(plan)
            assert told == []
            stage.world._reconciler.mark("default/j0")
            await stage.world.wait(None)
            assert told == [f"default/j{number}" for number in range(6)]
            stage.world.apply(plan)
            stage.world.events()  # or at the latest then
            assert len(told) == 12

    clockwork.run(scene())


def test_an_action_about_a_deleted_gang_is_skipped() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("left", 1))
        async with stage.scheduler():
            stage.world.events()
            there = (Placement(0, 0, "n1"),)
            stage.world.apply(Plan(actions=(Start("default/gone", 1, there), Start("default/left", 1, there))))
            await clockwork.settle(20)
            assert stage.api.writes == ["patch jobs/left"]

    clockwork.run(scene())


def test_only_an_action_that_changes_a_gang_reconciles_it() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("j", 1))
        async with stage.scheduler():
            stage.world.events()
            stage.world.apply(Plan(actions=(Wait("default/j", LATER), Nominate("default/j", ()))))
            assert not stage.world._news.is_set()
            stage.world.apply(Plan(actions=(Start("default/j", 1, (Placement(0, 0, "n1"),)),)))
            assert stage.world._news.is_set()

    clockwork.run(scene())


def test_without_node_groups_a_request_for_nodes_is_ignored() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        async with stage.scheduler():
            stage.world.apply(Plan(actions=(ReleaseNodes("", "g", ("n1",)),)))
            assert not stage.world._execution.left

    clockwork.run(scene())
