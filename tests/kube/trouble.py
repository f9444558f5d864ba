"""A stage on which writes fail: invariants that must hold at every step, and jobs that must have run in the end.

For sixty steps every seventh write of the scheduler is lost, refused, or the last one before the scheduler is killed
and another process takes over. Then no write fails any more, and the test checks that all jobs have finished.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from phalanx.client.connection import Object
from tests.kube.stage import Stage

TROUBLED, MOST = 60, 300  # turns


@dataclass(slots=True)
class Trouble:
    """What goes wrong, by a seed. `calm`: nothing fails any more, and nothing new should be asked for."""

    seed: int
    calm: bool = False
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    def fault(self, write: str) -> str | None:
        """Return the fault of a write, in the format of `Stage.fault`."""
        if self.calm or self.dice.random() > 0.15:
            return None
        return self.dice.choice(["kill", "kill after", "lost", "not today"])

    def finish_one(self, stage: Stage) -> None:
        """Let one of the pods that were bound end: now and then, at each turn once it is calm."""
        waiting = [one for one in stage.api.pods() if one["status"]["phase"] == "Pending"]
        bound = [one["metadata"]["name"] for one in waiting if one["spec"].get("nodeName")]
        if bound and (self.calm or self.dice.random() < 0.2):
            stage.finish(self.dice.choice(bound))

    async def plays(self, stage: Stage, happen: Callable[[int], None], wrong: Callable[[], list[object]]) -> None:
        """Let `happen` change what there is before each turn, by its number; `wrong` finds nothing after any."""
        stage.fault = self.fault
        turns = 0
        while turns < MOST and not self._is_over(stage.api.pods()):
            async with stage.scheduler():
                while turns < MOST and not stage.killed and not self._is_over(stage.api.pods()):
                    turns += 1
                    self.calm = turns > TROUBLED
                    stage.now_s += 1.0
                    self.finish_one(stage)
                    happen(turns)
                    await stage.turn()
                    assert wrong() == [], turns

    def _is_over(self, pods: list[Object]) -> bool:
        return self.calm and all(one["status"]["phase"] == "Succeeded" for one in pods)
